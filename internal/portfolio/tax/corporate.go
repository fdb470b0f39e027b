package tax

import (
	"slices"

	"github.com/govalues/decimal"
)

// exchange is an exchange of the shares of a ticker for those of another one.
type exchange struct {
	date     Date
	from, to *ticker
	ratio    Ratio
}

// isCorporate reports whether an action changes the lots of a ticker and gives shares of another.
func isCorporate(a Action) bool { return a == SpinOff || a == Exchange }

// validateCorporate checks a spin-off or an exchange. It returns what is wrong, or the empty string.
func (r *row) validateCorporate() (problem string) {
	action := string(r.Action)
	fraction, taxed := r.BasisFraction, !r.Value.IsZero()
	switch {
	case r.NewTicker == "" || r.NewTicker == r.Ticker:
		return "the " + action + " has no new_ticker: name what was received"
	case !r.Ratio.known() && (r.Quantity.IsZero() || r.account == nil):
		return "the " + action + " has no ratio: write new shares for each old one, as 2 or 3:2, or the quantity received in an account"
	case r.Action == Exchange && (taxed || !fraction.IsZero()):
		return "the exchange has a value or a basis_fraction: write the cash for each old share as price"
	case r.Action == Exchange && r.Price.IsZero() != r.NewPrice.IsZero():
		return "the exchange needs both or none: price, the cash for each old share, and new_price, the value of a new one"
	case r.Action == Exchange:
		return ""
	case taxed == !fraction.IsZero() || taxed && r.account == nil:
		return "the spin_off needs either basis_fraction, the part of the basis that moves, or if it is taxable the value of what an account received"
	case fraction.Cmp(decimal.One) >= 0:
		return "basis_fraction is not below 1: write 12.5 percent as 0.125"
	}
	return ""
}

// corporateHoldings returns the holdings that a row changes.
func (f *fold) corporateHoldings(r *row) []*holding {
	return slices.DeleteFunc(slices.Clone(f.splitHoldings(r)),
		func(h *holding) bool { return len(h.openLots()) == 0 })
}

// spinOff gives new shares to each lot by its shares, and moves the fraction of its basis to them
// (section 358(b)(2), Reg. 1.358-2(a)(2)(iv)). They keep the holding period (section 1223(1)). They
// were not purchased, so that they replace nothing. A taxable one is a distribution: its basis is
// its value, and its holding period starts with it (section 301(d)).
func (f *fold) spinOff(r *row) {
	ratio, known := f.ratios[r.index]
	holdings := f.corporateHoldings(r)
	if !known || len(holdings) == 0 && r.account != nil {
		f.gap(r, r.account, r.Quantity, "spun off from shares that were not bought")
		return
	}
	for _, h := range holdings {
		to, parts := f.holding(h.account, r.newTicker), h.openParts()
		before := f.quantityOf(parts)
		after := f.portion(before, ratio.New, ratio.Old)
		if !r.Value.IsZero() {
			l := &lot{holding: to, date: r.Date}
			f.open(r, l, part{shares: shares{quantity: after, basis: r.Value},
				holdStart: r.Date + 1})
			continue
		}
		for _, old := range slices.Clone(h.openLots()) {
			l := *old
			l.holding, l.purchase, l.first = to, nil, nil
			end := &l.first
			for p := old.first; p != nil; p = p.next {
				if p.closed() {
					continue
				}
				quantity := f.portion(after, p.quantity, before)
				before, after = f.sub(before, p.quantity), f.sub(after, quantity)
				q := f.newPart(*p)
				q.lot, q.next, q.nextFree = &l, nil, nil
				q.shares = shares{quantity: quantity, basis: f.mul(p.basis, r.BasisFraction),
					adjustment: f.mul(p.adjustment, r.BasisFraction),
					lossBasis:  f.mul(p.lossBasis, r.BasisFraction)}
				p.basis, p.adjustment, p.lossBasis = f.sub(p.basis, q.basis),
					f.sub(p.adjustment, q.adjustment), f.sub(p.lossBasis, q.lossBasis)
				*end, end = q, &q.next
			}
			f.rename(&l)
			f.addLot(&l)
		}
		f.rankAgain(h)
	}
}

