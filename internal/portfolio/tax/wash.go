package tax

import (
	"cmp"
	"slices"

	"github.com/govalues/decimal"
)

// washDays is how far a purchase may be from a loss, before or after, to replace what was sold.
const washDays = 30

// dayLoss is a sale at a loss that waits for the end of the day.
type dayLoss struct {
	when   uint64 // date and row of the lot: the order of matching
	sale   int32  // its place in the sales
	day    int32  // its row's place in the day's rows with a loss
	acq    int32  // the purchase that is sold, -1 if it was none
	always bool
}

// lose notes a loss, which was just added to the sales. A row's losses on several lots are one wash sale.
func (g *group) lose(s *Sale, c *chunk) {
	if len(g.losses) == 0 {
		g.day = g.day[:0]
	}
	if last := len(g.day) - 1; last < 0 || g.day[last].row != s.Row {
		g.day = append(g.day, WashSale{SaleDate: s.Date, Account: g.in.accounts[s.account].ID, Ticker: g.in.tickers[s.ticker].name, row: s.Row})
	}
	g.losses = append(g.losses, dayLoss{when: placeOf(c.date, c.row).key, sale: int32(g.out.sales.n - 1), day: int32(len(g.day) - 1),
		acq: c.acq, always: c.always})
}

// wash matches the losses of the day that ends. Held shares can be adjusted now; purchases to come get a promise.
func (g *group) wash() {
	slices.SortFunc(g.losses, func(a, b dayLoss) int { return cmp.Or(cmp.Compare(a.when, b.when), cmp.Compare(a.sale, b.sale)) })
	for g.window < len(g.acqs) && g.acqs[g.window].date < g.today-washDays {
		g.window++
	}
	clear(g.merged)
	for i := range g.losses {
		l := &g.losses[i]
		s, w := g.out.sales.at(int(l.sale)), &g.day[l.day]
		w.Shares, w.Loss = g.add(w.Shares, s.Quantity), g.sub(w.Loss, s.Gain)
		g.match(&matching{dayLoss: l, sale: s, wash: w, left: s.Quantity, amount: s.Gain.Neg(), held: s.Date - s.HoldingStart + 1})
	}
	for i := range g.day {
		if w := &g.day[i]; len(w.Replacements) > 0 {
			w.trim()
			g.out.washes.add(*w)
		}
	}
}

func (w *WashSale) trim() {
	for _, d := range []*decimal.Decimal{&w.Shares, &w.Loss, &w.DisallowedShares, &w.DisallowedLoss, &w.PermanentLoss} {
		*d = trim(*d)
	}
	for i := range w.Replacements {
		w.Replacements[i].Shares = trim(w.Replacements[i].Shares)
	}
}

// match finds the replacements for one loss: earliest purchase first, never more shares than were sold.
func (g *group) match(m *matching) {
	s := m.sale
	sold := &g.in.tickers[s.ticker]
	from, a := &g.shares, int32(g.window)
	if sold.option {
		from, a = g.options, g.options.start(g, sold.local)
	}
	for a = from.find(a); a < int32(len(g.acqs)) && g.acqs[a].date <= s.Date+washDays; a = from.find(from.after(a)) {
		g.work++
		if !m.left.IsPos() || g.err != nil {
			break
		}
		p := &g.acqs[a]
		perUnit, ok := replaces(sold, &g.in.tickers[p.ticker])
		if a == m.acq || !ok {
			continue
		}
		m.perUnit, m.splits = perUnit, decimal.One
		if int(a) < g.made {
			g.matchHeld(m, a)
			continue
		}
		if g.splitting {
			bought := p.ticker
			if !sold.option {
				bought = g.in.tickers[bought].underlying // a call is for shares of its own day
			}
			m.splits = g.splitFactor(bought, s.Date, p.date)
		}
		g.matchComing(m, a)
	}
}

// matching is a loss that looks for replacements.
type matching struct {
	*dayLoss
	sale         *Sale
	wash         *WashSale
	left, amount decimal.Decimal // shares and loss without a replacement
	held         Date            // days for which the sold shares were held
	perUnit      int64
	splits       decimal.Decimal
}

