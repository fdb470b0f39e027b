package tax

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/govalues/decimal"
	"pgregory.net/rapid"

	"signalbox/internal/testkit/property"
)

// The model follows the text of section 1091 and Reg. 1.1091-1, on one list of units. A unit is so
// small that no later split divides it: a split only changes the number of units per share. Losses
// and purchases are matched unit by unit, whether the purchase is before or after the loss. Nothing
// is sorted, indexed or removed. The model shares no code with the package, and is much too slow
// for real use.
type model struct {
	rules  Rules
	txs    []Transaction
	asOf   Date
	parts  []*unit
	losses []lossOf
	tally  tally
	moves  int
	order  []int // of each row among the acquisitions of its day
}

// timed reports whether the times of a row's day are known: of all trades of its account and
// ticker, without a transfer, a gift or an exercise of a security that could replace it.
func (m *model) timed(i int) bool {
	x := m.txs[i]
	for _, y := range m.txs {
		if y.Date != x.Date || (y.Ticker == "X") != (x.Ticker == "X") {
			continue
		}
		switch y.Action {
		case Transfer, GiftIn, Inherit, Assign:
			return false
		case Buy, Sell, Reinvest:
			if y.Account == x.Account && y.Ticker == x.Ticker && y.Time == 0 {
				return false
			}
		}
	}
	return true
}

func purchased(x Transaction) bool { return x.Action == Buy || x.Action == Reinvest }

// placeOf returns the place of a row. The purchases of a day in one account and ticker exchange
// their places if their times are known.
func (m *model) placeOf(i int) int {
	x := m.txs[i]
	if !purchased(x) || !m.timed(i) {
		return i
	}
	earlier, places := 0, []int{}
	for j, y := range m.txs {
		if purchased(y) && y.Date == x.Date && y.Account == x.Account && y.Ticker == x.Ticker {
			places = append(places, j)
			if y.Time < x.Time || y.Time == x.Time && j < i {
				earlier++
			}
		}
	}
	return places[earlier]
}

// bought reports whether a unit was there when a row sold shares of its position. Purchases of the
// same day come first, unless the times are known.
func (m *model) bought(p *unit, row int, on Date) bool {
	if p.acquired != on || row < 0 || !purchased(m.txs[p.row]) || !m.timed(row) {
		return p.acquired <= on
	}
	return m.txs[p.row].Time <= m.txs[row].Time
}

// unit is a part of a share.
type unit struct {
	account, ticker string
	row             int  // the row that brought it; units of one row are one lot
	acquired        Date // trade date
	since           Date // the first day of the holding period
	basis           int64
	raised          int64 // part of the basis that wash sales added
	worth           int64 // value of a gift on its day
	gift, inherited bool
	spun            bool // from the shares of another ticker
	arrival         int  // number of the transfer that brought it into this account
	gone            bool
	used            bool  // it made a loss nondeductible
	call            *unit // of the call that will buy it
	exercised       bool  // the call was exercised
}

// lossOf is the loss on a unit.
type lossOf struct {
	*unit
	row    int // of the sale
	amount int64
	held   int // days
}

// runModel runs the model on a history.
func runModel(d drawn, asOf Date) *model {
	m := &model{rules: d.rules, txs: d.txs, asOf: asOf, tally: make(tally)}
	for i := range m.txs {
		m.order = append(m.order, m.placeOf(i))
	}
	m.run()
	return m
}

// entry is a number of shares and an amount of dollars.
type entry struct{ shares, dollars float64 }

// tally is a book as a set of entries that can be compared.
type tally map[string]entry

func (t tally) add(shares, dollars float64, form string, args ...any) {
	key := fmt.Sprintf(form, args...)
	t[key] = entry{t[key].shares + shares, t[key].dollars + dollars}
}

// diff returns the differences.
func (t tally) diff(other tally) []string { return t.diffAbove(other, 1e-9, 1e-6) }

// diffAbove returns the differences that are larger than so many shares or dollars.
func (t tally) diffAbove(other tally, shares, dollars float64) []string {
	var list []string
	keys := make(map[string]bool)
	for key := range t {
		keys[key] = true
	}
	for key := range other {
		keys[key] = true
	}
	for key := range keys {
		a, b := t[key], other[key]
		if math.Abs(a.shares-b.shares) > shares || math.Abs(a.dollars-b.dollars) > dollars {
			list = append(list, fmt.Sprintf("%s: the model has %v, the book %v", key, a, b))
		}
	}
	slices.Sort(list)
	return list
}

