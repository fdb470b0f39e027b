package portfolio

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/govalues/decimal"

	"signalbox/brief"
	"signalbox/internal/portfolio/answer"
	"signalbox/internal/portfolio/exitrule"
	"signalbox/internal/portfolio/tax"
	"signalbox/internal/text"
)

// Exits evaluates the exit rules of a ticker. A problem gives a result of status error.
func (d *Desk) Exits(ctx context.Context, q ExitQuery) answer.ExitResult {
	ticker, shares, problem := q.parse()
	if problem != nil {
		return failedExit(q, problem)
	}
	data, day, problem := d.open(ctx, q.AsOf)
	if problem != nil {
		return failedExit(q, problem)
	}
	result, problem := data.exits(q, ticker, shares, day)
	if problem != nil {
		return failedExit(q, problem)
	}
	return result
}

// failedExit returns the result of a question that failed. It names the ticker of the question.
func failedExit(q ExitQuery, problem *Problem) answer.ExitResult {
	return answer.ExitResult{Ticker: givenTicker(q.Ticker), Status: string(brief.StatusError),
		Error:   problem.Text,
		Problem: answer.Problem{ErrorKind: problem.Kind, ErrorHint: problem.Hint}}
}

// givenTicker returns the ticker of a question, which need not be valid.
func givenTicker(given string) string {
	if ticker := normalTicker(given); answer.CheckTicker(ticker) == nil {
		return ticker
	}
	return text.Shorten(text.OneLine(given), 40)
}

// parse returns the ticker and the shares of a question. Zero shares mean the whole position.
func (q ExitQuery) parse() (ticker string, shares Decimal, problem *Problem) {
	ticker = normalTicker(q.Ticker)
	if err := answer.CheckTicker(ticker); err != nil {
		return "", shares, problemf(BadArgument,
			"name a ticker such as SLV, or the symbol of an option such as AAPL260116C00150000",
			"%v", err)
	}
	if q.Shares != "" {
		var err error
		if shares, err = decimal.Parse(q.Shares); err != nil || !shares.IsPos() {
			return "", shares, problemf(BadArgument,
				"give a number of shares, or omit it for the whole position",
				"shares %q is not a number above 0", text.Shorten(q.Shares, 40))
		}
	}
	return ticker, shares, nil
}

// exits evaluates the exit rules of a ticker on a day.
func (d *Data) exits(q ExitQuery, ticker string, shares Decimal,
	day tax.Date) (result answer.ExitResult, problem *Problem) {
	if problem := d.checkKnown(q.AccountID); problem != nil {
		return result, problem
	}
	rules, configured, err := exitConfig(d.Config, ticker)
	if err != nil {
		return result, problemf(BadConfig, "correct portfolio.yaml", "exit_rules of %s: %v", ticker,
			err)
	}
	if err := d.countShares(ticker, day); err != nil {
		return result, problemf(NotComputable, "check the quantities of its transactions",
			"the shares of %s cannot be counted: %s", ticker, readable(err.Error()))
	}
	book, problem := d.build(day)
	if problem != nil {
		return result, problem
	}
	held, problem := d.holdings(book, ticker)
	if problem != nil {
		return result, problem
	}
	if !configured {
		if len(d.prices[ticker]) == 0 && !d.traded(ticker) {
			return result, problemf(UnknownTicker, d.knownTickers(), "%s is not in the portfolio",
				ticker)
		}
		return result, problemf(NoExitRules,
			fmt.Sprintf("add to exit_rules in portfolio.yaml: %s: {rules: {momentum_exit: {lookback: 3}}}", ticker),
			"there are no exit rules for %s", ticker)
	}
	last, priced := d.latest(ticker, day)
	if priced {
		// The stop price is for shares after the split and is compared with the last price.
		if problem := last.checkSplit(ticker, d.splits(day)[ticker], day); problem != nil {
			return result, problem
		}
	}
	input := exitrule.Input{Ticker: ticker, Whole: isOption(ticker), AsOf: day,
		AccountID: q.AccountID, Shares: shares, Holdings: held,
		Prices: make(map[string][]exitrule.Price), Config: rules}
	cut := d.addPrices(&input, day)
	result = exitResult(exitrule.Evaluate(input), cut)
	if result.PriceDate != "" && priced && day-last.date > freshDays {
		result.StalePriceDays = int(day - last.date)
	}
	if i := slices.IndexFunc(book.Incomplete,
		func(g tax.Gap) bool { return g.Ticker == ticker }); i >= 0 {
		result.IncompleteHistory, result.IncompleteRecord = true, d.gapText(&book.Incomplete[i])
	}
	if s := result.Sizing; s != nil && priced {
		price := last.close
		if last, problem := d.quote(ticker, day, d.splits(day)[ticker]); problem == nil {
			price = last.Decimal
		}
		result.Sale, result.SaleUnknown = d.saleOf(book, result.Position.AccountID, ticker,
			s.SellQuantity.Decimal, price)
	}
	result.Option = isOption(ticker)
	if priced && result.Option {
		result.OptionPrices = optionPrices(book, map[string]Decimal{ticker: last.close},
			func(string) bool { return true })
	}
	return result, nil
}

