package importer

import (
	"fmt"
	"regexp"
	"strings"

	"github.com/govalues/decimal"
)

// kind is what a broker's record does, before signs and options are looked at.
type kind int

const (
	unknown  kind = iota
	cash          // money only
	shares        // shares moved in a way the file does not fully tell
	short         // a short position or a written option
	buy           //
	sell          //
	reinvest      //
	split         // one half, or all, of a split
	reverse       // the same of a reverse split, which always has two halves unless it names its ratio
	capital       // a return of capital
	expire        // an option expired
	exercise      // an option was exercised or assigned
)

// meaning is a kind with the reason for leaving the record out, if it is.
type meaning struct {
	kind kind
	why  string
}

const (
	whyCash     = "cash only, no shares moved"
	whyDividend = "a dividend or distribution in cash; its reinvestment is a row of its own"
	whyTransfer = "shares moved between accounts: write a transfer in the own columns, with to_account"
	whyCorp     = "a corporate action the file does not fully tell: write what it did to the lots in the own columns"
	whyLieu     = "cash for a fraction of a share: write a sell of the fraction in the own columns"
	whyShort    = "opens or closes a short position or a written option, of which no lots are kept"
	whyReceived = "shares received without a price: write a buy, gift_in or inherit in the own columns"
	whyFund     = "a money market fund at a price of 1 is cash"
	whyBond     = "no lots are kept of bonds and certificates"
	whyBack     = "takes a trade back: if the trade itself is in the file, its row is wrong; write it in the own columns"
	whySettled  = "cash for an option that was settled in cash: write a sell of the contract in the own columns, instead of its assign"
	whyQuantity = "is an action of cash, but has a quantity: if shares moved, write them in the own columns"
	whyFooter   = "no transaction but text around the table"
	whyNoShares = "a word that is not known, without symbol and quantity: taken for cash"
)

// event is a broker's record in common terms. Numbers have the broker's signs.
type event struct {
	meaning
	// faults is how many there were before the record.
	faults   int
	at       place // of the record
	text     string
	ref      string
	date     string
	account  string
	ticker   string
	option   bool
	quantity number
	price    number
	fees     decimal.Decimal
	amount   number
	// multiplier is the shares of one option contract.
	multiplier decimal.Decimal
	currency   string
	// feesInAmount says that the broker has no column for fees: they are what the amount differs by.
	feesInAmount bool
	// signed says that the amount's sign is the direction of the cash. Some OFX servers leave it out.
	signed bool
	// held says that an option was held, where the sign of the quantity does not.
	held  bool
	ratio Ratio
	// reorg is the broker's number of a split, which both of its halves have.
	reorg string
}

// record puts an event where it belongs: a row, a half of a split, or the skipped. One with a fault belongs nowhere.
func (in *intake) record(e event) {
	if in.count() > e.faults {
		return
	}
	if e.kind >= buy && e.currency != "" && !isCurrency(e.currency) {
		in.add(e.at, "%q is no currency, expected three letters like USD", oneLine(e.currency))
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
	case short:
		in.short(e)
	case buy, sell, reinvest:
		in.trade(e)
	case split, reverse:
		in.split(e)
	case capital:
		if !e.amount.present || e.amount.IsZero() {
			in.add(e.at, "a return of capital without an amount, expected the cash received")
			return
		}
		in.row(e.at.line, e.ref, Row{Date: e.date, Account: e.account, Action: ReturnOfCapital, Ticker: e.ticker,
			Value: e.amount.Abs(), Currency: e.currency})
	case expire, exercise:
		in.closeOption(e)
	case unknown:
		in.add(e.at, "%s", e.why)
	}
}

func (in *intake) short(e event) {
	in.shorts++
	in.skip(e.at.line, e.text, whyShort, true)
}

// closeOption tells a held option from a written one by the sign: what was held goes out.
func (in *intake) closeOption(e event) {
	switch {
	case e.quantity.IsZero():
		in.add(e.at, "an option was closed without a quantity, expected the contracts, negative if they were held")
	case e.quantity.IsPos() && !e.held:
		in.short(e)
	default:
		in.row(e.at.line, e.ref, Row{Date: e.date, Account: e.account, Action: map[kind]Action{expire: Expire, exercise: Assign}[e.kind],
			Ticker: e.ticker, Quantity: e.quantity.Abs(), Currency: e.currency})
	}
}

