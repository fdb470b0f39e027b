package exitrule

import (
	"fmt"
	"slices"
	"sort"
	"time"

	"github.com/govalues/decimal"
)

// day counts calendar days from 1970-01-01, so that days compare and subtract without time zones.
type day int

func dayOf(t time.Time) day {
	y, m, d := t.Date()
	return day(time.Date(y, m, d, 0, 0, 0, 0, time.UTC).Unix() / 86400)
}

func (d day) time() time.Time { return time.Unix(int64(d)*86400, 0).UTC() }

func (d day) String() string { return d.time().Format(time.DateOnly) }

func (d day) weekend() bool {
	w := d.time().Weekday()
	return w == time.Saturday || w == time.Sunday
}

func (d day) month() month {
	t := d.time()
	return month(t.Year()*12 + int(t.Month()) - 1)
}

// month counts months from the year 0.
type month int

func (m month) first() day {
	return dayOf(time.Date(int(m)/12, time.Month(int(m)%12+1), 1, 0, 0, 0, 0, time.UTC))
}

func (m month) last() day { return (m + 1).first() - 1 }

func (m month) String() string { return fmt.Sprintf("%04d-%02d", int(m)/12, int(m)%12+1) }

// slackDays is the maximum number of days between the last close of a month and its end. In January
// 2020 the last close in Shanghai was on the 23rd.
const slackDays = 10

// series is one ticker's prices up to the as-of date, by day.
type series struct {
	ticker   string
	rows     []row
	weekends bool // the ticker has prices on weekends, so its months may end on one
}

type row struct {
	day             day
	close, adjusted decimal.Decimal
}

// newSeries sorts a copy of the prices and drops those after asOf.
func newSeries(ticker string, prices []Price, asOf day) (*series, error) {
	s := &series{ticker: ticker, rows: make([]row, 0, len(prices))}
	for _, p := range prices {
		d := dayOf(p.Date)
		if d > asOf {
			continue
		}
		if !p.Close.IsPos() || p.Adjusted.IsNeg() {
			return nil, fmt.Errorf("the price of %s on %s is not above 0: correct it", ticker, d)
		}
		s.rows = append(s.rows, row{d, p.Close, p.Adjusted})
		s.weekends = s.weekends || d.weekend()
	}
	if len(s.rows) == 0 {
		return nil, fmt.Errorf("no price of %s up to %s: add its prices", ticker, asOf)
	}
	slices.SortFunc(s.rows, func(a, b row) int { return int(a.day - b.day) })
	for i := 1; i < len(s.rows); i++ {
		a, b := s.rows[i-1], s.rows[i]
		if a.day == b.day && (!a.close.Equal(b.close) || !a.adjusted.Equal(b.adjusted)) {
			return nil, fmt.Errorf("%s has two different prices on %s: keep one", ticker, a.day)
		}
	}
	return s, nil
}

func (s *series) latest() row { return s.rows[len(s.rows)-1] }

// ended reports whether there is a price on or after the last trading day of m.
func (s *series) ended(m month) bool {
	end := m.last()
	for !s.weekends && end.weekend() {
		end--
	}
	return s.latest().day >= end
}

// lastComplete returns the last month that is complete for every series, as defined in the package
// comment.
func lastComplete(asOf day, all ...*series) month {
	m := asOf.month()
	for _, s := range all {
		if !s.ended(m) {
			return m - 1
		}
	}
	return m
}

// closeOf returns the last price of a month.
func (s *series) closeOf(m month) (row, error) {
	after := sort.Search(len(s.rows), func(i int) bool { return s.rows[i].day > m.last() })
	if after == 0 {
		return row{}, fmt.Errorf("no price of %s in %s: add its prices", s.ticker, m)
	}
	r := s.rows[after-1]
	switch {
	case r.day < m.first():
		return row{}, fmt.Errorf(
			"no price of %s in %s, the last one before it is from %s: add its prices", s.ticker, m,
			r.day)
	case m.last()-r.day > slackDays:
		return row{}, fmt.Errorf(
			"no price of %s in the last %d days of %s, the last one before it is from %s: add its prices", s.ticker, slackDays, m, r.day)
	}
	return r, nil
}

// returns returns the n monthly returns up to the month last, oldest first.
func (s *series) returns(last month, n int) ([]float64, error) {
	base := last - month(n)
	if from := s.rows[0].day; base < from.month() {
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
func (s *series) change(from, to row) (float64, error) {
	a, b := from.close, to.close
	if from.adjusted.IsPos() != to.adjusted.IsPos() {
		return 0, fmt.Errorf(
			"only one of the prices of %s on %s and %s has an adjusted close: give both or neither",
			s.ticker, from.day, to.day)
	}
	if from.adjusted.IsPos() {
		a, b = from.adjusted, to.adjusted
	}
	x, okX := a.Float64()
	y, okY := b.Float64()
	if !okX || !okY {
		return 0, fmt.Errorf(
			"the prices of %s on %s and %s, %s and %s, are out of range: correct them", s.ticker,
			from.day, to.day, a, b)
	}
	return y/x - 1, nil
}
