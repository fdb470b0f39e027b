// Package answer composes the answers of the portfolio tools for agents and people, such as
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
	"fmt"
	"reflect"

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

// flagList collects the flags of an answer.
type flagList []brief.Flag

func (flags *flagList) add(name string, severity brief.Severity, format string, args ...any) {
	*flags = append(*flags, brief.Flag{Flag: name, Severity: severity,
		Message: fmt.Sprintf(format, args...)})
}

// addProblem returns the flags, with that of the problem of a failed answer: the hint is its
// message.
func (flags *flagList) addProblem(kind, hint string) []brief.Flag {
	if kind != "" {
		flags.add(kind, brief.Error, "%s", cmp.Or(hint, "see the verdict"))
	}
	return *flags
}

// optionPricesFormat is the message about options whose price and purchase have different units.
const optionPricesFormat = "Prices of options are per contract, 100 times the quote per share; check %s%s"

// changeLists replaces every list in the struct that result points to.
func changeLists(result any, change func(list reflect.Value) reflect.Value) {
	for _, field := range reflect.ValueOf(result).Elem().Fields() {
		if field.Kind() == reflect.Slice {
			field.Set(change(field))
		}
	}
}

// notNil returns the list, never nil, so that an empty list is [] in JSON.
func notNil(list reflect.Value) reflect.Value {
	if list.IsNil() {
		return reflect.MakeSlice(list.Type(), 0, 0)
	}
	return list
}

// first returns at most n of the items.
func first[T any](items []T, n int) []T { return items[:min(n, len(items))] }
