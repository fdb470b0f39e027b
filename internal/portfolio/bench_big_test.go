package portfolio

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"signalbox/internal/portfolio/tax"
)

// BenchmarkHarvest100k reads 100,000 rows of ten years, 500 tickers and four accounts, and harvests:
// all that a command does. It should stay below a second on an idle machine.
func BenchmarkHarvest100k(b *testing.B) {
	const n, tickers = 100_000, 500
	rng := rand.New(rand.NewPCG(1, 2))
	var trades, prices strings.Builder
	trades.WriteString(header)
	prices.WriteString("date,ticker,close\n")
	accounts, held := []string{"brk", "two", "ira", "her"}, make(map[string]int)
	for i := range n {
		account, ticker := accounts[rng.IntN(4)], fmt.Sprintf("T%d", rng.IntN(tickers))
		action, shares := "buy", 1+rng.IntN(100_000)
		if have := held[account+ticker]; have > 0 && rng.IntN(5) < 2 {
			action, shares = "sell", min(shares, have)
			held[account+ticker] -= shares
		} else {
			held[account+ticker] += shares
		}
		fmt.Fprintf(&trades, "%s,%s,%s,%s,%d.%03d,%d.%02d,0.%02d,,\n",
			tax.DateOf(2014, 1, 1)+tax.Date(i*3650/n), account, action, ticker, shares/1000,
			shares%1000, 50+rng.IntN(100), rng.IntN(100), rng.IntN(100))
	}
	for i := range tickers {
		fmt.Fprintf(&prices, "2023-12-29,T%d,%d\n", i, 50+rng.IntN(100))
	}
	d := desk(b, folder(b, "-- portfolio.yaml --\nas_of: 2023-12-30\naccounts: [{id: brk},{id: two},{id: ira, kind: ira},{id: her, owner: spouse}]\n"+
		"-- transactions/a.csv --\n"+trades.String()+"-- prices/a.csv --\n"+prices.String()))
	for b.Loop() {
		if a := d.SuggestTaxLossHarvest(b.Context(), HarvestQuery{Format: "agent"}); a.Problem != nil {
			b.Fatal(a.Problem)
		}
	}
}
