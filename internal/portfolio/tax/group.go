package tax

import (
	"slices"

	"github.com/govalues/decimal"
)

// group folds the rows of one group of tickers, day by day. Groups know nothing of each other.
type group struct {
	calc
	in      *intake
	out     *output
	id      int32
	today   Date
	queues  []queue // by ticker of the group, then by account
	chunks  []chunk
	acqs    []purchase // all of the group, by date; those after today are known, but have no lots yet
	made    int        // how many of them have lots
	passed  []int32    // for each purchase, where to look on if nothing is left of it
	window  int        // the first purchase that today's losses may be matched with
	pending []promise
	splits  []splitting
	split   int     // how many of them are done
	losses  []int32 // today's, as places in the sales
	premium []premium
	day     []WashSale    // today's rows with a loss
	dayOf   map[int32]int // of such a row, its place
}

// purchase is a row whose shares can be a replacement.
type purchase struct {
	qty      decimal.Decimal // shares it opens: for an option, without those that close written ones
	reserved decimal.Decimal // shares already taken as replacements, while there is no lot
	date     Date
	row      int32
	account  int32
	ticker   int32
	free     int32 // its first chunk that may become a replacement, or -1
	first    int32 // its first promise, or -1; and its last
	last     int32
}

// promise is what shares of a purchase to come get from a loss before it.
type promise struct {
	qty, loss decimal.Decimal
	days      Date // how long the sold shares were held
	next      int32
	always    bool
}

// splitting is a split with its ratio.
type splitting struct {
	ratio  Ratio
	ticker int32
	date   Date
}

// premium is the basis of exercised puts, which lowers the proceeds of the shares sold by them.
type premium struct {
	amount     decimal.Decimal
	queue, row int32
}

// reset makes the group ready for another one, and keeps its memory.
func (g *group) reset(id int32) {
	queues := len(g.in.names[id]) * len(g.in.accounts)
	if cap(g.queues) < queues {
		g.queues = make([]queue, queues)
	}
	g.queues = g.queues[:queues]
	clear(g.queues)
	g.id, g.made, g.window, g.split = id, 0, 0, 0
	g.chunks, g.acqs, g.passed = g.chunks[:0], g.acqs[:0], g.passed[:0]
	g.pending, g.splits, g.losses, g.premium = g.pending[:0], g.splits[:0], g.losses[:0], g.premium[:0]
}

// queue returns the lots of a ticker in an account.
func (g *group) queue(account, ticker int32) int32 {
	n := g.in.tickers[ticker].local*int32(len(g.in.accounts)) + account
	if q := &g.queues[n]; q.method == "" {
		q.method, q.account, q.ticker = g.in.accounts[account].Method, account, ticker
	}
	return n
}

// run folds all rows of the group.
func (g *group) run(keys []uint64) error {
	g.survey(keys)
	g.chunks = slices.Grow(g.chunks, len(g.acqs)+len(g.acqs)/2)
	for i, key := range keys {
		n := int32(keyIndex(key))
		t := &g.in.txs[n]
		if i > 0 && t.Date != g.today {
			if err := g.endDay(); err != nil {
				return err
			}
		}
		g.today = t.Date
		g.apply(n, t, g.in.rows[n])
		if g.err != nil {
			return g.failed(n)
		}
	}
	return g.endDay()
}

// failed is for numbers that decimals cannot hold.
func (g *group) failed(row int32) error {
	t := &g.in.txs[row]
	faults := &FaultsError{}
	faults.add(t.Source, "the amounts of %s cannot be computed, check quantity and price: %v", t.Ticker, g.err)
	return faults
}