func (m *model) account(id string) Account {
	return m.rules.Accounts[slices.IndexFunc(m.rules.Accounts,
		func(a Account) bool { return a.ID == id })]
}

func (m *model) taxable(id string) bool {
	kind := m.account(id).Kind
	return kind == "" || kind == Taxable
}

// perShare returns the number of units per share or contract on a day.
func (m *model) perShare(ticker string, on Date) int64 {
	parts := int64(1)
	for _, x := range m.txs {
		if x.Action == Split && x.Ticker == ticker {
			parts *= whole(x.Ratio.Old)
		}
	}
	if c := m.came(ticker); c != nil {
		// Each share got, or became, some of the units of X on the day before.
		return m.perShare("X", c.Date) * whole(c.Ratio.Old) / whole(c.Ratio.New)
	}
	if ticker == "X" && (m.came("Y") != nil || m.came("S") != nil) {
		parts *= 4 // so that two corporate actions divide no unit
	}
	for _, x := range m.txs {
		if x.Action == Split && x.Ticker == ticker && x.Date > on {
			parts = parts * whole(x.Ratio.New) / whole(x.Ratio.Old)
		}
	}
	if ticker == drawnCall {
		return 100 * m.perShare("VOO", on) // shares of the contract
	}
	return parts
}

// came returns the row that created a ticker, or nil.
func (m *model) came(ticker string) *Transaction {
	for i := range m.txs {
		if x := &m.txs[i]; (x.Action == SpinOff || x.Action == Exchange) && x.NewTicker == ticker {
			return x
		}
	}
	return nil
}

// corporate applies the spin-offs and exchanges of a day to what is held before its trades.
func (m *model) corporate(today Date) {
	for i, x := range m.txs {
		if x.Date != today || x.Action != SpinOff && x.Action != Exchange {
			continue
		}
		for _, p := range slices.Clone(m.parts) {
			switch {
			case p.gone || p.ticker != x.Ticker || p.acquired >= today:
			case x.Action == Exchange:
				cash, got := whole(x.Price)/m.perShare("X", today), whole(x.NewPrice)/m.perShare("Y", today)
				// section 356(a)(1) and (c), 358(a)(1)
				gain := max(0, min(cash, got+cash-p.basis))
				if gain > 0 {
					m.tally.add(0, float64(gain), "row %d sold shares acquired %s, %s-term", i, p.acquired,
						term(p.inherited || moreThanAYear(p.since, today)))
				}
				p.ticker, p.basis, p.worth = x.NewTicker, p.basis-cash+gain, max(0, p.worth-cash+gain)
			default:
				// section 358(b)(2): by the published fraction; section 1223(1): the same period
				child := *p
				child.ticker, child.spun, child.used = x.NewTicker, true, false
				for _, n := range []struct{ from, to *int64 }{{&p.basis, &child.basis},
					{&p.raised, &child.raised}, {&p.worth, &child.worth}} {
					*n.to = *n.from / 4
					*n.from -= *n.to
				}
				m.parts = append(m.parts, &child)
			}
		}
	}
}

func whole(d decimal.Decimal) int64 {
	n, _, _ := d.Int64(0)
	return n
}

// each divides a total among the units of a row.
func (m *model) each(x Transaction, total int64) int64 {
	parts := whole(x.Quantity) * m.perShare(x.Ticker, x.Date)
	if total%parts != 0 {
		panic(fmt.Sprintf("%d dollars for %d units", total, parts))
	}
	return total / parts
}

