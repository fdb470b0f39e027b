package tax

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/govalues/decimal"
)

// household has an account of each kind and method that the tests use.
func household() Rules {
	return Rules{
		Accounts: []Account{
			{ID: "brk"},
			{ID: "two"},
			{ID: "lifo", Method: LIFO},
			{ID: "hifo", Method: HIFO},
			{ID: "mint", Method: MinTax},
			{ID: "spec", Method: Specific},
			{ID: "ira", Kind: IRA},
			{ID: "roth", Kind: Roth},
			{ID: "hsa", Kind: HSA},
			{ID: "401k", Kind: K401},
			{ID: "her", Owner: Spouse},
			{ID: "herira", Owner: Spouse, Kind: IRA},
		},
		Identical: [][]string{{"VOO", "IVV"}},
	}
}

func day(tb testing.TB, s string) Date {
	tb.Helper()
	d, err := ParseDate(s)
	if err != nil {
		tb.Fatal(err)
	}
	return d
}

func dec(tb testing.TB, s string) decimal.Decimal {
	tb.Helper()
	d, err := decimal.Parse(s)
	if err != nil {
		tb.Fatalf("%q: %v", s, err)
	}
	return d
}

// rows reads lines like "2024-01-05 brk buy X 100 @10 fees=1 lot=a to=two ratio=3:2 donor=500 since=2020-01-01 value=400".
func rows(tb testing.TB, text string) []Transaction {
	tb.Helper()
	var txs []Transaction
	for i, line := range strings.Split(text, "\n") {
		f := strings.Fields(line)
		if len(f) == 0 {
			continue
		}
		t := Transaction{Date: day(tb, f[0]), Account: f[1], Action: Action(f[2]), Ticker: f[3], Source: Source{File: "t.csv", Line: i + 1}}
		if t.Account == "-" {
			t.Account = ""
		}
		for _, s := range f[4:] {
			key, value, ok := strings.Cut(s, "=")
			switch {
			case strings.HasPrefix(s, "@"):
				t.Price = dec(tb, s[1:])
			case !ok:
				t.Quantity = dec(tb, s)
			case key == "fees":
				t.Fees = dec(tb, value)
			case key == "lot":
				t.LotID = value
			case key == "to":
				t.ToAccount = value
			case key == "ratio":
				n, o, _ := strings.Cut(value, ":")
				t.Ratio = Ratio{dec(tb, n), dec(tb, o)}
			case key == "donor":
				t.DonorBasis = dec(tb, value)
			case key == "since":
				t.DonorDate = day(tb, value)
			case key == "value":
				t.Value = dec(tb, value)
			default:
				tb.Fatalf("line %d: %q", i+1, s)
			}
		}
		txs = append(txs, t)
	}
	return txs
}

const doomsday = "2099-01-01"

func build(tb testing.TB, text string) *Book {
	tb.Helper()
	return buildAt(tb, text, doomsday)
}

func buildAt(tb testing.TB, text, asOf string) *Book {
	tb.Helper()
	b, err := Build(household(), rows(tb, text), day(tb, asOf))
	if err != nil {
		tb.Fatal(err)
	}
	return b
}

// tell writes a book in lines: lots, sales, wash sales, gaps.
func tell(b *Book) string {
	var s strings.Builder
	for _, l := range b.Lots {
		fmt.Fprintf(&s, "lot %s %s %s %s of %s cost %s", l.LotDate, l.Account, l.Quantity, l.Ticker, l.HoldingStart, l.Basis)
		if !l.BasisAdjustment.IsZero() {
			fmt.Fprintf(&s, " adjusted %s", l.BasisAdjustment)
		}
		if l.AlwaysLong {
			s.WriteString(" long")
		}
		s.WriteString("\n")
	}
	for _, v := range salesOf(b) {
		term := "short"
		if v.LongTerm {
			term = "long"
		}
		fmt.Fprintf(&s, "sale %s %s %s %s of %s %s %s", v.Date, b.Account(&v), v.Quantity.Trim(0), b.Ticker(&v), v.LotDate, term, v.Gain.Trim(0))
		if !v.Disallowed.IsZero() {
			fmt.Fprintf(&s, " disallowed %s for %s", v.Disallowed.Trim(0), v.DisallowedShares.Trim(0))
		}
		s.WriteString("\n")
	}
	for _, w := range b.WashSales {
		fmt.Fprintf(&s, "wash %s %s %s %s loss %s: %s for %s", w.SaleDate, w.Account, w.Shares, w.Ticker, w.Loss, w.DisallowedLoss, w.DisallowedShares)
		if !w.PermanentLoss.IsZero() {
			fmt.Fprintf(&s, " lost %s", w.PermanentLoss)
		}
		s.WriteString(" by")
		for _, r := range w.Replacements {
			fmt.Fprintf(&s, " [%s %s %s %s]", r.Date, r.Account, r.Shares, r.Ticker)
		}
		s.WriteString("\n")
	}
	for _, g := range b.Incomplete {
		fmt.Fprintf(&s, "gap %s %s %s %s: %s\n", g.Date, g.Account, g.Quantity, g.Ticker, g.Why)
	}
	return s.String()
}

// trimmed takes the indentation off an expectation.
func trimmed(text string) string {
	var s strings.Builder
	for _, line := range strings.Split(text, "\n") {
		if line = strings.TrimSpace(line); line != "" {
			s.WriteString(line + "\n")
		}
	}
	return s.String()
}

// lines sorts the lines of a text, for what has no order.
func lines(text string) []string {
	l := strings.Split(text, "\n")
	slices.Sort(l)
	return l
}

func salesOf(b *Book) []Sale {
	var list []Sale
	for s := range b.Sales() {
		list = append(list, *s)
	}
	return list
}
