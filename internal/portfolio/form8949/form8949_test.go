package form8949

import (
	"fmt"
	"math/big"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/govalues/decimal"
	"pgregory.net/rapid"

	"signalbox/internal/portfolio/answer"
	"signalbox/internal/portfolio/importer"
	"signalbox/internal/portfolio/tax"
	"signalbox/internal/testkit/must"
	"signalbox/internal/testkit/property"
)

// TestBoxes has the boxes of Form 8949 for 2025 and their reference numbers in TXF.
func TestBoxesOfForm8949For2025(t *testing.T) {
	want := map[string]string{
		"1 false false": "A 321", "2 false false": "B 711", "3 false false": "C 712",
		"1 true false": "D 323", "2 true false": "E 713", "3 true false": "F 714",
		"1 false true": "G 0", "2 false true": "H 0", "3 false true": "I 0",
		"1 true true": "J 0", "2 true true": "K 0", "3 true true": "L 0",
		"0 false false": " 0", "0 true true": " 0", "0 true false": " 0", "0 false true": " 0",
	}
	got := make(map[string]string)
	for reported := Unknown; reported <= NotReported; reported++ {
		for _, long := range []bool{false, true} {
			for _, digital := range []bool{false, true} {
				box := Box(reported, long, digital)
				got[fmt.Sprint(int(reported), long, digital)] = fmt.Sprint(box, " ", txfCode(box))
				if box == "" {
					continue
				}
				if r, l, d := parseBox(box); r != reported || l != long || d != digital {
					t.Errorf("box %s is parsed as %v, %v, %v", box, r, l, d)
				}
			}
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("want -, got +\n%s", diff)
	}
}

// TestCovered: which lots have a basis that brokers report (Reg. 1.6045-1(a)(15) and (g)), and
// which year has boxes for digital assets.
func TestCoveredByReg1_6045_1(t *testing.T) {
	for _, tt := range []struct{ ticker, bought, sold, want string }{
		{"VTI", "2010-12-31", "2025-06-02", "E"},
		{"VTI", "2011-01-01", "2025-06-02", "D"},
		{"AAPL250620C00150000", "2013-12-31", "2025-06-02", "E"},
		{"AAPL250620C00150000", "2014-01-01", "2025-06-02", "D"},
		{"BTC-USD", "2025-01-02", "2025-06-02", "H"},
		{"BTC-USD", "2025-12-31", "2026-06-02", "H"},
		{"BTC-USD", "2026-01-01", "2026-06-02", "G"},
		{"BTC-USD", "2020-01-01", "2024-06-02", "E"},
	} {
		rows, err := rowsOf(t, []tax.Transaction{
			transaction(t, tt.bought, tax.Buy, tt.ticker, "1", "10"),
			transaction(t, tt.sold, tax.Sell, tt.ticker, "1", "12")}, tt.sold)
		if err != nil || len(rows) != 1 || rows[0].Box != tt.want {
			t.Errorf("%s bought %s, sold %s: %v, %v, want box %s", tt.ticker, tt.bought, tt.sold, rows, err, tt.want)
		}
	}
}

// TestCoveredGift: a gift is covered if the donor's shares were.
func TestCoveredGiftByReg1_6045_1(t *testing.T) {
	for donated, want := range map[string]string{"2010-12-31": "E", "2011-01-01": "D"} {
		gift := transaction(t, "2025-01-02", tax.GiftIn, "VTI", "1", "10")
		gift.DonorDate = transaction(t, donated, tax.Buy, "VTI", "1", "10").Date
		rows, err := rowsOf(t, []tax.Transaction{gift,
			transaction(t, "2025-06-02", tax.Sell, "VTI", "1", "12")}, "2025-06-02")
		if err != nil || rows[0].Box != want || rows[0].Acquired != donated {
			t.Errorf("donated %s: %+v, %v, want box %s", donated, rows, err, want)
		}
	}
}

func transaction(tb testing.TB, date string, action tax.Action, ticker, quantity,
	price string) tax.Transaction {
	tb.Helper()
	d, err := tax.ParseDate(date)
	must.Succeed(tb, err)
	return tax.Transaction{Date: d, Account: "brk", Action: action, Ticker: ticker,
		Quantity: decimal.MustParse(quantity), Price: decimal.MustParse(price),
		Source: tax.Source{File: "t.csv", Line: 2}}
}

// rowsOf builds the book of some transactions, and returns the rows of a day's year.
func rowsOf(tb testing.TB, txs []tax.Transaction, day string) ([]answer.GainRow, error) {
	tb.Helper()
	book, err := tax.Build(tax.Rules{Accounts: []tax.Account{{ID: "brk"}, {ID: "ira", Kind: tax.IRA}},
		Crypto: []string{"BTC-USD"}}, txs, tax.DateOf(2030, 1, 1))
	must.Succeed(tb, err)
	d, err := tax.ParseDate(day)
	must.Succeed(tb, err)
	return Rows(Input{Year: d.Year(), Sales: book.Sales, Transactions: txs,
		Reported: func(string) (Reported, string) { return WithBasis, "test" },
		Crypto:   func(ticker string) bool { return ticker == "BTC-USD" }})
}

// exact returns a decimal as a fraction.
func exact(d decimal.Decimal) *big.Rat {
	r, ok := new(big.Rat).SetString(d.String())
	if !ok {
		panic(d.String())
	}
	return r
}

// inCents rounds a fraction to cents, half a cent away from zero.
func inCents(r *big.Rat) *big.Rat {
	n := new(big.Rat).Mul(r, big.NewRat(100, 1))
	half := big.NewRat(int64(2*min(n.Sign(), 0)+1), 2)
	n.Add(n, half)
	whole := new(big.Int).Quo(n.Num(), n.Denom()) // toward zero
	return new(big.Rat).SetFrac(whole, big.NewInt(100))
}

// TestRowsInExactFractions checks the rules of rounding in the package comment, with fractions, for
// random histories of purchases and sales with odd prices, in a taxable account and an IRA.
func TestRowsInExactFractions(t *testing.T) {
	property.Check(t, func(rt *rapid.T) {
		var txs []tax.Transaction
		held := 0
		for i := range rapid.IntRange(2, 14).Draw(rt, "rows") {
			x := transaction(t, tax.DateOf(2025, 1, 2).AddDays(7*i).String(), tax.Buy, "X",
				fmt.Sprint(rapid.IntRange(1, 9).Draw(rt, "quantity")),
				fmt.Sprintf("%d.%08d", rapid.IntRange(1, 50).Draw(rt, "dollars"),
					rapid.IntRange(0, 99_999_999).Draw(rt, "fraction")))
			x.Fees = decimal.MustNew(rapid.Int64Range(0, 9999).Draw(rt, "fees"), 4)
			x.Source.Line = i + 2
			switch quantity, _, _ := x.Quantity.Int64(0); {
			case rapid.IntRange(0, 4).Draw(rt, "in the IRA") == 0:
				x.Account = "ira"
			case held >= int(quantity) && rapid.Bool().Draw(rt, "sell"):
				x.Action, held = tax.Sell, held-int(quantity)
			default:
				held += int(quantity)
			}
			txs = append(txs, x)
		}
		rows, err := rowsOf(t, txs, "2025-06-30")
		must.Succeed(rt, err)
		checkRows(rt, rows, txs)
	})
}

// checkRows checks that the rows of each sale add up to its proceeds, and that no gain is invented.
func checkRows(rt *rapid.T, rows []answer.GainRow, txs []tax.Transaction) {
	proceeds := make(map[string]*big.Rat)
	gains := new(big.Rat)
	for _, r := range rows {
		if proceeds[r.Record] == nil {
			proceeds[r.Record] = new(big.Rat)
		}
		proceeds[r.Record].Add(proceeds[r.Record], exact(r.Proceeds.Decimal))
		gain := new(big.Rat).Sub(exact(r.Proceeds.Decimal), exact(r.Basis.Decimal))
		loss := new(big.Rat).Neg(gain)
		gain.Add(gain, exact(r.Adjustment.Decimal))
		if gain.Cmp(exact(r.Gain.Decimal)) != 0 {
			rt.Fatalf("%+v: the gain is not proceeds less basis plus adjustment", r)
		}
		if (r.Code == "W") != r.Adjustment.IsPos() || r.Adjustment.IsPos() &&
			exact(r.Adjustment.Decimal).Cmp(loss) > 0 || r.Permanent.Cmp(r.Adjustment.Decimal) > 0 {
			rt.Fatalf("%+v: the adjustment is not a part of the loss", r)
		}
		for _, a := range []answer.Amount{r.Proceeds, r.Basis, r.Adjustment, r.Gain, r.Permanent} {
			if a.Trim(0).Scale() > 2 {
				rt.Fatalf("%+v: not whole cents", r)
			}
		}
		gains.Add(gains, gain)
	}
	for _, x := range txs {
		if x.Action != tax.Sell || x.Account != "brk" {
			continue
		}
		total := new(big.Rat).Mul(exact(x.Quantity), exact(x.Price))
		total.Sub(total, exact(x.Fees))
		got := proceeds[fmt.Sprintf("t.csv:%d", x.Source.Line)]
		if got == nil || got.Cmp(inCents(total)) != 0 {
			rt.Fatalf("rows of line %d have proceeds %v, want %s", x.Source.Line, got, total.FloatString(8))
		}
	}
	lines, short, long, err := ScheduleD(rows)
	must.Succeed(rt, err)
	sum := new(big.Rat).Add(exact(short.Decimal), exact(long.Decimal))
	byLine := new(big.Rat)
	for _, l := range lines {
		byLine.Add(byLine, exact(l.Gain.Decimal))
	}
	if sum.Cmp(gains) != 0 || byLine.Cmp(gains) != 0 {
		rt.Fatalf("the rows gain %v, the totals %v, the lines %v", gains, sum, byLine)
	}
	// A form with the same rows in another order has no difference, and agrees with all of them.
	form := make([]importer.FormRow, 0, len(rows))
	for _, i := range rapid.Permutation(indexes(len(rows))).Draw(rt, "order") {
		r := rows[i]
		form = append(form, importer.FormRow{Account: r.Account, Ticker: r.Ticker,
			Quantity: r.Quantity.Decimal, Acquired: r.Acquired, Sold: r.Sold, HasBasis: true,
			Proceeds: r.Proceeds.Decimal, Basis: r.Basis.Decimal, WashSale: r.Adjustment.Decimal, Box: r.Box})
	}
	compared, err := Compare(rows, form, "f")
	must.Succeed(rt, err)
	if len(compared.Differences) > 0 || compared.Agree != len(rows) {
		rt.Fatalf("compared with itself: %+v", compared)
	}
	if len(form) == 0 {
		return
	}
	// A cent more in one row is found.
	i := rapid.IntRange(0, len(form)-1).Draw(rt, "changed")
	form[i].Basis, _ = form[i].Basis.Add(decimal.MustNew(1, 2))
	compared, err = Compare(rows, form, "f")
	must.Succeed(rt, err)
	if len(compared.Differences) != 1 || compared.Differences[0].Field != "basis" ||
		compared.Differences[0].Difference.String() != "-0.01" {
		rt.Fatalf("a cent more: %+v", compared.Differences)
	}
}

func indexes(n int) []int {
	list := make([]int, n)
	for i := range list {
		list[i] = i
	}
	return list
}

// TestWholeLossDisallowed: the loss is 3.012 dollars, but its row, 27.00 less 30.02, loses 3.02.
// The whole loss is disallowed, so that the row has no gain.
func TestWholeLossDisallowed(t *testing.T) {
	rows, err := rowsOf(t, []tax.Transaction{
		transaction(t, "2025-01-02", tax.Buy, "X", "3", "10.005"),
		transaction(t, "2025-06-02", tax.Sell, "X", "3", "9.001"),
		transaction(t, "2025-06-10", tax.Buy, "X", "3", "9")}, "2025-06-02")
	must.Succeed(t, err)
	r := rows[0]
	if got := fmt.Sprint(r.Proceeds, r.Basis, r.Adjustment, r.Gain); got != "27 30.02 3.02 0" {
		t.Errorf("%s: %s", r.Description, got)
	}
}

// TestCompare: 10 X were bought for $100 and sold for $120. The capital that Y returned above its
// basis is a row without shares, which no form has.
func TestCompare(t *testing.T) {
	for form, want := range map[string]string{
		"10,2025-01-02,2025-06-02,120,100,,A":                                      "",
		"10,2025-01-02,2025-06-02,120,,,B":                                         "",
		"10,2025-01-02,2025-06-02,120,,5,B":                                        "wash_sale $0.00 $5.00",
		"10,2025-01-02,2025-06-02,120,100,,D":                                      "box A D",
		"4,2025-01-02,2025-06-02,48,,,B\nbrk,X,6,2025-01-02,2025-06-02,72,99,,B":   "", // the basis of some
		"4,2025-01-02,2025-06-02,48,40,,A\nbrk,X,6,2025-01-02,2025-06-02,72,99,,A": "basis $100.00 $139.00",
	} {
		rows, err := rowsOf(t, []tax.Transaction{
			transaction(t, "2025-01-02", tax.Buy, "X", "10", "10"),
			transaction(t, "2025-01-02", tax.Buy, "Y", "1", "10"),
			transaction(t, "2025-03-03", tax.ReturnOfCapital, "Y", "1", "50"),
			transaction(t, "2025-06-02", tax.Sell, "X", "10", "12")}, "2025-06-02")
		must.Succeed(t, err)
		theirs, err := importer.ReadForm1099B("f.csv", []byte(
			"account,ticker,quantity,acquired,sold,proceeds,basis,wash_sale,box\nbrk,X,"+form+"\n"), nil)
		must.Succeed(t, err)
		compared, err := Compare(rows, theirs, "f.csv")
		must.Succeed(t, err)
		var got []string
		for _, d := range compared.Differences {
			got = append(got, d.Field+" "+d.Ours+" "+d.Form)
		}
		if strings.Join(got, ", ") != want || len(rows) != 2 {
			t.Errorf("%s: %v, want %s", form, got, want)
		}
	}
}

// TestCompareMixedBoxes: if rows that cannot be paired have different boxes on the form, the boxes
// are not known.
func TestCompareMixedBoxes(t *testing.T) {
	txs := []tax.Transaction{transaction(t, "2025-01-02", tax.Buy, "X", "10", "10"),
		transaction(t, "2025-06-02", tax.Sell, "X", "10", "12")}
	for _, other := range []string{"B", "G"} {
		rows, err := rowsOf(t, txs, "2025-06-02")
		must.Succeed(t, err)
		form, err := importer.ReadForm1099B("f.csv", []byte("account,ticker,quantity,acquired,sold,proceeds,basis,box\n"+
			"brk,X,4,2025-01-02,2025-06-02,48,40,A\nbrk,X,6,2025-01-02,2025-06-02,72,,"+other+"\n"), nil)
		must.Succeed(t, err)
		_, err = Compare(rows, form, "f.csv")
		must.Succeed(t, err)
		want := "the form has the boxes [A " + other + "] for these shares"
		if rows[0].Box != "" || rows[0].BoxReason != want {
			t.Errorf("box %q: %s, want %s", rows[0].Box, rows[0].BoxReason, want)
		}
	}
}

// TestAcquiredOn: a broker prints the date of the purchase, or that date moved by the time that a
// wash sale added.
func TestAcquiredOn(t *testing.T) {
	for acquired, want := range map[string]bool{"2025-02-10": true, "2025-01-08": true,
		"2025-01-09": false, "": false, "INHERITED": false} {
		r := &answer.GainRow{Acquired: "2025-02-10", HeldSince: "2025-01-09"}
		if got := acquiredOn(r, &importer.FormRow{Acquired: acquired}); got != want {
			t.Errorf("%s: %t", acquired, got)
		}
	}
}

// TestCSV: amounts have two decimals, and an account cannot break the columns.
func TestCSV(t *testing.T) {
	rows, err := rowsOf(t, []tax.Transaction{transaction(t, "2025-01-02", tax.Buy, "X", "10", "10"),
		transaction(t, "2025-06-02", tax.Sell, "X", "10", "8.5")}, "2025-06-02")
	must.Succeed(t, err)
	rows[0].Account = `a,"b`
	got, err := CSV(rows)
	must.Succeed(t, err)
	want := "box,description,date_acquired,date_sold,proceeds,basis,code,adjustment,gain,account,ticker,quantity,record\n" +
		"A,10 sh. X,2025-01-02,2025-06-02,85.00,100.00,,0.00,-15.00,\"a,\"\"b\",X,10,t.csv:2\n"
	if string(got) != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	if lines := strings.Split(string(got), "\n"); !slices.Equal(lines[len(lines)-1:], []string{""}) {
		t.Error("the last line is not complete")
	}
}
