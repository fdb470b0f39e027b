package brief

import (
	"encoding/json"
	"math"
	"strconv"
	"strings"
)

// Finite is f, or the default if f is NaN or infinite.
func Finite(f, otherwise float64) float64 {
	if math.IsNaN(f) || math.IsInf(f, 0) {
		return otherwise
	}
	return f
}

// Number is a ratio or a return that JSON can always carry: NaN and the infinities are written as 0.
type Number float64

// MarshalJSON writes the number, or 0 if it is not finite.
func (n Number) MarshalJSON() ([]byte, error) { return json.Marshal(Finite(float64(n), 0)) }

// Round rounds to digits after the point, from the exact binary value and half to even, as Python's round does. What is not finite
// becomes 0.
func Round(f float64, digits int) float64 {
	rounded, err := strconv.ParseFloat(strconv.FormatFloat(Finite(f, 0), 'f', digits, 64), 64)
	if err != nil {
		return 0 // rounding the largest numbers can leave the range; they are no use to anybody
	}
	return rounded
}

// Whole is f without digits after the point, rounded as Round does: Python's format ".0f". What is not finite is 0.
func Whole(f float64) string { return strconv.FormatFloat(Finite(f, 0), 'f', 0, 64) }

// Money is Whole with commas between thousands: Python's format ",.0f".
func Money(f float64) string { return Group(Whole(f)) }

// Percent is a share of a whole in percent, 0 if the whole is 0 or either is not finite.
func Percent(part, whole float64) float64 {
	if whole == 0 {
		return 0
	}
	return Finite(part/whole*100, 0)
}

// Group puts commas between the thousands of a decimal number: "-1234.5" becomes "-1,234.5".
func Group(number string) string {
	digits := strings.TrimLeft(number, "+-")
	sign := number[:len(number)-len(digits)]
	whole, fraction, hasFraction := strings.Cut(digits, ".")
	var out strings.Builder
	out.WriteString(sign)
	for i := range len(whole) {
		if i > 0 && (len(whole)-i)%3 == 0 {
			out.WriteByte(',')
		}
		out.WriteByte(whole[i])
	}
	if hasFraction {
		out.WriteString("." + fraction)
	}
	return out.String()
}

// Plural is "s" unless there is exactly one.
func Plural(count int) string {
	if count == 1 {
		return ""
	}
	return "s"
}
