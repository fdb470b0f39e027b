package config

import (
	"errors"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"signalbox"
	"signalbox/internal/testkit/must"
)

// portfolioExample has every setting. The tickers and the rules are not in alphabetical order.
const portfolioExample = `# portfolio.yaml
as_of: 2026-06-30
accounts:
  - {id: brk, kind: taxable, owner: self, lot_method: fifo, names: [Individual XXXX-1234]}
  - {id: ira, kind: ira}
  - {id: joint, owner: spouse, lot_method: min_tax, form_1099: no_basis}
identical: [[VOO, IVV], [BRK.A, BRK.B]]
crypto: [BTC-USD, ETH/USD]
average_cost: [VTSAX]
positions: broker/positions.csv
filing_status: married_separate
realized: {short_term: -120.50, long_term: 0, carryover_short: 1000, carryover_long: 0}
tax_rates: {short_term: 0.32, long_term: 0.15, state: 0.093, niit: 0.038}
exit_rules:
  SLV: {primary: momentum_exit, rules: {regime_check: {tickers: [SLV, GLD, TLT], period: 3}, momentum_exit: {lookback: 3}},
        sizing: {min: 0.50, max: 0.75, gap_pp: 5}, stop: {price: 65.0, time_in_force: GTC}}
  GLD: {rules: {momentum_exit: {}}}
`

func TestParsePortfolio(t *testing.T) {
	want := &Portfolio{
		AsOf: "2026-06-30",
		Accounts: []PortfolioAccount{
			{ID: "brk", Kind: "taxable", Owner: "self", LotMethod: "fifo",
				Names: []string{"Individual XXXX-1234"}},
			{ID: "ira", Kind: "ira"},
			{ID: "joint", Owner: "spouse", LotMethod: "min_tax", Form1099: "no_basis"},
		},
		Identical:    [][]string{{"VOO", "IVV"}, {"BRK.A", "BRK.B"}},
		Crypto:       []string{"BTC-USD", "ETH/USD"},
		AverageCost:  []string{"VTSAX"},
		Positions:    "broker/positions.csv",
		FilingStatus: "married_separate",
		Realized: Realized{ShortTerm: "-120.50", LongTerm: "0", CarryoverShort: "1000",
			CarryoverLong: "0"},
		TaxRates: TaxRates{ShortTerm: "0.32", LongTerm: "0.15", State: "0.093", NIIT: "0.038"},
		ExitRules: []ExitRules{
			{Ticker: "SLV", Primary: "momentum_exit",
				Rules: []ExitRule{
					{Name: "regime_check", Period: 3, Tickers: []string{"SLV", "GLD", "TLT"}},
					{Name: "momentum_exit", Lookback: 3},
				},
				Sizing: ExitSizing{Min: "0.50", Max: "0.75", GapPP: "5"},
				Stop:   ExitStop{Price: "65.0", TimeInForce: "GTC"}},
			{Ticker: "GLD", Rules: []ExitRule{{Name: "momentum_exit"}}},
		},
	}
	got, err := ParsePortfolio([]byte(portfolioExample))
	must.Succeed(t, err)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("want -, got +\n%s", diff)
	}
}

// TestParsePortfolioCrypto: without the key there is a default, and an empty list means none.
func TestParsePortfolioCrypto(t *testing.T) {
	for text, isNil := range map[string]bool{"accounts: [{id: a}]": true,
		"accounts: [{id: a}]\ncrypto: []": false} {
		if p, err := ParsePortfolio([]byte(text)); err != nil || (p.Crypto == nil) != isNil ||
			len(p.Crypto) > 0 {
			t.Errorf("%q: %v, %v", text, p, err)
		}
	}
}

// TestParsePortfolioOptions: exit rules may be about an option, whose symbol may have the spaces of
// the OCC.
func TestParsePortfolioOptions(t *testing.T) {
	for ticker, ok := range map[string]bool{"AAPL260116C00150000": true,
		"'AAPL  260116C00150000'": true, "'AA PL'": false} {
		_, err := ParsePortfolio([]byte("accounts: [{id: a}]\nexit_rules: {" + ticker +
			": {rules: {momentum_exit: {}}}}"))
		if (err == nil) != ok {
			t.Errorf("%s: %v", ticker, err)
		}
	}
}

