package tax

import (
	"cmp"
	"fmt"
	"math"
	"math/big"
	"slices"
	"testing"

	"github.com/govalues/decimal"
	"pgregory.net/rapid"

	"signalbox/internal/testkit/must"
	"signalbox/internal/testkit/property"
)

// The model in this file computes in exact fractions, so that prices, fees, ratios and quantities
// may be any. It has all corporate actions in one history, over several years and accounts. It
// keeps one list of pieces in the order of their purchases, from the first day on, whether they were
// bought yet or not, and divides them when only a part is sold, moved or matched. It shares no code
// with the package and with the other model. To try 20,000 portfolios:
//
//	go test ./internal/portfolio/tax -run InFractions -rapid.checks=20000

// piece is shares with one basis per share, counted in shares of the last day of the history.
type piece struct {
	account, ticker string
	row             int
	acquired, since Date
	from            Date // the first day on which they can be sold: of the transfer, if they came by one
	shares          *big.Rat
	basis, raised   *big.Rat // raised is the part of basis that wash sales added
	worth           *big.Rat // a loss is counted from it; nil except for a gift below its basis
	bought, long    bool     // purchased; long-term whatever the dates are
	used            bool
	moved           int
}

// fractions is a portfolio in fractions.
type fractions struct {
	drawn
	asOf   Date
	pieces []*piece
	losses []*fractionLoss
	found  map[string][2]*big.Rat // shares and dollars of each entry
	moves  int
	// what came in, and what left: for the check that nothing is lost
	basisIn, basisOut *big.Rat
}

type fractionLoss struct {
	*piece
	sale   int
	row    int
	shares *big.Rat
	amount *big.Rat
	days   Date
	long   bool
}

func rat(d decimal.Decimal) *big.Rat {
	r, ok := new(big.Rat).SetString(d.String())
	if !ok {
		panic(d.String())
	}
	return r
}

func ratOf(r Ratio) *big.Rat       { return new(big.Rat).Quo(rat(r.New), rat(r.Old)) }
func plus(a, b *big.Rat) *big.Rat  { return new(big.Rat).Add(a, b) }
func minus(a, b *big.Rat) *big.Rat { return new(big.Rat).Sub(a, b) }
func times(a, b *big.Rat) *big.Rat { return new(big.Rat).Mul(a, b) }
func over(a, b *big.Rat) *big.Rat  { return new(big.Rat).Quo(a, b) }
func float(a *big.Rat) float64     { f, _ := a.Float64(); return f }
func smaller(a, b *big.Rat) *big.Rat { // of two
	if a.Cmp(b) <= 0 {
		return a
	}
	return b
}

// near reports whether two numbers of shares differ by no more than rounding.
func near(a, b *big.Rat) bool { return math.Abs(float(minus(a, b))) < 1e-6 }

func newFractions(d drawn, asOf Date) *fractions {
	m := &fractions{drawn: d, asOf: asOf, found: make(map[string][2]*big.Rat), basisIn: new(big.Rat),
		basisOut: new(big.Rat)}
	for i, x := range d.txs {
		if x.Date > asOf {
			continue
		}
		total := plus(times(rat(x.Quantity), rat(x.Price)), rat(x.Fees))
		p := &piece{account: x.Account, ticker: x.Ticker, row: i, acquired: x.Date, since: x.Date + 1,
			from: x.Date, shares: times(rat(x.Quantity), m.lastShares(x.Ticker, x.Date)), basis: total,
			raised: new(big.Rat)}
		switch {
		case x.Action == Buy || x.Action == Reinvest:
			p.bought = true
		case x.Action == Inherit:
			p.long = true
		case x.Action == GiftIn:
			if donor := rat(x.DonorBasis); minus(total, rat(x.Fees)).Cmp(donor) < 0 {
				p.worth = total
			}
			p.basis, p.since = plus(rat(x.DonorBasis), rat(x.Fees)), x.DonorDate+1
		default:
			continue
		}
		m.enter(p)
	}
	days := make(map[Date]bool)
	for _, x := range d.txs {
		days[x.Date] = x.Date <= asOf
	}
	for today := DateOf(2020, 1, 1); today <= asOf; today++ {
		if days[today] {
			m.day(today)
		}
	}
	return m
}

func (m *fractions) enter(p *piece) {
	m.pieces, m.basisIn = append(m.pieces, p), plus(m.basisIn, p.basis)
}

