package tax

import (
	"slices"

	"github.com/govalues/decimal"
)

// Coverage is how much of the taxable positions the book has lots for. A position is a ticker in an account with lots,
// or with shares whose purchase is missing.
type Coverage struct {
	Positions int
	WithLots  int
	// CountPct is WithLots in percent of Positions. ValuePct is the value of the lots in percent of the value of all
	// these shares. Both are zero without positions.
	CountPct float64
	ValuePct float64
}

// Cover computes the coverage of accounts. Empty means all taxable accounts; others are ignored. Tickers without a price
// do not count in the value.
func Cover(b *Book, prices map[string]decimal.Decimal, accounts []string) (Coverage, error) {
	var c calc
	type position struct{ account, ticker string }
	withLots := make(map[position]bool)
	known, unknown := decimal.Zero, decimal.Zero
	wanted := func(id string) bool {
		return b.accounts[id].taxable() && (len(accounts) == 0 || slices.Contains(accounts, id))
	}
	for _, gap := range b.Incomplete {
		if wanted(gap.Account) {
			withLots[position{gap.Account, gap.Ticker}] = false
			unknown = c.add(unknown, c.mul(gap.Quantity, prices[gap.Ticker]))
		}
	}
	for i := range b.Lots {
		if l := &b.Lots[i]; wanted(l.Account) {
			withLots[position{l.Account, l.Ticker}] = true
			known = c.add(known, c.mul(l.Quantity, prices[l.Ticker]))
		}
	}
	cover := Coverage{Positions: len(withLots)}
	for _, lots := range withLots {
		if lots {
			cover.WithLots++
		}
	}
	if cover.Positions > 0 {
		cover.CountPct = 100 * float64(cover.WithLots) / float64(cover.Positions)
	}
	if all := c.add(known, unknown); all.IsPos() {
		pct, _ := c.quo(known, all).Float64()
		cover.ValuePct = 100 * pct
	}
	return cover, c.err
}
