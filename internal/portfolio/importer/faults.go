package importer

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"
)

// maxFaults is how many faults one error carries: enough to see a pattern, few enough to read.
const maxFaults = 50

// Fault is one thing in a file that was not understood.
type Fault struct {
	File string
	// Line and Column count from 1; Column counts bytes.
	Line, Column int
	// Message says what stands there and what was expected.
	Message string
}

func (f Fault) String() string {
	return fmt.Sprintf("%s:%d:%d: %s", f.File, f.Line, f.Column, f.Message)
}

// FaultsError refuses a file. The caller should show all faults: one edit of the file can mend them together.
type FaultsError struct {
	Faults []Fault
	// More counts the faults beyond those listed.
	More int
}

func (e *FaultsError) Error() string {
	lines := make([]string, 0, len(e.Faults)+1)
	for _, f := range e.Faults {
		lines = append(lines, f.String())
	}
	if e.More > 0 {
		lines = append(lines, fmt.Sprintf("and %d more", e.More))
	}
	return strings.Join(lines, "\n")
}

// place is a position in the file that is being read.
type place struct{ line, col int }

// faults collects until the file is read through.
type faults struct {
	file string
	list []Fault
	more int
}

func (f *faults) add(at place, format string, args ...any) {
	if len(f.list) == maxFaults {
		f.more++
		return
	}
	for i, a := range args {
		if s, ok := a.(string); ok {
			args[i] = clip(s, 400)
		}
	}
	f.list = append(f.list, Fault{f.file, max(at.line, 1), max(at.col, 1), clip(fmt.Sprintf(format, args...), 1200)})
}

// clip keeps a message readable when the file has a field of ten megabytes.
func clip(s string, limit int) string {
	if len(s) <= limit {
		return s
	}
	for limit > 0 && !utf8.RuneStart(s[limit]) {
		limit--
	}
	return s[:limit] + "…"
}

// placedError is an error that knows where in the file it is.
type placedError struct {
	at place
	error
}

// placeOf is where an error is, or the beginning of the file.
func placeOf(err error) place {
	if p, ok := errors.AsType[placedError](err); ok {
		return p.at
	}
	return place{1, 1}
}

func (f *faults) count() int { return len(f.list) + f.more }

func (f *faults) err() error {
	if len(f.list) == 0 {
		return nil
	}
	// Halves of a split are judged only after the last record.
	slices.SortStableFunc(f.list, func(a, b Fault) int { return cmp.Or(a.Line-b.Line, a.Column-b.Column) })
	return &FaultsError{Faults: f.list, More: f.more}
}
