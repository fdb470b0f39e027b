package tax

import (
	"math"
	"math/bits"

	"github.com/govalues/decimal"
)

// places is the number of decimals that computed amounts and quantities keep. It is enough for the
// fractions of shares that brokers use, and small enough that sums up to 10^11 stay exact.
const places = 8

// calc does decimal arithmetic and keeps the first error, so that a rule reads like its formula.
// Check err before using a result.
type calc struct {
	err   error
	steps int // operations so far; a test checks how this grows with the number of rows
}

func (c *calc) keep(d decimal.Decimal, err error) decimal.Decimal {
	if err != nil && c.err == nil {
		c.err = err
	}
	return d
}

func (c *calc) add(a, b decimal.Decimal) decimal.Decimal {
	c.steps++
	return c.keep(a.Add(b))
}

func (c *calc) sub(a, b decimal.Decimal) decimal.Decimal {
	c.steps++
	return c.keep(a.Sub(b))
}

func (c *calc) mul(a, b decimal.Decimal) decimal.Decimal { return c.keep(a.Mul(b)).Round(places) }

// quo does not round to places: it is for ratios.
func (c *calc) quo(a, b decimal.Decimal) decimal.Decimal { return c.keep(a.Quo(b)) }

// portion returns amount × part / whole, rounded half to even. Callers subtract the result from the
// amount, so that the portions add up to the amount exactly.
func (c *calc) portion(amount, part, whole decimal.Decimal) decimal.Decimal {
	c.steps++
	if amount.IsZero() || part.Cmp(whole) == 0 {
		return amount
	}
	if d, ok := exactPortion(amount, part, whole); ok {
		return d
	}
	return c.mul(amount, c.quo(part, whole))
}

// exactPortion computes portion with a 128-bit product, so that it is rounded only once. It reports
// false if a number is too large for that, or has too many decimals.
func exactPortion(amount, part, whole decimal.Decimal) (decimal.Decimal, bool) {
	scale := max(part.Scale(), whole.Scale())
	amount, part, whole = amount.Pad(places), part.Pad(scale), whole.Pad(scale)
	if amount.Scale() != places || part.Scale() != scale || whole.Scale() != scale ||
		whole.IsZero() {
		return decimal.Decimal{}, false
	}
	q, ok := mulDiv(amount.Coef(), part.Coef(), whole.Coef())
	if !ok || q > math.MaxInt64 {
		return decimal.Decimal{}, false
	}
	d, err := decimal.New(int64(q), places)
	return d.CopySign(amount), err == nil
}

// mulDiv returns a × b / c, rounded half to even. It reports false if the result does not fit.
func mulDiv(a, b, c uint64) (uint64, bool) {
	hi, lo := bits.Mul64(a, b)
	if hi >= c {
		return 0, false
	}
	q, r := bits.Div64(hi, lo, c)
	if rest := c - r; r > rest || r == rest && q&1 == 1 {
		q++
	}
	return q, true
}
