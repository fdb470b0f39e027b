package tax

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"testing"

	"github.com/govalues/decimal"
)

// traffic is n rows of an active household over ten years: buys, sells, reinvested dividends, now and then a split or
// transfer, in falling and rising markets, on the given number of tickers.
func traffic(n, tickers int, method Method) (Rules, []Transaction, map[string]decimal.Decimal) {
	rng := rand.New(rand.NewPCG(1, 2))
	rules := Rules{Accounts: []Account{{ID: "brk", Method: method}, {ID: "two", Method: method}, {ID: "ira", Kind: IRA}, {ID: "her", Owner: Spouse}}}
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
		*t = Transaction{Date: start + Date(i*3650/n), Account: rules.Accounts[rng.IntN(4)].ID, Action: Buy, Ticker: names[rng.IntN(tickers)],
			Quantity: decimal.MustNew(int64(1+rng.IntN(100_000)), 3), Price: decimal.MustNew(int64(5000+rng.IntN(10000)), 2),
			Fees: decimal.MustNew(int64(rng.IntN(500)), 2), Source: Source{File: "transactions/all.csv", Line: i}}
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

func BenchmarkLots(b *testing.B) {
	for _, n := range []int{10_000, 100_000, 1_000_000} {
		for _, c := range []struct {
			name    string
			tickers int
			method  Method
		}{{"fifo", 500, FIFO}, {"hifo", 500, HIFO}, {"mintax", 500, MinTax}, {"lifo", 500, LIFO}, {"oneticker", 1, FIFO}, {"onetickermintax", 1, MinTax}, {"manytickers", 20_000, FIFO}} {
			b.Run(fmt.Sprintf("%d/%s", n, c.name), func(b *testing.B) {
				rules, txs, prices := traffic(n, c.tickers, c.method)
				b.ReportAllocs()
				var peak uint64
				for b.Loop() {
					book, err := Build(rules, txs, DateOf(2024, 1, 1))
					if err != nil {
						b.Fatal(err)
					}
					result, err := Harvest(book, prices, HarvestOptions{})
					if err != nil {
						b.Fatal(err)
					}
					var m runtime.MemStats
					runtime.ReadMemStats(&m)
					peak = max(peak, m.HeapSys)
					if len(result.Candidates) == 0 || len(book.Sales) == 0 {
						b.Fatal("nothing was found")
					}
				}
				b.ReportMetric(float64(peak)/1e6, "MB-heap")
			})
		}
	}
}
