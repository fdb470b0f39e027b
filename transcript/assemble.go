package transcript

import (
	"bytes"
	"strings"

	"signalbox/transcript/internal/lines"
)

// A lineHandler receives the lines that a lineAssembler does not skip.
type lineHandler interface {
	// startLine is called first for each line, with the line but not its line end. Of a line that
	// is longer than maxLine it gets the first maxLine+1 bytes. The line starts at the offset at
	// and has the given number.
	startLine(line []byte, at int64, number int)
	// lineBytes is then called with all bytes of the line, line end included, in one or more parts.
	lineBytes(part []byte, at int64, number int)
	// skippedLine is called instead for a line, with its line end, that cannot contain a signal
	// although it looks like one. Lines that do not look like one are skipped without a call.
	skippedLine(line []byte, at int64)
	// canSkip reports whether lines that cannot contain a signal may be skipped.
	canSkip() bool
}

// lineAssembler splits text that arrives in pieces into lines. Most lines of a transcript are
// ordinary text, and it skips those without calling its handler.
type lineAssembler struct {
	offset int64 // of the next byte
	number int   // of the line that byte is in, from 1
	last   byte  // the previous byte; '\n' at the start

	// The line that has started and not ended.
	partial   []byte // its bytes, until it is passed to the handler
	lineStart int64
	started   bool // the handler has been given its start and gets the rest as it arrives
}

func newLineAssembler() lineAssembler { return lineAssembler{number: 1, last: '\n'} }

// push takes the next piece of the text.
func (a *lineAssembler) push(p []byte, h lineHandler) {
	i := 0
	if a.started || len(a.partial) > 0 {
		i = a.continueLine(p, h)
	}
	for i < len(p) {
		if h.canSkip() {
			skipped, count := skipOrdinaryLines(p[i:])
			i += skipped
			a.number += count
		}
		n := bytes.IndexByte(p[i:], '\n')
		if n < 0 {
			a.lineStart = a.offset + int64(i)
			if i < len(p) {
				a.extendLine(p[i:], a.lineStart, h)
			}
			break
		}
		a.lineStart = a.offset + int64(i)
		a.wholeLine(p[i:i+n+1], h)
		i += n + 1
	}
	a.offset += int64(len(p))
	a.last = p[len(p)-1]
}

// wholeLine passes on a line with its line end.
func (a *lineAssembler) wholeLine(b []byte, h lineHandler) {
	if line := b[:len(b)-1]; !h.canSkip() || !isUnrelatedObject(line) {
		h.startLine(line[:min(len(line), maxLine+1)], a.lineStart, a.number)
		h.lineBytes(b, a.lineStart, a.number)
	} else {
		h.skippedLine(b, a.lineStart)
	}
	a.number++
}

// continueLine takes the part of p that belongs to the line started in an earlier piece. It returns
// its length.
func (a *lineAssembler) continueLine(p []byte, h lineHandler) int {
	n := bytes.IndexByte(p, '\n')
	if n < 0 {
		a.extendLine(p, a.offset, h)
		return len(p)
	}
	a.extendLine(p[:n], a.offset, h)
	if a.started {
		h.lineBytes(p[n:n+1], a.offset+int64(n), a.number)
		a.started = false
		a.number++
	} else {
		line := append(a.partial, '\n')
		a.partial = line[:0]
		a.wholeLine(line, h)
	}
	return n + 1
}

// decidingPrefix is the number of bytes of a line that decide whether it is suspicious.
const decidingPrefix = maxDecoration + 64

// extendLine takes more of a line that has not ended. Once the line is known not to be a line
// signal, or to be too long for one, it is passed on and no longer kept.
func (a *lineAssembler) extendLine(p []byte, at int64, h lineHandler) {
	if !a.started {
		n := min(len(p), maxLine+1-len(a.partial))
		a.partial = append(a.partial, p[:n]...)
		p, at = p[n:], at+int64(n)
		if len(a.partial) > maxLine || len(a.partial) >= decidingPrefix && !suspicious(a.partial) {
			line := a.partial
			a.partial, a.started = nil, true
			h.startLine(line, a.lineStart, a.number)
			h.lineBytes(line, a.lineStart, a.number)
			a.partial = line[:0]
		}
	}
	if len(p) > 0 {
		h.lineBytes(p, at, a.number)
	}
}

// endLine ends the last line of a message, which may lack a line end.
func (a *lineAssembler) endLine(h lineHandler) {
	if len(a.partial) > 0 {
		line := a.partial
		a.partial = line[:0]
		if !h.canSkip() || !isUnrelatedObject(line) {
			h.startLine(line, a.lineStart, a.number)
			h.lineBytes(line, a.lineStart, a.number)
		}
	}
	a.started = false
}

// startNewLine counts a line end that the text does not have, between two messages.
func (a *lineAssembler) startNewLine() {
	if a.last != '\n' {
		a.offset++
		a.number++
		a.last = '\n'
	}
}

func (a *lineAssembler) clone() lineAssembler {
	c := *a
	c.partial = bytes.Clone(a.partial)
	return c
}

// skipOrdinaryLines skips the lines at the start of p that are not suspicious and have no tag. It
// returns how many bytes and lines it skipped. A last line without a line end is not skipped.
func skipOrdinaryLines(p []byte) (skipped, count int) {
	for {
		n := bytes.IndexByte(p[skipped:], '\n')
		if n < 0 || suspicious(p[skipped:]) || hasTag(p[skipped:skipped+n]) {
			return skipped, count
		}
		skipped += n + 1
		count++
	}
}

// isUnrelatedObject reports whether a line is a whole JSON object that does not name the exit
// protocol, such as a line of a log. An exit signal contains no other object, so a brace at the end
// of the line closes it.
func isUnrelatedObject(line []byte) bool {
	return len(line) > 0 && len(line) <= maxLine && line[0] == '{' &&
		bytes.HasSuffix(lines.TrimEnd(line), []byte("}")) && !mayNameProtocol(line) && !hasTag(line)
}

// hasTag reports whether a tag such as <signal or </think may start in the line.
func hasTag(line []byte) bool {
	for {
		i := bytes.IndexByte(line, '<')
		if i < 0 {
			return false
		}
		line = line[i+1:]
		if len(line) >= 2 && line[0]|0x20 == 's' && line[1]|0x20 == 'i' || startsThinkingTag(line) {
			return true
		}
	}
}

// startsThinkingTag reports whether the text after a bracket is that of a tag which starts or ends
// thinking.
func startsThinkingTag(b []byte) bool {
	if len(b) > 0 && b[0] == '/' {
		b = b[1:]
	}
	name := ""
	if len(b) > 0 {
		switch b[0] | 0x20 {
		case 't':
			name = "think" // thinking, too
		case 'r':
			name = "reasoning"
		case 's':
			name = "scratchpad"
		}
	}
	return name != "" && len(b) >= len(name) && strings.EqualFold(string(b[:len(name)]), name)
}
