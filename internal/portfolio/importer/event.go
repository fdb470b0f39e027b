package importer

import (
	"fmt"
	"strings"

	"signalbox/internal/lazy"
	"signalbox/internal/portfolio/tax"

	"github.com/govalues/decimal"
)

// kind is what a broker's record does, before the signs of its numbers are considered.
type kind int

const (
	unknown  kind = iota
	cash          // money only
	shares        // shares moved, but the file does not say enough for a row
	short         // a short position, or a written option without further details
	write         // sells an option to open
	cover         // closes a written option
	assigned      // a written option was assigned
	buy
	sell
	reinvest
	split    // a split, or one half of it
	rename   // one half of a change of the ticker
	reverse  // a reverse split, which has two halves unless it names its ratio
	capital  // a return of capital
	expire   // an option expired
	exercise // an option was exercised or assigned
)

// meaning is the kind of a record, and the reason for skipping it if it is skipped.
type meaning struct {
	kind kind
	why  string
}

const (
	whyCash     = "cash only, no shares moved"
	whyDividend = "a dividend or distribution in cash; its reinvestment is a row of its own"
	whyTransfer = "shares moved between accounts: add a transfer row with to_account in signalbox CSV"
	whyCorp     = "a corporate action without all its details: add a spin_off or exchange row in signalbox CSV"
	whyLieu     = "cash for a fraction of a share: add a cash_in_lieu row for the fraction in signalbox CSV"
	whyReceived = "shares received without a price: add a buy, gift_in or inherit row in signalbox CSV"
	whyFund     = "a money market fund at a price of 1 is cash"
	whyBond     = "no lots are kept for bonds and certificates of deposit"
	whyBack     = "cancels a trade: if the trade is in the file, its row is wrong; replace it by a row in signalbox CSV"
	whySettled  = "cash for an option that was settled in cash: replace its assign row by a sell row in signalbox CSV"
	whyQuantity = "a cash action with a quantity: if shares moved, add a row for them in signalbox CSV"
	whyFooter   = "text around the table, not a transaction"
	whyCapital  = "a return of capital lowers the basis: add a return_of_capital row for it in signalbox CSV"
	whyNoShares = "an unknown action without symbol and quantity: treated as cash"
)

// WhyShort is the reason for skipping the records of short positions and written options.
const WhyShort = "opens or closes a short position or a written option, for which no lots are kept"

// event is a broker's record in terms common to all formats. Numbers have the broker's signs.
type event struct {
	meaning
	// faults is the number of faults found before this record.
	faults   int
	at       position // of the record
	text     string
	ref      string
	date     tax.Date
	time     tax.Clock // of a trade
	account  string
	ticker   string
	option   bool
	quantity number
	price    number
	fees     decimal.Decimal
	amount   number
	// multiplier is the number of shares in one option contract.
	multiplier decimal.Decimal
	currency   string
	// feesInAmount is set if the broker has no column for fees: they are the difference between
	// amount and quantity × price.
	feesInAmount bool
	// signed is set if the sign of the amount is the direction of the cash. Some OFX servers leave
	// the sign out.
	signed bool
	// held is set if an option was held, for formats in which the sign of the quantity does not
	// show it.
	held  bool
	ratio Ratio
	// reorg is the broker's number for a split, which both halves have.
	reorg string
	// effective is the first day of a corporate action, if it was booked after the close of the day
	// before. The ID of its row uses the day on which it was booked.
	effective tax.Date
}

// record adds an event to the rows, the halves of splits or the skipped records. An event with a
// fault is dropped.
func (in *input) record(e event) {
	if in.faultCount() > e.faults {
		return
	}
	if e.kind >= buy && e.currency != "" && !isCurrency(e.currency) {
		in.addFault(e.at, "%q is not a currency, expected three letters like USD",
			oneLine(e.currency))
		return
	}
	switch e.kind {
	case cash:
		if !e.quantity.IsZero() && e.why != whyFund {
			in.skip(e.at.line, e.text, whyQuantity, true)
			return
		}
		in.skip(e.at.line, e.text, e.why, false)
	case shares:
		in.skip(e.at.line, e.text, e.why, true)
	case short, write, cover, assigned:
		in.skipShort(e)
	case buy, sell, reinvest:
		in.addTrade(e)
	case split, reverse:
		in.addSplit(e)
	case capital:
		if !e.amount.present || e.amount.IsZero() {
			in.addFault(e.at, "a return of capital has no amount, expected the cash received")
			return
		}
		r := e.row(ReturnOfCapital)
		r.Value = e.amount.Abs()
		in.addRow(e.at.line, e.ref, r)
	case expire, exercise:
		in.addOptionClosure(e)
	case unknown:
		in.addFault(e.at, "%s", e.why)
	}
}