func (g *group) apply(n int32, t *Transaction, r row) {
	switch t.Action {
	case Split:
		g.applySplit(n, t, r)
	case ReturnOfCapital:
		g.returnCapital(n, t, r)
	case Buy, Reinvest:
		g.buy(n, t, r)
	case GiftIn:
		g.gift(n, t, r)
	case Inherit:
		c := chunk{qty: t.Quantity, basis: g.add(g.worth(t), t.Fees), date: t.Date, hold: t.Date + 1, row: n, acq: -1, always: true}
		g.open1(c, r.account, r)
	case Transfer:
		g.transfer(n, t, r)
	case Assign:
		g.assign(n, t, r)
	case Sell, Expire:
		g.sell(n, t, r)
	}
}

// open1 makes a lot of one chunk.
func (g *group) open1(c chunk, account int32, r row) {
	c.queue = g.queue(account, r.ticker)
	c.lot, c.next, c.free = r.lot, -1, -1
	c.nth = g.queues[c.queue].number(c.date)
	g.chunks = append(g.chunks, c)
	g.push(int32(len(g.chunks) - 1))
}

// buy makes the lot of a purchase: a chunk for each loss that it replaces, and the rest.
func (g *group) buy(n int32, t *Transaction, r row) {
	a := int32(g.made)
	g.made++
	p := &g.acqs[a]
	if p.qty.IsZero() {
		return // closes a written option
	}
	cost := g.portion(g.add(g.mul(t.Quantity, t.Price), t.Fees), p.qty, t.Quantity)
	left := p.qty
	base := chunk{date: t.Date, hold: t.Date + 1, row: n, acq: a, lot: r.lot, next: -1, free: -1, queue: g.queue(r.account, r.ticker)}
	base.nth = g.queues[base.queue].number(t.Date)
	first := int32(len(g.chunks))
	for m := p.first; m >= 0; m = g.pending[m].next {
		pr := &g.pending[m]
		c := base
		c.qty, c.used, c.always = pr.qty, true, pr.always
		c.basis = g.portion(cost, pr.qty, left)
		cost, left = g.sub(cost, c.basis), g.sub(left, pr.qty)
		c.basis, c.adjustment = g.add(c.basis, pr.loss), pr.loss
		c.hold -= pr.days
		g.chunks = append(g.chunks, c)
	}
	if !left.IsZero() {
		c := base
		c.qty, c.basis = left, cost
		p.free = int32(len(g.chunks))
		g.chunks = append(g.chunks, c)
	}
	for c := first; c < int32(len(g.chunks))-1; c++ {
		g.chunks[c].next = c + 1
	}
	g.push(first)
}

// gift makes the lot of a gift: the donor's basis and time; but if it was worth less than that basis, a loss is counted
// from the value and the day of the gift.
func (g *group) gift(n int32, t *Transaction, r row) {
	value := g.worth(t)
	c := chunk{qty: t.Quantity, basis: g.add(t.DonorBasis, t.Fees), date: t.Date, hold: t.Date + 1, row: n, acq: -1}
	if t.DonorDate != 0 {
		c.hold = t.DonorDate + 1
	}
	if value.Cmp(t.DonorBasis) < 0 {
		c.dual, c.lossBasis = true, g.add(value, t.Fees)
	}
	g.open1(c, r.account, r)
}

// gap notes shares that no row brought.
func (g *group) gap(row int32, account int32, qty decimal.Decimal, why string) {
	t := &g.in.txs[row]
	g.out.gaps.add(Gap{Date: t.Date, Account: g.in.accounts[account].ID, Ticker: t.Ticker, Quantity: qty.Trim(0), Why: why, Row: row})
}

// endDay matches the day's losses, when it is known what is held at its end.
func (g *group) endDay() error {
	for _, p := range g.premium {
		q := &g.queues[p.queue]
		g.gap(p.row, q.account, g.in.txs[p.row].Quantity, "the exercised put sold no shares on its day")
	}
	g.premium = g.premium[:0]
	if len(g.losses) == 0 {
		return nil
	}
	g.wash()
	last := g.out.sales.at(int(g.losses[len(g.losses)-1])).Row
	g.losses = g.losses[:0]
	if g.err != nil {
		return g.failed(last)
	}
	return nil
}

