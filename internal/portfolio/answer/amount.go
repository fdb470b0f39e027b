package answer

import (
	"bytes"
	"fmt"

	"github.com/govalues/decimal"

	"signalbox/internal/text"
)

// Amount is money or a quantity. In JSON it is a number with just the digits that it needs.
type Amount struct{ decimal.Decimal }

// Whole is the amount of a whole number.
func Whole(n int64) Amount { return Amount{decimal.MustNew(n, 0)} }

// Equal reports whether two amounts are the same number, whatever their scales.
func (a Amount) Equal(b Amount) bool { return a.Decimal.Equal(b.Decimal) }

// String is the amount without zeros at its end.
func (a Amount) String() string { return a.Trim(0).String() }

// Format prints the amount as String does; without it fmt would use the decimal's own, with the zeros.
func (a Amount) Format(state fmt.State, verb rune) { a.Trim(0).Format(state, verb) }

// MarshalJSON writes a JSON number.
func (a Amount) MarshalJSON() ([]byte, error) { return []byte(a.String()), nil }

// UnmarshalJSON reads a number, also one in quotes. As everywhere in answers, null and what is not finite ("NaN",
// "inf") become 0; what is no number at all is refused.
func (a *Amount) UnmarshalJSON(data []byte) error {
	text := bytes.Trim(data, `"`)
	switch string(bytes.ToLower(bytes.TrimLeft(text, "+-"))) {
	case "null", "nan", "inf", "infinity":
		*a = Amount{}
		return nil
	}
	number, err := decimal.Parse(string(text))
	if err != nil {
		return fmt.Errorf("amount %.40q is not valid: use a number of at most 19 digits: %w", text, err)
	}
	*a = Amount{number}
	return nil
}

// cents is the amount rounded to two digits, half to even.
func (a Amount) cents() Amount { return Amount{a.Round(2)} }

// float is the nearest float64; amounts are always within its range.
func (a Amount) float() float64 {
	f, _ := a.Float64()
	return f
}

// dollars is the absolute amount without cents, such as $1,234.
func dollars(a Amount) string { return "$" + text.Group(a.Abs().Round(0).String()) }

// exactDollars is the absolute amount, with cents unless there are none.
func exactDollars(a Amount) string {
	if a.IsInt() {
		return dollars(a)
	}
	return "$" + text.Group(a.Abs().Rescale(2).String())
}

// percentOf is how much of the whole the part is, both without sign.
func percentOf(part, whole Amount) float64 {
	return percent(Amount{part.Abs()}.float(), Amount{whole.Abs()}.float())
}
