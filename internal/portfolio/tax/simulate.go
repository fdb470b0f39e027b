package tax

import (
	"fmt"
	"slices"

	"github.com/govalues/decimal"
)

// PlannedSale is a sale that was not made yet.
type PlannedSale struct {
	Account  string
	Ticker   string
	Quantity decimal.Decimal
	Price    decimal.Decimal // per share or option contract
	LotID    string          // the lot to sell; empty means by Method
	Method   Method          // empty means that of the account
}

// Simulation is what planned sales would do.
type Simulation struct {
	// Book is the book after the sales.
	Book *Book
	// Sales and WashSales are those of the planned sales.
	Sales     []Sale
	WashSales []WashSale
	// CleanFrom is the first day on which the same sales would not be wash sales, if nothing more
	// is bought. It is the day of the book if they are not.
	CleanFrom Date
	// Missing is planned shares that the book has no lot for.
	Missing []Gap
	// BuyAgain is until when the tickers of the sales must not be bought, because of these sales
	// and of earlier ones.
	BuyAgain []Restriction
}

// Simulate builds the book with planned sales at the end of its day. As in [Harvest], the sales that
// were made on that day come before them: their losses are matched first. The error is a
// [*FaultsError].
func Simulate(rules Rules, txs []Transaction, asOf Date,
	planned []PlannedSale) (*Simulation, error) {
	all := slices.Clip(txs)
	for _, p := range planned {
		if p.Method != "" && !slices.Contains([]Method{FIFO, LIFO, HIFO, MinTax, Specific},
			p.Method) {
			return nil, fmt.Errorf("lot method %q is not known", p.Method)
		}
		all = append(all, Transaction{Date: asOf, Action: Sell, Account: p.Account,
			Ticker: p.Ticker, Quantity: p.Quantity, Price: p.Price, LotID: p.LotID,
			planned: true, method: p.Method})
	}
	b, err := Build(rules, all, asOf)
	if err != nil {
		return nil, err
	}
	isPlanned := func(row int) bool { return row >= len(txs) }
	s := &Simulation{Book: b, CleanFrom: max(asOf, b.cleanFrom)}
	sold := make(map[string]bool)
	for _, p := range planned {
		sold[p.Ticker] = true
	}
	for i := range b.Sales {
		if isPlanned(b.Sales[i].Row) {
			s.Sales = append(s.Sales, b.Sales[i])
		}
	}
	for i := range b.WashSales {
		if isPlanned(b.WashSales[i].row) {
			s.WashSales = append(s.WashSales, b.WashSales[i])
		}
	}
	for _, g := range b.Incomplete {
		if isPlanned(g.Row) {
			s.Missing = append(s.Missing, g)
		}
	}
	for _, r := range restrictions(b.restricted) {
		if slices.ContainsFunc(r.Tickers, func(ticker string) bool { return sold[ticker] }) {
			s.BuyAgain = append(s.BuyAgain, r)
		}
	}
	return s, nil
}

// useMethod makes a holding choose lots by another method from now on.
func (f *fold) useMethod(h *holding, method Method) {
	if method == "" || method == h.account.Method {
		return
	}
	changed := *h.account
	changed.Method = method
	h.account = &changed
	if method == LIFO {
		h.newest.items = slices.Clone(h.openLots())
		slices.Reverse(h.newest.items) // a sorted slice is a valid heap
	}
	f.rankAgain(h)
}

// findClean finds the day from which planned losses are not wash sales: 31 days after the last
// purchase that could replace them. It is called before these losses are matched.
func (f *fold) findClean(l *dayLoss) {
	t := l.lot.holding.ticker
	purchases := f.replaceShares
	if t.option {
		purchases = f.replaceOption[t]
	}
	if purchases == nil {
		return
	}
	for e := purchases.Back(); e != nil; e = e.Prev() {
		p := e.Value.(*purchase)
		if p.Date < f.today-WashDays {
			return
		}
		if !p.bought || p == l.lot.purchase {
			continue
		}
		if _, replaces := f.replaces(t, p); replaces {
			f.book.cleanFrom = max(f.book.cleanFrom, p.Date+WashDays+1)
			return
		}
	}
}
