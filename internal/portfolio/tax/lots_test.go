package tax

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestLotMethods: one history, each method. The sell is on 2024-06-01 at 12: a and b are long-term, c and d short-term.
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
		names := map[Date]string{day(t, "2023-01-10"): "a", day(t, "2023-02-10"): "b", day(t, "2023-06-01"): "c", day(t, "2023-12-10"): "d"}
		var got []string
		for _, s := range salesOf(b) {
			term := "short"
			if s.LongTerm {
				term = "long"
			}
			got = append(got, strings.Join([]string{s.Quantity.Trim(0).String(), names[s.LotDate], s.Gain.Trim(0).String(), term}, " "))
		}
		if diff := cmp.Diff(tt.want, strings.Join(got, ", ")); diff != "" {
			t.Errorf("%s: %s\n%s", tt.account, tt.row, diff)
		}
	}
}

func TestLots(t *testing.T) {
	check(t, []history{
		{"fees are part of basis and proceeds, and are shared by quantity", `
			2023-01-10 brk buy X 10 @10 fees=5
			2024-06-01 brk sell X 4 @20 fees=2`, `
			lot 2023-01-10 brk 6 X of 2023-01-11 cost 63
			sale 2024-06-01 brk 4 X of 2023-01-10 long 36`},
		{"a lot without an id is named by its day and number", `
			2023-01-10 spec buy X 10 @10
			2023-01-10 spec buy X 10 @11
			2023-06-01 spec sell X 4 @12 lot=2023-01-10#2`, `
			lot 2023-01-10 spec 10 X of 2023-01-11 cost 100
			lot 2023-01-10 spec 6 X of 2023-01-11 cost 66
			sale 2023-06-01 spec 4 X of 2023-01-10 short 4`},
		{"the order of a day's rows does not matter: a sell finds what was bought that day", `
			2023-01-10 brk sell X 4 @12
			2023-01-10 brk buy X 10 @10`, `
			lot 2023-01-10 brk 6 X of 2023-01-11 cost 60
			sale 2023-01-10 brk 4 X of 2023-01-10 short 8`},
		{"a sell without a buy makes no lot, and what is known is sold", `
			2023-01-10 brk buy X 3 @10
			2023-02-10 brk sell X 10 @12
			2023-03-10 brk buy X 5 @10`, `
			lot 2023-03-10 brk 5 X of 2023-03-11 cost 50
			sale 2023-02-10 brk 3 X of 2023-01-10 short 6
			gap 2023-02-10 brk 7 X: sold without a buy`},
		{"a lot that is not there", `
			2023-01-10 spec buy X 3 @10 lot=a
			2023-02-10 spec sell X 3 @12 lot=b`, `
			lot 2023-01-10 spec 3 X of 2023-01-11 cost 30
			gap 2023-02-10 spec 3 X: sold from a lot that is not there`},
		{"a split keeps dates and basis; three lots of one share do not lose a fraction", `
			2023-01-10 brk buy X 1 @9
			2023-01-11 brk buy X 1 @9
			2023-01-12 brk buy X 1 @9
			2023-02-01 brk split X ratio=1:3
			2023-03-01 brk sell X 1 @30`, `
			sale 2023-03-01 brk 0.33333333 X of 2023-01-10 short 0.9999999
			sale 2023-03-01 brk 0.33333334 X of 2023-01-11 short 1.0000002
			sale 2023-03-01 brk 0.33333333 X of 2023-01-12 short 0.9999999`},
		{"a split may say how many shares were added", `
			2023-01-10 brk buy X 10 @9
			2023-01-10 two buy X 10 @9
			2023-02-01 brk split X 5`, `
			lot 2023-01-10 brk 15 X of 2023-01-11 cost 90
			lot 2023-01-10 two 10 X of 2023-01-11 cost 90`},
		{"a split of nothing", `
			2023-02-01 brk split X 5`, `
			gap 2023-02-01 brk 5 X: split of shares that are not there`},
	})
}

