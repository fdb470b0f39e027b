package exitrule

import (
	"math"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/govalues/decimal"
	"pgregory.net/rapid"

	"signalbox/internal/testkit/must"
	"signalbox/internal/testkit/property"
)

func TestOverall(t *testing.T) {
	up, down := []string{"0.01", "0.01", "0.01", "0.02"},
		[]string{"-0.01", "-0.02", "-0.03", "-0.10"}
	// The last month is the best of four bad ones: only the regime triggers.
	easing := []string{"-0.05", "-0.06", "-0.04", "-0.01"}
	// The last month is the worst of four good ones: only the momentum triggers.
	slowing := []string{"0.05", "0.06", "0.04", "0.01"}
	two := []Rule{{Name: MomentumExit}, {Name: RegimeCheck, Tickers: []string{"SLV"}}}
	one := two[:1]
	broken := []Rule{{Name: MomentumExit}, {Name: RegimeCheck, Tickers: []string{"GLD"}}}
	three := append(append([]Rule{}, two...), Rule{Name: "full_moon"})
	tests := []struct {
		name     string
		rules    []Rule
		primary  string
		returns  []string
		want     string
		eligible bool
	}{
		{"all triggered", two, "", down,
			"STRONG EXIT — all 2 rules triggered; momentum_exit: -10.00% in 2024-05, mean before -2.00%, gap -8.00 pp", true},
		{"a single rule is never strong", one, "", down,
			"EXIT — momentum_exit: -10.00% in 2024-05, mean before -2.00%, gap -8.00 pp", true},
		{"primary only", two, "", slowing,
			"EXIT — momentum_exit: +1.00% in 2024-05, mean before +5.00%, gap -4.00 pp", true},
		{"an error is not strong", broken, "", down,
			"EXIT — momentum_exit: -10.00% in 2024-05, mean before -2.00%, gap -8.00 pp; regime_check could not be evaluated", true},
		{"all but an unknown one", three, "", down,
			"EXIT — momentum_exit: -10.00% in 2024-05, mean before -2.00%, gap -8.00 pp; full_moon could not be evaluated", true},
		{"secondary only", two, "", easing,
			"MONITOR — only regime_check triggered; momentum_exit: -1.00% in 2024-05, mean before -5.00%, gap +4.00 pp", false},
		{"none", two, "", up,
			"HOLD — momentum_exit: +2.00% in 2024-05, mean before +1.00%, gap +1.00 pp", false},
		{"none, one failed", broken, "", up,
			"HOLD — momentum_exit: +2.00% in 2024-05, mean before +1.00%, gap +1.00 pp; regime_check could not be evaluated", false},
		{"another primary", two, RegimeCheck, easing,
			"EXIT — regime_check: basket -10.66% over 3 months to 2024-05", true},
		{"the other rule is secondary", two, RegimeCheck, slowing,
			"MONITOR — only momentum_exit triggered; regime_check: basket +11.34% over 3 months to 2024-05", false},
		{"primary failed, secondary triggered", broken, RegimeCheck, down,
			"ERROR — regime_check could not be evaluated: no price of GLD up to 2024-06-10: add its prices", false},
		{"primary not configured", two[1:], "", down,
			"ERROR — momentum_exit could not be evaluated: the primary rule momentum_exit is not configured: add it, or set primary to one of regime_check", false},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			result := Evaluate(hundred(Config{Primary: test.primary, Rules: test.rules},
				monthly(t, test.returns...)))
			if result.Overall != test.want {
				t.Errorf("overall\n%q, want\n%q", result.Overall, test.want)
			}
			if result.Status != StatusSuccess || result.TradeEligible != test.eligible ||
				(result.Actions != nil) != test.eligible {
				t.Errorf("status %s, eligible %v, actions %+v; want eligible %v", result.Status,
					result.TradeEligible, result.Actions, test.eligible)
			}
			for i, s := range result.Signals {
				if s.Primary != (i == 0) {
					t.Errorf("signal %d, %s, primary %v", i, s.Rule, s.Primary)
				}
			}
		})
	}
}