// lastShares returns how many shares of the last day a share of a day is, of what it became.
func (m *fractions) lastShares(ticker string, on Date) *big.Rat {
	factor := big.NewRat(1, 1)
	for _, x := range m.txs {
		if x.Date <= on || x.Ticker != ticker || x.Date > m.asOf {
			continue
		}
		switch x.Action {
		case Split:
			factor = times(factor, ratOf(x.Ratio))
		case Exchange:
			return times(factor, times(ratOf(x.Ratio), m.lastShares(x.NewTicker, x.Date)))
		}
	}
	return factor
}

func (m *fractions) note(shares, dollars *big.Rat, form string, args ...any) {
	key := fmt.Sprintf(form, args...)
	if _, known := m.found[key]; !known {
		m.found[key] = [2]*big.Rat{new(big.Rat), new(big.Rat)}
	}
	m.found[key] = [2]*big.Rat{plus(m.found[key][0], shares), plus(m.found[key][1], dollars)}
}

func (m *fractions) tally() tally {
	t := make(tally)
	for key, e := range m.found {
		t[key] = entry{float(e[0]), float(e[1])}
	}
	return t
}

func (m *fractions) account(id string) (a Account, taxed bool) {
	for _, a = range m.rules.Accounts {
		if a.ID == id {
			return a, a.Kind == "" || a.Kind == Taxable
		}
	}
	panic(id)
}

// held returns the pieces of a position at the beginning of a day, or with its acquisitions.
func (m *fractions) held(account, ticker string, until Date) []*piece {
	return slices.DeleteFunc(slices.Clone(m.pieces), func(p *piece) bool {
		return account != "" && p.account != account || p.ticker != ticker || p.shares.Sign() == 0 ||
			p.from > until
	})
}

// day applies the rows of a day: corporate actions to what was held before, then transfers, then
// sales, and then the rule about wash sales.
func (m *fractions) day(today Date) {
	of := func(actions ...Action) (rows []int) {
		for i, x := range m.txs {
			if x.Date == today && slices.Contains(actions, x.Action) {
				rows = append(rows, i)
			}
		}
		return rows
	}
	for _, i := range of(ReturnOfCapital, SpinOff, Exchange) {
		switch x := m.txs[i]; x.Action {
		case ReturnOfCapital:
			m.returnCapital(i, x)
		case SpinOff:
			m.spinOff(i, x)
		default:
			m.exchange(i, x)
		}
	}
	for _, i := range of(Transfer) {
		m.transfer(i, m.txs[i])
	}
	m.losses = nil
	for _, i := range of(Sell, CashInLieu) {
		m.sell(i, m.txs[i])
	}
	m.wash(today)
}

// returnCapital lowers the basis of each share alike, to zero; the rest is a gain (section
// 301(c)(2) and (3)).
func (m *fractions) returnCapital(row int, x Transaction) {
	held, all := m.held(x.Account, x.Ticker, x.Date-1), new(big.Rat)
	for _, p := range held {
		all = plus(all, p.shares)
	}
	if len(held) == 0 {
		m.note(rat(x.Quantity), new(big.Rat), "gap of row %d", row)
	}
	for _, p := range held {
		cash := over(times(rat(x.Value), p.shares), all)
		if p.worth != nil {
			p.worth = minus(p.worth, smaller(p.worth, cash))
		}
		if gain := minus(cash, p.basis); gain.Sign() > 0 {
			m.gain(row, p, x.Date, new(big.Rat), gain, p.since)
			cash = p.basis
		}
		p.basis, m.basisOut = minus(p.basis, cash), plus(m.basisOut, cash)
	}
}

// spinOff gives each piece new shares. They take their part of the basis, or if the distribution is
// taxable, its value (sections 358(b)(2) and 301(d)).
func (m *fractions) spinOff(row int, x Transaction) {
	share := over(times(ratOf(x.Ratio), m.lastShares(x.NewTicker, x.Date)),
		m.lastShares(x.Ticker, x.Date))
	held := m.held(x.Account, x.Ticker, x.Date-1)
	if len(held) == 0 && x.Account != "" {
		m.note(rat(x.Quantity), new(big.Rat), "gap of row %d", row)
		return
	}
	if !x.Value.IsZero() {
		lot := &piece{account: x.Account, ticker: x.NewTicker, row: row, acquired: x.Date, from: x.Date,
			since: x.Date + 1, shares: new(big.Rat), basis: rat(x.Value), raised: new(big.Rat)}
		for _, p := range held {
			lot.shares = plus(lot.shares, times(p.shares, share))
		}
		m.enter(lot)
		return
	}
	part := rat(x.BasisFraction)
	for _, p := range held {
		child := *p
		child.ticker, child.bought, child.used, child.from = x.NewTicker, false, false, x.Date
		child.shares = times(p.shares, share)
		child.basis, child.raised = times(p.basis, part), times(p.raised, part)
		p.basis, p.raised = minus(p.basis, child.basis), minus(p.raised, child.raised)
		if p.worth != nil {
			child.worth = times(p.worth, part)
			p.worth = minus(p.worth, child.worth)
		}
		m.pieces = append(m.pieces, &child)
	}
}

