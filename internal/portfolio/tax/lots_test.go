package tax

import (
	"errors"
	"github.com/govalues/decimal"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestLotMethods sells from the same lots with each method. On 2024-06-01, a and b are long-term, c
// and d short-term.
func TestLotMethods(t *testing.T) {
	for _, tt := range []struct{ account, row, want string }{
		{"brk", "sell X 15 @12", `10 a -20 long, 5 b 10 long`},
		{"lifo", "sell X 15 @12", `10 d 10 short, 5 c -10 short`},
		{"hifo", "sell X 15 @12", `10 a -20 long, 5 c -10 short`},
		{"hifo", "sell X 25 @12", `10 a -20 long, 10 c -20 short, 5 d 5 short`},
		{"mint", "sell X 15 @12", `10 c -20 short, 5 a -10 long`},
		{"mint", "sell X 35 @12", `10 c -20 short, 10 a -20 long, 10 b 20 long, 5 d 5 short`},
		{"spec", "sell X 5 @12 lot=d", `5 d 5 short`},
		{"spec", "sell X 15 @12", `10 a -20 long, 5 b 10 long`},
		{"brk", "sell X 5 @12 lot=b", `5 b 10 long`},
	} {
		b := build(t, strings.ReplaceAll(`
			2023-01-10 ACCT buy X 10 @14 lot=a
			2023-02-10 ACCT buy X 10 @10 lot=b
			2023-06-01 ACCT buy X 10 @14 lot=c
			2023-12-10 ACCT buy X 10 @11 lot=d
			2024-06-01 ACCT `+tt.row, "ACCT", tt.account))
		names := map[Date]string{day(t, "2023-01-10"): "a", day(t, "2023-02-10"): "b",
			day(t, "2023-06-01"): "c", day(t, "2023-12-10"): "d"}
		var got []string
		for _, s := range b.Sales {
			got = append(got, strings.Join([]string{s.Quantity.Trim(0).String(), names[s.LotDate],
				s.Gain.Trim(0).String(), term(s.LongTerm)}, " "))
		}
		if diff := cmp.Diff(tt.want, strings.Join(got, ", ")); diff != "" {
			t.Errorf("%s: %s\n%s", tt.account, tt.row, diff)
		}
	}
}

func TestLots(t *testing.T) {
	check(t, []history{
		{"fees are part of basis and proceeds, in proportion to the quantity", "Publication 550, basis: commissions of buying and selling", `
			2023-01-10 brk buy X 10 @10 fees=5
			2024-06-01 brk sell X 4 @20 fees=2`, `
			2023-01-10 brk holds X 6 basis=63
			2024-06-01 brk sold X 4 of=2023-01-10 long=36`},
		{"a lot without an id is named by its day and number", "the package comment", `
			2023-01-10 spec buy X 10 @10
			2023-01-10 spec buy X 10 @11
			2023-06-01 spec sell X 4 @12 lot=2023-01-10#2`, `
			2023-01-10 spec holds X 10 basis=100
			2023-01-10 spec holds X 6 basis=66
			2023-06-01 spec sold X 4 of=2023-01-10 short=4`},
		{"the order of rows within a day does not matter: a sell finds shares bought on that day", "the package comment: rows have no times", `
			2023-01-10 brk sell X 4 @12
			2023-01-10 brk buy X 10 @10`, `
			2023-01-10 brk holds X 6 basis=60
			2023-01-10 brk sold X 4 of=2023-01-10 short=8`},
		{"a sell without a buy does not make a lot, and takes the shares that are known", "the package comment: Build never invents a lot", `
			2023-01-10 brk buy X 3 @10
			2023-02-10 brk sell X 10 @12
			2023-03-10 brk buy X 5 @10`, `
			2023-03-10 brk holds X 5 basis=50
			2023-02-10 brk sold X 3 of=2023-01-10 short=6
			2023-02-10 brk gap X 7: sold without a buy`},
		{"a lot that is not there", "Reg. 1.1012-1(c): identification of a lot that does not exist", `
			2023-01-10 spec buy X 3 @10 lot=a
			2023-02-10 spec sell X 3 @12 lot=b`, `
			2023-01-10 spec holds X 3 basis=30
			2023-02-10 spec gap X 3: sold from a lot that does not exist`},
		{"a split keeps dates and basis, and three lots of one share do not lose a fraction", "section 305(a) and 307(a)", `
			2023-01-10 brk buy X 1 @9
			2023-01-11 brk buy X 1 @9
			2023-01-12 brk buy X 1 @9
			2023-02-01 brk split X ratio=1:3
			2023-03-01 brk sell X 1 @30`, `
			2023-03-01 brk sold X 0.33333333 of=2023-01-10 short=0.9999999
			2023-03-01 brk sold X 0.33333334 of=2023-01-11 short=1.0000002
			2023-03-01 brk sold X 0.33333333 of=2023-01-12 short=0.9999999`},
		{"a split row may have the number of added shares instead of a ratio", "section 307(a)", `
			2023-01-10 brk buy X 10 @9
			2023-01-10 two buy X 10 @9
			2023-02-01 brk split X 5`, `
			2023-01-10 brk holds X 15 basis=90
			2023-01-10 two holds X 10 basis=90`},
		{"a split of nothing", "the package comment: Build never invents a lot", `
			2023-02-01 brk split X 5`, `
			2023-02-01 brk gap X 5: split of shares that were not bought`},
	})
}

// TestHoldingPeriod: the period starts on the day after the purchase, and long-term is more than a
// year.
func TestHoldingPeriod(t *testing.T) {
	check(t, []history{
		{"exactly a year after the purchase it is short-term, a day later long-term", "section 1222 and Rev. Rul. 66-7", `
			2023-06-15 brk buy X 2 @10
			2024-06-15 brk sell X 1 @11
			2024-06-16 brk sell X 1 @11`, `
			2024-06-15 brk sold X 1 of=2023-06-15 short=1
			2024-06-16 brk sold X 1 of=2023-06-15 long=1`},
		{"bought on the last day of February: a month that starts on the first ends with the month", "Rev. Rul. 66-7", `
			2023-02-28 brk buy X 2 @10
			2024-02-29 brk sell X 1 @11
			2024-03-01 brk sell X 1 @11`, `
			2024-02-29 brk sold X 1 of=2023-02-28 short=1
			2024-03-01 brk sold X 1 of=2023-02-28 long=1`},
		{"bought on 29 February", "Rev. Rul. 66-7", `
			2024-02-29 brk buy X 2 @10
			2025-02-28 brk sell X 1 @11
			2025-03-01 brk sell X 1 @11`, `
			2025-02-28 brk sold X 1 of=2024-02-29 short=1
			2025-03-01 brk sold X 1 of=2024-02-29 long=1`},
		{"the days of the sold shares make a replacement long-term after a month", "section 1223(3)", `
			2023-01-10 brk buy X 2 @10
			2023-12-10 brk sell X 2 @8
			2023-12-20 brk buy X 2 @8
			2024-01-20 brk sell X 1 @9
			2024-01-21 brk sell X 1 @9`, `
			2023-12-10 brk sold X 2 of=2023-01-10 short=-4 disallowed=4 for=2
			2024-01-20 brk sold X 1 of=2023-12-20 short=-1
			2024-01-21 brk sold X 1 of=2023-12-20 long=-1
			2023-12-10 brk wash X 2 loss=4 disallowed=4 for=2 by 2023-12-20 brk X 2`},
	})
}

// TestLotsThatMove has transfers, returns of capital and inheritances.
func TestLotsThatMove(t *testing.T) {
	check(t, []history{
		{"a transfer keeps dates and basis, and FIFO uses these dates", "Reg. 1.1012-1(c)(1)", `
			2023-01-10 two buy X 10 @9 fees=1
			2023-01-20 brk buy X 10 @8
			2023-02-01 two transfer X 6 to=brk
			2023-03-01 brk sell X 7 @10`, `
			2023-01-20 brk holds X 9 basis=72
			2023-01-10 two holds X 4 basis=36.4
			2023-03-01 brk sold X 6 of=2023-01-10 short=5.4
			2023-03-01 brk sold X 1 of=2023-01-20 short=2`},
		{"FIFO takes the lots of one day in the order of their rows, in whatever account they were bought", "Reg. 1.1012-1(c)(1)", `
			2023-01-01 brk buy X 1 @11
			2023-01-01 two buy X 1 @10
			2023-01-02 brk transfer X 1 to=two
			2023-06-02 two sell X 1 @20`, `
			2023-01-01 two holds X 1 basis=10
			2023-06-02 two sold X 1 of=2023-01-01 short=9`},
		{"the same with a newer lot", "Reg. 1.1012-1(c)(1)", `
			2023-01-01 brk buy X 1 @11
			2023-01-01 two buy X 1 @10
			2023-01-02 two buy X 1 @10
			2023-01-02 brk transfer X 1 to=two
			2023-06-02 two sell X 1 @20`, `
			2023-01-01 two holds X 1 basis=10
			2023-01-02 two holds X 1 basis=10
			2023-06-02 two sold X 1 of=2023-01-01 short=9`},
		{"a transfer out of the portfolio, and two into it", "Reg. 1.1012-1(c)(1)", `
			2023-01-10 brk buy X 10 @9
			2023-02-01 brk transfer X 4
			2023-02-02 - transfer X 5 to=brk since=2020-05-05 donor=30
			2023-02-03 - transfer X 7 to=two`, `
			2020-05-05 brk holds X 5 basis=30
			2023-01-10 brk holds X 6 basis=54
			2023-02-03 two gap X 7: transferred in without date and basis`},
		{"shares that are transferred without a buy are missing in the receiving account", "the package comment: Build never invents a lot", `
			2023-02-01 brk transfer X 4 to=two`, `
			2023-02-01 two gap X 4: transferred without a buy`},
		{"a return of capital lowers the basis, and what exceeds the basis is a gain", "section 301(c)(2) and (3)", `
			2023-01-10 brk buy X 10 @9
			2023-01-20 brk buy X 30 @1
			2023-02-01 brk return_of_capital X value=80
			2023-03-01 brk return_of_capital X 40 @1`, `
			2023-01-10 brk holds X 10 basis=60
			2023-01-20 brk holds X 30 basis=0
			2023-02-01 brk sold X 0 of=2023-01-20 short=30
			2023-03-01 brk sold X 0 of=2023-01-20 short=30`},
		{"an inheritance steps up and is long-term", "section 1014(a) and 1223(9)", `
			2023-01-10 brk inherit X 10 value=500
			2023-01-20 brk sell X 10 @60`, `
			2023-01-20 brk sold X 10 of=2023-01-10 long=100`},
		{"an inheritance that lost value steps down, and a loss on it is long-term", "section 1014(a) and 1223(9)", `
			2023-01-10 brk inherit X 10 value=500
			2023-01-11 brk sell X 10 @40`, `
			2023-01-11 brk sold X 10 of=2023-01-10 long=-100`},
		{"shares from another broker keep their date and basis", "Reg. 1.1012-1(c)(1); a transfer is not a sale", `
			2023-02-02 - transfer X 5 to=brk since=2022-02-02 donor=30
			2023-02-03 brk sell X 5 @5`, `
			2023-02-03 brk sold X 5 of=2022-02-02 long=-5`},
		{"capital returned between two purchases lowers the basis of the first only", "section 301(c)(2)", `
			2023-01-10 brk buy X 10 @9
			2023-02-01 brk return_of_capital X value=20
			2023-02-02 brk buy X 10 @9`, `
			2023-01-10 brk holds X 10 basis=70
			2023-02-02 brk holds X 10 basis=90`},
	})
}

// TestGifts: section 1015(a) and Publication 551. The donor paid 100 a share in 2010; the gift was
// worth 80 on its day.
func TestGifts(t *testing.T) {
	for _, tt := range []struct{ price, gain, basis, term string }{
		// a gain is counted from the donor's basis, with the donor's holding period
		{"120", "200", "1000", "long"},
		{"100", "0", "1000", "long"},
		{"90", "0", "900", "long"}, // neither gain nor loss
		{"80", "0", "800", "long"},
		// a loss is counted from the value, and the holding period starts with the gift
		{"70", "-100", "800", "short"},
	} {
		b := build(t, `
			2024-01-10 brk gift_in X 10 donor=1000 since=2010-01-01 value=800
			2024-03-01 brk sell X 10 @`+tt.price)
		s := b.Sales[0]
		if s.Gain.Trim(0).String() != tt.gain || s.Basis.Trim(0).String() != tt.basis ||
			term(s.LongTerm) != tt.term {
			t.Errorf("sold at %s: gain %s from %s, %s; want %s from %s, %s", tt.price, s.Gain,
				s.Basis, term(s.LongTerm), tt.gain, tt.basis, tt.term)
		}
	}
	b := build(t, `
		2024-01-10 brk gift_in X 10 donor=500 since=2010-01-01 value=800
		2024-03-01 brk sell X 10 @40`)
	if s := b.Sales[0]; s.Gain.Cmp(dec(t, "-100")) != 0 || !s.LongTerm {
		t.Errorf("worth more than the donor's basis: gain %s, long-term %t", s.Gain, s.LongTerm)
	}
}

// TestMinTaxGifts: a gift that was worth less than the donor's basis has different holding periods
// for a loss and a gain.
func TestMinTaxGifts(t *testing.T) {
	check(t, []history{
		{"a loss on the gift is short-term, and comes before a long-term loss", "section 1015(a)", `
			2024-01-10 mint gift_in X 10 donor=1000 since=2010-01-01 value=800
			2020-01-10 mint buy X 10 @85
			2024-03-01 mint sell X 10 @70`, `
			2020-01-10 mint holds X 10 basis=850
			2024-03-01 mint sold X 10 of=2024-01-10 short=-100`},
		{"a gain on the gift is long-term, and comes before a short-term gain", "section 1015(a) and 1223(2)", `
			2024-01-10 mint gift_in X 10 donor=1000 since=2010-01-01 value=800
			2024-01-11 mint buy X 10 @105
			2024-03-01 mint sell X 10 @110`, `
			2024-01-11 mint holds X 10 basis=1050
			2024-03-01 mint sold X 10 of=2024-01-10 long=100`},
		{"the donor held for more than a year, but the gift is recent", "section 1015(a)", `
			2024-01-10 mint gift_in X 10 donor=1000 since=2023-02-01 value=800
			2020-01-10 mint buy X 10 @85
			2024-01-20 mint sell X 1 @90
			2024-03-01 mint sell X 10 @70`, `
			2020-01-10 mint holds X 9 basis=765
			2024-01-20 mint sold X 1 of=2020-01-10 long=5
			2024-03-01 mint sold X 10 of=2024-01-10 short=-100`},
		{"both periods are longer than a year", "section 1015(a)", `
			2024-01-10 mint gift_in X 10 donor=1000 since=2010-01-01 value=800
			2020-01-10 mint buy X 10 @85
			2024-01-20 mint sell X 1 @90
			2025-03-01 mint sell X 9 @70`, `
			2024-01-10 mint holds X 10 basis=1000 from=2010-01-02
			2024-01-20 mint sold X 1 of=2020-01-10 long=5
			2025-03-01 mint sold X 9 of=2020-01-10 long=-135`},
	})
}

// TestMinTaxFirstLongTermDay: the order changes on the day after the anniversary of the purchase,
// not on the anniversary. Each history has an older lot and a short-term one, and sells one share.
func TestMinTaxFirstLongTermDay(t *testing.T) {
	const (
		held = "2023-06-15 mint buy X 1 @OLD lot=old\n2024-01-10 mint buy X 1 @NEW lot=new\n"
		// The older lot arrives on the day of the sale, so that it is ranked on that day only.
		moved = "DAY - transfer X 1 to=mint since=2023-06-15 donor=OLD lot=old\n2024-01-10 mint buy X 1 @NEW lot=new\n"
		gift  = "2023-06-15 mint gift_in X 1 donor=30 since=2010-01-01 value=OLD lot=old\n2024-01-10 mint buy X 1 @NEW lot=new\n"
	)
	for _, tt := range []struct{ rows, prices, day, sold string }{
		// two short-term gains: the higher basis
		{held, "OLD=10 NEW=11 SELL=12", "2024-06-15", "new"},
		// a long-term gain before a short-term one
		{held, "OLD=10 NEW=11 SELL=12", "2024-06-16", "old"},
		// two short-term losses: the higher basis
		{held, "OLD=10 NEW=9 SELL=8", "2024-06-15", "old"},
		// a short-term loss before a long-term one
		{held, "OLD=10 NEW=9 SELL=8", "2024-06-16", "new"},
		{moved, "OLD=10 NEW=11 SELL=12", "2024-06-15", "new"},
		{moved, "OLD=10 NEW=11 SELL=12", "2024-06-16", "old"},
		{moved, "OLD=10 NEW=9 SELL=8", "2024-06-15", "old"},
		{moved, "OLD=10 NEW=9 SELL=8", "2024-06-16", "new"},
		// a loss on a gift is long-term by the gift's own day
		{gift, "OLD=10 NEW=9 SELL=8", "2024-06-15", "old"},
		{gift, "OLD=10 NEW=9 SELL=8", "2024-06-16", "new"},
	} {
		text := tt.rows + "DAY mint sell X 1 @SELL"
		for _, price := range strings.Fields(tt.prices) {
			name, value, _ := strings.Cut(price, "=")
			text = strings.ReplaceAll(text, name, value)
		}
		b := build(t, strings.ReplaceAll(text, "DAY", tt.day))
		sold := "new"
		if b.Sales[0].LotDate == day(t, "2023-06-15") {
			sold = "old"
		}
		if len(b.Sales) != 1 || sold != tt.sold {
			t.Errorf("sold the %s lot, want the %s one:\n%s", sold, tt.sold, formatBook(b))
		}
	}
}

// TestEqualLots: which lot goes first if the method does not decide.
func TestEqualLots(t *testing.T) {
	check(t, []history{
		{"HIFO takes the older of two lots with the same basis per share", "the package comment", `
			2023-02-01 hifo buy X 1 @10
			2023-01-01 brk buy X 1 @10
			2023-03-01 brk transfer X 1 to=hifo
			2023-06-01 hifo sell X 1 @20`, `
			2023-02-01 hifo holds X 1 basis=10
			2023-06-01 hifo sold X 1 of=2023-01-01 short=10`},
		{"HIFO takes lots of one date and basis per share in the order of their rows", "the package comment", `
			2023-01-01 brk buy X 1 @10
			2023-01-01 hifo buy X 2 @10
			2023-03-01 brk transfer X 1 to=hifo
			2023-06-01 hifo sell X 1 @20`, `
			2023-01-01 hifo holds X 2 basis=20
			2023-06-01 hifo sold X 1 of=2023-01-01 short=10`},
		{"LIFO takes the part of a lot that was transferred last", "the package comment", `
			2023-01-10 brk buy X 4 @10
			2024-03-01 brk sell X 4 @8
			2024-03-10 brk buy X 10 @9
			2024-04-20 brk transfer X 4 to=lifo
			2024-04-21 brk transfer X 6 to=lifo
			2024-05-01 lifo sell X 6 @20`, `
			2024-03-10 lifo holds X 4 basis=44 adjusted=8 from=2023-01-20
			2024-03-01 brk sold X 4 of=2023-01-10 long=-8 disallowed=8 for=4
			2024-05-01 lifo sold X 6 of=2024-03-10 short=66
			2024-03-01 brk wash X 4 loss=8 disallowed=8 for=4 by 2024-03-10 brk X 4`},
		{"for min_tax, a lot at cost is not a loss", "section 165(a)", `
			2022-01-10 mint buy X 1 @5
			2024-01-10 mint buy X 1 @12
			2024-06-01 mint sell X 1 @12`, `
			2024-01-10 mint holds X 1 basis=12
			2024-06-01 mint sold X 1 of=2022-01-10 long=7`},
		{"for min_tax, returned capital can turn a loss into a gain", "section 301(c)(2)", `
			2022-01-10 mint buy X 10 @5
			2024-01-10 mint buy X 10 @12
			2024-03-01 mint return_of_capital X value=40
			2024-06-01 mint sell X 10 @11`, `
			2024-01-10 mint holds X 10 basis=100
			2024-06-01 mint sold X 10 of=2022-01-10 long=80`},
	})
}

func TestRowsAfterAsOfAreIgnored(t *testing.T) {
	text := `
		2023-01-10 brk buy X 10 @10
		2024-03-01 brk sell X 10 @8
		2024-03-10 brk buy X 10 @8`
	if b := buildAt(t, text, "2024-03-09"); len(b.WashSales) != 0 || len(b.Lots) != 0 ||
		len(b.Sales) != 1 {
		t.Errorf("the day before:\n%s", formatBook(b))
	}
	if b := buildAt(t, text, "2024-03-10"); len(b.WashSales) != 1 || len(b.Lots) != 1 {
		t.Errorf("the day itself:\n%s", formatBook(b))
	}
}

func TestRealized(t *testing.T) {
	b := build(t, `
		2022-01-10 brk buy X 30 @10
		2024-01-10 brk buy Y 30 @10
		2024-02-10 ira buy Z 30 @10
		2023-12-31 brk sell X 10 @20
		2024-03-01 brk sell X 10 @13
		2024-03-01 brk sell Y 20 @8
		2024-03-01 ira sell Z 20 @80
		2024-03-02 brk buy Y 5 @8
		2024-01-10 her buy W 10 @10
		2024-03-05 her sell W 10 @90`)
	years, err := b.Realized(b.AsOf, map[string]bool{"brk": true, "ira": true})
	if n := years[2024]; err != nil || n.Short.Cmp(dec(t, "-30")) != 0 ||
		n.Long.Cmp(dec(t, "30")) != 0 {
		t.Errorf("%+v, %v; want -30 and 30", n, err)
	}
	if years, err = b.Realized(day(t, "2024-02-29"), map[string]bool{"brk": true}); err != nil ||
		len(years) != 1 {
		t.Errorf("until February: %v, %v", years, err)
	}
}

// TestSection1212Carryover computes the worksheet of Schedule D by hand, with a limit of $3,000.
func TestSection1212Carryover(t *testing.T) {
	n := func(short, long string) Net { return Net{dec(t, short), dec(t, long)} }
	for _, tt := range []struct {
		name  string
		years map[int]Net
		want  Net
	}{
		{"no losses", map[int]Net{2024: n("100", "50")}, n("0", "0")},
		{"less than the limit: 2,000 is deducted", map[int]Net{2025: n("-2000", "0")}, n("0", "0")},
		{"short-term: 20,000 − 3,000 = 17,000", map[int]Net{2025: n("-20000", "0")},
			n("17000", "0")},
		{"long-term: 20,000 − 3,000 = 17,000", map[int]Net{2025: n("0", "-20000")},
			n("0", "17000")},
		{"both: short-term losses are deducted first, 4,000 − 3,000 = 1,000 and 5,000",
			map[int]Net{2025: n("-4000", "-5000")}, n("1000", "5000")},
		{"both: 1,000 − 1,000 = 0 and 5,000 − 2,000 = 3,000",
			map[int]Net{2025: n("-1000", "-5000")}, n("0", "3000")},
		{"a long-term gain: 10,000 − 4,000 − 3,000 = 3,000",
			map[int]Net{2025: n("-10000", "4000")}, n("3000", "0")},
		{"a short-term gain: 10,000 − 4,000 − 3,000 = 3,000",
			map[int]Net{2025: n("4000", "-10000")}, n("0", "3000")},
		// 2022: 10,000 − 3,000 = 7,000. 2023 has no sale: 7,000 − 3,000 = 4,000.
		// 2024: 1,000 − 4,000 = −3,000, all deducted.
		{"year by year", map[int]Net{2022: n("-10000", "0"), 2024: n("1000", "0")}, n("0", "0")},
		// 2022: 0 and 7,000. 2023: 2,000 short-term, so −5,000: 7,000 − 2,000 − 3,000 = 2,000.
		// 2024: −500 and −2,000: all deducted. 2025: −4,000: 4,000 − 3,000 = 1,000.
		{"year by year, of both terms", map[int]Net{2022: n("0", "-10000"), 2023: n("2000", "0"),
			2024: n("-500", "0"), 2025: n("-4000", "0")}, n("1000", "0")},
		{"later years do not count", map[int]Net{2026: n("-20000", "0")}, n("0", "0")},
	} {
		got, err := Carryover(tt.years, 2026, dec(t, "3000"))
		if err != nil || got.Short.Cmp(tt.want.Short) != 0 || got.Long.Cmp(tt.want.Long) != 0 {
			t.Errorf("%s: %+v, %v", tt.name, got, err)
		}
	}
}

// TestSection1256Contracts: options on a broad-based index are not capital assets with short-term
// and long-term lots: 60 percent of a gain is long-term (section 1256(a)(3)), and section 1091 does
// not apply (section 1256(f)(5)). Without figures for that, no sale counts and no lot is a
// candidate.
func TestSection1256Contracts(t *testing.T) {
	const option = "SPXW240621C05000000"
	b := build(t, `
		2024-01-10 brk buy `+option+` 2 @1000
		2024-03-01 brk sell `+option+` 1 @400
		2024-03-05 brk buy `+option+` 1 @500
		2024-03-05 brk buy SPY240621C00500000 1 @500`)
	if len(b.WashSales) != 0 || !b.Sales[0].Section1256 {
		t.Errorf("%s", formatBook(b))
	}
	if years, err := b.Realized(b.AsOf, map[string]bool{"brk": true}); err != nil ||
		len(years) != 0 {
		t.Errorf("%v, %v", years, err)
	}
	r, err := Harvest(b, map[string]decimal.Decimal{option: dec(t, "100"),
		"SPY240621C00500000": dec(t, "100")}, HarvestOptions{})
	if err != nil || len(r.Candidates) != 1 || r.Candidates[0].Ticker != "SPY240621C00500000" {
		t.Errorf("%+v, %v", r, err)
	}
	for name, want := range map[string]bool{option: true, "VIX240619P00015000": true,
		"SPY240621C00500000": false, "SPX": false, "XSPA240621C00500000": false} {
		if Section1256(name) != want {
			t.Errorf("%s: %t", name, !want)
		}
	}
}

func TestFaults(t *testing.T) {
	text := `
		2023-01-10 unknown buy X 10 @10
		2023-01-10 brk steal X 10 @10
		2023-01-10 brk buy X @10
		2023-01-10 brk sell X -1 @10
		2023-01-10 brk split X
		2023-01-10 brk transfer X 1 to=brk
		2023-01-10 brk transfer X 1 to=ira
		2023-01-10 brk gift_in X 1 donor=5
		2023-01-10 brk inherit X 1
		2023-01-10 brk return_of_capital X 1
		2023-01-10 - buy X 1 @1
		2023-01-10 brk gift_in X 1 donor=5 value=6 since=2023-01-11`
	_, err := Build(household(), rows(t, text), day(t, farFuture))
	var faults *FaultsError
	if !errors.As(err, &faults) {
		t.Fatalf("error %v", err)
	}
	want := []string{"not in the portfolio", "not known", "no quantity", "negative", "no ratio", "goes nowhere",
		"retirement account", "no value", "no value", "no value", "no account", "after the row"}
	if len(faults.Faults) != len(want) {
		t.Fatalf("%d faults, want %d:\n%v", len(faults.Faults), len(want), err)
	}
	for i, f := range faults.Faults {
		if !strings.Contains(f.Text, want[i]) || f.Source.Line != i+2 ||
			!strings.HasPrefix(f.String(), "t.csv:") {
			t.Errorf("fault %d: %s, want %q", i, f, want[i])
		}
	}
}

func TestFaultsInRules(t *testing.T) {
	for want, rules := range map[string]Rules{
		"no id":      {Accounts: []Account{{}}},
		"twice":      {Accounts: []Account{{ID: "a"}, {ID: "a"}}},
		"kind":       {Accounts: []Account{{ID: "a", Kind: "offshore"}}},
		"owner":      {Accounts: []Account{{ID: "a", Owner: "dog"}}},
		"lot method": {Accounts: []Account{{ID: "a", Method: "best"}}},
	} {
		if _, err := Build(rules, nil, 1); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: error %v, want %q", rules, err, want)
		}
	}
	split := `
		2023-01-10 - split X ratio=2:1
		2023-01-10 - split Y ratio=2:1
		2023-01-11 - split X ratio=2:1
		2023-01-11 brk split Y ratio=2:1
		2023-01-11 two split Y ratio=2:1
		`
	if _, err := Build(household(), rows(t, split), 1); err != nil {
		t.Errorf("splits on two days, of two tickers and in two accounts: %v", err)
	}
	if _, err := Build(household(), rows(t, split+"2023-01-10 - split X ratio=2:1"),
		1); err == nil || !strings.HasPrefix(err.Error(), "t.csv:7: X is split twice on one day") {
		t.Errorf("a second split on one day: %v", err)
	}
	many := strings.Repeat("2023-01-10 unknown buy X 10 @10\n", 80)
	_, err := Build(household(), rows(t, many), 1)
	if n := strings.Count(err.Error(), "\n") + 1; n != maxFaults {
		t.Errorf("%d faults are listed", n)
	}
	_, err = Build(household(), rows(t, "2023-01-10 brk buy X 9000000000000 @9000000000000"),
		day(t, farFuture))
	if err == nil || !strings.Contains(err.Error(), "cannot be computed") {
		t.Errorf("overflow: %v", err)
	}
}
