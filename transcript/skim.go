package transcript

import (
	"bytes"
	"encoding/binary"
	"math/bits"
)

// Nearly all of a transcript's bytes are passed over here. Asking bytes.IndexByte for each line end, and then looking
// at the line's first bytes, costs two or three mispredicted branches a line, which is most of the time there is. So
// line ends are taken from the bits of 64 bytes at a time and listed for a whole window, and the first look at a line
// (mayBeSuspicious) computes its answer without branches.

// window is how many bytes are listed at a time; block is how many are looked at in one step.
const (
	window = 4 << 10
	block  = 64
)

// skimmer passes over ordinary lines. It lists the line ends of a window of the piece and goes on with that list
// when it is called again.
type skimmer struct {
	ends  [window + block]uint16 // relative to base; the last places are for what is written beyond the count
	base  int
	size  int // of the window
	count int // of ends
	next  int // the end to look at next
}

// reset is called before a new piece.
func (s *skimmer) reset() { s.base, s.size, s.count, s.next = 0, 0, 0, 0 }

// ordinary passes over lines of p that are not suspicious. The first begins at i; a line that reaches to end or
// beyond it is not passed. It returns where the line begins that it stopped at, and how many it passed. In one
// piece i never decreases.
func (s *skimmer) ordinary(p []byte, i, end int) (start, passed int) {
	if mayBeSuspicious(p, i) && suspicious(p[i:]) {
		return i, 0
	}
	for start = i; ; {
		for s.next < s.count {
			e := s.base + int(s.ends[s.next])
			if e < start { // the end of a line that was looked at closely
				s.next++
				continue
			}
			if e >= end {
				return start, passed
			}
			s.next++
			start = e + 1
			passed++
			if mayBeSuspicious(p, start) && suspicious(p[start:]) {
				return start, passed
			}
		}
		if !s.list(p, max(s.base+s.size, start)) {
			return start, passed
		}
	}
}

// list lists the line ends of the next window, which begins at base. It reports false at the end of the piece.
func (s *skimmer) list(p []byte, base int) bool {
	s.base, s.count, s.next = base, 0, 0
	s.size = min(window, len(p)-base)
	if s.size == 0 {
		return false
	}
	whole := s.size &^ (block - 1)
	for at := 0; at < whole; at += block {
		s.add(at, lineEnds((*[block]byte)(p[base+at:])))
	}
	for at := whole; at < s.size; at++ {
		if p[base+at] == '\n' {
			s.ends[s.count] = uint16(at)
			s.count++
		}
	}
	return true
}

// add lists the line ends of the block at at. They are written four at a time, whether or not there are so many: a
// branch for each would be mispredicted.
func (s *skimmer) add(at int, ends uint64) {
	count := s.count + bits.OnesCount64(ends)
	for n := s.count; n < count; n += 4 {
		four := (*[4]uint16)(s.ends[n:])
		for k := range four {
			four[k] = uint16(at + bits.TrailingZeros64(ends))
			ends &= ends - 1
		}
	}
	s.count = count
}

// lineEnds returns a bit for each byte of b that is a line end.
func lineEnds(b *[block]byte) uint64 {
	return lineEnds8(binary.LittleEndian.Uint64(b[0:])) |
		lineEnds8(binary.LittleEndian.Uint64(b[8:]))<<8 |
		lineEnds8(binary.LittleEndian.Uint64(b[16:]))<<16 |
		lineEnds8(binary.LittleEndian.Uint64(b[24:]))<<24 |
		lineEnds8(binary.LittleEndian.Uint64(b[32:]))<<32 |
		lineEnds8(binary.LittleEndian.Uint64(b[40:]))<<40 |
		lineEnds8(binary.LittleEndian.Uint64(b[48:]))<<48 |
		lineEnds8(binary.LittleEndian.Uint64(b[56:]))<<56
}

const eachByte = 0x0101010101010101

// lineEnds8 returns a bit for each of eight bytes that is a line end.
func lineEnds8(w uint64) uint64 {
	const (
		low    = eachByte * 0x7F
		gather = 0x0102040810204080 // moves bit 0 of byte i to bit 56+i
	)
	w ^= eachByte * '\n'
	// The top bit of each byte that is zero now, and no other bit.
	zero := ^((w&low + low) | w | low)
	return (zero >> 7) * gather >> 56
}

// skimmed is how many bytes of a line mayBeSuspicious looks at.
const skimmed = 16 + 4 + 8 + 4

// mayBeSuspicious is a quick look at the line that begins at p[i]: false means that it is not suspicious. It passes
// over up to 16 spaces, 4 marks and 8 spaces and compares what follows with the starts of the names.
func mayBeSuspicious(p []byte, i int) bool {
	if i+skimmed > len(p) {
		return true
	}
	b := (*[skimmed]byte)(p[i:])
	at := leadingSpaces(b[0:8])
	at += leadingSpaces(b[at&15 : at&15+8])

	first, second, third, fourth := looks[b[at&31]], looks[b[(at+1)&31]], looks[b[(at+2)&31]], looks[b[(at+3)&31]]
	// A number is a mark only if a point or a parenthesis follows within three digits.
	digits := first & lookDigit
	point2, point3, point4 := second<<1, third<<1, fourth<<1 // lookPoint as lookDigit
	numbered := digits & (point2 | second&(point3|third&point4))
	marks := first & lookMark
	at += int(marks)
	marks &= second
	at += int(marks)
	marks &= third
	at += int(marks)
	marks &= fourth
	at += int(marks)

	at += leadingSpaces(p[i+at : i+at+8])
	letters := firstFour(p[i+at:])
	same := nameStarts.table[nameStarts.slot(letters)] == letters
	return same || first&lookCloser|numbered|looks[p[i+at]]&^digits != 0
}

// leadingSpaces counts the spaces that the eight bytes of b begin with.
func leadingSpaces(b []byte) int {
	return bits.TrailingZeros64(binary.LittleEndian.Uint64(b)^eachByte*' ') / 8
}

// What mayBeSuspicious makes of a byte.
const (
	lookMark   = 1 << iota // pass over it
	lookCloser             // not to be judged at a glance
	lookPoint              // ends the number of an item
	lookDigit
)

var looks = func() (table [256]uint8) {
	for c := range table {
		switch classes[c] {
		case mark:
			table[c] = lookMark
		case brace:
			table[c] = lookCloser
		case digit:
			table[c] = lookDigit
		}
	}
	for _, c := range " `~" {
		table[c] |= lookCloser
	}
	for _, c := range ".)" {
		table[c] |= lookPoint
	}
	return table
}()

// nextAngle returns where in p, from i on, a tag such as <signal may begin; len(p) if nowhere. It misses one at the
// very end of p, where a line has not ended either.
func nextAngle(p []byte, i int) int {
	for {
		n := bytes.IndexByte(p[i:], '<')
		if n < 0 || i+n+1 >= len(p) {
			return len(p)
		}
		if i += n + 1; p[i]|0x20 == 's' {
			return i - 1
		}
	}
}