// exchange makes the shares of a ticker those of another one. Cash is a gain up to the gain on each
// piece (section 356(a)(1) and (c)), and the rest of it lowers the basis (section 358(a)(1)).
func (m *fractions) exchange(row int, x Transaction) {
	perOld, perNew := m.lastShares(x.Ticker, x.Date-1), m.lastShares(x.NewTicker, x.Date)
	for _, p := range m.held(x.Account, x.Ticker, x.Date-1) {
		p.ticker = x.NewTicker
		cash := times(over(p.shares, perOld), rat(x.Price))
		value := plus(times(over(p.shares, perNew), rat(x.NewPrice)), cash)
		gain := smaller(cash, minus(value, p.basis))
		if gain.Sign() <= 0 {
			gain = new(big.Rat)
		} else {
			m.gain(row, p, x.Date, new(big.Rat), gain, p.since)
		}
		rest := minus(cash, gain)
		p.basis, m.basisOut = minus(p.basis, rest), plus(m.basisOut, rest)
		if p.worth != nil {
			p.worth = minus(p.worth, smaller(p.worth, rest))
		}
	}
}

// gain notes what was realized on shares of a piece.
func (m *fractions) gain(row int, p *piece, on Date, shares, gain *big.Rat, since Date) {
	long := p.long || !on.Time().Before(since.Time().AddDate(1, 0, 0))
	m.note(shares, gain, "row %d sold shares acquired %s, %s-term", row, p.acquired, term(long))
}

// divide leaves at most some shares in a piece, and inserts the others behind it.
func (m *fractions) divide(p *piece, shares *big.Rat) {
	if shares.Cmp(p.shares) >= 0 {
		return
	}
	rest, part := *p, over(shares, p.shares)
	for _, n := range []struct{ whole, rest **big.Rat }{{&p.shares, &rest.shares},
		{&p.basis, &rest.basis}, {&p.raised, &rest.raised}, {&p.worth, &rest.worth}} {
		if *n.whole != nil {
			kept := times(*n.whole, part)
			*n.rest, *n.whole = minus(*n.whole, kept), kept
		}
	}
	m.pieces = slices.Insert(m.pieces, slices.Index(m.pieces, p)+1, &rest)
}

// older orders pieces of one position by age.
func (m *fractions) older(a, b *piece) int {
	return cmp.Or(cmp.Compare(a.acquired, b.acquired), cmp.Compare(a.row, b.row),
		cmp.Compare(a.moved, b.moved))
}

// next returns the piece that a row takes next, or nil.
func (m *fractions) next(x Transaction, method Method, price *big.Rat) *piece {
	list := slices.DeleteFunc(m.held(x.Account, x.Ticker, x.Date), func(p *piece) bool {
		return x.LotID != "" && m.txs[p.row].LotID != x.LotID
	})
	if len(list) == 0 {
		return nil
	}
	if x.LotID != "" || x.Action == Transfer {
		method = FIFO
	}
	cost := func(p *piece) *big.Rat {
		basis := p.basis
		if p.worth != nil {
			basis = p.worth
		}
		return over(basis, over(p.shares, m.lastShares(x.Ticker, x.Date)))
	}
	class := func(p *piece) int {
		loss, since := cost(p).Cmp(price) > 0, p.since
		if loss && p.worth != nil {
			since = p.acquired + 1
		}
		long := p.long || !x.Date.Time().Before(since.Time().AddDate(1, 0, 0))
		return slices.Index([]string{"true false", "true true", "false true", "false false"},
			fmt.Sprint(loss, long))
	}
	return slices.MinFunc(list, func(a, b *piece) int {
		switch method {
		case LIFO:
			if a.row != b.row || a.acquired != b.acquired || a.moved != b.moved {
				return -m.older(a, b)
			}
			return 0
		case HIFO:
			return cmp.Or(cost(b).Cmp(cost(a)), m.older(a, b))
		case MinTax:
			return cmp.Or(class(a)-class(b), cost(b).Cmp(cost(a)), m.older(a, b))
		}
		return m.older(a, b)
	})
}

