package tax

import "testing"

// TestSection1091Window: from 30 days before to 30 days after the day of the sale, in any account.
func TestSection1091Window(t *testing.T) {
	for _, tt := range []struct {
		sold, bought string
		wash         bool
	}{
		{"2024-03-01", "2024-01-30", false}, // 31 days before
		{"2024-03-01", "2024-01-31", true},  // 30 days before: 2024 has a 29 February
		{"2024-03-01", "2024-02-29", true},
		{"2024-03-01", "2024-03-01", true}, // the day itself
		{"2024-03-01", "2024-03-02", true},
		{"2024-03-01", "2024-03-31", true},  // 30 days after
		{"2024-03-01", "2024-04-01", false}, // 31 days after
		{"2023-03-01", "2023-01-29", false},
		{"2023-03-01", "2023-01-30", true},
		{"2023-12-31", "2024-01-30", true}, // the year does not matter
		{"2023-12-31", "2024-01-31", false},
		{"2024-01-01", "2023-12-02", true},
		{"2024-01-01", "2023-12-01", false},
	} {
		for _, buyer := range []string{"brk", "two", "her", "ira", "herira"} {
			for _, action := range []string{"buy", "reinvest"} {
				b := build(t, `
					2022-01-10 brk buy X 100 @10
					`+tt.sold+` brk sell X 100 @7
					`+tt.bought+` `+buyer+` `+action+` X 100 @8`)
				if got := len(b.WashSales) > 0; got != tt.wash {
					t.Errorf("sold %s, %s %s %s: wash sale %t, want %t", tt.sold, tt.bought, buyer,
						action, got, tt.wash)
				}
			}
		}
	}
}

