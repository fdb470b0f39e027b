package exitrule

import (
	"math"
	"strconv"
	"strings"
	"testing"

	"github.com/govalues/decimal"
	"pgregory.net/rapid"

	"signalbox/internal/testkit/property"
)

func TestMomentumCheckValues(t *testing.T) {
	tests := []struct {
		name      string
		returns   []string
		triggered bool
		gapPP     float64
		severity  float64
		sell      string
	}{
		// The gap of exactly 5 points is not above 5.
		{"gap of five points", []string{"0.10", "0.08", "0.12", "0.05"}, true, -5, 1, "50"},
		{"gap of eight points", []string{"-0.02", "-0.01", "-0.03", "-0.10"}, true, -8, 1, "75"},
		{"better than before", []string{"0.05", "0.06", "0.04", "0.10"}, false, 5, 0, "0"},
		{"just over five points", []string{"0.10", "0.08", "0.12", "0.04999"}, true, -5.001, 1,
			"75"},
		{"just under five points", []string{"0.10", "0.08", "0.12", "0.05001"}, true, -4.999, 1,
			"50"},
		// The months before are 2, 4 and 6 %: the sample deviation is 2 points, that of a
		// population 1.63.
		{"half a deviation", []string{"0.02", "0.04", "0.06", "0.03"}, true, -1, 0.5, "50"},
		{"equal to the mean", []string{"0.02", "0.04", "0.06", "0.04"}, false, 0, 0, "0"},
		{"no deviation", []string{"0.10", "0.10", "0.10", "0.09"}, true, -1, 0.5, "50"},
		{"equal returns", []string{"0.1", "0.1", "0.1", "0.1"}, false, 0, 0, "0"},
		{"older months do not count", []string{"0.90", "0.02", "0.04", "0.06", "0.04"}, false, 0, 0,
			"0"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			result := Evaluate(hundred(momentumConfig(), monthly(t, test.returns...)))
			if result.Status != StatusSuccess {
				t.Fatalf("status %s: %s", result.Status, result.Error)
			}
			signal := result.Signals[0]
			if signal.Status != StatusOK || signal.Triggered != test.triggered ||
				result.TradeEligible != test.triggered {
				t.Errorf("signal %+v, eligible %v; want triggered %v", signal, result.TradeEligible,
					test.triggered)
			}
			wantClose(t, "gap in points", signal.Gap*100, test.gapPP)
			wantClose(t, "severity", signal.Severity, test.severity)
			if !test.triggered {
				if result.Sizing != nil || result.Actions != nil {
					t.Errorf("sizing %+v and actions %+v without a trade", result.Sizing,
						result.Actions)
				}
				return
			}
			wantDecimal(t, "sell quantity", result.Sizing.SellQuantity, test.sell)
			wantClose(t, "gap of the sizing", result.Sizing.GapPP, test.gapPP)
		})
	}
}

// TestTriggerClose sets the close of the last month just above and below the close at which the
// rule triggers, also if the returns are those of adjusted closes.
func TestTriggerClose(t *testing.T) {
	for _, adjusted := range []bool{false, true} {
		prices := monthly(t, "0.10", "0.08", "0.12", "0.05")
		for i := range prices {
			if adjusted {
				prices[i].Adjusted = prices[i].Close
				prices[i].Close = dec([]string{"400", "450", "500", "550", "600"}[i])
			}
		}
		last := &prices[len(prices)-1]
		trigger := Evaluate(hundred(momentumConfig(), prices)).Signals[0].TriggerClose
		before, _ := last.Close.Float64()
		for factor, want := range map[float64]bool{0.9999: true, 1.0001: false} {
			close, scale := trigger*factor, trigger*factor/before
			moved := *last
			moved.Close = decimal.MustParse(strconv.FormatFloat(close, 'f', 9, 64))
			if adjusted {
				f, _ := last.Adjusted.Float64()
				moved.Adjusted = decimal.MustParse(strconv.FormatFloat(f*scale, 'f', 9, 64))
			}
			signal := Evaluate(hundred(momentumConfig(),
				append(prices[:len(prices)-1:len(prices)-1], moved))).Signals[0]
			if signal.Status != StatusOK || signal.Triggered != want {
				t.Errorf("adjusted %t, close %g of %g: %+v, want triggered %t", adjusted, close,
					trigger, signal, want)
			}
		}
	}
}

func basket(t *testing.T) map[string][]Price {
	return map[string][]Price{
		"SLV": monthly(t, "0.03", "-0.05", "-0.10", "-0.03"),
		"GLD": monthly(t, "-0.02", "-0.04", "-0.01"),
		"TLT": monthly(t, "-0.03", "-0.05", "-0.02"),
	}
}