func (m *fractions) transfer(row int, x Transaction) {
	per := m.lastShares(x.Ticker, x.Date)
	if x.Account == "" {
		m.enter(&piece{account: x.ToAccount, ticker: x.Ticker, row: row, acquired: x.DonorDate,
			since: x.DonorDate + 1, from: x.Date, shares: times(rat(x.Quantity), per),
			basis: rat(x.DonorBasis), raised: new(big.Rat)})
		return
	}
	for left := times(rat(x.Quantity), per); left.Sign() > 0; {
		p := m.next(x, FIFO, nil)
		if p == nil {
			m.note(over(left, per), new(big.Rat), "gap of row %d", row)
			return
		}
		m.divide(p, left)
		m.moves++
		left, p.moved = minus(left, p.shares), m.moves
		if p.account = x.ToAccount; x.ToAccount == "" {
			m.basisOut = plus(m.basisOut, p.basis)
			*p = piece{shares: new(big.Rat), basis: new(big.Rat), raised: new(big.Rat)}
		}
	}
}

func (m *fractions) sell(row int, x Transaction) {
	a, taxed := m.account(x.Account)
	per := m.lastShares(x.Ticker, x.Date)
	money := minus(times(rat(x.Quantity), rat(x.Price)), rat(x.Fees))
	if !x.Value.IsZero() {
		money = minus(rat(x.Value), rat(x.Fees))
	}
	price := over(money, rat(x.Quantity))
	for left := times(rat(x.Quantity), per); left.Sign() > 0; {
		p := m.next(x, a.Method, price)
		if p == nil {
			m.note(over(left, per), new(big.Rat), "gap of row %d", row)
			return
		}
		olderDay := slices.ContainsFunc(m.held(x.Account, x.Ticker, x.Date),
			func(q *piece) bool { return q.acquired < x.Date })
		if x.LotID == "" && taxed && p.acquired == x.Date && olderDay {
			m.found["order of row "+fmt.Sprint(row)] = [2]*big.Rat{big.NewRat(1, 1), new(big.Rat)}
		}
		m.divide(p, left)
		left = minus(left, p.shares)
		m.dispose(p, row, x.Date, price, taxed)
	}
}

// dispose sells a piece. A gift that was worth less than its basis has neither a gain nor a loss in
// between (section 1015(a)).
func (m *fractions) dispose(p *piece, row int, on Date, price *big.Rat, taxed bool) {
	shares := over(p.shares, m.lastShares(p.ticker, on))
	money, basis, since := times(shares, price), p.basis, p.since
	if p.worth != nil && money.Cmp(p.basis) < 0 {
		if basis = money; money.Cmp(p.worth) < 0 {
			basis, since = p.worth, p.acquired+1
		}
	}
	gain := minus(money, basis)
	m.gain(row, p, on, shares, gain, since)
	if taxed && gain.Sign() < 0 {
		gone := *p
		m.losses = append(m.losses, &fractionLoss{piece: &gone, sale: len(m.losses), row: row,
			shares: p.shares, amount: new(big.Rat).Neg(gain), days: on - since + 1, long: p.long})
	}
	m.basisOut = plus(m.basisOut, p.basis)
	p.shares, p.basis, p.raised, p.bought = new(big.Rat), new(big.Rat), new(big.Rat), false
}

// wash matches the losses of a day with purchases from 30 days before to 30 days after it.
func (m *fractions) wash(today Date) {
	slices.SortStableFunc(m.losses, func(a, b *fractionLoss) int {
		return cmp.Or(cmp.Compare(a.acquired, b.acquired), cmp.Compare(a.piece.row, b.piece.row))
	})
	for _, l := range m.losses {
		for l.shares.Sign() > 0 {
			var first *piece
			for _, p := range m.pieces {
				if m.replaces(p, l, today) && (first == nil || cmp.Or(
					cmp.Compare(p.acquired, first.acquired), cmp.Compare(p.row, first.row),
					compareBool(p.moved > 0, first.moved > 0), cmp.Compare(first.moved, p.moved)) < 0) {
					first = p
				}
			}
			if first == nil {
				break
			}
			m.divide(first, l.shares)
			loss := over(times(l.amount, first.shares), l.shares)
			sold := over(first.shares, m.lastShares(l.ticker, today))
			l.shares, l.amount = minus(l.shares, first.shares), minus(l.amount, loss)
			m.replace(first, l, loss, sold)
		}
	}
}

