package tax

import "github.com/govalues/decimal"

// A call and the shares that it buys are one acquisition (Reg. 1.1091-1(e) and (f)), in two rows: the option is closed by an
// assign, the shares come with a buy of that day. The survey finds out which shares are whose, before the first loss looks
// ahead; when the day comes, the shares get what was paid for the call, and what the call took of losses.

// exercise is shares of a purchase that the calls of an assign row bought.
type exercise struct {
	shares decimal.Decimal // none if there are not enough for all calls of the day
	row    int32
	acq    int32
}

// callLink is the shares of a purchase that are for the contracts of a call's purchase from one on.
type callLink struct {
	first, shares decimal.Decimal
	acq           int32
}

// delivery is a purchase by exercise on its day: its chunks that have no call yet.
type delivery struct {
	promised int32 // the first of those that replace something, or -1
	free     int32 // the first of the others, or -1
	border   int32 // where the others start
	last     int32 // the last that got a call, or -1
}

// callLinks are the purchases, by exercise, that belong to a call's, in the order of exercise. What the call takes of
// losses, they cannot. A purchase's contracts leave in the order in which they take losses, so both are counted from the
// first.
type callLinks struct {
	list []callLink
	done int
	gone decimal.Decimal // contracts that were sold or exercised
	used decimal.Decimal // contracts up to the last that took a loss
}

// foresight follows which contracts are held, and so which are exercised. Sells by hifo and min_tax depend on what wash sales
// do to the basis, which is not known yet: they are taken to be FIFO.
type foresight struct {
	*group
	held   map[int32]*contracts // by queue
	day    Date
	bought map[boughtKey]*boughtList // of that day
	left   map[int32]decimal.Decimal // of these purchases, the shares without a call
}

// contracts are those of one queue, in the order of rows.
type contracts struct {
	lots  []contractLot
	first int           // the first that may be open
	named map[int32]int // by lot id
}

type contractLot struct {
	qty  decimal.Decimal
	gone decimal.Decimal
	acq  int32 // -1 if it was no purchase
	lot  int32 // the id it was given, or -1
}

// boughtKey is a position and a price; any stands for all prices.
type boughtKey struct {
	account, ticker int32
	price           decimal.Decimal
	any             bool
}

type boughtList struct {
	acqs []int32
	next int // the first with shares without a call
}

func newForesight(g *group) *foresight {
	g.linked, g.deliveries = make(map[int32]*callLinks), make(map[int32]*delivery)
	return &foresight{group: g, held: make(map[int32]*contracts)}
}

// see follows a row.
func (f *foresight) see(n int32, t *Transaction, r row) {
	if o := &f.in.tickers[r.ticker]; !o.option || !o.call {
		return
	}
	switch r.act {
	case doBuy:
		a := int32(len(f.acqs) - 1)
		f.add(r.account, r, f.acqs[a].qty, a)
	case doGift, doInherit:
		f.add(r.account, r, t.Quantity, -1)
	case doTransfer:
		if r.account < 0 {
			f.add(r.to, r, t.Quantity, -1)
			return
		}
		f.take(r, t.Quantity, false, func(a int32, _, qty decimal.Decimal) {
			if r.to >= 0 {
				f.add(r.to, r, qty, a)
			}
		})
	case doSell:
		f.take(r, t.Quantity, f.in.accounts[r.account].Method == LIFO, func(int32, decimal.Decimal, decimal.Decimal) {})
	case doAssign:
		f.exercise(n, t, r)
	}
}

func (f *foresight) contracts(account, ticker int32) *contracts {
	q := f.queue(account, ticker)
	c := f.held[q]
	if c == nil {
		c = &contracts{named: make(map[int32]int)}
		f.held[q] = c
	}
	return c
}

func (f *foresight) add(account int32, r row, qty decimal.Decimal, acq int32) {
	c := f.contracts(account, r.ticker)
	if r.lot >= 0 {
		c.named[r.lot] = len(c.lots)
	}
	c.lots = append(c.lots, contractLot{qty: qty, acq: acq, lot: r.lot})
}

