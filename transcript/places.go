package transcript

import (
	"slices"

	"signalbox/transcript/internal/envelope"
)

// places knows where the agent's own text is in the stream, from the first byte on at which a
// signal may still be found.
type places struct {
	wanted bool
	next   []envelope.Place // of the next piece of text
	some   bool             // the envelope has named places; otherwise the text is the stream
	list   []place
}

// place is an envelope.Place at an offset in the agent's own text.
type place struct {
	offset, at int64
	size       int
}

// maxPlaces bounds what is known. A signal that has started before that has no place.
const maxPlaces = 128 << 10

// startPiece is called before a piece of text that starts at an offset.
func (p *places) startPiece(offset int64) {
	for _, n := range p.next {
		p.some = true
		p.list = append(p.list, place{offset + int64(n.Text), n.At, n.Size})
	}
	p.next = nil
}

// take returns the place of what is not text.
func (p *places) take() (from, to int64) {
	for _, n := range p.next {
		from, to = n.At, n.At+int64(n.Size)
	}
	p.next = nil
	return from, to
}

// forget drops what is not needed any more, because no signal can be found before the offset
// barrier.
func (p *places) forget(barrier int64) {
	first := p.index(barrier)
	if len(p.list) > 2*maxPlaces { // rarely, because the rest is moved
		first = max(first, len(p.list)-maxPlaces)
	}
	if first > 0 {
		p.list = slices.Delete(p.list, 0, first)
	}
}

// index returns the index of the place that has an offset, -1 if there is none.
func (p *places) index(offset int64) int {
	i, found := slices.BinarySearchFunc(p.list, offset,
		func(e place, offset int64) int { return int(min(1, max(-1, e.offset-offset))) })
	if !found {
		i--
	}
	return i
}

// find returns where the text from an offset to another is in the stream, 0 and 0 if it is not
// known.
func (p *places) find(from, to int64) (start, end int64) {
	switch {
	case !p.wanted || from >= to:
		return 0, 0
	case !p.some:
		return from, to
	}
	first, last := p.index(from), p.index(to-1)
	if first < 0 {
		return 0, 0
	}
	start, end = p.list[first].at, p.list[last].at+int64(p.list[last].size)
	if p.list[first].size == 0 {
		start += from - p.list[first].offset
	}
	if p.list[last].size == 0 {
		end += to - p.list[last].offset
	}
	return start, end
}

func (p *places) clone() places {
	c := *p
	c.list = slices.Clone(p.list)
	return c
}
