package tax

import (
	"fmt"
	"strings"
)

// maxFaults is the number of faults after which validation stops.
const maxFaults = 50

// Fault is what is wrong with a row or with the rules, and how to correct it.
type Fault struct {
	Source Source
	Text   string
}

// String formats the fault as file:line: text, without the parts that are not known.
func (f Fault) String() string {
	switch {
	case f.Source.File == "":
		return f.Text
	case f.Source.Line == 0:
		return f.Source.File + ": " + f.Text
	}
	return fmt.Sprintf("%s:%d: %s", f.Source.File, f.Source.Line, f.Text)
}

// FaultsError is returned if there is no book: everything that is wrong with the rules and the
// rows, at most 50 faults. Correct them and build again. There is no partial book, because missing
// rows would change the lots of all later ones.
type FaultsError struct{ Faults []Fault }

func (e *FaultsError) Error() string {
	lines := make([]string, len(e.Faults))
	for i, f := range e.Faults {
		lines[i] = f.String()
	}
	return strings.Join(lines, "\n")
}

// add adds a fault. It reports whether there is room for more.
func (e *FaultsError) add(source Source, format string, args ...any) bool {
	e.Faults = append(e.Faults, Fault{Source: source, Text: fmt.Sprintf(format, args...)})
	return len(e.Faults) < maxFaults
}
