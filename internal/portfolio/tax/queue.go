package tax

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	"github.com/govalues/decimal"
)

// chunk is a lot in an account, or the part of one that has a basis of its own. Closed ones stay, with quantity zero.
type chunk struct {
	qty, basis, adjustment decimal.Decimal
	lossBasis              decimal.Decimal // of a dual one
	date, hold             Date
	row                    int32 // the transaction that brought it
	acq                    int32 // the purchase, -1 if it was none
	next                   int32 // the next chunk of this lot in this account, or -1
	free                   int32 // the next chunk of this purchase that may still become a replacement, or -1
	queue                  int32
	lot                    int32 // the id it was given, or -1
	nth                    int32 // its number among the lots of its day
	version                int32 // changes with what a rank was made from
	used                   bool  // is a replacement
	dual                   bool  // a gift that was worth less than the donor's basis
	always                 bool  // long-term whatever the dates say
}

// queue is the lots of one account and ticker.
type queue struct {
	account int32
	ticker  int32
	method  Method
	// lots are first chunks, by date, of which those before head are closed. LIFO shortens it at the end.
	lots     []int32
	head     int
	numbered Date // the day whose lots nth counts
	nth      int32
	byID     map[int32]int // of a given id, the place of the first lot; nil when places have changed

	// Ranks for the methods that need them, made anew after a change of all lots. short and long have the highest basis
	// first; hifo uses short alone. ripe has those in short by the date on which they become long-term.
	short, long, ripe ranks
}

// rank is a chunk's place in a heap. It is void when the chunk is closed or has another version.
type rank struct {
	perShare decimal.Decimal
	date     Date
	row      int32
	chunk    int32
	version  int32
}

type ranks []rank

func (r ranks) before(i, j int) bool {
	a, b := &r[i], &r[j]
	return cmp.Or(b.perShare.Cmp(a.perShare), cmp.Compare(a.date, b.date), cmp.Compare(a.row, b.row), cmp.Compare(a.chunk, b.chunk)) < 0
}

// add and drop keep a binary heap, like container/heap, but without an allocation for each element.
func (r *ranks) add(x rank) {
	*r = append(*r, x)
	h := *r
	for i := len(h) - 1; i > 0 && h.before(i, (i-1)/2); i = (i - 1) / 2 {
		h[i], h[(i-1)/2] = h[(i-1)/2], h[i]
	}
}

func (r *ranks) drop() {
	h := *r
	last := len(h) - 1
	h[0] = h[last]
	h = h[:last]
	for i := 0; 2*i+1 < len(h); {
		child := 2*i + 1
		if child+1 < len(h) && h.before(child+1, child) {
			child++
		}
		if !h.before(child, i) {
			break
		}
		h[i], h[child] = h[child], h[i]
		i = child
	}
	*r = h
}

// push puts a new lot into its queue.
func (g *group) push(n int32) {
	c := &g.chunks[n]
	q := &g.queues[c.queue]
	if last := len(q.lots) - 1; last >= q.head && c.date < g.chunks[q.lots[last]].date {
		// A lot from elsewhere, older than some that are here.
		at, _ := slices.BinarySearchFunc(q.lots[q.head:], c, func(have int32, c *chunk) int {
			h := &g.chunks[have]
			if order := cmp.Or(cmp.Compare(h.date, c.date), cmp.Compare(h.row, c.row)); order != 0 {
				return order
			}
			return -1 // after its equals
		})
		q.lots, q.byID = slices.Insert(q.lots, q.head+at, n), nil
	} else {
		if q.byID != nil && c.lot >= 0 {
			if _, ok := q.byID[c.lot]; !ok {
				q.byID[c.lot] = len(q.lots)
			}
		}
		q.lots = append(q.lots, n)
	}
	for ; n >= 0; n = g.chunks[n].next {
		g.rank(n)
	}
}

// number gives a new lot its number of the day.
func (q *queue) number(d Date) int32 {
	if q.numbered != d {
		q.numbered, q.nth = d, 0
	}
	q.nth++
	return q.nth
}

// rank puts a chunk into the heaps of its queue, if its method has them; an older rank of it becomes void.
func (g *group) rank(n int32) {
	c := &g.chunks[n]
	q := &g.queues[c.queue]
	if q.method != HIFO && q.method != MinTax || c.qty.IsZero() {
		return
	}
	c.version++
	r := rank{perShare: g.basisPerShare(c), date: c.date, row: c.row, chunk: n, version: c.version}
	switch {
	case q.method == HIFO:
		q.short.add(r)
	case c.always:
		q.long.add(r)
	default:
		q.short.add(r)
		r.perShare, r.date = decimal.Zero, LongTermFrom(c.hold)
		q.ripe.add(r)
	}
}

