package tax

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

// check runs a table of histories.
func check(t *testing.T, tests []history) {
	t.Helper()
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if diff := cmp.Diff(trimmed(tt.want), tell(build(t, tt.rows))); diff != "" {
				t.Error(diff)
			}
		})
	}
}

type history struct{ name, rows, want string }

// TestWashSaleAuthorities has the examples of the authorities, with their dates and amounts.
func TestWashSaleAuthorities(t *testing.T) {
	check(t, []history{
		{"Reg. 1.1091-1(h) example 1", `
			1954-12-01 brk buy M 100 @100
			1954-12-15 brk buy M 100 @90
			1955-01-03 brk sell M 100 @90`, `
			lot 1954-12-15 brk 100 M of 1954-11-13 cost 10000 adjusted 1000
			sale 1955-01-03 brk 100 M of 1954-12-01 short -1000 disallowed 1000 for 100
			wash 1955-01-03 brk 100 M loss 1000: 1000 for 100 by [1954-12-15 brk 100 M]`},
		{"Reg. 1.1091-1(h) example 2", `
			1954-09-21 brk buy M 100 @50
			1954-12-21 brk buy M 50 @55
			1954-12-27 brk buy M 25 @45
			1955-01-03 brk sell M 100 @40`, `
			lot 1954-12-21 brk 50 M of 1954-09-09 cost 3250 adjusted 500
			lot 1954-12-27 brk 25 M of 1954-09-15 cost 1375 adjusted 250
			sale 1955-01-03 brk 100 M of 1954-09-21 short -1000 disallowed 750 for 75
			wash 1955-01-03 brk 100 M loss 1000: 750 for 75 by [1954-12-21 brk 50 M] [1954-12-27 brk 25 M]`},
		{"Reg. 1.1091-1(h) example 3", `
			1954-09-15 brk buy M 100 @50
			1956-02-01 brk sell M 100 @40
			1956-02-15 brk buy M 50 @40
			1956-02-16 brk buy M 50 @40
			1956-02-17 brk buy M 50 @40
			1956-02-18 brk buy M 50 @40`, `
			lot 1956-02-15 brk 50 M of 1954-09-30 cost 2500 adjusted 500
			lot 1956-02-16 brk 50 M of 1954-10-01 cost 2500 adjusted 500
			lot 1956-02-17 brk 50 M of 1956-02-18 cost 2000
			lot 1956-02-18 brk 50 M of 1956-02-19 cost 2000
			sale 1956-02-01 brk 100 M of 1954-09-15 long -1000 disallowed 1000 for 100
			wash 1956-02-01 brk 100 M loss 1000: 1000 for 100 by [1956-02-15 brk 50 M] [1956-02-16 brk 50 M]`},
		{"Reg. 1.1091-2 example 1: basis 110", `
			1935-05-01 brk buy X 1 @100
			1955-01-15 brk sell X 1 @80
			1955-02-01 brk buy X 1 @90`, `
			lot 1955-02-01 brk 1 X of 1935-05-19 cost 110 adjusted 20
			sale 1955-01-15 brk 1 X of 1935-05-01 long -20 disallowed 20 for 1
			wash 1955-01-15 brk 1 X loss 20: 20 for 1 by [1955-02-01 brk 1 X]`},
		{"Reg. 1.1091-2 example 2: basis 90", `
			1935-05-01 brk buy Y 1 @100
			1955-01-15 brk sell Y 1 @80
			1955-02-01 brk buy Y 1 @70`, `
			lot 1955-02-01 brk 1 Y of 1935-05-19 cost 90 adjusted 20
			sale 1955-01-15 brk 1 Y of 1935-05-01 long -20 disallowed 20 for 1
			wash 1955-01-15 brk 1 Y loss 20: 20 for 1 by [1955-02-01 brk 1 Y]`},
		{"Publication 550: 250 go to the new stock, which has 1,050", `
			2024-01-10 brk buy X 100 @10
			2024-03-01 brk sell X 100 @7.50
			2024-03-20 brk buy X 100 @8`, `
			lot 2024-03-20 brk 100 X of 2024-01-30 cost 1050 adjusted 250
			sale 2024-03-01 brk 100 X of 2024-01-10 short -250 disallowed 250 for 100
			wash 2024-03-01 brk 100 X loss 250: 250 for 100 by [2024-03-20 brk 100 X]`},
		{"Rev. Rul. 2008-5: an IRA gets no basis", `
			2007-01-02 brk buy X 100 @10
			2007-12-20 brk sell X 100 @6
			2007-12-21 ira buy X 100 @6`, `
			lot 2007-12-21 ira 100 X of 2007-12-22 cost 600
			sale 2007-12-20 brk 100 X of 2007-01-02 short -400 disallowed 400 for 100
			wash 2007-12-20 brk 100 X loss 400: 400 for 100 lost 400 by [2007-12-21 ira 100 X]`},
		{"Rev. Rul. 56-602: a part of one lot, sold within 30 days, is not replaced by the rest", `
			2024-03-01 brk buy X 200 @10
			2024-03-15 brk sell X 100 @8`, `
			lot 2024-03-01 brk 100 X of 2024-03-02 cost 1000
			sale 2024-03-15 brk 100 X of 2024-03-01 short -200`},
		{"Rev. Rul. 70-231: three blocks sold, the loss on the first is disallowed, the gains stand", `
			1967-02-01 brk buy M 100 @158
			1967-05-01 brk buy M 100 @100
			1967-08-01 brk buy M 100 @95
			1969-12-22 brk sell M 300 @125
			1970-01-08 brk buy M 250 @120`, `
			lot 1970-01-08 brk 100 M of 1967-02-19 cost 15300 adjusted 3300
			lot 1970-01-08 brk 150 M of 1970-01-09 cost 18000
			sale 1969-12-22 brk 100 M of 1967-02-01 long -3300 disallowed 3300 for 100
			sale 1969-12-22 brk 100 M of 1967-05-01 long 2500
			sale 1969-12-22 brk 100 M of 1967-08-01 long 3000
			wash 1969-12-22 brk 100 M loss 3300: 3300 for 100 by [1970-01-08 brk 100 M]`},
	})
}

