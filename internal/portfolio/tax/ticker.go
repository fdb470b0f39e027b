package tax

import "github.com/govalues/decimal"

// ticker is what matters of one: with which others it is matched, and how.
type ticker struct {
	name       string
	underlying int32 // the ticker an option is for; of a stock, itself
	group      int32
	local      int32 // number within its group
	option     bool
	call       bool
	facts      facts
}

// optionParts reads an OCC symbol, with or without spaces: AAPL240119C00150000. Not ok if it is none.
func optionParts(s string) (underlying string, call, ok bool) {
	const tail = len("240119C00150000")
	if len(s) <= tail {
		return "", false, false
	}
	root, rest := s[:len(s)-tail], s[len(s)-tail:]
	for i := range len(rest) {
		if i != 6 && (rest[i] < '0' || rest[i] > '9') {
			return "", false, false
		}
	}
	if rest[6] != 'C' && rest[6] != 'P' {
		return "", false, false
	}
	for len(root) > 0 && root[len(root)-1] == ' ' {
		root = root[:len(root)-1]
	}
	return root, rest[6] == 'C', root != ""
}

// contractSize is how many shares an option contract is for. Contracts adjusted for corporate actions may differ; their
// symbols do not say so.
const contractSize = 100

// replaces reports whether buying b can take a loss on a, two tickers of one group, and how many shares of a each unit
// of b counts for.
func replaces(a, b *ticker) (perUnit int64, ok bool) {
	switch {
	case a == b:
		return 1, true
	case a.option:
		return 0, false
	case b.option:
		return contractSize, b.call
	}
	return 1, true
}

// toUnits converts shares sold to units of the replacement. splits is how many shares of the purchase's day one of the
// sale's day became.
func (c *calc) toUnits(shares decimal.Decimal, perUnit int64, splits decimal.Decimal) decimal.Decimal {
	if !splits.IsOne() {
		shares = c.mul(shares, splits)
	}
	if perUnit != 1 {
		return c.quo(shares, c.keep(decimal.New(perUnit, 0)))
	}
	return shares
}

// toShares is the way back.
func (c *calc) toShares(units decimal.Decimal, perUnit int64, splits decimal.Decimal) decimal.Decimal {
	if perUnit != 1 {
		units = c.mul(units, c.keep(decimal.New(perUnit, 0)))
	}
	if splits.IsOne() {
		return units
	}
	return c.quo(units, splits).Round(places)
}
