package config

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
	"time"

	"signalbox/internal/lazy"
)

// PortfolioFile is the name of a portfolio's configuration in its folder, and PositionsFile of its
// list of positions.
const (
	PortfolioFile = "portfolio.yaml"
	PositionsFile = "positions.csv"
)

// Portfolio is the configuration of a portfolio. Numbers are valid decimals, kept as text because
// money must be exact. docs/reference/portfolio-files.md is its reference.
type Portfolio struct {
	// AsOf is the default date of questions, such as 2026-06-30. Empty means today.
	AsOf     string
	Accounts []PortfolioAccount
	// Identical are groups of substantially identical tickers.
	Identical [][]string
	// Replacements are groups of tickers that the user may buy instead of each other, because they
	// are not substantially identical.
	Replacements [][]string
	// Crypto are tickers that are not securities, so that wash-sale rules do not apply to them. Nil
	// means those of [UsualCrypto].
	Crypto []string
	// AverageCost are tickers that brokers keep at average cost. Nil means mutual funds, see
	// [UsualAverageCost].
	AverageCost []string
	// Positions is the file with what the accounts hold, relative to the folder. The default is
	// PositionsFile, which need not exist.
	Positions    string
	FilingStatus string
	Realized     Realized
	TaxRates     TaxRates
	// ExitRules are in the order of the file.
	ExitRules []ExitRules
}

// PortfolioAccount is one account. The defaults are taxable, self and fifo.
type PortfolioAccount struct {
	ID        string `yaml:"id"`
	Kind      string `yaml:"kind"`
	Owner     string `yaml:"owner"`
	LotMethod string `yaml:"lot_method"`
	// Names are the names of the account in brokers' files.
	Names []string `yaml:"names"`
	// Form1099 is what the broker tells the IRS about sales: basis, no_basis or none. Empty means
	// that it is not known.
	Form1099 string `yaml:"form_1099"`
}

// The values of PortfolioAccount.Form1099.
const (
	Form1099Basis   = "basis"    // proceeds and basis
	Form1099NoBasis = "no_basis" // proceeds only
	Form1099None    = "none"     // nothing: there is no form
)

// Realized has the gains of the year that are not in the transactions of the folder (negative for
// losses), and the losses carried over from earlier years, which count as losses whatever their
// sign.
type Realized struct {
	ShortTerm      string `yaml:"short_term"`
	LongTerm       string `yaml:"long_term"`
	CarryoverShort string `yaml:"carryover_short"`
	CarryoverLong  string `yaml:"carryover_long"`
}

// TaxRates are the rates at which the next dollar is taxed, from 0 to 1. Without the first two, no
// tax is computed.
type TaxRates struct {
	ShortTerm string `yaml:"short_term"` // also of other income, from which losses are deducted
	LongTerm  string `yaml:"long_term"`
	State     string `yaml:"state"`
	NIIT      string `yaml:"niit"` // net investment income tax
}

// Known reports whether a tax can be computed.
func (r TaxRates) Known() bool { return r.ShortTerm != "" && r.LongTerm != "" }

// ExitRules are the exit rules of one ticker.
type ExitRules struct {
	Ticker  string
	Primary string
	// Rules are in the order of the file.
	Rules  []ExitRule
	Sizing ExitSizing
	Stop   ExitStop
}

// ExitRule is one rule with its settings. Each rule uses some of them. Zero means the rule's
// default.
type ExitRule struct {
	Name     string
	Lookback int
	Period   int
	Tickers  []string
}

// ExitSizing determines how much of a position to sell.
type ExitSizing struct {
	Min   string `yaml:"min"`
	Max   string `yaml:"max"`
	GapPP string `yaml:"gap_pp"`
}

// ExitStop is the stop order for the shares that are kept.
type ExitStop struct {
	Price       string `yaml:"price"`
	TimeInForce string `yaml:"time_in_force"`
}

// portfolioText is the configuration of a portfolio as decoded from YAML.
type portfolioText struct {
	AsOf         string                   `yaml:"as_of"`
	Accounts     []PortfolioAccount       `yaml:"accounts"`
	Identical    [][]string               `yaml:"identical"`
	Replacements [][]string               `yaml:"replacements"`
	Crypto       []string                 `yaml:"crypto"`
	AverageCost  []string                 `yaml:"average_cost"`
	Positions    string                   `yaml:"positions"`
	FilingStatus string                   `yaml:"filing_status"`
	Realized     Realized                 `yaml:"realized"`
	TaxRates     TaxRates                 `yaml:"tax_rates"`
	ExitRules    map[string]exitRulesText `yaml:"exit_rules"`
}

type exitRulesText struct {
	Primary string                  `yaml:"primary"`
	Rules   map[string]exitRuleText `yaml:"rules"`
	Sizing  ExitSizing              `yaml:"sizing"`
	Stop    ExitStop                `yaml:"stop"`
}

type exitRuleText struct {
	Lookback int      `yaml:"lookback"`
	Period   int      `yaml:"period"`
	Tickers  []string `yaml:"tickers"`
}

