package tax

import (
	"cmp"
	"container/list"
	"slices"

	"github.com/govalues/decimal"
)

// WashDays is the largest number of days between a loss and a purchase that replaces what was sold.
const WashDays = 30

// dayLoss is a sale at a loss, to be matched at the end of its day.
type dayLoss struct {
	sale       int // index in the book
	lot        *lot
	alwaysLong bool
	planned    bool
	wash       *WashSale
}

// recordLoss records that the last sale of the book is a loss. The losses of a row on several lots
// are one wash sale.
func (f *fold) recordLoss(r *row, p *part) {
	if last := len(f.washes) - 1; last < 0 || f.washes[last].row != r.index {
		f.washes = append(f.washes, &WashSale{SaleDate: r.Date, Account: r.account.ID,
			Ticker: r.Ticker, row: r.index})
	}
	f.losses = append(f.losses, dayLoss{sale: len(f.book.Sales) - 1, lot: p.lot,
		alwaysLong: p.alwaysLong, planned: r.planned, wash: f.washes[len(f.washes)-1]})
}

// matchLosses matches the losses of the day, in the order in which the sold lots were acquired.
func (f *fold) matchLosses() {
	slices.SortFunc(f.losses, func(a, b dayLoss) int {
		return cmp.Or(cmp.Compare(a.lot.date, b.lot.date), cmp.Compare(a.lot.order, b.lot.order),
			cmp.Compare(a.sale, b.sale))
	})
	f.listed = make(map[listedKey]int)
	for i := range f.losses {
		if f.losses[i].planned {
			f.findClean(&f.losses[i])
		}
	}
	for _, l := range f.losses {
		s := &f.book.Sales[l.sale]
		l.wash.Shares, l.wash.Loss = f.add(l.wash.Shares, s.Quantity), f.sub(l.wash.Loss, s.Gain)
		f.matchLoss(&matching{dayLoss: l, sale: s, sold: l.lot.holding.ticker, shares: s.Quantity,
			loss: s.Gain.Neg(), days: s.Date - s.HoldingStart + 1})
	}
	for _, w := range f.washes {
		if len(w.Replacements) > 0 {
			w.trim()
			f.book.WashSales = append(f.book.WashSales, *w)
		}
	}
}

// trim removes zeros at the end of all decimals.
func (w *WashSale) trim() {
	for _, d := range []*decimal.Decimal{&w.Shares, &w.Loss, &w.DisallowedShares, &w.DisallowedLoss,
		&w.PermanentLoss} {
		*d = d.Trim(0)
	}
	for i := range w.Replacements {
		w.Replacements[i].Shares = w.Replacements[i].Shares.Trim(0)
	}
}

// matching is a loss that is being matched with purchases.
type matching struct {
	dayLoss
	sale   *Sale
	sold   *ticker
	shares decimal.Decimal // not matched yet
	loss   decimal.Decimal // of these shares
	days   Date            // for which the sold shares were held
}

// matchLoss matches one loss with purchases, the earliest first, and never with more shares than
// were sold.
func (f *fold) matchLoss(m *matching) {
	var purchases *list.List
	if purchases = f.replaceShares; m.sold.option {
		if purchases = f.replaceOption[m.sold]; purchases == nil {
			return // the option was given or transferred
		}
	}
	for e := purchases.Front(); e != nil && m.shares.IsPos() && f.err == nil; {
		f.steps++
		p, this := e.Value.(*purchase), e
		e = e.Next()
		switch {
		case p.Date > f.today+WashDays:
			return
		case p.Date < f.today-WashDays || f.exhausted(p):
			purchases.Remove(this)
		case p == m.lot.purchase:
			// The rest of a lot does not replace what was sold of it.
		default:
			factor, identical := decimal.One, true
			if !m.sold.option {
				factor, identical = f.replaces(m.sold, p)
			}
			switch {
			case !identical:
			case p.bought:
				f.matchHeld(m, p)
			default:
				f.matchLater(m, p, factor)
			}
		}
	}
}

// exhausted reports whether a purchase has no shares left that could replace others.
func (f *fold) exhausted(p *purchase) bool {
	if p.bought {
		return p.unused() == nil
	}
	return p.reserved.Cmp(p.quantity) >= 0
}

