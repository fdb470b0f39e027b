package payload

import (
	"slices"
	"strings"
	"unicode"
)

// Labelled finds the lines after a verdict that are fields of it: a label that a verdict which
// passes work may have, and its text, list, table or fence. Other text is not a field of the
// verdict, although Body keeps it.
//
// The text of a field is on the line of its label, in indented lines below, or, if the label has
// its line to itself, in the paragraph below.
type Labelled struct {
	open      bool // a field
	inline    bool // its text is on the line of its label
	paragraph paragraph
}

type paragraph uint8

const (
	noParagraph paragraph = iota
	paragraphMayStart
	paragraphStarted
)

// passingLabels are the labels that a verdict which passes work may have. Under noneLabels it has
// nothing.
var (
	passingLabels = []string{"Summary", "Files Reviewed", "Quality Assessment", "Issues Found",
		"Priority",
		"Files Modified", "Tests Written", "Edge Cases", "Requirements Verification",
		"Passing Criteria", "Pre-existing Failures", "Verification Results",
		"Environment Verification Matrix",
		"Environments Tested", "Expert Consultation", "Confidence", "Assumptions", "Command",
		"Output"}
	noneLabels = []string{"Required Fixes", "Failed Criteria", "Failed Checks", "Blockers"}
	nothing    = []string{"none", "no", "nothing", "n/a", "-", "0"}
)

// maxFieldIndent is how far a line that belongs to a field may be indented.
const maxFieldIndent = 32

// Take takes the next line and reports whether it is blank or belongs to a field. Of a long line
// the start is enough.
func (l *Labelled) Take(line string) bool {
	indent, text := cutIndent(line)
	if isBlankForPeople(text) {
		l.open = l.open && !l.inline // a list further below belongs to nothing
		if l.paragraph == paragraphStarted {
			l.paragraph = noParagraph
		}
		return true
	}
	if name, inline, ok := passingLabel(text); ok && indent <= 3 {
		l.open, l.inline, l.paragraph = true, inline != "", noParagraph
		if !l.inline {
			l.paragraph = paragraphMayStart
		}
		return !slices.Contains(noneLabels, name) ||
			slices.Contains(nothing, strings.ToLower(strings.TrimRight(inline, ".*_ ")))
	}
	switch {
	case !l.open || indent > maxFieldIndent:
		return false
	case indent > 0 || itemMarker(text) > 0 || text[0] == '|':
		l.paragraph = noParagraph
		return true
	}
	continues := l.paragraph != noParagraph
	if continues {
		l.paragraph = paragraphStarted
	}
	return continues
}

// TakeFenced takes a line of a fence and reports whether it belongs to a field.
func (l *Labelled) TakeFenced() bool {
	l.paragraph = noParagraph
	return l.open
}

// passingLabel returns the label of a line, which may be an item of a list or a heading, and the
// text after it.
func passingLabel(text string) (name, inline string, ok bool) {
	if heading := strings.TrimLeft(text, "#"); heading != text && strings.HasPrefix(heading, " ") {
		text = strings.TrimRight(strings.TrimSpace(heading), ":") + ":"
	} else if marker := itemMarker(text); marker > 0 {
		text = strings.TrimSpace(text[marker:])
	}
	name, inline, ok = bodyLabel(text)
	return name, strings.TrimSpace(inline), ok && (slices.Contains(passingLabels, name) ||
		slices.Contains(noneLabels, name))
}

// isBlankForPeople reports whether a line has nothing that people see, or a thematic break.
func isBlankForPeople(text string) bool {
	text = strings.TrimFunc(text,
		func(r rune) bool { return unicode.IsSpace(r) || unicode.Is(unicode.Cf, r) })
	for _, mark := range []string{"-", "*", "_"} {
		if len(text) >= 3 && strings.Trim(text, mark+" ") == "" {
			return true
		}
	}
	return text == ""
}
