package tax

import (
	"cmp"
	"slices"

	"github.com/govalues/decimal"
)

// output collects what groups make. They come in any order, so each queue's lots are a run that finds its place at the
// end.
type output struct {
	in     *intake
	room   []Lot // for lots
	groups int   // how many have lots
	last   []Lot // the last of them's
	runs   []run
	sales  slab[Sale]
	washes slab[WashSale]
	gaps   slab[Gap]
	namer  *lotNamer
	closed map[closure]Date // by losses of the last days: until when buying makes a wash sale
	pairs  []Replacement    // room for the first two replacements of wash sales
}

// pair returns room for two replacements, which most wash sales do not exceed.
func (o *output) pair() []Replacement {
	if len(o.pairs) < 2 {
		o.pairs = make([]Replacement, 256)
	}
	pair := o.pairs[:0:2]
	o.pairs = o.pairs[2:]
	return pair
}

// run is lots of one account and ticker.
type run struct {
	lots            []Lot
	account, ticker int32
}

// take adds the open lots of a folded group. Its runs are in order, and in one piece.
func (o *output) take(g *group) {
	n := 0
	for i := range g.filled {
		if !g.at(i).qty.IsZero() {
			n++
		}
	}
	if n == 0 {
		return
	}
	if len(o.room) < n {
		o.room = make([]Lot, max(n, min(1<<blockBits, o.in.facts[g.id].rows*16)))
	}
	lots := o.room[:0:n]
	o.room = o.room[n:]
	order := make([]int32, len(g.queues))
	for i := range order {
		order[i] = int32(i)
	}
	slices.SortFunc(order, func(x, y int32) int {
		return o.in.compare(g.queues[x].account, g.queues[x].ticker, g.queues[y].account, g.queues[y].ticker)
	})
	for _, i := range order {
		q := &g.queues[i]
		start := len(lots)
		g.each(q, func(n int32) { lots = append(lots, o.lot(q, g.at(n))) })
		if len(lots) > start {
			o.runs = append(o.runs, run{lots: lots[start:], account: q.account, ticker: q.ticker})
		}
	}
	o.groups, o.last = o.groups+1, lots
}

// compare orders queues as a book does.
func (in *intake) compare(account, ticker, otherAccount, otherTicker int32) int {
	if account != otherAccount {
		return cmp.Compare(account, otherAccount)
	}
	return cmp.Compare(in.tickers[ticker].name, in.tickers[otherTicker].name)
}

func (o *output) lot(q *queue, c *chunk) Lot {
	l := Lot{Account: o.in.accounts[q.account].ID, Ticker: o.in.tickers[q.ticker].name, LotDate: c.date, HoldingStart: c.hold,
		Quantity: trim(c.qty), Basis: trim(c.basis), BasisAdjustment: trim(c.adjustment), AlwaysLong: c.always,
		Taxable: o.in.taxable[q.account], row: c.row, ticker: q.ticker, free: c.acq >= 0 && !c.used}
	l.LossBasis, l.LossHoldingStart = l.Basis, l.HoldingStart
	if c.dual {
		l.LossBasis, l.LossHoldingStart = trim(c.lossBasis), c.date+1
	}
	if c.lot >= 0 {
		l.LotID = o.in.lots[c.lot]
	} else {
		l.LotID = o.namer.name(c.date, c.nth)
	}
	return l
}

// finish fills a book with what the parts made, in the order that the book promises.
func (b *Book) finish(in *intake, parts []*part) {
	b.closed = make(map[closure]Date)
	var runs []run
	var washes slab[WashSale]
	var gaps slab[Gap]
	groups := 0
	for _, p := range parts {
		runs = append(runs, p.runs...)
		if groups += p.groups; p.groups > 0 {
			b.Lots = p.last
		}
		washes.join(&p.washes)
		gaps.join(&p.gaps)
		b.sales.join(&p.sales)
		b.work += p.work
		for c, until := range p.closed {
			b.closed[c] = max(b.closed[c], until)
		}
	}
	if groups != 1 { // a single group's are in order
		b.Lots = joined(in, runs)
	}
	b.WashSales = ordered(&washes, func(w *WashSale) (Date, int32) { return w.SaleDate, w.row })
	b.Incomplete = ordered(&gaps, func(g *Gap) (Date, int32) { return g.Date, g.Row })
}

// joined puts runs in order and makes one list of them.
func joined(in *intake, runs []run) []Lot {
	slices.SortFunc(runs, func(x, y run) int { return in.compare(x.account, x.ticker, y.account, y.ticker) })
	n := 0
	for _, r := range runs {
		n += len(r.lots)
	}
	lots := make([]Lot, 0, n)
	for _, r := range runs {
		lots = append(lots, r.lots...)
	}
	return lots
}

// ordered sorts by date, then row; equal ones stay as they are. It sorts small keys, not the large elements.
func ordered[T any](list *slab[T], key func(*T) (Date, int32)) []T {
	places, elements := make([]place, 0, list.n), make([]*T, 0, list.n)
	for x := range list.all() {
		p := placeOf(key(x))
		p.index = int32(len(places))
		places, elements = append(places, p), append(elements, x)
	}
	places = sortPlaces(places)
	sorted := make([]T, len(places))
	for i, p := range places {
		sorted[i] = *elements[p.index]
	}
	return sorted
}

// Realized returns the year's gains less allowed losses of the taxable accounts, short-term and long-term.
func (b *Book) Realized(year int) (short, long decimal.Decimal, err error) {
	var c calc
	from, to := DateOf(year, 1, 1), DateOf(year, 12, 31)
	for s := range b.Sales() {
		if !s.Taxable || s.Date < from || s.Date > to {
			continue
		}
		gain := c.add(s.Gain, s.Disallowed)
		if s.LongTerm {
			long = c.add(long, gain)
		} else {
			short = c.add(short, gain)
		}
	}
	return short, long, c.err
}