// acquire lists the units of all acquisitions, including future ones. A purchase first buys back
// calls that were written, and that part of it does not acquire anything.
func (m *model) acquire() {
	written := make(map[string]int64)
	var order []int
	for i := range m.txs {
		order = append(order, i)
	}
	sells := func(i int) int {
		switch m.txs[i].Action {
		case Sell:
			return 2
		case Assign:
			return 1
		}
		return 0
	}
	calls := make(map[string][]*unit)
	// By ticker and account; calls come last, because they buy shares.
	slices.SortStableFunc(order, func(a, b int) int {
		x, y := m.txs[a], m.txs[b]
		byTicker := cmp.Or(compareBool(x.Ticker == drawnCall, y.Ticker == drawnCall),
			cmp.Compare(x.Ticker, y.Ticker), cmp.Compare(x.Account, y.Account),
			cmp.Compare(x.Date, y.Date))
		if byTicker == 0 && m.timed(a) {
			byTicker = cmp.Compare(x.Time, y.Time)
		}
		return cmp.Or(byTicker, cmp.Compare(sells(a), sells(b)))
	})
	for _, i := range order {
		x := m.txs[i]
		qty := whole(x.Quantity)
		total := qty*whole(x.Price) + whole(x.Fees)
		p := unit{account: x.Account, ticker: x.Ticker, row: i, acquired: x.Date, since: x.Date + 1}
		switch x.Action {
		case Buy, Reinvest:
			p.basis = m.each(x, total)
		case Inherit:
			p.basis, p.inherited = m.each(x, total), true
		case GiftIn:
			p.basis, p.worth, p.gift = m.each(x, whole(x.DonorBasis)), m.each(x, total), true
			p.since = x.DonorDate + 1
		case Sell, Assign:
			if x.Ticker == drawnCall {
				written[x.Account] += qty
				calls[x.Account] = m.foresee(x, calls[x.Account])
			}
			continue
		default:
			continue
		}
		if x.Ticker == drawnCall {
			closed := min(qty, max(0, written[x.Account]))
			written[x.Account] -= qty
			qty -= closed
		}
		for range qty * m.perShare(x.Ticker, x.Date) {
			one := p
			m.parts = append(m.parts, &one)
			if x.Ticker == drawnCall {
				calls[x.Account] = append(calls[x.Account], &one)
			}
		}
	}
}

// foresee removes the units of calls that a row sells or exercises, and marks the shares that
// exercised calls buy. It returns the remaining units.
func (m *model) foresee(x Transaction, calls []*unit) []*unit {
	taken := make(map[*unit]bool)
	for range whole(x.Quantity) * m.perShare(drawnCall, x.Date) {
		var first *unit
		for _, c := range calls {
			named := x.LotID == "" || m.txs[c.row].LotID == x.LotID
			later := first != nil && m.account(x.Account).Method == LIFO && x.Action == Sell &&
				x.LotID == "" && c.row != first.row
			if !taken[c] && named && (first == nil || later) {
				first = c
			}
		}
		if first == nil {
			break
		}
		taken[first] = true
		if x.Action == Assign {
			if p := m.delivered(x, first, func(p *unit) bool { return p.call != nil }); p != nil {
				p.call = first
			}
		}
	}
	return slices.DeleteFunc(calls, func(c *unit) bool { return taken[c] })
}

// delivered returns the unit of a share that a unit of a call buys: at the strike price, on that
// day, in that account. A call that took a loss prefers shares that did not, and the other way
// round.
func (m *model) delivered(x Transaction, call *unit, has func(*unit) bool) *unit {
	var first *unit
	for _, p := range m.parts {
		in := m.txs[p.row]
		if p.account != x.Account || in.Action != Buy || in.Ticker != "VOO" || in.Date != x.Date ||
			whole(in.Price) != strike || has(p) {
			continue
		}
		if first == nil || p.row == first.row && p.used != call.used && first.used == call.used {
			first = p
		}
	}
	return first
}

// exercise adds the cost of a call to the shares (Publication 550), and the losses that it took
// (section 1223(3) and Reg. 1.1091-1(e)).
func (m *model) exercise(x Transaction) {
	for range whole(x.Quantity) * m.perShare(drawnCall, x.Date) {
		c := m.choose(-1, x, 0, FIFO, ClosedLot{})
		p := m.delivered(x, c, func(p *unit) bool { return p.exercised })
		c.gone, p.exercised = true, true
		p.basis += c.basis
		if c.used {
			p.used, p.raised, p.inherited = true, p.raised+c.raised, p.inherited || c.inherited
			p.since -= c.acquired + 1 - c.since
		}
	}
}

