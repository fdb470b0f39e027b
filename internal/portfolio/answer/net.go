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

// NetPosition is the net gain of the year if all candidates, or a simulated sale, are sold; negative
// for a loss.
type NetPosition struct {
	FilingStatus   string   `json:"filing_status,omitempty"`
	DeductionLimit Amount   `json:"deduction_limit"`
	Realized       Realized `json:"realized"`
	// Carryover is where the losses carried over come from: portfolio.yaml, the transactions of
	// earlier years, or nowhere, because these are incomplete.
	Carryover CarryoverSource `json:"carryover,omitempty"`
	// FromTransactions is the sum that the transactions give, nil if they are incomplete.
	FromTransactions *Amount `json:"carryover_from_transactions,omitempty"`
	NetShortTerm     Amount  `json:"net_short_term"`
	NetLongTerm      Amount  `json:"net_long_term"`
	Net              Amount  `json:"net"`
	// Deductible is the part of a net loss that is deductible this year, Carryforward the rest;
	// both without sign.
	Deductible   Amount `json:"deductible"`
	Carryforward Amount `json:"carryforward"`
}

// CarryoverSource is where the losses that a year carries over come from.
type CarryoverSource string

// The sources.
const (
	CarryoverConfigured CarryoverSource = "configured"
	CarryoverComputed   CarryoverSource = "transactions"
	CarryoverUnknown    CarryoverSource = "unknown"
)

// carriedOver returns the losses that were carried over into the year.
func (n *NetPosition) carriedOver() Amount {
	sum, err := n.Realized.CarryoverShort.Abs().Add(n.Realized.CarryoverLong.Abs())
	if err != nil {
		return Amount{} // cannot happen: NetOf added them
	}
	return Amount{sum}
}

// NetOf returns the net of the realized gains and losses and of further ones; losses are negative.
func NetOf(filingStatus string, realized Realized, moreShort,
	moreLong Amount) (*NetPosition, error) {
	n := &NetPosition{FilingStatus: filingStatus, DeductionLimit: DeductionLimit(filingStatus),
		Realized: realized}
	short, err := decimal.Sum(realized.ShortTerm.Decimal, realized.CarryoverShort.Abs().Neg(),
		moreShort.Decimal)
	if err != nil {
		return nil, fmt.Errorf("netting short-term gains and losses: %w", err)
	}
	long, err := decimal.Sum(realized.LongTerm.Decimal, realized.CarryoverLong.Abs().Neg(),
		moreLong.Decimal)
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

// TaxRates are rates from 0 to 1. ShortTerm also applies to other income, from which a net loss is
// deducted. State applies to both, and NIIT to a net gain.
type TaxRates struct{ ShortTerm, LongTerm, State, NIIT decimal.Decimal }

// Tax returns the tax on the net of the year, negative for what its deduction saves. A net loss of
// one kind lowers the net gain of the other (section 1222).
func (n *NetPosition) Tax(rates TaxRates) (Amount, error) {
	short, long := n.NetShortTerm.Decimal, n.NetLongTerm.Decimal
	switch {
	case n.Net.IsNeg():
		short, long = n.Deductible.Neg(), decimal.Zero
	case long.IsNeg():
		short, long = n.Net.Decimal, decimal.Zero
	case short.IsNeg():
		short, long = decimal.Zero, n.Net.Decimal
	}
	var err error
	sum := decimal.Zero
	add := func(amount, rate decimal.Decimal) {
		if err == nil {
			sum, err = sum.AddMul(amount, rate)
		}
	}
	if !n.Net.IsNeg() {
		add(n.Net.Decimal, rates.NIIT)
	}
	add(short, rates.ShortTerm)
	add(long, rates.LongTerm)
	add(short, rates.State)
	add(long, rates.State)
	if err != nil {
		return Amount{}, fmt.Errorf("computing the tax of the year: %w", err)
	}
	return Amount{sum}, nil
}