// trade makes a row of a purchase or sale, once its numbers agree with each other.
func (in *intake) trade(e event) {
	if isMoneyFund(e) {
		in.skip(e.at.line, e.text, whyFund, false)
		return
	}
	if !e.quantity.present || e.quantity.IsZero() {
		in.add(e.at, "a trade of %s without a quantity, expected the number of shares", e.ticker)
		return
	}
	if e.kind != sell && e.quantity.IsNeg() {
		in.add(e.at, "a purchase of %s with the negative quantity %s, expected a positive one", e.ticker, e.quantity)
		return
	}
	if e.kind == buy && e.signed && e.amount.IsPos() {
		in.add(e.at, "a purchase of %s that brings in %s, expected a negative amount: if it takes a trade back, take both out of the file",
			e.ticker, e.amount)
		return
	}
	r := Row{Date: e.date, Account: e.account, Ticker: e.ticker, Quantity: e.quantity.Abs(), Currency: e.currency,
		Action: map[kind]Action{buy: Buy, sell: Sell, reinvest: Reinvest}[e.kind]}
	c := &calc{}
	r.Price, r.Fees = e.settle(c)
	if c.err != nil && cusipForm.MatchString(e.ticker) && e.amount.present {
		// Bonds have a CUSIP for a symbol and a price per 100.
		in.skip(e.at.line, e.text, whyBond, true)
		return
	}
	if c.err != nil {
		in.add(e.at, "%s: %v", e.ticker, c.err)
		return
	}
	in.row(e.at.line, e.ref, r)
}

var cusipForm = regexp.MustCompile(`^[0-9A-Z][0-9]{3}[0-9A-Z]{4}[0-9]$`)

// cash is the money of a trade, positive as it should be. Only of a sale with fees above its proceeds it is negative.
func (e event) cash() decimal.Decimal {
	if e.kind == sell && e.signed {
		return e.amount.Decimal
	}
	return e.amount.Abs()
}

// settle finds price and fees per share or contract, and refuses numbers that contradict each other: a bond's price
// per 100, or a multiplier that is not the one it seems, would otherwise become a wrong basis.
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
		c.fail("neither price nor amount is there, expected one of them")
	}
	if fees.IsNeg() {
		// A rebate: the price takes it, because fees are a cost.
		each := c.quo(fees.Abs(), quantity)
		if e.kind != sell {
			each = each.Neg()
		}
		price, fees = c.add(price, each).Round(10), decimal.Zero
	}
	if price.IsNeg() {
		c.fail("price and fees make a negative price of %s", price)
	}
	return price.Trim(0), fees.Trim(0)
}

// priceFromAmount is the price that makes quantity × price and fees exactly the cash that was paid.
func (e event) priceFromAmount(c *calc, fees decimal.Decimal) decimal.Decimal {
	gross := c.sub(e.cash(), fees)
	if e.kind == sell {
		gross = c.add(e.cash(), fees)
	}
	return c.quo(gross, e.quantity.Abs()).Round(10)
}

// reconcile compares quantity × price and the amount, and returns price and fees.
func (e event) reconcile(c *calc, price decimal.Decimal) (decimal.Decimal, decimal.Decimal) {
	quantity, amount, fees := e.quantity.Abs(), e.cash(), e.fees
	gross := c.mul(quantity, price)
	cost := c.sub(amount, gross)
	if e.kind == sell {
		cost = c.sub(gross, amount)
	}
	// The price is rounded where it was printed ($150 means $150.00), a fraction of shares too, the amount to cents.
	step := decimal.MustNew(1, min(max(e.price.scale, 2), decimal.MaxScale))
	if e.option {
		step = c.mul(step, e.multiplier)
	}
	slack := c.add(c.mul(quantity, step), decimal.MustNew(5, 2))
	if !quantity.IsInt() {
		slack = c.add(slack, c.mul(price, decimal.MustNew(5, min(e.quantity.Scale()+1, decimal.MaxScale))))
	}
	cent := decimal.MustNew(5, 3) // half of one: less is only the rounding of the amount
	if e.feesInAmount && cost.Cmp(cent) >= 0 && cost.Cmp(c.add(slack, c.mul(gross, decimal.MustNew(1, 2)))) <= 0 {
		return price, cost.Round(2)
	}
	off := c.sub(cost, fees).Abs()
	switch {
	case c.err != nil:
	case off.Cmp(slack) > 0:
		c.fail("quantity %s at a price of %s with fees of %s does not make the amount of %s: "+
			"if this is a bond or has another unit, write the row in the own columns", quantity, price, fees, amount)
	case off.Cmp(cent) >= 0:
		// The printed price is rounded by so much that it shows. The cash is what the basis is made of.
		price = e.priceFromAmount(c, fees)
	}
	return price, fees
}

