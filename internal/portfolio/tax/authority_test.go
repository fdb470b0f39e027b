package tax

import "testing"

// The cases in this file are examples from the authorities, with their dates and amounts but in our
// words. If an example does not have a date or a price, the source says so.

// TestPublication550 has the examples of the section on wash sales.
func TestPublication550(t *testing.T) {
	check(t, []history{
		{"bought for 1,000, sold for 750, bought again for 800: the new basis is 1,050", "example 1; it has no dates", `
			2024-01-10 brk buy X 100 @10
			2024-03-01 brk sell X 100 @7.50
			2024-03-20 brk buy X 100 @8`, `
			2024-03-20 brk holds X 100 basis=1050 adjusted=250 from=2024-01-30
			2024-03-01 brk sold X 100 of=2024-01-10 short=-250 disallowed=250 for=100
			2024-03-01 brk wash X 100 loss=250 disallowed=250 for=100 by 2024-03-20 brk X 100`},
		{"shares of an employer's bonus are acquired for their value, and are a replacement", "example 2; it has no dates, and no amounts but the 10 shares", `
			2024-01-10 brk buy X 10 @20
			2024-03-01 brk sell X 10 @15
			2024-03-15 brk buy X 10 @16`, `
			2024-03-15 brk holds X 10 basis=210 adjusted=50 from=2024-01-25
			2024-03-01 brk sold X 10 of=2024-01-10 short=-50 disallowed=50 for=10
			2024-03-01 brk wash X 10 loss=50 disallowed=50 for=10 by 2024-03-15 brk X 10`},
		{"75 shares bought before 100 are sold: 750 is disallowed, 250 counts", "more or less stock bought than sold, example 1", `
			2009-09-24 brk buy M 100 @50
			2009-12-18 brk buy M 50 @55
			2009-12-28 brk buy M 25 @45
			2010-01-07 brk sell M 100 @40`, `
			2009-12-18 brk holds M 50 basis=3250 adjusted=500 from=2009-09-05
			2009-12-28 brk holds M 25 basis=1375 adjusted=250 from=2009-09-15
			2010-01-07 brk sold M 100 of=2009-09-24 short=-1000 disallowed=750 for=75
			2010-01-07 brk wash M 100 loss=1000 disallowed=750 for=75 by 2009-12-18 brk M 50, 2009-12-28 brk M 25`},
		{"200 shares bought after 100 were sold: the first 100 take the loss", "more or less stock bought than sold, example 2; the years are ours", `
			2015-09-24 brk buy M 100 @50
			2017-02-01 brk sell M 100 @40
			2017-02-07 brk buy M 50 @40
			2017-02-08 brk buy M 50 @40
			2017-02-09 brk buy M 50 @40
			2017-02-10 brk buy M 50 @40`, `
			2017-02-07 brk holds M 50 basis=2500 adjusted=500 from=2015-10-01
			2017-02-08 brk holds M 50 basis=2500 adjusted=500 from=2015-10-02
			2017-02-09 brk holds M 50 basis=2000
			2017-02-10 brk holds M 50 basis=2000
			2017-02-01 brk sold M 100 of=2015-09-24 long=-1000 disallowed=1000 for=100
			2017-02-01 brk wash M 100 loss=1000 disallowed=1000 for=100 by 2017-02-07 brk M 50, 2017-02-08 brk M 50`},
		{"a spouse who buys makes a wash sale", "the rule for a spouse; the figures are ours", `
			2024-01-10 brk buy X 100 @10
			2024-03-01 brk sell X 100 @7.50
			2024-03-20 her buy X 100 @8`, `
			2024-03-20 her holds X 100 basis=1050 adjusted=250 from=2024-01-30
			2024-03-01 brk sold X 100 of=2024-01-10 short=-250 disallowed=250 for=100
			2024-03-01 brk wash X 100 loss=250 disallowed=250 for=100 by 2024-03-20 her X 100`},
	})
}

