package answer

import (
	"bytes"
	"fmt"

	"github.com/govalues/decimal"

	"signalbox/internal/text"
)

// Amount is an amount of money or a quantity. In JSON it is a number without trailing zeros.
type Amount struct{ decimal.Decimal }

// Whole returns a whole number as an amount.
func Whole(n int64) Amount { return Amount{decimal.MustNew(n, 0)} }

// Equal reports whether two amounts are equal, regardless of their scales.
func (a Amount) Equal(b Amount) bool { return a.Decimal.Equal(b.Decimal) }

// String returns the amount without trailing zeros.
func (a Amount) String() string { return a.Trim(0).String() }

// Format prints the amount as String does. Without it, fmt would use the method of the embedded
// decimal, which prints trailing zeros.
func (a Amount) Format(state fmt.State, verb rune) { a.Trim(0).Format(state, verb) }

// MarshalJSON writes a JSON number.
func (a Amount) MarshalJSON() ([]byte, error) { return []byte(a.String()), nil }

// UnmarshalJSON accepts a number, with or without quotes. As everywhere in answers, null and
// numbers that are not finite ("NaN", "inf") become 0. Other text is an error.
func (a *Amount) UnmarshalJSON(data []byte) error {
	text := bytes.Trim(data, `"`)
	switch string(bytes.ToLower(bytes.TrimLeft(text, "+-"))) {
	case "null", "nan", "inf", "infinity":
		*a = Amount{}
		return nil
	}
	number, err := decimal.Parse(string(text))
	if err != nil {
		return fmt.Errorf("amount %.40q is not valid: use a number of at most 19 digits: %w", text,
			err)
	}
	*a = Amount{number}
	return nil
}

// cents returns the amount rounded to two decimals, half to even.
func (a Amount) cents() Amount { return Amount{a.Round(2)} }

// float returns the nearest float64; amounts are always in its range.
func (a Amount) float() float64 {
	f, _ := a.Float64()
	return f
}

// dollars returns the absolute amount without cents, such as $1,234.
func dollars(a Amount) string { return "$" + text.Group(a.Abs().Round(0).String()) }

// Dollars returns the absolute amount with a dollar sign, with cents unless they are zero.
func Dollars(a Amount) string { return exactDollars(a.cents()) }

// exactDollars returns the absolute amount, with cents unless they are zero.
func exactDollars(a Amount) string {
	if a.IsInt() {
		return dollars(a)
	}
	return "$" + text.Group(a.Abs().Rescale(2).String())
}

// percentOf returns the percentage of part in whole, ignoring signs.
func percentOf(part, whole Amount) float64 {
	return percent(Amount{part.Abs()}.float(), Amount{whole.Abs()}.float())
}
