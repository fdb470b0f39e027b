package tax

import "github.com/govalues/decimal"

// piece is what was taken out of a chunk.
type piece struct {
	qty, basis, adjustment, lossBasis decimal.Decimal
}

// cut takes at most qty out of a chunk.
func (g *group) cut(n int32, qty decimal.Decimal) piece {
	c := &g.chunks[n]
	if qty.Cmp(c.qty) >= 0 {
		p := piece{c.qty, c.basis, c.adjustment, c.lossBasis}
		c.qty, c.basis, c.adjustment, c.lossBasis = decimal.Zero, decimal.Zero, decimal.Zero, decimal.Zero
		return p
	}
	p := piece{qty: qty, basis: g.portion(c.basis, qty, c.qty), adjustment: g.portion(c.adjustment, qty, c.qty),
		lossBasis: g.portion(c.lossBasis, qty, c.qty)}
	c.qty, c.basis = g.sub(c.qty, qty), g.sub(c.basis, p.basis)
	c.adjustment, c.lossBasis = g.sub(c.adjustment, p.adjustment), g.sub(c.lossBasis, p.lossBasis)
	return p
}

// sell disposes of shares for money; an option that expires, for none.
func (g *group) sell(n int32, t *Transaction, r row) {
	qi := g.queue(r.account, r.ticker)
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
		part := g.portion(proceeds, p.qty, left)
		proceeds, left = g.sub(proceeds, part), g.sub(left, p.qty)
		g.realize(n, &g.chunks[c], p, part)
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
	sum, kept := decimal.Zero, g.premium[:0]
	for _, p := range g.premium {
		if p.queue == queue {
			sum = g.add(sum, p.amount)
		} else {
			kept = append(kept, p)
		}
	}
	g.premium = kept
	return sum
}

// realize notes the gain or loss on shares of one lot.
func (g *group) realize(n int32, c *chunk, p piece, proceeds decimal.Decimal) {
	q := &g.queues[c.queue]
	s := Sale{Date: g.today, LotDate: c.date, HoldingStart: c.hold, Taxable: g.in.taxable[q.account], Quantity: p.qty,
		Proceeds: proceeds, Basis: p.basis, Row: n, account: q.account, ticker: q.ticker, acq: c.acq, origin: c.row, always: c.always}
	if c.dual && proceeds.Cmp(p.basis) < 0 {
		// A gift: between the value and the donor's basis there is neither gain nor loss.
		s.Basis = proceeds
		if proceeds.Cmp(p.lossBasis) < 0 {
			s.Basis, s.HoldingStart = p.lossBasis, c.date+1
		}
	}
	s.Gain = g.sub(s.Proceeds, s.Basis)
	s.LongTerm = c.always || longTerm(s.HoldingStart, g.today)
	g.out.sales.add(s)
	if s.Taxable && s.Gain.IsNeg() {
		g.losses = append(g.losses, int32(g.out.sales.n-1))
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
	qi := g.queue(r.account, r.ticker)
	left, paid := t.Quantity, t.Fees
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
		paid, left = g.add(paid, p.basis), g.sub(left, p.qty)
	}
	option := &g.in.tickers[r.ticker]
	if left.Cmp(t.Quantity) == 0 || !option.option {
		return
	}
	shares := g.queue(r.account, option.underlying)
	if !option.call {
		g.premium = append(g.premium, premium{amount: paid, queue: shares, row: n})
		return
	}
	if !g.addCost(&g.queues[shares], paid) {
		g.gap(n, r.account, t.Quantity, "the exercised call bought no shares on its day")
	}
}

// addCost adds to the basis of the queue's first lot that was bought today; false if there is none.
func (g *group) addCost(q *queue, amount decimal.Decimal) bool {
	g.settle(q)
	for _, n := range q.lots {
		if c := &g.chunks[n]; c.date != g.today || c.acq < 0 {
			continue
		}
		left := decimal.Zero
		for c := n; c >= 0; c = g.chunks[c].next {
			left = g.add(left, g.chunks[c].qty)
		}
		for c := g.open(n); c >= 0; c = g.open(g.chunks[c].next) {
			part := g.portion(amount, g.chunks[c].qty, left)
			amount, left = g.sub(amount, part), g.sub(left, g.chunks[c].qty)
			g.chunks[c].basis = g.add(g.chunks[c].basis, part)
			g.rank(c)
		}
		return true
	}
	return false
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
	moved := g.chunks[from]
	moved.qty, moved.basis, moved.adjustment, moved.lossBasis = p.qty, p.basis, p.adjustment, p.lossBasis
	moved.queue, moved.next = queue, -1
	n := int32(len(g.chunks))
	if moved.acq >= 0 && !moved.used {
		g.chunks[from].free = n // moved.free is already what came after
	}
	g.chunks = append(g.chunks, moved)
	g.push(n)
}

// applySplit changes the number of shares; what rounding loses on one lot, the next ones get.
func (g *group) applySplit(n int32, t *Transaction, r row) {
	s := g.splits[g.split]
	g.split++
	if !s.ratio.Old.IsPos() {
		g.gap(n, r.account, t.Quantity, "split of shares that are not there")
		return
	}
	for a := range int32(len(g.in.accounts)) {
		if r.account >= 0 && r.account != a {
			continue
		}
		q := &g.queues[g.queue(a, r.ticker)]
		before := decimal.Zero
		g.each(q, func(n int32) { before = g.add(before, g.chunks[n].qty) })
		after := g.portion(before, s.ratio.New, s.ratio.Old)
		g.each(q, func(n int32) {
			c := &g.chunks[n]
			qty := g.portion(after, c.qty, before)
			before, after = g.sub(before, c.qty), g.sub(after, qty)
			c.qty = qty
			g.rank(n)
		})
	}
}

// returnCapital lowers the basis of all shares alike; what is above it is a gain.
func (g *group) returnCapital(n int32, t *Transaction, r row) {
	q := &g.queues[g.queue(r.account, r.ticker)]
	shares, amount := decimal.Zero, g.worth(t)
	g.each(q, func(n int32) { shares = g.add(shares, g.chunks[n].qty) })
	if shares.IsZero() {
		g.gap(n, r.account, t.Quantity, "capital returned on shares that are not there")
		return
	}
	g.each(q, func(m int32) {
		c := &g.chunks[m]
		part := g.portion(amount, c.qty, shares)
		amount, shares = g.sub(amount, part), g.sub(shares, c.qty)
		if c.dual {
			c.lossBasis = decimal.Zero.Max(g.sub(c.lossBasis, part))
		}
		if c.basis = g.sub(c.basis, part); c.basis.IsNeg() {
			g.realize(n, c, piece{}, c.basis.Neg())
			c.basis = decimal.Zero
		}
		g.rank(m)
	})
}
