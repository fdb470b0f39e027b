package render

import "signalbox/internal/show"

// Line is a line of a transcript as people read it.
type Line struct {
	Kind LineKind
	// Indent is white space or a mark before the text. Note is why a signal is refused.
	Indent, Text, Note string
	// Cut means that the transcript has more here than is shown.
	Cut bool
	// Signal is where the signal of the line is in the transcript, zero if that is not known.
	Signal Span

	// From and To are the bytes of the transcript that the line was made of, and Spans its text in
	// parts. Lines that are printed as they arrive do not have them.
	From, To int64
	Spans    []Span
}

// Span is a part of a transcript.
type Span struct {
	From, To int64
	Text     string
	// Kind is LineSignal or LineRefused for a signal, and Note why it is refused.
	Kind LineKind
	Note string
}

// LineKind is what a line shows.
type LineKind string

// Kinds of lines.
const (
	LineWords   LineKind = ""
	LineFaint   LineKind = "faint"    // thinking, and results of tools
	LineCall    LineKind = "call"     // a call of a tool
	LineFailed  LineKind = "failed"   // the result of a tool that failed, and errors
	LineSignal  LineKind = "accepted" // a signal that counts
	LineRefused LineKind = "refused"  // one that does not
)

// format returns a line for a terminal.
func (l Line) format(paint show.Palette) string {
	switch l.Kind {
	case LineFaint:
		return l.Indent + paint.Faint(l.Text)
	case LineCall:
		return l.Indent + paint.Busy(l.Text)
	case LineFailed:
		return l.Indent + paint.Bad(l.Text)
	case LineSignal:
		return l.Indent + paint.Good(l.Text)
	case LineRefused:
		return l.Indent + paint.Bad(l.Text) + "  " + paint.Warn("("+l.Note+")")
	}
	return l.Indent + l.Text
}
