package main

import (
	"encoding"
	"fmt"
	"math/rand/v2"
	"strconv"

	"signalbox/internal/portfolio/tax"
)

// shape is a kind of history. The first ones are households, the others are made to hurt.
type shape struct {
	name     string
	tickers  int
	accounts int
	method   tax.Method
	days     int
	change   func(w *writer, t *tax.Transaction, i int) // nil: a household's row stays as it is
}

const tenYears = 3650

func shapes() []shape {
	one := func(name string, method tax.Method, days int, change func(*writer, *tax.Transaction, int)) shape {
		return shape{name, 1, 4, method, days, change}
	}
	return []shape{
		{"500 tickers, fifo", 500, 4, tax.FIFO, tenYears, nil},
		{"500 tickers, lifo", 500, 4, tax.LIFO, tenYears, nil},
		{"500 tickers, hifo", 500, 4, tax.HIFO, tenYears, nil},
		{"500 tickers, min_tax", 500, 4, tax.MinTax, tenYears, nil},
		{"500 tickers, specific", 500, 4, tax.Specific, tenYears, named},
		{"20,000 tickers, fifo", 20_000, 4, tax.FIFO, tenYears, nil},
		{"1,000 accounts, 2,000 tickers, fifo", 2000, 1000, tax.FIFO, tenYears, nil},
		one("one ticker, fifo", tax.FIFO, tenYears, nil),
		one("one ticker, lifo", tax.LIFO, tenYears, nil),
		one("one ticker, hifo", tax.HIFO, tenYears, nil),
		one("one ticker, min_tax", tax.MinTax, tenYears, nil),
		one("one ticker, specific", tax.Specific, tenYears, named),
		one("one ticker, all within 60 days", tax.MinTax, 60, nil),
		one("one ticker, a small loss and a rebuy each time", tax.FIFO, tenYears, churn),
		one("one ticker, dividends reinvested", tax.FIFO, tenYears, dividends),
		one("one ticker, a split twice a year, fifo", tax.FIFO, tenYears, splits),
		one("one ticker, a split twice a year, min_tax", tax.MinTax, tenYears, splits),
		one("one ticker, sells that take a tenth of all lots", tax.HIFO, tenYears, sweeps),
		one("one ticker, its calls and puts", tax.FIFO, tenYears, options),
		one("one ticker, old lots moved among new ones", tax.LIFO, tenYears, moves),
	}
}

// writer makes the rows of a shape.
type writer struct {
	*rand.Rand
	shape
	n     int
	rules tax.Rules
	lots  []string // names of lots that were bought
}

// history is what a shape gives: the same for the same n.
type history struct {
	rules tax.Rules
	rows  []tax.Transaction
	// cents are the prices at the end, by ticker.
	cents map[string]int
	asOf  tax.Date
}

// set sets an amount to n / 10^scale.
func set(amount encoding.TextUnmarshaler, n, scale int) {
	text := strconv.Itoa(n)
	for len(text) <= scale {
		text = "0" + text
	}
	point := len(text) - scale
	if err := amount.UnmarshalText([]byte(text[:point] + "." + text[point:] + "0")); err != nil {
		panic(err) // the shapes have small numbers only
	}
}

func (s shape) write(n int) history {
	w := &writer{Rand: rand.New(rand.NewPCG(1, 2)), shape: s, n: n}
	for i := range s.accounts {
		a := tax.Account{ID: fmt.Sprintf("account-%d", i), Method: s.method}
		switch i % 4 {
		case 2:
			a.Kind = tax.IRA
		case 3:
			a.Owner = tax.Spouse
		}
		w.rules.Accounts = append(w.rules.Accounts, a)
	}
	h := history{rows: make([]tax.Transaction, n), cents: make(map[string]int), rules: w.rules}
	names := make([]string, s.tickers)
	for i := range names {
		names[i] = fmt.Sprintf("T%d", i)
		h.cents[names[i]] = w.price()
	}
	start := tax.DateOf(2014, 1, 1)
	h.asOf = start + tax.Date(s.days)
	for i := range h.rows {
		t := &h.rows[i]
		*t = tax.Transaction{Date: start + tax.Date(i*s.days/n), Account: w.account(), Action: tax.Buy, Ticker: names[w.IntN(s.tickers)],
			Source: tax.Source{File: "transactions/all.csv", Line: i + 2}}
		set(&t.Quantity, 1+w.IntN(100_000), 3)
		set(&t.Price, w.price(), 2)
		set(&t.Fees, w.IntN(500), 2)
		w.household(t)
		if s.change != nil {
			s.change(w, t, i)
		}
	}
	return h
}

