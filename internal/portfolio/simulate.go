package portfolio

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/govalues/decimal"

	"signalbox/brief"
	"signalbox/internal/portfolio/answer"
	"signalbox/internal/portfolio/exitrule"
	"signalbox/internal/portfolio/tax"
	"signalbox/internal/text"
)

// SimulateQuery is a question to simulate_sale. Empty fields have the default in the comment.
type SimulateQuery struct {
	Ticker    string
	Shares    string   // a number; default: the whole position, or the lots
	Cash      string   // the proceeds that are wanted, instead of Shares
	AccountID string   // required if several accounts hold the ticker
	Lots      []string // lot ids, sold in this order; default: by Method
	Method    string   // default: the lot method of the account
	Price     string   // a number; default: the last price
	AsOf      string   // a date; default: as_of in portfolio.yaml, or today
	Format    string   // default: agent
	Output    string   // default: inline
}

// SimulateSale says what a sale that was not made yet would do.
func (d *Desk) SimulateSale(ctx context.Context, q SimulateQuery) Answer {
	return query[answer.SimulationResult, answer.SimulationSnapshot]{
		tool: answer.SimulationTool(), filePrefix: answer.SimulationFilePrefix,
		format: cmp.Or(q.Format, string(brief.FormatAgent)), output: q.Output,
		failed: func(p *Problem) answer.SimulationResult { return failedSimulation(q, p) },
		compute: func() (answer.SimulationResult, string, *Problem) {
			result := d.Simulate(ctx, q)
			return result, result.Ticker, problemOf(result.Status, result.Error, result.Problem)
		},
	}.answer(ctx, d)
}

// Simulate is like SimulateSale. A problem gives a result of status error.
func (d *Desk) Simulate(ctx context.Context, q SimulateQuery) answer.SimulationResult {
	wanted, problem := q.parse()
	if problem != nil {
		return failedSimulation(q, problem)
	}
	data, day, problem := d.open(ctx, q.AsOf)
	if problem != nil {
		return failedSimulation(q, problem)
	}
	result, problem := data.simulate(wanted, day)
	if problem != nil {
		return failedSimulation(q, problem)
	}
	return result
}

func failedSimulation(q SimulateQuery, problem *Problem) answer.SimulationResult {
	return answer.SimulationResult{Ticker: givenTicker(q.Ticker),
		Status: string(brief.StatusError), Error: problem.Text,
		Problem: answer.Problem{ErrorKind: problem.Kind, ErrorHint: problem.Hint}}
}

// wantedSale is a sale that was asked for.
type wantedSale struct {
	ticker, account     string
	shares, cash, price Decimal // zero: not given
	lots                []string
	method              tax.Method
}

// parse returns the sale that a question asks for.
func (q SimulateQuery) parse() (wantedSale, *Problem) {
	w := wantedSale{account: q.AccountID, method: tax.Method(q.Method), lots: q.Lots}
	var problem *Problem
	w.ticker, w.shares, problem = ExitQuery{Ticker: q.Ticker, Shares: q.Shares}.parse()
	if problem != nil {
		return w, problem
	}
	for _, n := range []struct {
		name, text string
		into       *Decimal
	}{{"cash", q.Cash, &w.cash}, {"price", q.Price, &w.price}} {
		if n.text == "" {
			continue
		}
		var err error
		if *n.into, err = decimal.Parse(n.text); err != nil || !n.into.IsPos() {
			return w, problemf(BadArgument, "give an amount in dollars, such as 1000",
				"%s %q is not an amount above 0", n.name, text.Shorten(n.text, 40))
		}
	}
	methods := []tax.Method{"", tax.FIFO, tax.LIFO, tax.HIFO, tax.MinTax}
	switch {
	case q.Shares != "" && q.Cash != "":
		return w, problemf(BadArgument, "give one of them", "both shares and cash are given")
	case len(q.Lots) > 0 && q.Method != "":
		return w, problemf(BadArgument, "give one of them", "both lots and a method are given")
	case !slices.Contains(methods, w.method):
		return w, problemf(BadArgument, "use fifo, lifo, hifo or min_tax, or name lots",
			"method %q is not known", text.Shorten(q.Method, 40))
	}
	return w, nil
}

