package tax

import (
	"fmt"
	"strings"
)

// maxFaults bounds how many faults are listed: after that many, more help nobody.
const maxFaults = 50

// Fault is a row that makes no sense, and what to do about it.
type Fault struct {
	Source Source
	Text   string
}

// String writes file:line: text, as far as they are known.
func (f Fault) String() string {
	switch {
	case f.Source.File == "":
		return f.Text
	case f.Source.Line == 0:
		return f.Source.File + ": " + f.Text
	}
	return fmt.Sprintf("%s:%d: %s", f.Source.File, f.Source.Line, f.Text)
}

// FaultsError is why there is no book: all that is wrong with the rules and the rows, 50 faults at most. Correct them
// and build again; a part of a tax history is worth nothing.
type FaultsError struct{ Faults []Fault }

func (e *FaultsError) Error() string {
	lines := make([]string, len(e.Faults))
	for i, f := range e.Faults {
		lines[i] = f.String()
	}
	return strings.Join(lines, "\n")
}

// add notes a fault; it returns false once there are enough.
func (e *FaultsError) add(source Source, format string, args ...any) bool {
	e.Faults = append(e.Faults, Fault{Source: source, Text: fmt.Sprintf(format, args...)})
	return len(e.Faults) < maxFaults
}
