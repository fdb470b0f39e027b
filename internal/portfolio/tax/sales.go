package tax

import "github.com/govalues/decimal"

// sell disposes of shares for money, or of an option that expires for nothing.
func (f *fold) sell(r *row) {
	h := f.holding(r.account, r.ticker)
	left, proceeds := r.Quantity, r.Fees.Neg()
	if r.Action == Sell {
		proceeds = f.sub(f.mul(r.Quantity, r.Price), r.Fees)
		for _, p := range h.premiums {
			proceeds = f.sub(proceeds, p.amount)
			p.applied = true
		}
		h.premiums = nil
	}
	perShare := decimal.Zero
	if r.account.Method == MinTax {
		perShare = f.portion(proceeds, decimal.One, left)
	}
	for left.IsPos() && f.err == nil {
		p := f.pick(h, r.LotID, perShare)
		if p == nil {
			f.gap(r, r.account, left, noLots(r))
			return
		}
		taken := f.take(p, left)
		f.recordGone(p.lot.purchase, taken.quantity)
		share := f.portion(proceeds, taken.quantity, left)
		proceeds, left = f.sub(proceeds, share), f.sub(left, taken.quantity)
		f.realize(r, p, taken, share)
	}
}

func noLots(r *row) string {
	switch {
	case r.LotID != "":
		return "sold from a lot that does not exist"
	case r.Action != Sell:
		return "closed an option that was not bought"
	}
	return "sold without a buy"
}

// realize records the gain or loss on shares that were taken from a part.
func (f *fold) realize(r *row, p *part, taken shares, proceeds decimal.Decimal) {
	s := Sale{Account: r.account.ID, Ticker: r.Ticker, Date: r.Date, LotDate: p.lot.date,
		HoldingStart: p.holdStart, Taxable: r.account.taxable(),
		Quantity: taken.quantity, Proceeds: proceeds, Basis: taken.basis, Row: r.index,
		lotRow: p.lot.row}
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
	if s.Taxable && s.Gain.IsNeg() && !r.ticker.crypto {
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
