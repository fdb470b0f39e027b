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
	lots   slab[Lot]
	runs   []run
	sales  slab[Sale]
	washes slab[WashSale]
	gaps   slab[Gap]
}

// run is lots of one account and ticker, which are places in the list of lots.
type run struct {
	lots            *slab[Lot]
	account, ticker int32
	start, end      int
}

// take adds the open lots of a folded group.
func (o *output) take(g *group) {
	for i := range g.queues {
		q := &g.queues[i]
		if len(q.lots) == 0 {
			continue
		}
		r := run{lots: &o.lots, account: q.account, ticker: q.ticker, start: o.lots.n}
		g.each(q, func(n int32) { o.lots.add(o.lot(q, &g.chunks[n])) })
		if r.end = o.lots.n; r.end > r.start {
			o.runs = append(o.runs, r)
		}
	}
}

func (o *output) lot(q *queue, c *chunk) Lot {
	l := Lot{Account: o.in.accounts[q.account].ID, Ticker: o.in.tickers[q.ticker].name, LotDate: c.date, HoldingStart: c.hold,
		Quantity: c.qty.Trim(0), Basis: c.basis.Trim(0), BasisAdjustment: c.adjustment.Trim(0), AlwaysLong: c.always,
		Taxable: o.in.taxable[q.account], row: c.row, ticker: q.ticker, free: c.acq >= 0 && !c.used}
	l.LossBasis, l.LossHoldingStart = l.Basis, l.HoldingStart
	if c.dual {
		l.LossBasis, l.LossHoldingStart = c.lossBasis.Trim(0), c.date+1
	}
	if c.lot >= 0 {
		l.LotID = o.in.lots[c.lot]
	} else {
		l.LotID = lotName(c.date, c.nth)
	}
	return l
}

// finish fills a book with what the parts made, in the order that the book promises.
func (b *Book) finish(parts []*part) {
	var runs []run
	var washes slab[WashSale]
	var gaps slab[Gap]
	lots := 0
	for _, p := range parts {
		runs = append(runs, p.runs...)
		lots += p.lots.n
		washes.join(&p.washes)
		gaps.join(&p.gaps)
		b.sales.join(&p.sales)
	}
	slices.SortStableFunc(runs, func(x, y run) int {
		return cmp.Or(cmp.Compare(x.account, y.account), cmp.Compare(b.tickers[x.ticker].name, b.tickers[y.ticker].name))
	})
	b.Lots = make([]Lot, 0, lots)
	for _, r := range runs {
		for i := r.start; i < r.end; i++ {
			b.Lots = append(b.Lots, *r.lots.at(i))
		}
	}
	for w := range washes.all() {
		for _, d := range []*decimal.Decimal{&w.Shares, &w.Loss, &w.DisallowedShares, &w.DisallowedLoss, &w.PermanentLoss} {
			*d = d.Trim(0)
		}
		for j := range w.Replacements {
			w.Replacements[j].Shares = w.Replacements[j].Shares.Trim(0)
		}
	}
	b.WashSales = ordered(&washes, func(w *WashSale) (Date, int32) { return w.SaleDate, w.row })
	b.Incomplete = ordered(&gaps, func(g *Gap) (Date, int32) { return g.Date, g.Row })
}

// ordered sorts by date, then row; equal ones stay as they are. It sorts small keys, not the large elements.
func ordered[T any](list *slab[T], key func(*T) (Date, int32)) []T {
	places, elements := make([]place, 0, list.n), make([]*T, 0, list.n)
	for x := range list.all() {
		p := placeOf(key(x))
		p.index = int32(len(places))
		places, elements = append(places, p), append(elements, x)
	}
	slices.SortFunc(places, place.compare)
	sorted := make([]T, len(places))
	for i, p := range places {
		sorted[i] = *elements[p.index]
	}
	return sorted
}

// place is where an element belongs, and where it is.
type place struct {
	key   uint64
	index int32
}

func placeOf(d Date, row int32) place { return place{key: uint64(d)<<32 | uint64(row)} }

func (a place) compare(b place) int {
	return cmp.Or(cmp.Compare(a.key, b.key), cmp.Compare(a.index, b.index))
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
