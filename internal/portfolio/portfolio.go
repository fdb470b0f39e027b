// Package portfolio answers questions about the portfolio in a folder: which positions to leave (check_exit_signals),
// which losses to harvest (suggest_tax_loss_harvest), and which lots there are. It also imports brokers' files into
// the folder.
//
// The folder has portfolio.yaml, transactions, prices and, for other currencies, fx.csv; docs/portfolio-files.md
// describes them. Each question reads all of it, and nothing else is ever looked at: there is no cache and no clock in the
// figures but the day of the question. Every figure comes from the rooms behind this package, which are pure: importer
// (files to rows), tax (rows to lots, wash sales and candidates), exitrule (prices to verdicts), answer (results to
// briefs). This package finds the day, converts currencies, looks up prices, and turns whatever is wrong into a
// [Problem], which becomes an answer of status error with a flag of its own. It would rather not answer than answer
// with a wrong number.
package portfolio

import (
	"errors"
	"fmt"
	"strings"

	"signalbox"
	"signalbox/internal/config"
	"signalbox/internal/portfolio/exitrule"
	"signalbox/internal/portfolio/importer"
	"signalbox/internal/portfolio/tax"

	"github.com/govalues/decimal"
)

// Problem is why a question has no answer.
type Problem struct {
	// Kind is the name of the flag that tells it.
	Kind string
	Text string
	// Hint says what to do.
	Hint string
}

func (p *Problem) Error() string { return p.Text }

// The kinds of problems.
const (
	NoPortfolio    = "no_portfolio"
	BadConfig      = "bad_configuration"
	MalformedFile  = "malformed_file"
	BadArgument    = "bad_argument"
	FutureDate     = "future_date"
	UnknownTicker  = "unknown_ticker"
	UnknownAccount = "unknown_account"
	AccountNeeded  = "account_needed"
	NotHeld        = "not_held"
	ShortPosition  = "short_position"
	NoExitRules    = "no_exit_rules"
	MissingPrice   = "missing_price"
	MissingRate    = "missing_exchange_rate"
	MissingSplit   = "missing_split"
	NotComputable  = "not_computable"
	FileNotSaved   = "file_not_saved"
	LooksKnown     = "possible_duplicates"
	NotUnderstood  = "records_not_understood"
)

func problemf(kind, hint, format string, args ...any) *Problem {
	return &Problem{Kind: kind, Text: fmt.Sprintf(format, args...), Hint: hint}
}

// asProblem gives errors that are none a kind.
func asProblem(err error, kind, hint string) *Problem {
	if problem, ok := errors.AsType[*Problem](err); ok {
		return problem
	}
	return &Problem{Kind: kind, Text: plainly(err.Error()), Hint: hint}
}

// plainly is the text of an error in words for people: the decimals' own speak of types.
func plainly(text string) string {
	text, _, overflow := strings.Cut(text, ": decimal overflow")
	if overflow {
		text += ": the number would have more than 19 digits"
	}
	return text
}

// Data is what a portfolio's folder says.
type Data struct {
	Config *config.Portfolio
	Rules  tax.Rules
	// Sources are the files with transactions.
	Sources []Source
	// Duplicates is how many rows stood in an earlier file already, and were left out.
	Duplicates int
	// Twins are rows of two kinds of files that look like one transaction. Both are counted.
	Twins []Twin

	transactions []tax.Transaction
	imports      []*importer.Import // only where rows have to be compared
	ids          map[string]bool
	prices       map[string][]price
	rates        map[string][]rate // by currency, what one unit is worth in dollars
}

// Source is one file of transactions.
type Source struct {
	// Name is relative to the folder.
	Name   string
	Format string
	Rows   int
	// Accounts are those that the rows are about.
	Accounts map[string]bool
	Skipped  []importer.Skipped
	Notes    []string
}

// price is one day's price of one ticker, as it stands in the file.
type price struct {
	date            tax.Date
	close, adjusted decimal.Decimal
	currency        string
}

type rate struct {
	date tax.Date
	rate decimal.Decimal
}

// dollars is the currency of taxes.
const dollars = "USD"

// account returns the configured account, if there is one.
func (d *Data) account(id string) (tax.Account, bool) {
	for _, a := range d.Rules.Accounts {
		if a.ID == id {
			return a, true
		}
	}
	return tax.Account{}, false
}

func (d *Data) accountIDs() []string {
	ids := make([]string, len(d.Rules.Accounts))
	for i, a := range d.Rules.Accounts {
		ids[i] = a.ID
	}
	return ids
}

// brokerNames maps what brokers' files call the accounts to their ids.
func brokerNames(c *config.Portfolio) map[string]string {
	names := make(map[string]string)
	for _, a := range c.Accounts {
		for _, name := range a.Names {
			names[name] = a.ID
		}
	}
	return names
}

func taxRules(c *config.Portfolio) tax.Rules {
	rules := tax.Rules{Identical: c.Identical}
	for _, a := range c.Accounts {
		rules.Accounts = append(rules.Accounts, tax.Account{
			ID: a.ID, Kind: or(tax.Kind(a.Kind), tax.Taxable), Owner: or(tax.Owner(a.Owner), tax.Self), Method: or(tax.Method(a.LotMethod), tax.FIFO)})
	}
	return rules
}

// exitConfig returns the exit rules of a ticker, if it has any.
func exitConfig(c *config.Portfolio, ticker string) (exitrule.Config, bool, error) {
	for _, rules := range c.ExitRules {
		if rules.Ticker != ticker {
			continue
		}
		var n numbers
		exit := exitrule.Config{
			Primary: rules.Primary,
			Sizing:  exitrule.Sizing{Min: n.decimal(rules.Sizing.Min), Max: n.decimal(rules.Sizing.Max)},
			Stop:    exitrule.Stop{Price: n.decimal(rules.Stop.Price), TimeInForce: rules.Stop.TimeInForce},
		}
		exit.Sizing.GapPP, _ = n.decimal(rules.Sizing.GapPP).Float64()
		for _, rule := range rules.Rules {
			exit.Rules = append(exit.Rules, exitrule.Rule{Name: rule.Name, Lookback: rule.Lookback, Period: rule.Period, Tickers: rule.Tickers})
		}
		return exit, true, n.err
	}
	return exitrule.Config{}, false, nil
}

// numbers reads decimals and keeps the first error. An empty text is zero.
type numbers struct{ err error }

func (n *numbers) decimal(text string) decimal.Decimal {
	if text == "" {
		return decimal.Zero
	}
	d, err := decimal.Parse(text)
	if err != nil && n.err == nil {
		n.err = fmt.Errorf("%q is no number: %w", text, err)
	}
	return d
}

func or[T ~string](value, otherwise T) T {
	if value == "" {
		return otherwise
	}
	return value
}

// hintOf is the hint of an error that has one.
func hintOf(err error, otherwise string) string {
	if classed, ok := errors.AsType[*signalbox.Error](err); ok && classed.Hint != "" {
		return classed.Hint
	}
	return otherwise
}
