package importer

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
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
	f.list = append(f.list, Fault{f.file, max(at.line, 1), max(at.col, 1), fmt.Sprintf(format, args...)})
}

func (f *faults) err() error {
	if len(f.list) == 0 {
		return nil
	}
	// Halves of a split are judged only after the last record.
	slices.SortStableFunc(f.list, func(a, b Fault) int { return cmp.Or(a.Line-b.Line, a.Column-b.Column) })
	return &FaultsError{Faults: f.list, More: f.more}
}