func (m *fractions) replaces(p *piece, l *fractionLoss, today Date) bool {
	if !p.bought || p.used || p.shares.Sign() == 0 || p.row == l.piece.row ||
		p.acquired < today-30 || p.acquired > today+30 {
		return false
	}
	if p.ticker == l.ticker || p.ticker != l.ticker && len(p.ticker) == 3 && len(l.ticker) == 3 {
		return true // VOO and IVV are the tickers of three letters
	}
	return slices.ContainsFunc(m.txs, func(x Transaction) bool {
		return x.Action == Exchange && x.Ticker == l.ticker && x.NewTicker == p.ticker &&
			x.Date > today && x.Date <= p.acquired
	})
}

func (m *fractions) replace(p *piece, l *fractionLoss, loss, sold *big.Rat) {
	p.used = true
	in := m.txs[p.row]
	m.note(sold, loss, "row %d disallowed", l.row)
	m.note(sold, new(big.Rat), "row %d by %s %s %s", l.row, in.Date, in.Account, in.Ticker)
	if _, taxed := m.account(p.account); !taxed {
		m.note(new(big.Rat), loss, "row %d permanent", l.row)
		return
	}
	p.basis, p.raised, m.basisIn = plus(p.basis, loss), plus(p.raised, loss), plus(m.basisIn, loss)
	p.since -= l.days
	p.long = p.long || l.long
}

// close records the open lots, and checks that no basis was lost: the basis that came in, plus
// disallowed losses, equals the basis that went out plus that of the open lots.
func (m *fractions) close(t *rapid.T) tally {
	open := new(big.Rat)
	for _, p := range m.pieces {
		if open = plus(open, p.basis); p.shares.Sign() == 0 {
			continue
		}
		m.note(over(p.shares, m.lastShares(p.ticker, m.asOf)), p.basis, "open %s %s %s from %s",
			p.account, p.ticker, p.acquired, p.since)
		m.note(new(big.Rat), p.raised, "raised %s %s %s", p.account, p.ticker, p.acquired)
	}
	if plus(open, m.basisOut).Cmp(m.basisIn) != 0 {
		t.Fatalf("the model lost basis: %s of %s", plus(open, m.basisOut), m.basisIn)
	}
	return m.tally()
}

// drawYears draws histories of up to five years with every action but options.
func drawYears(t *rapid.T) drawn {
	method := rapid.SampledFrom([]Method{FIFO, FIFO, LIFO, HIFO, MinTax, Specific})
	g := &yearsGenerator{t: t, today: DateOf(2020, 1, 1), held: make(map[position]float64),
		tickers: []string{"X", "X", "X", "VOO", "IVV"}}
	g.rules = Rules{Identical: [][]string{{"VOO", "IVV"}}, Accounts: []Account{
		{ID: "brk", Method: method.Draw(t, "method of brk")},
		{ID: "two", Method: method.Draw(t, "method of two")},
		{ID: "her", Owner: Spouse, Method: method.Draw(t, "method of her")},
		{ID: "ira", Kind: IRA}, {ID: "roth", Kind: Roth, Owner: Spouse}}}
	for range rapid.IntRange(3, 40).Draw(t, "rows") {
		g.today += Date(rapid.SampledFrom([]int{0, 0, 0, 1, 1, 2, 3, 5, 10, 30, 31, 200}).Draw(t,
			"days later"))
		g.row()
	}
	return drawn{g.rules, g.txs, g.today}
}

type yearsGenerator struct {
	t       *rapid.T
	today   Date
	rules   Rules
	txs     []Transaction
	held    map[position]float64
	tickers []string
	// what happened once
	spun, taxed, exchanged bool
	splits                 int
}

func (g *yearsGenerator) number(label string, low, high int64, scale int) decimal.Decimal {
	return decimal.MustNew(rapid.Int64Range(low, high).Draw(g.t, label), scale)
}

