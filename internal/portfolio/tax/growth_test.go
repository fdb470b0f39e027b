package tax

import (
	"fmt"
	"math/big"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/govalues/decimal"
	"pgregory.net/rapid"

	"signalbox/internal/testkit/must"
	"signalbox/internal/testkit/property"
)

// hardHistory is n rows that take quadratic time if some loop visits all lots, purchases or sales
// for each row.
type hardHistory struct {
	name   string
	method Method
	days   int
	price  int64 // at the end, in cents
	row    func(rng *rand.Rand, t *Transaction, i, n int)
}

func wholeNumber(n int) decimal.Decimal { return decimal.MustNew(int64(n), 0) }

func sellAt(t *Transaction, qty int, cents int64) {
	t.Action, t.Quantity, t.Price = Sell, wholeNumber(qty), decimal.MustNew(cents, 2)
}

func hardHistories() []hardHistory {
	// A split visits all lots, so the number of splits does not depend on n.
	splits := func(_ *rand.Rand, t *Transaction, i, n int) {
		switch every := n / 20; {
		case i%every == every-1:
			t.Action, t.Account, t.Quantity, t.Ratio = Split, "", decimal.Zero,
				Ratio{decimal.Two, decimal.One}
			if i/every%2 == 1 {
				t.Ratio = Ratio{decimal.One, decimal.Two}
			}
		case i%10 == 4:
			sellAt(t, 3, 9000)
		}
	}
	return []hardHistory{
		{"all lots within one window, each sold at a loss", MinTax, 50, 5000,
			func(_ *rand.Rand, t *Transaction, i, _ int) {
				if i%2 == 1 {
					sellAt(t, 5, 9000)
				}
			}},
		{"sells that take a tenth of all lots", HIFO, 3650, 5000,
			func(_ *rand.Rand, t *Transaction, i, n int) {
				if i%(n/10) == n/10-1 {
					sellAt(t, n, 9000)
				}
			}},
		{"the same loss and rebuy", LIFO, 3650, 5000, func(_ *rand.Rand, t *Transaction, i, _ int) {
			if i%2 == 1 {
				sellAt(t, 10, 9900)
			}
		}},
		{"a split among many lots, fifo", FIFO, 3650, 5000, splits},
		{"a split among many lots, min_tax", MinTax, 3650, 5000, splits},
		{"sells that name lots by date and number", Specific, 3650, 5000,
			func(rng *rand.Rand, t *Transaction, i, n int) {
				if i%2 == 1 {
					sellAt(t, 1, 9000)
					t.LotID = fmt.Sprintf("%s#%d", t.Date-Date(rng.IntN(100)), 1+rng.IntN(n/3650+1))
				}
			}},
		{"alternating named sells and lifo sells", LIFO, 3650, 5000,
			func(_ *rand.Rand, t *Transaction, i, _ int) {
				switch i % 4 {
				case 0:
					t.LotID = fmt.Sprint("lot", i)
				case 2:
					sellAt(t, 12, 9000)
				case 3:
					sellAt(t, 1, 9000)
					t.LotID = fmt.Sprint("lot", i/2/4*4)
				}
			}},
	}
}

// moreHardHistories returns those with transfers, options, many accounts and harvests.
func moreHardHistories() []hardHistory {
	return []hardHistory{
		{"old lots transferred among new ones, and sold", FIFO, 3650, 5000,
			func(rng *rand.Rand, t *Transaction, i, _ int) {
				switch i % 3 {
				case 1:
					t.Action, t.Account, t.ToAccount = Transfer, "", "brk"
					t.DonorDate, t.DonorBasis = t.Date-Date(1+rng.IntN(3000)), decimal.Hundred
				case 2:
					sellAt(t, 4, 9000)
				}
			}},
		{"puts between losses on shares", FIFO, 50, 5000,
			func(_ *rand.Rand, t *Transaction, i, _ int) {
				switch i % 4 {
				case 0, 1:
					t.Ticker = "A300118P00100000"
				case 3:
					sellAt(t, 3, 9000)
				}
			}},
		{"losses with many kinds of replacements", FIFO, 25, 5000,
			func(_ *rand.Rand, t *Transaction, i, n int) {
				t.Account, t.Quantity = fmt.Sprint("acc", i%500), decimal.One
				switch {
				case i == 0:
					t.Account, t.Quantity = "brk", wholeNumber(n)
				case i%(n/4) == n/4-1:
					t.Account = "brk"
					sellAt(t, n/4, 5000)
				}
			}},
		{"a lot in many parts, sold by name", FIFO, 25, 5000,
			func(_ *rand.Rand, t *Transaction, i, n int) {
				t.Quantity = decimal.One
				switch {
				case i == 0:
					t.LotID, t.Quantity = "big", wholeNumber(n)
				case i > n/2:
					sellAt(t, 1, 9000)
					t.LotID = "big"
				case i%2 == 0:
					t.Account = "acc1"
					sellAt(t, 1, 9000)
				default:
					t.Account = "acc1"
				}
			}},
		{"a harvest of large lots against tiny purchases", FIFO, 60, 5000,
			func(_ *rand.Rand, t *Transaction, i, n int) {
				if i > n/2 {
					t.Action, t.Quantity = Reinvest, decimal.MustNew(1, 3)
				} else {
					t.Quantity = wholeNumber(1000)
				}
			}},
		{"a harvest of calls and puts", FIFO, 60, 5000,
			func(_ *rand.Rand, t *Transaction, i, _ int) {
				if i%3 > 0 {
					t.Ticker, t.Quantity = []string{"", "A300118P00100000",
						"A300118C00100000"}[i%3],
						wholeNumber(1)
				}
			}},
	}
}

