package answer

import (
	"fmt"

	"github.com/govalues/decimal"
)

// FilingSeparate is the filing status with the lower limit.
const FilingSeparate = "married_separate"

// DeductionLimit is how much net capital loss a year may take from other income.
func DeductionLimit(filingStatus string) Amount {
	if filingStatus == FilingSeparate {
		return Whole(1500)
	}
	return Whole(3000)
}

// Realized is what the year brought without the candidates. Gains are positive; carry-overs are losses of earlier
// years, without sign.
type Realized struct {
	ShortTerm      Amount `json:"short_term"`
	LongTerm       Amount `json:"long_term"`
	CarryoverShort Amount `json:"carryover_short"`
	CarryoverLong  Amount `json:"carryover_long"`
}

// NetPosition is the year's net gain, or loss if negative, with all candidates sold.
type NetPosition struct {
	FilingStatus   string   `json:"filing_status,omitempty"`
	DeductionLimit Amount   `json:"deduction_limit"`
	Realized       Realized `json:"realized"`
	NetShortTerm   Amount   `json:"net_short_term"`
	NetLongTerm    Amount   `json:"net_long_term"`
	Net            Amount   `json:"net"`
	// Deductible is how much of a net loss this year may use, Carryforward the rest; both without sign.
	Deductible   Amount `json:"deductible"`
	Carryforward Amount `json:"carryforward"`
}

// NetOf nets the allowed losses of the candidates (negative) with what the year brought.
func NetOf(filingStatus string, realized Realized, shortTermLoss, longTermLoss Amount) (*NetPosition, error) {
	n := &NetPosition{FilingStatus: filingStatus, DeductionLimit: DeductionLimit(filingStatus), Realized: realized}
	short, err := decimal.Sum(realized.ShortTerm.Decimal, realized.CarryoverShort.Abs().Neg(), shortTermLoss.Decimal)
	if err != nil {
		return nil, fmt.Errorf("netting short-term gains and losses: %w", err)
	}
	long, err := decimal.Sum(realized.LongTerm.Decimal, realized.CarryoverLong.Abs().Neg(), longTermLoss.Decimal)
	if err != nil {
		return nil, fmt.Errorf("netting long-term gains and losses: %w", err)
	}
	net, err := short.Add(long)
	if err != nil {
		return nil, fmt.Errorf("netting short-term with long-term: %w", err)
	}
	n.NetShortTerm, n.NetLongTerm, n.Net = Amount{short}, Amount{long}, Amount{net}
	if !net.IsNeg() {
		return n, nil
	}
	n.Deductible = Amount{net.Abs().Min(n.DeductionLimit.Decimal)}
	rest, err := net.Abs().Sub(n.Deductible.Decimal)
	if err != nil {
		return nil, fmt.Errorf("carrying the loss forward: %w", err)
	}
	n.Carryforward = Amount{rest}
	return n, nil
}
