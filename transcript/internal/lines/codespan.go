package lines

import (
	"bytes"
	"slices"
)

// CodeSpans tracks CommonMark code spans in a text that arrives in pieces. A run of backquotes
// opens a span if a run of the same length follows in the same paragraph. That is known only later,
// so CodeSpans keeps the runs that may have opened one, and reports when one is closed, and when
// the paragraph ends. The zero CodeSpans is at the start of a text.
//
// A paragraph ends at a blank line, a heading, a thematic break, the underline of a heading, a list
// item or the start of a quote. Fences are not tracked: call Reset for them.
type CodeSpans struct {
	// open has the lengths of the runs that may have opened a span, in order. All are different: a
	// later run of one of these lengths closes the span, and everything in between is part of it.
	open []int

	run     int  // the length of the run being read
	escaped bool // a backslash escapes its first backquote, unless it closes a span
	slashes int  // how many backslashes precede the next byte

	line         lineStart
	afterQuote   bool // the previous line is quoted
	inList       bool // the paragraph is in a list item
	endsWithLine bool // the line is a heading
}

// SpanEvent is what Next has found.
type SpanEvent int

const (
	NoSpanEvent SpanEvent = iota
	// a run closed a span; Depth is now the number of possible spans around it
	SpanClosed
	ParagraphEnded // no span continues here
)

// maxOpenRuns bounds the runs that may have opened a span. Only text that was made to have more has
// more.
const maxOpenRuns = 128

// Depth returns how many runs may have opened a span that contains the next byte, if the last byte
// was not a backquote.
func (c *CodeSpans) Depth() int { return len(c.open) }

// Truncate forgets the runs after the first depth, because they turned out not to be in the text.
func (c *CodeSpans) Truncate(depth int) { c.open = c.open[:min(depth, len(c.open))] }

// Reset starts a new paragraph on a new line.
func (c *CodeSpans) Reset() { *c = CodeSpans{open: c.open[:0]} }

// Clone returns a copy that shares nothing with c.
func (c *CodeSpans) Clone() CodeSpans {
	copied := *c
	copied.open = slices.Clone(c.open)
	return copied
}

// End ends the run being read, because text follows in which backquotes mean nothing, and reports
// whether it closed a span.
func (c *CodeSpans) End() bool { return c.run > 0 && c.endRun() }

// Next takes the next bytes of the text, which are in one line, up to the first event. It returns
// how many bytes it took.
func (c *CodeSpans) Next(p []byte) (n int, event SpanEvent) {
	for i := 0; i < len(p); {
		b := p[i]
		if c.run > 0 && b != '`' && c.endRun() {
			return i, SpanClosed
		}
		if b == '\n' {
			ends := c.endLine()
			if ends {
				c.open = c.open[:0]
				return i + 1, ParagraphEnded
			}
			i++
			continue
		}
		if !c.line.decided && c.startsParagraph(b) {
			c.open = c.open[:0]
			return i, ParagraphEnded
		}
		if b != '`' {
			i = c.skipText(p, i)
			continue
		}
		if c.run == 0 {
			c.escaped = c.slashes%2 == 1
		}
		c.run++
		c.slashes = 0
		i++
	}
	return len(p), NoSpanEvent
}

// skipText moves on to the next byte that matters.
func (c *CodeSpans) skipText(p []byte, i int) int {
	end := i + 1
	if c.line.decided {
		if k := bytes.IndexByte(p[end:], '`'); k >= 0 {
			end += k
		} else if end = len(p); p[end-1] == '\n' {
			end--
		}
	}
	slashes := 0
	for k := end - 1; k >= i && p[k] == '\\'; k-- {
		slashes++
	}
	if slashes == end-i {
		slashes += c.slashes
	}
	c.slashes = slashes
	return end
}

// endRun ends the run being read and reports whether it closed a span.
func (c *CodeSpans) endRun() bool {
	run := c.run
	c.run = 0
	if i := slices.Index(c.open, run); i >= 0 {
		c.open = c.open[:i]
		return true
	}
	if c.escaped {
		run--
	}
	if run > 0 && len(c.open) < maxOpenRuns && !slices.Contains(c.open, run) {
		c.open = append(c.open, run)
	}
	return false
}

// lineStart is what is known of the start of a line.
type lineStart struct {
	decided bool // what follows does not matter
	written bool // the line is not blank
	quoted  bool
	indent  int
	// the first character: one of #-+*_= or '0' for a number, '.' for a number and its delimiter
	mark   byte
	count  int  // how many of them
	one    bool // the number is 1
	spaced bool // white space follows them
}

// startsParagraph takes the next byte of the line, which is not a line end, and reports whether it
// shows that the line starts another paragraph. It may be called again with the same byte.
func (c *CodeSpans) startsParagraph(b byte) bool {
	l := &c.line
	if b == ' ' || b == '\t' || b == '\r' {
		switch {
		case l.mark == '#':
			l.decided, c.endsWithLine = true, true
			return true
		case l.mark != 0:
			l.spaced = true
		case b == '\t':
			l.indent += 4
		default:
			l.indent++
		}
		return false
	}
	if l.mark == 0 {
		return c.firstMark(b)
	}
	switch {
	case l.spaced && (l.mark == '-' || l.mark == '*' || l.mark == '+') && l.count == 1:
		return c.startsItem()
	case l.spaced && l.mark == '.' && (l.one || c.inList):
		return c.startsItem()
	case l.spaced && l.mark == '_' && b == '_', !l.spaced && b == l.mark && b != '+':
		if l.count++; l.mark == '#' && l.count > 6 {
			l.decided = true
		}
	case l.mark == '0' && '0' <= b && b <= '9':
		l.one = false
		l.count++
		l.decided = l.count > 9
	case l.mark == '0' && (b == '.' || b == ')'):
		l.mark = '.'
	default:
		l.decided = true
	}
	return false
}

func (c *CodeSpans) startsItem() bool {
	c.line.decided, c.inList = true, true
	return true
}

// firstMark takes the first byte of the line that is not white space.
func (c *CodeSpans) firstMark(b byte) bool {
	l := &c.line
	switch {
	case l.indent > 3:
		l.written, l.decided = true, true
	case b == '>':
		starts := !l.quoted && !c.afterQuote
		l.quoted, l.indent = true, -1
		return starts
	case b >= '0' && b <= '9':
		l.written, l.mark, l.count, l.one = true, '0', 1, b == '1'
	case bytes.IndexByte([]byte("#-+*_="), b) >= 0:
		l.written, l.mark, l.count = true, b, 1
	default:
		l.written, l.decided = true, true
	}
	return false
}

// endLine ends the line and reports whether the paragraph ends with it.
func (c *CodeSpans) endLine() bool {
	l := &c.line
	ends := !l.written || c.endsWithLine
	if !l.decided {
		switch l.mark {
		case '-', '=', '#':
			ends = true
		case '*', '_':
			ends = ends || l.count >= 3
		}
	}
	if !l.written {
		c.inList = false
	}
	c.afterQuote = l.quoted && l.written
	c.line, c.endsWithLine, c.slashes = lineStart{}, false, 0
	return ends
}