// exchange replaces the shares of a ticker by those of another one: a new ticker, or a merger
// (section 354). Lots keep their dates, their basis (section 358) and what they replace (section
// 1223(1)).
func (f *fold) exchange(r *row) {
	ratio, known := f.ratios[r.index]
	holdings := f.corporateHoldings(r)
	if !known || len(holdings) == 0 && r.account != nil {
		f.gap(r, r.account, r.Quantity, "exchanged shares that were not bought")
		return
	}
	for _, h := range holdings {
		to, parts := f.holding(h.account, r.newTicker), h.openParts()
		cash := make([]decimal.Decimal, len(parts))
		for i, p := range parts {
			cash[i] = f.mul(p.quantity, r.Price)
		}
		f.rescale(parts, ratio)
		for i, p := range parts {
			f.payCash(r, p, cash[i])
		}
		for _, l := range slices.Clone(h.openLots()) {
			l.holding = to
			f.rename(l)
			f.addLot(l)
		}
		h.reset()
	}
	// A loss on the old shares must not be followed by a purchase of the new ones.
	from, to := r.ticker.market(), r.newTicker.market()
	if until := f.book.restricted[from]; until > r.Date {
		f.book.restricted[to] = max(f.book.restricted[to], until)
	}
}

// payCash gives shares that were exchanged their part of the cash: it is a gain up to the gain on
// them, and never a loss (section 356(a)(1) and (c)). The rest lowers the basis (section 358(a)(1)).
func (f *fold) payCash(r *row, p *part, cash decimal.Decimal) {
	if !cash.IsPos() {
		return
	}
	gain := f.sub(f.add(f.mul(p.quantity, r.NewPrice), cash), p.basis)
	gain = gain.Min(cash).Max(decimal.Zero)
	rest := f.sub(cash, gain)
	if gain.IsPos() {
		f.realize(r, p, shares{basis: rest}, cash)
	}
	p.basis, p.lossBasis = f.sub(p.basis, rest), decimal.Zero.Max(f.sub(p.lossBasis, rest))
}

func (f *fold) quantityOf(parts []*part) decimal.Decimal {
	sum := decimal.Zero
	for _, p := range parts {
		sum = f.add(sum, p.quantity)
	}
	return sum
}

// rescale changes the number of shares of each part. What rounding takes from one goes to the next
// ones.
func (f *fold) rescale(parts []*part, ratio Ratio) {
	before := f.quantityOf(parts)
	after := f.portion(before, ratio.New, ratio.Old)
	for _, p := range parts {
		quantity := f.portion(after, p.quantity, before)
		before, after = f.sub(before, p.quantity), f.sub(after, quantity)
		p.quantity = quantity
	}
}

// rename gives a lot without an id a number that no other lot of its date and holding has.
func (f *fold) rename(l *lot) {
	taken := make(map[lotName]bool)
	for _, other := range l.holding.openLots() {
		taken[other.name()] = true
	}
	for l.id == "" && taken[l.name()] {
		l.number++
	}
}

// addExchange records an exchange for the look-ahead of losses.
func (f *fold) addExchange(r *row) {
	if ratio, known := f.ratios[r.index]; known && r.Action == Exchange {
		f.exchanges = append(f.exchanges, exchange{r.Date, r.ticker, r.newTicker, ratio})
	}
}

// replaces reports whether shares of a purchase can replace a sold ticker, and how many of them one
// sold share became. Shares that are held count as what they are now. A later purchase counts as
// the day of the purchase has it: shares that were sold before an exchange are replaced by those
// that they would have become (Publication 550: predecessor and successor may be identical).
func (f *fold) replaces(sold *ticker, p *purchase) (factor decimal.Decimal, ok bool) {
	if p.bought {
		q := p.unused()
		return decimal.One, q != nil && q.lot.holding.ticker.group == sold.group
	}
	splitting := p.ticker
	if !sold.option {
		splitting = splitting.underlying // a call is for shares of its own day
	}
	if p.ticker.group == sold.group {
		return f.splitFactor(splitting, f.today, p.Date), true
	}
	for _, e := range f.exchanges {
		if e.date > f.today && e.date <= p.Date && e.from.group == sold.group &&
			e.to.group == p.ticker.group {
			factor = f.splitFactor(e.from, f.today, e.date)
			factor = f.quo(f.keep(factor.Mul(e.ratio.New)), e.ratio.Old)
			return f.keep(factor.Mul(f.splitFactor(splitting, e.date, p.Date))), true
		}
	}
	return decimal.One, false
}
