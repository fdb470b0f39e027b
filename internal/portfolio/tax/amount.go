package tax

import (
	"fmt"
	"math"
	"math/bits"

	"github.com/govalues/decimal"
)

// places is how many decimals computed amounts and quantities keep: enough for shares as brokers split them, and few
// enough that sums up to 10^11 stay exact.
const places = 8

// calc does arithmetic and keeps the first error, so that a rule reads as its formula. Whoever uses it looks at err
// before anything computed is shown.
type calc struct{ err error }

func (c *calc) keep(d decimal.Decimal, err error) decimal.Decimal {
	if err != nil && c.err == nil {
		c.err = err
	}
	return d
}

func (c *calc) add(a, b decimal.Decimal) decimal.Decimal { return c.keep(a.Add(b)) }
func (c *calc) sub(a, b decimal.Decimal) decimal.Decimal { return c.keep(a.Sub(b)) }

func (c *calc) mul(a, b decimal.Decimal) decimal.Decimal {
	return c.keep(a.Mul(b)).Round(places)
}

// quo keeps all digits: it is for comparing, and for ratios.
func (c *calc) quo(a, b decimal.Decimal) decimal.Decimal { return c.keep(a.Quo(b)) }

// portion returns amount × part / whole, rounded half to even. Callers subtract it from the amount, so that nothing is
// lost.
func (c *calc) portion(amount, part, whole decimal.Decimal) decimal.Decimal {
	if part.Cmp(whole) == 0 || amount.IsZero() {
		return amount
	}
	if d, ok := quickPortion(amount, part, whole); ok {
		return d
	}
	d, err := part.Quo(whole)
	if err != nil {
		return c.keep(d, fmt.Errorf("dividing %s by %s: %w", part, whole, err))
	}
	return c.mul(amount, d)
}

// quickPortion is portion in 128 bits; not ok if the numbers are too large for that.
func quickPortion(amount, part, whole decimal.Decimal) (decimal.Decimal, bool) {
	scale := max(part.Scale(), whole.Scale())
	amount, part, whole = amount.Pad(places), part.Pad(scale), whole.Pad(scale)
	if amount.Scale() != places || part.Scale() != scale || whole.Scale() != scale || whole.Coef() == 0 {
		return decimal.Decimal{}, false
	}
	hi, lo := bits.Mul64(amount.Coef(), part.Coef())
	if hi >= whole.Coef() {
		return decimal.Decimal{}, false
	}
	q, r := bits.Div64(hi, lo, whole.Coef())
	if rest := whole.Coef() - r; r > rest || r == rest && q&1 == 1 {
		q++
	}
	if q > math.MaxInt64 {
		return decimal.Decimal{}, false
	}
	d, err := decimal.New(int64(q), places)
	if err != nil {
		return decimal.Decimal{}, false
	}
	return d.CopySign(amount), true
}
