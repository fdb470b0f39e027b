package tax

import (
	"cmp"
	"fmt"
	"slices"
	"testing"

	"github.com/govalues/decimal"
	"pgregory.net/rapid"

	"signalbox/internal/testkit/must"
	"signalbox/internal/testkit/property"
)

// drawHarvest draws a history, a day at least some days after it and prices, and harvests. If the
// candidates become rows, they must have a later day than the others: sales of one day are matched
// together, and shares that it sells replace nothing.
func drawHarvest(t *rapid.T, least int) (drawn, *Book, *HarvestResult) {
	return drawHarvestOf(t, &generator{exact: true}, least)
}

func drawHarvestOf(t *rapid.T, m *generator, least int) (drawn, *Book, *HarvestResult) {
	d := drawRows(t, m)
	b := d.build(t, d.last+Date(rapid.IntRange(least, 40).Draw(t, "days to the harvest")))
	prices := make(map[string]decimal.Decimal)
	for _, ticker := range []string{"X", "VOO", "IVV", drawnCall, "Y", "S"} {
		price := m.money() * rapid.Int64Range(1, 25).Draw(t, "price of "+ticker)
		if ticker == drawnCall {
			price *= contractSize
		}
		prices[ticker] = decimal.MustNew(price, 0)
	}
	r, err := Harvest(b, prices, HarvestOptions{})
	must.Succeed(t, err)
	return d, b, r
}

// inBookOrder sorts candidates by the order of lots in the book, the only order that parts of one
// lot in two accounts have.
func inBookOrder(list []Candidate) []Candidate {
	list = slices.Clone(list)
	slices.SortFunc(list, func(x, y Candidate) int { return cmp.Compare(x.lot, y.lot) })
	return list
}

// clone returns a copy of the model with copies of its units.
func (m *model) clone() *model {
	c := *m
	c.tally, c.losses, c.parts = make(tally), nil, nil
	for _, p := range m.parts {
		one := *p
		c.parts = append(c.parts, &one)
	}
	return &c
}

// sellCandidate sells the units of one candidate, as the row with the given number.
func (m *model) sellCandidate(t *rapid.T, l *Lot, c *Candidate, row int, on Date) {
	per := m.perShare(l.Ticker, m.asOf)
	quantity, _ := c.Quantity.Mul(decimal.MustNew(per, 0))
	basis, _ := l.Basis.Quo(quantity)
	left := whole(quantity)
	for _, p := range m.parts {
		same := p.account == l.Account && p.ticker == l.Ticker && p.row == int(l.row) &&
			p.since == l.HoldingStart && p.basis == whole(basis) && p.inherited == l.AlwaysLong
		if left > 0 && same && !p.gone {
			m.dispose(p, row, on, whole(c.Price)/per)
			left--
		}
	}
	if left > 0 {
		t.Fatalf("the model does not have all of %+v", l)
	}
}

// TestHarvestMatchesModel compares each candidate sold alone, its first clean day, and all
// candidates sold together. Sales that were made on the day of the harvest come before those of
// the candidates: their losses are matched first.
func TestHarvestMatchesModel(t *testing.T) {
	for name, m := range map[string]generator{"without corporate actions": {exact: true},
		"with corporate actions": {exact: true, corporate: true}} {
		t.Run(name, func(t *testing.T) { checkCandidates(t, m) })
	}
}