// matchHeld takes shares that are held at the end of the day.
func (g *group) matchHeld(m *matching, a int32) {
	p := &g.acqs[a]
	before := &p.free
	for *before >= 0 && m.left.IsPos() {
		g.work++
		n := *before
		c := g.at(n)
		if c.qty.IsZero() || c.used { // sold or moved since, or got what a call took
			*before = c.free
			continue
		}
		g.touch(c)
		taxable := g.in.taxable[g.queues[c.queue].account]
		units, loss := g.assignLoss(m, p, c.qty, g.queues[c.queue].account)
		rest := c.free
		if compare(units, c.qty) < 0 {
			rest = g.part(n, units)
		}
		*before = rest
		c.used = true
		g.block(a, units)
		if taxable {
			c.basis, c.adjustment = g.add(c.basis, loss), g.add(c.adjustment, loss)
			c.hold -= m.held
			c.always = c.always || m.always
		}
		g.rank(n)
	}
	if p.free < 0 {
		g.exhaust(a)
	}
}

// part leaves qty in chunk n and puts the rest into a new one, which is still free, behind it. It returns the new one.
func (g *group) part(n int32, qty decimal.Decimal) int32 {
	p := g.cut(n, qty)
	c := *g.at(n) // the rest
	c.unranked = false
	rest := g.addChunk(c)
	first := g.at(n)
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
		g.exhaust(a)
		return
	}
	units, loss := g.assignLoss(m, p, available, p.account)
	p.reserved = g.add(p.reserved, units)
	g.block(a, units)
	pr := promise{qty: units, next: -1}
	if g.in.taxable[p.account] {
		pr.loss, pr.days, pr.always = loss, m.held, m.always
	}
	n := g.spare
	if n >= 0 {
		g.spare = g.pending[n].next
		g.pending[n] = pr
	} else {
		n = int32(len(g.pending))
		g.pending = append(g.pending, pr)
	}
	if p.first < 0 {
		p.first = n
	} else {
		g.pending[p.last].next = n
	}
	p.last = n
	if compare(p.reserved, p.qty) >= 0 {
		g.exhaust(a)
	}
}

// assignLoss gives as much of the loss as there is room for to available units of a purchase that are in account now,
// and notes it. It returns the units and the loss.
func (g *group) assignLoss(m *matching, p *purchase, available decimal.Decimal, account int32) (units, loss decimal.Decimal) {
	shares := m.left
	units = g.toUnits(shares, m.perUnit, m.splits)
	if compare(units, available) > 0 {
		units = available
		shares = g.toShares(units, m.perUnit, m.splits).Min(m.left)
	}
	loss = g.portion(m.amount, shares, m.left)
	m.left, m.amount = g.sub(m.left, shares), g.sub(m.amount, loss)

	s, w := m.sale, m.wash
	s.DisallowedShares, s.Disallowed = g.add(s.DisallowedShares, shares), g.add(s.Disallowed, loss)
	w.DisallowedShares, w.DisallowedLoss = g.add(w.DisallowedShares, shares), g.add(w.DisallowedLoss, loss)
	if !g.in.taxable[account] {
		s.Permanent, w.PermanentLoss = g.add(s.Permanent, loss), g.add(w.PermanentLoss, loss)
	}
	g.replacement(m, p, shares)
	return units, loss
}

// mergeKey is a day's wash sale, and the purchases that are one replacement in it.
type mergeKey struct {
	day     int32
	date    Date
	account int32
	ticker  int32
}

// fewReplacements are looked through; more are looked up.
const fewReplacements = 8

// replacement lists a purchase as one: those of one day, account and ticker together.
func (g *group) replacement(m *matching, p *purchase, shares decimal.Decimal) {
	w := m.wash
	r := Replacement{Date: p.date, Account: g.in.accounts[p.account].ID, Ticker: g.in.tickers[p.ticker].name, Shares: shares}
	g.work += min(len(w.Replacements), fewReplacements)
	for i := range w.Replacements[:min(len(w.Replacements), fewReplacements)] {
		if have := &w.Replacements[i]; have.Date == r.Date && have.Account == r.Account && have.Ticker == r.Ticker {
			have.Shares = g.add(have.Shares, shares)
			return
		}
	}
	if len(w.Replacements) >= fewReplacements {
		key := mergeKey{m.day, p.date, p.account, p.ticker}
		if i, ok := g.merged[key]; ok {
			w.Replacements[i].Shares = g.add(w.Replacements[i].Shares, shares)
			return
		}
		if g.merged == nil {
			g.merged = make(map[mergeKey]int32)
		}
		g.merged[key] = int32(len(w.Replacements))
	}
	if w.Replacements == nil {
		w.Replacements = g.out.pair()
	}
	w.Replacements = append(w.Replacements, r)
}