// price draws a price that no other row has, so that no two lots cost the same: with HIFO, rounding
// would decide which lot is sold first.
func (g *yearsGenerator) price(low, high int64) decimal.Decimal {
	return decimal.MustNew(rapid.Int64Range(low, high).Draw(g.t, "price")*10_000+int64(len(g.txs)), 4)
}

func (g *yearsGenerator) row() {
	actions := []Action{Buy, Buy, Buy, Buy, Reinvest, Sell, Sell, Sell, Sell, Sell, CashInLieu, Transfer,
		Transfer, Split, SpinOff, Exchange, ReturnOfCapital, GiftIn, Inherit}
	x := Transaction{Date: g.today, Action: rapid.SampledFrom(actions).Draw(g.t, "action"),
		Ticker: rapid.SampledFrom(g.tickers).Draw(g.t, "ticker"),
		Account: rapid.SampledFrom([]string{"brk", "brk", "brk", "two", "her", "ira",
			"roth"}).Draw(g.t, "account")}
	switch x.Action {
	case Buy, Reinvest, GiftIn, Inherit:
		g.acquire(&x)
	case Sell, CashInLieu, Transfer:
		g.dispose(&x)
	case ReturnOfCapital:
		x.Value = g.number("returned", 100, 30_000, 2)
	default:
		g.corporate(x)
		return
	}
	g.txs = append(g.txs, x)
}

func (g *yearsGenerator) acquire(x *Transaction) {
	x.Quantity, x.Price = g.number("quantity", 100, 12_000, 3), g.price(10, 30)
	if rapid.Bool().Draw(g.t, "has fees") {
		x.Fees = g.number("fees", 1, 999, 2)
	}
	if rapid.IntRange(0, 2).Draw(g.t, "has id") == 0 {
		x.LotID = fmt.Sprintf("L%d", len(g.txs))
	}
	if x.Action == GiftIn {
		x.DonorBasis, x.DonorDate = g.number("donor's basis", 1, 300_00, 2),
			x.Date-Date(rapid.IntRange(0, 500).Draw(g.t, "donor held"))
	}
	g.move(x.Account, x.Ticker, x.Quantity, 1)
}

func (g *yearsGenerator) move(account, ticker string, quantity decimal.Decimal, sign float64) {
	f, _ := quantity.Float64()
	g.held[position{account, ticker}] += sign * f
}

func (g *yearsGenerator) dispose(x *Transaction) {
	var known []position
	for p, quantity := range g.held {
		if quantity > 0.01 {
			known = append(known, p)
		}
	}
	slices.SortFunc(known, func(a, b position) int {
		return cmp.Or(cmp.Compare(a.account, b.account), cmp.Compare(a.ticker, b.ticker))
	})
	if len(known) > 0 && rapid.IntRange(0, 9).Draw(g.t, "known") > 0 {
		p := rapid.SampledFrom(known).Draw(g.t, "position")
		x.Account, x.Ticker = p.account, p.ticker
	}
	if x.Action == Transfer {
		switch rapid.IntRange(0, 5).Draw(g.t, "transfer") {
		case 0: // from another broker
			x.Account, x.ToAccount = "", "two"
			x.Quantity, x.DonorBasis = g.number("quantity", 100, 12_000, 3),
				g.number("basis", 1, 300_0000, 4)
			x.DonorDate = x.Date - Date(rapid.IntRange(1, 500).Draw(g.t, "held there"))
			g.move("two", x.Ticker, x.Quantity, 1)
			return
		case 1: // to another broker
			x.Account = "brk"
		case 2:
			x.Account, x.ToAccount = "two", "brk"
		default:
			x.Account, x.ToAccount = "brk", "two"
		}
	}
	have := g.held[position{x.Account, x.Ticker}]
	x.Quantity = g.number("quantity", 1, max(1, int64(have*1000))+200, 3)
	switch x.Action {
	case Sell:
		x.Price = g.price(2, 20)
		if rapid.Bool().Draw(g.t, "has fees") {
			x.Fees = g.number("fees", 1, 199, 2)
		}
	case CashInLieu:
		x.Quantity = g.number("fraction", 1, 999, 3)
		x.Value = g.number("cash", 1, 3000, 2)
	}
	if ids := g.lotsOf(x); len(ids) > 0 && rapid.IntRange(0, 5).Draw(g.t, "names a lot") == 0 &&
		x.Action == Sell {
		x.LotID = rapid.SampledFrom(ids).Draw(g.t, "lot")
	}
	g.move(x.Account, x.Ticker, x.Quantity, -1)
	if x.ToAccount != "" {
		g.move(x.ToAccount, x.Ticker, x.Quantity, 1)
	}
}

