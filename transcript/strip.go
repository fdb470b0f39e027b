package transcript

import (
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
// back what may still become a signal, at most MaxTurnBlock bytes, the start of a line that may be a fence, and white
// space that may be the last. Close it to get the rest.
type StripStream struct {
	out    io.Writer
	err    error
	blocks blockFinder
	fencer *lines.Fencer
	space  spaces // held back: white space that may be the end
	buf    []byte // room for white space that is written after all
}

// NewStripStream returns a StripStream that writes to w. An error of w is returned by the call that met it and
// all that follow.
func NewStripStream(w io.Writer) *StripStream {
	s := &StripStream{out: w}
	s.blocks.plain = s.plain
	s.fencer = lines.NewFencer(s.text)
	return s
}

// Write takes the next piece of the text.
func (s *StripStream) Write(p []byte) (int, error) {
	if s.err == nil {
		s.fencer.Write(p)
	}
	if s.err != nil {
		return 0, s.err
	}
	return len(p), nil
}

// Close writes what was held back, but for white space at the end of the text. It does not close the writer.
func (s *StripStream) Close() error {
	s.fencer.EndLine()
	s.blocks.end(s.block)
	return s.err
}

func (s *StripStream) text(p []byte, fenced bool) {
	if fenced {
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
	unit byte // or crLF
	n    int
}

// crLF stands for CR and LF, and is no white space itself.
const crLF = 0

// maxSpaceRuns bounds what is held back of white space that alternates. Beyond it, white space at the end of a text
// stays.
const maxSpaceRuns = 64 << 10

// add reports false when there are too many runs to take another.
func (s *spaces) add(c byte) bool {
	unit := c
	if last := len(*s) - 1; last >= 0 && c == '\n' && (*s)[last].unit == '\r' {
		if (*s)[last].n--; (*s)[last].n == 0 {
			*s = (*s)[:last]
		}
		unit = crLF
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
	const most = 4096
	buf := out.buf[:0]
	for _, run := range *s {
		for range run.n {
			if run.unit == crLF {
				buf = append(buf, '\r', '\n')
			} else {
				buf = append(buf, run.unit)
			}
			if len(buf) >= most {
				out.write(buf)
				buf = buf[:0]
			}
		}
	}
	if len(buf) > 0 {
		out.write(buf)
	}
	*s, out.buf = (*s)[:0], buf[:0]
}
