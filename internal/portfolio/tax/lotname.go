package tax

import (
	"strconv"
	"strings"
)

// lotNamer writes what lots without an id are called. Neighbours mostly have one date, and their names share memory: a
// book may have a million lots.
type lotNamer struct {
	date  Date
	day   []byte // the date and #
	text  []byte
	space strings.Builder
}

const namesTogether = 4096 // bytes

func (w *lotNamer) name(d Date, nth int32) string {
	if w.date != d {
		w.date, w.day = d, append(d.append(w.day[:0]), '#')
	}
	w.text = strconv.AppendInt(append(w.text[:0], w.day...), int64(nth), 10)
	if w.space.Len()+len(w.text) > w.space.Cap() {
		w.space = strings.Builder{}
		w.space.Grow(namesTogether)
	}
	start := w.space.Len()
	w.space.Write(w.text)
	return w.space.String()[start:]
}

// unnamedLot is a lot without an id, by what its name says. Zero: the name is none of such a lot.
type unnamedLot struct {
	date Date
	nth  int32
}

func parseLotName(s string) unnamedLot {
	day, number, ok := strings.Cut(s, "#")
	if !ok {
		return unnamedLot{}
	}
	d, err := ParseDate(day)
	n, numberErr := strconv.ParseInt(number, 10, 32)
	if err != nil || numberErr != nil {
		return unnamedLot{}
	}
	return unnamedLot{d, int32(n)}
}

// key is by which a queue finds it.
func (u unnamedLot) key() uint64 { return uint64(u.date)<<32 | uint64(uint32(u.nth)) }

// givenKey is by which a queue finds a lot with an id.
func givenKey(lot int32) uint64 { return 1<<63 | uint64(lot) }

// sameName is the lots of a queue that have one name: in nearly all cases one. They are a heap, earliest first.
type sameName struct {
	lots  []namedLot
	space [1]namedLot
}

type namedLot struct {
	when  uint64 // date and row
	first int32  // the chunk it began with
	chunk int32  // the chunk from which on there may be open ones
}

func (a namedLot) before(b namedLot) bool {
	return a.when < b.when || a.when == b.when && a.first < b.first
}

func (s *sameName) add(x namedLot) {
	s.lots = append(s.lots, x)
	for i := len(s.lots) - 1; i > 0 && s.lots[i].before(s.lots[(i-1)/2]); i = (i - 1) / 2 {
		s.lots[i], s.lots[(i-1)/2] = s.lots[(i-1)/2], s.lots[i]
	}
}

func (s *sameName) drop() {
	last := len(s.lots) - 1
	s.lots[0] = s.lots[last]
	s.lots = s.lots[:last]
	for i := 0; 2*i+1 < last; {
		child := 2*i + 1
		if child+1 < last && s.lots[child+1].before(s.lots[child]) {
			child++
		}
		if !s.lots[child].before(s.lots[i]) {
			break
		}
		s.lots[i], s.lots[child] = s.lots[child], s.lots[i]
		i = child
	}
}

// name lets a lot be found by its name.
func (g *group) name(q *queue, n int32) {
	c := g.at(n)
	key := unnamedLot{c.date, c.nth}.key()
	if c.lot >= 0 {
		key = givenKey(c.lot)
	}
	s := q.byID[key]
	if s == nil {
		s = &sameName{}
		s.lots = s.space[:0]
		q.byID[key] = s
	}
	s.add(namedLot{when: placeOf(c.date, c.row).key, first: n, chunk: n})
}

// named returns the first open chunk of the earliest lot with that name, or -1. A lot that was given the name goes
// before one that is only called so.
func (g *group) named(q *queue, lot int32) int32 {
	if q.byID == nil {
		q.byID = make(map[uint64]*sameName)
		q.lots.keep(g.open)
		for _, block := range q.lots.blocks {
			for _, n := range block {
				g.name(q, n)
			}
		}
	}
	if n := g.earliest(q.byID[givenKey(lot)]); n >= 0 {
		return n
	}
	if u := g.in.unnamed[lot]; u.date != 0 {
		return g.earliest(q.byID[u.key()])
	}
	return -1
}

func (g *group) earliest(s *sameName) int32 {
	for s != nil && len(s.lots) > 0 {
		if n := g.open(s.lots[0].chunk); n >= 0 {
			s.lots[0].chunk = n
			return n
		}
		s.drop()
	}
	return -1
}