// addPrices adds the prices of all tickers that the rules use. It returns the day of the split for
// those tickers whose prices from before the split were omitted.
func (d *Data) addPrices(in *exitrule.Input, on tax.Date) map[string]tax.Date {
	splits, cut := d.splits(on), make(map[string]tax.Date)
	wanted := []string{in.Ticker}
	for _, rule := range in.Config.Rules {
		wanted = append(wanted, rule.Tickers...)
	}
	for _, ticker := range wanted {
		prices, shorter := d.series(ticker, splits[ticker])
		in.Prices[ticker] = prices
		if shorter {
			cut[ticker] = splits[ticker]
		}
	}
	return cut
}

// holdings returns the shares of a ticker in each account. It includes shares without a lot; a sale
// without a purchase makes a position negative.
func (d *Data) holdings(book *tax.Book, ticker string) ([]exitrule.Holding, *Problem) {
	held, problem := d.held(book)
	if problem != nil {
		return nil, problem
	}
	var list []exitrule.Holding
	for _, account := range slices.Sorted(slices.Values(d.accountIDs())) {
		if shares, ok := held[tax.Position{Account: account, Ticker: ticker}]; ok {
			list = append(list, exitrule.Holding{AccountID: account, Shares: shares.Trim(0)})
		}
	}
	return list, nil
}

// countShares returns an error if the shares of a ticker are too many for a decimal.
func (d *Data) countShares(ticker string, on tax.Date) error {
	var rows []*tax.Transaction
	for i := range d.transactions {
		if t := &d.transactions[i]; t.Ticker == ticker && t.Date <= on {
			rows = append(rows, t)
		}
	}
	sortForTax(rows)
	held := make(map[string]Decimal)
	for _, t := range rows {
		if err := applyToHoldings(held, t); err != nil {
			return err
		}
	}
	return nil
}

// applyToHoldings changes the holdings as one transaction does.
func applyToHoldings(held map[string]Decimal, t *tax.Transaction) (err error) {
	move := func(account string, shares Decimal) {
		if account == "" || err != nil {
			return
		}
		held[account], err = held[account].Add(shares)
	}
	switch t.Action {
	case tax.Buy, tax.Reinvest, tax.GiftIn, tax.Inherit:
		move(t.Account, t.Quantity)
	case tax.Expire, tax.Assign:
		if held[t.Account].IsNeg() {
			move(t.Account, t.Quantity) // it closes written options
		} else {
			move(t.Account, t.Quantity.Neg())
		}
	case tax.Sell, tax.CashInLieu:
		move(t.Account, t.Quantity.Neg())
	case tax.Exchange:
		for account := range held {
			if t.Account == "" || t.Account == account {
				delete(held, account)
			}
		}
	case tax.Transfer:
		move(t.Account, t.Quantity.Neg())
		move(t.ToAccount, t.Quantity)
	case tax.Split:
		if t.Ratio.IsZero() {
			move(t.Account, t.Quantity)
			return err
		}
		for account := range held {
			if t.Account != "" && t.Account != account {
				continue
			}
			if held[account], err = held[account].Mul(t.Ratio.New); err != nil {
				return err
			}
			if held[account], err = held[account].Quo(t.Ratio.Old); err != nil {
				return err
			}
			held[account] = held[account].Round(8)
		}
	}
	return err
}

// incompleteRecords returns the first rows of each position that need shares which no row acquired.
// A transfer counts for both accounts.
func (d *Data) incompleteRecords(book *tax.Book) map[tax.Position][]string {
	const most = 5
	records := make(map[tax.Position][]string)
	for i := range book.Incomplete {
		g := &book.Incomplete[i]
		t := &d.transactions[g.Row]
		accounts := []string{g.Account, t.Account, t.ToAccount}
		slices.Sort(accounts)
		for _, account := range slices.Compact(accounts) {
			if p := (tax.Position{Account: account, Ticker: g.Ticker}); len(records[p]) < most {
				records[p] = append(records[p], d.gapText(g))
			}
		}
	}
	return records
}

// gapText describes a row that needs shares which no row acquired.
func (d *Data) gapText(g *tax.Gap) string {
	t := &d.transactions[g.Row]
	text := fmt.Sprintf("%s: %s of %s %s", sourcePosition(t.Source), g.Why, g.Quantity, g.Ticker)
	if t.LotID != "" && (t.Action == tax.Sell || t.Action == tax.Transfer) {
		text += fmt.Sprintf(" (lot_id %q)", t.LotID)
	}
	return text
}

func isOption(ticker string) bool {
	_, option := tax.OptionSymbol(ticker)
	return option
}

func (d *Data) traded(ticker string) bool {
	return slices.ContainsFunc(d.transactions,
		func(t tax.Transaction) bool { return t.Ticker == ticker || t.NewTicker == ticker })
}

