package transcript

import (
	"io"
	"strings"

	"signalbox/transcript/internal/lines"
	"signalbox/transcript/internal/payload"
)

// Strip returns text without its turn signals. It removes every complete block with a type outside
// code fences and code spans, then trailing white space, and nothing else.
func Strip(text string) string {
	var out strings.Builder
	s := NewStripStream(&out)
	io.WriteString(s, text) // a Builder does not fail
	s.Close()
	return out.String()
}

// StripStream is Strip for a text that arrives in pieces. However the text is cut, the output is
// the same. A StripStream holds back text that may become a signal or turn out to be quoted, at
// most MaxTurnBlock bytes, the start of a line that may be a fence, and white space that may be at
// the end. Close it to get the rest.
type StripStream struct {
	out    io.Writer
	err    error
	blocks turnFinder
	fencer *lines.Fencer
	space  spaces // held back because it may be at the end
	buf    []byte // scratch space for writing white space
}

// NewStripStream returns a StripStream that writes to w. After w returns an error, so does every
// call.
func NewStripStream(w io.Writer) *StripStream {
	s := &StripStream{out: w}
	s.blocks.other = s.writeText
	s.fencer = lines.NewFencer(s.part)
	return s
}

// Write takes the next piece of the text. It does not retain p.
func (s *StripStream) Write(p []byte) (int, error) {
	if s.err == nil {
		s.fencer.Write(p)
	}
	if s.err != nil {
		return 0, s.err
	}
	return len(p), nil
}

// Close writes the text that was held back, without trailing white space. It does not close the
// underlying writer.
func (s *StripStream) Close() error {
	s.fencer.EndLine()
	s.blocks.end(s.block)
	return s.err
}

// part takes part of a line.
func (s *StripStream) part(p []byte, fenced bool) {
	if fenced {
		s.blocks.addOpaque(p, s.block)
	} else {
		s.blocks.feed(p, 0, 0, "", s.block)
	}
}

// block removes a complete block. One that cannot be read is text.
func (s *StripStream) block(b turnBlock) {
	if b.kind == blockComplete {
		if _, err := payload.ReadTurn(b.raw); err != nil {
			s.writeText(b.raw)
		}
	}
}

// writeText writes text, holding back trailing white space until something follows it.
func (s *StripStream) writeText(p []byte) {
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

// spaces is white space as a list of runs, so that a million spaces or line ends cost no more than
// one.
type spaces []spaceRun

type spaceRun struct {
	unit byte // a white space character, or crLF
	n    int
}

// crLF is the unit of CR LF pairs.
const crLF = 0

// maxSpaceRuns bounds the runs that are held back. If there are more, trailing white space is not
// removed.
const maxSpaceRuns = 64 << 10

// add adds a character. It returns false if there are too many runs.
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