func (g *yearsGenerator) lotsOf(x *Transaction) (ids []string) {
	for _, y := range g.txs {
		if y.LotID != "" && y.Account == x.Account && y.Ticker == x.Ticker && y.Action != Sell {
			ids = append(ids, y.LotID)
		}
	}
	return ids
}

// corporate draws a split, a spin-off or an exchange, on a day of its own.
func (g *yearsGenerator) corporate(x Transaction) {
	if len(g.txs) > 0 && g.txs[len(g.txs)-1].Date == g.today {
		g.today++
		x.Date = g.today
	}
	x.Account, x.Ratio = "", rapid.SampledFrom([]Ratio{{decimal.Two, decimal.One},
		{decimal.One, decimal.Two}, {decimal.MustNew(3, 0), decimal.Two},
		{decimal.One, decimal.MustNew(3, 0)}, {decimal.MustNew(173, 3), decimal.One}}).Draw(g.t, "ratio")
	factor := float(ratOf(x.Ratio))
	give := func(from, to string, keeps bool) {
		for p, quantity := range g.held {
			if p.ticker == from && p.account != "" {
				if !keeps {
					delete(g.held, p)
				}
				g.held[position{p.account, to}] += quantity * factor
			}
		}
	}
	switch {
	case x.Action == Split && g.splits < 3:
		g.splits++
		if x.Ticker == "VOO" || x.Ticker == "IVV" {
			x.Ticker = "VOO"
			twin := x
			twin.Ticker = "IVV"
			g.txs = append(g.txs, twin)
			give("IVV", "IVV", false)
		}
		give(x.Ticker, x.Ticker, false)
	case x.Action == SpinOff && !g.spun && !g.exchanged:
		g.spun, x.Ticker, x.NewTicker = true, "X", "S"
		x.BasisFraction = g.number("fraction", 1, 9999, 4)
		give("X", "S", true)
		g.tickers = append(g.tickers, "S")
	case x.Action == SpinOff && !g.taxed && !g.exchanged:
		g.taxed, x.Ticker, x.NewTicker, x.Account = true, "X", "W", "brk"
		x.Value = g.number("value", 1, 100_000, 2)
		g.held[position{"brk", "W"}] += g.held[position{"brk", "X"}] * factor
		g.tickers = append(g.tickers, "W")
	case x.Action == Exchange && !g.exchanged:
		g.exchanged, x.Ticker, x.NewTicker = true, "X", "Y"
		if rapid.Bool().Draw(g.t, "has cash") {
			x.Price, x.NewPrice = g.number("cash", 1, 2000, 2), g.number("price of a new share", 1, 3000, 2)
		}
		give("X", "Y", false)
		for i, ticker := range g.tickers {
			if ticker == "X" {
				g.tickers[i] = "Y"
			}
		}
	default:
		return
	}
	around := x.Action == Exchange && rapid.Bool().Draw(g.t, "sold before and bought after it")
	if around {
		g.txs = append(g.txs, Transaction{Date: x.Date, Action: Sell, Account: "brk", Ticker: "X",
			Quantity: g.number("quantity", 1, 3000, 3), Price: g.price(2, 20)})
		x.Date += Date(rapid.IntRange(1, 20).Draw(g.t, "days until the exchange"))
	}
	g.txs = append(g.txs, x)
	if g.today = x.Date + 1; around {
		g.today += Date(rapid.IntRange(0, 20).Draw(g.t, "days until the purchase"))
		bought := Transaction{Date: g.today, Action: Buy, Account: "brk", Ticker: "Y"}
		g.acquire(&bought)
		g.txs = append(g.txs, bought)
	}
}

// TestBookInFractions compares books with the model in exact fractions: shares, basis, gains by
// term, holding periods, what is disallowed, by which purchases, and for good.
func TestBookInFractions(t *testing.T) {
	property.Check(t, func(t *rapid.T) {
		d := drawYears(t)
		b := d.build(t, d.last)
		if diff := newFractions(d, d.last).close(t).diffAbove(tallyBook(b), 1e-6, 1e-4); len(diff) > 0 {
			t.Fatalf("%s\n%q", formatBook(b), diff)
		}
	})
}

