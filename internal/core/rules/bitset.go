package rules

import (
	"iter"
	"math/bits"
)

// bitset is a set of small numbers.
type bitset []uint64

func (b *bitset) add(i int) {
	for len(*b) <= i/64 {
		*b = append(*b, 0)
	}
	(*b)[i/64] |= 1 << (i % 64)
}

func (b bitset) remove(i int) {
	if i/64 < len(b) {
		b[i/64] &^= 1 << (i % 64)
	}
}

// first returns the lowest number in the set, or -1.
func (b bitset) first() int {
	for i, word := range b {
		if word != 0 {
			return i*64 + bits.TrailingZeros64(word)
		}
	}
	return -1
}

func (b *bitset) union(other bitset) {
	for len(*b) < len(other) {
		*b = append(*b, 0)
	}
	for i, word := range other {
		(*b)[i] |= word
	}
}

func (b bitset) size() int {
	n := 0
	for _, word := range b {
		n += bits.OnesCount64(word)
	}
	return n
}

// all yields the numbers in the set in order.
func (b bitset) all() iter.Seq[int] {
	return func(yield func(int) bool) {
		for i, word := range b {
			for ; word != 0; word &= word - 1 {
				if !yield(i*64 + bits.TrailingZeros64(word)) {
					return
				}
			}
		}
	}
}
