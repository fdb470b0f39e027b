package tax

import (
	"cmp"
	"container/list"
	"slices"

	"github.com/govalues/decimal"
)

// purchase is a row whose shares can replace shares that are sold at a loss.
type purchase struct {
	*row
	// what it opens: for an option, without the contracts that close written ones
	quantity decimal.Decimal
	bought   bool // the lot exists

	// Before it is bought: shares that losses have taken already, and what these shares get from
	// the losses.
	reserved decimal.Decimal
	promises []promise

	// After it is bought: its first part that may still become a replacement, see unused.
	free *part

	calls     *exercisedCalls  // of calls that will be exercised
	delivered *deliveredShares // of shares that are bought by exercise
	uncalled  decimal.Decimal  // look-ahead: shares that are not assigned to a call
}

// promise is what shares of a purchase get from a loss before it.
type promise struct {
	quantity, loss decimal.Decimal
	days           Date // for which the sold shares were held
	alwaysLong     bool
}

// unused returns the first part that may become a replacement, or nil.
func (p *purchase) unused() *part {
	for p.free != nil && (p.free.closed() || p.free.used) {
		p.free = p.free.nextFree
	}
	return p.free
}

// lookAhead finds all purchases, the ratios of all splits, and the shares that exercised calls buy.
func (f *fold) lookAhead(rows []row) {
	calls, timed := &callTracker{fold: f}, false
	for i := range rows {
		r := &rows[i]
		switch r.Action {
		case Buy, Reinvest:
			f.addPurchase(r)
		case Split, SpinOff, Exchange:
			f.addSplit(r)
		}
		if r.ticker.call {
			calls.track(r)
		}
		f.project(r)
		timed = timed || r.timed
	}
	if timed {
		slices.SortStableFunc(f.purchases, func(a, b *purchase) int {
			return cmp.Or(cmp.Compare(a.Date, b.Date), cmp.Compare(a.order, b.order))
		})
	}
	for _, p := range f.purchases {
		if t := p.ticker; t.option {
			if f.replaceOption[t] == nil {
				f.replaceOption[t] = list.New()
			}
			f.replaceOption[t].PushBack(p)
		}
		if (!p.ticker.option || p.ticker.call) && !p.ticker.exempt {
			f.replaceShares.PushBack(p)
		}
	}
}

func (f *fold) addPurchase(r *row) {
	p := &purchase{row: r, quantity: r.Quantity}
	if r.ticker.option {
		held := f.holding(r.account, r.ticker).projected
		p.quantity = r.Quantity.Min(f.add(held, r.Quantity)).Max(decimal.Zero)
	}
	r.purchase, f.purchases = p, append(f.purchases, p)
}

// project updates the number of shares that each holding will have, which does not depend on the
// lots that are taken.
func (f *fold) project(r *row) {
	move := func(a *account, quantity decimal.Decimal) {
		if a == nil {
			return
		}
		h := f.holding(a, r.ticker)
		h.net = f.add(h.net, quantity)
		h.projected = f.add(h.projected, quantity)
		if h.projected.IsNeg() && !r.ticker.option {
			h.projected = decimal.Zero // the history is incomplete
		}
	}
	switch r.Action {
	case Buy, Reinvest, GiftIn, Inherit:
		move(r.account, r.Quantity)
	case Sell, CashInLieu:
		move(r.account, r.Quantity.Neg())
	case SpinOff, Exchange:
		f.projectCorporate(r)
	case Expire, Assign:
		if f.holding(r.account, r.ticker).projected.IsNeg() {
			move(r.account, r.Quantity) // it closes written options
		} else {
			move(r.account, r.Quantity.Neg())
		}
	case Transfer:
		move(r.account, r.Quantity.Neg())
		move(r.to, r.Quantity)
	case Split:
		if ratio, ok := f.ratios[r.index]; ok {
			for _, h := range f.splitHoldings(r) {
				h.projected = f.portion(h.projected, ratio.New, ratio.Old)
				h.net = f.portion(h.net, ratio.New, ratio.Old)
			}
		}
	}
}

// projectCorporate does the same for a spin-off or an exchange.
func (f *fold) projectCorporate(r *row) {
	ratio, known := f.ratios[r.index]
	if !known {
		return
	}
	for _, h := range slices.Clone(f.splitHoldings(r)) {
		to := f.holding(h.account, r.newTicker)
		for _, n := range []struct{ from, to *decimal.Decimal }{{&h.projected, &to.projected},
			{&h.net, &to.net}} {
			if *n.to = f.add(*n.to, f.portion(*n.from, ratio.New, ratio.Old)); r.Action == Exchange {
				*n.from = decimal.Zero
			}
		}
	}
}