// simulate says what a sale on a day would do.
func (d *Data) simulate(w wantedSale, day tax.Date) (answer.SimulationResult, *Problem) {
	var none answer.SimulationResult
	if problem := d.checkKnown(w.account); problem != nil {
		return none, problem
	}
	if !d.traded(w.ticker) {
		return none, problemf(UnknownTicker, d.knownTickers(), "%s is not in any transaction",
			w.ticker)
	}
	book, problem := d.build(day)
	if problem != nil {
		return none, problem
	}
	held, problem := d.holdings(book, w.ticker)
	if problem != nil {
		return none, problem
	}
	result := answer.SimulationResult{Status: string(brief.StatusSuccess), Ticker: w.ticker,
		AsOf: day.String(), Price: amount(w.price)}
	if w.price.IsZero() {
		last, problem := d.quote(w.ticker, day, d.splits(day)[w.ticker])
		if problem != nil {
			return none, problem
		}
		w.price, result.Price, result.PriceDate = last.Decimal, amount(last.Decimal),
			last.date.String()
		if day-last.date > freshDays {
			result.StalePriceDays = int(day - last.date)
		}
	}
	planned, position, problem := w.plan(book, held)
	if problem != nil {
		return none, problem
	}
	sale, problem := d.trySale(book, planned)
	if problem != nil {
		return none, problem
	}
	a, _ := d.account(position.AccountID)
	result.AccountID, result.Held = position.AccountID, amount(position.Held)
	byDefault := a.Method
	if byDefault == tax.Specific {
		byDefault = tax.FIFO // as in the regulations, if no lot is identified
	}
	result.LotMethod = string(cmp.Or(w.method, byDefault))
	result.Identify = len(w.lots) > 0 || result.LotMethod != string(byDefault)
	return result, d.addSimulation(&result, book, sale, a)
}

// plan returns the sale as rows, and the position that it is of.
func (w wantedSale) plan(book *tax.Book, held []exitrule.Holding) ([]tax.PlannedSale,
	exitrule.Position, *Problem) {
	position, err := exitrule.ChoosePosition(exitrule.Input{Ticker: w.ticker, AccountID: w.account,
		Shares: w.shares, Holdings: held})
	if err == nil && position.Held.IsZero() {
		err = fmt.Errorf("no account holds %s: there is nothing to sell", w.ticker)
		return nil, position, problemf(NotHeld, exitProblems[exitrule.NotHeld].ErrorHint, "%v", err)
	}
	if err != nil {
		known := exitProblems[exitrule.FailureOf(err)]
		return nil, position, problemf(known.ErrorKind, known.ErrorHint, "%v", err)
	}
	shares := position.Shares
	if !w.cash.IsZero() {
		if shares, err = sharesFor(w.cash, w.price, position.Held); err != nil {
			return nil, position, asProblem(err, BadArgument,
				"the whole position is worth less: ask for less cash, or omit it")
		}
	}
	one := tax.PlannedSale{Account: position.AccountID, Ticker: w.ticker, Quantity: shares,
		Price: w.price, Method: w.method}
	if len(w.lots) == 0 {
		return []tax.PlannedSale{one}, position, nil
	}
	whole := w.shares.IsZero() && w.cash.IsZero()
	planned, problem := fromLots(one, w.lots, book, whole)
	return planned, position, problem
}

// sharesFor returns how many shares give an amount of cash, rounded up to what can be sold: whole
// shares, or the fractions of the position.
func sharesFor(cash, price, held Decimal) (Decimal, error) {
	exact, err := cash.Quo(price)
	if err != nil {
		return exact, fmt.Errorf("dividing %s by the price: %w", cash, err)
	}
	shares := exact.Ceil(held.MinScale()).Trim(0)
	if shares.Cmp(held) > 0 {
		return shares, fmt.Errorf("%s in cash needs %s shares, and only %s are held", cash, shares,
			held)
	}
	return shares, nil
}