// run applies the rows day by day: transfers, exercises, sells, and at the end of the day the
// losses.
func (m *model) run() {
	m.acquire()
	for today := DateOf(2023, 1, 1); today <= m.asOf; today++ {
		m.corporate(today)
		for i, x := range m.txs {
			if x.Date == today && x.Action == Transfer {
				m.transfer(i, x)
			}
		}
		for _, x := range m.txs {
			if x.Date == today && x.Action == Assign {
				m.exercise(x)
			}
		}
		m.losses = nil
		for _, i := range m.salesOf(today) {
			m.sell(i, m.txs[i])
		}
		m.wash(today)
	}
	for _, p := range m.parts {
		if !p.gone {
			share := 1 / float64(m.perShare(p.ticker, m.asOf))
			m.tally.add(share, float64(p.basis), "open %s %s %s from %s", p.account, p.ticker,
				p.acquired, p.since)
			m.tally.add(0, float64(p.raised), "raised %s %s %s", p.account, p.ticker, p.acquired)
		}
	}
}

// salesOf returns the sells of a day in the order of the rows. Those of one account and ticker
// exchange their places if their times are known.
func (m *model) salesOf(today Date) []int {
	var sales []int
	places := make(map[position][]int)
	for i, x := range m.txs {
		if x.Date != today || x.Action != Sell {
			continue
		}
		if m.timed(i) {
			p := position{x.Account, x.Ticker}
			places[p] = append(places[p], len(sales))
		}
		sales = append(sales, i)
	}
	for _, at := range places {
		var sorted []int
		for _, n := range at {
			sorted = append(sorted, sales[n])
		}
		slices.SortStableFunc(sorted,
			func(a, b int) int { return cmp.Compare(m.txs[a].Time, m.txs[b].Time) })
		for n, place := range at {
			sales[place] = sorted[n]
		}
	}
	return sales
}

// choose returns the unit of a position that a row takes first, or nil. The row is negative for a
// transfer or an exercise, which follows the purchases of its day. A closed lot limits the choice.
func (m *model) choose(row int, x Transaction, price int64, method Method, c ClosedLot) *unit {
	var have []*unit
	for _, p := range m.parts {
		named := x.LotID == "" || m.txs[p.row].LotID == x.LotID
		if !p.gone && p.account == x.Account && p.ticker == x.Ticker && m.bought(p, row, x.Date) &&
			named && (c.Opened == 0 || p.acquired == c.Opened) {
			have = append(have, p)
		}
	}
	if c.Opened != 0 {
		same := slices.DeleteFunc(slices.Clone(have),
			func(p *unit) bool { return m.txs[p.row].Time != c.Time })
		rows := make(map[int]bool)
		for _, p := range have {
			rows[p.row] = true
		}
		switch {
		case c.Time != 0 && len(same) > 0:
			have = same
		case len(rows) > 1: // it is not known which of them
			return nil
		}
	}
	if len(have) == 0 {
		return nil
	}
	if x.LotID != "" || c.Opened != 0 {
		method = FIFO
	}
	return slices.MinFunc(have, func(a, b *unit) int {
		older := cmp.Or(cmp.Compare(a.acquired, b.acquired),
			cmp.Compare(m.order[a.row], m.order[b.row]),
			cmp.Compare(a.arrival, b.arrival))
		dearer := cmp.Or(cmp.Compare(b.lossBasis(), a.lossBasis()), older)
		switch method {
		case LIFO:
			return -older
		case HIFO:
			return dearer
		case MinTax:
			return cmp.Or(cmp.Compare(a.taxed(x.Date, price), b.taxed(x.Date, price)), dearer)
		}
		return older
	})
}

// lossBasis returns the lower of basis and value, by section 1015(a).
func (p *unit) lossBasis() int64 {
	if p.gift {
		return min(p.basis, p.worth)
	}
	return p.basis
}

// taxed ranks short-term losses, long-term losses, long-term gains and short-term gains.
func (p *unit) taxed(on Date, price int64) int {
	loss, since := p.lossBasis() > price, p.since
	if loss && p.gift && p.worth < p.basis {
		since = p.acquired + 1 // section 1015(a)
	}
	long := p.inherited || moreThanAYear(since, on)
	switch {
	case loss && !long:
		return 0
	case loss:
		return 1
	case long:
		return 2
	}
	return 3
}

// moreThanAYear reports whether a sale is long-term. The period starts on the day after the
// acquisition, and a year is over on the anniversary of that day.
func moreThanAYear(since, on Date) bool {
	return !on.Time().Before(since.Time().AddDate(1, 0, 0))
}

func (m *model) transfer(row int, x Transaction) {
	m.moves++
	for range whole(x.Quantity) * m.perShare(x.Ticker, x.Date) {
		p := m.choose(-1, x, 0, FIFO, ClosedLot{})
		if p == nil {
			m.tally.add(1/float64(m.perShare(x.Ticker, x.Date)), 0, "gap of row %d", row)
			continue
		}
		p.account, p.arrival = x.ToAccount, m.moves
	}
}

