package tax

import (
	"cmp"
	"container/heap"

	"github.com/govalues/decimal"
)

// pick returns the part that a sale takes next, or nil. perShare is the proceeds per share, which MinTax needs.
func (f *fold) pick(h *holding, lotID string, perShare decimal.Decimal) *part {
	if lotID != "" {
		return h.named(lotID)
	}
	switch h.account.Method {
	case LIFO:
		return front(&h.newest)
	case HIFO:
		return f.top(&h.short)
	case MinTax:
		return f.pickMinTax(h, perShare)
	}
	return front(&h.byDate)
}

// pickOldest returns the part that a transfer or an exercise takes next, or nil.
func (f *fold) pickOldest(h *holding, lotID string) *part {
	if lotID != "" {
		return h.named(lotID)
	}
	return front(&h.byDate)
}

// ranking orders the parts of a holding by basis per share, highest first. HIFO uses short alone. A rank is void once
// its part is closed or ranked again.
type ranking struct {
	short    queue[*rank] // parts whose loss would be short-term
	long     queue[*rank] // parts whose gain would be long-term
	maturing queue[*rank] // by the day on which the part must be ranked again
}

type rank struct {
	part     *part
	version  int
	perShare decimal.Decimal
	until    Date // the day on which the part must be ranked again; zero: none
}

func newRanking() ranking {
	higher := func(a, b *rank) bool {
		if order := a.perShare.Cmp(b.perShare); order != 0 {
			return order > 0
		}
		x, y := a.part, b.part
		return cmp.Or(cmp.Compare(x.lot.date, y.lot.date), cmp.Compare(x.lot.row, y.lot.row), cmp.Compare(x.created, y.created)) < 0
	}
	sooner := func(a, b *rank) bool { return a.until < b.until }
	return ranking{short: queue[*rank]{before: higher}, long: queue[*rank]{before: higher}, maturing: queue[*rank]{before: sooner}}
}

// rank ranks a part that is new or whose basis per share or holding period has changed. Taking shares from a part does
// not change its rank.
func (f *fold) rank(p *part) {
	h := p.lot.holding
	method := h.account.Method
	if method != HIFO && method != MinTax || p.closed() {
		return
	}
	p.version++
	r := &rank{part: p, version: p.version, perShare: f.portion(p.basisForLoss(), decimal.One, p.quantity)}
	if method == HIFO {
		heap.Push(&h.short, r)
		return
	}
	gainFrom, lossFrom := p.longTermFrom()
	if lossFrom > f.today {
		heap.Push(&h.short, r)
		r.until = lossFrom
	}
	if gainFrom <= f.today {
		heap.Push(&h.long, r)
	} else {
		r.until = gainFrom
	}
	if r.until > 0 {
		heap.Push(&h.maturing, r)
	}
}

// longTermFrom returns the first days on which a gain and a loss on a part are long-term. They differ for a dual lot
// only, where a loss never is before a gain.
func (p *part) longTermFrom() (gain, loss Date) {
	switch {
	case p.alwaysLong:
		return 0, 0
	case p.lot.dual:
		return LongTermFrom(p.holdStart), LongTermFrom(p.lot.date + 1)
	}
	gain = LongTermFrom(p.holdStart)
	return gain, gain
}

// rankAgain ranks all parts of a holding, after a change to all of them.
func (f *fold) rankAgain(h *holding) {
	h.ranking = newRanking()
	for _, p := range h.openParts() {
		f.rank(p)
	}
}

// top returns the part with the highest rank, or nil. It removes void ranks.
func (f *fold) top(q *queue[*rank]) *part {
	for len(q.items) > 0 {
		f.steps++
		if r := q.items[0]; r.valid() {
			return r.part
		}
		heap.Pop(q)
	}
	return nil
}

func (r *rank) valid() bool { return r.version == r.part.version && !r.part.closed() }

// pickMinTax takes short-term losses, long-term losses, long-term gains, short-term gains, in this order, and in each
// the highest basis per share first.
func (f *fold) pickMinTax(h *holding, perShare decimal.Decimal) *part {
	for len(h.maturing.items) > 0 && h.maturing.items[0].until <= f.today {
		f.steps++
		if r := heap.Pop(&h.maturing).(*rank); r.valid() {
			f.rank(r.part)
		}
	}
	short, long := f.top(&h.short), f.top(&h.long)
	if short != nil && (long == nil || h.short.items[0].perShare.Cmp(perShare) > 0) {
		return short
	}
	return long
}