// row returns the row of an event, without its numbers.
func (e event) row(a Action) Row {
	return Row{Transaction: tax.Transaction{Date: e.date, Account: e.account, Action: a,
		Ticker: e.ticker, Time: e.time}, Currency: e.currency}
}

func (in *input) skipShort(e event) {
	in.shorts++
	if e.option && e.kind != short {
		in.written = append(in.written, writtenOption{e, len(in.imp.Skipped)})
	}
	in.skip(e.at.line, e.text, WhyShort, true)
}

// addOptionClosure handles an option that ended. A negative quantity means that it was held, a
// positive one that it was written.
func (in *input) addOptionClosure(e event) {
	switch {
	case e.quantity.IsZero():
		in.addFault(e.at, "an option was closed without a quantity, expected the number of contracts, negative if they were held")
	case e.quantity.IsPos() && !e.held:
		if e.kind == expire {
			e.kind = cover
		} else {
			e.kind = short
		}
		in.skipShort(e)
	default:
		r := e.row(map[kind]Action{expire: Expire, exercise: Assign}[e.kind])
		r.Quantity = e.quantity.Abs()
		in.addRow(e.at.line, e.ref, r)
	}
}

// addTrade adds the row of a purchase or sale if its numbers are consistent.
func (in *input) addTrade(e event) {
	if isMoneyFund(e) {
		in.skip(e.at.line, e.text, whyFund, false)
		return
	}
	if !e.quantity.present || e.quantity.IsZero() {
		in.addFault(e.at, "a trade of %s has no quantity, expected the number of shares", e.ticker)
		return
	}
	if e.kind != sell && e.quantity.IsNeg() {
		in.addFault(e.at, "a purchase of %s has the negative quantity %s, expected a positive one",
			e.ticker, e.quantity)
		return
	}
	if e.kind == buy && e.signed && e.amount.IsPos() {
		in.addFault(e.at, "a purchase of %s has the positive amount %s, expected a negative one: if it cancels a trade, remove both from the file",
			e.ticker, e.amount)
		return
	}
	r := e.row(map[kind]Action{buy: Buy, sell: Sell, reinvest: Reinvest}[e.kind])
	r.Quantity = e.quantity.Abs()
	c := &calc{}
	r.Price, r.Fees = e.settle(c)
	if c.err != nil && cusipForm().MatchString(e.ticker) && e.amount.present {
		// Bonds have a CUSIP as their symbol and a price per 100.
		in.skip(e.at.line, e.text, whyBond, true)
		return
	}
	if c.err != nil {
		in.addFault(e.at, "%s: %v", e.ticker, c.err)
		return
	}
	in.addRow(e.at.line, e.ref, r)
}

var cusipForm = lazy.Regexp(`^[0-9A-Z][0-9]{3}[0-9A-Z]{4}[0-9]$`)

// cash returns the money of a trade. It is negative only for a sale whose fees exceed its proceeds.
func (e event) cash() decimal.Decimal {
	if e.kind == sell && e.signed {
		return e.amount.Decimal
	}
	return e.amount.Abs()
}

// settle returns the price per share or contract and the fees. It refuses numbers that contradict
// each other: a bond's price per 100, or a wrong multiplier, would become a wrong basis.
func (e event) settle(c *calc) (price, fees decimal.Decimal) {
	quantity := e.quantity.Abs()
	price, fees = e.price.Abs(), e.fees
	if e.option {
		price = c.mul(price, e.multiplier)
	}
	switch {
	case e.price.present && e.amount.present:
		price, fees = e.reconcile(c, price)
	case e.amount.present:
		price = e.priceFromAmount(c, fees)
	case !e.price.present:
		c.fail("there is neither a price nor an amount, expected one of them")
	}
	if fees.IsNeg() {
		// A rebate changes the price, because fees are never negative.
		each := c.quo(fees.Abs(), quantity)
		if e.kind != sell {
			each = each.Neg()
		}
		price, fees = c.add(price, each).Round(10), decimal.Zero
	}
	if price.IsNeg() {
		c.fail("price and fees give the negative price %s", price)
	}
	return price.Trim(0), fees.Trim(0)
}

