package tax

import "github.com/govalues/decimal"

// piece is what was taken out of a chunk.
type piece struct {
	qty, basis, adjustment, lossBasis decimal.Decimal
}

// cut takes at most qty out of a chunk.
func (g *group) cut(n int32, qty decimal.Decimal) piece {
	c := g.at(n)
	g.touch(c)
	if compare(qty, c.qty) >= 0 {
		p := piece{c.qty, c.basis, c.adjustment, c.lossBasis}
		c.qty, c.basis, c.adjustment, c.lossBasis = decimal.Zero, decimal.Zero, decimal.Zero, decimal.Zero
		return p
	}
	if g.splitting {
		g.queues[c.queue].noteCut(qty)
	}
	p := piece{qty, c.basis, c.adjustment, c.lossBasis}
	g.portions(qty, c.qty, &p.basis, &p.adjustment, &p.lossBasis)
	c.qty, c.basis = g.sub(c.qty, qty), g.sub(c.basis, p.basis)
	if !c.adjustment.IsZero() {
		c.adjustment = g.sub(c.adjustment, p.adjustment)
	}
	if c.dual {
		c.lossBasis = g.sub(c.lossBasis, p.lossBasis)
	}
	return p
}

// sell disposes of shares for money; an option that expires, for none.
func (g *group) sell(n int32, t *Transaction, r row) {
	qi := g.queue(r.account, r.ticker)
	g.rerank(&g.queues[qi])
	left, proceeds := t.Quantity, g.sub(decimal.Zero, t.Fees)
	if t.Action == Sell {
		proceeds = g.sub(g.mul(t.Quantity, t.Price), t.Fees)
		proceeds = g.sub(proceeds, g.exercised(qi))
	}
	perShare := decimal.Zero
	if g.queues[qi].method == MinTax {
		perShare = g.portion(proceeds, decimal.One, left)
	}
	for left.IsPos() && g.err == nil {
		c := g.pick(&g.queues[qi], r.lot, perShare)
		if c < 0 {
			g.gap(n, r.account, left, noLots(t))
			return
		}
		p := g.cut(c, left)
		g.leave(g.at(c).acq, p.qty)
		part := g.portion(proceeds, p.qty, left)
		proceeds, left = g.sub(proceeds, part), g.sub(left, p.qty)
		g.realize(n, g.at(c), p, part)
	}
}

func noLots(t *Transaction) string {
	switch {
	case t.LotID != "":
		return "sold from a lot that is not there"
	case t.Action != Sell:
		return "closed an option that was not bought"
	}
	return "sold without a buy"
}

// exercised returns what was paid for puts exercised today on the shares of that queue.
func (g *group) exercised(queue int32) decimal.Decimal {
	sum := decimal.Zero
	for i := g.queues[queue].premium; i >= 0; i = g.premium[i].next {
		sum = g.add(sum, g.premium[i].amount)
		g.premium[i].taken = true
	}
	g.queues[queue].premium = -1
	return sum
}

// realize notes the gain or loss on shares of one lot.
func (g *group) realize(n int32, c *chunk, p piece, proceeds decimal.Decimal) {
	q := &g.queues[c.queue]
	s := Sale{Date: g.today, LotDate: c.date, HoldingStart: c.hold, Taxable: g.in.taxable[q.account], Quantity: p.qty,
		Proceeds: proceeds, Basis: p.basis, Row: n, account: q.account, ticker: q.ticker, origin: c.row}
	if c.dual && compare(proceeds, p.basis) < 0 {
		// A gift: between the value and the donor's basis there is neither gain nor loss.
		s.Basis = proceeds
		if compare(proceeds, p.lossBasis) < 0 {
			s.Basis, s.HoldingStart = p.lossBasis, c.date+1
		}
	}
	s.Gain = g.sub(s.Proceeds, s.Basis)
	s.LongTerm = c.always || longTerm(s.HoldingStart, g.today)
	g.out.sales.add(s)
	if s.Taxable && s.Gain.IsNeg() {
		g.lose(&s, c)
	}
}

// longTerm asks the calendar only when the number of days does not tell.
func longTerm(hold, sold Date) bool {
	days := sold - hold
	return days > 366 || days >= 365 && sold >= LongTermFrom(hold)
}

