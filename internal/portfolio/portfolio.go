// Package portfolio answers questions about the portfolio in a folder: whether to exit a position
// (check_exit_signals), which losses to harvest (suggest_tax_loss_harvest), what a sale would do
// (simulate_sale), what a year's sales realized (realized_gains), and which lots are open. It also
// imports brokers' files into the folder.
//
// The folder contains portfolio.yaml, transactions, prices and, for other currencies, fx.csv;
// docs/reference/portfolio-files.md describes them. Each question reads the whole folder and
// nothing else: there is no cache, and the only time that affects a result is the date of the
// question. The computations are in pure subpackages: importer (files to rows), tax (rows to lots,
// wash sales and candidates), exitrule (prices to verdicts) and answer (results to briefs). This
// package finds the date, converts currencies and looks up prices. Everything that is wrong becomes
// a [Problem], and so an answer of status error with a flag of its own: no answer is better than a
// wrong number.
package portfolio

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"signalbox"
	"signalbox/internal/config"
	"signalbox/internal/portfolio/exitrule"
	"signalbox/internal/portfolio/importer"
	"signalbox/internal/portfolio/tax"
	"signalbox/internal/text"

	"github.com/govalues/decimal"
)

// Problem is the reason why a question has no answer.
type Problem struct {
	// Kind is the name of the problem's flag in an answer.
	Kind string
	Text string
	// Hint says what to do.
	Hint string
}

func (p *Problem) Error() string { return p.Text }

// WithCode adds the error code and the hint to a *Problem. It returns other errors as they are.
func WithCode(err error) error {
	problem, ok := errors.AsType[*Problem](err)
	if !ok {
		return err
	}
	code := signalbox.CodeFailed
	switch problem.Kind {
	case BadArgument, BadConfig:
		code = signalbox.CodeUsage
	case NoPortfolio, UnknownTicker, UnknownAccount, NotHeld:
		code = signalbox.CodeNotFound
	}
	return &signalbox.Error{Code: code, Err: problem, Hint: problem.Hint}
}

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

	IncompleteHistory = "incomplete_history"
	UnknownBox        = "unknown_box"
)

func problemf(kind, hint, format string, args ...any) *Problem {
	return &Problem{Kind: kind, Text: fmt.Sprintf(format, args...), Hint: hint}
}

// asProblem returns err if it is a *Problem, and otherwise a Problem of the given kind.
func asProblem(err error, kind, hint string) *Problem {
	if problem, ok := errors.AsType[*Problem](err); ok {
		return problem
	}
	return &Problem{Kind: kind, Text: readable(err.Error()), Hint: hint}
}

// readable returns the text of an error for users: an overflow of package decimal is described by
// its types.
func readable(text string) string {
	text, _, overflow := strings.Cut(text, ": decimal overflow")
	if overflow {
		text += ": the number would have more than 19 digits"
	}
	return text
}

// Data is the content of a portfolio's folder.
type Data struct {
	Config *config.Portfolio
	Rules  tax.Rules
	// Sources are the files with transactions.
	Sources []Source
	// Duplicates is the number of rows that were dropped because an earlier file has them.
	Duplicates int
	// Twins are rows of two formats that look like the same transaction. Both are counted.
	Twins []Twin

	// Positions is what the accounts hold, by a list of the broker. Accounts that are not in it
	// hold what the transactions add up to.
	Positions []importer.Holding
	// LeftOut are records that were left out of an import.
	LeftOut []LeftOut

	transactions []tax.Transaction
	imports      []*importer.Import // only if rows must be compared
	ids          map[string]bool
	prices       map[string][]price
	rates        map[string][]rate // by currency, in dollars per unit
}

// Source is a file of transactions.
type Source struct {
	// Name is relative to the folder.
	Name   string
	Format string
	Rows   int
	// Accounts are the accounts in the rows.
	Accounts map[string]bool
	Skipped  []importer.Skipped
	Notes    []string
}

// price is the price of a ticker on one day, as in the file.
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

// checkKnown returns a problem if a question names an account that is not configured.
func (d *Data) checkKnown(account string) *Problem {
	if _, known := d.account(account); known || account == "" {
		return nil
	}
	return problemf(UnknownAccount, "name one of "+strings.Join(d.accountIDs(), ", "),
		"account %q is not in the portfolio", text.Shorten(account, 40))
}

// checkConfigured returns a problem if a row names an account that is not configured.
func (d *Data) checkConfigured(account string, row tax.Source) *Problem {
	if _, known := d.account(account); known || account == "" {
		return nil
	}
	return problemf(UnknownAccount,
		"add it to the accounts in portfolio.yaml, or to the names of one of them ("+
			strings.Join(d.accountIDs(), ", ")+")",
		"%s: account %q is not in portfolio.yaml", sourcePosition(row), account)
}

// brokerNames maps the names of accounts in brokers' files to their ids.
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
	rules := tax.Rules{Identical: c.Identical, Crypto: c.Crypto}
	if rules.Crypto == nil {
		rules.Crypto = config.UsualCrypto()
	}
	// In transactions, BTC/USD is BTC.USD.
	rules.Crypto = slices.Clone(rules.Crypto)
	for i, ticker := range rules.Crypto {
		rules.Crypto[i] = strings.ReplaceAll(ticker, "/", ".")
	}
	for _, a := range c.Accounts {
		rules.Accounts = append(rules.Accounts, tax.Account{
			ID: a.ID, Kind: cmp.Or(tax.Kind(a.Kind), tax.Taxable),
			Owner:  cmp.Or(tax.Owner(a.Owner), tax.Self),
			Method: cmp.Or(tax.Method(a.LotMethod), tax.FIFO)})
	}
	return rules
}

// normalTicker returns a ticker as it is in the portfolio: in capitals, and the symbol of an option
// without spaces.
func normalTicker(ticker string) string {
	ticker = strings.ToUpper(strings.TrimSpace(ticker))
	if symbol, option := tax.OptionSymbol(ticker); option {
		return symbol
	}
	return ticker
}

// exitConfig returns the exit rules of a ticker, if it has any.
func exitConfig(c *config.Portfolio, ticker string) (exitrule.Config, bool, error) {
	for _, rules := range c.ExitRules {
		if normalTicker(rules.Ticker) != ticker {
			continue
		}
		var n numbers
		exit := exitrule.Config{
			Primary: rules.Primary,
			Sizing: exitrule.Sizing{Min: n.decimal(rules.Sizing.Min),
				Max: n.decimal(rules.Sizing.Max)},
			Stop: exitrule.Stop{Price: n.decimal(rules.Stop.Price),
				TimeInForce: rules.Stop.TimeInForce},
		}
		exit.Sizing.GapPP, _ = n.decimal(rules.Sizing.GapPP).Float64()
		for _, rule := range rules.Rules {
			exit.Rules = append(exit.Rules, exitrule.Rule{Name: rule.Name, Lookback: rule.Lookback,
				Period: rule.Period, Tickers: rule.Tickers})
		}
		return exit, true, n.err
	}
	return exitrule.Config{}, false, nil
}

// numbers parses decimals and keeps the first error. Empty text is zero.
type numbers struct{ err error }

func (n *numbers) decimal(text string) decimal.Decimal {
	if text == "" {
		return decimal.Zero
	}
	d, err := decimal.Parse(text)
	if err != nil && n.err == nil {
		n.err = fmt.Errorf("%q is not a number: %w", text, err)
	}
	return d
}