func TestRegimeCheckValue(t *testing.T) {
	in := hundred(bothRules(), nil)
	in.Prices = basket(t)
	signal := Evaluate(in).Signals[1]
	if signal.Rule != RegimeCheck || signal.Status != StatusOK || !signal.Triggered ||
		signal.Month != "2024-05" {
		t.Fatalf("signal %+v", signal)
	}
	if got := math.Round(signal.Return*1e4) / 100; got != -11.27 {
		t.Errorf("return %v %%, want -11.27", got)
	}
	wantClose(t, "severity", signal.Severity, 1)
	wantClose(t, "mean return of March", signal.Months[0].Return, -0.10/3)
	if signal.Months[0].Month != "2024-03" {
		t.Errorf("first month %s, want 2024-03", signal.Months[0].Month)
	}
}

func TestRegimeBoundaries(t *testing.T) {
	tests := []struct {
		name      string
		means     []float64
		triggered bool
		severity  float64
	}{
		{"flat", []float64{0, 0, 0}, false, 0},
		{"rounding below zero", []float64{-1e-13, 0, 0}, false, 0},
		{"half", []float64{-0.05}, true, 0.5},
		{"a tenth is full", []float64{-0.10}, true, 1},
		{"gain", []float64{-0.10, 0.20}, false, 0},
		{"compounded, not added", []float64{-0.10, 0.10}, true, 0.1},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			signal := regimeOf(test.means)
			if signal.Triggered != test.triggered {
				t.Errorf("triggered %v, want %v: %+v", signal.Triggered, test.triggered, signal)
			}
			wantClose(t, "severity", signal.Severity, test.severity)
			wantClose(t, "gap", signal.Gap, signal.Return)
		})
	}
}

func TestLookbackAndPeriod(t *testing.T) {
	in := hundred(Config{Rules: []Rule{{Name: MomentumExit, Lookback: 1},
		{Name: RegimeCheck, Tickers: []string{"SLV"}, Period: 1}}},
		monthly(t, "0.02", "-0.03"))
	signals := Evaluate(in).Signals
	wantClose(t, "gap with one month before", signals[0].Gap, -0.05)
	// One month has no deviation.
	wantClose(t, "severity with one month before", signals[0].Severity, 0.5)
	wantClose(t, "return of one month", signals[1].Return, -0.03)
	wantClose(t, "severity of one month", signals[1].Severity, 0.3)
}

func TestRuleErrors(t *testing.T) {
	four := func(t *testing.T) []Price { return monthly(t, "0.1", "0.1", "0.1", "0.1") }
	tests := []struct {
		name string
		rule Rule
		edit func(in *Input)
		want string
	}{
		{"unknown rule", Rule{Name: "full_moon"}, nil,
			`unknown rule "full_moon": use momentum_exit or regime_check`},
		{"no history", Rule{Name: MomentumExit, Lookback: 4}, nil,
			"not enough history: 5 monthly returns up to 2024-05 need prices of SLV from 2023-12 on, and the first price is from 2024-01-31"},
		{"negative lookback", Rule{Name: MomentumExit, Lookback: -1}, nil,
			"lookback -1 is out of range"},
		{"endless lookback", Rule{Name: MomentumExit, Lookback: math.MaxInt}, nil,
			"is out of range: give a number of months from 1 to 1200"},
		{"negative period", Rule{Name: RegimeCheck, Tickers: []string{"SLV"}, Period: -2}, nil,
			"period -2 is out of range"},
		{"empty basket", Rule{Name: RegimeCheck}, nil, "regime_check has no tickers"},
		{"ticker twice", Rule{Name: RegimeCheck, Tickers: []string{"SLV", "SLV"}}, nil,
			"lists SLV twice"},
		{"basket without prices", Rule{Name: RegimeCheck, Tickers: []string{"SLV", "GLD"}}, nil,
			"no price of GLD up to 2024-06-10: add its prices"},
		{"no price", Rule{Name: MomentumExit}, func(in *Input) { in.Prices = nil },
			"no price of SLV up to 2024-06-10"},
		{"only later prices", Rule{Name: MomentumExit},
			func(in *Input) { in.AsOf = date("2023-01-01") }, "no price of SLV up to 2023-01-01"},
		{"price of zero", Rule{Name: MomentumExit},
			func(in *Input) { in.Prices["SLV"][2].Close = dec("0") },
			"the price of SLV on 2024-03-31 is not above 0"},
		{"negative adjusted price", Rule{Name: MomentumExit},
			func(in *Input) { in.Prices["SLV"][2].Adjusted = dec("-1") },
			"the price of SLV on 2024-03-31 is not above 0"},
		{"adjusted in part", Rule{Name: MomentumExit},
			func(in *Input) { in.Prices["SLV"][2].Adjusted = dec("99") },
			"only one of the prices of SLV on 2024-02-29 and 2024-03-31 has an adjusted close"},
		{"two prices of a day", Rule{Name: MomentumExit}, func(in *Input) {
			in.Prices["SLV"] = append(in.Prices["SLV"],
				Price{Date: date("2024-03-31"), Close: dec("7")})
		}, "SLV has two different prices on 2024-03-31"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			in := hundred(Config{Primary: test.rule.Name, Rules: []Rule{test.rule}}, four(t))
			if test.edit != nil {
				test.edit(&in)
			}
			result := Evaluate(in)
			if result.Status != StatusSuccess || len(result.Signals) != 1 {
				t.Fatalf("result %+v", result)
			}
			signal := result.Signals[0]
			if signal.Status != StatusError || signal.Triggered || signal.Severity != 0 ||
				!strings.Contains(signal.Error, test.want) {
				t.Errorf("signal %+v, want the error %q", signal, test.want)
			}
			if !strings.HasPrefix(result.Overall, "ERROR — "+test.rule.Name) ||
				!strings.Contains(result.Overall, test.want) || result.TradeEligible {
				t.Errorf("overall %q, eligible %v", result.Overall, result.TradeEligible)
			}
		})
	}
}

