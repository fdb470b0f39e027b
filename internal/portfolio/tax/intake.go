package tax

import (
	"slices"

	"github.com/govalues/decimal"
)

// row is a transaction with numbers in place of its names, so that no string is looked at again.
type row struct {
	account, to int32 // -1: outside, or of a split without account: all
	ticker, lot int32 // lot is -1 without an id
}

// intake is all rows, checked and numbered.
type intake struct {
	txs      []Transaction
	accounts []Account
	taxable  []bool // by account
	rows     []row
	tickers  []ticker
	lots     []string   // names of lots
	groups   [][]uint64 // of each group of tickers, sort keys of its rows
	names    [][]string // of each group, its tickers
	asOf     Date

	tickerOf  map[string]int32
	accountOf map[string]int32
}

// class orders the rows of one day: lots must be there, and in today's shares, before something is taken from them.
func class(a Action) uint64 {
	switch a {
	case Split:
		return 0
	case ReturnOfCapital:
		return 1
	case Buy, Reinvest, GiftIn, Inherit:
		return 2
	case Transfer:
		return 3
	case Assign:
		return 4
	}
	return 5
}

// A sort key holds day, class and index of a row, so that sorting moves eight bytes and compares integers.
const (
	indexBits = 36
	classBits = 3
	maxDate   = 1 << 20 // in the year 4670
)

func sortKey(d Date, a Action, index int) uint64 {
	return uint64(d)<<(indexBits+classBits) | class(a)<<indexBits | uint64(index)
}

func keyIndex(key uint64) int { return int(key & (1<<indexBits - 1)) }

// take checks and numbers all rows. The error is a *FaultsError.
func take(rules Rules, txs []Transaction, asOf Date) (*intake, error) {
	in := &intake{txs: txs, asOf: asOf, tickerOf: make(map[string]int32), accountOf: make(map[string]int32)}
	faults := &FaultsError{}
	in.takeAccounts(rules.Accounts, faults)
	if len(faults.Faults) > 0 {
		return nil, faults
	}
	lots := make(map[string]int32)
	in.rows = make([]row, len(txs))
	for i := range txs {
		t := &txs[i]
		r := row{account: -1, to: -1, lot: -1}
		if text := in.number(t, &r); text != "" {
			if !faults.add(t.Source, "%s", text) {
				return nil, faults
			}
			continue
		}
		if t.LotID != "" {
			n, ok := lots[t.LotID]
			if !ok {
				n = int32(len(in.lots))
				lots[t.LotID] = n
				in.lots = append(in.lots, t.LotID)
			}
			r.lot = n
		}
		in.rows[i] = r
	}
	if len(faults.Faults) > 0 {
		return nil, faults
	}
	in.group(rules.Identical)
	in.sort()
	return in, nil
}

func (in *intake) takeAccounts(accounts []Account, faults *FaultsError) {
	for i, a := range accounts {
		if a.Kind == "" {
			a.Kind = Taxable
		}
		if a.Owner == "" {
			a.Owner = Self
		}
		if a.Method == "" {
			a.Method = FIFO
		}
		_, twice := in.accountOf[a.ID]
		switch {
		case a.ID == "":
			faults.add(Source{}, "account %d has no id: give it one", i+1)
		case twice:
			faults.add(Source{}, "account %q is there twice: give one of them another id", a.ID)
		case !slices.Contains([]Kind{Taxable, IRA, Roth, HSA, K401}, a.Kind):
			faults.add(Source{}, "account %q has kind %q: use taxable, ira, roth, hsa or 401k", a.ID, a.Kind)
		case a.Owner != Self && a.Owner != Spouse:
			faults.add(Source{}, "account %q has owner %q: use self or spouse", a.ID, a.Owner)
		case !slices.Contains([]Method{FIFO, LIFO, HIFO, MinTax, Specific}, a.Method):
			faults.add(Source{}, "account %q has lot method %q: use fifo, lifo, hifo, min_tax or specific", a.ID, a.Method)
		}
		in.accountOf[a.ID] = int32(len(in.accounts))
		in.accounts = append(in.accounts, a)
		in.taxable = append(in.taxable, a.Kind == Taxable)
	}
}

// number fills in r, and returns what is wrong with the row, or nothing.
func (in *intake) number(t *Transaction, r *row) string {
	if t.Ticker == "" {
		return "the row has no ticker: name one"
	}
	if t.Date <= 0 || t.Date > maxDate {
		return "the row has no date: write one, as 2024-01-31"
	}
	for _, name := range []struct {
		id   string
		into *int32
	}{{t.Account, &r.account}, {t.ToAccount, &r.to}} {
		if name.id == "" {
			continue
		}
		n, ok := in.accountOf[name.id]
		if !ok {
			return "account " + name.id + " is not in the portfolio: add it, or correct the row"
		}
		*name.into = n
	}
	r.ticker = in.ticker(t.Ticker)
	if t.Quantity.IsNeg() || t.Price.IsNeg() || t.Fees.IsNeg() || t.DonorBasis.IsNeg() || t.Value.IsNeg() {
		return "a number is negative: quantities and amounts are positive, the action says the direction"
	}
	if r.account < 0 && t.Action != Transfer && t.Action != Split {
		return "the row has no account: name one"
	}
	return in.fits(t, r)
}