// matchHeld matches a loss with the shares of a purchase that are held at the end of the day.
func (f *fold) matchHeld(m *matching, p *purchase) {
	for m.shares.IsPos() && f.err == nil {
		f.steps++
		q := p.unused()
		if q == nil {
			return
		}
		in := q.lot.holding.account
		units, loss := f.disallow(m, p, q.quantity, in, decimal.One)
		if units.Cmp(q.quantity) < 0 {
			f.divide(q, units)
		}
		q.used = true
		f.reserveCalled(p, units)
		if in.taxable() {
			q.basis, q.adjustment = f.add(q.basis, loss), f.add(q.adjustment, loss)
			q.holdStart -= m.days
			q.alwaysLong = q.alwaysLong || m.alwaysLong
		}
		f.rank(q)
	}
}

// matchLater matches a loss with shares of a purchase after today. splitFactor is how many of them
// one sold share became.
func (f *fold) matchLater(m *matching, p *purchase, splitFactor decimal.Decimal) {
	units, loss := f.disallow(m, p, f.sub(p.quantity, p.reserved), p.account, splitFactor)
	p.reserved = f.add(p.reserved, units)
	f.reserveCalled(p, units)
	promised := promise{quantity: units}
	if p.account.taxable() {
		promised.loss, promised.days, promised.alwaysLong = loss, m.days, m.alwaysLong
	}
	p.promises = append(p.promises, promised)
}

// disallow disallows as much of a loss as available units of a purchase, which are in account in,
// can replace. It returns the units that it took and the loss that they replace. splitFactor is for
// splits between the sale and the purchase.
func (f *fold) disallow(m *matching, p *purchase, available decimal.Decimal, in *account,
	splitFactor decimal.Decimal) (units, loss decimal.Decimal) {
	shares, perUnit := m.shares, sharesPerUnit(m.sold, p.ticker)
	units = f.toUnits(shares, perUnit, splitFactor)
	if units.Cmp(available) > 0 {
		units = available
		shares = f.toShares(units, perUnit, splitFactor).Min(m.shares)
	}
	loss = f.portion(m.loss, shares, m.shares)
	m.shares, m.loss = f.sub(m.shares, shares), f.sub(m.loss, loss)

	s, w := m.sale, m.wash
	s.DisallowedShares, s.Disallowed = f.add(s.DisallowedShares, shares), f.add(s.Disallowed, loss)
	w.DisallowedShares, w.DisallowedLoss = f.add(w.DisallowedShares, shares),
		f.add(w.DisallowedLoss, loss)
	if !in.taxable() {
		s.Permanent, w.PermanentLoss = f.add(s.Permanent, loss), f.add(w.PermanentLoss, loss)
	}
	f.listReplacement(w, p, shares)
	return units, loss
}

// listedKey identifies the purchases that are listed as one replacement of a wash sale.
type listedKey struct {
	wash    *WashSale
	date    Date
	account *account
	ticker  *ticker
}

// listReplacement adds shares to the replacements of a wash sale. Purchases of one day, account and
// ticker are listed as one.
func (f *fold) listReplacement(w *WashSale, p *purchase, shares decimal.Decimal) {
	key := listedKey{w, p.Date, p.account, p.ticker}
	i, ok := f.listed[key]
	if !ok {
		i = len(w.Replacements)
		f.listed[key] = i
		w.Replacements = append(w.Replacements, Replacement{Date: p.Date, Account: p.Account,
			Ticker: p.Ticker})
	}
	w.Replacements[i].Shares = f.add(w.Replacements[i].Shares, shares)
}

// restrict records for each loss of today until when a purchase would make it a wash sale, if that
// is after the day of the book. Shares that have a replacement already cannot be replaced again.
func (f *fold) restrict() {
	if f.today < f.book.AsOf-WashDays {
		return
	}
	for _, l := range f.losses {
		if s := &f.book.Sales[l.sale]; s.DisallowedShares.Cmp(s.Quantity) < 0 {
			f.book.restricted[l.lot.holding.ticker.market()] = f.today + WashDays + 1
		}
	}
}
