package exitrule

import (
	"fmt"
	"slices"
	"sort"
	"time"

	"signalbox/internal/portfolio/tax"
)

func isWeekend(d tax.Date) bool {
	w := d.Time().Weekday()
	return w == time.Saturday || w == time.Sunday
}

// month counts months from the year 0.
type month int

func monthOf(d tax.Date) month {
	t := d.Time()
	return month(t.Year()*12 + int(t.Month()) - 1)
}

func (m month) first() tax.Date { return tax.DateOf(int(m)/12, time.Month(int(m)%12+1), 1) }

func (m month) last() tax.Date { return (m + 1).first() - 1 }

func (m month) String() string { return fmt.Sprintf("%04d-%02d", int(m)/12, int(m)%12+1) }

// slackDays is the maximum number of days between the last close of a month and its end. In January
// 2020 the last close in Shanghai was on the 23rd.
const slackDays = 10

// series is one ticker's prices up to the as-of date, by day.
type series struct {
	ticker   string
	rows     []Price
	weekends bool // the ticker has prices on weekends, so its months may end on one
}

// newSeries sorts a copy of the prices and drops those after asOf.
func newSeries(ticker string, prices []Price, asOf tax.Date) (*series, error) {
	s := &series{ticker: ticker, rows: make([]Price, 0, len(prices))}
	for _, p := range prices {
		if p.Date > asOf {
			continue
		}
		if !p.Close.IsPos() || p.Adjusted.IsNeg() {
			return nil, fmt.Errorf("the price of %s on %s is not above 0: correct it", ticker,
				p.Date)
		}
		s.rows = append(s.rows, p)
		s.weekends = s.weekends || isWeekend(p.Date)
	}
	if len(s.rows) == 0 {
		return nil, fmt.Errorf("no price of %s up to %s: add its prices", ticker, asOf)
	}
	slices.SortFunc(s.rows, func(a, b Price) int { return int(a.Date - b.Date) })
	for i := 1; i < len(s.rows); i++ {
		a, b := s.rows[i-1], s.rows[i]
		if a.Date == b.Date && (!a.Close.Equal(b.Close) || !a.Adjusted.Equal(b.Adjusted)) {
			return nil, fmt.Errorf("%s has two different prices on %s: keep one", ticker, a.Date)
		}
	}
	return s, nil
}

func (s *series) latest() Price { return s.rows[len(s.rows)-1] }

// ended reports whether there is a price on or after the last trading day of m.
func (s *series) ended(m month) bool {
	end := m.last()
	for !s.weekends && isWeekend(end) {
		end--
	}
	return s.latest().Date >= end
}

// lastComplete returns the last month that is complete for every series, as defined in the package
// comment.
func lastComplete(asOf tax.Date, all ...*series) month {
	m := monthOf(asOf)
	for _, s := range all {
		if !s.ended(m) {
			return m - 1
		}
	}
	return m
}

// closeOf returns the last price of a month.
func (s *series) closeOf(m month) (Price, error) {
	after := sort.Search(len(s.rows), func(i int) bool { return s.rows[i].Date > m.last() })
	if after == 0 {
		return Price{}, fmt.Errorf("no price of %s in %s: add its prices", s.ticker, m)
	}
	r := s.rows[after-1]
	switch {
	case r.Date < m.first():
		return Price{}, fmt.Errorf(
			"no price of %s in %s, the last one before it is from %s: add its prices", s.ticker, m,
			r.Date)
	case m.last()-r.Date > slackDays:
		return Price{}, fmt.Errorf(
			"no price of %s in the last %d days of %s, the last one before it is from %s: add its prices", s.ticker, slackDays, m, r.Date)
	}
	return r, nil
}

// returns returns the n monthly returns up to the month last, oldest first.
func (s *series) returns(last month, n int) ([]float64, error) {
	base := last - month(n)
	if from := s.rows[0].Date; base < monthOf(from) {
		return nil, fmt.Errorf(
			"not enough history: %d monthly returns up to %s need prices of %s from %s on, and the first price is from %s: add older prices or configure fewer months",
			n, last, s.ticker, base, from)
	}
	before, err := s.closeOf(base)
	if err != nil {
		return nil, err
	}
	returns := make([]float64, 0, n)
	for m := base + 1; m <= last; m++ {
		now, err := s.closeOf(m)
		if err != nil {
			return nil, err
		}
		r, err := s.change(before, now)
		if err != nil {
			return nil, err
		}
		returns = append(returns, r)
		before = now
	}
	return returns, nil
}

// change returns the relative change between two rows. Closes are converted to floats only here.
func (s *series) change(from, to Price) (float64, error) {
	a, b := from.Close, to.Close
	if from.Adjusted.IsPos() != to.Adjusted.IsPos() {
		return 0, fmt.Errorf(
			"only one of the prices of %s on %s and %s has an adjusted close: give both or neither",
			s.ticker, from.Date, to.Date)
	}
	if from.Adjusted.IsPos() {
		a, b = from.Adjusted, to.Adjusted
	}
	x, okX := a.Float64()
	y, okY := b.Float64()
	if !okX || !okY {
		return 0, fmt.Errorf(
			"the prices of %s on %s and %s, %s and %s, are out of range: correct them", s.ticker,
			from.Date, to.Date, a, b)
	}
	return y/x - 1, nil
}
