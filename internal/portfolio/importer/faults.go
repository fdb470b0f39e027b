package importer

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"signalbox/internal/text"
)

// maxFaults is how many faults an error lists: enough to see a pattern, few enough to read.
const maxFaults = 50

// Fault is one thing in a file that could not be read.
type Fault struct {
	File string
	// Line and Column count from 1; Column counts bytes.
	Line, Column int
	// Message says what was found and what was expected.
	Message string
}

func (f Fault) String() string {
	return fmt.Sprintf("%s:%d:%d: %s", f.File, f.Line, f.Column, f.Message)
}

// FaultsError reports that a file was refused. The caller should show all faults, so that one edit
// can fix them all.
type FaultsError struct {
	Faults []Fault
	// More counts the faults beyond those listed.
	More int
	// NoAccount means that the file does not name its account, and Options.Account was empty.
	NoAccount bool
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

// position is a line and column of the file, both from 1.
type position struct{ line, col int }

// faults collects the faults of a file.
type faults struct {
	file string
	list []Fault
	more int
	// noAccount is FaultsError.NoAccount.
	noAccount bool
}

func (f *faults) addFault(at position, format string, args ...any) {
	if len(f.list) == maxFaults {
		f.more++
		return
	}
	for i, a := range args {
		if s, ok := a.(string); ok {
			args[i] = text.Shorten(s, 400)
		}
	}
	f.list = append(f.list, Fault{f.file, max(at.line, 1), max(at.col, 1),
		text.Shorten(fmt.Sprintf(format, args...), 1200)})
}

// positionError is an error with a position in the file.
type positionError struct {
	at position
	error
}

// positionOf returns the position of an error, or the start of the file if it has none.
func positionOf(err error) position {
	if p, ok := errors.AsType[positionError](err); ok {
		return p.at
	}
	return position{1, 1}
}

func (f *faults) faultCount() int { return len(f.list) + f.more }

func (f *faults) err() error {
	if len(f.list) == 0 {
		return nil
	}
	// Splits are checked after the last record, so their faults come last.
	slices.SortStableFunc(f.list,
		func(a, b Fault) int { return cmp.Or(a.Line-b.Line, a.Column-b.Column) })
	return &FaultsError{Faults: f.list, More: f.more, NoAccount: f.noAccount}
}
