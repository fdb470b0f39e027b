package tax

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/govalues/decimal"
	"pgregory.net/rapid"

	"signalbox/internal/testkit/must"
	"signalbox/internal/testkit/property"
)

// TestSection1091SimulatedSales: the sale of 2024-06-03 was not made yet.
func TestSection1091SimulatedSales(t *testing.T) {
	const lots = `
		2023-01-05 ACCOUNT buy X 10 @10 lot=a
		2024-02-01 ACCOUNT buy X 10 @30 lot=b
		2024-05-20 ACCOUNT buy X 4 @20 lot=c
		`
	for _, tt := range []struct {
		name, more, account string
		planned             []PlannedSale
		want                string
	}{
		{"FIFO sells a at a gain: 10 × ($15 − $10) = $50", "", "brk", plan("brk", "10", "", ""), `
			sold 10 of 2023-01-05 long=50
			clean from 2024-06-03`},
		{"lot b: 10 × ($15 − $30) = −$150, of which the 4 shares of May replace 4: $60", "", "brk",
			plan("brk", "10", "b", ""), `
			sold 10 of 2024-02-01 short=-150 disallowed=60
			by 2024-05-20 brk 4
			clean from 2024-06-20
			X before 2024-07-04`},
		{"LIFO by choice: c, 4 × ($15 − $20) = −$20, and then 6 of b, 6 × −$15 = −$90", "", "brk",
			plan("brk", "10", "", LIFO), `
			sold 4 of 2024-05-20 short=-20
			sold 6 of 2024-02-01 short=-90
			clean from 2024-06-03
			X before 2024-07-04`},
		{"HIFO by choice, in a LIFO account: b", "", "lifo", plan("lifo", "10", "", HIFO), `
			sold 10 of 2024-02-01 short=-150 disallowed=60
			by 2024-05-20 lifo 4
			clean from 2024-06-20
			X before 2024-07-04`},
		{"FIFO by choice, in a HIFO account: a", "", "hifo", plan("hifo", "10", "", FIFO), `
			sold 10 of 2023-01-05 long=50
			clean from 2024-06-03`},
		{"MinTax by choice: short-term losses first, the highest basis before", "", "brk",
			plan("brk", "12", "", MinTax), `
			sold 10 of 2024-02-01 short=-150 disallowed=30
			sold 2 of 2024-05-20 short=-10
			by 2024-05-20 brk 2
			clean from 2024-06-20
			X before 2024-07-04`},
		{"two lots together: c replaces nothing, because it is sold too", "", "brk",
			append(plan("brk", "10", "b", ""), plan("brk", "4", "c", "")...), `
			sold 10 of 2024-02-01 short=-150
			sold 4 of 2024-05-20 short=-20
			clean from 2024-06-03
			X before 2024-07-04`},
		// The sale of 10:00 was made: c replaces the 4 shares of b, whose loss of 4 × $15 = $60 goes
		// into its basis, 80 + 60. Then c is sold: 4 × $15 − $140 = −$80.
		{"a sale of the day comes first, and is matched with what is sold now", `
			2024-06-03 ACCOUNT sell X 4 @15 lot=b time=10:00:00`, "brk",
			plan("brk", "4", "c", ""), `
			sold 4 of 2024-05-20 short=-80
			clean from 2024-06-03
			X before 2024-07-04`},
		{"the rest of the lot does not replace a part of it (Rev. Rul. 56-602)", "", "brk",
			plan("brk", "3", "c", ""), `
			sold 3 of 2024-05-20 short=-15
			clean from 2024-06-03
			X before 2024-07-04`},
		{"a purchase of the day replaces, and is clean 31 days later", `
			2024-06-03 ira buy X 3 @15`, "brk", plan("brk", "10", "b", ""), `
			sold 10 of 2024-02-01 short=-150 disallowed=105
			by 2024-05-20 brk 4, 2024-06-03 ira 3, permanent 45
			clean from 2024-07-04
			X before 2024-07-04`},
		{"a purchase 30 days before replaces", `
			2024-05-04 ira buy X 3 @15`, "brk", plan("brk", "4", "c", ""), `
			sold 4 of 2024-05-20 short=-20 disallowed=15
			by 2024-05-04 ira 3, permanent 15
			clean from 2024-06-04
			X before 2024-07-04`},
		{"what was missing before is not missing for the sale", `
			2024-05-28 ACCOUNT sell Z 5 @10`, "brk", plan("brk", "1", "", ""), `
			sold 1 of 2023-01-05 long=5
			clean from 2024-06-03`},
		{"more than there is", "", "brk", plan("brk", "30", "", ""), `
			sold 10 of 2023-01-05 long=50
			sold 10 of 2024-02-01 short=-150
			sold 4 of 2024-05-20 short=-20
			missing 6
			clean from 2024-06-03
			X before 2024-07-04`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s, err := Simulate(household(), rows(t, strings.ReplaceAll(lots+tt.more, "ACCOUNT",
				tt.account)), day(t, "2024-06-03"), tt.planned)
			must.Succeed(t, err)
			if got, want := formatSimulation(s), unindent(tt.want); got != want {
				t.Errorf("got\n%swant\n%s", got, want)
			}
		})
	}
}

