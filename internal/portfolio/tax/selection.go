package tax

import (
	"cmp"
	"container/heap"

	"github.com/govalues/decimal"
)

// pick returns the part that a sale takes next by the method of the account, or nil. perShare is the
// proceeds per share, which MinTax needs.
func (f *fold) pick(h *holding, perShare decimal.Decimal) *part {
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

// ranking orders the parts of a holding by basis per share, highest first. HIFO uses short alone. A
// rank is void once its part is closed or ranked again.
type ranking struct {
	short    queue[*rank]     // parts whose loss would be short-term
	long     queue[*rank]     // parts whose gain would be long-term
	maturing map[Date][]*rank // by the day on which the part must be ranked again
	matured  Date             // maturing is done up to this day
}

type rank struct {
	part     *part
	version  int
	perShare decimal.Decimal
}

func newRanking() ranking {
	higher := func(a, b *rank) bool {
		if order := a.perShare.Cmp(b.perShare); order != 0 {
			return order > 0
		}
		x, y := a.part, b.part
		return cmp.Or(cmp.Compare(x.lot.date, y.lot.date), cmp.Compare(x.lot.order, y.lot.order),
			cmp.Compare(x.created, y.created)) < 0
	}
	return ranking{short: queue[*rank]{before: higher}, long: queue[*rank]{before: higher},
		maturing: make(map[Date][]*rank)}
}

// rank ranks a part that is new or whose basis per share or holding period has changed. Taking
// shares from a part does not change its rank.
func (f *fold) rank(p *part) {
	h := p.lot.holding
	if !h.account.ranksLots() || p.closed() {
		return
	}
	p.version++
	r := &rank{part: p, version: p.version, perShare: f.portion(p.basisForLoss(), decimal.One, p.quantity)}
	if h.account.Method == HIFO {
		heap.Push(&h.short, r)
		return
	}
	gainFrom, lossFrom := p.longTermFrom()
	if lossFrom > f.today {
		heap.Push(&h.short, r)
	}
	if gainFrom <= f.today {
		heap.Push(&h.long, r)
	}
	if h.matured == 0 {
		h.matured = f.today
	}
	switch { // gainFrom is not after lossFrom
	case gainFrom > f.today:
		h.maturing[gainFrom] = append(h.maturing[gainFrom], r)
	case lossFrom > f.today:
		h.maturing[lossFrom] = append(h.maturing[lossFrom], r)
	}
}

// longTermFrom returns the first days on which a gain and a loss on a part are long-term. They
// differ for a dual lot only, where a loss never is before a gain.
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
	if !h.account.ranksLots() {
		return
	}
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

// pickMinTax takes short-term losses, long-term losses, long-term gains, short-term gains, in this
// order, and in each the highest basis per share first.
func (f *fold) pickMinTax(h *holding, perShare decimal.Decimal) *part {
	for h.matured < f.today {
		h.matured++
		for _, r := range h.maturing[h.matured] {
			f.steps++
			if r.valid() {
				f.rank(r.part)
			}
		}
		delete(h.maturing, h.matured)
	}
	short, long := f.top(&h.short), f.top(&h.long)
	if short != nil && (long == nil || h.short.items[0].perShare.Cmp(perShare) > 0) {
		return short
	}
	return long
}
