// Package answer composes the answers of the two portfolio tools for agents and people:
// [ExitResult] → [ExitSnapshot] → flags for check_exit_signals, and [HarvestResult] →
// [HarvestSnapshot] → flags for suggest_tax_loss_harvest, each also as a summary and as a report in
// Markdown. It is pure. The names of fields and flags, severities, thresholds, the lengths of lists
// and many messages are a contract with agents that read them.
//
// Losses are negative; limits, minima and disallowed amounts are not. Messages use absolute values,
// so a result with positive losses has the same messages.
package answer

import (
	"cmp"

	"signalbox/brief"
)

// Prefixes of the names of files with full results; see [brief.FileName].
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
	}
}

// Problem is the kind of error of a failed result, and what to do about it.
type Problem struct {
	// ErrorKind is the name of an additional flag. It may be empty.
	ErrorKind string `json:"error_kind,omitempty"`
	ErrorHint string `json:"error_hint,omitempty"`
}

// problemFlag returns the flag for the problem of a failed answer, with the hint as its message.
func problemFlag(kind, hint string) []brief.Flag {
	if kind == "" {
		return nil
	}
	return []brief.Flag{{Flag: kind, Severity: brief.Error,
		Message: cmp.Or(hint, "see the verdict")}}
}

// list returns the items, never nil, so that an empty list is [] in JSON.
func list[T any](items []T) []T {
	if items == nil {
		return []T{}
	}
	return items
}

// first returns at most n of the items.
func first[T any](items []T, n int) []T { return items[:min(n, len(items))] }
