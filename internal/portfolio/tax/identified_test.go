package tax

import (
	"strings"
	"testing"
)

// TestReg110121cBrokersLotChoice: an adequate identification decides which lot is sold, whatever the
// method of the account is.
func TestReg110121cBrokersLotChoice(t *testing.T) {
	check(t, []history{
		// FIFO would sell the lot of 2023: 10 × ($15 − $10) = $50, long-term.
		{"the newer of two lots: 10 × ($15 − $20) = −$50", "Reg. 1.1012-1(c)(2)", `
			2023-01-05 brk buy X 10 @10
			2024-02-01 brk buy X 10 @20
			2024-06-03 brk sell X 10 @15 closed=10@2024-02-01`, `
			2023-01-05 brk holds X 10 basis=100
			2024-06-03 brk sold X 10 of=2024-02-01 short=-50`},
		{"parts of both: 6 × ($15 − $20) = −$30 and 4 × ($15 − $10) = $20", "Reg. 1.1012-1(c)(2)", `
			2023-01-05 brk buy X 10 @10
			2024-02-01 brk buy X 10 @20
			2024-06-03 brk sell X 10 @15 closed=6@2024-02-01 closed=4@2023-01-05`, `
			2023-01-05 brk holds X 6 basis=60
			2024-02-01 brk holds X 4 basis=80
			2024-06-03 brk sold X 6 of=2024-02-01 short=-30
			2024-06-03 brk sold X 4 of=2023-01-05 long=20`},
		{"of two lots of one day, that of the time: 10 × ($15 − $30) = −$150", "Reg. 1.1012-1(c)(8)", `
			2024-02-01 brk buy X 10 @30 time=15:00:00
			2024-02-01 brk buy X 10 @20 time=10:00:00
			2024-06-03 brk sell X 10 @15 closed=10@2024-02-01T15:00:00`, `
			2024-02-01 brk holds X 10 basis=200
			2024-06-03 brk sold X 10 of=2024-02-01 short=-150`},
		{"two fills of one second are one lot: 6 × ($15 − $20) + 4 × ($15 − $21) = −$54", "Reg. 1.1012-1(c)(8)", `
			2024-02-01 brk buy X 6 @20 time=10:00:00
			2024-02-01 brk buy X 4 @21 time=10:00:00
			2024-02-01 brk buy X 9 @30 time=15:00:00
			2024-06-03 brk sell X 10 @15 closed=10@2024-02-01T10:00:00`, `
			2024-02-01 brk holds X 9 basis=270
			2024-06-03 brk sold X 6 of=2024-02-01 short=-30
			2024-06-03 brk sold X 4 of=2024-02-01 short=-24`},
		{"one of two lots of a day, without times: there is no answer", "Reg. 1.1012-1(c)(2): the lot is not identified", `
			2024-02-01 brk buy X 10 @30
			2024-02-01 brk buy X 10 @20
			2024-06-03 brk sell X 10 @15 closed=10@2024-02-01`, `
			2024-02-01 brk holds X 10 basis=300
			2024-02-01 brk holds X 10 basis=200
			2024-06-03 brk gap X 10: the broker closed one of several lots of 2024-02-01, and their times are not known`},
		{"a lot that the records do not have: there is no answer for its 4 shares", "Reg. 1.1012-1(c)(2)", `
			2024-02-01 brk buy X 10 @30
			2024-06-03 brk sell X 10 @15 closed=6@2024-02-01 closed=4@2023-02-02`, `
			2024-02-01 brk holds X 4 basis=120
			2024-06-03 brk sold X 6 of=2024-02-01 short=-90
			2024-06-03 brk gap X 4: the broker closed a lot of 2023-02-02, which has no such shares`},
	})
	for row, want := range map[string]string{
		"sell X 10 @15 closed=9@2024-02-01":        "the closed lots have 9 shares and the row has 10",
		"sell X 10 @15 closed=10@2024-06-04":       "was opened after the sale",
		"sell X 10 @15 lot=a closed=10@2024-02-01": "without a lot_id",
		"buy X 10 @15 closed=10@2024-02-01":        "only a sell or an expire",
	} {
		if _, err := Build(household(), rows(t, "2024-06-03 brk "+row), day(t,
			farFuture)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", row, err)
		}
	}
}

// TestSection1091TimesWithinADay: a sale takes what was held when it was made, and is matched with
// the purchases of the whole day.
func TestSection1091TimesWithinADay(t *testing.T) {
	check(t, []history{
		{"the purchase is earlier, and has the highest basis: 100 × ($8 − $7) = $100", "Reg. 1.1012-1(c)", `
			2024-01-02 hifo buy X 100 @5
			2024-03-04 hifo buy X 100 @7 time=10:00:00
			2024-03-04 hifo sell X 100 @8 time=15:00:00`, `
			2024-01-02 hifo holds X 100 basis=500
			2024-03-04 hifo sold X 100 of=2024-03-04 short=100`},
		{"the sale is earlier, when only the lot of January was there: 100 × ($8 − $5) = $300", "Reg. 1.1012-1(c)", `
			2024-01-02 hifo buy X 100 @5
			2024-03-04 hifo buy X 100 @7 time=15:00:00
			2024-03-04 hifo sell X 100 @8 time=10:00:00`, `
			2024-03-04 hifo holds X 100 basis=700
			2024-03-04 hifo sold X 100 of=2024-01-02 short=300`},
		{"one time is not known: purchases come first, and the answer says so", "Reg. 1.1012-1(c)", `
			2024-01-02 hifo buy X 100 @5
			2024-03-04 hifo buy X 100 @7 time=15:00:00
			2024-03-04 hifo sell X 100 @8`, `
			2024-01-02 hifo holds X 100 basis=500
			2024-03-04 hifo sold X 100 of=2024-03-04 short=100
			2024-03-04 hifo order X 100`},
		{"sold at 10:00 for a loss of 100 × ($10 − $8) = $200, bought again at 15:00: 700 + 200 = 900", "section 1091(a) and (d)", `
			2024-01-02 brk buy X 100 @10
			2024-03-04 brk buy X 100 @7 time=15:00:00
			2024-03-04 brk sell X 100 @8 time=10:00:00`, `
			2024-03-04 brk holds X 100 basis=900 adjusted=200 from=2024-01-03
			2024-03-04 brk sold X 100 of=2024-01-02 short=-200 disallowed=200 for=100
			2024-03-04 brk wash X 100 loss=200 disallowed=200 for=100 by 2024-03-04 brk X 100`},
		{"FIFO sells the purchase of 10:00 before that of 15:00: 50 × ($8 − $6) = $100", "Reg. 1.1012-1(c)(1)", `
			2024-03-04 brk buy X 50 @7 time=15:00:00
			2024-03-04 brk buy X 50 @6 time=10:00:00
			2024-03-05 brk sell X 50 @8`, `
			2024-03-04 brk holds X 50 basis=350
			2024-03-05 brk sold X 50 of=2024-03-04 short=100`},
		{"sold at 10:00 without shares, bought at 15:00: a short sale, for which no lots are kept", "section 1091(e)", `
			2024-03-04 brk buy X 50 @7 time=15:00:00
			2024-03-04 brk sell X 50 @8 time=10:00:00`, `
			2024-03-04 brk holds X 50 basis=350
			2024-03-04 brk gap X 50: sold without a buy`},
	})
}
