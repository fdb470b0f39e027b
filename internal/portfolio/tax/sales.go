package tax

import "github.com/govalues/decimal"

// sell disposes of shares for money, or of an option that expires for nothing.
func (f *fold) sell(r *row) {
	h := f.holding(r.account, r.ticker)
	f.useMethod(h, r.method)
	left, proceeds := r.Quantity, r.Fees.Neg()
	if r.Action != Expire {
		proceeds = f.sub(f.value(r), r.Fees)
		for _, p := range h.premiums {
			proceeds = f.sub(proceeds, p.amount)
			p.applied = true
		}
		h.premiums = nil
	}
	perShare := decimal.Zero
	if h.account.Method == MinTax {
		perShare = f.portion(proceeds, decimal.One, left)
	}
	closed := r.Lots
	if len(closed) == 0 {
		closed = []ClosedLot{{Quantity: r.Quantity}} // of any day
	}
	for _, c := range closed {
		for wanted := c.Quantity; wanted.IsPos() && f.err == nil; {
			p, why := f.pickFor(r, h, c, perShare)
			if p == nil {
				f.gap(r, r.account, wanted, why)
				proceeds = f.sub(proceeds, f.portion(proceeds, wanted, left))
				left = f.sub(left, wanted)
				break
			}
			taken := f.take(p, wanted)
			f.recordGone(p.lot.purchase, taken.quantity)
			share := f.portion(proceeds, taken.quantity, left)
			proceeds, left = f.sub(proceeds, share), f.sub(left, taken.quantity)
			wanted = f.sub(wanted, taken.quantity)
			f.realize(r, p, taken, share)
		}
	}
}

// pickFor returns the part that a row takes next, or nil and the reason: of the lot that it names,
// of the lot that the broker closed, or by the method of the account.
func (f *fold) pickFor(r *row, h *holding, c ClosedLot, perShare decimal.Decimal) (*part, string) {
	switch {
	case c.Opened != 0:
		return h.opened(c)
	case r.LotID != "":
		return h.named(r.LotID), noLots(r)
	}
	p := f.pick(h, perShare)
	if p != nil && p.lot.date == r.Date && !r.timed && r.account.taxable() {
		if oldest := front(&h.byDate); oldest.lot.date < r.Date {
			f.addUnknownOrder(r)
		}
	}
	return p, noLots(r)
}

// addUnknownOrder records a sell whose lots depend on whether a purchase of its day came first.
func (f *fold) addUnknownOrder(r *row) {
	list := f.book.OrderUnknown
	if n := len(list); n > 0 && list[n-1].Row == r.index {
		return
	}
	f.book.OrderUnknown = append(list, Gap{Date: r.Date, Account: r.account.ID, Ticker: r.Ticker,
		Quantity: r.Quantity.Trim(0), Why: "the time of the purchase or of the sale is not known",
		Row: r.index})
}

func noLots(r *row) string {
	switch {
	case r.LotID != "":
		return "sold from a lot that does not exist"
	case r.Action == Expire || r.Action == Assign:
		return "closed an option that was not bought"
	}
	return "sold without a buy"
}

// realize records the gain or loss on shares that were taken from a part.
func (f *fold) realize(r *row, p *part, taken shares, proceeds decimal.Decimal) {
	account := p.lot.holding.account
	s := Sale{Account: account.ID, Ticker: r.Ticker, Date: r.Date, LotDate: p.lot.date,
		HoldingStart: p.holdStart, Taxable: account.taxable(),
		Quantity: taken.quantity, Proceeds: proceeds, Basis: taken.basis, Row: r.index,
		lotRow: p.lot.row, Section1256: r.ticker.contract}
	if p.lot.dual && proceeds.Cmp(taken.basis) < 0 {
		// Between the value of a gift and the donor's basis there is neither a gain nor a loss.
		s.Basis = proceeds
		if proceeds.Cmp(taken.lossBasis) < 0 {
			s.Basis, s.HoldingStart = taken.lossBasis, p.lot.date+1
		}
	}
	s.Gain = f.sub(s.Proceeds, s.Basis)
	s.LongTerm = p.alwaysLong || longTerm(s.HoldingStart, r.Date)
	f.book.Sales = append(f.book.Sales, s)
	if s.Taxable && s.Gain.IsNeg() && !r.ticker.exempt {
		f.recordLoss(r, p)
	}
}

// premium is the basis of exercised puts. It lowers the proceeds of the shares that they sold.
type premium struct {
	amount  decimal.Decimal
	holding *holding // of the shares
	row     *row
	applied bool
}

// assign closes options that were exercised or assigned. What was paid for them becomes part of the
// basis of the shares, or lowers their proceeds. The shares have a row of their own, on the same
// day in the same account.
func (f *fold) assign(r *row) {
	h, option := f.holding(r.account, r.ticker), r.ticker
	deliveries := f.exercises[r.index]
	left, fees, paid, delivered := r.Quantity, r.Fees, decimal.Zero, true
	for left.IsPos() && f.err == nil {
		p := f.pickOldest(h, r.LotID)
		if p == nil {
			f.gap(r, r.account, left, noLots(r))
			break
		}
		taken := f.take(p, left)
		f.recordGone(p.lot.purchase, taken.quantity)
		taken.basis, fees = f.add(taken.basis, fees), decimal.Zero
		paid, left = f.add(paid, taken.basis), f.sub(left, taken.quantity)
		if option.call {
			delivered = f.deliver(&deliveries, p, taken) && delivered
		}
	}
	switch {
	case left.Cmp(r.Quantity) == 0 || !option.option:
	case option.call:
		if !delivered {
			f.gap(r, r.account, r.Quantity, "the exercised call bought no shares on its day")
		}
	default:
		p := &premium{amount: paid, holding: f.holding(r.account, option.underlying), row: r}
		p.holding.premiums, f.premiums = append(p.holding.premiums, p), append(f.premiums, p)
	}
}