// ParsePortfolio parses the configuration of a portfolio. Its errors are like those of [Parse].
func ParsePortfolio(text []byte) (*Portfolio, error) {
	var written portfolioText
	places, faults := read(text, &written)
	if len(faults) == 0 {
		written.check(&faults)
	}
	if err := places.locate("", "", faults); err != nil {
		return nil, err
	}
	p := &Portfolio{AsOf: written.AsOf, Accounts: written.Accounts, Identical: written.Identical,
		Replacements: written.Replacements,
		Crypto:       written.Crypto, AverageCost: written.AverageCost, Positions: written.Positions,
		FilingStatus: written.FilingStatus, Realized: written.Realized, TaxRates: written.TaxRates}
	at := setting("exit_rules")
	for _, ticker := range places.inOrder(at, sortedKeys(written.ExitRules)) {
		rules := written.ExitRules[ticker]
		ticker := ExitRules{Ticker: ticker, Primary: rules.Primary, Sizing: rules.Sizing,
			Stop: rules.Stop}
		for _, name := range places.inOrder(at.field(ticker.Ticker).field("rules"),
			sortedKeys(rules.Rules)) {
			rule := rules.Rules[name]
			ticker.Rules = append(ticker.Rules, ExitRule{Name: name, Lookback: rule.Lookback,
				Period: rule.Period, Tickers: rule.Tickers})
		}
		p.ExitRules = append(p.ExitRules, ticker)
	}
	return p, nil
}

// UsualCrypto returns the pairs of the best-known cryptocurrencies with the dollar, in the three
// usual spellings. A name alone is not among them: BTC and ETH are also the tickers of funds, which
// are securities.
func UsualCrypto() []string {
	var pairs []string
	for _, name := range []string{"BTC", "ETH", "SOL", "XRP", "BNB", "ADA", "DOGE", "TRX", "LTC",
		"BCH", "DOT", "AVAX", "LINK", "XLM", "UNI", "ATOM",
		"SHIB", "NEAR", "ALGO", "ETC", "FIL", "AAVE", "MATIC", "POL", "USDT", "USDC"} {
		pairs = append(pairs, name+"-USD", name+".USD", name+"USD")
	}
	return pairs
}

// UsualAverageCost reports whether brokers usually keep a ticker at average cost: a mutual fund,
// whose symbol has five letters and ends in X. Money market funds, in XX, are cash.
func UsualAverageCost(ticker string) bool { return mutualFund().MatchString(ticker) }

var mutualFund = lazy.Regexp(`^[A-Z]{3}[A-WYZ]X$`)

// inOrder sorts the names of a group by their position in the text.
func (ps places) inOrder(group settingPath, names []string) []string {
	slices.SortStableFunc(names, func(a, b string) int {
		x, y := ps[group.field(a)].key, ps[group.field(b)].key
		return cmp.Or(cmp.Compare(x.Line, y.Line), cmp.Compare(x.Column, y.Column))
	})
	return names
}

func (p *portfolioText) check(f *faults) {
	if p.AsOf != "" {
		if _, err := time.Parse(time.DateOnly, p.AsOf); err != nil {
			f.fail(setting("as_of"), "write it as 2026-06-30, or remove it for today",
				"%q is not a date", p.AsOf)
		}
	}
	p.checkAccounts(f)
	checkGroups(f, "identical", p.Identical)
	checkGroups(f, "replacements", p.Replacements)
	for i, group := range p.Replacements {
		for _, identical := range p.Identical {
			same := slices.DeleteFunc(slices.Clone(group),
				func(ticker string) bool { return !slices.Contains(identical, ticker) })
			if len(same) > 1 {
				f.fail(setting("replacements").item(i), "remove one of them from the group",
					"%s and %s are identical: buying one makes a wash sale of the other",
					same[0], same[1])
			}
		}
	}
	for i, ticker := range p.Crypto {
		f.add(checkTicker(setting("crypto").item(i), ticker))
	}
	for i, ticker := range p.AverageCost {
		f.add(checkTicker(setting("average_cost").item(i), ticker))
	}
	f.add(oneOf(setting("filing_status"), p.FilingStatus, "single", "married_joint",
		"married_separate", "head"))
	at := setting("realized")
	for _, n := range []struct{ name, text string }{
		{"short_term", p.Realized.ShortTerm}, {"long_term", p.Realized.LongTerm},
		{"carryover_short", p.Realized.CarryoverShort},
		{"carryover_long", p.Realized.CarryoverLong},
	} {
		f.add(checkDecimal(at.field(n.name), n.text))
	}
	p.TaxRates.check(f)
	for _, ticker := range sortedKeys(p.ExitRules) {
		at := setting("exit_rules", ticker)
		if fault := checkTicker(at, ticker); fault != nil {
			fault.onKey = true
			f.add(fault)
		}
		p.ExitRules[ticker].check(at, f)
	}
}

// checkGroups checks groups of tickers.
func checkGroups(f *faults, name string, groups [][]string) {
	for i, group := range groups {
		at := setting(name).item(i)
		if len(group) < 2 {
			f.fail(at, "write groups as [[VOO, IVV]]", "a group needs at least two tickers")
		}
		for j, ticker := range group {
			f.add(checkTicker(at.item(j), ticker))
		}
	}
}

