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
	queues  []queue              // those that rows speak of
	slots   []int32              // by ticker of the group, then by account: one more than the queue's number, or zero
	sparse  map[int]int32        // in place of slots where most of them would be zero: the queue's number
	first   []int32              // by ticker of the group, its first queue, or -1
	blocks  []*[chunkBlock]chunk // of chunks
	filled  int32                // of chunks
	to      []int32              // scratch
	crowded int                  // how many chunks there may be before closed ones are dropped
	links   []chunkLinks         // scratch
	acqs    []purchase           // all of the group, by date; those after today are known, but have no lots yet
	made    int                  // how many of them have lots
	shares  pool                 // the purchases that can take a loss on shares
	options *pool                // those of options, each for losses on the same option; nil if there are none
	window  int                  // the first purchase that today's losses may be matched with
	pending []promise
	ripes   []ripe        // of all queues
	spare   int32         // the first promise that was kept, or -1
	splits  []splitting   // by date and row
	split   int           // how many of them are done
	dated   [][]splitting // by ticker of the group, and date: one for each day
	memos   []*splitMemo  // by ticker of the group; nil before somebody asks
	losses  []dayLoss     // today's
	premium []premium

	exercises  []exercise           // in the order of their rows
	delivered  int                  // how many of them are done
	linked     map[int32]*callLinks // by the call's purchase
	deliveries map[int32]*delivery  // by the shares' purchase
	found      []int32              // scratch

	day    []WashSale // today's rows with a loss
	merged map[mergeKey]int32

	spareRipe     int32 // the first of ripes that is in no list, plus one
	anniversaries [256][2]Date
	splitting     bool // there are splits
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

// premium is the basis of exercised puts, which lowers the proceeds of the shares sold by them.
type premium struct {
	amount     decimal.Decimal
	queue, row int32
	next       int32 // of the same queue, or -1
	taken      bool
}

// reset makes the group ready for another one, and keeps its memory.
func (g *group) reset(id int32) {
	names, facts := len(g.in.names[id]), &g.in.facts[id]
	pairs := names * len(g.in.accounts)
	if g.sparse = nil; pairs > 64+4*facts.rows {
		g.sparse = make(map[int]int32)
	} else {
		g.slots = zeros(g.slots, pairs)
	}
	g.first = zeros(g.first, names)
	for i := range g.first {
		g.first[i] = -1
	}
	g.queues = g.queues[:0]
	g.id, g.made, g.window, g.split, g.splitting, g.spare, g.crowded = id, 0, 0, 0, facts.splits, -1, fewChunks
	g.filled, g.acqs, g.pending = 0, g.acqs[:0], g.pending[:0]
	g.splits, g.losses, g.premium = g.splits[:0], g.losses[:0], g.premium[:0]
	g.dated, g.memos = nil, nil
	g.ripes, g.spareRipe = g.ripes[:0], 0
	g.exercises, g.delivered, g.linked, g.deliveries = g.exercises[:0], 0, nil, nil
	if facts.splits {
		g.dated, g.memos = make([][]splitting, names), make([]*splitMemo, names)
	}
}

// zeros returns n zeros, in the memory of s if it is large enough.
func zeros(s []int32, n int) []int32 {
	if cap(s) < n {
		return make([]int32, n)
	}
	s = s[:n]
	clear(s)
	return s
}

