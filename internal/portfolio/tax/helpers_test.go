package tax

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/govalues/decimal"

	"signalbox/internal/testkit/must"
)

// history is a test case: rows, and the book that they result in, both as lines that start with a
// date, an account, a verb and a ticker. The source is the authority, or the section of it, that
// the case illustrates.
type history struct{ name, source, rows, want string }

// check builds the book of each history and compares it.
func check(t *testing.T, tests []history) {
	t.Helper()
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if tt.source == "" {
				t.Error("the case has no source")
			}
			want, got := strings.Split(unindent(tt.want), "\n"),
				strings.Split(formatBook(build(t, tt.rows)), "\n")
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("%s: want -, book +\n%s", tt.source, diff)
			}
		})
	}
}

// household returns rules with an account of each kind and method that the tests use.
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
	must.Succeed(tb, err)
	return d
}

func clock(tb testing.TB, s string) Clock {
	tb.Helper()
	c, err := ParseClock(s)
	must.Succeed(tb, err)
	return c
}

func dec(tb testing.TB, s string) decimal.Decimal {
	tb.Helper()
	d, err := decimal.Parse(s)
	if err != nil {
		tb.Fatalf("%q: %v", s, err)
	}
	return d
}

// rows parses lines like "2024-01-05 brk buy X 100 @10 fees=1 lot=a to=two ratio=3:2 donor=500
// since=2020-01-01 value=400 new=Y fraction=0.25 time=09:30:01 closed=60@2023-01-05T09:30:01". The account "-" means none.
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
			case key == "new":
				t.NewTicker = value
			case key == "newprice":
				t.NewPrice = dec(tb, value)
			case key == "fraction":
				t.BasisFraction = dec(tb, value)
			case key == "value":
				t.Value = dec(tb, value)
			case key == "time":
				t.Time = clock(tb, value)
			case key == "closed":
				quantity, opened, _ := strings.Cut(value, "@")
				date, at, timed := strings.Cut(opened, "T")
				l := ClosedLot{Opened: day(tb, date), Quantity: dec(tb, quantity)}
				if timed {
					l.Time = clock(tb, at)
				}
				t.Lots = append(t.Lots, l)
			default:
				tb.Fatalf("line %d: %q", i+1, s)
			}
		}
		txs = append(txs, t)
	}
	return txs
}

const farFuture = "2099-01-01"

func build(tb testing.TB, text string) *Book {
	tb.Helper()
	return buildAt(tb, text, farFuture)
}

func buildAt(tb testing.TB, text, asOf string) *Book {
	tb.Helper()
	b, err := Build(household(), rows(tb, text), day(tb, asOf))
	must.Succeed(tb, err)
	return b
}

// formatBook formats a book in lines like the rows: open lots, sales of each lot, wash sales of
// each row, gaps.
//
//	2024-03-05 brk holds X 30 basis=330 adjusted=90 from=2023-01-15
//	2024-03-01 brk sold X 100 of=2023-01-10 long=-300 disallowed=90 for=30
//	2024-03-01 brk wash X 100 loss=300 disallowed=90 for=30 by 2024-03-05 brk X 30
//	2024-03-01 brk gap X 5: sold without a buy
//
// A lot starts with its date; adjusted is the part of the basis that wash sales added, and from is
// the start of the holding period if it is not the next day. After "of" is the date of the sold
// lot, after "for" the number of disallowed shares.
func formatBook(b *Book) string {
	var s strings.Builder
	for _, l := range b.Lots {
		fmt.Fprintf(&s, "%s %s holds %s %s basis=%s", l.LotDate, l.Account, l.Ticker, l.Quantity,
			l.Basis)
		if !l.BasisAdjustment.IsZero() {
			fmt.Fprintf(&s, " adjusted=%s", l.BasisAdjustment)
		}
		if l.HoldingStart != l.LotDate+1 {
			fmt.Fprintf(&s, " from=%s", l.HoldingStart)
		}
		if l.AlwaysLong {
			s.WriteString(" long")
		}
		s.WriteString("\n")
	}
	for _, v := range b.Sales {
		fmt.Fprintf(&s, "%s %s sold %s %s of=%s %s=%s", v.Date, v.Account, v.Ticker,
			v.Quantity.Trim(0), v.LotDate, term(v.LongTerm), v.Gain.Trim(0))
		if !v.Disallowed.IsZero() {
			fmt.Fprintf(&s, " disallowed=%s for=%s", v.Disallowed.Trim(0),
				v.DisallowedShares.Trim(0))
		}
		s.WriteString("\n")
	}
	for _, w := range b.WashSales {
		fmt.Fprintf(&s, "%s %s wash %s %s loss=%s disallowed=%s for=%s", w.SaleDate, w.Account,
			w.Ticker, w.Shares, w.Loss, w.DisallowedLoss, w.DisallowedShares)
		if !w.PermanentLoss.IsZero() {
			fmt.Fprintf(&s, " permanent=%s", w.PermanentLoss)
		}
		fmt.Fprintf(&s, " by %s\n", formatReplacements(w.Replacements))
	}
	for _, g := range b.Incomplete {
		fmt.Fprintf(&s, "%s %s gap %s %s: %s\n", g.Date, g.Account, g.Ticker, g.Quantity, g.Why)
	}
	for _, g := range b.OrderUnknown {
		fmt.Fprintf(&s, "%s %s order %s %s\n", g.Date, g.Account, g.Ticker, g.Quantity)
	}
	return s.String()
}

func formatReplacements(list []Replacement) string {
	var parts []string
	for _, r := range list {
		parts = append(parts, fmt.Sprintf("%s %s %s %s", r.Date, r.Account, r.Ticker, r.Shares))
	}
	return strings.Join(parts, ", ")
}

func term(long bool) string {
	if long {
		return "long"
	}
	return "short"
}

// unindent removes indentation and empty lines.
func unindent(text string) string {
	var s strings.Builder
	for _, line := range strings.Split(text, "\n") {
		if line = strings.TrimSpace(line); line != "" {
			s.WriteString(line + "\n")
		}
	}
	return s.String()
}

// sortedLines returns the lines of a text in sorted order.
func sortedLines(text string) []string {
	l := strings.Split(text, "\n")
	slices.Sort(l)
	return l
}
