package transcript

import (
	"bytes"
	"encoding/binary"
	"math/bits"
)

// Nearly all of a transcript's bytes are passed over here. Looking at each line by itself costs a call and two or three
// mispredicted branches, which is most of the time there is. So bytes are taken 64 at a time and become bits: a mask of
// line ends, one of the places where a line may be suspicious, and one of those where a tag may begin. Where the last two
// are empty, lines are only counted.

const (
	block  = 64 // bytes of a mask
	window = 4 << 10
	masks  = window / block
)

// skimmer passes over ordinary lines. It makes the masks for a window of the piece at a time, and goes on with them
// when it is called again.
type skimmer struct {
	base int // where the window begins
	size int

	ends  [masks]uint64 // line ends
	looks [masks]uint64 // a byte near the start of each line that may be suspicious, with marks at most before it
	tags  [masks]uint64 // what may be the start of <signal

	room lineRoom
}

// reset is called before a new piece.
func (s *skimmer) reset() { s.base, s.size = 0, 0 }

// ordinary passes over lines of p that are not suspicious and hold no tag. The first begins at i. It returns where the
// line begins that it stopped at, which is the last if that has no end, and how many it passed.
func (s *skimmer) ordinary(p []byte, i int) (start, passed int) {
	for start = i; i < len(p); i = s.base + s.size {
		if i >= s.base+s.size {
			s.fill(p, i)
		}
		first := (i - s.base) / block
		from := ^uint64(0) << (uint(i-s.base) % block)
		for k := first; k*block < s.size; k++ {
			ends, stops := s.ends[k]&from, (s.looks[k]|s.tags[k])&from
			from = ^uint64(0)
			for stops != 0 {
				stop := stops & -stops
				if passing := ends & (stop - 1); passing != 0 {
					start = s.base + k*block + bits.Len64(passing)
					passed += bits.OnesCount64(passing)
					ends &^= passing
				}
				if stop&s.tags[k] != 0 || suspicious(p[start:]) {
					return start, passed
				}
				stops &^= stop
			}
			if ends != 0 {
				start = s.base + k*block + bits.Len64(ends)
				passed += bits.OnesCount64(ends)
			}
		}
	}
	return start, passed
}

// fill makes the masks of the window that begins at base, where p has at least one byte.
func (s *skimmer) fill(p []byte, base int) {
	s.base, s.size = base, min(window, len(p)-base)
	whole := s.size / block
	findLines(s, p, whole)
	if rest := p[base+whole*block : base+s.size]; len(rest) > 0 {
		s.ends[whole], s.looks[whole], s.tags[whole] = 0, 0, 0
		if precedes(p, base+whole*block) != withinLine {
			s.looks[whole] = 1
		}
		for i, c := range rest {
			switch c {
			case '\n':
				s.ends[whole] |= 1 << i
				s.looks[whole] |= 1 << i << 1
			case '<':
				if isTag(p, base+whole*block+i) {
					s.tags[whole] |= 1 << i
				}
			}
		}
	}
}

// before says what stands before a window or block.
type before int

const (
	withinLine before = iota
	lineEnd
	lineSpaces // a line end and spaces
	lineMarks  // a line end and marks
)

// precedes looks back from base. The piece begins with a line unless one has ended in it.
func precedes(p []byte, base int) before {
	i := base
	for i > 0 && base-i <= maxDecoration && classes[p[i-1]] == mark {
		i--
	}
	switch {
	case i > 0 && p[i-1] != '\n':
		return withinLine
	case i == base:
		return lineEnd
	case len(bytes.TrimLeft(p[i:base], " ")) == 0:
		return lineSpaces
	}
	return lineMarks
}

// isTag reports whether what begins at p[i] may be a tag such as <signal. One at the very end of p does not count, for
// there a line has not ended either.
func isTag(p []byte, i int) bool {
	return i+2 < len(p) && p[i+1]|0x20 == 's' && p[i+2]|0x20 == 'i'
}

// holdsTag reports whether a tag may begin in the line.
func holdsTag(line []byte) bool {
	for i := 0; ; i++ {
		n := bytes.IndexByte(line[i:], '<')
		if n < 0 {
			return false
		}
		if i += n; isTag(line, i) {
			return true
		}
	}
}

// findLinesGeneric is findLines for machines without a version of their own.
func findLinesGeneric(s *skimmer, p []byte, blocks int) {
	clear(s.looks[:blocks])
	clear(s.tags[:blocks])
	if blocks > 0 && precedes(p, s.base) != withinLine {
		s.looks[0] = 1
	}
	inside := p[:s.base+blocks*block]
	for i := s.base; i < len(inside); i++ {
		n := bytes.IndexByte(inside[i:], '<')
		if n < 0 {
			break
		}
		if i += n; isTag(p, i) {
			s.tags[(i-s.base)/block] |= 1 << (uint(i-s.base) % block)
		}
	}
	for k := range blocks {
		at := s.base + k*block
		s.ends[k] = lineEnds((*[block]byte)(p[at:]))
		for ends := s.ends[k]; ends != 0; ends &= ends - 1 {
			start := at + bits.TrailingZeros64(ends) + 1
			if start < len(inside) && suspicious(p[start:]) {
				s.looks[(start-s.base)/block] |= 1 << (uint(start-s.base) % block)
			}
		}
	}
}

// lineEnds returns a bit for each byte of b that is a line end.
func lineEnds(b *[block]byte) uint64 {
	var ends uint64
	for i := 0; i < block; i += 8 {
		ends |= lineEnds8(binary.LittleEndian.Uint64(b[i:])) << i
	}
	return ends
}

// lineEnds8 returns a bit for each of eight bytes that is a line end.
func lineEnds8(w uint64) uint64 {
	const (
		each   = 0x0101010101010101
		low    = each * 0x7F
		gather = 0x0102040810204080 // moves bit 0 of byte i to bit 56+i
	)
	w ^= each * '\n'
	// The top bit of each byte that is zero now, and no other bit.
	zero := ^((w&low + low) | w | low)
	return (zero >> 7) * gather >> 56
}