// TestReg10911Matching has paragraphs (b) to (e): share for share.
func TestReg10911Matching(t *testing.T) {
	check(t, []history{
		{"fewer replacements than shares sold", "Reg. 1.1091-1(c)", `
			2023-01-10 brk buy X 100 @10
			2024-03-01 brk sell X 100 @7
			2024-03-05 brk buy X 30 @8`, `
			2024-03-05 brk holds X 30 basis=330 adjusted=90 from=2023-01-15
			2024-03-01 brk sold X 100 of=2023-01-10 long=-300 disallowed=90 for=30
			2024-03-01 brk wash X 100 loss=300 disallowed=90 for=30 by 2024-03-05 brk X 30`},
		{"more replacements than shares sold: the lot gets two parts", "Reg. 1.1091-1(d)", `
			2023-01-10 brk buy X 30 @10
			2024-03-01 brk sell X 30 @7
			2024-03-05 brk buy X 100 @8`, `
			2024-03-05 brk holds X 30 basis=330 adjusted=90 from=2023-01-15
			2024-03-05 brk holds X 70 basis=560
			2024-03-01 brk sold X 30 of=2023-01-10 long=-90 disallowed=90 for=30
			2024-03-01 brk wash X 30 loss=90 disallowed=90 for=30 by 2024-03-05 brk X 30`},
		{"the same with a replacement that is held already", "Reg. 1.1091-1(d)", `
			2023-01-10 brk buy X 30 @10
			2024-02-20 brk buy X 100 @8
			2024-03-01 brk sell X 30 @7`, `
			2024-02-20 brk holds X 30 basis=330 adjusted=90 from=2023-01-01
			2024-02-20 brk holds X 70 basis=560
			2024-03-01 brk sold X 30 of=2023-01-10 long=-90 disallowed=90 for=30
			2024-03-01 brk wash X 30 loss=90 disallowed=90 for=30 by 2024-02-20 brk X 30`},
		{"several losses, one replacement: the earliest loss first, each share once", "Reg. 1.1091-1(b) and (e)", `
			2023-01-10 brk buy X 100 @10
			2024-03-01 brk sell X 40 @7
			2024-03-04 brk sell X 60 @5
			2024-03-10 brk buy X 50 @6`, `
			2024-03-10 brk holds X 40 basis=360 adjusted=120 from=2023-01-20
			2024-03-10 brk holds X 10 basis=110 adjusted=50 from=2023-01-17
			2024-03-01 brk sold X 40 of=2023-01-10 long=-120 disallowed=120 for=40
			2024-03-04 brk sold X 60 of=2023-01-10 long=-300 disallowed=50 for=10
			2024-03-01 brk wash X 40 loss=120 disallowed=120 for=40 by 2024-03-10 brk X 40
			2024-03-04 brk wash X 60 loss=300 disallowed=50 for=10 by 2024-03-10 brk X 10`},
		{"one loss, several replacements on both sides", "Reg. 1.1091-1(d)", `
			2023-01-10 brk buy X 100 @10
			2024-02-20 two buy X 30 @8
			2024-03-01 brk sell X 100 @7
			2024-03-01 two buy X 30 @7
			2024-03-20 two buy X 90 @7`, `
			2024-02-20 two holds X 30 basis=330 adjusted=90 from=2023-01-01
			2024-03-01 two holds X 30 basis=300 adjusted=90 from=2023-01-11
			2024-03-20 two holds X 40 basis=400 adjusted=120 from=2023-01-30
			2024-03-20 two holds X 50 basis=350
			2024-03-01 brk sold X 100 of=2023-01-10 long=-300 disallowed=300 for=100
			2024-03-01 brk wash X 100 loss=300 disallowed=300 for=100 by 2024-02-20 two X 30, 2024-03-01 two X 30, 2024-03-20 two X 40`},
		{"losses of one day are in the order in which the lots were acquired", "Reg. 1.1091-1(b), last sentence", `
			2023-01-10 brk buy X 10 @10
			2023-02-10 two buy X 10 @20
			2024-03-01 two sell X 10 @5
			2024-03-01 brk sell X 10 @5
			2024-03-10 her buy X 15 @5`, `
			2024-03-10 her holds X 10 basis=100 adjusted=50 from=2023-01-20
			2024-03-10 her holds X 5 basis=100 adjusted=75 from=2023-02-20
			2024-03-01 two sold X 10 of=2023-02-10 long=-150 disallowed=75 for=5
			2024-03-01 brk sold X 10 of=2023-01-10 long=-50 disallowed=50 for=10
			2024-03-01 two wash X 10 loss=150 disallowed=75 for=5 by 2024-03-10 her X 5
			2024-03-01 brk wash X 10 loss=50 disallowed=50 for=10 by 2024-03-10 her X 10`},
		{"lots of one date are in the order of their rows, whichever is sold first", "Reg. 1.1091-1(b), last sentence", `
			2023-01-10 brk buy X 10 @10
			2023-01-10 two buy X 10 @20
			2024-03-01 two sell X 10 @5
			2024-03-01 brk sell X 10 @5
			2024-03-10 her buy X 15 @5`, `
			2024-03-10 her holds X 10 basis=100 adjusted=50 from=2023-01-20
			2024-03-10 her holds X 5 basis=100 adjusted=75 from=2023-01-20
			2024-03-01 two sold X 10 of=2023-01-10 long=-150 disallowed=75 for=5
			2024-03-01 brk sold X 10 of=2023-01-10 long=-50 disallowed=50 for=10
			2024-03-01 two wash X 10 loss=150 disallowed=75 for=5 by 2024-03-10 her X 5
			2024-03-01 brk wash X 10 loss=50 disallowed=50 for=10 by 2024-03-10 her X 10`},
	})
}

