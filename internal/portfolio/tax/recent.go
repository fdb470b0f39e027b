package tax

import (
	"slices"
	"sort"

	"github.com/govalues/decimal"
)

// recentPurchases is the lots that could replace shares that are sold on the day of the book,
// earliest first: lots that were bought in the last 30 days, are held, and have not replaced
// anything.
type recentPurchases struct {
	purchases []recentPurchase
	before    []replaceable // what the first i purchases can replace; one more than purchases
}

type recentPurchase struct {
	lot     int             // index in the book
	perUnit decimal.Decimal // sold shares that a unit of the lot replaces
	cause   Replacement
}

// replaceable is a number of shares that purchases can replace.
type replaceable struct {
	shares       decimal.Decimal
	inRetirement decimal.Decimal // in retirement accounts, where the loss is permanent
}

// maxCauses is the number of purchases that a candidate lists. A large lot can meet thousands of
// reinvested dividends.
const maxCauses = 32

// findRecent finds the recent purchases of each market.
func (h *harvest) findRecent() {
	b := h.book
	h.recent = make(map[market]*recentPurchases)
	var lots []int
	for i := range b.Lots {
		if b.Lots[i].free && b.Lots[i].LotDate >= b.AsOf-WashDays {
			lots = append(lots, i)
		}
	}
	slices.SortFunc(lots, b.compareAge)
	for _, i := range lots {
		t := b.Lots[i].ticker
		if t.exempt {
			continue
		}
		if !t.option || t.call {
			h.addRecent(market{group: t.group}, i, sharesPerUnit(t.underlying, t))
		}
		if t.option {
			h.addRecent(market{option: t}, i, decimal.One)
		}
	}
}

func (h *harvest) addRecent(m market, lot int, perUnit decimal.Decimal) {
	recent := h.recent[m]
	if recent == nil {
		recent = &recentPurchases{before: make([]replaceable, 1)}
		h.recent[m] = recent
	}
	l := &h.book.Lots[lot]
	shares := h.toShares(l.Quantity, perUnit, decimal.One).Trim(0)
	recent.purchases = append(recent.purchases,
		recentPurchase{lot, perUnit, Replacement{Date: l.LotDate, Account: l.Account,
			Ticker: l.Ticker, Shares: shares}})
	sum := recent.before[len(recent.before)-1]
	sum.shares = h.add(sum.shares, shares)
	if !l.Taxable {
		sum.inRetirement = h.add(sum.inRetirement, shares)
	}
	recent.before = append(recent.before, sum)
}

// sameLot returns the range of purchases that are of the same lot as l, and so do not replace it.
func (r *recentPurchases) sameLot(b *Book, l *Lot) (from, to int) {
	compare := func(i int) int {
		other := &b.Lots[r.purchases[i].lot]
		if other.LotDate != l.LotDate {
			return int(other.LotDate - l.LotDate)
		}
		return other.order - l.order
	}
	from = sort.Search(len(r.purchases), func(i int) bool { return compare(i) >= 0 })
	to = sort.Search(len(r.purchases), func(i int) bool { return compare(i) > 0 })
	return from, to
}

// sellAlone computes the effects of selling a candidate alone.
func (h *harvest) sellAlone(c *Candidate, l *Lot, recent *recentPurchases) {
	same, sameEnd := recent.sameLot(h.book, l)
	// sums returns what the first n purchases can replace, without those of the lot itself.
	sums := func(n int) replaceable {
		s, from, to := recent.before[n], recent.before[min(same, n)], recent.before[min(sameEnd, n)]
		return replaceable{h.sub(s.shares, h.sub(to.shares, from.shares)),
			h.sub(s.inRetirement, h.sub(to.inRetirement, from.inRetirement))}
	}
	all := len(recent.purchases)
	n := sort.Search(all, func(n int) bool { return sums(n).shares.Cmp(c.Quantity) >= 0 })
	s := sums(n)
	if !s.shares.IsPos() {
		return
	}
	excess := h.sub(s.shares, c.Quantity) // of the last purchase
	if excess.IsPos() {
		s.shares = c.Quantity
		if !h.book.Lots[recent.purchases[n-1].lot].Taxable {
			s.inRetirement = h.sub(s.inRetirement, excess)
		}
	}
	loss := h.portion(c.Loss, s.shares, c.Quantity)
	c.DisallowedShares, c.DisallowedLoss, c.PermanentLoss = s.shares.Trim(0), loss.Trim(0),
		h.portion(loss, s.inRetirement, s.shares).Trim(0)
	for i := 0; i < n && len(c.Causes) < maxCauses; i++ {
		if i == same && same < sameEnd {
			i = sameEnd - 1
			continue
		}
		cause := recent.purchases[i].cause
		if i == n-1 && excess.IsPos() {
			cause.Shares = h.sub(cause.Shares, excess).Trim(0)
		}
		c.Causes = append(c.Causes, cause)
	}
	last := all - 1
	if all == sameEnd {
		last = same - 1
	}
	c.CleanFrom = recent.purchases[last].cause.Date + WashDays + 1
}