// price is in cents.
func (w *writer) price() int { return 5000 + w.IntN(10_000) }

func (w *writer) account() string { return w.rules.Accounts[w.IntN(w.accounts)].ID }

// household buys, sells, reinvests dividends, and now and then moves shares.
func (w *writer) household(t *tax.Transaction) {
	switch k := w.IntN(1000); {
	case k < 400:
		t.Action = tax.Sell
	case k < 480:
		t.Action = tax.Reinvest
	case k < 490:
		t.Action, t.Account, t.ToAccount = tax.Transfer, w.rules.Accounts[0].ID, w.rules.Accounts[1].ID
	}
}

// named gives purchases ids, and lets sells name them, or lots by their date and number.
func named(w *writer, t *tax.Transaction, i int) {
	switch t.Action {
	case tax.Buy:
		if w.IntN(2) == 0 {
			t.LotID = fmt.Sprintf("lot-%d", i)
			w.lots = append(w.lots, t.LotID)
		}
	case tax.Sell:
		if w.IntN(2) == 0 && len(w.lots) > 0 {
			t.LotID = w.lots[w.IntN(len(w.lots))]
		} else {
			t.LotID = fmt.Sprintf("%s#%d", t.Date-tax.Date(w.IntN(400)), 1+w.IntN(3))
		}
	}
}

// churn sells at a loss what the row before bought, and buys again. The sizes are round: with odd ones each loss falls
// apart into more pieces than the one before, and every piece is a sale of its own in the book.
func churn(w *writer, t *tax.Transaction, i int) {
	t.Account, t.Action = w.rules.Accounts[i/2%2].ID, tax.Buy
	set(&t.Quantity, 10+10*(i/2%2), 0)
	set(&t.Price, 10_000-i%5, 2)
	if i%2 == 1 {
		t.Action = tax.Sell
		set(&t.Price, 9_900-i%5, 2)
	}
}

// dividends buys tiny lots that a few sells take by the hundred.
func dividends(w *writer, t *tax.Transaction, i int) {
	t.Action, t.ToAccount = tax.Reinvest, ""
	set(&t.Quantity, 1+w.IntN(500), 4)
	set(&t.Fees, 0, 0)
	if i%200 == 199 {
		t.Action = tax.Sell
		set(&t.Quantity, 2+w.IntN(6), 0)
	}
}

// splits doubles the shares and halves them again, twice a year. A split visits all lots.
func splits(w *writer, t *tax.Transaction, i int) {
	every := w.n / 20
	if i%every != every-1 {
		return
	}
	t.Action, t.Account, t.ToAccount = tax.Split, "", ""
	set(&t.Quantity, 0, 0)
	even := i / every % 2
	set(&t.Ratio.New, 2-even, 0)
	set(&t.Ratio.Old, 1+even, 0)
}

// sweeps buys small lots, and sells all of them ten times.
func sweeps(w *writer, t *tax.Transaction, i int) {
	t.Action, t.ToAccount, t.Account = tax.Buy, "", w.rules.Accounts[0].ID
	if every := w.n / 10; i%every == every-1 {
		t.Action = tax.Sell
		set(&t.Quantity, every*45, 0)
	}
}

// options trades options beside the shares. Puts never take a loss on shares, so looking at them is lost time.
func options(w *writer, t *tax.Transaction, i int) {
	if t.Action == tax.Transfer || i%3 == 0 {
		return
	}
	right := "P"
	if w.IntN(4) == 0 {
		right = "C"
	}
	t.Ticker = fmt.Sprintf("%s300118%s%08d", t.Ticker, right, 1000*(100+w.IntN(50)))
	set(&t.Quantity, 1+w.IntN(10), 0)
}

// moves lets shares come from elsewhere, with dates long ago, and leave again.
func moves(w *writer, t *tax.Transaction, i int) {
	switch i % 4 {
	case 1:
		t.Action, t.Account, t.ToAccount = tax.Transfer, "", w.rules.Accounts[0].ID
		t.DonorDate = t.Date - tax.Date(w.IntN(2000))
		set(&t.DonorBasis, w.IntN(1_000_000), 2)
	case 3:
		t.Action, t.Account, t.ToAccount = tax.Transfer, w.rules.Accounts[0].ID, w.rules.Accounts[1].ID
	}
}