// TestWashSaleWindow: section 1091(a), 30 days before and 30 days after the day of the sale.
func TestWashSaleWindow(t *testing.T) {
	for _, tt := range []struct {
		bought string
		wash   bool
	}{
		{"2024-01-30", false}, // 31 days before
		{"2024-01-31", true},  // 30 days before: 2024 has a 29 February
		{"2024-03-01", true},  // the day itself
		{"2024-03-31", true},  // 30 days after
		{"2024-04-01", false}, // 31 days after
	} {
		b := build(t, `
			2023-01-10 brk buy X 100 @10
			2024-03-01 brk sell X 100 @7
			`+tt.bought+` brk buy X 100 @8`)
		if got := len(b.WashSales) > 0; got != tt.wash {
			t.Errorf("bought %s: wash sale %t, want %t", tt.bought, got, tt.wash)
		}
	}
}

// TestWashSaleMatching: Reg. 1.1091-1(b) to (e), share for share.
func TestWashSaleMatching(t *testing.T) {
	check(t, []history{
		{"fewer replacements than shares sold", `
			2023-01-10 brk buy X 100 @10
			2024-03-01 brk sell X 100 @7
			2024-03-05 brk buy X 30 @8`, `
			lot 2024-03-05 brk 30 X of 2023-01-15 cost 330 adjusted 90
			sale 2024-03-01 brk 100 X of 2023-01-10 long -300 disallowed 90 for 30
			wash 2024-03-01 brk 100 X loss 300: 90 for 30 by [2024-03-05 brk 30 X]`},
		{"more replacements than shares sold: the lot is in two parts", `
			2023-01-10 brk buy X 30 @10
			2024-03-01 brk sell X 30 @7
			2024-03-05 brk buy X 100 @8`, `
			lot 2024-03-05 brk 30 X of 2023-01-15 cost 330 adjusted 90
			lot 2024-03-05 brk 70 X of 2024-03-06 cost 560
			sale 2024-03-01 brk 30 X of 2023-01-10 long -90 disallowed 90 for 30
			wash 2024-03-01 brk 30 X loss 90: 90 for 30 by [2024-03-05 brk 30 X]`},
		{"the same with a replacement that is held already", `
			2023-01-10 brk buy X 30 @10
			2024-02-20 brk buy X 100 @8
			2024-03-01 brk sell X 30 @7`, `
			lot 2024-02-20 brk 30 X of 2023-01-01 cost 330 adjusted 90
			lot 2024-02-20 brk 70 X of 2024-02-21 cost 560
			sale 2024-03-01 brk 30 X of 2023-01-10 long -90 disallowed 90 for 30
			wash 2024-03-01 brk 30 X loss 90: 90 for 30 by [2024-02-20 brk 30 X]`},
		{"several losses, one replacement: the earliest loss first, each share once", `
			2023-01-10 brk buy X 100 @10
			2024-03-01 brk sell X 40 @7
			2024-03-04 brk sell X 60 @5
			2024-03-10 brk buy X 50 @6`, `
			lot 2024-03-10 brk 40 X of 2023-01-20 cost 360 adjusted 120
			lot 2024-03-10 brk 10 X of 2023-01-17 cost 110 adjusted 50
			sale 2024-03-01 brk 40 X of 2023-01-10 long -120 disallowed 120 for 40
			sale 2024-03-04 brk 60 X of 2023-01-10 long -300 disallowed 50 for 10
			wash 2024-03-01 brk 40 X loss 120: 120 for 40 by [2024-03-10 brk 40 X]
			wash 2024-03-04 brk 60 X loss 300: 50 for 10 by [2024-03-10 brk 10 X]`},
		{"one loss, several replacements on both sides", `
			2023-01-10 brk buy X 100 @10
			2024-02-20 two buy X 30 @8
			2024-03-01 brk sell X 100 @7
			2024-03-01 two buy X 30 @7
			2024-03-20 two buy X 90 @7`, `
			lot 2024-02-20 two 30 X of 2023-01-01 cost 330 adjusted 90
			lot 2024-03-01 two 30 X of 2023-01-11 cost 300 adjusted 90
			lot 2024-03-20 two 40 X of 2023-01-30 cost 400 adjusted 120
			lot 2024-03-20 two 50 X of 2024-03-21 cost 350
			sale 2024-03-01 brk 100 X of 2023-01-10 long -300 disallowed 300 for 100
			wash 2024-03-01 brk 100 X loss 300: 300 for 100 by [2024-02-20 two 30 X] [2024-03-01 two 30 X] [2024-03-20 two 40 X]`},
		{"losses of one day go in the order in which the lots were acquired", `
			2023-01-10 brk buy X 10 @10
			2023-02-10 two buy X 10 @20
			2024-03-01 two sell X 10 @5
			2024-03-01 brk sell X 10 @5
			2024-03-10 her buy X 15 @5`, `
			lot 2024-03-10 her 10 X of 2023-01-20 cost 100 adjusted 50
			lot 2024-03-10 her 5 X of 2023-02-20 cost 100 adjusted 75
			sale 2024-03-01 two 10 X of 2023-02-10 long -150 disallowed 75 for 5
			sale 2024-03-01 brk 10 X of 2023-01-10 long -50 disallowed 50 for 10
			wash 2024-03-01 two 10 X loss 150: 75 for 5 by [2024-03-10 her 5 X]
			wash 2024-03-01 brk 10 X loss 50: 50 for 10 by [2024-03-10 her 10 X]`},
	})
}