// TestReg10911Order has several losses and several purchases, in the order of paragraphs (b) to
// (e).
func TestReg10911Order(t *testing.T) {
	check(t, []history{
		{"two losses and two purchases: the first loss takes the first purchase and a part of the second", "Reg. 1.1091-1(b) to (e)", `
			2023-01-10 brk buy X 100 @10
			2024-03-01 brk sell X 60 @7
			2024-03-04 brk sell X 40 @5
			2024-03-10 brk buy X 50 @6
			2024-03-12 brk buy X 30 @6`, `
			2024-03-10 brk holds X 50 basis=450 adjusted=150 from=2023-01-20
			2024-03-12 brk holds X 10 basis=90 adjusted=30 from=2023-01-22
			2024-03-12 brk holds X 20 basis=220 adjusted=100 from=2023-01-19
			2024-03-01 brk sold X 60 of=2023-01-10 long=-180 disallowed=180 for=60
			2024-03-04 brk sold X 40 of=2023-01-10 long=-200 disallowed=100 for=20
			2024-03-01 brk wash X 60 loss=180 disallowed=180 for=60 by 2024-03-10 brk X 50, 2024-03-12 brk X 10
			2024-03-04 brk wash X 40 loss=200 disallowed=100 for=20 by 2024-03-12 brk X 20`},
		{"a purchase that is too late for the first loss is matched with the second", "Reg. 1.1091-1(a) and (b)", `
			2023-01-10 brk buy X 20 @10
			2024-03-01 brk sell X 10 @7
			2024-03-20 brk sell X 10 @5
			2024-04-01 brk buy X 20 @6`, `
			2024-04-01 brk holds X 10 basis=110 adjusted=50 from=2023-01-23
			2024-04-01 brk holds X 10 basis=60
			2024-03-01 brk sold X 10 of=2023-01-10 long=-30
			2024-03-20 brk sold X 10 of=2023-01-10 long=-50 disallowed=50 for=10
			2024-03-20 brk wash X 10 loss=50 disallowed=50 for=10 by 2024-04-01 brk X 10`},
		{"a purchase between two losses is matched with the first, and its remaining shares with the second", "Reg. 1.1091-1(e)", `
			2023-01-10 brk buy X 20 @10
			2024-03-01 brk sell X 10 @7
			2024-03-10 two buy X 15 @6
			2024-03-20 brk sell X 10 @5`, `
			2024-03-10 two holds X 10 basis=90 adjusted=30 from=2023-01-20
			2024-03-10 two holds X 5 basis=55 adjusted=25 from=2023-01-01
			2024-03-01 brk sold X 10 of=2023-01-10 long=-30 disallowed=30 for=10
			2024-03-20 brk sold X 10 of=2023-01-10 long=-50 disallowed=25 for=5
			2024-03-01 brk wash X 10 loss=30 disallowed=30 for=10 by 2024-03-10 two X 10
			2024-03-20 brk wash X 10 loss=50 disallowed=25 for=5 by 2024-03-10 two X 5`},
		{"one row that sells two lots at a loss is one wash sale, the older lot first", "Reg. 1.1091-1(b)", `
			2023-01-10 brk buy X 10 @10
			2023-06-10 brk buy X 10 @12
			2024-03-01 brk sell X 20 @7
			2024-03-10 brk buy X 15 @6`, `
			2024-03-10 brk holds X 10 basis=90 adjusted=30 from=2023-01-20
			2024-03-10 brk holds X 5 basis=55 adjusted=25 from=2023-06-20
			2024-03-01 brk sold X 10 of=2023-01-10 long=-30 disallowed=30 for=10
			2024-03-01 brk sold X 10 of=2023-06-10 short=-50 disallowed=25 for=5
			2024-03-01 brk wash X 20 loss=80 disallowed=55 for=15 by 2024-03-10 brk X 15`},
		{"fees make the loss larger, and are part of the basis that it is added to", "section 1012 and 1091(d)", `
			2023-01-10 brk buy X 10 @10 fees=2
			2024-03-01 brk sell X 10 @8 fees=3
			2024-03-10 brk buy X 10 @9 fees=1`, `
			2024-03-10 brk holds X 10 basis=116 adjusted=25 from=2023-01-20
			2024-03-01 brk sold X 10 of=2023-01-10 long=-25 disallowed=25 for=10
			2024-03-01 brk wash X 10 loss=25 disallowed=25 for=10 by 2024-03-10 brk X 10`},
	})
}

