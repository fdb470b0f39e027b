package tax

import (
	"math/rand/v2"
	"slices"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	"github.com/govalues/decimal"
	"pgregory.net/rapid"

	"signalbox/internal/testkit/property"
)

// TestDisallowedNeverExceedsLoss: for each lot and each row, the disallowed loss is at most the
// loss, the disallowed shares at most the shares sold, and both are the same fraction.
func TestDisallowedNeverExceedsLoss(t *testing.T) {
	property.Check(t, func(t *rapid.T) {
		d := drawHistory(t, false)
		b := d.build(t, d.last)
		var c calc
		for _, s := range b.Sales {
			loss := s.Gain.Neg().Max(decimal.Zero)
			if s.Disallowed.IsNeg() || s.Disallowed.Cmp(loss) > 0 ||
				s.DisallowedShares.Cmp(s.Quantity) > 0 || s.Permanent.Cmp(s.Disallowed) > 0 {
				t.Fatalf("more is disallowed than was lost: %+v", s)
			}
			if !s.Taxable && !s.Disallowed.IsZero() {
				t.Fatalf("a retirement account has a disallowed loss: %+v", s)
			}
			off := c.sub(c.mul(s.Disallowed, s.Quantity), c.mul(loss, s.DisallowedShares)).Abs()
			if off.Cmp(decimal.MustNew(1, 3)) > 0 {
				t.Fatalf("%s of %s for %s of %s shares", s.Disallowed, loss, s.DisallowedShares,
					s.Quantity)
			}
		}
		for _, w := range b.WashSales {
			sum := decimal.Zero
			for _, r := range w.Replacements {
				sum = c.add(sum, r.Shares)
			}
			if w.DisallowedLoss.Cmp(w.Loss) > 0 || w.DisallowedShares.Cmp(w.Shares) > 0 ||
				sum.Cmp(w.DisallowedShares) != 0 {
				t.Fatalf("more than the loss, or not the sum of the replacements: %+v", w)
			}
		}
		if c.err != nil {
			t.Fatal(c.err)
		}
	})
}

// openedQuantities returns the shares or contracts that each purchase opens, by row. Contracts that
// close written ones do not open any.
func openedQuantities(txs []Transaction) map[int]decimal.Decimal {
	var c calc
	brought := make(map[int]decimal.Decimal)
	sells := func(x Transaction) bool { return (x.Action == Sell || x.Action == Assign) && x.Ticker == drawnCall }
	for i, x := range txs {
		if x.Action != Buy && x.Action != Reinvest {
			continue
		}
		brought[i] = x.Quantity
		if x.Ticker != drawnCall {
			continue
		}
		// Contracts sold less contracts bought, before this row; a day's sells come after its
		// purchases.
		written := decimal.Zero
		for j, y := range txs {
			switch {
			case y.Account != x.Account || y.Ticker != drawnCall:
			case sells(y) && y.Date < x.Date:
				written = c.add(written, y.Quantity)
			case y.Action == Buy && (y.Date < x.Date || y.Date == x.Date && j < i):
				written = c.sub(written, y.Quantity)
			}
		}
		brought[i] = c.sub(x.Quantity, x.Quantity.Min(written.Max(decimal.Zero)))
	}
	return brought
}

// TestNoReplacementShareIsUsedTwice: all losses together use at most the shares that were bought on
// a day, counted in shares of that day, and each purchase is within 30 days of the loss.
func TestNoReplacementShareIsUsedTwice(t *testing.T) {
	property.Check(t, func(t *rapid.T) {
		d := drawHistory(t, false)
		b := d.build(t, d.last)
		type purchases struct {
			date            Date
			account, ticker string
		}
		left := make(map[purchases]float64)
		for i, qty := range openedQuantities(d.txs) {
			x := d.txs[i]
			f, _ := qty.Float64()
			left[purchases{x.Date, x.Account, x.Ticker}] += f
		}
		for _, w := range b.WashSales {
			for _, r := range w.Replacements {
				if r.Date < w.SaleDate-30 || r.Date > w.SaleDate+30 {
					t.Fatalf("a purchase is more than 30 days from the loss: %+v", w)
				}
				taken, _ := r.Shares.Float64()
				if r.Ticker == drawnCall && w.Ticker != drawnCall {
					taken /= 100
				}
				// Shares of the day of the sale become shares of the day of the purchase.
				splits := r.Ticker
				if splits == drawnCall && w.Ticker != drawnCall {
					splits = "VOO"
				}
				for _, x := range d.txs {
					if x.Action != Split || x.Ticker != splits {
						continue
					}
					ratio, _ := x.Ratio.Decimal()
					f, _ := ratio.Float64()
					switch {
					case x.Date > w.SaleDate && x.Date <= r.Date:
						taken *= f
					case x.Date > r.Date && x.Date <= w.SaleDate:
						taken /= f
					}
				}
				k := purchases{r.Date, r.Account, r.Ticker}
				if left[k] -= taken; left[k] < -1e-6 {
					t.Fatalf("%v is used twice:\n%s", k, formatBook(b))
				}
			}
		}
	})
}

