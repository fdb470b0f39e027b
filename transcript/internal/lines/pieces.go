package lines

import (
	"bytes"
	"unicode/utf8"
)

// MaxFenceLine is how much of a line is held back to decide whether it is a fence. A line is judged
// by its first MaxFenceLine+1 bytes.
const MaxFenceLine = 16 << 10

// Fencer separates the text inside code fences from the text outside. It holds back the start of a
// line that may be a fence.
type Fencer struct {
	take func(p []byte, fenced bool)

	fence     Fence
	line      []byte // the start of a line that may open or close a fence
	decided   bool   // it is known whether the line is a fence, and its rest is passed on
	isFence   bool   // the line opens or closes a fence
	pastFirst bool   // the first line, which may start with a byte order mark, has ended
}

// NewFencer returns a Fencer that passes the text to take, which must not retain p. A line that
// opens or closes a fence is fenced too. No call passes parts of two lines.
func NewFencer(take func(p []byte, fenced bool)) *Fencer { return &Fencer{take: take} }

// Write takes the next piece of the text. The error is always nil.
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

// EndLine passes on the text that is held back. Call it at the end of the text.
func (f *Fencer) EndLine() {
	if !f.decided && len(f.line) > 0 {
		f.decide()
	}
	f.decided, f.isFence, f.pastFirst = false, false, true
}

// part takes part of a line, which may include its line end.
func (f *Fencer) part(p []byte) {
	if !f.decided && len(f.line) == 0 && !mayBeFence(f.withoutBOM(p)) {
		f.decided = true
	}
	if !f.decided {
		n := min(len(p), MaxFenceLine+1-len(f.line))
		f.line = append(f.line, p[:n]...)
		p = p[n:]
		if len(f.line) > MaxFenceLine || !mayBeFence(f.withoutBOM(f.line)) {
			f.decide()
			f.decided = true
		}
	}
	if len(p) > 0 {
		f.take(p, f.isFence || f.fence.IsOpen())
	}
}

// decide passes on the line that was held back.
func (f *Fencer) decide() {
	line := f.line
	f.line = line[:0]
	whole := bytes.TrimSuffix(f.withoutBOM(line), []byte{'\n'})
	if f.fence.IsOpen() {
		if f.isFence = f.fence.ClosedBy(whole); f.isFence {
			f.fence = Fence{}
		}
	} else if opened, ok := OpenFence(whole); ok {
		f.fence, f.isFence = opened, true
	}
	f.take(line, f.isFence || f.fence.IsOpen())
}

// ByteOrderMark may start a text in UTF-8.
const ByteOrderMark = "\uFEFF"

// withoutBOM returns the line without a byte order mark, which the first line may start with. It
// returns nil while there is only a part of the mark.
func (f *Fencer) withoutBOM(line []byte) []byte {
	if f.pastFirst {
		return line
	}
	if len(line) < len(ByteOrderMark) && string(line) == ByteOrderMark[:len(line)] {
		return nil
	}
	return bytes.TrimPrefix(line, []byte(ByteOrderMark))
}

// mayBeFence reports whether a line that starts with these bytes may be a fence.
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

// Runes is Valid for a text that arrives in pieces.
type Runes struct {
	cut []byte // an incomplete rune at the end of the last piece
}

// Append appends the next piece of the text to out, up to its last complete rune.
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

// End ends the text and appends its rest to out.
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

// cutRune returns the length of the incomplete rune at the end of p.
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
