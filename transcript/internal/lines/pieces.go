package lines

import (
	"bytes"
	"unicode/utf8"
)

// MaxFenceLine is how much of a line is held back to see whether it is a fence. One more byte is looked at, and what
// follows that is not.
const MaxFenceLine = 16 << 10

// Fencer tells what stands in code fences from what does not, in a text that comes in pieces. It holds back the start of a
// line while that may be a fence.
type Fencer struct {
	take func(p []byte, fenced bool)

	fence  Fence
	line   []byte // the start of a line that may open or close a fence
	judged bool   // the line has been judged: its rest passes
	opaque bool   // the line opens or closes a fence
	begun  bool   // the first line, which may have a byte order mark, is over
}

// NewFencer returns a Fencer that gives the text to take, which must not keep p. A line that opens or closes a fence is
// fenced too. No call takes parts of two lines.
func NewFencer(take func(p []byte, fenced bool)) *Fencer { return &Fencer{take: take} }

// Write takes the next piece of the text. It does not fail.
func (f *Fencer) Write(p []byte) (int, error) {
	for rest := p; len(rest) > 0; {
		n := bytes.IndexByte(rest, '\n') + 1
		end := n > 0
		if !end {
			n = len(rest)
		}
		f.part(rest[:n])
		if end {
			f.EndLine()
		}
		rest = rest[n:]
	}
	return len(p), nil
}

// EndLine passes on what is held back. The end of the text ends a line.
func (f *Fencer) EndLine() {
	if !f.judged && len(f.line) > 0 {
		f.judge()
	}
	f.judged, f.opaque, f.begun = false, false, true
}

// part takes bytes of one line, perhaps with its line end.
func (f *Fencer) part(p []byte) {
	if !f.judged && len(f.line) == 0 && !mayBeFence(f.unmarked(p)) {
		f.judged = true
	}
	if !f.judged {
		n := min(len(p), MaxFenceLine+1-len(f.line))
		f.line = append(f.line, p[:n]...)
		p = p[n:]
		if len(f.line) > MaxFenceLine || !mayBeFence(f.unmarked(f.line)) {
			f.judge()
			f.judged = true
		}
	}
	if len(p) > 0 {
		f.take(p, f.opaque || f.fence.IsOpen())
	}
}

// judge settles the line that was held back.
func (f *Fencer) judge() {
	line := f.line
	f.line = line[:0]
	whole := bytes.TrimSuffix(f.unmarked(line), []byte{'\n'})
	if f.fence.IsOpen() {
		if f.opaque = f.fence.ClosedBy(whole); f.opaque {
			f.fence = Fence{}
		}
	} else if opened, ok := OpenFence(whole); ok {
		f.fence, f.opaque = opened, true
	}
	f.take(line, f.opaque || f.fence.IsOpen())
}

const byteOrderMark = "\uFEFF"

// unmarked is a line without the byte order mark that a text may begin with, as the scanner sees it. While only a part of
// the mark is there it is nothing yet.
func (f *Fencer) unmarked(line []byte) []byte {
	if f.begun {
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
	if rest[0] != '`' && rest[0] != '~' {
		return false
	}
	head := rest[:min(3, len(rest))]
	return bytes.Count(head, rest[:1]) == len(head)
}

// Runes does what Valid does, for a text that comes in pieces: a rune that was cut in two is whole again.
type Runes struct {
	cut []byte // the start of a rune
}

// Append adds the next piece of the text to out, up to its last whole rune.
func (r *Runes) Append(out, p []byte) []byte {
	for len(r.cut) > 0 && len(p) > 0 {
		r.cut = append(r.cut, p[0])
		p = p[1:]
		for len(r.cut) > 0 && utf8.FullRune(r.cut) {
			c, n := utf8.DecodeRune(r.cut)
			out = utf8.AppendRune(out, c)
			r.cut = r.cut[:copy(r.cut, r.cut[n:])]
		}
	}
	n := len(p) - cutRune(p)
	r.cut = append(r.cut, p[n:]...)
	return appendValid(out, p[:n])
}

// End ends the text and adds what is left of it to out.
func (r *Runes) End(out []byte) []byte {
	out = appendValid(out, r.cut)
	r.cut = r.cut[:0]
	return out
}

func appendValid(out, p []byte) []byte {
	if utf8.Valid(p) {
		return append(out, p...)
	}
	for len(p) > 0 {
		c, n := utf8.DecodeRune(p)
		out, p = utf8.AppendRune(out, c), p[n:]
	}
	return out
}

// cutRune returns how many bytes at the end of p begin a rune and do not end it.
func cutRune(p []byte) int {
	for n := 1; n < utf8.UTFMax && n <= len(p); n++ {
		if tail := p[len(p)-n:]; utf8.RuneStart(tail[0]) {
			if utf8.FullRune(tail) {
				return 0
			}
			return n
		}
	}
	return 0
}