// TestNoWashSale: what looks like one and is none.
func TestNoWashSale(t *testing.T) {
	check(t, []history{
		{"a gain is no loss, and takes no replacement", `
			2023-01-10 brk buy X 10 @10
			2024-03-01 brk sell X 10 @12
			2024-03-10 brk buy X 10 @11`, `
			lot 2024-03-10 brk 10 X of 2024-03-11 cost 110
			sale 2024-03-01 brk 10 X of 2023-01-10 long 20`},
		{"a position that is closed on one day has no replacement, in however many fills", `
			2024-02-20 brk buy X 10 @10
			2024-02-25 brk buy X 10 @9
			2024-03-01 brk sell X 12 @8
			2024-03-01 brk sell X 8 @8`, `
			sale 2024-03-01 brk 10 X of 2024-02-20 short -20
			sale 2024-03-01 brk 2 X of 2024-02-25 short -2
			sale 2024-03-01 brk 8 X of 2024-02-25 short -8`},
		{"shares that were sold before the loss replace nothing", `
			2024-02-01 brk buy X 10 @10
			2024-02-20 two buy X 10 @10
			2024-02-22 two sell X 10 @11
			2024-03-01 brk sell X 10 @8`, `
			sale 2024-02-22 two 10 X of 2024-02-20 short 10
			sale 2024-03-01 brk 10 X of 2024-02-01 short -20`},
	})
}

