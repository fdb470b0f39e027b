package tax

import (
	"cmp"
	"slices"

	"github.com/govalues/decimal"
)

// row is a transaction with numbers in place of its names, so that no string is looked at again.
type row struct {
	account, to int32 // -1: outside, or of a split without account: all
	ticker, lot int32 // lot is -1 without an id
	act         act
}

// intake is all rows, checked and numbered.
type intake struct {
	txs      []Transaction
	accounts []Account
	taxable  []bool // by account
	rows     []row
	tickers  []ticker
	lots     []string     // names of lots
	unnamed  []unnamedLot // for each of them, the lot without an id that it may mean
	groups   [][]uint64   // of each group of tickers, sort keys of its rows, which fold puts in order
	facts    []facts      // of each group
	names    [][]string   // of each group, its tickers
	asOf     Date

	tickerOf  map[string]int32
	accountOf map[string]int32
}

// facts are what is known of a ticker's rows, or a group's, before they are folded.
type facts struct {
	rows, buys int
	splits     bool
	options    bool
	exercises  bool // of calls
	positions  bool // it must be known how many shares are held: for options, and for splits without a ratio
}

func (f *facts) add(o facts) {
	f.rows, f.buys = f.rows+o.rows, f.buys+o.buys
	f.splits, f.options, f.positions = f.splits || o.splits, f.options || o.options, f.positions || o.positions
	f.exercises = f.exercises || o.exercises
}

// act is an action as a number; zero is none.
type act uint8

const (
	doSplit act = iota + 1
	doReturn
	doBuy // and reinvest
	doGift
	doInherit
	doTransfer
	doAssign
	doSell // and expire
)

func actOf(a Action) act {
	switch a {
	case Split:
		return doSplit
	case ReturnOfCapital:
		return doReturn
	case Buy, Reinvest:
		return doBuy
	case GiftIn:
		return doGift
	case Inherit:
		return doInherit
	case Transfer:
		return doTransfer
	case Assign:
		return doAssign
	case Sell, Expire:
		return doSell
	}
	return 0
}

// class orders the rows of one day: lots must be there, and in today's shares, before something is taken from them.
func class(a act) uint64 {
	switch a {
	case doSplit:
		return 0
	case doReturn:
		return 1
	case doBuy, doGift, doInherit:
		return 2
	case doTransfer:
		return 3
	case doAssign:
		return 4
	}
	return 5
}

// A sort key holds day, class and index of a row, so that sorting moves eight bytes and compares integers; and the
// action, which does not change the order, so that most rows need not be looked at before their turn.
const (
	actBits   = 4
	indexBits = 31
	classBits = 3
	dateShift = classBits + indexBits + actBits
	maxDate   = 1 << 20 // in the year 4670
)

func sortKey(d Date, a act, index int) uint64 {
	return uint64(d)<<dateShift | class(a)<<(indexBits+actBits) | uint64(index)<<actBits | uint64(a)
}

func keyDate(key uint64) Date { return Date(key >> dateShift) }
func keyIndex(key uint64) int { return int(key >> actBits & (1<<indexBits - 1)) }
func keyAct(key uint64) act   { return act(key & (1<<actBits - 1)) }

// take checks and numbers all rows. The error is a *FaultsError.
func take(rules Rules, txs []Transaction, asOf Date) (*intake, error) {
	in := &intake{txs: txs, asOf: asOf, tickerOf: make(map[string]int32), accountOf: make(map[string]int32)}
	faults := &FaultsError{}
	in.takeAccounts(rules.Accounts, faults)
	if len(faults.Faults) > 0 {
		return nil, faults
	}
	lots, splits := make(map[string]int32), make(map[tickerDay]bool)
	in.rows = make([]row, len(txs))
	for i := range txs {
		t := &txs[i]
		r := row{account: -1, to: -1, lot: -1}
		text := in.number(t, &r)
		if text == "" && r.act == doSplit && r.account < 0 {
			day := tickerDay{r.ticker, t.Date}
			if splits[day] {
				text = t.Ticker + " is split twice on one day: keep one of the rows, or name the account of each"
			}
			splits[day] = true
		}
		if text != "" {
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
				in.unnamed = append(in.unnamed, parseLotName(t.LotID))
			}
			r.lot = n
		}
		in.rows[i] = r
		if t.Date <= asOf {
			in.tickers[r.ticker].count(t, r.act)
		}
	}
	if len(faults.Faults) > 0 {
		return nil, faults
	}
	in.group(rules.Identical)
	in.deal()
	return in, nil
}

type tickerDay struct {
	ticker int32
	date   Date
}

// count notes a row of the ticker.
func (t *ticker) count(tx *Transaction, a act) {
	f := &t.facts
	f.rows++
	switch a {
	case doBuy:
		f.buys++
	case doSplit:
		f.splits = true
		f.positions = f.positions || !tx.Ratio.New.IsPos() || !tx.Ratio.Old.IsPos()
	}
	f.options, f.exercises = t.option, f.exercises || t.call && a == doAssign
	f.positions = f.positions || t.option
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
	if text := in.account(t.Account, &r.account); text != "" {
		return text
	}
	if text := in.account(t.ToAccount, &r.to); text != "" {
		return text
	}
	r.act = actOf(t.Action)
	r.ticker = in.ticker(t.Ticker)
	if t.Quantity.IsNeg() || t.Price.IsNeg() || t.Fees.IsNeg() || t.DonorBasis.IsNeg() || t.Value.IsNeg() {
		return "a number is negative: quantities and amounts are positive, the action says the direction"
	}
	if r.account < 0 && t.Action != Transfer && t.Action != Split {
		return "the row has no account: name one"
	}
	return in.fits(t, r)
}

// account fills in the number of an account; it returns what is wrong with its name.
func (in *intake) account(id string, into *int32) string {
	if id == "" {
		return ""
	}
	n, ok := in.accountOf[id]
	if !ok {
		return "account " + id + " is not in the portfolio: add it, or correct the row"
	}
	*into = n
	return ""
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
			parent[i] = parent[parent[i]]
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

// deal gives the rows up to asOf to their groups.
func (in *intake) deal() {
	in.facts = make([]facts, len(in.names))
	all := 0
	for i := range in.tickers {
		t := &in.tickers[i]
		in.facts[t.group].add(t.facts)
		all += t.facts.rows
	}
	keys := make([]uint64, all)
	in.groups = make([][]uint64, len(in.names))
	for g := range in.groups {
		n := in.facts[g].rows
		in.groups[g], keys = keys[:0:n], keys[n:]
	}
	for i := range in.txs {
		if d := in.txs[i].Date; d <= in.asOf {
			r := &in.rows[i]
			g := in.tickers[r.ticker].group
			in.groups[g] = append(in.groups[g], sortKey(d, r.act, i))
		}
	}
}

// order sorts a group's rows. They mostly come day by day, and then each day is sorted alone.
func order(keys []uint64) {
	byDay := slices.IsSortedFunc(keys, func(a, b uint64) int { return cmp.Compare(keyDate(a), keyDate(b)) })
	if !byDay {
		slices.Sort(keys)
		return
	}
	for start := 0; start < len(keys); {
		end := start + 1
		for end < len(keys) && keyDate(keys[end]) == keyDate(keys[start]) {
			end++
		}
		slices.Sort(keys[start:end])
		start = end
	}
}

// worth is a row's value in all.
func (c *calc) worth(t *Transaction) decimal.Decimal {
	if !t.Value.IsZero() {
		return t.Value
	}
	return c.mul(t.Quantity, t.Price)
}