func TestPosition(t *testing.T) {
	brk, ira := Holding{"brk", dec("100")}, Holding{"ira", dec("10.5")}
	short := Holding{"brk", dec("-40")}
	tests := []struct {
		name     string
		holdings []Holding
		account  string
		shares   string
		want     Position
		err      string
	}{
		{"only one", []Holding{brk}, "", "0", Position{"brk", dec("100"), dec("100")}, ""},
		{"named", []Holding{brk, ira}, "ira", "0", Position{"ira", dec("10.5"), dec("10.5")}, ""},
		{"part", []Holding{brk}, "", "30", Position{"brk", dec("30"), dec("100")}, ""},
		{"added up", []Holding{brk, {"brk", dec("5")}}, "", "0",
			Position{"brk", dec("105"), dec("105")}, ""},
		{"sold out elsewhere", []Holding{brk, {"ira", dec("0")}}, "", "0",
			Position{"brk", dec("100"), dec("100")}, ""},
		{"not in the data", nil, "", "25", Position{"", dec("25"), dec("0")}, ""},
		{"several", []Holding{ira, brk}, "", "0", Position{},
			"2 accounts hold SLV: name one of brk (100 shares), ira (10.5 shares)"},
		{"several, with shares", []Holding{ira, brk}, "", "5", Position{},
			"2 accounts hold SLV: name one of brk (100 shares), ira (10.5 shares)"},
		{"another account", []Holding{brk}, "ira", "0", Position{AccountID: "ira"},
			"account ira does not hold SLV: name one of brk (100 shares)"},
		{"none", nil, "", "0", Position{}, "no account holds SLV"},
		{"short", []Holding{short}, "", "0", Position{"brk", dec("-40"), dec("-40")},
			"account brk is short 40 shares of SLV"},
		{"short, with shares", []Holding{short}, "brk", "10",
			Position{"brk", dec("-40"), dec("-40")}, "account brk is short 40 shares of SLV"},
		{"long beside a short", []Holding{short, ira}, "ira", "0",
			Position{"ira", dec("10.5"), dec("10.5")}, ""},
		{"more than there is", []Holding{brk}, "", "100.5", Position{"brk", dec("100"), dec("100")},
			"shares 100.5 is more than the 100 shares of SLV in account brk"},
		{"part of a whole share", []Holding{brk}, "", "9.5",
			Position{"brk", dec("100"), dec("100")},
			"shares 9.5 is not a whole number, and account brk holds whole shares"},
		{"below zero", []Holding{brk}, "", "-1", Position{}, "shares -1 is below 0"},
		{"too many to add", []Holding{{"brk", dec("9999999999999999999")},
			{"brk", dec("9999999999999999999")}}, "", "0", Position{},
			"add up the shares in account brk"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			in := hundred(momentumConfig(), monthly(t, "0.10", "0.08", "0.12", "0.05"))
			in.Holdings, in.AccountID, in.Shares = test.holdings, test.account, dec(test.shares)
			result := Evaluate(in)
			if diff := cmp.Diff(test.want, result.Position,
				cmp.Comparer(decimal.Decimal.Equal)); diff != "" {
				t.Errorf("position (-want +got):\n%s", diff)
			}
			if test.err == "" {
				if result.Status != StatusSuccess || len(result.Actions) != 1 {
					t.Errorf("result %+v, want one action", result)
				}
				return
			}
			if result.Status != StatusError || !strings.Contains(result.Error, test.err) {
				t.Errorf("status %s, error %q; want %q", result.Status, result.Error, test.err)
			}
			if result.Actions != nil || result.Signals != nil || result.TradeEligible ||
				result.Overall != "" {
				t.Errorf("an error looks like an answer: %+v", result)
			}
		})
	}
}