// run folds all rows of the group.
func (g *group) run(keys []uint64) error {
	g.survey(keys)
	for i, key := range keys {
		n, date := int32(keyIndex(key)), keyDate(key)
		if i > 0 && date != g.today {
			if err := g.endDay(); err != nil {
				return err
			}
			g.compact()
		}
		g.today = date
		g.apply(n, &g.in.txs[n], g.in.rows[n])
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
	switch r.act {
	case doSplit:
		g.applySplit(n, t, r)
	case doReturn:
		g.returnCapital(n, t, r)
	case doBuy:
		g.buy(n, t, r)
	case doGift:
		g.gift(n, t, r)
	case doInherit:
		c := chunk{qty: t.Quantity, basis: g.add(g.worth(t), t.Fees), date: t.Date, hold: t.Date + 1, row: n, acq: -1, always: true}
		g.open1(c, r.account, r)
	case doTransfer:
		g.transfer(n, t, r)
	case doAssign:
		g.assign(n, t, r)
	case doSell:
		g.sell(n, t, r)
	}
}

// open1 makes a lot of one chunk.
func (g *group) open1(c chunk, account int32, r row) {
	c.queue = g.queue(account, r.ticker)
	c.lot, c.next, c.free = r.lot, -1, -1
	c.nth = g.queues[c.queue].number(c.date)
	g.push(g.addChunk(c))
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
	first := g.filled
	for m := p.first; m >= 0; m = g.pending[m].next {
		pr := &g.pending[m]
		c := base
		c.qty, c.used, c.always = pr.qty, true, pr.always
		c.basis = g.portion(cost, pr.qty, left)
		cost, left = g.sub(cost, c.basis), g.sub(left, pr.qty)
		c.basis, c.adjustment = g.add(c.basis, pr.loss), pr.loss
		c.hold -= pr.days
		g.addChunk(c)
	}
	if !left.IsZero() {
		c := base
		c.qty, c.basis = left, cost
		p.free = g.addChunk(c)
	}
	if d := g.deliveries[a]; d != nil {
		d.promised, d.free, d.border = first, p.free, p.free
	}
	if p.first >= 0 {
		g.pending[p.last].next, g.spare = g.spare, p.first
	}
	for c := first; c < g.filled-1; c++ {
		g.at(c).next = c + 1
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
	g.out.gaps.add(Gap{Date: t.Date, Account: g.in.accounts[account].ID, Ticker: t.Ticker, Quantity: trim(qty), Why: why, Row: row})
}

// endDay matches the day's losses, when it is known what is held at its end.
func (g *group) endDay() error {
	for _, p := range g.premium {
		if p.taken {
			continue
		}
		q := &g.queues[p.queue]
		q.premium = -1
		g.gap(p.row, q.account, g.in.txs[p.row].Quantity, "the exercised put sold no shares on its day")
	}
	g.premium = g.premium[:0]
	if len(g.losses) == 0 {
		return nil
	}
	g.wash()
	g.keepClosed()
	last := g.out.sales.at(int(g.losses[len(g.losses)-1].sale)).Row
	g.losses = g.losses[:0]
	if g.err != nil {
		return g.failed(last)
	}
	return nil
}

// survey lists the group's purchases and splits before the first day is folded: a loss looks 30 days ahead.
func (g *group) survey(keys []uint64) {
	var held positions
	facts := &g.in.facts[g.id]
	if facts.positions {
		held = make(positions)
	}
	var calls *foresight
	if facts.exercises {
		calls = newForesight(g)
	}
	g.acqs = slices.Grow(g.acqs, facts.buys)
	for _, key := range keys {
		n, a := int32(keyIndex(key)), keyAct(key)
		if held == nil && a != doBuy && a != doSplit {
			continue
		}
		t, r := &g.in.txs[n], g.in.rows[n]
		switch a {
		case doBuy:
			qty := t.Quantity
			if held != nil && g.in.tickers[r.ticker].option {
				qty = qty.Min(g.add(held[g.queue(r.account, r.ticker)], qty)).Max(decimal.Zero)
			}
			g.acqs = append(g.acqs, purchase{qty: qty, date: t.Date, row: n, account: r.account, ticker: r.ticker, free: -1, first: -1, last: -1})
		case doSplit:
			g.surveySplit(held, t, r)
		}
		if calls != nil {
			calls.see(n, t, r)
		}
		if held != nil {
			g.count(held, t, r)
		}
	}
	g.fillPools(facts.options)
}

// surveySplit finds the ratio of a split.
func (g *group) surveySplit(held positions, t *Transaction, r row) {
	ratio := t.Ratio
	if !ratio.New.IsPos() || !ratio.Old.IsPos() {
		have := held[g.queue(r.account, r.ticker)]
		if ratio = (Ratio{}); have.IsPos() {
			ratio = Ratio{New: g.add(have, t.Quantity), Old: have}
		}
	}
	s := splitting{ratio: ratio, ticker: r.ticker, date: t.Date}
	g.splits = append(g.splits, s)
	// Each account may have a row of its own for one split.
	list := &g.dated[g.in.tickers[r.ticker].local]
	if last := len(*list) - 1; ratio.Old.IsPos() && (last < 0 || (*list)[last].date < t.Date) {
		*list = append(*list, s)
	}
}

// positions are how many shares each queue holds; only counted where somebody needs it.
type positions map[int32]decimal.Decimal

// count follows how many shares each queue holds, which does not depend on the lots that are taken.
func (g *group) count(held positions, t *Transaction, r row) {
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
		if !s.ratio.Old.IsPos() {
			return
		}
		for q := g.first[g.in.tickers[r.ticker].local]; q >= 0; q = g.queues[q].sibling {
			if r.account < 0 || r.account == g.queues[q].account {
				held[q] = g.portion(held[q], s.ratio.New, s.ratio.Old)
			}
		}
	}
}