// TestReg10911 has the three examples of paragraph (h).
func TestReg10911(t *testing.T) {
	check(t, []history{
		{"a purchase before the sale takes all of the loss", "Reg. 1.1091-1(h) example 1", `
			1954-12-01 brk buy M 100 @100
			1954-12-15 brk buy M 100 @90
			1955-01-03 brk sell M 100 @90`, `
			1954-12-15 brk holds M 100 basis=10000 adjusted=1000 from=1954-11-13
			1955-01-03 brk sold M 100 of=1954-12-01 short=-1000 disallowed=1000 for=100
			1955-01-03 brk wash M 100 loss=1000 disallowed=1000 for=100 by 1954-12-15 brk M 100`},
		{"two purchases before the sale take 500 and 250, and 250 counts: 3,250 and 1,375", "Reg. 1.1091-1(h) example 2", `
			1954-09-21 brk buy M 100 @50
			1954-12-21 brk buy M 50 @55
			1954-12-27 brk buy M 25 @45
			1955-01-03 brk sell M 100 @40`, `
			1954-12-21 brk holds M 50 basis=3250 adjusted=500 from=1954-09-09
			1954-12-27 brk holds M 25 basis=1375 adjusted=250 from=1954-09-15
			1955-01-03 brk sold M 100 of=1954-09-21 short=-1000 disallowed=750 for=75
			1955-01-03 brk wash M 100 loss=1000 disallowed=750 for=75 by 1954-12-21 brk M 50, 1954-12-27 brk M 25`},
		{"the first two of four purchases after the sale get the loss and the holding period", "Reg. 1.1091-1(h) example 3", `
			1954-09-15 brk buy M 100 @50
			1956-02-01 brk sell M 100 @40
			1956-02-15 brk buy M 50 @40
			1956-02-16 brk buy M 50 @40
			1956-02-17 brk buy M 50 @40
			1956-02-18 brk buy M 50 @40`, `
			1956-02-15 brk holds M 50 basis=2500 adjusted=500 from=1954-09-30
			1956-02-16 brk holds M 50 basis=2500 adjusted=500 from=1954-10-01
			1956-02-17 brk holds M 50 basis=2000
			1956-02-18 brk holds M 50 basis=2000
			1956-02-01 brk sold M 100 of=1954-09-15 long=-1000 disallowed=1000 for=100
			1956-02-01 brk wash M 100 loss=1000 disallowed=1000 for=100 by 1956-02-15 brk M 50, 1956-02-16 brk M 50`},
	})
}

// TestReg10912 has the two examples of paragraph (a). They say 1935; the day is ours.
func TestReg10912(t *testing.T) {
	check(t, []history{
		{"bought back at a higher price: 110", "Reg. 1.1091-2(a) example 1", `
			1935-05-01 brk buy X 1 @100
			1955-01-15 brk sell X 1 @80
			1955-02-01 brk buy X 1 @90`, `
			1955-02-01 brk holds X 1 basis=110 adjusted=20 from=1935-05-19
			1955-01-15 brk sold X 1 of=1935-05-01 long=-20 disallowed=20 for=1
			1955-01-15 brk wash X 1 loss=20 disallowed=20 for=1 by 1955-02-01 brk X 1`},
		{"bought back at a lower price: 90", "Reg. 1.1091-2(a) example 2", `
			1935-05-01 brk buy Y 1 @100
			1955-01-15 brk sell Y 1 @80
			1955-02-01 brk buy Y 1 @70`, `
			1955-02-01 brk holds Y 1 basis=90 adjusted=20 from=1935-05-19
			1955-01-15 brk sold Y 1 of=1935-05-01 long=-20 disallowed=20 for=1
			1955-01-15 brk wash Y 1 loss=20 disallowed=20 for=1 by 1955-02-01 brk Y 1`},
	})
}

// TestRevRul20085: a purchase in the taxpayer's IRA or Roth IRA disallows the loss and does not
// raise any basis. The ruling does not say when the 100 shares with a basis of 1,000 were bought,
// or how much the account paid.
func TestRevRul20085(t *testing.T) {
	check(t, []history{
		{"bought by an IRA the day after: 400 is permanently disallowed", "Rev. Rul. 2008-5, facts", `
			2007-01-02 brk buy X 100 @10
			2007-12-20 brk sell X 100 @6
			2007-12-21 ira buy X 100 @6`, `
			2007-12-21 ira holds X 100 basis=600
			2007-12-20 brk sold X 100 of=2007-01-02 short=-400 disallowed=400 for=100
			2007-12-20 brk wash X 100 loss=400 disallowed=400 for=100 permanent=400 by 2007-12-21 ira X 100`},
		{"bought by a Roth IRA the day after", "Rev. Rul. 2008-5, facts", `
			2007-01-02 brk buy X 100 @10
			2007-12-20 brk sell X 100 @6
			2007-12-21 roth buy X 100 @6`, `
			2007-12-21 roth holds X 100 basis=600
			2007-12-20 brk sold X 100 of=2007-01-02 short=-400 disallowed=400 for=100
			2007-12-20 brk wash X 100 loss=400 disallowed=400 for=100 permanent=400 by 2007-12-21 roth X 100`},
		{"bought by the IRA before the sale", "Rev. Rul. 2008-5, issue: 30 days before or after", `
			2007-01-02 brk buy X 100 @10
			2007-11-20 ira buy X 100 @6
			2007-12-20 brk sell X 100 @6`, `
			2007-11-20 ira holds X 100 basis=600
			2007-12-20 brk sold X 100 of=2007-01-02 short=-400 disallowed=400 for=100
			2007-12-20 brk wash X 100 loss=400 disallowed=400 for=100 permanent=400 by 2007-11-20 ira X 100`},
		{"the spouse's IRA replaces what the spouse's account sold", "Rev. Rul. 2008-5, for another owner", `
			2007-01-02 her buy X 100 @10
			2007-12-20 her sell X 100 @6
			2007-12-21 herira buy X 100 @6`, `
			2007-12-21 herira holds X 100 basis=600
			2007-12-20 her sold X 100 of=2007-01-02 short=-400 disallowed=400 for=100
			2007-12-20 her wash X 100 loss=400 disallowed=400 for=100 permanent=400 by 2007-12-21 herira X 100`},
		{"an IRA takes its part, a taxable account the rest, in the order of purchase", "Rev. Rul. 2008-5 and Reg. 1.1091-1(d)", `
			2007-01-02 brk buy X 100 @10
			2007-12-20 brk sell X 100 @6
			2007-12-21 ira buy X 30 @6
			2007-12-22 brk buy X 100 @6`, `
			2007-12-22 brk holds X 70 basis=700 adjusted=280 from=2007-01-05
			2007-12-22 brk holds X 30 basis=180
			2007-12-21 ira holds X 30 basis=180
			2007-12-20 brk sold X 100 of=2007-01-02 short=-400 disallowed=400 for=100
			2007-12-20 brk wash X 100 loss=400 disallowed=400 for=100 permanent=120 by 2007-12-21 ira X 30, 2007-12-22 brk X 70`},
	})
}