// fromLots divides a sale among named lots, in their order. With whole it sells all of them.
func fromLots(sale tax.PlannedSale, names []string, book *tax.Book,
	whole bool) ([]tax.PlannedSale, *Problem) {
	var n sums
	open, known := make(map[string]Decimal), []string{}
	for i := range book.Lots {
		l := &book.Lots[i]
		if l.Account != sale.Account || l.Ticker != sale.Ticker {
			continue
		}
		sum, seen := open[l.LotID]
		if !seen {
			known = append(known, l.LotID)
		}
		n.add(&sum, l.Quantity)
		open[l.LotID] = sum
	}
	var list []tax.PlannedSale
	left := sale.Quantity
	for _, name := range names {
		quantity := open[name]
		if quantity.IsZero() {
			return nil, problemf(BadArgument, "name each lot once, of "+text.JoinSome(known, 10),
				"%s has no open lot %q of %s", sale.Account, text.Shorten(name, 40), sale.Ticker)
		}
		open[name] = decimal.Zero
		if !whole {
			quantity = quantity.Min(left)
		}
		n.add(&left, quantity.Neg())
		if quantity.IsPos() {
			one := sale
			one.LotID, one.Quantity = name, quantity
			list = append(list, one)
		}
	}
	switch {
	case n.err != nil:
		return nil, asProblem(n.err, NotComputable, amountsHint)
	case !whole && left.IsPos():
		return nil, problemf(BadArgument, "name more lots, or sell fewer shares",
			"the lots have %s shares too few", left.Trim(0))
	}
	return list, nil
}

// trySale simulates a sale of one position. It is a problem if the lots are not known that the sale
// would take: no answer is better than a wrong number.
func (d *Data) trySale(book *tax.Book, planned []tax.PlannedSale) (*tax.Simulation, *Problem) {
	account, ticker := planned[0].Account, planned[0].Ticker
	switch {
	case tax.Section1256(ticker):
		return nil, problemf(NotComputable, "ask a tax adviser",
			"%s is a contract under section 1256, whose gain is not that of lots", ticker)
	case d.averageCost()[ticker]:
		return nil, problemf(NotComputable,
			"list in average_cost in portfolio.yaml which funds your broker keeps at average cost",
			"brokers keep %s at average cost, and a sale does not take lots", ticker)
	}
	if named := d.namedTickers(); named.unknown[ticker] {
		return nil, problemf(IncompleteHistory, "signalbox portfolio harvest lists the records",
			"records that are missing changed the lots of %s", ticker)
	}
	if _, found := soldOfSum(book, planned); found {
		return nil, problemf(IncompleteHistory, "sell the whole position, or import its lots: signalbox portfolio import --positions, with a column acquired",
			"the lot of %s is the sum of several, by the list of positions", ticker)
	}
	held, problem := d.held(book)
	if problem != nil {
		return nil, problem
	}
	missing, surplus, err := tax.Reconcile(book, held, []string{account})
	if err != nil {
		return nil, asProblem(err, NotComputable, amountsHint)
	}
	for _, p := range slices.Concat(missing, surplus) {
		if p.Ticker == ticker && (planned[0].LotID == "" || p.Held.Cmp(p.Lots) < 0) {
			return nil, problemf(IncompleteHistory,
				"signalbox portfolio harvest names the records; add what is missing",
				"%s holds %s shares of %s and its lots have %s", account, p.Held, ticker, p.Lots)
		}
	}
	sale, err := tax.Simulate(d.Rules, d.transactions, book.AsOf, planned)
	if err != nil {
		return nil, fileProblem(err)
	}
	if len(sale.Missing) > 0 {
		return nil, problemf(IncompleteHistory,
			"signalbox portfolio harvest names the records; add what is missing",
			"%s of the shares of %s have no lot", sale.Missing[0].Quantity, ticker)
	}
	return sale, nil
}

// outcomeOf returns what a simulated sale does.
func outcomeOf(sale *tax.Simulation) (answer.SaleOutcome, error) {
	o := answer.SaleOutcome{CleanDate: sale.CleanFrom.String(), DoNotBuy: []string{}}
	var n sums
	for i := range sale.Sales {
		s := &sale.Sales[i]
		if !s.Taxable {
			o.NotTaxed = true
			continue
		}
		into := &o.ShortTerm.Decimal
		if s.LongTerm {
			into = &o.LongTerm.Decimal
		}
		n.add(into, s.Gain)
		n.add(into, s.Disallowed)
		n.add(&o.WashSales.Decimal, s.Disallowed)
		n.add(&o.Permanent.Decimal, s.Permanent)
	}
	for _, r := range sale.BuyAgain {
		o.DoNotBuy = append(o.DoNotBuy, r.Tickers...)
		o.DoNotBuyBefore = max(o.DoNotBuyBefore, r.Before.String())
	}
	return o, n.err
}

