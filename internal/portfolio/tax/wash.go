package tax

import (
	"cmp"
	"slices"

	"github.com/govalues/decimal"
)

// washDays is how far a purchase may be from a loss, before or after, to replace what was sold.
const washDays = 30

// wash matches the losses of the day that ends. Held shares can be adjusted now; purchases to come get a promise.
func (g *group) wash() {
	slices.SortStableFunc(g.losses, func(a, b int32) int {
		x, y := g.out.sales.at(int(a)), g.out.sales.at(int(b))
		return cmp.Or(cmp.Compare(x.LotDate, y.LotDate), cmp.Compare(x.origin, y.origin))
	})
	for g.window < len(g.acqs) && g.acqs[g.window].date < g.today-washDays {
		g.window++
	}
	// A row's losses on several lots are one wash sale.
	clear(g.dayOf)
	g.day = g.day[:0]
	for _, n := range g.losses {
		s := g.out.sales.at(int(n))
		i, ok := g.dayOf[s.Row]
		if !ok {
			i = len(g.day)
			g.dayOf[s.Row] = i
			g.day = append(g.day, WashSale{SaleDate: s.Date, Account: g.in.accounts[s.account].ID, Ticker: g.in.tickers[s.ticker].name, row: s.Row})
		}
		w := &g.day[i]
		w.Shares, w.Loss = g.add(w.Shares, s.Quantity), g.sub(w.Loss, s.Gain)
		g.match(s, w)
	}
	for i := range g.day {
		if len(g.day[i].Replacements) > 0 {
			g.out.washes.add(g.day[i])
		}
	}
}

// next returns the first purchase from a on of which something may be left.
func (g *group) next(a int32) int32 {
	root := a
	for root < int32(len(g.passed)) && g.passed[root] != root {
		root = g.passed[root]
	}
	for a < root {
		a, g.passed[a] = g.passed[a], root
	}
	return root
}

// match finds the replacements for one loss: earliest purchase first, never more shares than were sold.
func (g *group) match(s *Sale, w *WashSale) {
	m := matching{sale: s, wash: w, left: s.Quantity, loss: s.Gain.Neg(), held: s.Date - s.HoldingStart + 1}
	sold := &g.in.tickers[s.ticker]
	for a := g.next(int32(g.window)); a < int32(len(g.acqs)) && g.acqs[a].date <= s.Date+washDays; a = g.next(a + 1) {
		if !m.left.IsPos() || g.err != nil {
			break
		}
		p := &g.acqs[a]
		perUnit, ok := replaces(sold, &g.in.tickers[p.ticker])
		if a == s.acq || !ok {
			continue
		}
		m.perUnit, m.splits = perUnit, decimal.One
		if int(a) < g.made {
			g.matchHeld(&m, a)
			continue
		}
		if len(g.splits) > 0 && p.ticker == s.ticker {
			m.splits = g.splitFactor(p.ticker, s.Date, p.date)
		}
		g.matchComing(&m, a)
	}
}

// matching is a loss that looks for replacements.
type matching struct {
	sale       *Sale
	wash       *WashSale
	left, loss decimal.Decimal // shares and loss without a replacement
	held       Date            // days for which the sold shares were held
	perUnit    int64
	splits     decimal.Decimal
}

// matchHeld takes shares that are held at the end of the day.
func (g *group) matchHeld(m *matching, a int32) {
	p := &g.acqs[a]
	before := &p.free
	for *before >= 0 && m.left.IsPos() {
		n := *before
		c := &g.chunks[n]
		if c.qty.IsZero() { // sold or moved since
			*before = c.free
			continue
		}
		taxable := g.in.taxable[g.queues[c.queue].account]
		units, loss := g.assignLoss(m, p, c.qty, g.queues[c.queue].account)
		rest := c.free
		if units.Cmp(c.qty) < 0 {
			rest = g.part(n, units)
		}
		*before = rest
		c = &g.chunks[n] // part may have moved it
		c.used = true
		if taxable {
			c.basis, c.adjustment = g.add(c.basis, loss), g.add(c.adjustment, loss)
			c.hold -= m.held
			c.always = c.always || m.sale.always
		}
		g.rank(n)
	}
	if p.free < 0 {
		g.passed[a] = a + 1
	}
}

// part leaves qty in chunk n and puts the rest into a new one, which is still free, behind it. It returns the new one.
func (g *group) part(n int32, qty decimal.Decimal) int32 {
	p := g.cut(n, qty)
	c := g.chunks[n] // the rest
	rest := int32(len(g.chunks))
	g.chunks = append(g.chunks, c)
	first := &g.chunks[n]
	first.qty, first.basis, first.adjustment, first.lossBasis = p.qty, p.basis, p.adjustment, p.lossBasis
	first.next, first.free = rest, rest
	g.rank(rest)
	return rest
}

// matchComing takes shares of a purchase after today.
func (g *group) matchComing(m *matching, a int32) {
	p := &g.acqs[a]
	available := g.sub(p.qty, p.reserved)
	if !available.IsPos() {
		g.passed[a] = a + 1
		return
	}
	units, loss := g.assignLoss(m, p, available, p.account)
	p.reserved = g.add(p.reserved, units)
	pr := promise{qty: units, next: -1}
	if g.in.taxable[p.account] {
		pr.loss, pr.days, pr.always = loss, m.held, m.sale.always
	}
	n := int32(len(g.pending))
	g.pending = append(g.pending, pr)
	if p.first < 0 {
		p.first = n
	} else {
		g.pending[p.last].next = n
	}
	p.last = n
	if p.reserved.Cmp(p.qty) >= 0 {
		g.passed[a] = a + 1
	}
}

// assignLoss gives as much of the loss as there is room for to available units of a purchase that are in account now,
// and notes it. It returns the units and the loss.
func (g *group) assignLoss(m *matching, p *purchase, available decimal.Decimal, account int32) (units, loss decimal.Decimal) {
	shares := m.left
	units = g.toUnits(shares, m.perUnit, m.splits)
	if units.Cmp(available) > 0 {
		units = available
		shares = g.toShares(units, m.perUnit, m.splits).Min(m.left)
	}
	loss = g.portion(m.loss, shares, m.left)
	m.left, m.loss = g.sub(m.left, shares), g.sub(m.loss, loss)

	s, w := m.sale, m.wash
	s.DisallowedShares, s.Disallowed = g.add(s.DisallowedShares, shares), g.add(s.Disallowed, loss)
	w.DisallowedShares, w.DisallowedLoss = g.add(w.DisallowedShares, shares), g.add(w.DisallowedLoss, loss)
	if !g.in.taxable[account] {
		s.Permanent, w.PermanentLoss = g.add(s.Permanent, loss), g.add(w.PermanentLoss, loss)
	}
	r := Replacement{Date: p.date, Account: g.in.accounts[p.account].ID, Ticker: g.in.tickers[p.ticker].name, Shares: shares}
	for i := range w.Replacements {
		if have := &w.Replacements[i]; have.Date == r.Date && have.Account == r.Account && have.Ticker == r.Ticker {
			have.Shares = g.add(have.Shares, shares)
			return units, loss
		}
	}
	if w.Replacements == nil {
		w.Replacements = make([]Replacement, 0, 2)
	}
	w.Replacements = append(w.Replacements, r)
	return units, loss
}
