package tax

import (
	"fmt"
	"time"
)

// Date is a calendar day, counted from 1800-01-01, which is 1. Zero means no date.
type Date int32

const (
	secondsPerDay = 24 * 60 * 60
	dayZero       = -62092  // days from 1970-01-01 to 1799-12-31
	maxDate       = 1 << 20 // in the year 4670
)

// DateOf returns a day of the calendar. Like [time.Date] it normalizes days that do not exist: 30
// February is a day in March.
func DateOf(year int, month time.Month, day int) Date {
	return Date(time.Date(year, month, day, 0, 0, 0, 0, time.UTC).Unix()/secondsPerDay - dayZero)
}

// ParseDate parses a day such as 2024-01-31. It rejects years before 1800, which are typing errors.
func ParseDate(s string) (Date, error) {
	t, err := time.Parse(time.DateOnly, s)
	if err != nil || t.Year() < 1800 {
		return 0, fmt.Errorf("date %q is not a day written as 2024-01-31", s)
	}
	return DateOf(t.Date()), nil
}

// Time returns midnight UTC of the day.
func (d Date) Time() time.Time { return time.Unix((int64(d)+dayZero)*secondsPerDay, 0).UTC() }

// String formats the day as 2024-01-31, and zero as nothing.
func (d Date) String() string {
	if d == 0 {
		return ""
	}
	return d.Time().Format(time.DateOnly)
}

// AddDays returns the day n days later.
func (d Date) AddDays(n int) Date { return d + Date(n) }

// Year returns the calendar year.
func (d Date) Year() int { return d.Time().Year() }

// LongTermFrom returns the first day on which a sale is long-term, for a holding period that starts
// on the given day, the day after the purchase. It is the anniversary of that day; 1 March if the
// anniversary is a 29 February that does not exist.
func LongTermFrom(holdingStart Date) Date {
	y, m, d := holdingStart.Time().Date()
	return DateOf(y+1, m, d)
}

// longTerm reports whether a sale is long-term.
func longTerm(holdingStart, sold Date) bool { return sold >= LongTermFrom(holdingStart) }