// TestParsePortfolioReference parses the example that other programs depend on.
func TestParsePortfolioReference(t *testing.T) {
	got, err := ParsePortfolio([]byte(`# portfolio.yaml
accounts:
  - {id: brk, kind: taxable, owner: self, lot_method: fifo}
  - {id: ira, kind: ira}
identical: [[VOO, IVV]]
filing_status: single            # single | married_joint | married_separate | head
realized: {short_term: 0, long_term: 0, carryover_short: 0, carryover_long: 0}
exit_rules:
  SLV: {primary: momentum_exit, rules: {momentum_exit: {lookback: 3}, regime_check: {tickers: [SLV, GLD, TLT], period: 3}},
        sizing: {min: 0.50, max: 0.75, gap_pp: 5}, stop: {price: 65.0, time_in_force: GTC}}
`))
	must.Succeed(t, err)
	want := &Portfolio{
		Accounts: []PortfolioAccount{{ID: "brk", Kind: "taxable", Owner: "self",
			LotMethod: "fifo"}, {ID: "ira", Kind: "ira"}},
		Identical:    [][]string{{"VOO", "IVV"}},
		FilingStatus: "single",
		Realized: Realized{ShortTerm: "0", LongTerm: "0", CarryoverShort: "0",
			CarryoverLong: "0"},
		ExitRules: []ExitRules{{Ticker: "SLV", Primary: "momentum_exit",
			Rules: []ExitRule{{Name: "momentum_exit", Lookback: 3},
				{Name: "regime_check", Period: 3, Tickers: []string{"SLV", "GLD", "TLT"}}},
			Sizing: ExitSizing{Min: "0.50", Max: "0.75", GapPP: "5"},
			Stop:   ExitStop{Price: "65.0", TimeInForce: "GTC"}}},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("want -, got +\n%s", diff)
	}
}

func TestParsePortfolioAccepts(t *testing.T) {
	for _, text := range []string{
		"accounts: [{id: a}]",
		"accounts: [{id: a}]\nas_of:\n",
		"accounts: [{id: a}]\nrealized: {short_term: \"1234567890123456789\"}",
		"accounts: [{id: a}]\nrealized: {short_term: -0.1234567890123456789}",
		"accounts: [{id: a}]\nidentical: [[^GSPC, BRK/B]]",
		"accounts: [{id: a, names: [b]}, {id: c, names: [d, e]}]",
	} {
		if _, err := ParsePortfolio([]byte(text)); err != nil {
			t.Errorf("%q: %v", text, err)
		}
	}
}