func (p *portfolioText) checkAccounts(f *faults) {
	at := setting("accounts")
	if len(p.Accounts) == 0 {
		f.fail(at, "list them: accounts: [{id: brk, kind: taxable}]", "there are no accounts")
	}
	taken := map[string]bool{}
	for i, a := range p.Accounts {
		at := at.item(i)
		if a.ID == "" {
			f.fail(at.field("id"), "add one, such as id: brk; transactions refer to it",
				"the account has no id")
		}
		f.add(checkID(at.field("id"), a.ID, false))
		f.add(oneOf(at.field("kind"), a.Kind, "taxable", "ira", "roth", "hsa", "401k"))
		f.add(oneOf(at.field("owner"), a.Owner, "self", "spouse"))
		f.add(oneOf(at.field("lot_method"), a.LotMethod, "fifo", "lifo", "hifo", "min_tax",
			"specific"))
		f.add(oneOf(at.field("form_1099"), a.Form1099, Form1099Basis, Form1099NoBasis,
			Form1099None))
		f.add(once(at.field("id"), a.ID, taken))
		for j, name := range a.Names {
			f.add(once(at.field("names").item(j), name, taken))
		}
	}
}

func once(at settingPath, name string, taken map[string]bool) *settingError {
	if taken[name] {
		return faultAt(at, "each id and name must belong to one account",
			"%q is already an account", name)
	}
	taken[name] = true
	return nil
}

func (r exitRulesText) check(at settingPath, f *faults) {
	for _, n := range []struct {
		group, name, text string
	}{{"sizing", "min", r.Sizing.Min}, {"sizing", "max", r.Sizing.Max}, {"sizing", "gap_pp", r.Sizing.GapPP}, {"stop", "price", r.Stop.Price}} {
		at := at.field(n.group).field(n.name)
		f.add(checkDecimal(at, n.text))
		if n.text != "" && (strings.HasPrefix(n.text, "-") || strings.Trim(n.text, "0.") == "") {
			f.fail(at, "write a number above 0, or remove it", "%s is not above 0", n.text)
		}
	}
	for _, name := range sortedKeys(r.Rules) {
		at := at.field("rules").field(name)
		rule := r.Rules[name]
		for i, ticker := range rule.Tickers {
			f.add(checkTicker(at.field("tickers").item(i), ticker))
		}
		for _, n := range []struct {
			name  string
			value int
		}{{"lookback", rule.Lookback}, {"period", rule.Period}} {
			if n.value < 0 {
				f.fail(at.field(n.name), "write a number of months, such as 3",
					"must not be negative")
			}
		}
	}
}

func oneOf(at settingPath, value string, known ...string) *settingError {
	if value == "" || slices.Contains(known, value) {
		return nil
	}
	return faultAt(at, suggest(value, known, "it is one of"), "%q is not known", value)
}

// option matches the OCC symbol of an option, in which spaces may follow the underlying ticker.
var option = lazy.Regexp(`^[A-Z0-9.]{1,6} *[0-9]{6}[CP][0-9]{8}$`)

func checkTicker(at settingPath, ticker string) *settingError {
	const most = 32 // the symbol of an option has up to 21
	compact := ticker
	if option().MatchString(ticker) {
		compact = strings.ReplaceAll(ticker, " ", "")
	}
	wrong := strings.ContainsFunc(compact, func(r rune) bool {
		return !(r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune(".^=-/", r))
	})
	if wrong || ticker == "" || len(ticker) > most {
		return faultAt(at, "write it in capitals, such as SLV or BRK.B", "%q is not a ticker",
			ticker)
	}
	return nil
}

// checkDecimal reports a text that is not a decimal number of at most 19 digits.
func (r TaxRates) check(f *faults) {
	at := setting("tax_rates")
	for _, n := range []struct{ name, text string }{{"short_term", r.ShortTerm},
		{"long_term", r.LongTerm}, {"state", r.State}, {"niit", r.NIIT}} {
		fault := checkDecimal(at.field(n.name), n.text)
		if rate, err := strconv.ParseFloat(n.text, 64); fault == nil && n.text != "" &&
			(err != nil || rate < 0 || rate > 1) {
			fault = faultAt(at.field(n.name), "write 24 percent as 0.24",
				"%q is not between 0 and 1", n.text)
		}
		f.add(fault)
	}
	if (r.ShortTerm == "") != (r.LongTerm == "") {
		f.fail(at, "write both short_term and long_term", "one of the federal rates is missing")
	}
}

func checkDecimal(at settingPath, text string) *settingError {
	if text == "" {
		return nil
	}
	whole, fraction, point := strings.Cut(strings.TrimPrefix(text, "-"), ".")
	if !digits(whole) || point && !digits(fraction) ||
		len(strings.TrimLeft(whole, "0")+fraction) > 19 {
		return faultAt(at, "write digits and a point, such as 1234.50", "%q is not a number", text)
	}
	return nil
}