// TestWashSaleAcrossAccounts: Publication 550 names the spouse; Rev. Rul. 2008-5 the IRA, and its reasoning holds for
// the other retirement accounts.
func TestWashSaleAcrossAccounts(t *testing.T) {
	for _, tt := range []struct {
		account, ticker string
		wash, lost      bool
	}{
		{"brk", "VOO", true, false},
		{"two", "VOO", true, false},
		{"her", "VOO", true, false},
		{"ira", "VOO", true, true},
		{"roth", "VOO", true, true},
		{"hsa", "VOO", true, true},
		{"401k", "VOO", true, true},
		{"herira", "VOO", true, true},
		{"brk", "IVV", true, false}, // declared identical
		{"ira", "IVV", true, true},
		{"brk", "VTI", false, false},
		{"brk", "VOO240621C00450000", true, false},  // a call on it
		{"brk", "IVV240621C00450000", true, false},  // a call on what is identical
		{"brk", "VOO240621P00450000", false, false}, // a put is no right to acquire
	} {
		quantity := "10"
		if len(tt.ticker) > 5 {
			quantity = "0.1" // contracts of 100
		}
		for _, bought := range []string{"2024-02-20", "2024-03-20"} {
			b := build(t, `
				2023-01-10 brk buy VOO 10 @400
				2024-03-01 brk sell VOO 10 @390
				`+bought+" "+tt.account+" buy "+tt.ticker+" "+quantity+" @395")
			if got := len(b.WashSales) == 1; got != tt.wash {
				t.Errorf("%s %s on %s: wash sale %t, want %t", tt.account, tt.ticker, bought, got, tt.wash)
				continue
			}
			if !tt.wash {
				continue
			}
			w := b.WashSales[0]
			lost, adjusted := dec(t, "0"), dec(t, "100")
			if tt.lost {
				lost, adjusted = adjusted, lost
			}
			if w.DisallowedLoss.Cmp(dec(t, "100")) != 0 || w.PermanentLoss.Cmp(lost) != 0 || b.Lots[0].BasisAdjustment.Cmp(adjusted) != 0 {
				t.Errorf("%s %s on %s: disallowed %s, lost %s, adjusted %s", tt.account, tt.ticker, bought, w.DisallowedLoss, w.PermanentLoss, b.Lots[0].BasisAdjustment)
			}
		}
	}
}

// TestWashSaleKinds: what counts as a purchase, and what as a loss.
func TestWashSaleKinds(t *testing.T) {
	check(t, []history{
		{"a reinvested dividend is a purchase", `
			2023-01-10 brk buy X 100 @10
			2024-03-01 brk sell X 50 @8
			2024-03-15 brk reinvest X 0.5 @8`, `
			lot 2023-01-10 brk 50 X of 2023-01-11 cost 500
			lot 2024-03-15 brk 0.5 X of 2023-01-25 cost 5 adjusted 1
			sale 2024-03-01 brk 50 X of 2023-01-10 long -100 disallowed 1 for 0.5
			wash 2024-03-01 brk 50 X loss 100: 1 for 0.5 by [2024-03-15 brk 0.5 X]`},
		{"a gift, an inheritance and a transfer are none", `
			2023-01-10 brk buy X 100 @10
			2023-01-10 two buy X 5 @10
			2024-03-01 brk sell X 100 @8
			2024-03-05 brk gift_in X 10 donor=70 since=2020-01-01 value=80
			2024-03-06 brk inherit X 10 value=80
			2024-03-07 two transfer X 5 to=brk`, `
			lot 2023-01-10 brk 5 X of 2023-01-11 cost 50
			lot 2024-03-05 brk 10 X of 2020-01-02 cost 70
			lot 2024-03-06 brk 10 X of 2024-03-07 cost 80 long
			sale 2024-03-01 brk 100 X of 2023-01-10 long -200`},
		{"a loss in a retirement account is none", `
			2023-01-10 ira buy X 100 @10
			2024-03-01 ira sell X 100 @8
			2024-03-15 brk buy X 100 @8`, `
			lot 2024-03-15 brk 100 X of 2024-03-16 cost 800
			sale 2024-03-01 ira 100 X of 2023-01-10 long -200`},
		{"a loss on an option is replaced by that option only", `
			2024-01-10 brk buy X240621C00010000 1 @300
			2024-03-01 brk sell X240621C00010000 1 @200
			2024-03-05 brk buy X 100 @9
			2024-03-06 brk buy X240621C00012000 1 @100
			2024-03-07 brk buy X240621C00010000 2 @210`, `
			lot 2024-03-05 brk 100 X of 2024-03-06 cost 900
			lot 2024-03-07 brk 1 X240621C00010000 of 2024-01-17 cost 310 adjusted 100
			lot 2024-03-07 brk 1 X240621C00010000 of 2024-03-08 cost 210
			lot 2024-03-06 brk 1 X240621C00012000 of 2024-03-07 cost 100
			sale 2024-03-01 brk 1 X240621C00010000 of 2024-01-10 short -100 disallowed 100 for 1
			wash 2024-03-01 brk 1 X240621C00010000 loss 100: 100 for 1 by [2024-03-07 brk 1 X240621C00010000]`},
		{"buying back a written call is no purchase of one", `
			2024-01-10 brk buy X 100 @10
			2024-02-10 brk sell X240621C00010000 1 @100
			2024-03-01 brk sell X 100 @8
			2024-03-05 brk buy X240621C00010000 1 @50`, `
			sale 2024-03-01 brk 100 X of 2024-01-10 short -200
			gap 2024-02-10 brk 1 X240621C00010000: sold without a buy`},
		{"a split between the loss and the purchase: 10 old shares are 20 new ones", `
			2023-01-10 brk buy X 10 @10
			2024-03-01 brk sell X 10 @8
			2024-03-05 - split X ratio=2:1
			2024-03-10 brk buy X 15 @4`, `
			lot 2024-03-10 brk 15 X of 2023-01-20 cost 75 adjusted 15
			sale 2024-03-01 brk 10 X of 2023-01-10 long -20 disallowed 15 for 7.5
			wash 2024-03-01 brk 10 X loss 20: 15 for 7.5 by [2024-03-10 brk 7.5 X]`},
	})
}