func TestSizing(t *testing.T) {
	tests := []struct {
		name       string
		shares     string
		gap        float64
		sizing     Sizing
		sell, rest string
	}{
		{"half", "100", -0.03, Sizing{}, "50", "50"},
		{"five points", "100", -0.05, Sizing{}, "50", "50"},
		{"five points and rounding", "100", -0.05 - 1e-13, Sizing{}, "50", "50"},
		{"over five points", "100", -0.05 - 1e-9, Sizing{}, "75", "25"},
		{"whole shares round down", "101", -0.03, Sizing{}, "50", "51"},
		{"whole shares with zeros", "101.000", -0.03, Sizing{}, "50", "51"},
		{"half of one share is not all of it", "1", -0.03, Sizing{}, "0.5", "0.5"},
		{"three quarters of one share", "1", -0.08, Sizing{}, "0.75", "0.25"},
		{"half of two shares", "2", -0.03, Sizing{}, "1", "1"},
		{"a fraction above one share", "1.5", -0.03, Sizing{}, "0.75", "0.75"},
		{"half a share", "0.5", -0.03, Sizing{}, "0.25", "0.25"},
		{"a fraction below one share", "0.4", -0.03, Sizing{}, "0.2", "0.2"},
		{"all of one share", "1", -0.06, Sizing{Max: dec("1")}, "1", "0"},
		{"fractions stay", "10.5", -0.03, Sizing{}, "5.25", "5.25"},
		{"fractions stay at 75 %", "10.5", -0.08, Sizing{}, "7.875", "2.625"},
		{"six digits", "12.345678", -0.08, Sizing{}, "9.259258", "3.08642"},
		{"as many digits as the position", "12.34567891", -0.08, Sizing{}, "9.25925918",
			"3.08641973"},
		{"nineteen digits", "0.1234567890123456789", -0.08, Sizing{}, "0.0925925917592592592",
			"0.0308641972530864197"},
		{"own parts", "100", -0.03, Sizing{Min: dec("0.2"), Max: dec("1")}, "20", "80"},
		{"own parts, all", "100", -0.06, Sizing{Min: dec("0.2"), Max: dec("1")}, "100", "0"},
		{"own gap", "100", -0.03, Sizing{GapPP: 2.5}, "75", "25"},
		{"own gap, exactly", "100", -0.025, Sizing{GapPP: 2.5}, "50", "50"},
		{"very many", "9999999999999999999", -0.08, Sizing{}, "7499999999999999999",
			"2500000000000000000"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			got, err := size(test.gap, Position{Shares: dec(test.shares)},
				test.sizing.withDefaults(), false)
			must.Succeed(t, err)
			wantDecimal(t, "sell", got.SellQuantity, test.sell)
			wantDecimal(t, "rest", got.Remaining, test.rest)
		})
	}
}

// TestSizingOfContracts: contracts cannot be divided, and one contract is not sold because half of
// it should be.
func TestSizingOfContracts(t *testing.T) {
	for contracts, want := range map[string]string{"1": "0", "2": "1", "3": "1", "10": "5"} {
		got, err := size(-0.03, Position{Shares: dec(contracts)}, Sizing{}.withDefaults(), true)
		must.Succeed(t, err)
		wantDecimal(t, contracts, got.SellQuantity, want)
		if (got.Note != "") != (want == "0") {
			t.Errorf("%s: note %q", contracts, got.Note)
		}
	}
	in := hundred(momentumConfig(), monthly(t, "0.10", "0.08", "0.12", "0.05"))
	in.Whole, in.Shares = true, dec("1")
	in.Config.Stop = Stop{Price: dec("1")}
	result := Evaluate(in)
	if len(result.Actions) != 1 || result.Actions[0].Action != ActionPlaceStop ||
		result.Actions[0].Step != 1 {
		t.Errorf("%+v, want only a stop", result.Actions)
	}
}

