package answer

import (
	"fmt"

	"github.com/govalues/decimal"
)

// FilingSeparate is the filing status with the lower limit.
const FilingSeparate = "married_separate"

// DeductionLimit returns how much net capital loss may be deducted from other income in a year.
func DeductionLimit(filingStatus string) Amount {
	if filingStatus == FilingSeparate {
		return Whole(1500)
	}
	return Whole(3000)
}

// Realized is the gains and losses of the year without the candidates. Gains are positive;
// carryovers are losses of earlier years, without sign.
type Realized struct {
	ShortTerm      Amount `json:"short_term"`
	LongTerm       Amount `json:"long_term"`
	CarryoverShort Amount `json:"carryover_short"`
	CarryoverLong  Amount `json:"carryover_long"`
}

// NetPosition is the net gain of the year if all candidates are sold, negative for a loss.
type NetPosition struct {
	FilingStatus   string   `json:"filing_status,omitempty"`
	DeductionLimit Amount   `json:"deduction_limit"`
	Realized       Realized `json:"realized"`
	NetShortTerm   Amount   `json:"net_short_term"`
	NetLongTerm    Amount   `json:"net_long_term"`
	Net            Amount   `json:"net"`
	// Deductible is the part of a net loss that is deductible this year, Carryforward the rest;
	// both without sign.
	Deductible   Amount `json:"deductible"`
	Carryforward Amount `json:"carryforward"`
}

// NetOf returns the net of the allowed losses of the candidates, which are negative, and the
// realized gains and losses.
func NetOf(filingStatus string, realized Realized, shortTermLoss,
	longTermLoss Amount) (*NetPosition, error) {
	n := &NetPosition{FilingStatus: filingStatus, DeductionLimit: DeductionLimit(filingStatus),
		Realized: realized}
	short, err := decimal.Sum(realized.ShortTerm.Decimal, realized.CarryoverShort.Abs().Neg(),
		shortTermLoss.Decimal)
	if err != nil {
		return nil, fmt.Errorf("netting short-term gains and losses: %w", err)
	}
	long, err := decimal.Sum(realized.LongTerm.Decimal, realized.CarryoverLong.Abs().Neg(),
		longTermLoss.Decimal)
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