// TestBasisIsConserved: in each group of tickers, the basis of all acquisitions, less returned
// capital, plus disallowed losses that were added to a basis, is exactly the basis of all sales and
// open lots.
func TestBasisIsConserved(t *testing.T) {
	property.Check(t, func(t *rapid.T) {
		d := drawHistory(t, false)
		b := d.build(t, d.last)
		var c calc
		// by whether it is X
		in, out := make(map[bool]decimal.Decimal), make(map[bool]decimal.Decimal)
		for i, qty := range openedQuantities(d.txs) {
			x := d.txs[i]
			if qty.IsPos() {
				in[x.Ticker == "X"] = c.add(in[x.Ticker == "X"],
					c.portion(c.add(c.mul(x.Quantity, x.Price), x.Fees), qty, x.Quantity))
			}
		}
		for i, x := range d.txs {
			g := x.Ticker == "X"
			switch x.Action {
			case Inherit:
				in[g] = c.add(in[g], c.mul(x.Quantity, x.Price))
			case GiftIn:
				in[g] = c.add(in[g], x.DonorBasis)
			case ReturnOfCapital:
				if !slices.ContainsFunc(b.Incomplete,
					func(gap Gap) bool { return int(gap.Row) == i }) {
					in[g] = c.sub(in[g], c.mul(x.Quantity, x.Price))
				}
			}
		}
		for _, s := range b.Sales {
			g := s.Ticker == "X"
			out[g] = c.add(out[g], s.Basis)
			in[g] = c.add(in[g], c.sub(s.Disallowed, s.Permanent))
			if s.Quantity.IsZero() {
				in[g] = c.add(in[g], s.Gain) // capital returned above the basis
			}
		}
		for _, l := range b.Lots {
			g := l.Ticker == "X"
			if !l.Quantity.IsPos() || l.Basis.IsNeg() || l.BasisAdjustment.IsNeg() {
				t.Fatalf("impossible lot %+v", l)
			}
			out[g] = c.add(out[g], l.Basis)
		}
		if c.err != nil {
			t.Fatal(c.err)
		}
		for _, g := range []bool{true, false} {
			if in[g].Cmp(out[g]) != 0 {
				t.Fatalf("basis of %s came in, and %s is sold or open:\n%s", in[g], out[g],
					formatBook(b))
			}
		}
	})
}

// TestRowOrderDoesNotMatter: rows of one day with different kinds or different accounts may come in
// any order. The order matters only among acquisitions, and among sells of one account and ticker.
func TestRowOrderDoesNotMatter(t *testing.T) {
	property.Check(t, func(t *rapid.T) {
		d := drawHistory(t, true)
		seen := make(map[any]bool)
		txs := slices.DeleteFunc(d.txs, func(x Transaction) bool {
			key := any(x.Date)
			switch x.Action {
			case Sell:
				key = [3]any{x.Date, x.Account, x.Ticker}
			case Split:
				key = [2]any{x.Date, x.Action}
			case Transfer:
				return true // the order of sells in two accounts with parts of one lot matters too
			}
			twice := seen[key]
			seen[key] = true
			return twice
		})
		first := drawn{d.rules, txs, d.last}.build(t, d.last)
		seed := rapid.Uint64().Draw(t, "shuffle")
		shuffled := slices.Clone(txs)
		rand.New(rand.NewPCG(seed, 1)).Shuffle(len(shuffled),
			func(i, j int) { shuffled[i], shuffled[j] = shuffled[j], shuffled[i] })
		second := drawn{d.rules, shuffled, d.last}.build(t, d.last)
		if diff := gocmp.Diff(sortedLines(formatBook(first)),
			sortedLines(formatBook(second))); diff != "" {
			t.Fatal(diff)
		}
	})
}

// TestPortion: the result is within half a unit of the last place.
func TestPortion(t *testing.T) {
	property.Check(t, func(t *rapid.T) {
		amount := decimal.MustNew(rapid.Int64Range(-1_000_000_000, 1_000_000_000).Draw(t, "amount"),
			rapid.IntRange(0, 8).Draw(t, "scale"))
		whole := rapid.Int64Range(1, 1_000_000).Draw(t, "whole")
		part := rapid.Int64Range(0, whole).Draw(t, "part")
		scale := rapid.IntRange(0, 6).Draw(t, "unit")
		p, w := decimal.MustNew(part, scale), decimal.MustNew(whole, scale)
		quick, ok := exactPortion(amount, p, w)
		if !ok {
			t.Skip()
		}
		var c calc
		exact := c.keep(amount.Mul(p))
		rest := c.sub(exact, c.keep(quick.Mul(w))).Abs()
		half := c.keep(w.Mul(decimal.MustNew(5, places+1)))
		if rest.Cmp(half) > 0 || c.err != nil {
			t.Fatalf("%s × %s / %s is not %s: %v", amount, p, w, quick, c.err)
		}
	})
}