// survey lists the group's purchases and splits before the first day is folded: a loss looks 30 days ahead.
func (g *group) survey(keys []uint64) {
	var held map[int32]decimal.Decimal // shares in each queue; only counted where somebody needs it
	buys, positions := g.expect(keys)
	if positions {
		held = make(map[int32]decimal.Decimal)
	}
	g.acqs, g.passed = slices.Grow(g.acqs, buys), slices.Grow(g.passed, buys)
	for _, key := range keys {
		n := int32(keyIndex(key))
		t, r := &g.in.txs[n], g.in.rows[n]
		qty := t.Quantity
		switch t.Action {
		case Buy, Reinvest:
			if held != nil && g.in.tickers[r.ticker].option {
				qty = qty.Min(g.add(held[g.queue(r.account, r.ticker)], qty)).Max(decimal.Zero)
			}
			g.acqs = append(g.acqs, purchase{qty: qty, date: t.Date, row: n, account: r.account, ticker: r.ticker, free: -1, first: -1, last: -1})
			g.passed = append(g.passed, int32(len(g.passed)))
		case Split:
			ratio := t.Ratio
			if !ratio.New.IsPos() || !ratio.Old.IsPos() {
				have := held[g.queue(r.account, r.ticker)]
				if ratio = (Ratio{}); have.IsPos() {
					ratio = Ratio{New: g.add(have, qty), Old: have}
				}
			}
			g.splits = append(g.splits, splitting{ratio: ratio, ticker: r.ticker, date: t.Date})
		}
		if held != nil {
			g.count(held, t, r)
		}
	}
}

// expect counts the purchases, and says whether positions must be known: for splits without a ratio, and for options,
// which may be bought back.
func (g *group) expect(keys []uint64) (buys int, positions bool) {
	for _, key := range keys {
		n := keyIndex(key)
		t := &g.in.txs[n]
		positions = positions || g.in.tickers[g.in.rows[n].ticker].option || t.Action == Split && !t.Ratio.New.IsPos()
		if t.Action == Buy || t.Action == Reinvest {
			buys++
		}
	}
	return buys, positions
}

// count follows how many shares each queue holds, which does not depend on the lots that are taken.
func (g *group) count(held map[int32]decimal.Decimal, t *Transaction, r row) {
	move := func(account int32, qty decimal.Decimal) {
		if account < 0 {
			return
		}
		q := g.queue(account, r.ticker)
		held[q] = g.add(held[q], qty)
		if held[q].IsNeg() && !g.in.tickers[r.ticker].option {
			held[q] = decimal.Zero // incomplete history, not a debt
		}
	}
	switch t.Action {
	case Buy, Reinvest, GiftIn, Inherit:
		move(r.account, t.Quantity)
	case Sell:
		move(r.account, t.Quantity.Neg())
	case Expire, Assign:
		if held[g.queue(r.account, r.ticker)].IsNeg() {
			move(r.account, t.Quantity) // ends a written option
		} else {
			move(r.account, t.Quantity.Neg())
		}
	case Transfer:
		move(r.account, t.Quantity.Neg())
		move(r.to, t.Quantity)
	case Split:
		s := g.splits[len(g.splits)-1]
		for a := range int32(len(g.in.accounts)) {
			if q := g.queue(a, r.ticker); (r.account < 0 || r.account == a) && s.ratio.Old.IsPos() {
				held[q] = g.portion(held[q], s.ratio.New, s.ratio.Old)
			}
		}
	}
}

// splitFactor is how many shares of today one of before the later day's splits became.
func (g *group) splitFactor(ticker int32, from, to Date) decimal.Decimal {
	factor, last := decimal.One, from
	for _, s := range g.splits {
		// Each account has a row of its own for one split.
		if s.ticker == ticker && s.date > last && s.date <= to && s.ratio.Old.IsPos() {
			factor, last = g.quo(g.keep(factor.Mul(s.ratio.New)), s.ratio.Old), s.date
		}
	}
	return factor
}
