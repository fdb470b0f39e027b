package tax

import (
	"cmp"
	"slices"

	"github.com/govalues/decimal"
)

// account is a configured account, with the defaults filled in.
type account struct {
	Account
	index int // in the configuration
}

func (a *account) taxable() bool { return a.Kind == Taxable }

// ranksLots reports whether sells choose lots by their basis.
func (a *account) ranksLots() bool { return a.Method == HIFO || a.Method == MinTax }

// row is a transaction with its names resolved.
type row struct {
	*Transaction
	index   int      // among all transactions
	order   int      // among the acquisitions of its day; index, unless times are known
	timed   bool     // the rows of this day, account and ticker are in the order of their times
	account *account // nil: outside of the portfolio; of a split: all accounts
	to      *account // nil: outside of the portfolio
	ticker  *ticker
	// newTicker is what a spin-off or an exchange gives
	newTicker *ticker
	purchase  *purchase // of a buy or reinvest; the look-ahead sets it
}

// sequence orders the rows of one day: lots must exist, in the shares of that day, before something
// is taken from them.
func (r *row) sequence() int {
	if r.planned {
		return 6
	}
	switch r.Action {
	case Split:
		return 0
	case ReturnOfCapital, SpinOff, Exchange:
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

// portfolio is the validated input of Build.
type portfolio struct {
	accounts     []*account
	accountByID  map[string]*account
	tickers      []*ticker // in the order of their first row
	tickerByName map[string]*ticker
	groups       []*group // in the order of their first row
}

// prepare validates all rows and assigns those up to asOf to their groups. The error is a
// [*FaultsError].
func prepare(rules Rules, txs []Transaction, asOf Date) (*portfolio, error) {
	p := &portfolio{accountByID: make(map[string]*account), tickerByName: make(map[string]*ticker)}
	faults := &FaultsError{}
	p.addAccounts(rules.Accounts, faults)
	if len(faults.Faults) > 0 {
		return nil, faults
	}
	type tickerDay struct {
		ticker string
		date   Date
	}
	splits := make(map[tickerDay]bool) // of all accounts
	all := make([]row, len(txs))
	for i := range txs {
		t := &txs[i]
		problem := p.resolve(t, &all[i])
		all[i].index, all[i].order = i, i
		if problem == "" && t.Action == Split && t.Account == "" {
			day := tickerDay{t.Ticker, t.Date}
			if splits[day] {
				problem = t.Ticker +
					" is split twice on one day: keep one of the rows, or name the account of each"
			}
			splits[day] = true
		}
		if problem != "" && !faults.add(t.Source, "%s", problem) {
			break
		}
	}
	if len(faults.Faults) > 0 {
		return nil, faults
	}
	p.groupTickers(rules.Identical)
	for _, name := range rules.Crypto {
		if t := p.tickerByName[name]; t != nil {
			t.exempt = true
		}
	}
	p.groupRows(all, asOf)
	return p, nil
}

func (p *portfolio) addAccounts(accounts []Account, faults *FaultsError) {
	for i, a := range accounts {
		a.Kind, a.Owner, a.Method = cmp.Or(a.Kind, Taxable), cmp.Or(a.Owner, Self),
			cmp.Or(a.Method, FIFO)
		switch {
		case a.ID == "":
			faults.add(Source{}, "account %d has no id: give it one", i+1)
		case p.accountByID[a.ID] != nil:
			faults.add(Source{}, "account %q is configured twice: give one of them another id",
				a.ID)
		case !slices.Contains([]Kind{Taxable, IRA, Roth, HSA, K401}, a.Kind):
			faults.add(Source{}, "account %q has kind %q: use taxable, ira, roth, hsa or 401k",
				a.ID, a.Kind)
		case a.Owner != Self && a.Owner != Spouse:
			faults.add(Source{}, "account %q has owner %q: use self or spouse", a.ID, a.Owner)
		case !slices.Contains([]Method{FIFO, LIFO, HIFO, MinTax, Specific}, a.Method):
			faults.add(Source{},
				"account %q has lot method %q: use fifo, lifo, hifo, min_tax or specific", a.ID,
				a.Method)
		}
		added := &account{Account: a, index: i}
		p.accounts, p.accountByID[a.ID] = append(p.accounts, added), added
	}
}

// resolve fills in r. It returns what is wrong with the transaction, or the empty string.
func (p *portfolio) resolve(t *Transaction, r *row) (problem string) {
	if t.Ticker == "" {
		return "the row has no ticker: name one"
	}
	if t.Date <= 0 || t.Date > maxDate {
		return "the row has no date: write one, as 2024-01-31"
	}
	for _, id := range []string{t.Account, t.ToAccount} {
		if id != "" && p.accountByID[id] == nil {
			return "account " + id + " is not in the portfolio: add it, or correct the row"
		}
	}
	r.Transaction, r.account, r.to, r.ticker = t, p.accountByID[t.Account],
		p.accountByID[t.ToAccount], p.ticker(t.Ticker)
	if t.Quantity.IsNeg() || t.Price.IsNeg() || t.Fees.IsNeg() || t.DonorBasis.IsNeg() ||
		t.Value.IsNeg() || t.BasisFraction.IsNeg() || t.NewPrice.IsNeg() {
		return "a number is negative: quantities and amounts are positive, the action gives the direction"
	}
	if r.account == nil && t.Action != Transfer && t.Action != Split && !isCorporate(t.Action) {
		return "the row has no account: name one"
	}
	if isCorporate(t.Action) && t.NewTicker != "" {
		r.newTicker = p.ticker(t.NewTicker)
		p.join(r.ticker.group, r.newTicker.group)
	}
	return r.validate()
}

// validate checks the fields that the action needs. It returns what is wrong, or the empty string.
func (r *row) validate() (problem string) {
	noShares, noValue := r.Quantity.IsZero(), r.Value.IsZero()
	switch r.Action {
	case Split:
		if !r.Ratio.known() && (noShares || r.account == nil) {
			return "the split has no ratio: write one, as 4 or 3:2"
		}
		return ""
	case ReturnOfCapital:
		if noValue && (noShares || r.Price.IsZero()) {
			return "the return of capital has no value: write what was received"
		}
		return ""
	case SpinOff, Exchange:
		return r.validateCorporate()
	case Buy, Sell, Reinvest, Expire, Assign, Transfer, GiftIn, Inherit, CashInLieu:
	default:
		return "action " + string(r.Action) +
			" is not known: use buy, sell, reinvest, split, transfer, return_of_capital, expire, assign, gift_in, inherit, spin_off, exchange or cash_in_lieu"
	}
	switch {
	case noShares:
		return "the " + string(r.Action) + " has no quantity: write how many shares"
	case r.Action == Transfer && r.account == r.to:
		return "the transfer goes nowhere: name two different accounts"
	case r.Action == Transfer && r.account != nil && r.to != nil &&
		r.account.taxable() != r.to.taxable():
		return "the transfer moves shares between a taxable account and a retirement account, which does not keep dates and basis: write a sell and a buy at the market price"
	case r.Action == GiftIn && noValue && r.Price.IsZero():
		return "the gift has no value: write what it was worth on its day, a loss is counted from it"
	case r.Action == CashInLieu && noValue && r.Price.IsZero():
		return "the cash in lieu has no value: write what was received"
	case r.Action == Inherit && noValue && r.Price.IsZero():
		return "the inheritance has no value: write what it was worth on the day of death"
	case r.DonorDate > r.Date:
		return "the donor's date is after the row's: correct one of them"
	}
	return r.validateLots()
}

// validateLots checks the lots that a row names. It returns what is wrong, or the empty string.
func (r *row) validateLots() (problem string) {
	if len(r.Lots) == 0 {
		return ""
	}
	if r.Action != Sell && r.Action != Expire || r.LotID != "" {
		return "the row names closed lots: only a sell or an expire without a lot_id may"
	}
	var c calc
	sum := decimal.Zero
	for _, l := range r.Lots {
		if !l.Quantity.IsPos() || l.Opened <= 0 || l.Opened > r.Date {
			return "a closed lot has no quantity, or was opened after the sale: correct it"
		}
		sum = c.add(sum, l.Quantity)
	}
	if c.err != nil || sum.Cmp(r.Quantity) != 0 {
		return "the closed lots have " + sum.Trim(0).String() + " shares and the row has " +
			r.Quantity.Trim(0).String() + ": correct one of them"
	}
	return ""
}

// ticker returns the ticker with a name, and adds it, and the underlying of an option, if it is
// new.
func (p *portfolio) ticker(name string) *ticker {
	if t := p.tickerByName[name]; t != nil {
		return t
	}
	t := &ticker{name: name, contract: Section1256(name)}
	t.exempt = t.contract
	p.tickers, p.tickerByName[name] = append(p.tickers, t), t
	if underlying, call, ok := parseOption(name); ok {
		t.option, t.call, t.underlying = true, call, p.ticker(underlying)
		t.group = t.underlying.group
	} else {
		t.underlying, t.group = t, &group{}
	}
	t.group.tickers = append(t.group.tickers, t)
	return t
}

// join has the rows of two groups applied together.
func (p *portfolio) join(a, b *group) {
	if a, b = a.root(), b.root(); a != b {
		b.joined = a
	}
}

// groupTickers merges the groups of identical tickers.
func (p *portfolio) groupTickers(identical [][]string) {
	for _, set := range identical {
		for _, name := range set {
			into, from := p.ticker(set[0]).group, p.ticker(name).group
			if into == from {
				continue
			}
			for _, t := range from.tickers {
				t.group = into
			}
			p.join(into, from)
			into.tickers = append(into.tickers, from.tickers...)
		}
	}
}

// groupRows assigns the rows up to asOf to their groups, and orders them.
func (p *portfolio) groupRows(all []row, asOf Date) {
	sizes := make(map[*group]int)
	for i := range all {
		if all[i].Date <= asOf {
			sizes[all[i].ticker.group.root()]++
		}
	}
	for i := range all {
		r := &all[i]
		if r.Date > asOf {
			continue
		}
		g := r.ticker.group.root()
		if g.rows == nil {
			g.rows = make([]row, 0, sizes[g])
			p.groups = append(p.groups, g)
		}
		g.rows = append(g.rows, *r)
	}
	for _, g := range p.groups {
		slices.SortStableFunc(g.rows, func(a, b row) int {
			return cmp.Or(cmp.Compare(a.Date, b.Date),
				cmp.Compare(a.sequence(), b.sequence()))
		})
		orderByTime(g.rows)
	}
}