// exercisesAndGroups returns hard histories with exercised calls and with identical tickers.
func exercisesAndGroups() []hardHistory {
	return []hardHistory{
		{"calls exercised one by one, between losses", FIFO, 50, 5000,
			func(_ *rand.Rand, t *Transaction, i, n int) {
				t.Account, t.Quantity, t.Price = "acc1", decimal.One, decimal.Hundred
				switch {
				case i == 0:
					t.Account, t.Quantity, t.Price = "brk", wholeNumber(100*n), decimal.Thousand
				case i < n/4:
					t.Ticker = "A300118C00100000"
				case i%4 == 1:
					t.Ticker, t.Action = "A300118C00100000", Assign
				case i%4 == 2:
					t.Quantity = decimal.Hundred
				case i%4 == 3:
					t.Account = "brk"
					sellAt(t, 70, 5000)
				}
			}},
		{"one call lot, exercised into one lot of shares", FIFO, 50, 5000,
			func(_ *rand.Rand, t *Transaction, i, n int) {
				const call = "A300118C00100000"
				t.Account, t.Price = "acc1", decimal.Hundred
				switch {
				case i == 0:
					t.Account, t.Quantity = "brk", wholeNumber(100*n)
				case i == 1:
					t.Ticker, t.Quantity = call, wholeNumber(n)
				case i == 2:
					t.Date, t.Quantity = t.Date+40, wholeNumber(100*n)
				case i%2 == 0:
					t.Ticker, t.Action, t.Quantity, t.Date = call, Assign, decimal.One,
						DateOf(2014, 1, 1)+40
				default:
					t.Account = "brk"
					sellAt(t, 70, 5000)
				}
			}},
		{"a group whose members split between losses and purchases", FIFO, 365, 5000,
			func(_ *rand.Rand, t *Transaction, i, n int) {
				t.Ticker = []string{"A", "B", "C"}[i%3]
				switch {
				case i%(n/100) < 3:
					t.Action, t.Account, t.Quantity, t.Ratio = Split, "", decimal.Zero,
						Ratio{decimal.Two, decimal.One}
					if i/(n/100)%2 == 1 {
						t.Ratio = Ratio{decimal.One, decimal.Two}
					}
				case i%7 == 6:
					sellAt(t, 5, 5000)
				}
			}},
	}
}

// steps returns the number of operations for n rows.
func (h hardHistory) steps(t *testing.T, n int) (build, harvest int) {
	t.Helper()
	rules := Rules{Accounts: []Account{{ID: "brk", Method: h.method}},
		Identical: [][]string{{"A", "B", "C"}}}
	for i := range 500 {
		rules.Accounts = append(rules.Accounts, Account{ID: fmt.Sprint("acc", i), Method: h.method})
	}
	rng := rand.New(rand.NewPCG(3, 4))
	start := DateOf(2014, 1, 1)
	txs := make([]Transaction, n)
	for i := range txs {
		txs[i] = Transaction{Date: start + Date(i*h.days/n), Account: "brk", Ticker: "A",
			Action: Buy, Quantity: decimal.Ten,
			Price: decimal.MustNew(int64(10_000+rng.IntN(1000)), 2)}
		h.row(rng, &txs[i], i, n)
	}
	book, err := Build(rules, txs, start+Date(h.days))
	must.Succeed(t, err)
	price := decimal.MustNew(h.price, 2)
	hv, err := newHarvest(book, map[string]decimal.Decimal{"A": price, "A300118P00100000": price,
		"A300118C00100000": price}, HarvestOptions{})
	must.Succeed(t, err)
	return book.steps, hv.steps
}

// TestWorkGrowsWithRows: the number of operations grows like n log n. Four times the rows may take
// 5.5 times the operations; an algorithm that visits all lots for each row would take sixteen
// times.
func TestWorkGrowsWithRows(t *testing.T) {
	const n, most = 2000, 5.5
	for _, h := range slices.Concat(hardHistories(), moreHardHistories(), exercisesAndGroups()) {
		t.Run(h.name, func(t *testing.T) {
			build, harvest := h.steps(t, n)
			build4, harvest4 := h.steps(t, 4*n)
			if build < n/10 {
				t.Fatalf("only %d operations for %d rows: the history does nothing", build, n)
			}
			if ratio := float64(build4) / float64(build); ratio > most {
				t.Errorf("Build: %d operations for %d rows, %d for %d: %.1f times", build, n,
					build4, 4*n, ratio)
			}
			if ratio := float64(harvest4+n) / float64(harvest+n); ratio > most {
				t.Errorf("Harvest: %d operations for %d rows, %d for %d: %.1f times", harvest, n,
					harvest4, 4*n, ratio)
			}
			if each := build4 / (4 * n); each > 400 {
				t.Errorf("Build: %d operations a row", each)
			}
		})
	}
}

// TestMulDiv: the result is the nearest integer, and the even one if two are equally near.
func TestMulDiv(t *testing.T) {
	property.Check(t, func(t *rapid.T) {
		x, y, z := rapid.Uint64().Draw(t, "x"), rapid.Uint64Range(0, 50).Draw(t, "y"),
			rapid.Uint64Range(1, 50).Draw(t, "z")
		if got, ok := mulDiv(x, y, z); ok {
			exact := new(big.Rat).SetFrac(new(big.Int).Mul(new(big.Int).SetUint64(x),
				new(big.Int).SetUint64(y)), new(big.Int).SetUint64(z))
			off := exact.Sub(exact, new(big.Rat).SetInt(new(big.Int).SetUint64(got)))
			if half := off.Abs(off).Cmp(big.NewRat(1, 2)); half > 0 || half == 0 && got%2 == 1 {
				t.Fatalf("%d × %d / %d = %d is not rounded half to even", x, y, z, got)
			}
		}
	})
}