func checkCandidates(t *testing.T, with generator) {
	property.Check(t, func(t *rapid.T) {
		g := with
		d, b, r := drawHarvestOf(t, &g, 0)
		m := runModel(d, b.AsOf)
		together := m.clone()
		inOrder := inBookOrder(r.Candidates)
		for i := range inOrder {
			c := &inOrder[i]
			l := &b.Lots[c.lot]
			clean := b.AsOf
			for ; ; clean++ {
				alone := m.clone()
				alone.sellCandidate(t, l, c, 0, clean)
				alone.wash(clean)
				if clean == b.AsOf {
					compareCandidate(t, alone.tally, c, l)
				}
				if _, washed := alone.tally["row 0 disallowed"]; !washed {
					break
				}
			}
			if c.CleanFrom != clean {
				t.Fatalf("%+v is clean from %s", c, clean)
			}
			together.sellCandidate(t, l, c, i, b.AsOf)
		}
		together.wash(b.AsOf)
		want, got := make(tally), make(tally)
		for i := range inOrder {
			c := &inOrder[i]
			loss, _ := c.Loss.Float64()
			all := together.tally[fmt.Sprintf("row %d disallowed", i)]
			disallowed := all.dollars
			want.add(all.shares, all.dollars, "disallowed of %d", i)
			shares, _ := c.CombinedShares.Float64()
			dollars, _ := c.CombinedLoss.Float64()
			got.add(shares, dollars, "disallowed of %d", i)
			want.add(0, loss-disallowed, "allowed")
			want.add(0, loss-disallowed, "%s-term", term(c.LongTerm))
			want.add(0, disallowed, "disallowed")
			want.add(0, together.tally[fmt.Sprintf("row %d permanent", i)].dollars, "permanent")
		}
		for what, sum := range map[string]decimal.Decimal{"allowed": r.AllowedLoss,
			"short-term": r.ShortTermLoss,
			"long-term":  r.LongTermLoss, "disallowed": r.DisallowedLoss,
			"permanent": r.PermanentLoss} {
			f, _ := sum.Float64()
			got.add(0, f, "%s", what)
		}
		if diff := want.diff(got); len(diff) > 0 {
			t.Fatalf("all together: %q\n%s%s", diff, formatBook(b), formatHarvest(r))
		}
	})
}

func compareCandidate(t *rapid.T, want tally, c *Candidate, l *Lot) {
	got := make(tally)
	add := func(shares, dollars decimal.Decimal, form string, args ...any) {
		s, _ := shares.Float64()
		d, _ := dollars.Float64()
		got.add(s, d, form, args...)
	}
	add(c.Quantity, c.Loss.Neg(), "row 0 sold shares acquired %s, %s-term", l.LotDate,
		term(c.LongTerm))
	add(c.DisallowedShares, c.DisallowedLoss, "row 0 disallowed")
	add(decimal.Zero, c.PermanentLoss, "row 0 permanent")
	// X may have become Y.
	either := func(ticker string) string {
		if ticker == "Y" {
			return "X"
		}
		return ticker
	}
	for _, r := range c.Causes {
		add(r.Shares, decimal.Zero, "row 0 by %s %s", r.Date, either(r.Ticker))
	}
	// A harvest names the account and ticker that a replacement has now, a book those of its
	// purchase.
	anywhere := make(tally)
	for key, e := range want {
		var date, account, ticker string
		if n, _ := fmt.Sscanf(key, "row 0 by %s %s %s", &date, &account, &ticker); n == 3 {
			key = fmt.Sprintf("row 0 by %s %s", date, either(ticker))
		}
		anywhere.add(e.shares, e.dollars, "%s", key)
	}
	if diff := anywhere.diff(got); len(diff) > 0 {
		t.Fatalf("%+v: %q", c, diff)
	}
}

// sellRow returns the row that sells a candidate. It reports false if the account has another lot
// of this name.
func sellRow(b *Book, c *Candidate, on Date) (Transaction, bool) {
	for i := range b.Lots {
		l := &b.Lots[i]
		if i != c.lot && l.Account == c.Account && l.Ticker == c.Ticker && l.LotID == c.LotID {
			return Transaction{}, false // the lot is in parts, and a row cannot name a part
		}
	}
	return Transaction{Date: on, Account: c.Account, Action: Sell, Ticker: c.Ticker, LotID: c.LotID,
		Quantity: c.Quantity, Price: c.Price}, true
}