// take removes contracts, and tells of which purchases they are, and after how many of it.
func (f *foresight) take(r row, qty decimal.Decimal, newest bool, tell func(acq int32, after, qty decimal.Decimal)) {
	c := f.contracts(r.account, r.ticker)
	for qty.IsPos() && f.err == nil {
		for c.first < len(c.lots) && c.lots[c.first].qty.IsZero() {
			c.first++
		}
		for len(c.lots) > c.first && c.lots[len(c.lots)-1].qty.IsZero() {
			c.lots = c.lots[:len(c.lots)-1]
		}
		if c.first == len(c.lots) {
			return
		}
		i := c.first
		if named, ok := c.named[r.lot]; ok {
			if named >= len(c.lots) || c.lots[named].lot != r.lot || c.lots[named].qty.IsZero() {
				return
			}
			i = named
		} else if r.lot >= 0 && f.in.unnamed[r.lot] == (unnamedLot{}) {
			return
		} else if newest {
			i = len(c.lots) - 1
		}
		l := &c.lots[i]
		part, after := qty.Min(l.qty), l.gone
		l.qty, l.gone, qty = f.sub(l.qty, part), f.group.add(l.gone, part), f.sub(qty, part)
		tell(l.acq, after, part)
	}
}

// exercise finds the shares that an assign row's calls bought: those of the day at the strike, or, if there are none, the
// first ones.
func (f *foresight) exercise(n int32, t *Transaction, r row) {
	f.open(t.Date)
	option := &f.in.tickers[r.ticker]
	key := boughtKey{account: r.account, ticker: option.underlying, price: f.strike(option)}
	list := f.bought[key]
	if list == nil {
		list = f.bought[boughtKey{account: r.account, ticker: option.underlying, any: true}]
	}
	first := len(f.exercises)
	f.take(r, t.Quantity, false, func(call int32, after, qty decimal.Decimal) {
		want := f.mul(qty, f.keep(decimal.New(contractSize, 0)))
		for list != nil && want.IsPos() && f.err == nil {
			for list.next < len(list.acqs) && f.left[list.acqs[list.next]].IsZero() {
				list.next++
			}
			if list.next == len(list.acqs) {
				break
			}
			a := list.acqs[list.next]
			part := want.Min(f.left[a])
			want, f.left[a] = f.sub(want, part), f.sub(f.left[a], part)
			f.link(call, after, exercise{shares: part, row: n, acq: a})
			after = f.group.add(after, f.quo(part, f.keep(decimal.New(contractSize, 0))))
		}
		if list != nil && len(f.exercises) == first {
			f.link(-1, after, exercise{row: n, acq: list.acqs[len(list.acqs)-1]})
		}
	})
}

func (f *foresight) link(call int32, after decimal.Decimal, e exercise) {
	if f.deliveries[e.acq] == nil {
		f.deliveries[e.acq] = &delivery{promised: -1, free: -1, border: -1, last: -1}
	}
	f.exercises = append(f.exercises, e)
	if call < 0 {
		return
	}
	if f.linked[call] == nil {
		f.linked[call] = &callLinks{}
	}
	f.linked[call].list = append(f.linked[call].list, callLink{first: after, shares: e.shares, acq: e.acq})
}

// open lists what was bought on a day: purchases come before exercises.
func (f *foresight) open(day Date) {
	if f.day == day {
		return
	}
	f.day, f.bought, f.left = day, make(map[boughtKey]*boughtList), make(map[int32]decimal.Decimal)
	first := len(f.acqs)
	for first > 0 && f.acqs[first-1].date == day {
		first--
	}
	for a := first; a < len(f.acqs); a++ {
		f.work++
		p := &f.acqs[a]
		if t := &f.in.txs[p.row]; t.Action == Buy && !f.in.tickers[p.ticker].option {
			key := boughtKey{account: p.account, ticker: p.ticker, price: trim(t.Price)}
			for _, key := range []boughtKey{key, {account: p.account, ticker: p.ticker, any: true}} {
				if f.bought[key] == nil {
					f.bought[key] = &boughtList{}
				}
				f.bought[key].acqs = append(f.bought[key].acqs, int32(a))
			}
			f.left[int32(a)] = p.qty
		}
	}
}

// strike is the last eight digits of the symbol, in thousandths.
func (f *foresight) strike(option *ticker) decimal.Decimal {
	name, thousandths := option.name, int64(0)
	for _, digit := range name[len(name)-8:] {
		thousandths = thousandths*10 + int64(digit-'0')
	}
	return trim(f.keep(decimal.New(thousandths, 3)))
}

