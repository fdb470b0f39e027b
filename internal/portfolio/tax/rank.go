package tax

import (
	"math"
	"slices"

	"github.com/govalues/decimal"
)

// ranked are a queue's heaps, for the methods that need them: the highest basis first. hifo uses short alone. ripe has
// those in short by the day on which they become long-term.
type ranked struct {
	short, long ranks
	ripe        ripening
	unranked    []int32 // chunks that are to be ranked before the heaps are used
	stale       bool    // all lots have changed: make the heaps anew before they are used
}

// ripening is for each day of a bit more than a year a list of ranks, because that is as far ahead as a lot can become
// long-term.
type ripening struct {
	heads []int32 // by day, modulo ripeDays; one more than the first of the day's list, or zero
	done  Date    // the lists of days up to this one were emptied
}

const ripeDays = 512

// ripe is a rank that ends on a day.
type ripe struct {
	chunk, version int32
	next           int32 // as a head
}

// rank is a chunk's place in a heap. It is void when the chunk is closed or has another version.
type rank struct {
	perShare uint64 // see perShareKey
	when     uint64 // date and row
	chunk    int32
	version  int32
}

type ranks []rank

func (a *rank) before(b *rank) bool {
	switch {
	case a.perShare != b.perShare:
		return a.perShare > b.perShare
	case a.when != b.when:
		return a.when < b.when
	}
	return a.chunk < b.chunk
}

// The heaps have four children for each parent: half as many levels as with two, and each is a wait for memory.
const children = 4

func (r *ranks) add(x rank) {
	if len(*r) == cap(*r) {
		*r = slices.Grow(*r, max(8, len(*r)/2)) // append would copy large ones twice as often
	}
	*r = append(*r, x)
	h := *r
	i := len(h) - 1
	for i > 0 {
		parent := (i - 1) / children
		if !x.before(&h[parent]) {
			break
		}
		h[i] = h[parent]
		i = parent
	}
	h[i] = x
}

func (r *ranks) drop() {
	last := len(*r) - 1
	x := (*r)[last]
	if *r = (*r)[:last]; last > 0 {
		r.sink(0, x)
	}
}

// sink puts x at i, or, if others belong before it, below.
func (r *ranks) sink(i int, x rank) {
	h := *r
	for {
		child := children*i + 1
		if child >= len(h) {
			break
		}
		best := child
		for other := child + 1; other < min(child+children, len(h)); other++ {
			if h[other].before(&h[best]) {
				best = other
			}
		}
		if !h[best].before(&x) {
			break
		}
		h[i] = h[best]
		i = best
	}
	h[i] = x
}

// rank says that a chunk has another basis per share than before. It is ranked only when somebody looks: a lot that takes
// a day's losses changes many times.
func (g *group) rank(n int32) {
	c := g.at(n)
	q := &g.queues[c.queue]
	if q.method != HIFO && q.method != MinTax || q.stale || c.unranked {
		return
	}
	c.unranked = true
	q.unranked = append(q.unranked, n)
}

// rerank brings the heaps of a queue up to date. It must come before anything that cuts chunks, because the rank of a
// chunk that is cut stays what it was.
func (g *group) rerank(q *queue) {
	if q.stale {
		q.stale, q.short, q.long, q.unranked = false, q.short[:0], q.long[:0], q.unranked[:0]
		g.clearRipe(&q.ripe)
		if q.method == HIFO || q.method == MinTax {
			g.each(q, func(n int32) { g.rankNow(q, n) })
		}
	}
	// First, so that a list never has ranks of two days.
	g.takeRipe(q)
	for _, n := range q.unranked {
		g.rankNow(q, n)
	}
	q.unranked = q.unranked[:0]
}

// rankNow puts a chunk into the heaps; an older rank of it becomes void.
func (g *group) rankNow(q *queue, n int32) {
	c := g.at(n)
	c.unranked = false
	if c.qty.IsZero() {
		return
	}
	c.version++
	r := rank{perShare: g.perShareKey(q, c), when: placeOf(c.date, c.row).key, chunk: n, version: c.version}
	if q.method == HIFO {
		q.short.add(r)
		return
	}
	day := Date(0)
	if !c.always {
		day = g.longTermFrom(c.hold)
	}
	if c.dual {
		g.rankDual(q, r, day)
		return
	}
	if day <= g.today {
		q.long.add(r)
		return
	}
	q.short.add(r)
	g.ripen(&q.ripe, n, c.version, day)
}

// rankDual is for a gift that was worth less than the donor's basis, which has the donor's time for a gain, long-term
// from day on, and its own for a loss. min_tax looks into short for losses before it looks into long, so the gift may be
// in both.
func (g *group) rankDual(q *queue, r rank, day Date) {
	lossDay := g.longTermFrom(g.at(r.chunk).date + 1)
	if day <= g.today {
		q.long.add(r)
		day = lossDay
	}
	if lossDay > g.today {
		q.short.add(r)
		g.ripen(&q.ripe, r.chunk, r.version, min(day, lossDay))
	}
}