// TestLotsThatMove: transfers, returned capital, inheritances, options.
func TestLotsThatMove(t *testing.T) {
	check(t, []history{
		{"a transfer keeps dates and basis, and FIFO goes by the dates", `
			2023-01-10 two buy X 10 @9 fees=1
			2023-01-20 brk buy X 10 @8
			2023-02-01 two transfer X 6 to=brk
			2023-03-01 brk sell X 7 @10`, `
			lot 2023-01-20 brk 9 X of 2023-01-21 cost 72
			lot 2023-01-10 two 4 X of 2023-01-11 cost 36.4
			sale 2023-03-01 brk 6 X of 2023-01-10 short 5.4
			sale 2023-03-01 brk 1 X of 2023-01-20 short 2`},
		{"a transfer out of the portfolio, and two into it", `
			2023-01-10 brk buy X 10 @9
			2023-02-01 brk transfer X 4
			2023-02-02 - transfer X 5 to=brk since=2020-05-05 donor=30
			2023-02-03 - transfer X 7 to=two`, `
			lot 2020-05-05 brk 5 X of 2020-05-06 cost 30
			lot 2023-01-10 brk 6 X of 2023-01-11 cost 54
			gap 2023-02-03 two 7 X: transferred in without date and basis`},
		{"shares that are transferred without a buy are missing where they are now", `
			2023-02-01 brk transfer X 4 to=two`, `
			gap 2023-02-01 two 4 X: transferred without a buy`},
		{"a return of capital lowers the basis, and below zero it is a gain", `
			2023-01-10 brk buy X 10 @9
			2023-01-20 brk buy X 30 @1
			2023-02-01 brk return_of_capital X value=80
			2023-03-01 brk return_of_capital X 40 @1`, `
			lot 2023-01-10 brk 10 X of 2023-01-11 cost 60
			lot 2023-01-20 brk 30 X of 2023-01-21 cost 0
			sale 2023-02-01 brk 0 X of 2023-01-20 short 30
			sale 2023-03-01 brk 0 X of 2023-01-20 short 30`},
		{"an inheritance steps up and is long-term", `
			2023-01-10 brk inherit X 10 value=500
			2023-01-20 brk sell X 10 @60`, `
			sale 2023-01-20 brk 10 X of 2023-01-10 long 100`},
		{"an option that expires is worth nothing", `
			2023-01-10 brk buy X230616C00010000 2 @150
			2023-06-16 brk expire X230616C00010000 2`, `
			sale 2023-06-16 brk 2 X230616C00010000 of 2023-01-10 short -300`},
		{"an exercised call is part of the basis of the shares", `
			2023-01-10 brk buy X230616C00010000 1 @150
			2023-06-10 brk assign X230616C00010000 1
			2023-06-10 brk buy X 100 @10`, `
			lot 2023-06-10 brk 100 X of 2023-06-11 cost 1150`},
		{"an exercised put lowers the proceeds of the shares", `
			2023-01-10 brk buy X 100 @9
			2023-01-10 brk buy X230616P00010000 1 @150
			2023-06-10 brk sell X 100 @10
			2023-06-10 brk assign X230616P00010000 1`, `
			sale 2023-06-10 brk 100 X of 2023-01-10 short -50`},
		{"exercised options without their shares", `
			2023-01-10 brk buy X230616P00010000 1 @150
			2023-01-10 brk buy X230616C00010000 1 @150
			2023-06-10 brk assign X230616P00010000 1
			2023-06-10 brk assign X230616C00010000 1`, `
			gap 2023-06-10 brk 1 X230616P00010000: the exercised put sold no shares on its day
			gap 2023-06-10 brk 1 X230616C00010000: the exercised call bought no shares on its day`},
	})
}

// TestGifts: section 1015(a) and Publication 551. The donor paid 100 a share in 2010; on its day the gift was worth 80.
func TestGifts(t *testing.T) {
	for _, tt := range []struct{ price, gain, basis, term string }{
		{"120", "200", "1000", "long"}, // a gain is counted from the donor's basis, with the donor's time
		{"90", "0", "900", "long"},     // neither gain nor loss
		{"70", "-100", "800", "short"}, // a loss is counted from the value, and the time from the gift
	} {
		b := build(t, `
			2024-01-10 brk gift_in X 10 donor=1000 since=2010-01-01 value=800
			2024-03-01 brk sell X 10 @`+tt.price)
		s := salesOf(b)[0]
		term := map[bool]string{true: "long", false: "short"}[s.LongTerm]
		if s.Gain.Trim(0).String() != tt.gain || s.Basis.Trim(0).String() != tt.basis || term != tt.term {
			t.Errorf("sold at %s: gain %s from %s, %s; want %s from %s, %s", tt.price, s.Gain, s.Basis, term, tt.gain, tt.basis, tt.term)
		}
	}
	b := build(t, `
		2024-01-10 brk gift_in X 10 donor=500 since=2010-01-01 value=800
		2024-03-01 brk sell X 10 @40`)
	if s := salesOf(b)[0]; s.Gain.Cmp(dec(t, "-100")) != 0 || !s.LongTerm {
		t.Errorf("worth more than the donor's basis: gain %s, long-term %t", s.Gain, s.LongTerm)
	}
}

func TestRowsAfterTheDayAreNotThere(t *testing.T) {
	text := `
		2023-01-10 brk buy X 10 @10
		2024-03-01 brk sell X 10 @8
		2024-03-10 brk buy X 10 @8`
	if b := buildAt(t, text, "2024-03-09"); len(b.WashSales) != 0 || len(b.Lots) != 0 || len(salesOf(b)) != 1 {
		t.Errorf("the day before:\n%s", tell(b))
	}
	if b := buildAt(t, text, "2024-03-10"); len(b.WashSales) != 1 || len(b.Lots) != 1 {
		t.Errorf("the day itself:\n%s", tell(b))
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
		2024-03-02 brk buy Y 5 @8`)
	short, long, err := b.Realized(2024)
	if err != nil || short.Cmp(dec(t, "-30")) != 0 || long.Cmp(dec(t, "30")) != 0 {
		t.Errorf("short-term %s, long-term %s, %v; want -30 and 30", short, long, err)
	}
}

func TestFaults(t *testing.T) {
	text := `
		2023-01-10 nobody buy X 10 @10
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
	_, err := Build(household(), rows(t, text), day(t, doomsday))
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
		if !strings.Contains(f.Text, want[i]) || f.Source.Line != i+2 || !strings.HasPrefix(f.String(), "t.csv:") {
			t.Errorf("fault %d: %s, want %q", i, f, want[i])
		}
	}
}

func TestFaultsOfRulesAndLimits(t *testing.T) {
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
	many := strings.Repeat("2023-01-10 nobody buy X 10 @10\n", 80)
	_, err := Build(household(), rows(t, many), 1)
	if n := strings.Count(err.Error(), "\n") + 1; n != maxFaults {
		t.Errorf("%d faults are listed", n)
	}
	_, err = Build(household(), rows(t, "2023-01-10 brk buy X 9000000000000 @9000000000000"), day(t, doomsday))
	if err == nil || !strings.Contains(err.Error(), "cannot be computed") {
		t.Errorf("overflow: %v", err)
	}
}