// TestRevRul56602: selling a part of a lot that was bought in the 30 days before reduces the
// holding, and the rest of the lot is not a replacement. The ruling has no figures.
func TestRevRul56602(t *testing.T) {
	check(t, []history{
		{"half of a lot is sold 14 days after the purchase", "Rev. Rul. 56-602", `
			2024-03-01 brk buy X 200 @10
			2024-03-15 brk sell X 100 @8`, `
			2024-03-01 brk holds X 100 basis=1000
			2024-03-15 brk sold X 100 of=2024-03-01 short=-200`},
		{"half of a lot is sold, and then another part", "Rev. Rul. 56-602", `
			2024-03-01 brk buy X 200 @10
			2024-03-15 brk sell X 100 @8
			2024-03-20 brk sell X 50 @7`, `
			2024-03-01 brk holds X 50 basis=500
			2024-03-15 brk sold X 100 of=2024-03-01 short=-200
			2024-03-20 brk sold X 50 of=2024-03-01 short=-150`},
		{"a part of the lot is in another account by then", "Rev. Rul. 56-602; a transfer makes no new lot", `
			2024-03-01 brk buy X 200 @10
			2024-03-05 brk transfer X 100 to=two
			2024-03-15 two sell X 100 @8`, `
			2024-03-01 brk holds X 100 basis=1000
			2024-03-15 two sold X 100 of=2024-03-01 short=-200`},
		{"the rest of the lot replaces what was bought before it", "Rev. Rul. 56-602 is for the one lot only; Reg. 1.1091-1(d)", `
			2023-03-01 brk buy X 100 @10
			2024-03-01 brk buy X 200 @9
			2024-03-15 brk sell X 150 @8`, `
			2024-03-01 brk holds X 100 basis=1100 adjusted=200 from=2023-02-16
			2024-03-01 brk holds X 50 basis=450
			2024-03-15 brk sold X 100 of=2023-03-01 long=-200 disallowed=200 for=100
			2024-03-15 brk sold X 50 of=2024-03-01 short=-50
			2024-03-15 brk wash X 150 loss=250 disallowed=200 for=100 by 2024-03-01 brk X 100`},
		{"a second lot of the same day is another lot", "Reg. 1.1091-1(a); rows do not say that two purchases were one order", `
			2024-03-01 brk buy X 100 @10
			2024-03-01 brk buy X 100 @10
			2024-03-15 brk sell X 100 @8`, `
			2024-03-01 brk holds X 100 basis=1200 adjusted=200 from=2024-02-17
			2024-03-15 brk sold X 100 of=2024-03-01 short=-200 disallowed=200 for=100
			2024-03-15 brk wash X 100 loss=200 disallowed=200 for=100 by 2024-03-01 brk X 100`},
	})
}

// TestRevRul70231 is also the publication's example of a loss and a gain on one day. The ruling
// does not have the days in 1967 and the last price.
func TestRevRul70231(t *testing.T) {
	check(t, []history{
		{"three blocks are sold: the loss on the first is disallowed, the gains on the others count", "Rev. Rul. 70-231", `
			1967-02-01 brk buy M 100 @158
			1967-05-01 brk buy M 100 @100
			1967-08-01 brk buy M 100 @95
			1969-12-22 brk sell M 300 @125
			1970-01-08 brk buy M 250 @120`, `
			1970-01-08 brk holds M 100 basis=15300 adjusted=3300 from=1967-02-19
			1970-01-08 brk holds M 150 basis=18000
			1969-12-22 brk sold M 100 of=1967-02-01 long=-3300 disallowed=3300 for=100
			1969-12-22 brk sold M 100 of=1967-05-01 long=2500
			1969-12-22 brk sold M 100 of=1967-08-01 long=3000
			1969-12-22 brk wash M 100 loss=3300 disallowed=3300 for=100 by 1970-01-08 brk M 100`},
	})
}