// priceFromAmount returns the price for which quantity × price and the fees give exactly the cash
// that was paid.
func (e event) priceFromAmount(c *calc, fees decimal.Decimal) decimal.Decimal {
	gross := c.sub(e.cash(), fees)
	if e.kind == sell {
		gross = c.add(e.cash(), fees)
	}
	return c.quo(gross, e.quantity.Abs()).Round(10)
}

// reconcile compares quantity × price with the amount and returns the price and the fees.
func (e event) reconcile(c *calc, price decimal.Decimal) (decimal.Decimal, decimal.Decimal) {
	quantity, amount, fees := e.quantity.Abs(), e.cash(), e.fees
	gross := c.mul(quantity, price)
	cost := c.sub(amount, gross)
	if e.kind == sell {
		cost = c.sub(gross, amount)
	}
	// The printed price is rounded to its last digit ($150 means $150.00), and so are fractions of
	// shares; the amount is rounded to cents.
	step := decimal.MustNew(1, min(max(e.price.scale, 2), decimal.MaxScale))
	if e.option {
		step = c.mul(step, e.multiplier)
	}
	slack := c.add(c.mul(quantity, step), decimal.MustNew(5, 2))
	if !quantity.IsInt() {
		slack = c.add(slack,
			c.mul(price, decimal.MustNew(5, min(e.quantity.Scale()+1, decimal.MaxScale))))
	}
	cent := decimal.MustNew(5, 3) // half a cent: a smaller difference is the rounding of the amount
	if e.feesInAmount && cost.Cmp(cent) >= 0 &&
		cost.Cmp(c.add(slack, c.mul(gross, decimal.MustNew(1, 2)))) <= 0 {
		return price, cost.Round(2)
	}
	off := c.sub(cost, fees).Abs()
	switch {
	case c.err != nil:
	case off.Cmp(slack) > 0:
		c.fail("quantity %s at a price of %s with fees of %s does not give the amount %s: "+
			"if this is a bond or has another unit, write the row in signalbox CSV", quantity,
			price, fees, amount)
	case off.Cmp(cent) >= 0:
		// The printed price is rounded too much. The basis is the cash that was paid.
		price = e.priceFromAmount(c, fees)
	}
	return price, fees
}

var fundWords = lazy.Regexp(
	`(?i)money market|fdic[- ]insured|insured deposit|bank deposit|bank sweep|core account|cash reserves`)

// isMoneyFund reports whether the security is a money market fund, which counts as cash: it has
// five letters ending in XX and a price of 1 or none, or a price of 1 and a name that says so.
func isMoneyFund(e event) bool {
	if e.option || e.price.present && !e.price.IsOne() {
		return false
	}
	return len(e.ticker) == 5 && strings.HasSuffix(e.ticker, "XX") || e.price.present &&
		fundWords().MatchString(e.text)
}

// postpone sets the day of the next row, after its ID was computed.
func (in *input) postpone(effective tax.Date) {
	if effective == 0 {
		return
	}
	if in.effective == nil {
		in.effective = make(map[int]tax.Date)
	}
	in.effective[len(in.imp.Rows)] = effective
}

func (in *input) addSplit(e event) {
	if !e.ratio.IsZero() {
		in.postpone(e.effective)
		in.addRow(e.at.line, e.ref, Row{Transaction: tax.Transaction{Date: e.date,
			Account: e.account, Action: Split, Ticker: e.ticker, Ratio: e.ratio}})
		return
	}
	if e.quantity.IsZero() {
		in.addFault(e.at, "a split of %s has no quantity, expected the shares added or removed",
			e.ticker)
		return
	}
	in.legs = append(in.legs, e)
}

