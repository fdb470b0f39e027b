package tax

import "iter"

// slab is a list that grows without being copied. A book of a million rows has lists of hundreds of megabytes.
type slab[T any] struct {
	blocks [][]T
	n      int
}

const blockBits = 10

func (s *slab[T]) add(x T) {
	last := len(s.blocks) - 1
	if last < 0 || len(s.blocks[last]) == 1<<blockBits {
		size := 1 << blockBits
		if last < 0 {
			size = 8 // most books are small
		}
		s.blocks = append(s.blocks, make([]T, 0, size))
		last++
	}
	s.blocks[last] = append(s.blocks[last], x)
	s.n++
}

// at returns an element of a list that was not joined.
func (s *slab[T]) at(i int) *T { return &s.blocks[i>>blockBits][i&(1<<blockBits-1)] }

// join adds the elements of another list, without copying them.
func (s *slab[T]) join(other *slab[T]) {
	s.blocks, s.n = append(s.blocks, other.blocks...), s.n+other.n
}

func (s *slab[T]) all() iter.Seq[*T] {
	return func(yield func(*T) bool) {
		for _, block := range s.blocks {
			for i := range block {
				if !yield(&block[i]) {
					return
				}
			}
		}
	}
}
