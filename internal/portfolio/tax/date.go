package tax

import (
	"fmt"
	"time"
)

// Date is a calendar day, as a number: 1800-01-01 is 1, so that zero is no date.
type Date int32

const (
	secondsPerDay = 24 * 60 * 60
	dayZero       = -62092 // days from 1970-01-01 to 1799-12-31
)

// DateOf returns the day with that year, month and day of the month; days that do not exist count on into the next
// month.
func DateOf(year int, month time.Month, day int) Date {
	return Date(time.Date(year, month, day, 0, 0, 0, 0, time.UTC).Unix()/secondsPerDay - dayZero)
}

// ParseDate reads 2024-01-31. Years before 1800 are refused: they are a typing error.
func ParseDate(s string) (Date, error) {
	t, err := time.Parse(time.DateOnly, s)
	if err != nil || t.Year() < 1800 {
		return 0, fmt.Errorf("date %q is not a day written as 2024-01-31", s)
	}
	return DateOf(t.Date()), nil
}

func (d Date) time() time.Time { return time.Unix((int64(d)+dayZero)*secondsPerDay, 0).UTC() }

// String writes the day as 2024-01-31.
func (d Date) String() string { return string(d.append(nil)) }

// append is String for whoever writes many.
func (d Date) append(b []byte) []byte { return d.time().AppendFormat(b, time.DateOnly) }

// MarshalText writes the day as String does.
func (d Date) MarshalText() ([]byte, error) { return []byte(d.String()), nil }

// UnmarshalText reads what MarshalText writes.
func (d *Date) UnmarshalText(text []byte) (err error) {
	*d, err = ParseDate(string(text))
	return err
}

// AddDays returns the day n days later.
func (d Date) AddDays(n int) Date { return d + Date(n) }

// Year returns the calendar year.
func (d Date) Year() int { return d.time().Year() }

// LongTermFrom returns the first day on which a sale is long-term, for shares whose holding period starts on that day,
// which is the day after the purchase. It is the anniversary; one that does not exist, 29 February, becomes 1 March.
func LongTermFrom(holdingStart Date) Date {
	y, m, d := holdingStart.time().Date()
	return DateOf(y+1, m, d)
}
