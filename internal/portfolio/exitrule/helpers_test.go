package exitrule

import (
	"testing"

	"github.com/govalues/decimal"

	"signalbox/internal/portfolio/tax"
	"signalbox/internal/testkit/must"
)

func dec(s string) decimal.Decimal { return decimal.MustParse(s) }

func date(s string) tax.Date {
	d, err := tax.ParseDate(s)
	if err != nil {
		panic(err)
	}
	return d
}

// monthly returns month-end prices that start at 100 and have the given returns, the last of them
// in May 2024.
func monthly(t testing.TB, returns ...string) []Price {
	t.Helper()
	last := monthOf(date("2024-05-31"))
	level := dec("100")
	prices := []Price{{Date: (last - month(len(returns))).last(), Close: level}}
	for i, r := range returns {
		factor, err := decimal.One.Add(dec(r))
		must.Succeed(t, err)
		if level, err = level.Mul(factor); err != nil {
			t.Fatal(err)
		}
		prices = append(prices, Price{Date: (last - month(len(returns)-1-i)).last(), Close: level})
	}
	return prices
}

func momentumConfig() Config {
	return Config{Rules: []Rule{{Name: MomentumExit}}}
}

func bothRules() Config {
	return Config{Rules: []Rule{{Name: RegimeCheck, Tickers: []string{"SLV", "GLD", "TLT"}},
		{Name: MomentumExit}}}
}

// hundred is a question about 100 SLV in the account brk in June 2024.
func hundred(config Config, slv []Price) Input {
	return Input{
		Ticker: "SLV", AsOf: date("2024-06-10"), Config: config,
		Holdings: []Holding{{AccountID: "brk", Shares: dec("100")}},
		Prices:   map[string][]Price{"SLV": slv},
	}
}

func wantClose(t *testing.T, what string, got, want float64) {
	t.Helper()
	if d := got - want; d < -1e-9 || d > 1e-9 {
		t.Errorf("%s = %v, want %v", what, got, want)
	}
}

func wantDecimal(t *testing.T, what string, got decimal.Decimal, want string) {
	t.Helper()
	if !got.Equal(dec(want)) {
		t.Errorf("%s = %s, want %s", what, got, want)
	}
}
