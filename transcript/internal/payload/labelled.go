package payload

import "strings"

// Labelled finds the lines after a signal that are fields that agents are asked for: a known label and its text,
// list, table or fence. Other text is not a field of the signal, although Body keeps it.
//
// The text of a field is on the line of its label, in indented lines, or, if the label is alone on its line,
// in the paragraph after it.
type Labelled struct {
	open      bool // a field
	paragraph paragraph
}

type paragraph uint8

const (
	noParagraph paragraph = iota
	paragraphMayStart
	paragraphStarted
)

// maxFieldIndent is how far a line that belongs to a field may be indented.
const maxFieldIndent = 32

// Take takes the next line and reports whether it is blank or belongs to a field. Of a long line the start is
// enough.
func (l *Labelled) Take(line string) bool {
	indent, text := cutIndent(line)
	if text == "" || text == "\r" {
		if l.paragraph == paragraphStarted {
			l.paragraph = noParagraph
		}
		return true
	}
	if name, inline, ok := bodyLabel(line); ok {
		if _, known := knownLabel(name); known {
			l.open, l.paragraph = true, noParagraph
			if strings.TrimSpace(inline) == "" {
				l.paragraph = paragraphMayStart
			}
			return true
		}
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
