package exitrule

import (
	"errors"
	"fmt"
	"math"
)

// tolerance swallows the rounding of ratios: equal returns must not differ, and a gap of five points must not exceed five.
const tolerance = 1e-12

// market is the prices of one question, each ticker's read once.
type market struct {
	asOf   day
	prices map[string][]Price
	read   map[string]*series
}

func (k *market) series(ticker string) (*series, error) {
	if s := k.read[ticker]; s != nil {
		return s, nil
	}
	s, err := newSeries(ticker, k.prices[ticker], k.asOf)
	if err != nil {
		return nil, err
	}
	k.read[ticker] = s
	return s, nil
}

// judge evaluates one rule for the ticker. It always returns a signal with the rule's name and a status.
func (k *market) judge(ticker string, rule Rule) Signal {
	var signal Signal
	var err error
	switch rule.Name {
	case MomentumExit:
		signal, err = k.momentum(ticker, rule)
	case RegimeCheck:
		signal, err = k.regime(rule)
	default:
		err = fmt.Errorf("unknown rule %q: use %s or %s", rule.Name, MomentumExit, RegimeCheck)
	}
	if err != nil {
		return Signal{Rule: rule.Name, Status: StatusError, Error: err.Error()}
	}
	signal.Rule, signal.Status = rule.Name, StatusOK
	return signal
}

func (k *market) momentum(ticker string, rule Rule) (Signal, error) {
	lookback, err := monthsOf("lookback", rule.Lookback)
	if err != nil {
		return Signal{}, err
	}
	s, err := k.series(ticker)
	if err != nil {
		return Signal{}, err
	}
	last := lastComplete(k.asOf, s)
	returns, err := s.returns(last, lookback+1)
	if err != nil {
		return Signal{}, err
	}
	signal := momentumOf(returns)
	signal.Month, signal.Months = last.String(), named(last, returns)
	return signal, signal.checkFinite()
}

// momentumOf judges the last of the returns against all before it.
func momentumOf(returns []float64) Signal {
	before, last := returns[:len(returns)-1], returns[len(returns)-1]
	mean, deviation := meanDeviation(before)
	signal := Signal{Return: last, Mean: mean, Deviation: deviation, Gap: last - mean}
	signal.Triggered = signal.Gap < -tolerance
	switch {
	case !signal.Triggered:
	case deviation <= tolerance:
		// Months without spread, or a single month, give no measure for the gap.
		signal.Severity = 0.5
	default:
		signal.Severity = min(math.Abs(signal.Gap)/deviation, 1)
	}
	return signal
}

// meanDeviation gives the mean and the sample standard deviation, which is 0 for a single value.
func meanDeviation(values []float64) (mean, deviation float64) {
	for _, v := range values {
		mean += v
	}
	mean /= float64(len(values))
	if len(values) < 2 {
		return mean, 0
	}
	var squares float64
	for _, v := range values {
		squares += (v - mean) * (v - mean)
	}
	return mean, math.Sqrt(squares / float64(len(values)-1))
}

func (k *market) regime(rule Rule) (Signal, error) {
	period, err := monthsOf("period", rule.Period)
	if err != nil {
		return Signal{}, err
	}
	if len(rule.Tickers) == 0 {
		return Signal{}, errors.New("regime_check has no tickers: list its basket")
	}
	basket := make([]*series, 0, len(rule.Tickers))
	seen := make(map[string]bool, len(rule.Tickers))
	for _, ticker := range rule.Tickers {
		if seen[ticker] {
			return Signal{}, fmt.Errorf("regime_check lists %s twice, and all tickers weigh the same: list it once", ticker)
		}
		seen[ticker] = true
		s, err := k.series(ticker)
		if err != nil {
			return Signal{}, err
		}
		basket = append(basket, s)
	}
	last := lastComplete(k.asOf, basket...)
	means := make([]float64, period)
	for _, s := range basket {
		returns, err := s.returns(last, period)
		if err != nil {
			return Signal{}, err
		}
		for i, r := range returns {
			means[i] += r / float64(len(basket))
		}
	}
	signal := regimeOf(means)
	signal.Month, signal.Months = last.String(), named(last, means)
	return signal, signal.checkFinite()
}

// regimeOf judges the basket's mean returns, compounded.
func regimeOf(means []float64) Signal {
	grown := 1.0
	for _, r := range means {
		grown *= 1 + r
	}
	signal := Signal{Return: grown - 1, Gap: grown - 1}
	if signal.Return < -tolerance {
		signal.Triggered = true
		signal.Severity = min(10*math.Abs(signal.Return), 1)
	}
	return signal
}

func monthsOf(name string, n int) (int, error) {
	if n == 0 {
		return defaultMonths, nil
	}
	if n < 0 || n > maxMonths {
		return 0, fmt.Errorf("%s %d is out of range: give a number of months from 1 to %d", name, n, maxMonths)
	}
	return n, nil
}

func named(last month, returns []float64) []MonthReturn {
	months := make([]MonthReturn, len(returns))
	for i, r := range returns {
		m := last - month(len(returns)-1-i)
		months[i] = MonthReturn{Month: m.String(), Return: r}
	}
	return months
}

// checkFinite keeps numbers that JSON cannot carry out of the answer.
func (s Signal) checkFinite() error {
	for _, f := range []float64{s.Return, s.Mean, s.Deviation, s.Gap, s.Severity} {
		if math.IsNaN(f) || math.IsInf(f, 0) {
			return fmt.Errorf("the prices up to %s give no finite return: look for wrong ones", s.Month)
		}
	}
	return nil
}
