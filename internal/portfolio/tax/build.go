package tax

import (
	"cmp"
	"slices"

	"github.com/govalues/decimal"
)

// Build applies the rows up to and including asOf. Rows may be in any order; see the package
// comment for those of one day. The error is a [*FaultsError].
func Build(rules Rules, txs []Transaction, asOf Date) (*Book, error) {
	p, err := prepare(rules, txs, asOf)
	if err != nil {
		return nil, err
	}
	b := &Book{AsOf: asOf, Held: make(map[Position]decimal.Decimal), accounts: p.accountByID,
		Sales: make([]Sale, 0, 2*countSells(txs)), restricted: make(map[market]Date)}
	var holdings []*holding
	for _, g := range p.groups {
		f := newFold(b)
		if err := f.run(g.rows); err != nil {
			return nil, err
		}
		g.rows = nil
		b.steps += f.steps
		for _, h := range f.holdings {
			if len(h.openLots()) > 0 {
				holdings = append(holdings, h)
			}
			if !h.net.IsZero() {
				b.Held[Position{h.account.ID, h.ticker.name}] = h.net.Trim(0)
			}
		}
	}
	slices.SortFunc(holdings, func(x, y *holding) int {
		return cmp.Or(cmp.Compare(x.account.index, y.account.index),
			cmp.Compare(x.ticker.name, y.ticker.name))
	})
	var open []*part
	for _, h := range holdings {
		open = append(open, h.openParts()...)
	}
	b.Lots = make([]Lot, len(open))
	for i, p := range open {
		b.Lots[i] = p.export()
	}
	slices.SortFunc(b.WashSales, func(x, y WashSale) int { // a row has at most one
		return cmp.Or(cmp.Compare(x.SaleDate, y.SaleDate), cmp.Compare(x.row, y.row))
	})
	for _, gaps := range [][]Gap{b.Incomplete, b.OrderUnknown} {
		slices.SortStableFunc(gaps, func(x, y Gap) int {
			return cmp.Or(cmp.Compare(x.Date, y.Date), cmp.Compare(x.Row, y.Row))
		})
	}
	return b, nil
}

func countSells(txs []Transaction) int {
	n := 0
	for i := range txs {
		if txs[i].Action == Sell {
			n++
		}
	}
	return n
}

// export returns a part as a lot of the book.
func (p *part) export() Lot {
	h := p.lot.holding
	l := Lot{Account: h.account.ID, Ticker: h.ticker.name, LotDate: p.lot.date,
		HoldingStart: p.holdStart, LotID: p.lot.name().String(),
		Quantity: p.quantity.Trim(0), Basis: p.basis.Trim(0), BasisAdjustment: p.adjustment.Trim(0),
		AlwaysLong: p.alwaysLong,
		Taxable:    h.account.taxable(), row: p.lot.row, order: p.lot.order, ticker: h.ticker,
		free: p.lot.purchase != nil && !p.used}
	l.LossBasis, l.LossHoldingStart = l.Basis, l.HoldingStart
	if p.lot.dual {
		l.LossBasis, l.LossHoldingStart = p.lossBasis.Trim(0), p.lot.date+1
	}
	return l
}

// Net is gains less losses that are not disallowed.
type Net struct{ Short, Long decimal.Decimal }

// Realized returns the net of the sales up to a day, by year, in the taxable ones of some accounts.
// Contracts under section 1256 are left out: 60 percent of each gain is long-term, and open ones
// count at the end of a year.
func (b *Book) Realized(until Date, accounts map[string]bool) (map[int]Net, error) {
	var c calc
	years := make(map[int]Net)
	for i := range b.Sales {
		s := &b.Sales[i]
		if !s.Taxable || s.Date > until || !accounts[s.Account] || s.Section1256 {
			continue
		}
		n, gain := years[s.Date.Year()], c.add(s.Gain, s.Disallowed)
		if s.LongTerm {
			n.Long = c.add(n.Long, gain)
		} else {
			n.Short = c.add(n.Short, gain)
		}
		years[s.Date.Year()] = n
	}
	return years, c.err
}

// Carryover returns the losses, as positive amounts, that a year carries over from the years before
// it (section 1212(b), as in the Capital Loss Carryover Worksheet of Schedule D). Each year deducts
// at most the limit from other income, which is taken to be large enough.
func Carryover(years map[int]Net, year int, limit decimal.Decimal) (Net, error) {
	var c calc
	var carried Net
	first := year
	for y := range years {
		first = min(first, y)
	}
	for y := first; y < year; y++ {
		short, long := c.sub(years[y].Short, carried.Short), c.sub(years[y].Long, carried.Long)
		carried = Net{}
		net := c.add(short, long)
		if !net.IsNeg() {
			continue
		}
		deducted := limit.Min(net.Neg())
		positive := func(d decimal.Decimal) decimal.Decimal { return d.Max(decimal.Zero) }
		carried.Short = positive(c.sub(short.Neg(), c.add(deducted, positive(long))))
		carried.Long = positive(c.sub(long.Neg(),
			c.add(positive(short), positive(c.sub(deducted, positive(short.Neg()))))))
	}
	carried.Short, carried.Long = carried.Short.Trim(0), carried.Long.Trim(0)
	return carried, c.err
}