// knownTickers returns the hint for an unknown ticker.
func (d *Data) knownTickers() string {
	known := make(map[string]bool)
	for i := range d.transactions {
		known[d.transactions[i].Ticker] = true
		if ticker := d.transactions[i].NewTicker; ticker != "" {
			known[ticker] = true
		}
	}
	for _, rules := range d.Config.ExitRules {
		known[rules.Ticker] = true
	}
	if len(known) == 0 {
		return "the portfolio has no transactions yet: signalbox portfolio import FILE adds some"
	}
	const most = 10
	names := slices.Sorted(maps.Keys(known))
	text := "the portfolio has " + strings.Join(names[:min(most, len(names))], ", ")
	if len(names) > most {
		text += fmt.Sprintf(" and %d more", len(names)-most)
	}
	return text
}

// exitResult converts a verdict for an answer.
func exitResult(r exitrule.Result, cut map[string]tax.Date) answer.ExitResult {
	result := answer.ExitResult{
		Status: string(r.Status), Ticker: r.Ticker, Error: r.Error, OverallAssessment: r.Overall,
		TradeEligible: r.TradeEligible,
		Position: answer.ExitPosition{AccountID: r.Position.AccountID,
			Shares: amount(r.Position.Shares), Held: amount(r.Position.Held)},
		StopAboveMarket: r.StopAboveMarket, StopNote: r.StopNote, AsOf: r.AsOf.String(),
		Problem: exitProblems[r.Failure],
	}
	if r.PriceDate != 0 {
		price := amount(r.Price)
		result.Price, result.PriceDate = &price, r.PriceDate.String()
	}
	for _, s := range r.Signals {
		result.Signals = append(result.Signals, exitSignal(s, cut))
	}
	if s := r.Sizing; s != nil {
		result.Sizing = &answer.ExitSizing{GapPP: brief.Number(s.GapPP),
			ThresholdPP: brief.Number(s.ThresholdPP), Fraction: amount(s.Fraction),
			SellQuantity: amount(s.SellQuantity), Remaining: amount(s.Remaining), Note: s.Note}
	}
	for _, a := range r.Actions {
		action := answer.ExitAction{Step: a.Step, Action: a.Action, Ticker: a.Ticker,
			AccountID: a.AccountID, Quantity: amount(a.Quantity),
			OrderType: a.OrderType, TimeInForce: a.TimeInForce}
		if !a.StopPrice.IsZero() {
			stop := amount(a.StopPrice)
			action.StopPrice = &stop
		}
		result.RecommendedActions = append(result.RecommendedActions, action)
	}
	return result
}

func exitSignal(s exitrule.Signal, cut map[string]tax.Date) answer.ExitSignal {
	number := func(f float64) *brief.Number { n := brief.Number(f); return &n }
	signal := answer.ExitSignal{RuleName: s.Rule, Triggered: s.Triggered, Severity: number(s.Severity), IsPrimary: s.Primary,
		Status: string(s.Status), Error: s.Error, Month: s.Month}
	if s.Status == exitrule.StatusError {
		for _, ticker := range slices.Sorted(maps.Keys(cut)) {
			if !strings.Contains(s.Error, ticker) {
				continue // the rule failed for another reason
			}
			signal.Error += fmt.Sprintf(
				"; %s was split on %s, and earlier prices need the column adjusted", ticker,
				cut[ticker])
		}
		return signal
	}
	signal.Return, signal.Gap = number(s.Return), number(s.Gap)
	if s.Rule == exitrule.MomentumExit {
		signal.Mean, signal.Deviation = number(s.Mean), number(s.Deviation)
		signal.TriggerClose = number(s.TriggerClose)
	}
	for _, m := range s.Months {
		signal.Months = append(signal.Months,
			answer.ExitMonth{Month: m.Month, Return: brief.Number(m.Return)})
	}
	return signal
}

// exitProblems are the problems of verdicts that failed.
var exitProblems = map[exitrule.Failure]answer.Problem{
	exitrule.BadShares: {ErrorKind: BadArgument,
		ErrorHint: "give at most the number of shares held, without a fraction if the account holds none, or omit it for all shares"},
	exitrule.NotHeld: {ErrorKind: NotHeld,
		ErrorHint: "signalbox portfolio lots lists what is held; to ask about a position that is not in the portfolio, give shares"},
	exitrule.AccountNeeded: {ErrorKind: AccountNeeded,
		ErrorHint: "name the account: account_id, or --account on the command line"},
	exitrule.Short: {ErrorKind: ShortPosition,
		ErrorHint: "close the short with a buy; if the position is not short, purchases are missing in the transactions"},
	exitrule.BadConfig:     {ErrorKind: BadConfig, ErrorHint: "correct exit_rules in portfolio.yaml"},
	exitrule.NotComputable: {ErrorKind: NotComputable, ErrorHint: amountsHint},
}

func amount(d Decimal) answer.Amount { return answer.Amount{Decimal: d} }