func TestActions(t *testing.T) {
	sell := Action{Step: 1, Action: "SELL", Ticker: "SLV", AccountID: "brk", Quantity: dec("50"),
		OrderType: "market"}
	stopAt := func(price, force string) Action {
		return Action{Step: 2, Action: "PLACE_STOP", Ticker: "SLV", AccountID: "brk",
			Quantity: dec("50"), OrderType: "stop", StopPrice: dec(price), TimeInForce: force}
	}
	all := sell
	all.Quantity = dec("100")
	tests := []struct {
		name   string
		stop   Stop
		sizing Sizing
		want   []Action
		above  bool
		note   string
	}{
		{"no stop", Stop{}, Sizing{}, []Action{sell}, false, ""},
		{"stop below the price", Stop{Price: dec("65")}, Sizing{},
			[]Action{sell, stopAt("65", "GTC")}, false, ""},
		{"own time in force", Stop{Price: dec("139.9"), TimeInForce: "DAY"}, Sizing{},
			[]Action{sell, stopAt("139.9", "DAY")}, false, ""},
		{"stop at the price", Stop{Price: dec("140")}, Sizing{}, []Action{sell}, true,
			"the stop at 140 is not below the price of 140 on 2024-06-07"},
		{"stop above the price", Stop{Price: dec("141")}, Sizing{}, []Action{sell}, true,
			"the stop at 141 is not below the price of 140 on 2024-06-07"},
		{"nothing left to stop", Stop{Price: dec("65")}, Sizing{Min: dec("1"), Max: dec("1")},
			[]Action{all}, false, ""},
		{"nothing left, stop above the price", Stop{Price: dec("500")},
			Sizing{Min: dec("1"), Max: dec("1")}, []Action{all}, false, ""},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			config := momentumConfig()
			config.Stop, config.Sizing = test.stop, test.sizing
			prices := monthly(t, "0.10", "0.08", "0.12", "0.05")
			// The price that counts for the stop is the latest plain close, and none after the day
			// of the question.
			prices = append(prices, Price{Date: date("2024-06-07"), Close: dec("140"),
				Adjusted: dec("1")}, Price{Date: date("2024-06-11"), Close: dec("1")})
			result := Evaluate(hundred(config, prices))
			if diff := cmp.Diff(test.want, result.Actions,
				cmp.Comparer(decimal.Decimal.Equal)); diff != "" {
				t.Errorf("actions (-want +got):\n%s", diff)
			}
			if result.StopAboveMarket != test.above ||
				!strings.HasPrefix(result.StopNote, test.note) ||
				(result.StopNote == "") != (test.note == "") {
				t.Errorf("stop above market %v, note %q; want %v, %q", result.StopAboveMarket,
					result.StopNote, test.above, test.note)
			}
		})
	}
}

func TestStopWithoutAPrice(t *testing.T) {
	in := hundred(Config{Primary: RegimeCheck,
		Rules: []Rule{{Name: RegimeCheck, Tickers: []string{"GLD"}}}, Stop: Stop{Price: dec("65")}},
		nil)
	in.Prices = map[string][]Price{"GLD": monthly(t, "-0.1", "-0.1", "-0.1")}
	result := Evaluate(in)
	if len(result.Actions) != 1 || result.StopAboveMarket ||
		!strings.Contains(result.StopNote, "no price of SLV") {
		t.Errorf("actions %+v, note %q; want the sale and a note", result.Actions, result.StopNote)
	}
}

func TestNoStopWithoutATrade(t *testing.T) {
	config := momentumConfig()
	config.Stop = Stop{Price: dec("1000")}
	result := Evaluate(hundred(config, monthly(t, "0.01", "0.01", "0.01", "0.02")))
	if result.StopAboveMarket || result.StopNote != "" || result.Actions != nil {
		t.Errorf("result %+v, want no word about a stop", result)
	}
}

func TestConfigErrors(t *testing.T) {
	tests := []struct {
		name string
		edit func(c *Config)
		want string
	}{
		{"no rules", func(c *Config) { c.Rules = nil },
			"exit rules of SLV: no exit rules are configured"},
		{"rule without a name", func(c *Config) { c.Rules[0].Name = "" },
			"an exit rule has no name"},
		{"rule twice", func(c *Config) { c.Rules = append(c.Rules, c.Rules[0]) },
			"exit rule momentum_exit is configured twice"},
		{"negative stop", func(c *Config) { c.Stop.Price = dec("-1") }, "stop price -1 is below 0"},
		{"min below zero", func(c *Config) { c.Sizing.Min = dec("-0.1") },
			"sizing min -0.1 is not a fraction"},
		{"max over one", func(c *Config) { c.Sizing.Max = dec("75") },
			"sizing max 75 is not a fraction"},
		{"min over max", func(c *Config) { c.Sizing.Min = dec("0.8") },
			"sizing min 0.8 is above max 0.75"},
		{"negative gap", func(c *Config) { c.Sizing.GapPP = -5 }, "sizing gap_pp -5 is not valid"},
		{"gap that is not a number", func(c *Config) { c.Sizing.GapPP = math.NaN() },
			"sizing gap_pp NaN is not valid"},
		{"endless gap", func(c *Config) { c.Sizing.GapPP = math.Inf(1) },
			"sizing gap_pp +Inf is not valid"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			in := hundred(momentumConfig(), monthly(t, "0.10", "0.08", "0.12", "0.05"))
			test.edit(&in.Config)
			result := Evaluate(in)
			if result.Status != StatusError || !strings.Contains(result.Error, test.want) {
				t.Errorf("status %s, error %q; want %q", result.Status, result.Error, test.want)
			}
			wantDecimal(t, "shares", result.Position.Shares, "100")
		})
	}
	in := hundred(momentumConfig(), nil)
	in.Ticker = ""
	if result := Evaluate(in); result.Status != StatusError ||
		!strings.Contains(result.Error, "no ticker") {
		t.Errorf("result %+v without a ticker", result)
	}
}