func TestInfiniteReturnIsAnError(t *testing.T) {
	in := hundred(Config{Primary: RegimeCheck,
		Rules: []Rule{{Name: RegimeCheck, Tickers: []string{"A", "B"}, Period: 20}}}, nil)
	// Each ticker jumps up and down in turn, so that the mean jumps up every month.
	in.Prices = map[string][]Price{}
	low, high := dec("0.0000000000000000001"), dec("9999999999999999999")
	for i := range 21 {
		a, b := low, high
		if i%2 == 1 {
			a, b = high, low
		}
		d := (monthOf(date("2022-09-01")) + month(i)).last()
		in.Prices["A"] = append(in.Prices["A"], Price{Date: d, Close: a})
		in.Prices["B"] = append(in.Prices["B"], Price{Date: d, Close: b})
	}
	signal := Evaluate(in).Signals[0]
	if signal.Status != StatusError ||
		!strings.Contains(signal.Error, "not give a finite return") || signal.Return != 0 {
		t.Errorf("signal %+v, want an error", signal)
	}
}

func TestAdjustedClosesAreUsed(t *testing.T) {
	prices := monthly(t, "0.1", "0.1", "0.1", "0.1")
	for i := range prices {
		prices[i].Adjusted = prices[i].Close
	}
	// A split of 2 for 1 in May halves the close and not the adjusted one.
	prices[4].Close = dec("73.205")
	result := Evaluate(hundred(momentumConfig(), prices))
	if result.Signals[0].Triggered || result.Signals[0].Status != StatusOK {
		t.Errorf("signal %+v, want none", result.Signals[0])
	}
	wantDecimal(t, "price", result.Price, "73.205")
}

func TestPropertySignals(t *testing.T) {
	property.Check(t, func(t *rapid.T) {
		returns := rapid.SliceOfN(rapid.Float64Range(-0.99, 5), 2, 30).Draw(t, "returns")
		for name, s := range map[string]Signal{"momentum": momentumOf(returns),
			"regime": regimeOf(returns)} {
			if s.Severity < 0 || s.Severity > 1 || math.IsNaN(s.Severity) {
				t.Fatalf("%s: severity %v", name, s.Severity)
			}
			if s.Triggered != (s.Severity > 0) {
				t.Fatalf("%s: triggered %v with severity %v", name, s.Triggered, s.Severity)
			}
			if s.Triggered && s.Gap >= 0 {
				t.Fatalf("%s: triggered with the gap %v", name, s.Gap)
			}
		}
	})
}

func TestPropertyEqualReturnsNeverTrigger(t *testing.T) {
	property.Check(t, func(t *rapid.T) {
		r := rapid.Float64Range(-0.9, 2).Draw(t, "return")
		noise := rapid.SliceOfN(rapid.Float64Range(-1e-13, 1e-13), 2, 30).Draw(t, "noise")
		for i := range noise {
			noise[i] += r
		}
		if s := momentumOf(noise); s.Triggered || s.Severity != 0 {
			t.Fatalf("equal returns trigger: %+v", s)
		}
	})
}