var fundWords = regexp.MustCompile(`(?i)money market|fdic[- ]insured|insured deposit|bank deposit|bank sweep|core account|cash reserves`)

// isMoneyFund knows cash that is dressed as a fund: five letters ending in XX, at a price of 1 or none, or a price of 1
// and a name that says so.
func isMoneyFund(e event) bool {
	if e.option || e.price.present && !e.price.IsOne() {
		return false
	}
	return len(e.ticker) == 5 && strings.HasSuffix(e.ticker, "XX") || e.price.present && fundWords.MatchString(e.text)
}

// leg is one half of a split: shares in, or shares out.
type leg struct {
	event
	done bool
}

func (in *intake) split(e event) {
	if !e.ratio.IsZero() {
		in.row(e.at.line, e.ref, Row{Date: e.date, Account: e.account, Action: Split, Ticker: e.ticker, Ratio: e.ratio})
		return
	}
	if e.quantity.IsZero() {
		in.add(e.at, "a split of %s without a quantity, expected the shares added or taken", e.ticker)
		return
	}
	in.legs = append(in.legs, leg{event: e})
}

// joinLegs makes rows of splits. A broker that books the old shares out and the new ones in tells the exact ratio;
// one that books only the added shares does not, and the row says how many they are.
func (in *intake) joinLegs() {
	byKey := make(map[string][]*leg)
	key := func(l *leg) string {
		if l.reorg != "" {
			return l.account + "\x1f" + l.date + "\x1f#" + l.reorg
		}
		return l.account + "\x1f" + l.date + "\x1f" + l.ticker
	}
	for i := range in.legs {
		l := &in.legs[i]
		byKey[key(l)] = append(byKey[key(l)], l)
	}
	for i := range in.legs {
		l := &in.legs[i]
		if l.done {
			continue
		}
		group := byKey[key(l)]
		c := &calc{}
		var into, out decimal.Decimal
		tickers := make(map[string]bool)
		ticker, back := l.ticker, false
		for _, g := range group {
			g.done = true
			back = back || g.kind == reverse
			if g.quantity.IsNeg() {
				out = c.add(out, g.quantity.Abs())
			} else {
				into = c.add(into, g.quantity.Decimal)
				ticker = g.ticker
			}
			// The old shares of a reverse split have their old CUSIP for a symbol.
			if !cusipForm.MatchString(g.ticker) {
				tickers[g.ticker] = true
			}
		}
		r := Row{Date: l.date, Account: l.account, Action: Split, Ticker: ticker}
		switch {
		case c.err != nil:
			in.add(l.at, "split of %s: %v", l.ticker, c.err)
			continue
		case into.IsZero(), out.IsZero() && back:
			in.add(l.at, "the split of %s takes %s shares and gives %s, expected a second row on %s under the same ticker; "+
				"write it in the own columns, with a ratio", l.ticker, out, into, l.date)
			continue
		case len(tickers) > 1:
			for _, g := range group {
				in.skip(g.at.line, g.text, whyCorp, true)
			}
			continue
		case out.IsZero():
			r.Quantity = into.Trim(0)
			in.note("line %d: the split of %s names no ratio, only %s shares added", l.at.line, l.ticker, into)
		default:
			r.Ratio = Ratio{New: into.Trim(0), Old: out.Trim(0)}
		}
		in.row(l.at.line, l.ref, r)
	}
}

// calc does sums and keeps the first error, so that a formula reads as one.
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