// TestWashSaleSplitsAndMoves: what happens between the loss and the purchase.
func TestWashSaleSplitsAndMoves(t *testing.T) {
	check(t, []history{
		{"a written call that expired is not bought back by a later purchase", `
			2024-01-10 brk buy X 100 @10
			2024-01-11 brk sell X240216C00010000 1 @100
			2024-02-15 brk expire X240216C00010000 1
			2024-02-16 brk buy X240216C00010000 1 @1
			2024-03-01 brk sell X 100 @8`, `
			lot 2024-02-16 brk 1 X240216C00010000 of 2023-12-28 cost 201 adjusted 200
			sale 2024-03-01 brk 100 X of 2024-01-10 short -200 disallowed 200 for 100
			wash 2024-03-01 brk 100 X loss 200: 200 for 100 by [2024-02-16 brk 100 X240216C00010000]
			gap 2024-01-11 brk 1 X240216C00010000: sold without a buy
			gap 2024-02-15 brk 1 X240216C00010000: closed an option that was not bought`},
		{"each account has its own row for one split", `
			2023-01-10 brk buy X 10 @10
			2023-01-10 two buy X 10 @8
			2024-03-01 brk sell X 10 @8
			2024-03-05 brk split X ratio=2:1
			2024-03-05 two split X ratio=2:1
			2024-03-10 brk buy X 20 @4`, `
			lot 2024-03-10 brk 20 X of 2023-01-20 cost 100 adjusted 20
			lot 2023-01-10 two 20 X of 2023-01-11 cost 80
			sale 2024-03-01 brk 10 X of 2023-01-10 long -20 disallowed 20 for 10
			wash 2024-03-01 brk 10 X loss 20: 20 for 10 by [2024-03-10 brk 10 X]`},
		{"a split between the purchase and the loss", `
			2023-01-10 brk buy X 10 @10
			2024-02-20 two buy X 10 @9
			2024-02-25 - split X ratio=2:1
			2024-03-01 brk sell X 20 @4`, `
			lot 2024-02-20 two 20 X of 2023-01-01 cost 110 adjusted 20
			sale 2024-03-01 brk 20 X of 2023-01-10 long -20 disallowed 20 for 20
			wash 2024-03-01 brk 20 X loss 20: 20 for 20 by [2024-02-20 two 20 X]`},
		{"a replacement that was moved to another account is adjusted there", `
			2023-01-10 brk buy X 10 @10
			2024-02-20 brk buy X 10 @9 lot=new
			2024-02-25 brk transfer X 4 to=two lot=new
			2024-03-01 brk sell X 10 @8`, `
			lot 2024-02-20 brk 6 X of 2023-01-01 cost 66 adjusted 12
			lot 2024-02-20 two 4 X of 2023-01-01 cost 44 adjusted 8
			sale 2024-03-01 brk 10 X of 2023-01-10 long -20 disallowed 20 for 10
			wash 2024-03-01 brk 10 X loss 20: 20 for 10 by [2024-02-20 brk 10 X]`},
	})
}