// TestHarvestMatchesSelling compares the figures of a harvest with a book that has the sells as
// additional rows.
func TestHarvestMatchesSelling(t *testing.T) {
	property.Check(t, func(t *rapid.T) {
		d, b, r := drawHarvest(t, 1)
		row := len(d.txs)
		for i := range r.Candidates {
			c := &r.Candidates[i]
			for on := b.AsOf; on <= c.CleanFrom+1; on++ {
				sell, ok := sellRow(b, c, on)
				if !ok {
					break
				}
				after := drawn{d.rules, append(slices.Clone(d.txs), sell), on}.build(t, on)
				at := slices.IndexFunc(after.WashSales,
					func(w WashSale) bool { return w.row == row })
				if washed := at >= 0; washed != (on < c.CleanFrom) {
					t.Fatalf("sold on %s: wash sale %t\n%s%+v", on, washed, formatBook(after), c)
				}
				if on > b.AsOf {
					continue
				}
				var w WashSale
				if at >= 0 {
					w = after.WashSales[at]
				}
				if w.DisallowedShares.Cmp(c.DisallowedShares) != 0 ||
					w.DisallowedLoss.Cmp(c.DisallowedLoss) != 0 ||
					w.PermanentLoss.Cmp(c.PermanentLoss) != 0 {
					t.Fatalf("sold alone:\n%s%+v", formatBook(after), c)
				}
			}
		}
	})
}

// TestDoNotBuyBefore: when all candidates are sold, a purchase one day before the end of a
// restriction makes the wash sale larger, and a purchase on that day does not. The same holds for
// losses that were realized before.
func TestDoNotBuyBefore(t *testing.T) {
	property.Check(t, func(t *rapid.T) {
		d, b, r := drawHarvest(t, 1)
		checkRestrictions(t, d, r.DoNotBuyNow, b, 0)
		sold := drawn{d.rules, slices.Clone(d.txs), b.AsOf}
		for _, c := range inBookOrder(r.Candidates) {
			sell, ok := sellRow(b, &c, b.AsOf)
			if !ok {
				t.Skip("a lot is in parts")
			}
			sold.txs = append(sold.txs, sell)
		}
		after := sold.build(t, b.AsOf)
		if sum := disallowedSince(t, after, len(d.txs), nil); sum.Cmp(r.DisallowedLoss) != 0 {
			t.Fatalf("sold together %s is disallowed\n%s%s", sum, formatBook(after),
				formatHarvest(r))
		}
		if len(r.DoNotBuy) == 0 && len(r.Candidates) > 0 {
			t.Fatal("there are candidates but no restrictions")
		}
		checkRestrictions(t, sold, r.DoNotBuy, after, len(d.txs))
	})
}

// disallowedSince returns the disallowed loss of all rows from the given one on. nil means all
// tickers.
func disallowedSince(t *rapid.T, b *Book, row int, tickers []string) decimal.Decimal {
	var c calc
	sum := decimal.Zero
	for _, w := range b.WashSales {
		if int(w.row) >= row && (tickers == nil || slices.Contains(tickers, w.Ticker)) {
			sum = c.add(sum, w.DisallowedLoss)
		}
	}
	if c.err != nil {
		t.Fatal(c.err)
	}
	return sum
}

// checkRestrictions buys each restricted ticker on the last day of its restriction and on the day
// after, in an account without written calls.
func checkRestrictions(t *rapid.T, d drawn, restrictions []Restriction, b *Book, from int) {
	for _, e := range restrictions {
		before := disallowedSince(t, b, from, e.Tickers)
		open := false // some loss of these rows has shares without a replacement
		for _, s := range b.Sales {
			open = open || int(s.Row) >= from && slices.Contains(e.Tickers, s.Ticker) &&
				s.Taxable && s.Gain.IsNeg() && s.DisallowedShares.Cmp(s.Quantity) < 0 &&
				s.Date+31 == e.Before
		}
		for _, ticker := range e.Tickers {
			for _, on := range []Date{e.Before - 1, e.Before} {
				buy := Transaction{Date: on, Account: "hsa", Action: Buy, Ticker: ticker,
					Quantity: decimal.One, Price: decimal.One}
				after := drawn{d.rules, append(slices.Clone(d.txs), buy), on}.build(t, on)
				more := disallowedSince(t, after, from, e.Tickers).Cmp(before) > 0
				if want := open && on < e.Before; more != want {
					t.Fatalf("%s bought on %s, restricted before %s: more is disallowed %t, want %t\n%s", ticker, on, e.Before, more, want, formatBook(after))
				}
			}
		}
	}
}