// basisPerShare has as many decimals as all amounts: numbers of one scale compare fast.
func (g *group) basisPerShare(c *chunk) decimal.Decimal {
	if c.dual {
		return g.portion(c.lossBasis, decimal.One, c.qty)
	}
	return g.portion(c.basis, decimal.One, c.qty)
}

// top returns the first rank that is not void.
func (g *group) top(h *ranks) (rank, bool) {
	for len(*h) > 0 {
		r := (*h)[0]
		if c := &g.chunks[r.chunk]; !c.qty.IsZero() && c.version == r.version {
			return r, true
		}
		h.drop()
	}
	return rank{}, false
}

// settle drops closed lots.
func (g *group) settle(q *queue) {
	kept := q.lots[:0]
	for _, n := range q.lots[q.head:] {
		if n = g.open(n); n >= 0 {
			kept = append(kept, n)
		}
	}
	q.lots, q.head, q.byID = kept, 0, nil
}

// open returns the first open chunk from n on in its lot, or -1.
func (g *group) open(n int32) int32 {
	for n >= 0 && g.chunks[n].qty.IsZero() {
		n = g.chunks[n].next
	}
	return n
}

// each calls f for all open chunks of the queue, oldest lot first.
func (g *group) each(q *queue, f func(n int32)) {
	g.settle(q)
	for _, n := range q.lots {
		for n = g.open(n); n >= 0; n = g.open(g.chunks[n].next) {
			f(n)
		}
	}
}

// oldest returns the chunk that FIFO takes, or -1.
func (g *group) oldest(q *queue) int32 {
	for ; q.head < len(q.lots); q.head++ {
		n := g.open(q.lots[q.head])
		if n >= 0 {
			q.lots[q.head] = n
			return n
		}
	}
	return -1
}

// pick returns the chunk that a disposal takes next, or -1. perShare is what it brings, for min_tax.
func (g *group) pick(q *queue, lot int32, perShare decimal.Decimal) int32 {
	if lot >= 0 {
		return g.named(q, lot)
	}
	switch q.method {
	case LIFO:
		for len(q.lots) > q.head {
			last := len(q.lots) - 1
			if n := g.open(q.lots[last]); n >= 0 {
				q.lots[last] = n
				return n
			}
			q.lots, q.byID = q.lots[:last], nil
		}
		return -1
	case HIFO:
		if r, ok := g.top(&q.short); ok {
			return r.chunk
		}
		return -1
	case MinTax:
		return g.leastTaxed(q, perShare)
	}
	return g.oldest(q)
}

func (g *group) leastTaxed(q *queue, price decimal.Decimal) int32 {
	for {
		r, ok := g.top(&q.ripe)
		if !ok || r.date > g.today {
			break
		}
		q.ripe.drop()
		c := &g.chunks[r.chunk]
		c.version++
		q.long.add(rank{perShare: g.basisPerShare(c), date: c.date, row: c.row, chunk: r.chunk, version: c.version})
	}
	short, hasShort := g.top(&q.short)
	long, hasLong := g.top(&q.long)
	switch {
	case hasShort && (!hasLong || short.perShare.Cmp(price) > 0):
		return short.chunk
	case hasLong:
		return long.chunk
	}
	return -1
}

// named returns the first open chunk of the lot with that id, or -1.
func (g *group) named(q *queue, lot int32) int32 {
	if q.byID == nil {
		g.settle(q)
		q.byID = make(map[int32]int)
		for i, n := range q.lots {
			if id := g.chunks[n].lot; id >= 0 {
				if _, ok := q.byID[id]; !ok {
					q.byID[id] = i
				}
			}
		}
	}
	if i, ok := q.byID[lot]; ok {
		if n := g.open(q.lots[i]); n >= 0 {
			return n
		}
	}
	name := g.in.lots[lot]
	date, nth, generated := parseLotName(name)
	for _, n := range q.lots[q.head:] {
		c := &g.chunks[n]
		if c.lot == lot || generated && c.lot < 0 && c.date == date && c.nth == nth {
			if n = g.open(n); n >= 0 {
				return n
			}
		}
	}
	return -1
}

// lotName is what a lot without an id is called.
func lotName(d Date, nth int32) string { return d.String() + "#" + strconv.Itoa(int(nth)) }

func parseLotName(s string) (Date, int32, bool) {
	day, number, ok := strings.Cut(s, "#")
	if !ok {
		return 0, 0, false
	}
	d, err := ParseDate(day)
	n, numberErr := strconv.ParseInt(number, 10, 32)
	return d, int32(n), err == nil && numberErr == nil
}