// TestWashSaleChains: section 1091(d) and 1223(3), again and again.
func TestWashSaleChains(t *testing.T) {
	check(t, []history{
		{"the replacement is sold at a loss, and replaced", `
			2023-01-10 brk buy X 10 @10
			2024-03-01 brk sell X 10 @8
			2024-03-10 brk buy X 10 @9
			2024-04-20 brk sell X 10 @7
			2024-05-01 brk buy X 10 @6`, `
			lot 2024-05-01 brk 10 X of 2023-01-31 cost 100 adjusted 40
			sale 2024-03-01 brk 10 X of 2023-01-10 long -20 disallowed 20 for 10
			sale 2024-04-20 brk 10 X of 2024-03-10 long -40 disallowed 40 for 10
			wash 2024-03-01 brk 10 X loss 20: 20 for 10 by [2024-03-10 brk 10 X]
			wash 2024-04-20 brk 10 X loss 40: 40 for 10 by [2024-05-01 brk 10 X]`},
		{"the replacement is sold, and not replaced: all of the loss counts then", `
			2024-01-10 brk buy X 10 @10
			2024-01-20 brk sell X 10 @8
			2024-01-25 brk buy X 10 @9
			2024-02-05 brk sell X 10 @7`, `
			sale 2024-01-20 brk 10 X of 2024-01-10 short -20 disallowed 20 for 10
			sale 2024-02-05 brk 10 X of 2024-01-25 short -40
			wash 2024-01-20 brk 10 X loss 20: 20 for 10 by [2024-01-25 brk 10 X]`},
		{"a gain on the replacement is smaller by the loss", `
			2024-01-10 brk buy X 10 @10
			2024-01-20 brk sell X 10 @8
			2024-01-25 brk buy X 10 @9
			2024-06-05 brk sell X 10 @12`, `
			sale 2024-01-20 brk 10 X of 2024-01-10 short -20 disallowed 20 for 10
			sale 2024-06-05 brk 10 X of 2024-01-25 short 10
			wash 2024-01-20 brk 10 X loss 20: 20 for 10 by [2024-01-25 brk 10 X]`},
		{"a chain that ends in an IRA is lost as a whole", `
			2024-01-10 brk buy X 10 @10
			2024-01-20 brk sell X 10 @8
			2024-01-25 brk buy X 10 @9
			2024-03-05 brk sell X 10 @7
			2024-03-06 ira buy X 10 @7`, `
			lot 2024-03-06 ira 10 X of 2024-03-07 cost 70
			sale 2024-01-20 brk 10 X of 2024-01-10 short -20 disallowed 20 for 10
			sale 2024-03-05 brk 10 X of 2024-01-25 short -40 disallowed 40 for 10
			wash 2024-01-20 brk 10 X loss 20: 20 for 10 by [2024-01-25 brk 10 X]
			wash 2024-03-05 brk 10 X loss 40: 40 for 10 lost 40 by [2024-03-06 ira 10 X]`},
		{"inherited shares, replaced by what is held already", `
			2024-01-10 brk inherit X 10 @10
			2024-01-15 two buy X 10 @9
			2024-01-20 brk sell X 10 @8
			2024-02-25 two sell X 10 @12`, `
			sale 2024-01-20 brk 10 X of 2024-01-10 long -20 disallowed 20 for 10
			sale 2024-02-25 two 10 X of 2024-01-15 long 10
			wash 2024-01-20 brk 10 X loss 20: 20 for 10 by [2024-01-15 two 10 X]`},
		{"inherited shares are long-term, and so is what replaces them", `
			2024-01-10 brk inherit X 10 @10
			2024-01-20 brk sell X 10 @8
			2024-01-25 brk buy X 10 @9
			2024-02-25 brk sell X 10 @12`, `
			sale 2024-01-20 brk 10 X of 2024-01-10 long -20 disallowed 20 for 10
			sale 2024-02-25 brk 10 X of 2024-01-25 long 10
			wash 2024-01-20 brk 10 X loss 20: 20 for 10 by [2024-01-25 brk 10 X]`},
	})
}