// TestWashSaleOfOneDay: rows have dates but no times, and the day of the sale is one of the 61
// days.
func TestWashSaleOfOneDay(t *testing.T) {
	check(t, []history{
		{"sold and bought again on one day", "section 1091(a)", `
			2023-01-10 brk buy X 10 @10
			2024-03-01 brk sell X 10 @8
			2024-03-01 brk buy X 10 @8`, `
			2024-03-01 brk holds X 10 basis=100 adjusted=20 from=2023-01-11
			2024-03-01 brk sold X 10 of=2023-01-10 long=-20 disallowed=20 for=10
			2024-03-01 brk wash X 10 loss=20 disallowed=20 for=10 by 2024-03-01 brk X 10`},
		{"LIFO sells what was bought that day, and the old lot was not purchased in the 61 days", "section 1091(a)", `
			2023-01-10 lifo buy X 10 @10
			2024-03-01 lifo buy X 10 @9
			2024-03-01 lifo sell X 10 @8`, `
			2023-01-10 lifo holds X 10 basis=100
			2024-03-01 lifo sold X 10 of=2024-03-01 short=-10
			2024-03-01 lifo order X 10`},
		{"bought and sold twice on one day: the second purchase is not held at its end", "Rev. Rul. 56-602: a sale that reduces the holding", `
			2024-03-01 brk buy X 10 @10
			2024-03-01 brk sell X 10 @9
			2024-03-01 brk buy X 10 @9
			2024-03-01 brk sell X 10 @8`, `
			2024-03-01 brk sold X 10 of=2024-03-01 short=-10
			2024-03-01 brk sold X 10 of=2024-03-01 short=-10`},
		{"bought and sold on one day and again on the next: the first loss is added to the second", "section 1091(d)", `
			2024-03-01 brk buy X 10 @10
			2024-03-01 brk sell X 10 @9
			2024-03-02 brk buy X 10 @9
			2024-03-02 brk sell X 10 @8`, `
			2024-03-01 brk sold X 10 of=2024-03-01 short=-10 disallowed=10 for=10
			2024-03-02 brk sold X 10 of=2024-03-02 short=-20
			2024-03-01 brk wash X 10 loss=10 disallowed=10 for=10 by 2024-03-02 brk X 10`},
	})
}

// TestWashSaleAcrossTheYear: a purchase in January disallows a loss of December.
func TestWashSaleAcrossTheYear(t *testing.T) {
	rows := `
		2022-01-10 brk buy X 10 @10
		2023-12-29 brk sell X 10 @8
		2024-01-28 brk buy X 4 @8
		2024-02-20 brk sell X 4 @9`
	for _, tt := range []struct{ asOf, of2023, of2024 string }{
		{"2023-12-31", "-20", "0"},
		{"2024-01-27", "-20", "0"},
		{"2024-01-28", "-12", "0"}, // 4 of 10 shares are replaced
		// 36 less 32, and 8 that were added to the basis: a long-term loss
		{"2024-02-20", "-12", "-4"},
	} {
		b := buildAt(t, rows, tt.asOf)
		years, err := b.Realized(b.AsOf, map[string]bool{"brk": true})
		for year, want := range map[int]string{2023: tt.of2023, 2024: tt.of2024} {
			if n := years[year]; err != nil || !n.Short.IsZero() || n.Long.Cmp(dec(t, want)) != 0 {
				t.Errorf("on %s, %d has %+v, %v; want long-term %s", tt.asOf, year, n, err, want)
			}
		}
	}
}

// TestNoWashSale has cases that look like wash sales and are not.
func TestNoWashSale(t *testing.T) {
	check(t, []history{
		{"a gain is not matched with a replacement", "section 1091(a)", `
			2023-01-10 brk buy X 10 @10
			2024-03-01 brk sell X 10 @12
			2024-03-10 brk buy X 10 @11`, `
			2024-03-10 brk holds X 10 basis=110
			2024-03-01 brk sold X 10 of=2023-01-10 long=20`},
		{"a position that is closed in several fills on one day does not have a replacement", "Rev. Rul. 56-602: a sale that reduces the holding", `
			2024-02-20 brk buy X 10 @10
			2024-02-25 brk buy X 10 @9
			2024-03-01 brk sell X 12 @8
			2024-03-01 brk sell X 8 @8`, `
			2024-03-01 brk sold X 10 of=2024-02-20 short=-20
			2024-03-01 brk sold X 2 of=2024-02-25 short=-2
			2024-03-01 brk sold X 8 of=2024-02-25 short=-8`},
		{"shares that were sold before the loss do not replace any", "section 1091(d): there is no basis to add the loss to", `
			2024-02-01 brk buy X 10 @10
			2024-02-20 two buy X 10 @10
			2024-02-22 two sell X 10 @11
			2024-03-01 brk sell X 10 @8`, `
			2024-02-22 two sold X 10 of=2024-02-20 short=10
			2024-03-01 brk sold X 10 of=2024-02-01 short=-20`},
	})
}

