package transcript

import (
	"bytes"
	"io"
	"strings"

	"signalbox/transcript/internal/lines"
	"signalbox/transcript/internal/payload"
)

// Strip returns the text without its turn signals: every complete block with a type outside code fences goes, then
// white space at the end; nothing else is lost.
func Strip(text string) string {
	var out strings.Builder
	s := NewStripStream(&out)
	io.WriteString(s, text) // a Builder does not fail
	s.Close()
	return out.String()
}

// StripStream is Strip for a text that comes in pieces: it writes the same text for every way of cutting it. It holds
// back what may still become a signal, at most MaxTurnBlock bytes, and white space that may be the last. Close it
// to get the rest.
type StripStream struct {
	out    io.Writer
	err    error
	blocks blockFinder
	fence  lines.Fence

	line      []byte // the start of a line that may open or close a fence
	streaming bool   // the line has been judged
	opaque    bool   // the line opens or closes a fence
	begun     bool   // the first line, which may have a byte order mark, is over
	space     spaces // held back: white space that may be the end
}

// NewStripStream returns a StripStream that writes to w. An error of w is returned by the call that met it and
// all that follow.
func NewStripStream(w io.Writer) *StripStream {
	s := &StripStream{out: w}
	s.blocks.plain = s.plain
	return s
}

// Write takes the next piece of the text.
func (s *StripStream) Write(p []byte) (int, error) {
	for rest := p; len(rest) > 0 && s.err == nil; {
		n := bytes.IndexByte(rest, '\n') + 1
		end := n > 0
		if !end {
			n = len(rest)
		}
		s.part(rest[:n])
		if end {
			s.endLine()
		}
		rest = rest[n:]
	}
	if s.err != nil {
		return 0, s.err
	}
	return len(p), nil
}

// Close writes what was held back, but for white space at the end of the text. It does not close the writer.
func (s *StripStream) Close() error {
	s.endLine()
	s.blocks.end(s.block)
	return s.err
}

// part takes bytes of one line, perhaps with its line end.
func (s *StripStream) part(p []byte) {
	if s.streaming {
		s.text(p)
		return
	}
	n := min(len(p), MaxTurnBlock+1-len(s.line))
	s.line = append(s.line, p[:n]...)
	if len(s.line) > MaxTurnBlock || !mayBeFence(s.unmarked(s.line)) {
		s.judge()
		s.streaming = true
	}
	if n < len(p) {
		s.text(p[n:])
	}
}

func (s *StripStream) endLine() {
	if !s.streaming && len(s.line) > 0 {
		s.judge()
	}
	s.streaming, s.opaque, s.begun = false, false, true
}

const byteOrderMark = "\uFEFF"

// unmarked is a line without the byte order mark that a text may begin with, as the scanner sees it. While only a part of
// the mark is there it is nothing yet.
func (s *StripStream) unmarked(line []byte) []byte {
	if s.begun {
		return line
	}
	if len(line) < len(byteOrderMark) && string(line) == byteOrderMark[:len(line)] {
		return nil
	}
	return bytes.TrimPrefix(line, []byte(byteOrderMark))
}

// mayBeFence reports whether a line that begins so may be a fence.
func mayBeFence(line []byte) bool {
	i := 0
	for i < len(line) && i < 3 && line[i] == ' ' {
		i++
	}
	rest := line[i:]
	if len(rest) == 0 {
		return true
	}
	head := rest[:min(3, len(rest))]
	return bytes.Count(head, []byte{'`'}) == len(head) || bytes.Count(head, []byte{'~'}) == len(head)
}

// judge settles the line that was held back.
func (s *StripStream) judge() {
	line := s.line
	s.line = line[:0]
	whole := bytes.TrimSuffix(s.unmarked(line), []byte{'\n'})
	if s.fence.IsOpen() {
		if s.opaque = s.fence.ClosedBy(whole); s.opaque {
			s.fence = lines.Fence{}
		}
	} else if f, ok := lines.OpenFence(whole); ok {
		s.fence, s.opaque = f, true
	}
	s.text(line)
}

func (s *StripStream) text(p []byte) {
	if s.opaque || s.fence.IsOpen() {
		s.blocks.opaque(p, s.block)
	} else {
		s.blocks.feed(p, 0, 0, false, s.block)
	}
}

// block takes a complete block away; one without a type stays text.
func (s *StripStream) block(e blockEvent) {
	if e.kind == blockComplete {
		if _, err := payload.ReadTurn(e.raw); err != nil {
			s.plain(e.raw)
		}
	}
}

// plain writes text, and holds white space back until something follows it.
func (s *StripStream) plain(p []byte) {
	text := lines.TrimEnd(p)
	if len(text) > 0 {
		s.space.writeTo(s)
		s.write(text)
	}
	for _, c := range p[len(text):] {
		if !s.space.add(c) {
			s.space.writeTo(s)
			s.space.add(c)
		}
	}
}

func (s *StripStream) write(p []byte) {
	if s.err == nil {
		_, s.err = s.out.Write(p)
	}
}

// spaces is white space, kept by its runs: a million spaces or line ends cost no more than one.
type spaces []spaceRun

type spaceRun struct {
	unit string // a byte, or CR and LF
	n    int
}

// maxSpaceRuns bounds what is held back of white space that alternates. Beyond it, white space at the end of a text
// stays.
const maxSpaceRuns = 64 << 10

// add reports false when there are too many runs to take another.
func (s *spaces) add(c byte) bool {
	unit := string(c)
	if last := len(*s) - 1; last >= 0 && c == '\n' && (*s)[last].unit == "\r" {
		if (*s)[last].n--; (*s)[last].n == 0 {
			*s = (*s)[:last]
		}
		unit = "\r\n"
	}
	if last := len(*s) - 1; last >= 0 && (*s)[last].unit == unit {
		(*s)[last].n++
		return true
	}
	if len(*s) == maxSpaceRuns {
		return false
	}
	*s = append(*s, spaceRun{unit, 1})
	return true
}

func (s *spaces) writeTo(out *StripStream) {
	var buf []byte
	for _, run := range *s {
		for n := run.n; n > 0; {
			step := min(n, 4096)
			if buf = append(buf, strings.Repeat(run.unit, step)...); len(buf) >= 4096 {
				out.write(buf)
				buf = buf[:0]
			}
			n -= step
		}
	}
	if len(buf) > 0 {
		out.write(buf)
	}
	*s = (*s)[:0]
}
