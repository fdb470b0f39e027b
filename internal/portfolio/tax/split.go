package tax

import (
	"math"
	"math/bits"

	"github.com/govalues/decimal"
)

// splitState is what a queue knows of its splits. Going through all lots at each split costs lots times splits, so a split
// that leaves no fraction on any lot, which is nearly every one, is only noted, and a lot follows when it is touched.
type splitState struct {
	log    []factor // of each split that was noted: what one share of before the first of them became
	base   factor   // for whose shares the ranks are made
	grain  uint64   // divides the quantity of each open chunk, in units of the last decimal place
	bound  uint64   // no less than the sum of these quantities
	credit int      // how many lots may be ranked anew for a split
	uneven bool     // some quantity has more decimals, or the sum is too large
}

// factor is a fraction in lowest terms.
type factor struct{ num, den uint64 }

// maxTerm bounds the terms of a factor, so that the product of two is an integer of 64 bits.
const maxTerm = 1 << 31

func (s *splitState) at(epoch int) factor {
	if epoch == 0 {
		return factor{1, 1}
	}
	return s.log[epoch-1]
}

// since is what one share of that epoch has become.
func (s *splitState) since(epoch int) factor {
	from, to := s.at(epoch), s.at(len(s.log))
	return reduced(to.num*from.den, to.den*from.num)
}

func reduced(num, den uint64) factor {
	d := gcd(num, den)
	return factor{num / d, den / d}
}

func gcd(a, b uint64) uint64 {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}

// note takes the quantity of a new chunk into account.
func (s *splitState) note(qty decimal.Decimal) {
	units, ok := fixed(qty)
	if s.uneven = s.uneven || !ok || units > math.MaxInt64-s.bound; !s.uneven {
		s.bound += units
		s.noteCut(qty)
	}
}

// noteCut takes into account that a chunk is cut in two.
func (s *splitState) noteCut(qty decimal.Decimal) {
	units, ok := fixed(qty)
	switch {
	case !ok:
		s.uneven = true
	case s.grain == 0 || units%s.grain != 0:
		s.grain = gcd(units, s.grain)
	}
}

// touch brings a chunk's quantity to today's shares.
func (g *group) touch(c *chunk) {
	if !g.splitting || c.qty.IsZero() {
		return
	}
	q := &g.queues[c.queue]
	if int(c.epoch) == len(q.log) {
		return
	}
	f := q.since(int(c.epoch))
	c.epoch = int32(len(q.log))
	units, _ := fixed(c.qty)
	hi, lo := bits.Mul64(units, f.num)
	units, _ = bits.Div64(hi, lo, f.den) // noteSplit made sure that it goes, and leaves nothing
	c.qty = g.keep(decimal.New(int64(units), places))
}

// noteSplit puts off a split; it is false if that cannot be done, because some lot may get a fraction.
func (q *queue) noteSplit(ratio Ratio) bool {
	x, y, _, ok := aligned(ratio.New, ratio.Old)
	if !ok || q.uneven || x <= 0 || y <= 0 {
		return false
	}
	f := reduced(uint64(x), uint64(y))
	if f.num >= maxTerm || f.den >= maxTerm || q.grain%f.den != 0 {
		return false
	}
	hi, bound := bits.Mul64(q.bound/f.den+1, f.num)
	if hi != 0 || bound > math.MaxInt64 {
		return false
	}
	now := q.at(len(q.log))
	sum := reduced(now.num*f.num, now.den*f.den)
	if sum.num >= maxTerm || sum.den >= maxTerm {
		return false
	}
	q.log = append(q.log, sum)
	q.grain, q.bound = q.grain/f.den*f.num, bound
	q.rebase(sum)
	return true
}

// rebase has the ranks made anew for the shares that there are now, if that is not too much work for the lots that came
// since, or if the old ones have become inexact: with fewer shares, by a digit. Otherwise the old ones stay: they order
// the lots alike, but for those whose basis per share is the same in all digits shown.
func (q *queue) rebase(now factor) {
	if len(q.log) == 1 {
		q.base = factor{1, 1}
	}
	lots := len(q.short) + len(q.long)
	drift := reduced(now.num*q.base.den, now.den*q.base.num)
	if lots > fewLots+q.credit && drift.den/drift.num < 10 {
		return
	}
	q.base, q.stale, q.credit = now, true, max(0, q.credit-lots)
}