func TestParsePortfolioErrors(t *testing.T) {
	const (
		a           = "accounts: [{id: a}]\n" // what follows is on line 2
		number      = "write digits and a point, such as 1234.50"
		ticker      = "write it in capitals, such as SLV or BRK.B"
		above       = "write a number above 0, or remove it"
		noAccounts  = "list them: accounts: [{id: brk, kind: taxable}]"
		oneEach     = "each id and name must belong to one account"
		date        = "write it as 2026-06-30, or remove it for today"
		oneValue    = "write one value; put text that begins with [ or - in quotes"
		wantsAList  = "write [one, two], or each item on its own line after a -"
		manyAtATime = "write each setting as name: value on its own line, and indent the settings of a group below its name"
	)
	for _, tt := range []struct{ text, want, hint string }{
		{"", "line 1, column 1: accounts: there are no accounts", noAccounts},
		{"accounts: []", "line 1, column 11: accounts: there are no accounts", noAccounts},
		{"as_of: 2026-06-30\naccounts:\n", "line 2, column 1: accounts: there are no accounts",
			noAccounts},
		{a + "acounts: 3", `line 2, column 1: unknown field "acounts"`, "did you mean accounts?"},
		{a + "colour: red", `line 2, column 1: unknown field "colour"`,
			"the settings here are as_of, accounts, identical, replacements, crypto, average_cost, positions, filing_status, realized, tax_rates, exit_rules"},
		{"accounts: [{id: a, knd: ira}]", `line 1, column 20: unknown field "knd"`,
			"did you mean kind?"},
		{"accounts: [{kind: ira}]", "line 1, column 12: accounts.id: the account has no id",
			"add one, such as id: brk; transactions refer to it"},
		{"accounts:\n  - id: a\n    kind: taxble",
			`line 3, column 11: accounts.kind: "taxble" is not known`, "did you mean taxable?"},
		{"accounts:\n  - id: a\n    kind: piggybank",
			`line 3, column 11: accounts.kind: "piggybank" is not known`,
			"it is one of taxable, ira, roth, hsa, 401k"},
		{"accounts: [{id: a, owner: spuose}]",
			`line 1, column 27: accounts.owner: "spuose" is not known`, "did you mean spouse?"},
		{"accounts: [{id: a, owner: neighbour}]",
			`line 1, column 27: accounts.owner: "neighbour" is not known`,
			"it is one of self, spouse"},
		{"accounts: [{id: a, form_1099: nobasis}]",
			`line 1, column 31: accounts.form_1099: "nobasis" is not known`,
			"did you mean no_basis?"},
		{"accounts: [{id: a, lot_method: fito}]",
			`line 1, column 32: accounts.lot_method: "fito" is not known`, "did you mean fifo?"},
		{a + "filing_status: maried_joint",
			`line 2, column 16: filing_status: "maried_joint" is not known`,
			"did you mean married_joint?"},
		{a + "filing_status: divorced", `line 2, column 16: filing_status: "divorced" is not known`,
			"it is one of single, married_joint, married_separate, head"},
		{"accounts: [{id: a}, {id: a}]",
			`line 1, column 26: accounts.id: "a" is already an account`, oneEach},
		{"accounts: [{id: a}, {id: b, names: [c, a]}]",
			`line 1, column 40: accounts.names: "a" is already an account`, oneEach},
		{"accounts: [{id: a, names: [n]}, {id: b, names: [n]}]",
			`line 1, column 49: accounts.names: "n" is already an account`, oneEach},
		{"accounts: [{id: a, names: [b]}, {id: b}]",
			`line 1, column 38: accounts.id: "b" is already an account`, oneEach},
		{a + "identical: [[VOO]]",
			"line 2, column 13: identical: a group needs at least two tickers",
			"write groups as [[VOO, IVV]]"},
		{a + "identical: [[VOO, IVV], []]",
			"line 2, column 25: identical: a group needs at least two tickers",
			"write groups as [[VOO, IVV]]"},
		{a + "identical: [[VOO, ivv]]", `line 2, column 19: identical: "ivv" is not a ticker`,
			ticker},
		{a + "identical: [[VOO, V O]]", `line 2, column 19: identical: "V O" is not a ticker`,
			ticker},
		{a + "identical: [VOO, IVV]",
			"line 2, column 13: identical: must be a list; line 2, column 18: identical: must be a list", wantsAList},
		{a + "exit_rules:\n  slv: {}", `line 3, column 3: exit_rules.slv: "slv" is not a ticker`,
			ticker},
		{a + "exit_rules:\n  SLV: {rules: {regime_check: {tickers: [SLV, gld]}}}",
			`line 3, column 47: exit_rules.SLV.rules.regime_check.tickers: "gld" is not a ticker`,
			ticker},
		{a + "realized: {short_term: 1,000}", `line 2, column 26: unknown field "000"`,
			"the settings here are short_term, long_term, carryover_short, carryover_long"},
		{a + "realized:\n  short_term: 1,000",
			`line 3, column 15: realized.short_term: "1,000" is not a number`, number},
		{a + "realized:\n  long_term: 1e5",
			`line 3, column 14: realized.long_term: "1e5" is not a number`, number},
		{a + "realized:\n  carryover_short: 12345678901234567890",
			`line 3, column 20: realized.carryover_short: "12345678901234567890" is not a number`,
			number},
		{a + "realized:\n  carryover_long: $5",
			`line 3, column 19: realized.carryover_long: "$5" is not a number`, number},
		{a + "realized:\n  carryover_long: .inf",
			`line 3, column 19: realized.carryover_long: ".inf" is not a number`, number},
		{a + "tax_rates: {short_term: 24, long_term: 0.15}",
			`line 2, column 25: tax_rates.short_term: "24" is not between 0 and 1`,
			"write 24 percent as 0.24"},
		{a + "tax_rates: {short_term: 0.24, long_term: -0.1}",
			`line 2, column 42: tax_rates.long_term: "-0.1" is not between 0 and 1`,
			"write 24 percent as 0.24"},
		{a + "tax_rates: {short_term: 0.24}",
			"line 2, column 12: tax_rates: one of the federal rates is missing",
			"write both short_term and long_term"},
		{a + "realized: 5", "line 2, column 11: realized: must be a group of settings",
			manyAtATime},
		{a + "exit_rules:\n  SLV:\n    stop: {price: -65}",
			"line 4, column 19: exit_rules.SLV.stop.price: -65 is not above 0", above},
		{a + "exit_rules:\n  SLV:\n    stop: {price: 0.00}",
			"line 4, column 19: exit_rules.SLV.stop.price: 0.00 is not above 0", above},
		{a + "exit_rules:\n  SLV:\n    sizing: {max: -0.5}",
			"line 4, column 19: exit_rules.SLV.sizing.max: -0.5 is not above 0", above},
		{a + "exit_rules:\n  SLV:\n    sizing: {gap_pp: five}",
			`line 4, column 22: exit_rules.SLV.sizing.gap_pp: "five" is not a number`, number},
		{a + "exit_rules:\n  SLV:\n    rules: {momentum_exit: {lookback: -1}}",
			"line 4, column 39: exit_rules.SLV.rules.momentum_exit.lookback: must not be negative",
			"write a number of months, such as 3"},
		{a + "exit_rules:\n  SLV:\n    rules: {momentum_exit: {lookback: three}}",
			`line 4, column 39: exit_rules.SLV.rules.momentum_exit.lookback: "three" is not a whole number`, "write a number such as 5"},
		{a + "exit_rules:\n  SLV:\n    rules: {momentum_exit: {lookbak: 3}}",
			`line 4, column 29: unknown field "lookbak"`, "did you mean lookback?"},
		{a + "exit_rules:\n  SLV: {}\n  SLV: {}",
			"line 4, column 3: exit_rules.SLV: set twice, first on line 3", "keep one of them"},
		{a + "exit_rules: [SLV]", "line 2, column 13: exit_rules: must be a group of settings",
			manyAtATime},
		{"as_of: 30.06.2026\n" + a, `line 1, column 8: as_of: "30.06.2026" is not a date`, date},
		{"as_of: 2026-02-30\n" + a, `line 1, column 8: as_of: "2026-02-30" is not a date`, date},
		{"as_of: [2026-06-30]\n" + a, "line 1, column 8: as_of: must be a single value, not a list",
			oneValue},
		{"accounts: brk", "line 1, column 11: accounts: must be a list",
			"begin each item with a line such as - name: tests, and put its other settings below, indented like name"},
		{"accounts: [brk]", "line 1, column 12: accounts: must be a group of settings",
			manyAtATime},
		{"accounts: [{id: a, names: b}]", "line 1, column 27: accounts.names: must be a list",
			wantsAList},
	} {
		p, err := ParsePortfolio([]byte(tt.text))
		wrong := (*signalbox.Error)(nil)
		if !errors.As(err, &wrong) || p != nil {
			t.Errorf("%q: %v and error %v, want %s", tt.text, p, err, tt.want)
			continue
		}
		if wrong.Error() != tt.want || wrong.Hint != tt.hint || wrong.Code != signalbox.CodeUsage {
			t.Errorf("%q:\n got %s\nhint %s\nwant %s\nhint %s", tt.text, wrong, wrong.Hint, tt.want,
				tt.hint)
		}
	}
}