func (m *model) sell(row int, x Transaction) {
	price := m.each(x, whole(x.Quantity)*whole(x.Price)-whole(x.Fees))
	closed := x.Lots
	if closed == nil {
		closed = []ClosedLot{{Quantity: x.Quantity}}
	}
	for _, c := range closed {
		for range whole(c.Quantity) * m.perShare(x.Ticker, x.Date) {
			p := m.choose(row, x, price, m.account(x.Account).Method, c)
			if p == nil {
				m.tally.add(1/float64(m.perShare(x.Ticker, x.Date)), 0, "gap of row %d", row)
				continue
			}
			if p.acquired == x.Date && x.Lots == nil && x.LotID == "" && m.taxable(x.Account) &&
				!m.timed(row) && m.hasOlder(p) {
				m.tally["order of row "+fmt.Sprint(row)] = entry{1, 0}
			}
			m.dispose(p, row, x.Date, price)
		}
	}
}

// hasOlder reports whether shares of the position from an earlier day are open.
func (m *model) hasOlder(p *unit) bool {
	return slices.ContainsFunc(m.parts, func(q *unit) bool {
		return !q.gone && q.account == p.account && q.ticker == p.ticker && q.acquired < p.acquired
	})
}

// dispose sells one unit.
func (m *model) dispose(p *unit, row int, on Date, price int64) {
	basis, since := p.basis, p.since
	if p.gift && p.worth < p.basis && price < p.basis {
		basis = price // section 1015(a): neither a gain nor a loss
		if price < p.worth {
			basis, since = p.worth, p.acquired+1
		}
	}
	p.gone = true
	long := p.inherited || moreThanAYear(since, on)
	m.tally.add(1/float64(m.perShare(p.ticker, on)), float64(price-basis),
		"row %d sold shares acquired %s, %s-term", row, p.acquired, term(long))
	if price < basis && m.taxable(p.account) {
		m.losses = append(m.losses, lossOf{unit: p, row: row, amount: basis - price,
			held: int(on - since + 1)})
	}
}

// wash applies Reg. 1.1091-1 to the day's losses.
func (m *model) wash(today Date) {
	// (b): in the order of disposal; on one day, in the order in which the shares were acquired.
	slices.SortStableFunc(m.losses, func(a, b lossOf) int {
		return cmp.Or(cmp.Compare(a.acquired, b.acquired),
			cmp.Compare(m.order[a.unit.row], m.order[b.unit.row]))
	})
	for _, l := range m.losses {
		// (c) and (d): in the order of acquisition. Shares that were transferred come after those
		// that were not, the last transfer first.
		var first *unit
		for _, p := range m.parts {
			if !m.replaces(p, l, today) {
				continue
			}
			if first == nil || cmp.Or(cmp.Compare(p.acquired, first.acquired),
				cmp.Compare(m.order[p.row], m.order[first.row]),
				compareBool(p.arrival > 0, first.arrival > 0),
				-cmp.Compare(p.arrival, first.arrival)) < 0 {
				first = p
			}
		}
		if first != nil {
			m.replace(first, l, today)
		}
	}
}

func compareBool(a, b bool) int {
	switch {
	case a == b:
		return 0
	case b:
		return -1
	}
	return 1
}

// replaces reports whether the acquisition of p makes a loss nondeductible.
func (m *model) replaces(p *unit, l lossOf, today Date) bool {
	within := p.acquired >= today-30 && p.acquired <= today+30 // (a)
	purchased := !p.gift && !p.inherited && !p.spun            // (f)
	sameLot := p.row == l.unit.row                             // Rev. Rul. 56-602
	heldNow := !p.gone || p.acquired > today                   // the package comment
	identical := p.ticker == l.ticker || p.ticker != "X" && l.ticker != "X" && l.ticker != drawnCall
	if c := m.came("Y"); c != nil || m.came("S") != nil {
		// Publication 550: what X became is identical to it, on the later of the two days.
		became := c != nil && p.ticker == "Y" && l.ticker == "X" && c.Date > today &&
			c.Date <= p.acquired
		identical = p.ticker == l.ticker || became
	}
	// (e) and (f): the call and its shares are one acquisition
	calledFor := p.acquired > today && p.call != nil && p.call.used
	return within && purchased && !sameLot && heldNow && identical && !p.used && !calledFor // (e)
}