// addSimulation adds what a sale in an account does to the lots and to the year.
func (d *Data) addSimulation(result *answer.SimulationResult, book *tax.Book,
	sale *tax.Simulation, a tax.Account) *Problem {
	var err error
	var n sums
	if result.SaleOutcome, err = outcomeOf(sale); err != nil {
		return asProblem(err, NotComputable, amountsHint)
	}
	for i := range sale.Sales {
		s := &sale.Sales[i]
		result.Lots = append(result.Lots, answer.SoldLot{LotDate: s.LotDate.String(),
			HoldingStart: s.HoldingStart.String(), Shares: amount(s.Quantity.Trim(0)),
			Proceeds: amount(s.Proceeds.Trim(0)), Basis: amount(s.Basis.Trim(0)),
			Gain: amount(s.Gain.Trim(0)), Disallowed: amount(s.Disallowed.Trim(0)),
			Permanent: amount(s.Permanent.Trim(0)), LongTerm: s.LongTerm})
		n.add(&result.Shares.Decimal, s.Quantity)
		n.add(&result.Proceeds.Decimal, s.Proceeds)
	}
	if n.err != nil {
		return asProblem(n.err, NotComputable, amountsHint)
	}
	for _, w := range sale.WashSales {
		result.WashSalePurchases = append(result.WashSalePurchases, purchases(w.Replacements)...)
	}
	if result.NotTaxed {
		return nil
	}
	if result.DoNotBuyBefore != "" {
		result.Replacements = d.replacementsOf(result.Ticker,
			slices.Concat(sale.BuyAgain, book.Restricted()))
	}
	found := &tax.HarvestResult{DoNotBuy: sale.BuyAgain}
	result.LaterPurchases = d.laterPurchases(book.AsOf, found)
	for _, e := range d.expectedReinvestments(book, found) {
		if e.Restricted {
			result.ExpectedReinvestments = append(result.ExpectedReinvestments, e)
		}
	}
	var problem *Problem
	result.Year, problem = d.yearEffect(book, result.SaleOutcome, a)
	return problem
}

// yearEffect returns what a sale in an account does to the year of its owner.
func (d *Data) yearEffect(book *tax.Book, o answer.SaleOutcome,
	a tax.Account) (*answer.YearEffect, *Problem) {
	all, problem := d.buildAll(book)
	if problem != nil {
		return nil, problem
	}
	y := &answer.YearEffect{}
	for _, n := range []struct {
		into        *answer.NetPosition
		short, long Decimal
	}{{&y.Before, decimal.Zero, decimal.Zero},
		{&y.After, o.ShortTerm.Decimal, o.LongTerm.Decimal}} {
		net, problem := d.net(all, book.AsOf, []string{a.ID}, n.short, n.long)
		if problem != nil {
			return nil, problem
		}
		*n.into = *net
	}
	r := d.Config.TaxRates
	switch {
	case !r.Known():
		y.TaxUnknown = "add your rates to portfolio.yaml: tax_rates: {short_term: 0.24, long_term: 0.15}"
		return y, nil
	case y.Before.Carryover == answer.CarryoverUnknown:
		y.TaxUnknown = "losses carried over are not known: set them under realized in portfolio.yaml"
		return y, nil
	}
	var n numbers
	rates := answer.TaxRates{ShortTerm: n.decimal(r.ShortTerm), LongTerm: n.decimal(r.LongTerm),
		State: n.decimal(r.State), NIIT: n.decimal(r.NIIT)}
	before, err := y.Before.Tax(rates)
	after, afterErr := y.After.Tax(rates)
	tax, subErr := after.Sub(before.Decimal)
	if err := errors.Join(n.err, err, afterErr, subErr); err != nil {
		return nil, asProblem(err, NotComputable, amountsHint)
	}
	y.Tax = &answer.Amount{Decimal: tax.Trim(0)}
	return y, nil
}

// saleOf returns what a sale of shares does, for exit signals; unknown says why it is not known. Both are empty if the position is not in the transactions.
func (d *Data) saleOf(book *tax.Book, account, ticker string, shares,
	price Decimal) (o *answer.SaleOutcome, unknown string) {
	if account == "" || !d.traded(ticker) || !shares.IsPos() || !price.IsPos() {
		return nil, ""
	}
	sale, problem := d.trySale(book, []tax.PlannedSale{{Account: account, Ticker: ticker,
		Quantity: shares, Price: price}})
	if problem != nil {
		return nil, problem.Text
	}
	outcome, err := outcomeOf(sale)
	if err != nil {
		return nil, strings.TrimSpace(readable(err.Error()))
	}
	return &outcome, ""
}