// longTermFrom remembers what the calendar said: neighbours have the same dates.
func (g *group) longTermFrom(hold Date) Date {
	m := &g.anniversaries[uint32(hold)%uint32(len(g.anniversaries))]
	if m[0] != hold {
		m[0], m[1] = hold, LongTermFrom(hold)
	}
	return m[1]
}

// ripen notes that a rank ends on a day after today.
func (g *group) ripen(r *ripening, n, version int32, day Date) {
	if r.heads == nil {
		r.heads = make([]int32, ripeDays)
	}
	if r.done == 0 {
		r.done = g.today
	}
	at := g.spareRipe
	if at > 0 {
		g.spareRipe = g.ripes[at-1].next
	} else {
		g.ripes = append(g.ripes, ripe{})
		at = int32(len(g.ripes))
	}
	head := &r.heads[day%ripeDays]
	g.ripes[at-1] = ripe{chunk: n, version: version, next: *head}
	*head = at
}

// takeRipe moves the lots that have become long-term.
func (g *group) takeRipe(q *queue) {
	r := &q.ripe
	if r.heads == nil || r.done >= g.today {
		return
	}
	for day := max(r.done+1, g.today-ripeDays+1); day <= g.today; day++ {
		head := &r.heads[day%ripeDays]
		for at := *head; at > 0; {
			g.work++
			x := g.ripes[at-1]
			if c := g.at(x.chunk); c.version == x.version && !c.qty.IsZero() {
				c.version++
				if c.dual {
					c.unranked = true
					q.unranked = append(q.unranked, x.chunk)
				} else {
					q.long.add(rank{perShare: g.perShareKey(q, c), when: placeOf(c.date, c.row).key, chunk: x.chunk, version: c.version})
				}
			}
			g.ripes[at-1].next, g.spareRipe = g.spareRipe, at
			at = x.next
		}
		*head = 0
	}
	r.done = g.today
}

func (g *group) clearRipe(r *ripening) {
	for i := range r.heads {
		for at := r.heads[i]; at > 0; {
			next := g.ripes[at-1].next
			g.ripes[at-1].next, g.spareRipe = g.spareRipe, at
			at = next
		}
		r.heads[i] = 0
	}
	r.done = g.today
}

// lossFrom is the basis from which a loss on a chunk is counted.
func (c *chunk) lossFrom() decimal.Decimal {
	if c.dual {
		return c.lossBasis
	}
	return c.basis
}

// basisPerShare has as many decimals as all amounts.
func (g *group) basisPerShare(c *chunk) decimal.Decimal {
	g.touch(c)
	return g.portion(c.lossFrom(), decimal.One, c.qty)
}

// perShareKey is the basis per share as a number that compares fast: in hundred millionths, and above 2^63 of them less
// exact. After splits it is per share of an earlier day, so that a split leaves the order of the lots as it is.
func (g *group) perShareKey(q *queue, c *chunk) uint64 {
	g.touch(c)
	ratio := 1.0
	if len(q.log) > 0 {
		if key, ok := q.keyInBase(c.lossFrom(), c.qty); ok {
			return key
		}
		now := q.at(len(q.log))
		ratio = float64(now.num) * float64(q.base.den) / float64(now.den) / float64(q.base.num)
	} else if key, ok := fixed(g.basisPerShare(c)); ok {
		return key
	}
	total, _ := c.lossFrom().Float64()
	shares, _ := c.qty.Float64()
	each := total / shares * ratio
	if each*1e8 < 1<<62 {
		return uint64(each * 1e8)
	}
	return 1<<63 | math.Float64bits(each)>>1
}

// top returns the first rank that is not void.
func (g *group) top(h *ranks) (rank, bool) {
	for len(*h) > 0 {
		g.work++
		r := (*h)[0]
		if c := g.at(r.chunk); c.version == r.version && !c.qty.IsZero() {
			return r, true
		}
		h.drop()
	}
	return rank{}, false
}

// highest returns the chunk that HIFO takes, or -1.
func (g *group) highest(q *queue) int32 {
	g.rerank(q)
	if r, ok := g.top(&q.short); ok {
		return r.chunk
	}
	return -1
}

// leastTaxed returns the chunk that min_tax takes at that price, or -1.
func (g *group) leastTaxed(q *queue, price decimal.Decimal) int32 {
	g.rerank(q)
	short, hasShort := g.top(&q.short)
	long, hasLong := g.top(&q.long)
	switch {
	case hasShort && (!hasLong || g.above(q, short, price)):
		return short.chunk
	case hasLong:
		return long.chunk
	}
	return -1
}

// above reports whether the basis per share is above a price.
func (g *group) above(q *queue, r rank, price decimal.Decimal) bool {
	if key, ok := fixed(price); ok && !price.IsNeg() && len(q.log) == 0 {
		return r.perShare > key
	}
	return compare(g.basisPerShare(g.at(r.chunk)), price) > 0
}
