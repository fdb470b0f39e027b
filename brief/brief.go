// Package brief formats the answers of tools for agents. An answer has three layers, each a pure
// function of the previous one:
//
//  1. the result: everything the tool found out. The full format and the file contain it.
//  2. the snapshot: what a decision needs, with a one-line verdict, a few numbers and short lists.
//     It has the same keys
//     whether the tool succeeded or failed.
//  3. the flags: what needs attention, derived from the snapshot alone and sorted by severity.
//
// Together they form an [Answer]. An agent's answer has at most [MaxAgentBytes] of JSON ([Fit]) and
// never contains numbers that are NaN or infinite ([Finite], [Number]). Two flags do not come from
// the snapshot but are added here: file_not_saved, if the full result could not be saved, and
// brief_shortened, if entries were omitted to keep the answer short. The package does no I/O: the
// caller passes a [Saver].
package brief

import (
	"fmt"
	"slices"
	"strings"
)

// Severity is how important a flag is.
type Severity string

const (
	Error   Severity = "error"
	Warning Severity = "warning"
	Info    Severity = "info"
	Success Severity = "success"
)

// rank orders severities; an unknown one counts as info.
func (s Severity) rank() int {
	switch s {
	case Error:
		return 0
	case Warning:
		return 1
	case Success:
		return 3
	}
	return 2
}

// Flag is something that needs attention. Its name is for programs, its message for the agent or
// person who decides.
type Flag struct {
	Flag     string   `json:"flag"`
	Severity Severity `json:"severity"`
	Message  string   `json:"message"`
}

// Sort returns the flags sorted by severity: error, warning, info, success. Flags of the same
// severity keep their order. The result is never nil, so that it is encoded as [].
func Sort(flags []Flag) []Flag {
	sorted := append(make([]Flag, 0, len(flags)), flags...)
	slices.SortStableFunc(sorted,
		func(a, b Flag) int { return a.Severity.rank() - b.Severity.rank() })
	return sorted
}

// Status reports whether the tool succeeded.
type Status string

const (
	StatusSuccess Status = "success"
	StatusError   Status = "error"
)

// StatusOf returns StatusSuccess for the text "success" and StatusError for any other.
func StatusOf(text string) Status {
	if text == string(StatusSuccess) {
		return StatusSuccess
	}
	return StatusError
}

// Format selects how much of a result an answer contains, and in which form.
type Format string

const (
	FormatAgent   Format = "agent"   // snapshot and flags
	FormatSummary Format = "summary" // the result without its long details
	FormatFull    Format = "full"    // the result
	FormatReport  Format = "report"  // Markdown, for people
)

// Formats returns the formats in the order in which they are documented.
func Formats() []Format { return []Format{FormatAgent, FormatSummary, FormatFull, FormatReport} }

// ParseFormat parses the name of a format. The error lists the valid names.
func ParseFormat(text string) (Format, error) { return parseName("format", text, Formats()) }

// Output selects where the full result goes.
type Output string

const (
	OutputInline Output = "inline" // only into the answer
	OutputFile   Output = "file"   // into a file, whose path is in the answer
)

// Outputs returns the outputs in the order in which they are documented.
func Outputs() []Output { return []Output{OutputInline, OutputFile} }

// ParseOutput parses the name of an output. The error lists the valid names.
func ParseOutput(text string) (Output, error) { return parseName("output", text, Outputs()) }

func parseName[T ~string](what, text string, known []T) (T, error) {
	if slices.Contains(known, T(text)) {
		return T(text), nil
	}
	names := make([]string, len(known))
	for i, name := range known {
		names[i] = string(name)
	}
	return "", fmt.Errorf("unknown %s %q: use %s", what, cut(text, 40), strings.Join(names, ", "))
}

// cut shortens text to at most limit characters. A shortened text ends in "…".
func cut(text string, limit int) string {
	count := 0
	last := 0 // the end of the text that leaves room for the ellipsis
	for i := range text {
		if count == limit-1 {
			last = i
		}
		if count == limit {
			return text[:last] + "…"
		}
		count++
	}
	return text
}
