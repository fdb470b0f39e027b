package transcript

import "math/bits"

// planes are, for a block, the bytes of seven kinds as bits.
type planes struct {
	end   uint64 // line ends
	space uint64
	angle uint64 // '<'
	// What is not of these kinds:
	notLead    uint64 // marks, spaces among them
	notFirst   uint64 // first letters of names, and digits
	notSecond  uint64 // what may follow them
	notSpecial uint64 // what may begin a fence or an object
}

// lineRoom is room for the planes of a window.
type lineRoom [masks]planes

// planesOf writes the planes of so many blocks from p on. It needs AVX2.
//
//go:noescape
func planesOf(out *planes, p *byte, blocks int, kinds *kindTables)

// kindTables classify a byte by its halves: a byte is of a kind if the kind's bit is set in the entries for both
// halves, so a kind is some upper halves times some lower halves. One instruction looks up 32 bytes; there are two pairs
// of tables, since eight bits are not enough.
type kindTables struct {
	low, high         [32]uint8 // 16 entries, twice
	lowMore, highMore [32]uint8
	// Which bits are of which plane, and the one byte that is a plane of its own.
	lead, first, second, special, angle [32]uint8
}

// Planes that are one bit of the first tables.
const (
	kindEnd   = 1 << 6
	kindSpace = 1 << 7
)

var kinds = func() *kindTables {
	t := &kindTables{}
	// Marks must be met exactly, for they are passed over. Of the rest it does no harm to meet a few more.
	isMark := func(c byte) bool { return classes[c] == mark }
	for i, rows := range []uint16{1 << 2, 1<<3 | 1<<7, 1 << 5, 1 << 6, 1 << 0, 0xFF00} {
		addKind(&t.low, &t.high, 1<<i, rows, isMark)
	}
	addKind(&t.low, &t.high, kindEnd, 1<<0, func(c byte) bool { return c == '\n' })
	addKind(&t.low, &t.high, kindSpace, 1<<2, func(c byte) bool { return c == ' ' })

	// The delegation markers begin like a name.
	isFirst := func(c byte) bool { return classes[c] == initial || c|0x20 == 'd' }
	addKind(&t.lowMore, &t.highMore, 1<<0, 1<<4|1<<6, isFirst)
	addKind(&t.lowMore, &t.highMore, 1<<1, 1<<5|1<<7, isFirst)
	addKind(&t.lowMore, &t.highMore, 1<<2, 1<<3, func(c byte) bool { return classes[c] == digit })
	addKind(&t.lowMore, &t.highMore, 1<<3, 1<<4|1<<6, isSecond)
	addKind(&t.lowMore, &t.highMore, 1<<4, 1<<5|1<<7, isSecond)
	addKind(&t.lowMore, &t.highMore, 1<<5, 1<<2, isSecond)
	addKind(&t.lowMore, &t.highMore, 1<<6, 1<<7, func(c byte) bool { return c == '{' || c == '~' })
	addKind(&t.lowMore, &t.highMore, 1<<7, 1<<6, func(c byte) bool { return c == '`' })
	for i := range t.lead {
		t.lead[i], t.first[i], t.second[i], t.special[i] = 0b0011_1111, 0b0000_0111, 0b0011_1000, 0b1100_0000
		t.angle[i] = '<'
	}
	return t
}()

// isSecond reports whether c is the second letter of a name, or may follow the digit of a numbered item.
func isSecond(c byte) bool {
	for _, name := range lineNames {
		if name[1]|0x20 == c|0x20 {
			return true
		}
	}
	return c == '.' || c == ')'
}

// addKind adds a kind of those bytes that are in the given rows, which are upper halves.
func addKind(low, high *[32]uint8, kind uint8, rows uint16, is func(c byte) bool) {
	for c := range 256 {
		if rows>>(c>>4)&1 == 1 && is(byte(c)) {
			low[c&15] |= kind
			low[c&15+16] |= kind
			high[c>>4] |= kind
			high[c>>4+16] |= kind
		}
	}
}

// cpuid and xgetbv are the instructions of these names.
func cpuid(leaf, sub uint32) (a, b, c, d uint32)
func xgetbv() (low, high uint32)

// hasAVX2 reports whether processor and operating system have it.
var hasAVX2 = func() bool {
	const osxsave, avx, avx2, savesYMM = 1 << 27, 1 << 28, 1 << 5, 6
	if most, _, _, _ := cpuid(0, 0); most < 7 {
		return false
	}
	if _, _, c, _ := cpuid(1, 0); c&osxsave == 0 || c&avx == 0 {
		return false
	}
	if low, _ := xgetbv(); low&savesYMM != savesYMM {
		return false
	}
	_, b, _, _ := cpuid(7, 0)
	return b&avx2 != 0
}()

// findLines makes the masks of so many whole blocks from the window's start on.
func findLines(s *skimmer, p []byte, blocks int) {
	if !hasAVX2 {
		findLinesGeneric(s, p, blocks)
		return
	}
	if blocks == 0 {
		return
	}
	planesOf(&s.room[0], &p[s.base], blocks, kinds)
	var start, inSpaces, inLead uint64 // 1 if a line begins with the block, or goes on with its spaces or marks
	switch precedes(p, s.base) {
	case lineEnd:
		start = 1
	case lineSpaces:
		inSpaces, inLead = 1, 1
	case lineMarks:
		inLead = 1
	}
	for k := range s.room[:blocks] {
		m := &s.room[k]
		starts := m.end<<1 | start
		start = m.end >> 63
		var text, word uint64 // the line's first byte after spaces, and after all marks
		text, inSpaces = afterRun(m.space, starts|inSpaces)
		word, inLead = afterRun(^m.notLead, starts|inLead)
		looks := text&^m.notSpecial | word&^m.notFirst&(^m.notSecond>>1|1<<63)
		if looks != 0 {
			looks = refine(p[s.base+k*block:], looks)
		}
		tags := m.angle
		for rest := tags; rest != 0; rest &= rest - 1 {
			if at := bits.TrailingZeros64(rest); !isTag(p, s.base+k*block+at) {
				tags &^= 1 << at
			}
		}
		s.ends[k], s.looks[k], s.tags[k] = m.end, looks, tags
	}
}

// afterRun returns where the runs of ones in mask end that begin at starts, and 1 if the last goes on in the next block.
// Adding a run's first bit to it carries through to the bit after it.
func afterRun(mask, starts uint64) (after, goesOn uint64) {
	sum, carry := bits.Add64(mask, starts&mask, 0)
	return (starts | sum) &^ mask, carry
}

// refine strikes off what does not begin like a name after all.
func refine(p []byte, looks uint64) uint64 {
	for rest := looks; rest != 0; rest &= rest - 1 {
		at := bits.TrailingZeros64(rest)
		if at+4 > len(p) {
			break
		}
		if c := classes[p[at]]; (c == initial || c == ordinary) && !beginsLikeName(p[at:]) {
			looks &^= 1 << at
		}
	}
	return looks
}
