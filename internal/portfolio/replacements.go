package portfolio

import (
	"slices"
	"strings"

	"signalbox/internal/portfolio/answer"
	"signalbox/internal/portfolio/tax"
)

// replacements returns what the user's list offers to buy instead of a ticker that is sold at a
// loss. A ticker that must not be bought itself is not among them.
func (d *Data) replacements(ticker string, avoid map[string]bool) []string {
	var list []string
	for _, group := range d.Config.Replacements {
		if !slices.ContainsFunc(group, func(t string) bool { return tickerOf(t) == ticker }) {
			continue
		}
		for _, other := range group {
			if other = tickerOf(other); other != ticker && !avoid[other] &&
				!slices.Contains(list, other) {
				list = append(list, other)
			}
		}
	}
	return list
}

// tickerOf returns a ticker of portfolio.yaml as it is in transactions: BRK/B is BRK.B.
func tickerOf(ticker string) string {
	return normalTicker(strings.ReplaceAll(ticker, "/", "."))
}

// addReplacements adds to each ticker that could be sold what to buy instead: nothing on which a
// loss was realized or could be realized together with it.
func (d *Data) addReplacements(result *answer.HarvestResult) {
	avoid := make(map[string]bool)
	for _, list := range [][]answer.DoNotBuy{result.DoNotBuyNow, result.DoNotBuyBefore} {
		for _, e := range list {
			avoid[e.Ticker] = true
			for _, identical := range e.Identical {
				avoid[identical] = true
			}
		}
	}
	for i := range result.DoNotBuyBefore {
		e := &result.DoNotBuyBefore[i]
		e.Replacements = d.replacements(e.Ticker, avoid)
	}
}

// replacementsOf returns what to buy instead of what a simulated sale sells.
func (d *Data) replacementsOf(ticker string, restricted []tax.Restriction) []string {
	avoid := make(map[string]bool)
	for _, r := range restricted {
		for _, t := range r.Tickers {
			avoid[t] = true
		}
	}
	return d.replacements(ticker, avoid)
}
