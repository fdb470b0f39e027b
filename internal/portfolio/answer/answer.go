// Package answer turns what the two portfolio tools found into answers for agents and people: for
// check_exit_signals [ExitResult] → [ExitSnapshot] → flags, for suggest_tax_loss_harvest [HarvestResult] → [HarvestSnapshot] → flags,
// and of each a summary and a report in Markdown. All of it is pure. The names of fields and flags, severities, messages, thresholds
// and the lengths of lists are a contract with agents that already read them.
//
// Losses are negative, as the tools' readers know them; limits, minima and disallowed amounts are not. Messages use
// the absolute value, so a result with positive losses reads the same.
package answer

import "signalbox/brief"

// Names of the files that hold full results; see [brief.FileName].
const (
	ExitFilePrefix    = "exit_signals"
	HarvestFilePrefix = "tax_harvest"
)

// ExitTool composes the answers of check_exit_signals.
func ExitTool() brief.Tool[ExitResult, ExitSnapshot] {
	return brief.Tool[ExitResult, ExitSnapshot]{
		Snapshot: SnapshotExit,
		Flags:    FlagsExit,
		Status:   func(s ExitSnapshot) brief.Status { return brief.StatusOf(s.Status) },
		Summary:  func(r ExitResult) any { return SummaryExit(r) },
		Report:   ReportExit,
		WithStatus: func(r ExitResult, status brief.Status) ExitResult {
			r.Status = string(status)
			return r
		},
	}
}

// HarvestTool composes the answers of suggest_tax_loss_harvest.
func HarvestTool() brief.Tool[HarvestResult, HarvestSnapshot] {
	return brief.Tool[HarvestResult, HarvestSnapshot]{
		Snapshot: SnapshotHarvest,
		Flags:    FlagsHarvest,
		Status:   func(s HarvestSnapshot) brief.Status { return brief.StatusOf(s.Status) },
		Summary:  func(r HarvestResult) any { return SummaryHarvest(r) },
		Report:   ReportHarvest,
		WithStatus: func(r HarvestResult, status brief.Status) HarvestResult {
			r.Status = string(status)
			return r
		},
	}
}

// Problem is what kind of error a failed result is about, and what to do about it.
type Problem struct {
	// ErrorKind is the name of a flag, beside the one that every failure has. It may be empty.
	ErrorKind string `json:"error_kind,omitempty"`
	ErrorHint string `json:"error_hint,omitempty"`
}

// problemFlag names the problem of a failed answer, for programs, and says what to do.
func problemFlag(kind, hint string) []brief.Flag {
	if kind == "" {
		return nil
	}
	return []brief.Flag{{Flag: kind, Severity: brief.Error, Message: or(hint, "see the verdict")}}
}

// or is the text, or the default if it is empty.
func or(text, otherwise string) string {
	if text == "" {
		return otherwise
	}
	return text
}

// list is the items, never nil, so that an empty one is [] in JSON.
func list[T any](items []T) []T {
	if items == nil {
		return []T{}
	}
	return items
}

// first is at most n of the items.
func first[T any](items []T, n int) []T { return items[:min(n, len(items))] }
