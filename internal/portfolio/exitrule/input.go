package exitrule

import (
	"cmp"
	"errors"
	"fmt"
	"math"

	"github.com/govalues/decimal"

	"signalbox/internal/portfolio/tax"
)

// The names of the built-in rules in the configuration.
const (
	MomentumExit = "momentum_exit"
	RegimeCheck  = "regime_check"
)

// Input is everything that a verdict depends on.
type Input struct {
	Ticker string
	// AsOf is the day of the question. Later prices are ignored.
	AsOf tax.Date
	// AccountID is the account of the position. It may be empty if only one account holds the
	// ticker.
	AccountID string
	// Shares limits the question to a part of the position. Zero means all of it. If no account
	// holds the ticker, it is the size of a position that is not in the portfolio.
	Shares decimal.Decimal
	// Whole means that the position cannot be divided below one, like option contracts. Other
	// positions can, if they must.
	Whole bool
	// Holdings are the open positions in the ticker. Those of one account are added; short
	// positions are negative.
	Holdings []Holding
	// Prices by ticker, in any order, each ticker in one currency.
	Prices map[string][]Price
	Config Config
}

// Holding is the position of one account.
type Holding struct {
	AccountID string
	Shares    decimal.Decimal
}

// Price is the price of a ticker on one day. Only the calendar date of Date is used.
type Price struct {
	Date  tax.Date
	Close decimal.Decimal
	// Adjusted is the close adjusted for splits and dividends. Zero means that it is not known.
	Adjusted decimal.Decimal
}

// Config holds the exit rules of one ticker.
type Config struct {
	// Primary is the name of the rule that decides whether to sell. Empty means momentum_exit.
	Primary string
	Rules   []Rule
	Sizing  Sizing
	Stop    Stop
}

// Rule is a rule with its settings. Settings of other rules are ignored.
type Rule struct {
	Name string
	// Lookback is the number of months before the last one that momentum_exit averages. Zero means
	// 3.
	Lookback int
	// Tickers are the basket of regime_check.
	Tickers []string
	// Period is the number of months that regime_check compounds. Zero means 3.
	Period int
}

// Sizing configures how much of a position to sell.
type Sizing struct {
	// Min is the fraction that is normally sold. Zero means 0.50.
	Min decimal.Decimal
	// Max is the fraction that is sold if the gap is above GapPP. Zero means 0.75.
	Max decimal.Decimal
	// GapPP is the gap in percentage points above which Max is sold. Zero means 5.
	GapPP float64
}

// Stop configures the stop order for the remaining shares.
type Stop struct {
	// Price is the price that triggers the order. Zero means no stop.
	Price decimal.Decimal
	// TimeInForce is copied to the order. Empty means GTC.
	TimeInForce string
}

const (
	defaultMonths = 3
	defaultGapPP  = 5
	defaultForce  = "GTC"
	// maxMonths limits the months of a rule to a hundred years, so that month numbers cannot
	// overflow.
	maxMonths = 1200
)

// Validate reports settings that make the whole configuration invalid. It accepts unknown rules and
// wrong settings of one rule: those are errors of that rule alone, and [Evaluate] reports them
// together with the results of the other rules.
func (c Config) Validate() error {
	if len(c.Rules) == 0 {
		return errors.New("no exit rules are configured: add exit_rules for the ticker")
	}
	seen := make(map[string]bool, len(c.Rules))
	for _, rule := range c.Rules {
		if rule.Name == "" {
			return errors.New("an exit rule has no name: give it one")
		}
		if seen[rule.Name] {
			return fmt.Errorf("exit rule %s is configured twice: keep one", rule.Name)
		}
		seen[rule.Name] = true
	}
	if c.Stop.Price.IsNeg() {
		return fmt.Errorf("stop price %s is below 0: give a price above 0, or none", c.Stop.Price)
	}
	return c.Sizing.withDefaults().validate()
}

func (s Sizing) validate() error {
	for _, part := range []struct {
		name  string
		value decimal.Decimal
	}{{"min", s.Min}, {"max", s.Max}} {
		if !part.value.IsPos() || part.value.Cmp(decimal.One) > 0 {
			return fmt.Errorf("sizing %s %s is not a fraction of a position: give a number above 0 and at most 1", part.name, part.value)
		}
	}
	if s.Min.Cmp(s.Max) > 0 {
		return fmt.Errorf("sizing min %s is above max %s: swap them, or set both", s.Min, s.Max)
	}
	if math.IsNaN(s.GapPP) || math.IsInf(s.GapPP, 0) || s.GapPP < 0 {
		return fmt.Errorf("sizing gap_pp %g is not valid: give percentage points above 0", s.GapPP)
	}
	return nil
}

func (s Sizing) withDefaults() Sizing {
	if s.Min.IsZero() {
		s.Min = decimal.MustNew(50, 2)
	}
	if s.Max.IsZero() {
		s.Max = decimal.MustNew(75, 2)
	}
	s.GapPP = cmp.Or(s.GapPP, defaultGapPP)
	return s
}

func (c Config) primary() string { return cmp.Or(c.Primary, MomentumExit) }