// assign closes options that were exercised or assigned. What was paid for them becomes part of the shares' basis, or
// lowers their proceeds; the shares' own row is of the same day and account.
func (g *group) assign(n int32, t *Transaction, r row) {
	qi, option := g.queue(r.account, r.ticker), &g.in.tickers[r.ticker]
	g.rerank(&g.queues[qi])
	bought := g.exercisesOf(n)
	left, fees, paid, delivered := t.Quantity, t.Fees, decimal.Zero, true
	for left.IsPos() && g.err == nil {
		c := g.oldest(&g.queues[qi])
		if r.lot >= 0 {
			c = g.named(&g.queues[qi], r.lot)
		}
		if c < 0 {
			g.gap(n, r.account, left, noLots(t))
			break
		}
		p := g.cut(c, left)
		g.leave(g.at(c).acq, p.qty)
		p.basis, fees = g.add(p.basis, fees), decimal.Zero
		paid, left = g.add(paid, p.basis), g.sub(left, p.qty)
		if option.call {
			delivered = g.deliver(&bought, g.at(c), p) && delivered
		}
	}
	if compare(left, t.Quantity) == 0 || !option.option {
		return
	}
	if option.call {
		if !delivered {
			g.gap(n, r.account, t.Quantity, "the exercised call bought no shares on its day")
		}
		return
	}
	shares := g.queue(r.account, option.underlying)
	q := &g.queues[shares]
	g.premium = append(g.premium, premium{amount: paid, queue: shares, row: n, next: q.premium})
	q.premium = int32(len(g.premium) - 1)
}

// transfer moves shares with their dates and basis.
func (g *group) transfer(n int32, t *Transaction, r row) {
	if r.account < 0 {
		if t.DonorDate == 0 {
			g.gap(n, r.to, t.Quantity, "transferred in without date and basis")
			return
		}
		c := chunk{qty: t.Quantity, basis: t.DonorBasis, date: t.DonorDate, hold: t.DonorDate + 1, row: n, acq: -1}
		g.open1(c, r.to, r)
		return
	}
	from, left := g.queue(r.account, r.ticker), t.Quantity
	g.rerank(&g.queues[from])
	for left.IsPos() && g.err == nil {
		c := g.oldest(&g.queues[from])
		if r.lot >= 0 {
			c = g.named(&g.queues[from], r.lot)
		}
		if c < 0 {
			at := r.account
			if r.to >= 0 {
				at = r.to // the shares are there now, and nothing is known of them
			}
			g.gap(n, at, left, "transferred without a buy")
			return
		}
		p := g.cut(c, left)
		left = g.sub(left, p.qty)
		if r.to >= 0 {
			g.moveTo(g.queue(r.to, r.ticker), c, p)
		}
	}
}

// moveTo makes a chunk of what was cut out of another.
func (g *group) moveTo(queue, from int32, p piece) {
	moved := *g.at(from)
	moved.qty, moved.basis, moved.adjustment, moved.lossBasis = p.qty, p.basis, p.adjustment, p.lossBasis
	moved.queue, moved.next, moved.unranked = queue, -1, false
	n := g.filled
	if moved.acq >= 0 && !moved.used {
		g.at(from).free = n // moved.free is already what came after
	}
	g.addChunk(moved)
	g.push(n)
}

// returnCapital lowers the basis of all shares alike; what is above it is a gain.
func (g *group) returnCapital(n int32, t *Transaction, r row) {
	q := &g.queues[g.queue(r.account, r.ticker)]
	shares, amount := decimal.Zero, g.worth(t)
	g.each(q, func(n int32) { shares = g.add(shares, g.at(n).qty) })
	if shares.IsZero() {
		g.gap(n, r.account, t.Quantity, "capital returned on shares that are not there")
		return
	}
	g.each(q, func(m int32) {
		c := g.at(m)
		part := g.portion(amount, c.qty, shares)
		amount, shares = g.sub(amount, part), g.sub(shares, c.qty)
		if c.dual {
			c.lossBasis = decimal.Zero.Max(g.sub(c.lossBasis, part))
		}
		if c.basis = g.sub(c.basis, part); c.basis.IsNeg() {
			g.realize(n, c, piece{}, c.basis.Neg())
			c.basis = decimal.Zero
		}
	})
	q.stale = true
}
