package exitrule

import (
	"errors"
	"fmt"
	"math"

	"signalbox/internal/portfolio/tax"
)

// tolerance absorbs rounding errors: equal returns must not differ, and a gap of five points must
// not exceed five.
const tolerance = 1e-12

// market has the prices of one question. The series of each ticker is computed once.
type market struct {
	asOf   tax.Date
	prices map[string][]Price
	read   map[string]*series
}

func (m *market) series(ticker string) (*series, error) {
	if s := m.read[ticker]; s != nil {
		return s, nil
	}
	s, err := newSeries(ticker, m.prices[ticker], m.asOf)
	if err != nil {
		return nil, err
	}
	m.read[ticker] = s
	return s, nil
}

// evaluate evaluates one rule for the ticker. The signal always has the name of the rule and a
// status.
func (m *market) evaluate(ticker string, rule Rule) Signal {
	var signal Signal
	var err error
	switch rule.Name {
	case MomentumExit:
		signal, err = m.momentum(ticker, rule)
	case RegimeCheck:
		signal, err = m.regime(rule)
	default:
		err = fmt.Errorf("unknown rule %q: use %s or %s", rule.Name, MomentumExit, RegimeCheck)
	}
	if err != nil {
		return Signal{Rule: rule.Name, Status: StatusError, Error: err.Error()}
	}
	signal.Rule, signal.Status = rule.Name, StatusOK
	return signal
}

func (m *market) momentum(ticker string, rule Rule) (Signal, error) {
	lookback, err := monthCount("lookback", rule.Lookback)
	if err != nil {
		return Signal{}, err
	}
	s, err := m.series(ticker)
	if err != nil {
		return Signal{}, err
	}
	last := lastComplete(m.asOf, s)
	returns, err := s.returns(last, lookback+1)
	if err != nil {
		return Signal{}, err
	}
	signal := momentumOf(returns)
	signal.Month, signal.Months = last.String(), monthReturns(last, returns)
	if signal.TriggerClose, err = s.triggerClose(last, signal); err != nil {
		return Signal{}, err
	}
	return signal, signal.checkFinite()
}

// triggerClose returns the plain close of a month with which its return would be the mean. It is
// scaled from the close that the month has, because the returns may be those of adjusted closes.
func (s *series) triggerClose(m month, signal Signal) (float64, error) {
	r, err := s.closeOf(m)
	if err != nil {
		return 0, err
	}
	price, ok := r.Close.Float64()
	if !ok {
		return 0, fmt.Errorf("the price of %s on %s, %s, is out of range: correct it", s.ticker,
			r.Date, r.Close)
	}
	return price * (1 + signal.Mean) / (1 + signal.Return), nil
}

// momentumOf compares the last return with the mean of those before it.
func momentumOf(returns []float64) Signal {
	before, last := returns[:len(returns)-1], returns[len(returns)-1]
	mean, deviation := meanDeviation(before)
	signal := Signal{Return: last, Mean: mean, Deviation: deviation, Gap: last - mean}
	signal.Triggered = signal.Gap < -tolerance
	switch {
	case !signal.Triggered:
	case deviation <= tolerance:
		// Equal returns, or a single one, give no scale for the gap.
		signal.Severity = 0.5
	default:
		signal.Severity = min(math.Abs(signal.Gap)/deviation, 1)
	}
	return signal
}

// meanDeviation returns the mean and the sample standard deviation, which is 0 for a single value.
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

func (m *market) regime(rule Rule) (Signal, error) {
	period, err := monthCount("period", rule.Period)
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
			return Signal{}, fmt.Errorf(
				"regime_check lists %s twice: list it once, because all tickers have the same weight", ticker)
		}
		seen[ticker] = true
		s, err := m.series(ticker)
		if err != nil {
			return Signal{}, err
		}
		basket = append(basket, s)
	}
	last := lastComplete(m.asOf, basket...)
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
	signal.Month, signal.Months = last.String(), monthReturns(last, means)
	return signal, signal.checkFinite()
}

// regimeOf compounds the mean returns of the basket.
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

func monthCount(name string, n int) (int, error) {
	if n == 0 {
		return defaultMonths, nil
	}
	if n < 0 || n > maxMonths {
		return 0, fmt.Errorf("%s %d is out of range: give a number of months from 1 to %d", name, n,
			maxMonths)
	}
	return n, nil
}

func monthReturns(last month, returns []float64) []MonthReturn {
	months := make([]MonthReturn, len(returns))
	for i, r := range returns {
		m := last - month(len(returns)-1-i)
		months[i] = MonthReturn{Month: m.String(), Return: r}
	}
	return months
}

// checkFinite refuses numbers that JSON cannot represent.
func (s Signal) checkFinite() error {
	for _, f := range []float64{s.Return, s.Mean, s.Deviation, s.Gap, s.Severity, s.TriggerClose} {
		if math.IsNaN(f) || math.IsInf(f, 0) {
			return fmt.Errorf("the prices up to %s do not give a finite return: look for wrong prices", s.Month)
		}
	}
	return nil
}