// TestWashSaleAcrossAccounts: Publication 550 has the rule for a spouse, and Rev. Rul. 2008-5 for
// an IRA; its reasoning applies to the other retirement accounts.
func TestWashSaleAcrossAccounts(t *testing.T) {
	for _, tt := range []struct {
		account, ticker string
		wash, permanent bool
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
		{"brk", "IVV240621C00450000", true, false},  // a call on an identical ticker
		{"brk", "VOO240621P00450000", false, false}, // a put is not an option to acquire
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
				t.Errorf("%s %s on %s: wash sale %t, want %t", tt.account, tt.ticker, bought, got,
					tt.wash)
				continue
			}
			if !tt.wash {
				continue
			}
			w := b.WashSales[0]
			permanent, adjusted := dec(t, "0"), dec(t, "100")
			if tt.permanent {
				permanent, adjusted = adjusted, permanent
			}
			if w.DisallowedLoss.Cmp(dec(t, "100")) != 0 || w.PermanentLoss.Cmp(permanent) != 0 ||
				b.Lots[0].BasisAdjustment.Cmp(adjusted) != 0 {
				t.Errorf("%s %s on %s: disallowed %s, permanent %s, adjusted %s", tt.account,
					tt.ticker, bought, w.DisallowedLoss, w.PermanentLoss, b.Lots[0].BasisAdjustment)
			}
		}
	}
}

// TestWashSaleKinds shows what counts as a purchase, and what as a loss.
func TestWashSaleKinds(t *testing.T) {
	check(t, []history{
		{"a reinvested dividend is a purchase", "section 1091(a)", `
			2023-01-10 brk buy X 100 @10
			2024-03-01 brk sell X 50 @8
			2024-03-15 brk reinvest X 0.5 @8`, `
			2023-01-10 brk holds X 50 basis=500
			2024-03-15 brk holds X 0.5 basis=5 adjusted=1 from=2023-01-25
			2024-03-01 brk sold X 50 of=2023-01-10 long=-100 disallowed=1 for=0.5
			2024-03-01 brk wash X 50 loss=100 disallowed=1 for=0.5 by 2024-03-15 brk X 0.5`},
		{"a gift, an inheritance and a transfer are not purchases", "Reg. 1.1091-1(f): acquired by purchase or taxable exchange", `
			2023-01-10 brk buy X 100 @10
			2023-01-10 two buy X 5 @10
			2024-03-01 brk sell X 100 @8
			2024-03-05 brk gift_in X 10 donor=70 since=2020-01-01 value=80
			2024-03-06 brk inherit X 10 value=80
			2024-03-07 two transfer X 5 to=brk`, `
			2023-01-10 brk holds X 5 basis=50
			2024-03-05 brk holds X 10 basis=70 from=2020-01-02
			2024-03-06 brk holds X 10 basis=80 long
			2024-03-01 brk sold X 100 of=2023-01-10 long=-200`},
		{"a loss in a retirement account does not count", "section 408(e)(1): the account is exempt", `
			2023-01-10 ira buy X 100 @10
			2024-03-01 ira sell X 100 @8
			2024-03-15 brk buy X 100 @8`, `
			2024-03-15 brk holds X 100 basis=800
			2024-03-01 ira sold X 100 of=2023-01-10 long=-200`},
		{"a loss on a gift is counted from its value, and the gift's own days are added to the replacement", "section 1015(a), 1091(d) and 1223(3)", `
			2024-01-10 brk gift_in X 10 donor=1000 since=2010-01-01 value=800
			2024-03-01 brk sell X 10 @70
			2024-03-10 brk buy X 10 @75`, `
			2024-03-10 brk holds X 10 basis=850 adjusted=100 from=2024-01-20
			2024-03-01 brk sold X 10 of=2024-01-10 short=-100 disallowed=100 for=10
			2024-03-01 brk wash X 10 loss=100 disallowed=100 for=10 by 2024-03-10 brk X 10`},
		{"a gift sold between value and donor's basis has no loss to disallow", "section 1015(a)", `
			2024-01-10 brk gift_in X 10 donor=1000 since=2010-01-01 value=800
			2024-03-01 brk sell X 10 @90
			2024-03-10 brk buy X 10 @75`, `
			2024-03-10 brk holds X 10 basis=750
			2024-03-01 brk sold X 10 of=2024-01-10 long=0`},
		{"a sell without a buy is not a short sale: what is bought later is a lot", "section 1091(e) is not supported", `
			2024-03-01 brk sell X 10 @7
			2024-03-10 brk buy X 10 @9`, `
			2024-03-10 brk holds X 10 basis=90
			2024-03-01 brk gap X 10: sold without a buy`},
		{"securities bought on margin are purchased", "Rev. Rul. 71-316; rows do not have loans, the figures are ours", `
			1970-07-01 brk buy X 10 @10
			1970-08-03 brk sell X 10 @8
			1970-08-20 brk buy X 10 @9`, `
			1970-08-20 brk holds X 10 basis=110 adjusted=20 from=1970-07-19
			1970-08-03 brk sold X 10 of=1970-07-01 short=-20 disallowed=20 for=10
			1970-08-03 brk wash X 10 loss=20 disallowed=20 for=10 by 1970-08-20 brk X 10`},
	})
}