// drawDecimal returns any decimal above zero, with up to 19 digits.
func drawDecimal(t *rapid.T, label string) decimal.Decimal {
	d, err := decimal.New(rapid.Int64Range(1, math.MaxInt64).Draw(t, label),
		rapid.IntRange(0, 19).Draw(t, label+" scale"))
	must.Succeed(t, err)
	return d
}

func TestPropertySaleWithinThePosition(t *testing.T) {
	property.Check(t, func(t *rapid.T) {
		shares := drawDecimal(t, "shares")
		gap := rapid.Float64Range(-1, 0).Draw(t, "gap")
		part := rapid.Int64Range(1, 100).Draw(t, "min")
		sizing := Sizing{Min: decimal.MustNew(part, 2),
			Max: decimal.MustNew(rapid.Int64Range(part, 100).Draw(t, "max"), 2)}
		got, err := size(gap, Position{Shares: shares}, sizing.withDefaults(), false)
		must.Succeed(t, err)
		most, err := shares.Mul(got.Fraction)
		if err != nil || got.SellQuantity.Cmp(most) > 0 || got.SellQuantity.IsNeg() ||
			got.Remaining.IsNeg() {
			t.Fatalf("sell %s of %s, rest %s (%v)", got.SellQuantity, shares, got.Remaining, err)
		}
		if shares.IsInt() && !got.SellQuantity.IsInt() && !got.SellQuantity.Less(decimal.One) {
			t.Fatalf("sell %s of %s: no whole number", got.SellQuantity, shares)
		}
		if sum, err := got.SellQuantity.Add(got.Remaining); err != nil || !sum.Equal(shares) {
			t.Fatalf("sell %s and keep %s of %s (%v)", got.SellQuantity, got.Remaining, shares, err)
		}
	})
}

// TestPropertyEvaluate checks that the parts of the answer to a random question are consistent.
func TestPropertyEvaluate(t *testing.T) {
	property.Check(t, func(t *rapid.T) {
		in := Input{Ticker: "SLV", AsOf: date("2024-06-10"), Config: bothRules(),
			Prices: map[string][]Price{}}
		in.Config.Stop.Price = dec("65")
		for _, ticker := range in.Config.Rules[0].Tickers {
			for m := range rapid.IntRange(0, 8).Draw(t, "months") {
				cents := rapid.Int64Range(0, 20000).Draw(t, "cents")
				in.Prices[ticker] = append(in.Prices[ticker],
					Price{Date: (monthOf(date("2024-05-31")) - month(m)).last(),
						Close: decimal.MustNew(cents, 2)})
			}
		}
		for _, account := range rapid.SliceOfN(rapid.SampledFrom([]string{"brk", "ira"}), 0,
			2).Draw(t, "accounts") {
			in.Holdings = append(in.Holdings,
				Holding{account, decimal.MustNew(rapid.Int64Range(-100, 100000).Draw(t, "shares"),
					2)})
		}
		r := Evaluate(in)
		if (r.Status == StatusError) != (r.Error != "") ||
			(r.Status == StatusError) != (r.Signals == nil) {
			t.Fatalf("status %s with %d signals, error %q", r.Status, len(r.Signals), r.Error)
		}
		if r.TradeEligible != (len(r.Actions) > 0) || r.TradeEligible != strings.Contains(r.Overall,
			"EXIT —") {
			t.Fatalf("eligible %v, actions %+v, overall %q", r.TradeEligible, r.Actions, r.Overall)
		}
		var sum decimal.Decimal
		for _, a := range r.Actions {
			var err error
			if sum, err = sum.Add(a.Quantity); err != nil {
				t.Fatal(err)
			}
		}
		if sum.Cmp(r.Position.Shares) > 0 && r.Status == StatusSuccess {
			t.Fatalf("actions on %s of %s shares", sum, r.Position.Shares)
		}
		for _, s := range r.Signals {
			if s.Severity < 0 || s.Severity > 1 || (s.Status == StatusError) != (s.Error != "") {
				t.Fatalf("signal %+v", s)
			}
		}
	})
}
