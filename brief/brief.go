// Package brief is the form of every answer that a tool gives to an agent. An answer has three layers, each a
// pure function of the one before:
//
//  1. the result: all that the tool knows; the full format and the file have it.
//  2. the snapshot: what a decision needs, with a one-line verdict, a few numbers and short lists. It has the
//     same keys when the tool succeeded and when it failed.
//  3. the flags: what to look at, from the snapshot alone, sorted by severity.
//
// Composed they are an [Answer]. An agent's answer is at most [MaxAgentBytes] of JSON whatever comes in ([Fit]),
// and numbers that are NaN or infinite never reach JSON ([Finite], [Number]). Two flags are facts of the
// composition and not of the snapshot, and the composer adds them: the full result could not be saved
// (file_not_saved), and entries were left out to keep the answer short (brief_shortened). The package does no I/O:
// saving is injected ([Saver]).
package brief

import (
	"fmt"
	"slices"
	"strings"
)

// Severity says how much a flag matters.
type Severity string

const (
	Error   Severity = "error"
	Warning Severity = "warning"
	Info    Severity = "info"
	Success Severity = "success"
)

// rank orders severities; one that is not known counts as info.
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

// Flag is one thing to look at. Its name is for programs, its message for whoever decides.
type Flag struct {
	Flag     string   `json:"flag"`
	Severity Severity `json:"severity"`
	Message  string   `json:"message"`
}

// Sort returns the flags by severity: error, warning, info, success. Flags of one severity keep their order. The
// result is never nil, so that it is [] in JSON.
func Sort(flags []Flag) []Flag {
	sorted := append(make([]Flag, 0, len(flags)), flags...)
	slices.SortStableFunc(sorted, func(a, b Flag) int { return a.Severity.rank() - b.Severity.rank() })
	return sorted
}

// Status says whether the tool did its job.
type Status string

const (
	StatusSuccess Status = "success"
	StatusError   Status = "error"
)

// StatusOf is success for the text "success", and error for every other.
func StatusOf(text string) Status {
	if text == string(StatusSuccess) {
		return StatusSuccess
	}
	return StatusError
}

// Format names how much of a result an answer has, and in which form.
type Format string

const (
	FormatAgent   Format = "agent"   // snapshot and flags
	FormatSummary Format = "summary" // the result without its long details
	FormatFull    Format = "full"    // the result
	FormatReport  Format = "report"  // Markdown, for people
)

// Formats lists the formats in the order in which they are documented.
func Formats() []Format { return []Format{FormatAgent, FormatSummary, FormatFull, FormatReport} }

// ParseFormat reads the name of a format; the error lists them.
func ParseFormat(text string) (Format, error) { return parseName("format", text, Formats()) }

// Output says where the full result goes.
type Output string

const (
	OutputInline Output = "inline" // nowhere but the answer
	OutputFile   Output = "file"   // into a file, which the answer names
)

// Outputs lists the outputs in the order in which they are documented.
func Outputs() []Output { return []Output{OutputInline, OutputFile} }

// ParseOutput reads the name of an output; the error lists them.
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

// cut shortens a text to at most limit characters; one that lost something ends in "…".
func cut(text string, limit int) string {
	count := 0
	last := 0 // where the text ends that leaves room for the mark
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
