package tax

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"testing"

	"github.com/govalues/decimal"

	"signalbox/internal/testkit/must"
)

// randomRows returns n rows of an active household over ten years: buys, sells, reinvested
// dividends and a few transfers.
func randomRows(n, tickers int, method Method) (Rules, []Transaction, map[string]decimal.Decimal) {
	rng := rand.New(rand.NewPCG(1, 2))
	rules := Rules{Accounts: []Account{{ID: "brk", Method: method}, {ID: "two", Method: method},
		{ID: "ira", Kind: IRA}, {ID: "her", Owner: Spouse}}}
	names := make([]string, tickers)
	prices := make(map[string]decimal.Decimal)
	for i := range names {
		names[i] = fmt.Sprintf("T%d", i)
		prices[names[i]] = decimal.MustNew(int64(5000+rng.IntN(10000)), 2)
	}
	start := DateOf(2014, 1, 1)
	txs := make([]Transaction, n)
	for i := range txs {
		t := &txs[i]
		*t = Transaction{Date: start + Date(i*3650/n), Account: rules.Accounts[rng.IntN(4)].ID,
			Action: Buy, Ticker: names[rng.IntN(tickers)],
			Quantity: decimal.MustNew(int64(1+rng.IntN(100_000)), 3),
			Price:    decimal.MustNew(int64(5000+rng.IntN(10000)), 2),
			Fees:     decimal.MustNew(int64(rng.IntN(500)), 2),
			Source:   Source{File: "transactions/all.csv", Line: i}}
		switch k := rng.IntN(1000); {
		case k < 400:
			t.Action = Sell
		case k < 480:
			t.Action = Reinvest
		case k < 490:
			t.Action, t.ToAccount = Transfer, "two"
			t.Account = "brk"
		}
	}
	return rules, txs, prices
}

func BenchmarkLots100k(b *testing.B) { benchmarkLots(b, 100_000) }

func BenchmarkLots1M(b *testing.B) { benchmarkLots(b, 1_000_000) }

// benchmarkLots builds a book of n rows and harvests it.
func benchmarkLots(b *testing.B, n int) {
	for _, method := range []Method{FIFO, LIFO, HIFO, MinTax} {
		for _, tickers := range []int{1, 500} {
			b.Run(fmt.Sprintf("%s/%d", method, tickers), func(b *testing.B) {
				rules, txs, prices := randomRows(n, tickers, method)
				b.ReportAllocs()
				for b.Loop() {
					book, err := Build(rules, txs, DateOf(2024, 1, 1))
					must.Succeed(b, err)
					if _, err := Harvest(book, prices, HarvestOptions{}); err != nil {
						b.Fatal(err)
					}
				}
				var m runtime.MemStats
				runtime.ReadMemStats(&m)
				b.ReportMetric(float64(m.HeapSys)/1e6, "MB-heap") // of all benchmarks so far
			})
		}
	}
}