// exercisesOf returns the exercises of an assign row; they come in the order of the survey.
func (g *group) exercisesOf(row int32) []exercise {
	first := g.delivered
	for g.delivered < len(g.exercises) && g.exercises[g.delivered].row == row {
		g.delivered++
	}
	return g.exercises[first:g.delivered]
}

// leave notes contracts of a purchase that are sold or exercised.
func (g *group) leave(call int32, units decimal.Decimal) {
	if links := g.linked[call]; links != nil {
		links.gone = g.add(links.gone, units)
	}
}

// block keeps shares that contracts of a purchase will buy from taking a loss of their own, because these took one.
func (g *group) block(call int32, units decimal.Decimal) {
	links := g.linked[call]
	if links == nil {
		return
	}
	size := g.keep(decimal.New(contractSize, 0))
	from := links.used.Max(links.gone)
	links.used = g.add(from, units)
	from, to := g.mul(from, size), g.mul(links.used, size) // in shares
	for ; links.done < len(links.list); links.done++ {
		g.work++
		l := &links.list[links.done]
		start := g.mul(l.first, size)
		end := g.add(start, l.shares)
		if part := g.sub(end.Min(to), start.Max(from)); part.IsPos() && int(l.acq) >= g.made {
			p := &g.acqs[l.acq]
			p.reserved = g.add(p.reserved, part)
		}
		if compare(end, to) > 0 {
			return
		}
	}
}

// deliver gives the shares of an assign row what was paid for a piece of its calls, and what that took of losses: amount,
// time, and that they replace nothing else. It takes from the row's exercises, and is false if there are no shares.
func (g *group) deliver(list *[]exercise, call *chunk, p piece) bool {
	want := g.mul(p.qty, g.keep(decimal.New(contractSize, 0)))
	found, shares, last := g.found[:0], decimal.Zero, int32(-1)
	for len(*list) > 0 && g.err == nil {
		e := &(*list)[0]
		d := g.deliveries[e.acq]
		n := g.undelivered(d, call.used)
		done := e.shares.IsZero() || n < 0
		if last = d.last; want.IsZero() || done && len(*list) == 1 { // the last one stays, for calls without shares
			break
		}
		if done {
			*list = (*list)[1:]
			continue
		}
		c := g.at(n)
		qty := want.Min(e.shares).Min(c.qty)
		if compare(qty, c.qty) < 0 {
			g.part(n, qty)
		}
		d.took(n, c.next)
		found = append(found, n)
		want, e.shares, shares = g.sub(want, qty), g.sub(e.shares, qty), g.add(shares, qty)
	}
	if g.found = found; len(found) == 0 {
		if last < 0 {
			return false
		}
		found, shares = append(found, last), g.at(last).qty // more calls than shares: contracts for fewer of them
	}
	for _, n := range found {
		c := g.at(n)
		basis, moved := g.portion(p.basis, c.qty, shares), g.portion(p.adjustment, c.qty, shares)
		p.basis, p.adjustment, shares = g.sub(p.basis, basis), g.sub(p.adjustment, moved), g.sub(shares, c.qty)
		c.basis = g.add(c.basis, basis)
		if call.used {
			c.used, c.always = true, c.always || call.always
			c.adjustment = g.add(c.adjustment, moved)
			c.hold -= call.date + 1 - call.hold
		}
		g.rank(n)
	}
	return true
}

// undelivered is a chunk of the purchase that has no call yet, or -1. A call that took a loss is for shares that did not.
func (g *group) undelivered(d *delivery, used bool) int32 {
	for d.promised >= 0 && d.promised != d.border && g.at(d.promised).qty.IsZero() {
		d.promised = g.at(d.promised).next
	}
	if d.promised == d.border {
		d.promised = -1
	}
	d.free = g.open(d.free)
	if d.promised >= 0 && (!used || d.free < 0) {
		return d.promised
	}
	return d.free
}

// took says that a chunk got its call, and which is the next.
func (d *delivery) took(n, next int32) {
	if n == d.promised {
		d.promised = next
	} else {
		d.free = next
	}
	d.last = n
}
