package tax

import (
	"cmp"
	"fmt"
	"slices"
	"testing"

	"github.com/govalues/decimal"
	"pgregory.net/rapid"

	"signalbox/internal/testkit/property"
)

// drawHarvest draws a history, a later day and prices, and harvests. No row is on that day: shares sold on it would
// change what the day's own losses are matched with.
func drawHarvest(t *rapid.T) (drawn, *Book, *HarvestResult) {
	d := drawRows(t, &mill{exact: true})
	b := d.build(t, d.last+Date(rapid.IntRange(1, 40).Draw(t, "days to the harvest")))
	prices := make(map[string]decimal.Decimal)
	for _, ticker := range []string{"X", "VOO", "IVV", drawnCall} {
		price := money * rapid.Int64Range(1, 25).Draw(t, "price of "+ticker)
		if ticker == drawnCall {
			price *= contractSize
		}
		prices[ticker] = decimal.MustNew(price, 0)
	}
	r, err := Harvest(b, prices, HarvestOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return d, b, r
}

// ofBook puts candidates in the order of the book's lots: parts of one lot in two accounts have no other order.
func ofBook(list []Candidate) []Candidate {
	list = slices.Clone(list)
	slices.SortFunc(list, func(x, y Candidate) int { return cmp.Compare(x.lot, y.lot) })
	return list
}

// clone copies the model with its parts.
func (m *model) clone() *model {
	c := *m
	c.tally, c.losses, c.parts = make(tally), nil, nil
	for _, p := range m.parts {
		one := *p
		c.parts = append(c.parts, &one)
	}
	return &c
}

// sellCandidate sells the parts of one candidate, as a row of that number.
func (m *model) sellCandidate(t *rapid.T, l *Lot, c *Candidate, row int, on Date) {
	per := m.perShare(l.Ticker, m.asOf)
	quantity, _ := c.Quantity.Mul(decimal.MustNew(per, 0))
	basis, _ := l.Basis.Quo(quantity)
	left := whole(quantity)
	for _, p := range m.parts {
		same := p.account == l.Account && p.ticker == l.Ticker && p.row == int(l.row) && p.since == l.HoldingStart && p.basis == whole(basis) && p.inherited == l.AlwaysLong
		if left > 0 && same && !p.gone {
			m.dispose(p, row, on, whole(c.Price)/per)
			left--
		}
	}
	if left > 0 {
		t.Fatalf("the model has not all of %+v", l)
	}
}

// TestHarvestIsTheModels: each candidate sold alone, its first clean day, and all candidates sold together.
func TestHarvestIsTheModels(t *testing.T) {
	property.Check(t, func(t *rapid.T) {
		d, b, r := drawHarvest(t)
		m := modelOf(d, b.AsOf)
		together := m.clone()
		inOrder := ofBook(r.Candidates)
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
			want.add(0, loss, "loss")
			want.add(0, loss-disallowed, "allowed")
			want.add(0, loss-disallowed, "%s-term", term(c.LongTerm))
			want.add(0, disallowed, "disallowed")
			want.add(0, together.tally[fmt.Sprintf("row %d lost", i)].dollars, "lost")
		}
		for what, sum := range map[string]decimal.Decimal{"loss": r.Loss, "allowed": r.AllowedLoss, "short-term": r.ShortTermLoss,
			"long-term": r.LongTermLoss, "disallowed": r.DisallowedLoss, "lost": r.PermanentLoss} {
			f, _ := sum.Float64()
			got.add(0, f, "%s", what)
		}
		if diff := want.diff(got); len(diff) > 0 {
			t.Fatalf("all together: %q\n%s%s", diff, tell(b), tellHarvest(r))
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
	add(c.Quantity, c.Loss.Neg(), "row 0 sold what was acquired %s, %s-term", l.LotDate, term(c.LongTerm))
	add(c.DisallowedShares, c.DisallowedLoss, "row 0 disallowed")
	add(decimal.Zero, c.PermanentLoss, "row 0 lost")
	for _, r := range c.Causes {
		add(r.Shares, decimal.Zero, "row 0 by %s %s", r.Date, r.Ticker)
	}
	// A harvest names the account in which a replacement is, a book the one that bought it.
	anywhere := make(tally)
	for key, e := range want {
		var date, account, ticker string
		if n, _ := fmt.Sscanf(key, "row 0 by %s %s %s", &date, &account, &ticker); n == 3 {
			key = fmt.Sprintf("row 0 by %s %s", date, ticker)
		}
		anywhere.add(e.shares, e.dollars, "%s", key)
	}
	if diff := anywhere.diff(got); len(diff) > 0 {
		t.Fatalf("%+v: %q", c, diff)
	}
}

// sellRow is the row that sells a lot, which must be the only one of its name there.
func sellRow(b *Book, c *Candidate, on Date) (Transaction, bool) {
	for i := range b.Lots {
		l := &b.Lots[i]
		if i != c.lot && l.Account == c.Account && l.Ticker == c.Ticker && l.LotID == c.LotID {
			return Transaction{}, false // it is in parts, and a row cannot say which
		}
	}
	return Transaction{Date: on, Account: c.Account, Action: Sell, Ticker: c.Ticker, LotID: c.LotID, Quantity: c.Quantity, Price: c.Price}, true
}

// TestHarvestIsWhatSellingDoes: the figures of a harvest are those of the book with the sells added as rows.
func TestHarvestIsWhatSellingDoes(t *testing.T) {
	property.Check(t, func(t *rapid.T) {
		d, b, r := drawHarvest(t)
		row := len(d.txs)
		for i := range r.Candidates {
			c := &r.Candidates[i]
			for on := b.AsOf; on <= c.CleanFrom+1; on++ {
				sell, ok := sellRow(b, c, on)
				if !ok {
					break
				}
				after := drawn{d.rules, append(slices.Clone(d.txs), sell), on}.build(t, on)
				at := slices.IndexFunc(after.WashSales, func(w WashSale) bool { return w.row == row })
				if washed := at >= 0; washed != (on < c.CleanFrom) {
					t.Fatalf("sold on %s: wash sale %t\n%s%+v", on, washed, tell(after), c)
				}
				if on > b.AsOf {
					continue
				}
				var w WashSale
				if at >= 0 {
					w = after.WashSales[at]
				}
				if w.DisallowedShares.Cmp(c.DisallowedShares) != 0 || w.DisallowedLoss.Cmp(c.DisallowedLoss) != 0 || w.PermanentLoss.Cmp(c.PermanentLoss) != 0 {
					t.Fatalf("sold alone:\n%s%+v", tell(after), c)
				}
			}
		}
	})
}

// TestDoNotBuyBefore: once all candidates are sold, a purchase on the day before makes the wash sale larger, on the day itself
// not; the same for losses that were made already.
func TestDoNotBuyBefore(t *testing.T) {
	property.Check(t, func(t *rapid.T) {
		d, b, r := drawHarvest(t)
		checkEmbargoes(t, d, r.DoNotBuyNow, b, 0)
		sold := drawn{d.rules, slices.Clone(d.txs), b.AsOf}
		for _, c := range ofBook(r.Candidates) {
			sell, ok := sellRow(b, &c, b.AsOf)
			if !ok {
				t.Skip("a lot is in parts")
			}
			sold.txs = append(sold.txs, sell)
		}
		after := sold.build(t, b.AsOf)
		if sum := disallowedSince(t, after, len(d.txs), nil); sum.Cmp(r.DisallowedLoss) != 0 {
			t.Fatalf("sold together %s is disallowed\n%s%s", sum, tell(after), tellHarvest(r))
		}
		if len(r.DoNotBuy) == 0 && len(r.Candidates) > 0 {
			t.Fatal("there is nothing that must not be bought")
		}
		checkEmbargoes(t, sold, r.DoNotBuy, after, len(d.txs))
	})
}

// disallowedSince sums what is disallowed of the rows from one on, of these tickers or, if there are none, of all.
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

// checkEmbargoes buys each ticker that is closed, in an account that has written no calls, on the last day of that and the day after.
func checkEmbargoes(t *rapid.T, d drawn, closed []Restriction, b *Book, from int) {
	for _, e := range closed {
		before := disallowedSince(t, b, from, e.Tickers)
		open := false // whether some loss of these rows has shares without a replacement
		for _, s := range b.Sales {
			open = open || int(s.Row) >= from && slices.Contains(e.Tickers, s.Ticker) && s.Taxable && s.Gain.IsNeg() && s.DisallowedShares.Cmp(s.Quantity) < 0 &&
				s.Date+31 == e.Before
		}
		for _, ticker := range e.Tickers {
			for _, on := range []Date{e.Before - 1, e.Before} {
				buy := Transaction{Date: on, Account: "hsa", Action: Buy, Ticker: ticker, Quantity: decimal.One, Price: decimal.One}
				after := drawn{d.rules, append(slices.Clone(d.txs), buy), on}.build(t, on)
				more := disallowedSince(t, after, from, e.Tickers).Cmp(before) > 0
				if want := open && on < e.Before; more != want {
					t.Fatalf("%s bought on %s, closed before %s: more is disallowed %t, want %t\n%s", ticker, on, e.Before, more, want, tell(after))
				}
			}
		}
	}
}
