package tax

import "slices"

// lotList is lots in order. Most come at the end, some from elsewhere belong between others, and they leave at both
// ends: it is a list of blocks, so that an insertion moves a block's lots and not all of them.
type lotList struct {
	blocks [][]int32 // only a single one may be empty
	head   int       // lots of the first block that have left
}

const blockSize = 1024

func (l *lotList) reset() {
	if len(l.blocks) > 0 {
		l.blocks = l.blocks[:1]
		l.blocks[0] = l.blocks[0][:0]
	}
	l.head = 0
}

func (l *lotList) empty() bool {
	return len(l.blocks) == 0 || len(l.blocks) == 1 && l.head == len(l.blocks[0])
}

func (l *lotList) first() *int32 { return &l.blocks[0][l.head] }

func (l *lotList) last() *int32 {
	b := l.blocks[len(l.blocks)-1]
	return &b[len(b)-1]
}

func (l *lotList) dropFirst() {
	l.head++
	if l.head < len(l.blocks[0]) {
		return
	}
	l.head = 0
	if len(l.blocks) > 1 {
		l.blocks = l.blocks[1:]
	} else {
		l.blocks[0] = l.blocks[0][:0]
	}
}

func (l *lotList) dropLast() {
	at := len(l.blocks) - 1
	l.blocks[at] = l.blocks[at][:len(l.blocks[at])-1]
	switch {
	case at > 0 && len(l.blocks[at]) == 0:
		l.blocks = l.blocks[:at]
	case at == 0 && l.head == len(l.blocks[0]):
		l.reset()
	}
}

func (l *lotList) append(n int32) {
	at := len(l.blocks) - 1
	if at < 0 || len(l.blocks[at]) >= blockSize {
		var block []int32
		if at >= 0 { // there will be more
			block = make([]int32, 0, blockSize)
		}
		l.blocks = append(l.blocks, block)
		at++
	}
	l.blocks[at] = append(l.blocks[at], n)
}

// insert puts n before the first lot that after reports true for. It is false for lots, then true.
func (l *lotList) insert(n int32, after func(int32) bool) {
	at, _ := slices.BinarySearchFunc(l.blocks, 0, func(b []int32, _ int) int {
		if after(b[len(b)-1]) {
			return 1
		}
		return -1
	})
	if at == len(l.blocks) {
		l.append(n)
		return
	}
	from := 0
	if at == 0 {
		from = l.head
	}
	i, _ := slices.BinarySearchFunc(l.blocks[at][from:], 0, func(m int32, _ int) int {
		if after(m) {
			return 1
		}
		return -1
	})
	block := slices.Insert(l.blocks[at], from+i, n)
	l.blocks[at] = block
	if len(block) >= 2*blockSize {
		if at == 0 {
			block, l.head = block[l.head:], 0
		}
		half := len(block) / 2
		second := slices.Clone(block[half:])
		l.blocks[at] = block[:half:half]
		l.blocks = slices.Insert(l.blocks, at+1, second)
	}
}

// keep replaces each lot by what f makes of it, and drops those of which it makes -1.
func (l *lotList) keep(f func(int32) int32) {
	blocks := l.blocks[:0]
	for i, b := range l.blocks {
		kept := b[:0]
		if i == 0 {
			b = b[l.head:]
		}
		for _, n := range b {
			if n = f(n); n >= 0 {
				kept = append(kept, n)
			}
		}
		if len(kept) > 0 {
			blocks = append(blocks, kept)
		}
	}
	if len(blocks) == 0 && len(l.blocks) > 0 {
		blocks = append(blocks, l.blocks[0][:0])
	}
	l.blocks, l.head = blocks, 0
}
