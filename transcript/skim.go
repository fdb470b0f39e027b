package transcript

import (
	"bytes"
	"encoding/binary"
	"math/bits"
)

// Nearly all of a transcript's bytes are passed over here. Asking bytes.IndexByte for each line end, and then looking
// at the line's first bytes, costs two or three mispredicted branches a line, which is most of the time there is. So
// line ends are taken from the bits of 64 bytes at a time and listed for a whole window, and lines that cannot be
// suspicious are struck off that list without branches.

// window is how many bytes are listed at a time; block is how many are looked at in one step.
const (
	window = 4 << 10
	block  = 64
)

// skimmer passes over ordinary lines. It lists the line ends of a window of the piece, and those after which a line
// begins that may be suspicious, and goes on with these lists when it is called again.
type skimmer struct {
	base int // where the window begins
	size int

	ends  [window + block]uint16 // line ends, relative to base; the last places are for what is written beyond the count
	count int
	next  int // the end of the line that comes next

	doubtful  [window + 1]uint16 // indices of ends after which a line needs a closer look; one place beyond the count
	doubts    int
	nextDoubt int
}

// reset is called before a new piece.
func (s *skimmer) reset() {
	s.base, s.size, s.count, s.next, s.doubts, s.nextDoubt = 0, 0, 0, 0, 0, 0
}

// ordinary passes over lines of p that are not suspicious. The first begins at i; a line that reaches to end or
// beyond it is not passed. It returns where the line begins that it stopped at, and how many it passed. In one
// piece i never decreases.
func (s *skimmer) ordinary(p []byte, i, end int) (start, passed int) {
	if suspicious(p[i:]) {
		return i, 0
	}
	for start = i; ; {
		for s.next < s.count && s.end(s.next) < start { // lines that were looked at closely
			s.next++
		}
		for s.nextDoubt < s.doubts && int(s.doubtful[s.nextDoubt]) < s.next {
			s.nextDoubt++
		}
		stop := s.count
		doubt := s.nextDoubt < s.doubts
		if doubt {
			stop = int(s.doubtful[s.nextDoubt]) + 1
		}
		if stop > s.next && s.end(stop-1) >= end {
			for ; s.end(s.next) < end; s.next++ {
				start = s.end(s.next) + 1
				passed++
			}
			return start, passed
		}
		if stop > s.next {
			start = s.end(stop-1) + 1
			passed += stop - s.next
			s.next = stop
		}
		if doubt && suspicious(p[start:]) || !doubt && !s.list(p, max(s.base+s.size, start)) {
			return start, passed
		}
	}
}

func (s *skimmer) end(k int) int { return s.base + int(s.ends[k]) }

// list lists the next window, which begins at base. It reports false at the end of the piece.
func (s *skimmer) list(p []byte, base int) bool {
	s.reset()
	s.base, s.size = base, min(window, len(p)-base)
	if s.size == 0 {
		return false
	}
	whole := s.size &^ (block - 1)
	var bits [window / block]uint64
	findLineEnds(&bits, p[base:base+whole])
	for i, ends := range bits[:whole/block] {
		s.add(i*block, ends)
	}
	for at := whole; at < s.size; at++ {
		if p[base+at] == '\n' {
			s.ends[s.count] = uint16(at)
			s.count++
		}
	}
	s.doubt(p)
	return true
}

// doubt lists the ends after which a line begins that may be suspicious. It does so in three passes, each without
// branches and over what the one before left: by the first byte, by the first byte after spaces, by all that
// quickLook looks at.
func (s *skimmer) doubt(p []byte) {
	inside := s.count // ends with enough of p after them for a quick look
	for inside > 0 && s.end(inside-1)+1+skimmed > len(p) {
		inside--
	}
	starts := p[min(s.base+1, len(p)):]
	n := 0
	for k, e := range s.ends[:inside] {
		s.doubtful[n] = uint16(k)
		n += int(looks[starts[e]] >> lookAtAll)
	}
	all := n
	n = 0
	for _, k := range s.doubtful[:all] {
		at := int(s.ends[k])
		at += leadingSpaces(starts[at:])
		at += leadingSpaces(starts[at:])
		s.doubtful[n] = k
		n += int(looks[starts[at]] >> lookAtAll)
	}
	all = n
	n = 0
	for _, k := range s.doubtful[:all] {
		s.doubtful[n] = k
		n += quickLook(starts, int(s.ends[k]))
	}
	for k := inside; k < s.count; k++ {
		s.doubtful[n] = uint16(k)
		n++
	}
	s.doubts = n
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

// findLineEndsGeneric is findLineEnds for machines without a version of their own.
func findLineEndsGeneric(bits *[window / block]uint64, p []byte) {
	for i := range min(len(p)/block, len(bits)) {
		bits[i] = lineEnds((*[block]byte)(p[i*block:]))
	}
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

// skimmed is how many bytes of a line quickLook looks at.
const skimmed = 16 + 4 + 8 + 4

// quickLook looks at the line that begins at p[i], of which skimmed bytes must be there. It returns 0 if the line is not
// suspicious and 1 if it may be. It passes over up to 16 spaces, 4 marks and 8 spaces and compares what follows with
// the starts of the names.
func quickLook(p []byte, i int) int {
	b := (*[skimmed]byte)(p[i:])
	at := leadingSpaces(b[0:])
	at += leadingSpaces(b[at&15:])

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

	at += leadingSpaces(p[i+at:])
	letters := firstFour(p[i+at:])
	different := nameStarts.table[nameStarts.slot(letters)] ^ letters
	const any = lookMark | lookCloser | lookDigit
	doubt := uint32(first&lookCloser | numbered | looks[p[i+at]]&any&^digits)
	// 1 if different is 0, or 1 if doubt is not, without a branch.
	return int(1 - (different|-different)>>31 | (doubt+0xFF)>>8)
}

// leadingSpaces counts the spaces that the eight bytes of b begin with.
func leadingSpaces(b []byte) int {
	return bits.TrailingZeros64(binary.LittleEndian.Uint64(b)^eachByte*' ') / 8
}

// What quickLook makes of a byte.
const (
	lookMark   = 1 << iota // pass over it
	lookCloser             // not to be judged at a glance
	lookPoint              // ends the number of an item
	lookDigit

	lookAtAll = 7 // the bit that says that a line may be suspicious that begins so
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
	for c := range table {
		if classes[c] != ordinary {
			table[c] |= 1 << lookAtAll
		}
	}
	return table
}()

// nextAngle returns where in p, from i on, a tag such as <signal may begin; len(p) if nowhere. It misses one at the
// very end of p, where a line has not ended either.
func nextAngle(p []byte, i int) int {
	for {
		n := bytes.IndexByte(p[i:], '<')
		if n < 0 || i+n+2 >= len(p) {
			return len(p)
		}
		if i += n + 1; p[i]|0x20 == 's' && p[i+1]|0x20 == 'i' {
			return i - 1
		}
	}
}