// joinLegs adds the rows of splits. A broker that books the old shares out and the new ones in
// gives the exact ratio. If it books only the added shares, the row has their number instead.
func (in *input) joinLegs() {
	var groups [][]event // the legs of each split
	index := make(map[string]int)
	in.nameOldShares()
	for _, l := range in.legs {
		key := l.account + "\x1f" + l.date.String() + "\x1f" + l.ticker
		if l.reorg != "" {
			key = l.account + "\x1f" + l.date.String() + "\x1f#" + l.reorg
		}
		i, known := index[key]
		if !known {
			i, groups = len(groups), append(groups, nil)
			index[key] = i
		}
		groups[i] = append(groups[i], l)
	}
	for _, group := range groups {
		l, c := group[0], &calc{}
		var into, out decimal.Decimal
		tickers := make(map[string]bool)
		ticker, back := l.ticker, false
		for _, g := range group {
			back = back || g.kind == reverse
			if g.quantity.IsNeg() {
				out = c.add(out, g.quantity.Abs())
			} else {
				into = c.add(into, g.quantity.Decimal)
				ticker = g.ticker
			}
			// The old shares of a reverse split have their old CUSIP as the symbol.
			if !cusipForm().MatchString(g.ticker) {
				tickers[g.ticker] = true
			}
		}
		r := Row{Transaction: tax.Transaction{Date: l.date, Account: l.account, Action: Split,
			Ticker: ticker}}
		if l.kind == rename {
			in.addRename(group, into, out, c.err)
			continue
		}
		switch {
		case c.err != nil:
			in.addFault(l.at, "split of %s: %v", l.ticker, c.err)
			continue
		case into.IsZero(), out.IsZero() && back:
			in.addFault(l.at, "the split of %s removes %s shares and adds %s, expected a second record on %s with the same ticker; "+
				"write the split with its ratio in signalbox CSV", l.ticker, out, into, l.date)
			continue
		case len(tickers) > 1:
			for _, g := range group {
				in.skip(g.at.line, g.text, whyCorp, true)
			}
			continue
		case out.IsZero():
			r.Quantity = into.Trim(0)
			in.note("line %d: the split of %s has no ratio, only %s added shares", l.at.line,
				l.ticker, into)
		default:
			r.Ratio = Ratio{New: into.Trim(0), Old: out.Trim(0)}
		}
		in.addRow(l.at.line, l.ref, r)
	}
}

// nameOldShares gives the old shares of a reverse split, which some brokers book out under their
// CUSIP, the ticker of the only new shares of that day.
func (in *input) nameOldShares() {
	for i := range in.legs {
		old := &in.legs[i]
		if old.kind != reverse || old.reorg != "" || !old.quantity.IsNeg() ||
			!cusipForm().MatchString(old.ticker) {
			continue
		}
		tickers := make(map[string]bool)
		for _, l := range in.legs {
			if l.kind == reverse && l.account == old.account && l.date == old.date &&
				l.quantity.IsPos() {
				tickers[l.ticker] = true
			}
		}
		if len(tickers) == 1 {
			for ticker := range tickers {
				old.ticker = ticker
			}
		}
	}
}

// addRename adds the row of a change of the ticker, which has a record for the old shares and one
// for the new ones.
func (in *input) addRename(legs []event, into, out decimal.Decimal, err error) {
	r := Row{Transaction: tax.Transaction{Date: legs[0].date, Account: legs[0].account,
		Action: Exchange, Ratio: Ratio{New: into.Trim(0), Old: out.Trim(0)}}}
	for _, l := range legs {
		if l.quantity.IsNeg() {
			r.Ticker = l.ticker
		} else {
			r.NewTicker = l.ticker
		}
	}
	whole := err == nil && into.IsPos() && out.IsPos()
	if whole && r.Ticker != r.NewTicker {
		in.postpone(legs[0].effective)
		in.addRow(legs[0].at.line, legs[0].ref, r)
		return
	}
	for _, l := range legs {
		if whole && into.Equal(out) {
			in.skip(l.at.line, l.text, "only the number of the security changed", false)
		} else {
			in.skip(l.at.line, l.text, whyCorp, true)
		}
	}
}

// calc does arithmetic and keeps the first error, so that formulas stay readable.
type calc struct{ err error }

func (c *calc) fail(format string, args ...any) {
	if c.err == nil {
		c.err = fmt.Errorf(format, args...)
	}
}

func (c *calc) keep(d decimal.Decimal, err error) decimal.Decimal {
	if err != nil {
		c.fail("a number is too large: %w", err)
	}
	return d
}

func (c *calc) mul(a, b decimal.Decimal) decimal.Decimal { return c.keep(a.Mul(b)) }
func (c *calc) add(a, b decimal.Decimal) decimal.Decimal { return c.keep(a.Add(b)) }
func (c *calc) sub(a, b decimal.Decimal) decimal.Decimal { return c.keep(a.Sub(b)) }
func (c *calc) quo(a, b decimal.Decimal) decimal.Decimal { return c.keep(a.Quo(b)) }