func plan(account, quantity, lot string, method Method) []PlannedSale {
	return []PlannedSale{{Account: account, Ticker: "X", Quantity: decimal.MustParse(quantity),
		Price: decimal.MustNew(15, 0), LotID: lot, Method: method}}
}

func formatSimulation(s *Simulation) string {
	var b strings.Builder
	for _, v := range s.Sales {
		fmt.Fprintf(&b, "sold %s of %s %s=%s", v.Quantity.Trim(0), v.LotDate, term(v.LongTerm),
			v.Gain.Trim(0))
		if !v.Disallowed.IsZero() {
			fmt.Fprintf(&b, " disallowed=%s", v.Disallowed.Trim(0))
		}
		b.WriteString("\n")
	}
	for _, w := range s.WashSales {
		var by []string
		for _, r := range w.Replacements {
			by = append(by, fmt.Sprintf("%s %s %s", r.Date, r.Account, r.Shares))
		}
		if !w.PermanentLoss.IsZero() {
			by = append(by, "permanent "+w.PermanentLoss.String())
		}
		b.WriteString("by " + strings.Join(by, ", ") + "\n")
	}
	for _, g := range s.Missing {
		fmt.Fprintf(&b, "missing %s\n", g.Quantity)
	}
	fmt.Fprintf(&b, "clean from %s\n", s.CleanFrom)
	for _, r := range s.BuyAgain {
		fmt.Fprintf(&b, "%s before %s\n", strings.Join(r.Tickers, ","), r.Before)
	}
	return b.String()
}

// TestSimulationMatchesHarvest compares planned sales of one candidate, and of all, with the
// candidates, which TestHarvestMatchesModel compares with the model: what is disallowed and
// permanent, and the first clean day. What was sold before stays the same.
func TestSimulationMatchesHarvest(t *testing.T) {
	property.Check(t, func(t *rapid.T) {
		d, b, r := drawHarvest(t, 0)
		var all []PlannedSale
		for _, c := range inBookOrder(r.Candidates) {
			sell, ok := sellRow(b, &c, b.AsOf)
			if !ok {
				t.Skip("a lot is in parts")
			}
			one := PlannedSale{Account: sell.Account, Ticker: sell.Ticker, Quantity: sell.Quantity,
				Price: sell.Price, LotID: sell.LotID}
			all = append(all, one)
			s := simulate(t, d, b, []PlannedSale{one})
			disallowed, permanent := disallowedBy(s)
			if disallowed.Cmp(c.DisallowedLoss) != 0 || permanent.Cmp(c.PermanentLoss) != 0 ||
				s.CleanFrom != c.CleanFrom {
				t.Fatalf("alone: %s\n%s%+v", formatBook(b), formatSimulation(s), c)
			}
		}
		s := simulate(t, d, b, all)
		if disallowed, permanent := disallowedBy(s); disallowed.Cmp(r.DisallowedLoss) != 0 ||
			permanent.Cmp(r.PermanentLoss) != 0 {
			t.Fatalf("together: %s\n%s%s", formatBook(b), formatSimulation(s), formatHarvest(r))
		}
		earlier := slices.DeleteFunc(slices.Clone(s.Book.Sales),
			func(v Sale) bool { return v.Row >= len(d.txs) })
		if got, want := fmt.Sprint(earlier), fmt.Sprint(b.Sales); got != want {
			t.Fatalf("the sales that were made changed: %s, want %s", got, want)
		}
	})
}

func simulate(t *rapid.T, d drawn, b *Book, planned []PlannedSale) *Simulation {
	s, err := Simulate(d.rules, d.txs, b.AsOf, planned)
	must.Succeed(t, err)
	return s
}

func disallowedBy(s *Simulation) (disallowed, permanent decimal.Decimal) {
	var c calc
	for _, v := range s.Sales {
		disallowed, permanent = c.add(disallowed, v.Disallowed), c.add(permanent, v.Permanent)
	}
	return disallowed, permanent
}
