package tax

import (
	"slices"

	"github.com/govalues/decimal"
)

// Coverage is how much of what the taxable accounts hold the book has lots for. A position is a
// ticker whose shares an account holds. What was sold does not count, whether its purchase is
// known or not.
type Coverage struct {
	Positions int
	// WithLots is the number of positions whose shares all have a lot.
	WithLots int
	// ValuePct is the value of the shares with lots in percent of the value of all shares held. If
	// lots have more shares than are held, the records do not show which were sold, and none of the
	// shares has a lot. CountPct is WithLots in percent of Positions. Both are zero without
	// positions.
	ValuePct float64
	CountPct float64
	// NoPrice is the tickers without a price, sorted. They do not count in ValuePct.
	NoPrice []string
	// Missing is the positions with shares that have no lot.
	Missing []Discrepancy
}

// Cover computes the coverage of the accounts, shares and unknown lots in opts.
func Cover(b *Book, prices map[string]decimal.Decimal, opts HarvestOptions) (Coverage, error) {
	held, accounts := opts.Held, opts.Accounts
	missing, surplus, err := Reconcile(b, held, accounts)
	if err != nil {
		return Coverage{}, err
	}
	if held == nil {
		held = b.Held
	}
	var c calc
	// shares with a lot, where they are not all shares
	withLots := make(map[Position]decimal.Decimal)
	for _, d := range missing {
		withLots[d.Position] = d.Lots
	}
	for _, d := range surplus {
		withLots[d.Position] = decimal.Zero
	}
	cover := Coverage{Missing: missing}
	known, all := decimal.Zero, decimal.Zero
	for p, shares := range held {
		if !shares.IsPos() || !b.accounts[p.Account].taxable() || len(accounts) > 0 &&
			!slices.Contains(accounts, p.Account) {
			continue
		}
		cover.Positions++
		lots, incomplete := withLots[p]
		switch {
		case opts.Unknown[p.Ticker]:
			lots = decimal.Zero
		case !incomplete:
			cover.WithLots++
			lots = shares
		}
		price, ok := prices[p.Ticker]
		if !ok {
			cover.NoPrice = append(cover.NoPrice, p.Ticker)
			continue
		}
		known, all = c.add(known, c.mul(lots, price)), c.add(all, c.mul(shares, price))
	}
	slices.Sort(cover.NoPrice)
	cover.NoPrice = slices.Compact(cover.NoPrice)
	if cover.Positions > 0 {
		cover.CountPct = 100 * float64(cover.WithLots) / float64(cover.Positions)
	}
	if all.IsPos() {
		part, _ := c.quo(known, all).Float64()
		cover.ValuePct = 100 * part
	}
	return cover, c.err
}