// replace adds the loss (section 1091(d)) and the days (section 1223(3)) to a unit, or neither
// (Rev. Rul. 2008-5).
func (m *model) replace(p *unit, l lossOf, today Date) {
	p.used = true
	share := 1 / float64(m.perShare(l.ticker, today))
	m.tally.add(share, float64(l.amount), "row %d disallowed", l.row)
	in := m.txs[p.row]
	m.tally.add(share, 0, "row %d by %s %s %s", l.row, in.Date, in.Account, in.Ticker)
	if !m.taxable(p.account) {
		m.tally.add(0, float64(l.amount), "row %d permanent", l.row)
		return
	}
	p.basis, p.raised = p.basis+l.amount, p.raised+l.amount
	p.since -= Date(l.held)
	p.inherited = p.inherited || l.inherited
}

// tallyBook converts a book to the form of the model.
func tallyBook(b *Book) tally {
	t := make(tally)
	number := func(d decimal.Decimal) float64 {
		f, _ := d.Float64()
		return f
	}
	for _, l := range b.Lots {
		t.add(number(l.Quantity), number(l.Basis), "open %s %s %s from %s", l.Account, l.Ticker,
			l.LotDate, l.HoldingStart)
		t.add(0, number(l.BasisAdjustment), "raised %s %s %s", l.Account, l.Ticker, l.LotDate)
	}
	for _, s := range b.Sales {
		t.add(number(s.Quantity), number(s.Gain), "row %d sold shares acquired %s, %s-term", s.Row,
			s.LotDate, term(s.LongTerm))
	}
	for _, w := range b.WashSales {
		t.add(number(w.DisallowedShares), number(w.DisallowedLoss), "row %d disallowed", w.row)
		t.add(0, number(w.PermanentLoss), "row %d permanent", w.row)
		for _, r := range w.Replacements {
			t.add(number(r.Shares), 0, "row %d by %s %s %s", w.row, r.Date, r.Account, r.Ticker)
		}
	}
	for _, g := range b.Incomplete {
		t.add(number(g.Quantity), 0, "gap of row %d", g.Row)
	}
	for _, g := range b.OrderUnknown {
		t.add(1, 0, "order of row %d", g.Row)
	}
	return t
}

// TestBookMatchesModel compares random histories with the model. They have all methods, named lots,
// transfers, splits, gifts, inheritances, calls that are bought, exercised and written, groups, a
// spouse and retirement accounts.
func TestBookMatchesModel(t *testing.T) {
	property.Check(t, func(t *rapid.T) {
		d := drawHistory(t, true)
		b := d.build(t, d.last)
		if diff := runModel(d, d.last).tally.diff(tallyBook(b)); len(diff) > 0 {
			t.Fatalf("%s\n%q", formatBook(b), diff)
		}
	})
}

// TestBusyDaysMatchModel does the same for days with several purchases and sales of one ticker.
func TestBusyDaysMatchModel(t *testing.T) {
	property.Check(t, func(t *rapid.T) {
		d := drawBusy(t)
		b := d.build(t, d.last)
		if diff := runModel(d, d.last).tally.diff(tallyBook(b)); len(diff) > 0 {
			t.Fatalf("%s\n%q", formatBook(b), diff)
		}
	})
}

// TestExercisedCallsMatchModel does the same for histories that consist mostly of calls and their
// shares.
func TestExercisedCallsMatchModel(t *testing.T) {
	property.Check(t, func(t *rapid.T) {
		d := drawCalls(t)
		b := d.build(t, d.last)
		if diff := runModel(d, d.last).tally.diff(tallyBook(b)); len(diff) > 0 {
			t.Fatalf("%s\n%q", formatBook(b), diff)
		}
	})
}

// TestCorporateActionsMatchModel does the same for histories with spin-offs and exchanges.
func TestCorporateActionsMatchModel(t *testing.T) {
	property.Check(t, func(t *rapid.T) {
		d := drawCorporate(t)
		b := d.build(t, d.last)
		if diff := runModel(d, d.last).tally.diff(tallyBook(b)); len(diff) > 0 {
			t.Fatalf("%v\n%s\n%q", d.txs, formatBook(b), diff)
		}
	})
}