// FuzzParsePortfolio checks that errors have a position, one line and a hint, and that parsed
// portfolios have valid numbers and unique account names.
func FuzzParsePortfolio(f *testing.F) {
	f.Add(portfolioExample)
	f.Add("exit_rules: &a {SLV: {rules: &b {x: {}}}, GLD: {rules: *b}}\naccounts: [&c {id: a}, *c]\nrealized: *a")
	f.Add("accounts: [{id: \"a\\nb\", names: [~, '']}]\n? [a]\n: |\n  x\n--- !!str\n'")
	f.Add("accounts: [{id: a}]\nexit_rules: {SLV: {stop: {price: \"0x1p-2\"}}}")
	placed := regexp.MustCompile(`^line [1-9][0-9]*, column [1-9][0-9]*: .`)
	f.Fuzz(func(t *testing.T, text string) {
		p, err := ParsePortfolio([]byte(text))
		if err != nil {
			wrong := (*signalbox.Error)(nil)
			if !errors.As(err, &wrong) || wrong.Hint == "" || !placed.MatchString(err.Error()) ||
				strings.ContainsAny(err.Error(), "\r\n") {
				t.Errorf("error without a position or hint, or with several lines: %q", err)
			}
			return
		}
		taken := make(map[string]bool)
		for _, a := range p.Accounts {
			for _, name := range append([]string{a.ID}, a.Names...) {
				if taken[name] {
					t.Errorf("two accounts have the name %q", name)
				}
				taken[name] = true
			}
		}
		if len(p.Accounts) == 0 {
			t.Error("no accounts")
		}
	})
}