// fits checks what the row's action needs.
func (in *intake) fits(t *Transaction, r *row) string {
	noShares := t.Quantity.IsZero()
	switch t.Action {
	case Split:
		if !t.Ratio.New.IsPos() || !t.Ratio.Old.IsPos() {
			if noShares || r.account < 0 {
				return "the split has no ratio: write one, as 4 or 3:2"
			}
		}
		return ""
	case ReturnOfCapital:
		if t.Value.IsZero() && (noShares || t.Price.IsZero()) {
			return "the return of capital has no value: write what was received"
		}
		return ""
	case Buy, Sell, Reinvest, Expire, Assign, Transfer, GiftIn, Inherit:
	default:
		return "action " + string(t.Action) + " is not known: use buy, sell, reinvest, split, transfer, return_of_capital, expire, assign, gift_in or inherit"
	}
	switch {
	case noShares:
		return "the " + string(t.Action) + " has no quantity: write how many shares"
	case t.Action == Transfer && r.account == r.to:
		return "the transfer goes nowhere: name two different accounts"
	case t.Action == Transfer && r.account >= 0 && r.to >= 0 && in.taxable[r.account] != in.taxable[r.to]:
		return "the transfer moves shares between a taxable account and a retirement account, which does not keep dates and basis: write a sell and a buy at the market price"
	case t.Action == GiftIn && t.Value.IsZero() && t.Price.IsZero():
		return "the gift has no value: write what it was worth on its day, a loss is counted from it"
	case t.Action == Inherit && t.Value.IsZero() && t.Price.IsZero():
		return "the inheritance has no value: write what it was worth on the day of death"
	case t.DonorDate > t.Date:
		return "the donor's date is after the row's: correct one of them"
	}
	return ""
}

func (in *intake) ticker(name string) int32 {
	n, ok := in.tickerOf[name]
	if ok {
		return n
	}
	n = int32(len(in.tickers))
	in.tickerOf[name] = n
	in.tickers = append(in.tickers, ticker{name: name, underlying: n})
	if root, call, ok := optionParts(name); ok {
		under := in.ticker(root)
		t := &in.tickers[n]
		t.option, t.call, t.underlying = true, call, under
	}
	return n
}

// group gives each ticker its group: the identical ones, and the options on them.
func (in *intake) group(identical [][]string) {
	for _, set := range identical {
		for _, name := range set {
			in.ticker(name)
		}
	}
	parent := make([]int32, len(in.tickers))
	for i := range parent {
		parent[i] = in.tickers[i].underlying
	}
	find := func(i int32) int32 {
		for parent[i] != i {
			i = parent[i]
		}
		return i
	}
	for _, set := range identical {
		for _, name := range set {
			parent[find(in.tickerOf[name])] = find(in.tickerOf[set[0]])
		}
	}
	groupOf := make([]int32, len(in.tickers))
	for i := range groupOf {
		groupOf[i] = -1
	}
	for i := range in.tickers {
		root := find(int32(i))
		if groupOf[root] < 0 {
			groupOf[root] = int32(len(in.names))
			in.names = append(in.names, nil)
		}
		g := groupOf[root]
		in.tickers[i].group = g
		in.tickers[i].local = int32(len(in.names[g]))
		in.names[g] = append(in.names[g], in.tickers[i].name)
	}
}

// sort deals the rows up to asOf to their groups, each in order.
func (in *intake) sort() {
	counts := make([]int, len(in.names))
	for i := range in.txs {
		if in.txs[i].Date <= in.asOf {
			counts[in.tickers[in.rows[i].ticker].group]++
		}
	}
	in.groups = make([][]uint64, len(in.names))
	for g, n := range counts {
		in.groups[g] = make([]uint64, 0, n)
	}
	for i := range in.txs {
		if t := &in.txs[i]; t.Date <= in.asOf {
			g := in.tickers[in.rows[i].ticker].group
			in.groups[g] = append(in.groups[g], sortKey(t.Date, t.Action, i))
		}
	}
	for _, keys := range in.groups {
		slices.Sort(keys)
	}
}

// worth is a row's value in all.
func (c *calc) worth(t *Transaction) decimal.Decimal {
	if !t.Value.IsZero() {
		return t.Value
	}
	return c.mul(t.Quantity, t.Price)
}
