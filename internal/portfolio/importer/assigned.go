package importer

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/govalues/decimal"

	"signalbox/internal/portfolio/tax"
)

// The premium of a written put that was assigned lowers the basis of the shares that it delivered
// (Publication 550, puts and calls). It is the only thing about written options that is imported.

// writtenOption is a record of a written option, and where it was skipped.
type writtenOption struct {
	event
	skipped int // in the import
}

// premium is what an assigned put lowers the basis of a row by, per share.
type premium struct {
	row  int
	each decimal.Decimal
}

// written is open contracts of one sale, and the premium that is left for them.
type written struct {
	contracts, premium decimal.Decimal
	option             *writtenOption
}

// findPremiums finds the shares that assigned puts delivered: those bought on that day at the strike
// price. If the file does not have the opening sale or exactly these shares, the record stays what it
// is, a record that moved shares.
func (in *input) findPremiums() []premium {
	slices.SortStableFunc(in.written, func(a, b writtenOption) int {
		return cmp.Or(cmp.Compare(a.date, b.date), cmp.Compare(a.kind, b.kind))
	})
	open := make(map[tax.Position][]written)
	delivered := make(map[int]bool) // rows that have their premium
	var found []premium
	for i := range in.written {
		o := &in.written[i]
		key := tax.Position{Account: o.account, Ticker: o.ticker}
		c := &calc{}
		contracts := o.quantity.Abs()
		if o.kind == write {
			total := o.amount.Decimal
			if !o.amount.present {
				total = c.sub(c.mul(contracts, c.mul(o.price.Abs(), o.multiplier)), o.fees)
			}
			if c.err == nil && contracts.IsPos() && !total.IsNeg() {
				open[key] = append(open[key], written{contracts, total, o})
			}
			continue
		}
		rows := in.deliveredBy(o, delivered)
		have := decimal.Zero
		for _, w := range open[key] {
			have = c.add(have, w.contracts)
		}
		sum, sales := c.close(open, key, contracts)
		if len(rows) == 0 || have.Cmp(contracts) < 0 || c.err != nil {
			continue
		}
		each := c.quo(sum, c.mul(contracts, decimal.Hundred))
		if c.err != nil || each.Cmp(in.imp.Rows[rows[0]].Price) > 0 {
			continue
		}
		for _, row := range rows {
			delivered[row] = true
			found = append(found, premium{row, each})
		}
		why := fmt.Sprintf("a written put that was assigned: its premium of %s lowers the basis of the shares of line %d",
			sum.Trim(0), in.imp.Rows[rows[0]].Source.Line)
		for _, done := range append(sales, o) {
			s := &in.imp.Skipped[done.skipped]
			if s.Shares {
				s.Why, s.Shares = why, false
				in.shorts--
			}
		}
	}
	return found
}

// close removes contracts from the oldest open sales. It returns their premium, and the sales that
// have no contracts left.
func (c *calc) close(open map[tax.Position][]written, key tax.Position,
	contracts decimal.Decimal) (sum decimal.Decimal, sales []*writtenOption) {
	for contracts.IsPos() && len(open[key]) > 0 && c.err == nil {
		w := &open[key][0]
		taken := contracts.Min(w.contracts)
		part := c.quo(c.mul(w.premium, taken), w.contracts)
		sum, contracts = c.add(sum, part), c.sub(contracts, taken)
		w.contracts, w.premium = c.sub(w.contracts, taken), c.sub(w.premium, part)
		if w.contracts.IsZero() {
			sales, open[key] = append(sales, w.option), open[key][1:]
		}
	}
	return sum, sales
}

// deliveredBy returns the rows with the shares that an assigned put delivered, or none.
func (in *input) deliveredBy(o *writtenOption, taken map[int]bool) (rows []int) {
	root, strike, put := putOf(o.ticker)
	if o.kind != assigned || !put || !o.multiplier.Equal(decimal.Hundred) {
		return nil
	}
	c := &calc{}
	left := c.mul(o.quantity.Abs(), decimal.Hundred)
	for i := range in.imp.Rows {
		r := &in.imp.Rows[i]
		if !left.IsPos() || r.Action != Buy || r.Account != o.account || r.Date != o.date ||
			r.Ticker != root || !r.Price.Equal(strike) || taken[i] {
			continue
		}
		rows, left = append(rows, i), c.sub(left, r.Quantity)
	}
	if !left.IsZero() || c.err != nil {
		return nil
	}
	return rows
}

// putOf returns the underlying and the strike price of a put.
func putOf(symbol string) (root string, strike decimal.Decimal, put bool) {
	m := occForm().FindStringSubmatch(symbol)
	if m == nil || m[3] != "P" {
		return "", strike, false
	}
	mills, err := decimal.Parse(m[4])
	if err != nil {
		return "", strike, false
	}
	strike, err = mills.Quo(decimal.Thousand)
	return m[1], strike, err == nil
}

// applyPremiums lowers the prices of rows. Their IDs are set by then, so that the same purchase has
// the same ID in a file without the option.
func (in *input) applyPremiums(list []premium) {
	for _, p := range list {
		r, c := &in.imp.Rows[p.row], &calc{}
		if price := c.sub(r.Price, p.each).Round(10).Trim(0); c.err == nil {
			r.Price = price
		}
	}
}