// fewLots are always ranked anew. Each new lot pays for lotCredit of them.
const (
	fewLots   = 256
	lotCredit = 8
)

// keyInBase is the basis of as many of a chunk's shares as one of the base is today; not ok if that is too large.
func (q *queue) keyInBase(basis, qty decimal.Decimal) (uint64, bool) {
	total, ok := fixed(basis)
	units, fits := fixed(qty)
	if !ok || !fits || units == 0 {
		return 0, false
	}
	now := q.at(len(q.log))
	f := reduced(now.num*q.base.den, now.den*q.base.num)
	if total, ok = mulDiv(total, f.num, f.den); !ok {
		return 0, false
	}
	key, ok := mulDiv(total, 1e8, units)
	return key, ok && key < 1<<63
}

// applySplit changes the number of shares.
func (g *group) applySplit(n int32, t *Transaction, r row) {
	s := g.splits[g.split]
	g.split++
	if !s.ratio.Old.IsPos() {
		g.gap(n, r.account, t.Quantity, "split of shares that are not there")
		return
	}
	for i := g.first[g.in.tickers[r.ticker].local]; i >= 0; i = g.queues[i].sibling {
		q := &g.queues[i]
		if (r.account < 0 || r.account == q.account) && !q.lots.empty() && !q.noteSplit(s.ratio) {
			g.splitNow(q, s.ratio)
		}
	}
}

// splitNow goes through all lots; what rounding loses on one, the next ones get.
func (g *group) splitNow(q *queue, ratio Ratio) {
	before := decimal.Zero
	g.each(q, func(n int32) {
		before = g.add(before, g.at(n).qty)
		g.at(n).epoch = 0
	})
	// All are in today's shares now, and the log starts again.
	q.splitState = splitState{log: q.log[:0], credit: q.credit}
	q.stale = true
	after := g.portion(before, ratio.New, ratio.Old)
	g.each(q, func(n int32) {
		c := g.at(n)
		qty := g.portion(after, c.qty, before)
		before, after = g.sub(before, c.qty), g.sub(after, qty)
		c.qty = qty
		q.note(qty)
	})
}

// splitting is a split with its ratio.
type splitting struct {
	ratio  Ratio
	ticker int32
	date   Date
}

// splitMemo is how many shares of a ticker one of before the splits after a day became, by the days since. Many losses
// of that day ask for the same.
type splitMemo struct {
	from  Date
	known int // days
	next  int // the split to look at next
	byDay [washDays + 1]decimal.Decimal
}

// splitFactor is how many shares of the later day one of the earlier became; it is at most washDays later.
func (g *group) splitFactor(ticker int32, from, to Date) decimal.Decimal {
	local := g.in.tickers[ticker].local
	list := g.dated[local]
	if len(list) == 0 {
		return decimal.One
	}
	m := g.memos[local]
	if m == nil {
		m = &splitMemo{}
		g.memos[local] = m
	}
	if m.from != from {
		m.from, m.known = from, 0
		m.byDay[0] = decimal.One
		m.next = len(list)
		for lo, hi := 0, len(list); lo < hi; { // the first split after from
			if mid := (lo + hi) / 2; list[mid].date > from {
				m.next, hi = mid, mid
			} else {
				lo = mid + 1
			}
		}
	}
	for ; m.known < int(to-from); m.known++ {
		g.work++
		factor, day := m.byDay[m.known], from+Date(m.known)+1
		if m.next < len(list) && list[m.next].date == day {
			s := list[m.next]
			factor = g.quo(g.keep(factor.Mul(s.ratio.New)), s.ratio.Old)
			m.next++
		}
		m.byDay[m.known+1] = factor
	}
	return m.byDay[to-from]
}
