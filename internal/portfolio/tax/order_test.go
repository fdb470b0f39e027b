package tax

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/govalues/decimal"
	"pgregory.net/rapid"

	"signalbox/internal/testkit/must"
	"signalbox/internal/testkit/property"
)

// formatOffer formats the candidates and the lots that are not reached.
func formatOffer(r *HarvestResult) string {
	var s strings.Builder
	line := func(what string, c Candidate) {
		fmt.Fprintf(&s, "%s %s %s %s loss %s", what, c.LotDate, c.Ticker, c.Quantity, c.Loss)
		if c.Identify {
			s.WriteString(", identified")
		}
		if c.Plain.Unknown {
			s.WriteString("; a plain sale is not known\n")
			return
		}
		fmt.Fprintf(&s, "; a plain sale of %s gains %s\n", c.Plain.Quantity, c.Plain.Gain)
	}
	for _, c := range r.Candidates {
		line("offer", c)
	}
	for _, c := range r.NotReached {
		line("not reached", c)
	}
	for _, d := range r.NotHeld {
		fmt.Fprintf(&s, "%s %s: lots of %s, %s held\n", d.Account, d.Ticker, d.Lots, d.Held)
	}
	fmt.Fprintf(&s, "total %s\n", r.AllowedLoss)
	return s.String()
}

