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
	b := &Book{AsOf: asOf, Held: make(map[Position]decimal.Decimal), accounts: p.accountByID, restricted: make(map[market]Date)}
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
	for _, h := range holdings {
		for _, p := range h.openParts() {
			b.Lots = append(b.Lots, p.export())
		}
	}
	slices.SortStableFunc(b.WashSales, func(x, y WashSale) int {
		return cmp.Or(cmp.Compare(x.SaleDate, y.SaleDate), cmp.Compare(x.row, y.row))
	})
	slices.SortStableFunc(b.Incomplete, func(x, y Gap) int {
		return cmp.Or(cmp.Compare(x.Date, y.Date), cmp.Compare(x.Row, y.Row))
	})
	return b, nil
}

// export returns a part as a lot of the book.
func (p *part) export() Lot {
	h := p.lot.holding
	l := Lot{Account: h.account.ID, Ticker: h.ticker.name, LotDate: p.lot.date,
		HoldingStart: p.holdStart, LotID: p.lot.name().String(),
		Quantity: p.quantity.Trim(0), Basis: p.basis.Trim(0), BasisAdjustment: p.adjustment.Trim(0),
		AlwaysLong: p.alwaysLong,
		Taxable:    h.account.taxable(), row: p.lot.row, ticker: h.ticker,
		free: p.lot.purchase != nil && !p.used}
	l.LossBasis, l.LossHoldingStart = l.Basis, l.HoldingStart
	if p.lot.dual {
		l.LossBasis, l.LossHoldingStart = p.lossBasis.Trim(0), p.lot.date+1
	}
	return l
}

// Realized returns the gains of a year in the taxable ones of some accounts, less losses that are
// not disallowed.
func (b *Book) Realized(year int, accounts map[string]bool) (short, long decimal.Decimal, err error) {
	var c calc
	for i := range b.Sales {
		s := &b.Sales[i]
		if !s.Taxable || s.Date.Year() != year || !accounts[s.Account] {
			continue
		}
		into := &short
		if s.LongTerm {
			into = &long
		}
		*into = c.add(*into, c.add(s.Gain, s.Disallowed))
	}
	return short, long, c.err
}
