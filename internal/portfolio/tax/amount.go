package tax

import (
	"cmp"
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
//
// A book of a million rows does tens of millions of operations. Most are on numbers that fit into 64 bits with room to
// spare; these are done here, with the same result, scale included, as the decimals' own operations would give.
type calc struct {
	err  error
	work int // operations so far, so that tests can see how their number grows
}

func (c *calc) keep(d decimal.Decimal, err error) decimal.Decimal {
	if err != nil && c.err == nil {
		c.err = err
	}
	return d
}

func (c *calc) add(a, b decimal.Decimal) decimal.Decimal {
	c.work++
	if x, y, scale, ok := aligned(a, b); ok {
		return c.keep(decimal.New(x+y, scale))
	}
	return c.keep(a.Add(b))
}

func (c *calc) sub(a, b decimal.Decimal) decimal.Decimal {
	c.work++
	if x, y, scale, ok := aligned(a, b); ok {
		return c.keep(decimal.New(x-y, scale))
	}
	return c.keep(a.Sub(b))
}

func (c *calc) mul(a, b decimal.Decimal) decimal.Decimal {
	return c.keep(a.Mul(b)).Round(places)
}

// quo keeps all digits: it is for comparing, and for ratios.
func (c *calc) quo(a, b decimal.Decimal) decimal.Decimal { return c.keep(a.Quo(b)) }

// compare is a.Cmp(b).
func compare(a, b decimal.Decimal) int {
	if x, y, _, ok := aligned(a, b); ok {
		return cmp.Compare(x, y)
	}
	return a.Cmp(b)
}

// powers of ten, as far as aligned needs them.
const maxShift = 10

func power(n int) uint64 {
	return [maxShift + 1]uint64{1, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10}[n]
}

// aligned returns both numbers as integers of the larger scale; not ok unless their sum and difference fit, too.
func aligned(a, b decimal.Decimal) (x, y int64, scale int, ok bool) {
	const limit = 1 << 61
	p, q := a.Coef(), b.Coef()
	if p >= limit || q >= limit {
		return 0, 0, 0, false
	}
	scale = a.Scale()
	if other := b.Scale(); scale != other {
		shifted, by := &q, scale-other
		if by < 0 {
			shifted, by, scale = &p, -by, other
		}
		if by > maxShift {
			return 0, 0, 0, false
		}
		hi, lo := bits.Mul64(*shifted, power(by))
		if hi != 0 || lo >= limit {
			return 0, 0, 0, false
		}
		*shifted = lo
	}
	x, y = int64(p), int64(q)
	if a.IsNeg() {
		x = -x
	}
	if b.IsNeg() {
		y = -y
	}
	return x, y, scale, true
}

// portion returns amount × part / whole, rounded half to even. Callers subtract it from the amount, so that nothing is
// lost.
func (c *calc) portion(amount, part, whole decimal.Decimal) decimal.Decimal {
	c.work++
	if amount.IsZero() || compare(part, whole) == 0 {
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

// portions replaces each amount by its portion.
func (c *calc) portions(part, whole decimal.Decimal, amounts ...*decimal.Decimal) {
	x, y, _, ok := aligned(part, whole)
	for _, a := range amounts {
		if a.IsZero() {
			continue
		}
		c.work++
		if n, fits := fixed(*a); ok && fits && x >= 0 && y > 0 && x != y && !a.IsNeg() {
			if q, ok := mulDiv(n, uint64(x), uint64(y)); ok && q <= math.MaxInt64 {
				*a = c.keep(decimal.New(int64(q), places))
				continue
			}
		}
		*a = c.portion(*a, part, whole)
	}
}

// quickPortion is portion in 128 bits; not ok if the numbers are too large for that.
func quickPortion(amount, part, whole decimal.Decimal) (decimal.Decimal, bool) {
	x, y, _, ok := aligned(part, whole)
	a, fits := fixed(amount)
	if !ok || !fits || x < 0 || y <= 0 {
		return slowerPortion(amount, part, whole)
	}
	q, ok := mulDiv(a, uint64(x), uint64(y))
	if !ok || q > math.MaxInt64 {
		return decimal.Decimal{}, false
	}
	n := int64(q)
	if amount.IsNeg() {
		n = -n
	}
	d, err := decimal.New(n, places)
	return d, err == nil
}

// slowerPortion is for numbers of up to 19 digits.
func slowerPortion(amount, part, whole decimal.Decimal) (decimal.Decimal, bool) {
	scale := max(part.Scale(), whole.Scale())
	amount, part, whole = amount.Pad(places), part.Pad(scale), whole.Pad(scale)
	if amount.Scale() != places || part.Scale() != scale || whole.Scale() != scale || whole.Coef() == 0 {
		return decimal.Decimal{}, false
	}
	q, ok := mulDiv(amount.Coef(), part.Coef(), whole.Coef())
	if !ok || q > math.MaxInt64 {
		return decimal.Decimal{}, false
	}
	d, err := decimal.New(int64(q), places)
	if err != nil {
		return decimal.Decimal{}, false
	}
	return d.CopySign(amount), true
}

// mulDiv returns a × b / c, rounded half to even.
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

// fixed returns the coefficient of a number when it has the usual number of decimals; not ok if it has more of them, or
// if it is too large.
func fixed(d decimal.Decimal) (uint64, bool) {
	by := places - d.Scale()
	if by < 0 {
		return 0, false
	}
	hi, lo := bits.Mul64(d.Coef(), power(by))
	return lo, hi == 0 && lo <= math.MaxInt64
}

// trim is d.Trim(0): without zeros at the end of the fraction.
func trim(d decimal.Decimal) decimal.Decimal {
	coef, scale := d.Coef(), d.Scale()
	if scale == 0 || coef > math.MaxInt64 {
		return d.Trim(0)
	}
	if coef == 0 {
		return decimal.Zero
	}
	for scale >= 4 && coef%1e4 == 0 {
		coef, scale = coef/1e4, scale-4
	}
	for scale > 0 && coef%10 == 0 {
		coef, scale = coef/10, scale-1
	}
	n := int64(coef)
	if d.IsNeg() {
		n = -n
	}
	trimmed, err := decimal.New(n, scale)
	if err != nil {
		return d.Trim(0)
	}
	return trimmed
}