// TestHarvestFollowsTheMethod has X at 80: what a sale realizes depends on the lots that the method
// takes first.
func TestHarvestFollowsTheMethod(t *testing.T) {
	const gainFirst = `
		2020-01-10 brk buy X 100 @10
		2021-01-10 brk buy X 100 @100`
	const lossFirst = `
		2020-01-10 brk buy X 100 @100
		2020-02-10 brk buy X 50 @90
		2021-01-10 brk buy X 100 @10
		2022-01-10 brk buy X 10 @200`
	for _, tt := range []struct {
		name   string
		method Method
		rows   string
		want   string
	}{
		{"fifo sells the gain first", FIFO, gainFirst, `
			not reached 2021-01-10 X 100 loss 2000, identified; a plain sale of 100 gains 7000
			total 0`},
		{"lifo sells the loss first", LIFO, gainFirst, `
			offer 2021-01-10 X 100 loss 2000; a plain sale of 100 gains -2000
			total 2000`},
		{"hifo sells the loss first", HIFO, gainFirst, `
			offer 2021-01-10 X 100 loss 2000; a plain sale of 100 gains -2000
			total 2000`},
		{"min_tax sells the loss first", MinTax, gainFirst, `
			offer 2021-01-10 X 100 loss 2000; a plain sale of 100 gains -2000
			total 2000`},
		{"specific needs the lot's name", Specific, gainFirst, `
			offer 2021-01-10 X 100 loss 2000, identified; a plain sale of 100 gains 7000
			total 2000`},
		{"fifo reaches the losses before the first gain", FIFO, lossFirst, `
			offer 2020-01-10 X 100 loss 2000; a plain sale of 100 gains -2000
			offer 2020-02-10 X 50 loss 500; a plain sale of 150 gains -2500
			not reached 2022-01-10 X 10 loss 1200, identified; a plain sale of 10 gains -200
			total 2500`},
		{"lifo from the other end", LIFO, lossFirst, `
			offer 2022-01-10 X 10 loss 1200; a plain sale of 10 gains -1200
			not reached 2020-01-10 X 100 loss 2000, identified; a plain sale of 100 gains 5100
			not reached 2020-02-10 X 50 loss 500, identified; a plain sale of 50 gains 1600
			total 1200`},
		{"hifo takes the highest basis first", HIFO, lossFirst, `
			offer 2020-01-10 X 100 loss 2000; a plain sale of 110 gains -3200
			offer 2022-01-10 X 10 loss 1200; a plain sale of 10 gains -1200
			offer 2020-02-10 X 50 loss 500; a plain sale of 160 gains -3700
			total 3700`},
		{"min_tax takes short-term losses first", MinTax, "2020-01-10 brk buy X 100 @200\n2024-01-10 brk buy X 10 @90", `
			offer 2020-01-10 X 100 loss 12000; a plain sale of 110 gains -12100
			offer 2024-01-10 X 10 loss 100; a plain sale of 10 gains -100
			total 12100`},
		{"a plain sale of less than the lot", FIFO, "2020-01-10 brk buy X 10 @10\n2021-01-10 brk buy X 100 @100", `
			not reached 2021-01-10 X 100 loss 2000, identified; a plain sale of 100 gains -1100
			total 0`},
		{"shares without a purchase may be sold first", FIFO, "2020-01-10 - transfer X 5 to=brk\n2021-01-10 brk buy X 100 @100", `
			not reached 2021-01-10 X 100 loss 2000, identified; a plain sale is not known
			total 0`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			b, err := Build(Rules{Accounts: []Account{{ID: "brk", Method: tt.method}}},
				rows(t, tt.rows), day(t, "2024-03-31"))
			must.Succeed(t, err)
			r, err := Harvest(b, parsePrices(t, "X=80"), HarvestOptions{})
			must.Succeed(t, err)
			if diff := cmp.Diff(unindent(tt.want), formatOffer(r)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// TestHarvestOffersOnlyWhatIsHeld has X at 8.
func TestHarvestOffersOnlyWhatIsHeld(t *testing.T) {
	for _, tt := range []struct{ name, rows, want string }{
		{"a sell from a lot that does not exist", "2023-01-10 brk buy X 100 @10 lot=a\n2023-02-10 brk sell X 100 @9 lot=b", `
			brk X: lots of 100, 0 held
			total 0`},
		{"a part of them", "2023-01-10 brk buy X 100 @10 lot=a\n2023-02-10 brk sell X 40 @9 lot=b", `
			brk X: lots of 100, 60 held
			total 0`},
		{"a fraction of them", "2023-01-10 brk buy X 10.5 @10 lot=a\n2023-02-10 brk sell X 0.1 @9 lot=b", `
			brk X: lots of 10.5, 10.4 held
			total 0`},
		{"a short sale and its cover", "2023-01-10 brk sell X 100 @12\n2023-02-10 brk buy X 100 @10", `
			brk X: lots of 100, 0 held
			total 0`},
		{"a short sale that is still open", "2023-01-10 brk sell X 100 @12", `
			total 0`},
		{"another account is not affected", "2023-01-10 brk sell X 100 @12\n2023-02-10 two buy X 100 @10", `
			offer 2023-02-10 X 100 loss 200; a plain sale of 100 gains -200
			total 200`},
		{"a split does not make a difference", "2023-01-10 brk buy X 10 @100\n2023-02-10 brk split X ratio=10:1", `
			offer 2023-01-10 X 100 loss 200; a plain sale of 100 gains -200
			total 200`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r, err := Harvest(buildAt(t, tt.rows, "2024-03-31"), parsePrices(t, "X=8"),
				HarvestOptions{})
			must.Succeed(t, err)
			if diff := cmp.Diff(unindent(tt.want), formatOffer(r)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// TestOfferMatchesPlainSale compares what each candidate says about a sale that names no lot with a
// book that has this sale as another row.
func TestOfferMatchesPlainSale(t *testing.T) {
	property.Check(t, func(t *rapid.T) {
		d, b, r := drawHarvest(t, 1)
		for _, c := range slices.Concat(r.Candidates, r.NotReached) {
			if c.Plain.Unknown {
				continue
			}
			sell := Transaction{Date: b.AsOf, Account: c.Account, Action: Sell, Ticker: c.Ticker, Quantity: c.Plain.Quantity, Price: c.Price}
			after := drawn{d.rules, append(slices.Clone(d.txs), sell), b.AsOf}.build(t, b.AsOf)
			var sum calc
			gain := decimal.Zero
			for _, s := range after.Sales {
				if s.Row == len(d.txs) {
					gain = sum.add(gain, s.Gain)
				}
			}
			if gain.Cmp(c.Plain.Gain) != 0 {
				t.Fatalf("a plain sale gains %s, not %s: %+v\n%s", gain, c.Plain.Gain, c,
					formatBook(b))
			}
			if !c.Identify && !gain.IsNeg() {
				t.Fatalf("a sale without a loss is offered: %+v", c)
			}
		}
	})
}

// TestCryptoHasNoWashSales: section 1091 is about stock and securities.
func TestCryptoHasNoWashSales(t *testing.T) {
	history := rows(t, `
		2023-01-10 brk buy BTC-USD 2 @50
		2023-06-01 brk sell BTC-USD 1 @40
		2023-06-05 brk buy BTC-USD 1 @41
		2024-03-20 ira buy BTC-USD 1 @45
		2023-01-10 brk buy IBIT 10 @50
		2023-06-01 brk sell IBIT 10 @40
		2023-06-05 brk buy BTC-USD 10 @41`)
	rules := Rules{Accounts: []Account{{ID: "brk"}, {ID: "ira", Kind: IRA}},
		Identical: [][]string{{"BTC-USD", "IBIT"}}}
	for _, crypto := range []bool{false, true} {
		if crypto {
			rules.Crypto = []string{"BTC-USD"}
		}
		b, err := Build(rules, history, day(t, "2024-03-31"))
		must.Succeed(t, err)
		r, err := Harvest(b, parsePrices(t, "BTC-USD=30"), HarvestOptions{})
		if err != nil || len(r.Candidates) == 0 {
			t.Fatal(r, err)
		}
		washed := len(b.WashSales) > 0 || !r.DisallowedLoss.IsZero() || len(r.DoNotBuy) > 0 ||
			r.Candidates[0].CleanFrom > b.AsOf
		if washed == crypto || r.Candidates[0].Crypto != crypto {
			t.Errorf("crypto %t:\n%s%s", crypto, formatBook(b), formatHarvest(r))
		}
	}
}
