package transcript

import (
	"bytes"
	"encoding/binary"
	"math/bits"
)

// ordinaryLines passes over lines of p that are not suspicious. The first begins at i; a line that reaches to end or
// beyond it is not passed. It returns where the line begins that it stopped at, and how many it passed.
//
// Nearly all of a transcript's bytes go by here, and a mispredicted branch costs as much as finding the next line end.
// So most lines are settled by one look at their first two bytes, or at the first two after spaces.
func ordinaryLines(p []byte, i, end int) (start, passed int) {
	if suspicious(p[i:]) {
		return i, 0
	}
	for {
		n := bytes.IndexByte(p[i:end], '\n')
		if n < 0 {
			return i, passed
		}
		i += n + 1
		passed++
		if len(p)-i < glance {
			if suspicious(p[i:]) {
				return i, passed
			}
			continue
		}
		if mayBegin(p[i:]) && (p[i] != ' ' || mayBegin(p[i+leadingSpaces(p[i:]):])) && suspicious(p[i:]) {
			return i, passed
		}
	}
}

// glance is how many bytes of a line must be there for the first looks.
const glance = 16 + 8

// leadingSpaces counts the spaces, up to 16, that b begins with.
func leadingSpaces(b []byte) int {
	const spaces = 0x2020202020202020
	n := bits.TrailingZeros64(binary.LittleEndian.Uint64(b)^spaces) / 8
	return n + bits.TrailingZeros64(binary.LittleEndian.Uint64(b[n:])^spaces)/8
}

// mayBegin reports whether a suspicious line, or one after spaces, may begin with the first two bytes of b.
func mayBegin(b []byte) bool {
	pair := binary.LittleEndian.Uint16(b)
	return pairs[pair>>6]>>(pair&63)&1 != 0
}

// pairs has a bit for each two bytes with which a suspicious line may begin.
var pairs = func() (table [1 << 10]uint64) {
	for first := range 256 {
		for second := range 256 {
			if pair := second<<8 | first; mayBeginWith(byte(first), byte(second)) {
				table[pair>>6] |= 1 << (pair & 63)
			}
		}
	}
	return table
}()

func mayBeginWith(first, second byte) bool {
	switch classes[first] {
	case initial:
		for _, name := range lineNames {
			if name[0]|0x20 == first|0x20 && name[1]|0x20 == second|0x20 {
				return true
			}
		}
	case digit:
		return second == '.' || second == ')'
	case mark, brace:
		return true
	}
	return false
}

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