// TestWashSaleSplits has splits between the loss and the purchase.
func TestWashSaleSplits(t *testing.T) {
	check(t, []history{
		{"a split between the loss and the purchase: 10 old shares are 20 new ones", "Reg. 1.1091-1(c), counted in shares of one kind", `
			2023-01-10 brk buy X 10 @10
			2024-03-01 brk sell X 10 @8
			2024-03-05 - split X ratio=2:1
			2024-03-10 brk buy X 15 @4`, `
			2024-03-10 brk holds X 15 basis=75 adjusted=15 from=2023-01-20
			2024-03-01 brk sold X 10 of=2023-01-10 long=-20 disallowed=15 for=7.5
			2024-03-01 brk wash X 10 loss=20 disallowed=15 for=7.5 by 2024-03-10 brk X 7.5`},
		{"each account has its own row for one split", "Reg. 1.1091-1(d), counted in shares of one kind", `
			2023-01-10 brk buy X 10 @10
			2023-01-10 two buy X 10 @8
			2024-03-01 brk sell X 10 @8
			2024-03-05 brk split X ratio=2:1
			2024-03-05 two split X ratio=2:1
			2024-03-10 brk buy X 20 @4`, `
			2024-03-10 brk holds X 20 basis=100 adjusted=20 from=2023-01-20
			2023-01-10 two holds X 20 basis=80
			2024-03-01 brk sold X 10 of=2023-01-10 long=-20 disallowed=20 for=10
			2024-03-01 brk wash X 10 loss=20 disallowed=20 for=10 by 2024-03-10 brk X 10`},
		{"a split between the purchase and the loss", "Reg. 1.1091-1(d), counted in shares of one kind", `
			2023-01-10 brk buy X 10 @10
			2024-02-20 two buy X 10 @9
			2024-02-25 - split X ratio=2:1
			2024-03-01 brk sell X 20 @4`, `
			2024-02-20 two holds X 20 basis=110 adjusted=20 from=2023-01-01
			2024-03-01 brk sold X 20 of=2023-01-10 long=-20 disallowed=20 for=20
			2024-03-01 brk wash X 20 loss=20 disallowed=20 for=20 by 2024-02-20 two X 20`},
	})
}