// TestHarvestInFractions sells the candidates of the last day in the model, after the sales of that
// day: each alone, and all together.
func TestHarvestInFractions(t *testing.T) {
	property.Check(t, func(t *rapid.T) {
		d := drawYears(t)
		b := d.build(t, d.last)
		prices := make(map[string]decimal.Decimal)
		for _, ticker := range []string{"X", "VOO", "IVV", "S", "W", "Y"} {
			prices[ticker] = decimal.MustNew(rapid.Int64Range(1, 2500).Draw(t, "price of "+ticker), 2)
		}
		r, err := Harvest(b, prices, HarvestOptions{})
		must.Succeed(t, err)
		// sell sells the shares of a lot: the pieces with its holding period whose basis per share is
		// the nearest to its own.
		sell := func(m *fractions, row int, c *Candidate) {
			l := &b.Lots[c.lot]
			per := m.lastShares(l.Ticker, m.asOf)
			left, cost := times(rat(l.Quantity), per), over(rat(l.Basis), rat(l.Quantity))
			each := func(p *piece) float64 { return float(over(p.basis, over(p.shares, per))) }
			off := func(p *piece) float64 { return math.Abs(each(p) - float(cost)) }
			pieces := slices.DeleteFunc(m.held(l.Account, l.Ticker, b.AsOf), func(p *piece) bool {
				return p.row != l.row || p.since != l.HoldingStart || p.long != l.AlwaysLong
			})
			slices.SortStableFunc(pieces, func(a, b *piece) int { return cmp.Compare(off(a), off(b)) })
			var have []string
			for _, p := range pieces {
				have = append(have, fmt.Sprintf("%v at %v", float(over(p.shares, per)), each(p)))
				if left.Sign() <= 0 || off(p) > 0.001*math.Max(1, float(cost)) {
					continue
				}
				if !near(left, p.shares) {
					m.divide(p, left)
				}
				left = minus(left, p.shares)
				m.dispose(p, row, b.AsOf, rat(c.Price), true)
			}
			if !near(left, new(big.Rat)) {
				t.Fatalf("the model does not have %+v, but %q", *l, have)
			}
		}
		base := len(d.txs)
		together := newFractions(d, b.AsOf)
		inOrder := inBookOrder(r.Candidates)
		together.losses = nil
		want, got := make(tally), make(tally)
		add := func(into tally, shares, dollars decimal.Decimal, form string, args ...any) {
			s, _ := shares.Float64()
			f, _ := dollars.Float64()
			into.add(s, f, form, args...)
		}
		for i := range inOrder {
			c := &inOrder[i]
			sell(together, base+i, c)
			alone := newFractions(d, b.AsOf)
			alone.losses = nil
			sell(alone, base+i, c)
			alone.wash(b.AsOf)
			one := alone.tally()
			disallowed := one[fmt.Sprintf("row %d disallowed", base+i)]
			want.add(disallowed.shares, disallowed.dollars, "%d alone", i)
			add(got, c.DisallowedShares, c.DisallowedLoss, "%d alone", i)
			want.add(0, one[fmt.Sprintf("row %d permanent", base+i)].dollars, "%d alone for good", i)
			add(got, decimal.Zero, c.PermanentLoss, "%d alone for good", i)
			sold := one[fmt.Sprintf("row %d sold shares acquired %s, %s-term", base+i, c.lotDate(b),
				term(c.LongTerm))]
			want.add(sold.shares, sold.dollars, "%d", i)
			add(got, c.Quantity, c.Loss.Neg(), "%d", i)
		}
		together.wash(b.AsOf)
		all := together.tally()
		for i := range inOrder {
			c := &inOrder[i]
			disallowed := all[fmt.Sprintf("row %d disallowed", base+i)]
			want.add(disallowed.shares, disallowed.dollars, "%d together", i)
			add(got, c.CombinedShares, c.CombinedLoss, "%d together", i)
			want.add(0, all[fmt.Sprintf("row %d permanent", base+i)].dollars, "permanent")
		}
		add(got, decimal.Zero, r.PermanentLoss, "permanent")
		if diff := want.diffAbove(got, 1e-6, 1e-4); len(diff) > 0 {
			t.Fatalf("%q\n%s%s", diff, formatBook(b), formatHarvest(r))
		}
	})
}

func (c *Candidate) lotDate(b *Book) Date { return b.Lots[c.lot].LotDate }