// TestWashSaleMoves has transfers, more splits, and returns of capital.
func TestWashSaleMoves(t *testing.T) {
	check(t, []history{
		{"a replacement that was transferred to another account is adjusted there", "Reg. 1.1091-1(d); a transfer between own accounts is not a disposal", `
			2023-01-10 brk buy X 10 @10
			2024-02-20 brk buy X 10 @9 lot=new
			2024-02-25 brk transfer X 4 to=two lot=new
			2024-03-01 brk sell X 10 @8`, `
			2024-02-20 brk holds X 6 basis=66 adjusted=12 from=2023-01-01
			2024-02-20 two holds X 4 basis=44 adjusted=8 from=2023-01-01
			2024-03-01 brk sold X 10 of=2023-01-10 long=-20 disallowed=20 for=10
			2024-03-01 brk wash X 10 loss=20 disallowed=20 for=10 by 2024-02-20 brk X 10`},
		{"a reverse split between the loss and the purchase: 2 new shares are 6 old ones", "Reg. 1.1091-1(c), counted in shares of one kind", `
			2023-01-10 brk buy X 10 @10
			2024-03-01 brk sell X 10 @7
			2024-03-05 - split X ratio=1:3
			2024-03-10 brk buy X 2 @24`, `
			2024-03-10 brk holds X 2 basis=66 adjusted=18 from=2023-01-20
			2024-03-01 brk sold X 10 of=2023-01-10 long=-30 disallowed=18 for=6
			2024-03-01 brk wash X 10 loss=30 disallowed=18 for=6 by 2024-03-10 brk X 6`},
		{"a split between the loss and a call: a contract is for 50 of the old shares", "Reg. 1.1091-1(c), counted in shares of one kind", `
			2023-01-10 brk buy X 100 @10
			2024-03-01 brk sell X 100 @8
			2024-03-05 - split X ratio=2:1
			2024-03-10 brk buy X240621C00010000 1 @100`, `
			2024-03-10 brk holds X240621C00010000 1 basis=200 adjusted=100 from=2023-01-20
			2024-03-01 brk sold X 100 of=2023-01-10 long=-200 disallowed=100 for=50
			2024-03-01 brk wash X 100 loss=200 disallowed=100 for=50 by 2024-03-10 brk X240621C00010000 50`},
		{"a group that splits between the loss and the purchase", "Reg. 1.1091-1(c), counted in shares of one kind", `
			2023-01-10 brk buy VOO 10 @100
			2024-03-01 brk sell VOO 10 @80
			2024-03-05 - split VOO ratio=2:1
			2024-03-05 - split IVV ratio=2:1
			2024-03-10 brk buy IVV 20 @40`, `
			2024-03-10 brk holds IVV 20 basis=1000 adjusted=200 from=2023-01-20
			2024-03-01 brk sold VOO 10 of=2023-01-10 long=-200 disallowed=200 for=10
			2024-03-01 brk wash VOO 10 loss=200 disallowed=200 for=10 by 2024-03-10 brk IVV 10`},
		{"only one ticker of a group was split", "Reg. 1.1091-1(c), counted in shares of one kind", `
			2023-01-10 brk buy VOO 10 @100
			2024-03-01 brk sell VOO 10 @80
			2024-03-05 - split IVV ratio=2:1
			2024-03-10 brk buy IVV 8 @40
			2024-03-11 brk buy VOO 8 @80`, `
			2024-03-10 brk holds IVV 8 basis=400 adjusted=80 from=2023-01-20
			2024-03-11 brk holds VOO 6 basis=600 adjusted=120 from=2023-01-21
			2024-03-11 brk holds VOO 2 basis=160
			2024-03-01 brk sold VOO 10 of=2023-01-10 long=-200 disallowed=200 for=10
			2024-03-01 brk wash VOO 10 loss=200 disallowed=200 for=10 by 2024-03-10 brk IVV 4, 2024-03-11 brk VOO 6`},
		{"a split before the loss, and one after it", "Reg. 1.1091-1(d), counted in shares of one kind", `
			2023-01-10 brk buy X 10 @12
			2024-02-20 two buy X 5 @10
			2024-02-25 - split X ratio=2:1
			2024-03-01 brk sell X 20 @4
			2024-03-05 - split X ratio=3:1
			2024-03-10 her buy X 60 @1`, `
			2024-02-20 two holds X 30 basis=70 adjusted=20 from=2023-01-01
			2024-03-10 her holds X 30 basis=50 adjusted=20 from=2023-01-20
			2024-03-10 her holds X 30 basis=30
			2024-03-01 brk sold X 20 of=2023-01-10 long=-40 disallowed=40 for=20
			2024-03-01 brk wash X 20 loss=40 disallowed=40 for=20 by 2024-02-20 two X 10, 2024-03-10 her X 10`},
		{"a transfer between own accounts in the window is not a purchase, and the shares keep date and basis", "Reg. 1.1091-1(f)", `
			2022-01-10 two buy X 10 @9
			2023-01-10 brk buy X 10 @10
			2024-02-25 two transfer X 10 to=her
			2024-03-01 brk sell X 10 @8`, `
			2022-01-10 her holds X 10 basis=90
			2024-03-01 brk sold X 10 of=2023-01-10 long=-20`},
		{"capital returned on a replacement lowers the adjusted basis", "section 301(c)(2) after 1091(d)", `
			2023-01-10 brk buy X 10 @10
			2024-03-01 brk sell X 10 @8
			2024-03-10 brk buy X 10 @9
			2024-04-10 brk return_of_capital X value=15`, `
			2024-03-10 brk holds X 10 basis=95 adjusted=20 from=2023-01-20
			2024-03-01 brk sold X 10 of=2023-01-10 long=-20 disallowed=20 for=10
			2024-03-01 brk wash X 10 loss=20 disallowed=20 for=10 by 2024-03-10 brk X 10`},
	})
}
