package tax

import "testing"

// TestWashSaleOptions: section 1091(a) covers options to acquire, and counts options among the
// securities.
func TestWashSaleOptions(t *testing.T) {
	check(t, []history{
		{"one call takes the loss on 100 of 150 shares", "section 1091(a): an option to acquire", `
			2023-01-10 brk buy X 150 @10
			2024-03-01 brk sell X 150 @8
			2024-03-05 brk buy X240621C00010000 1 @100`, `
			2024-03-05 brk holds X240621C00010000 1 basis=300 adjusted=200 from=2023-01-15
			2024-03-01 brk sold X 150 of=2023-01-10 long=-300 disallowed=200 for=100
			2024-03-01 brk wash X 150 loss=300 disallowed=200 for=100 by 2024-03-05 brk X240621C00010000 100`},
		{"one and a half of two calls take the loss on 150 shares", "section 1091(a) and Reg. 1.1091-1(d)", `
			2023-01-10 brk buy X 150 @10
			2024-02-20 brk buy X240621C00010000 2 @100
			2024-03-01 brk sell X 150 @8`, `
			2024-02-20 brk holds X240621C00010000 1.5 basis=450 adjusted=300 from=2023-01-01
			2024-02-20 brk holds X240621C00010000 0.5 basis=50
			2024-03-01 brk sold X 150 of=2023-01-10 long=-300 disallowed=300 for=150
			2024-03-01 brk wash X 150 loss=300 disallowed=300 for=150 by 2024-02-20 brk X240621C00010000 150`},
		{"calls and shares in the order of purchase, each for its shares", "Reg. 1.1091-1(c)", `
			2023-01-10 brk buy X 150 @10
			2024-03-01 brk sell X 150 @8
			2024-03-05 two buy X 20 @8
			2024-03-06 ira buy X240621C00010000 1 @100
			2024-03-07 her buy X 50 @8`, `
			2024-03-05 two holds X 20 basis=200 adjusted=40 from=2023-01-15
			2024-03-06 ira holds X240621C00010000 1 basis=100
			2024-03-07 her holds X 30 basis=300 adjusted=60 from=2023-01-17
			2024-03-07 her holds X 20 basis=160
			2024-03-01 brk sold X 150 of=2023-01-10 long=-300 disallowed=300 for=150
			2024-03-01 brk wash X 150 loss=300 disallowed=300 for=150 permanent=200 by 2024-03-05 two X 20, 2024-03-06 ira X240621C00010000 100, 2024-03-07 her X 30`},
		{"the call that took a loss is sold: the loss is allowed there, with the longer holding period", "section 1091(d) and 1223(3)", `
			2023-01-10 brk buy X 50 @10
			2024-03-01 brk sell X 50 @8
			2024-03-05 brk buy X240621C00007000 1 @150
			2024-05-20 brk sell X240621C00007000 1 @400`, `
			2024-03-01 brk sold X 50 of=2023-01-10 long=-100 disallowed=100 for=50
			2024-05-20 brk sold X240621C00007000 0.5 of=2024-03-05 long=25
			2024-05-20 brk sold X240621C00007000 0.5 of=2024-03-05 short=125
			2024-03-01 brk wash X 50 loss=100 disallowed=100 for=50 by 2024-03-05 brk X240621C00007000 50`},
		{"a put is a right to sell, and does not replace shares", "section 1091(a): an option so to acquire", `
			2023-01-10 brk buy X 100 @10
			2024-03-01 brk sell X 100 @8
			2024-03-05 brk buy X240621P00010000 1 @100`, `
			2024-03-05 brk holds X240621P00010000 1 basis=100
			2024-03-01 brk sold X 100 of=2023-01-10 long=-200`},
		{"a loss on an option is matched with that option only", "section 1091(a): options are securities; the same series is identical", `
			2024-01-10 brk buy X240621C00010000 1 @300
			2024-03-01 brk sell X240621C00010000 1 @200
			2024-03-05 brk buy X 100 @9
			2024-03-06 brk buy X240621C00012000 1 @100
			2024-03-07 brk buy X240621C00010000 2 @210`, `
			2024-03-05 brk holds X 100 basis=900
			2024-03-07 brk holds X240621C00010000 1 basis=310 adjusted=100 from=2024-01-17
			2024-03-07 brk holds X240621C00010000 1 basis=210
			2024-03-06 brk holds X240621C00012000 1 basis=100
			2024-03-01 brk sold X240621C00010000 1 of=2024-01-10 short=-100 disallowed=100 for=1
			2024-03-01 brk wash X240621C00010000 1 loss=100 disallowed=100 for=1 by 2024-03-07 brk X240621C00010000 1`},
		{"buying back a written call is not a purchase", "section 1091(a): it ends an obligation, and is not an option to acquire", `
			2024-01-10 brk buy X 100 @10
			2024-02-10 brk sell X240621C00010000 1 @100
			2024-03-01 brk sell X 100 @8
			2024-03-05 brk buy X240621C00010000 1 @50`, `
			2024-03-01 brk sold X 100 of=2024-01-10 short=-200
			2024-02-10 brk gap X240621C00010000 1: sold without a buy`},
		{"a written call that expired is not bought back by a later purchase", "section 1091(a)", `
			2024-01-10 brk buy X 100 @10
			2024-01-11 brk sell X240216C00010000 1 @100
			2024-02-15 brk expire X240216C00010000 1
			2024-02-16 brk buy X240216C00010000 1 @1
			2024-03-01 brk sell X 100 @8`, `
			2024-02-16 brk holds X240216C00010000 1 basis=201 adjusted=200 from=2023-12-28
			2024-03-01 brk sold X 100 of=2024-01-10 short=-200 disallowed=200 for=100
			2024-03-01 brk wash X 100 loss=200 disallowed=200 for=100 by 2024-02-16 brk X240216C00010000 100
			2024-01-11 brk gap X240216C00010000 1: sold without a buy
			2024-02-15 brk gap X240216C00010000 1: closed an option that was not bought`},
	})
}

// TestAssignedPut: the writer of a put buys on the day of the assignment. Writing it does not count
// as a purchase: Rev. Rul. 85-87, about puts whose exercise is certain, needs a judgement that rows
// do not support. The premium does not count.
func TestAssignedPut(t *testing.T) {
	for _, tt := range []struct {
		assigned string
		wash     bool
	}{
		{"2024-03-31", true},  // 30 days after the loss
		{"2024-04-01", false}, // 31 days; it does not matter that the put was written within the 30
	} {
		b := build(t, `
			2023-01-10 brk buy X 100 @10
			2024-02-20 brk sell X240419P00009000 1 @100
			2024-03-01 brk sell X 100 @8
			`+tt.assigned+` brk assign X240419P00009000 1
			`+tt.assigned+` brk buy X 100 @9`)
		if got := len(b.WashSales) == 1; got != tt.wash || len(b.Lots) != 1 ||
			b.Lots[0].LotDate != day(t, tt.assigned) {
			t.Errorf("assigned on %s: wash sale %t, want %t\n%s", tt.assigned, got, tt.wash,
				formatBook(b))
		}
	}
}

// TestExercisedCallIsOneAcquisition: the shares keep what the call took of a loss, and take no
// other loss.
func TestExercisedCallIsOneAcquisition(t *testing.T) {
	check(t, []history{
		{"a call bought and exercised in the window takes the loss on 100 shares, not on 200", "Reg. 1.1091-1(e) and (f)", `
			2023-01-10 brk buy X 200 @10
			2024-03-01 brk sell X 200 @8
			2024-03-05 brk buy X240621C00007000 1 @150
			2024-03-20 brk assign X240621C00007000 1
			2024-03-20 brk buy X 100 @7`, `
			2024-03-20 brk holds X 100 basis=1050 adjusted=200 from=2023-01-30
			2024-03-01 brk sold X 200 of=2023-01-10 long=-400 disallowed=200 for=100
			2024-03-01 brk wash X 200 loss=400 disallowed=200 for=100 by 2024-03-05 brk X240621C00007000 100`},
		{"exercised after the window, the shares keep the adjustment and the holding period of the call", "section 1223(3)", `
			2023-01-10 brk buy X 100 @10
			2024-03-01 brk sell X 100 @8
			2024-03-05 brk buy X240621C00007000 1 @150
			2024-05-20 brk assign X240621C00007000 1
			2024-05-20 brk buy X 100 @7`, `
			2024-05-20 brk holds X 100 basis=1050 adjusted=200 from=2023-04-01
			2024-03-01 brk sold X 100 of=2023-01-10 long=-200 disallowed=200 for=100
			2024-03-01 brk wash X 100 loss=200 disallowed=200 for=100 by 2024-03-05 brk X240621C00007000 100`},
		{"half a call took a loss: half of the shares keep it, the others are free for a later loss", "Reg. 1.1091-1(e)", `
			2023-01-10 brk buy X 50 @10
			2023-01-10 two buy X 80 @10
			2024-03-01 brk sell X 50 @8
			2024-03-05 brk buy X240621C00007000 1 @150
			2024-04-10 two sell X 80 @9
			2024-05-01 brk assign X240621C00007000 1
			2024-05-01 brk buy X 100 @7`, `
			2024-05-01 brk holds X 50 basis=475 adjusted=50 from=2023-02-01
			2024-05-01 brk holds X 50 basis=525 adjusted=100 from=2023-03-13
			2024-03-01 brk sold X 50 of=2023-01-10 long=-100 disallowed=100 for=50
			2024-04-10 two sold X 80 of=2023-01-10 long=-80 disallowed=50 for=50
			2024-03-01 brk wash X 50 loss=100 disallowed=100 for=50 by 2024-03-05 brk X240621C00007000 50
			2024-04-10 two wash X 80 loss=80 disallowed=50 for=50 by 2024-05-01 brk X 50`},
		{"the shares of a call that took a loss do not replace shares sold after the exercise", "Reg. 1.1091-1(e)", `
			2023-01-10 brk buy X 100 @10
			2023-01-10 two buy X 100 @10
			2024-03-01 brk sell X 100 @8
			2024-03-05 brk buy X240621C00007000 1 @150
			2024-05-20 brk assign X240621C00007000 1
			2024-05-20 brk buy X 100 @7
			2024-05-25 two sell X 100 @9`, `
			2024-05-20 brk holds X 100 basis=1050 adjusted=200 from=2023-04-01
			2024-03-01 brk sold X 100 of=2023-01-10 long=-200 disallowed=200 for=100
			2024-05-25 two sold X 100 of=2023-01-10 long=-100
			2024-03-01 brk wash X 100 loss=200 disallowed=200 for=100 by 2024-03-05 brk X240621C00007000 100`},
	})
}

// TestWhichCallIsExercised has several contracts; not all take a loss or are exercised.
func TestWhichCallIsExercised(t *testing.T) {
	check(t, []history{
		{"an older call is exercised, and a newer one is held: two acquisitions", "Reg. 1.1091-1(e)", `
			2023-01-10 brk buy X 200 @10
			2023-12-10 brk buy X240621C00007000 1 @100
			2024-03-01 brk sell X 200 @8
			2024-03-05 brk buy X240621C00007000 1 @150
			2024-03-20 brk assign X240621C00007000 1
			2024-03-20 brk buy X 100 @7`, `
			2024-03-20 brk holds X 100 basis=1000 adjusted=200 from=2023-01-30
			2024-03-05 brk holds X240621C00007000 1 basis=350 adjusted=200 from=2023-01-15
			2024-03-01 brk sold X 200 of=2023-01-10 long=-400 disallowed=400 for=200
			2024-03-01 brk wash X 200 loss=400 disallowed=400 for=200 by 2024-03-05 brk X240621C00007000 100, 2024-03-20 brk X 100`},
		{"the one of two contracts that took a loss is sold: the shares of the other are free", "Reg. 1.1091-1(e)", `
			2023-01-10 brk buy X 200 @10
			2024-03-01 brk sell X 100 @8
			2024-03-05 brk buy X240621C00007000 2 @150
			2024-03-06 brk sell X240621C00007000 1 @350
			2024-04-10 brk sell X 100 @9
			2024-05-01 brk assign X240621C00007000 1
			2024-05-01 brk buy X 100 @7`, `
			2024-05-01 brk holds X 100 basis=950 adjusted=100 from=2023-02-01
			2024-03-01 brk sold X 100 of=2023-01-10 long=-200 disallowed=200 for=100
			2024-03-06 brk sold X240621C00007000 1 of=2024-03-05 long=0
			2024-04-10 brk sold X 100 of=2023-01-10 long=-100 disallowed=100 for=100
			2024-03-01 brk wash X 100 loss=200 disallowed=200 for=100 by 2024-03-05 brk X240621C00007000 100
			2024-04-10 brk wash X 100 loss=100 disallowed=100 for=100 by 2024-05-01 brk X 100`},
		{"one of two contracts is sold before the loss, and the other takes it", "Reg. 1.1091-1(e)", `
			2023-01-10 brk buy X 200 @10
			2024-02-20 brk buy X240621C00007000 2 @150
			2024-02-25 brk sell X240621C00007000 1 @150
			2024-03-01 brk sell X 200 @8
			2024-03-20 brk assign X240621C00007000 1
			2024-03-20 brk buy X 100 @7`, `
			2024-03-20 brk holds X 100 basis=1050 adjusted=200 from=2023-01-30
			2024-02-25 brk sold X240621C00007000 1 of=2024-02-20 short=0
			2024-03-01 brk sold X 200 of=2023-01-10 long=-400 disallowed=200 for=100
			2024-03-01 brk wash X 200 loss=400 disallowed=200 for=100 by 2024-02-20 brk X240621C00007000 100`},
		{"a call in an IRA: the loss is permanently disallowed once", "Rev. Rul. 2008-5 and Reg. 1.1091-1(e)", `
			2023-01-10 brk buy X 200 @10
			2024-03-01 brk sell X 200 @8
			2024-03-05 ira buy X240621C00007000 1 @150
			2024-03-20 ira assign X240621C00007000 1
			2024-03-20 ira buy X 100 @7`, `
			2024-03-20 ira holds X 100 basis=850
			2024-03-01 brk sold X 200 of=2023-01-10 long=-400 disallowed=200 for=100
			2024-03-01 brk wash X 200 loss=400 disallowed=200 for=100 permanent=200 by 2024-03-05 ira X240621C00007000 100`},
	})
}

// TestOptionsThatEnd has options that expire or are exercised. The shares of exercised options have
// their own rows.
func TestOptionsThatEnd(t *testing.T) {
	check(t, []history{
		{"an option that expires is sold for nothing", "section 1234(a)(2)", `
			2023-01-10 brk buy X230616C00010000 2 @150
			2023-06-16 brk expire X230616C00010000 2`, `
			2023-06-16 brk sold X230616C00010000 2 of=2023-01-10 short=-300`},
		{"the cost of an exercised call is part of the basis of the shares", "Publication 550, options: holder of a call that is exercised", `
			2023-01-10 brk buy X230616C00010000 1 @150
			2023-06-10 brk assign X230616C00010000 1
			2023-06-10 brk buy X 100 @10`, `
			2023-06-10 brk holds X 100 basis=1150`},
		{"the cost of an exercised put lowers the proceeds of the shares", "Publication 550, options: holder of a put that is exercised", `
			2023-01-10 brk buy X 100 @9
			2023-01-10 brk buy X230616P00010000 1 @150
			2023-06-10 brk sell X 100 @10
			2023-06-10 brk assign X230616P00010000 1`, `
			2023-06-10 brk sold X 100 of=2023-01-10 short=-50`},
		{"exercised options without their shares", "the package comment: Build never invents a lot", `
			2023-01-10 brk buy X230616P00010000 1 @150
			2023-01-10 brk buy X230616C00010000 1 @150
			2023-06-10 brk assign X230616P00010000 1
			2023-06-10 brk assign X230616C00010000 1`, `
			2023-06-10 brk gap X230616P00010000 1: the exercised put sold no shares on its day
			2023-06-10 brk gap X230616C00010000 1: the exercised call bought no shares on its day`},
		{"a put exercised at a loss makes a wash sale like any other sale", "section 1091(a): any sale or other disposition", `
			2023-01-10 brk buy X 100 @12
			2023-01-10 brk buy X230616P00010000 1 @150
			2023-06-10 brk sell X 100 @10
			2023-06-10 brk assign X230616P00010000 1
			2023-06-20 brk buy X 100 @9`, `
			2023-06-20 brk holds X 100 basis=1250 adjusted=350 from=2023-01-21
			2023-06-10 brk sold X 100 of=2023-01-10 short=-350 disallowed=350 for=100
			2023-06-10 brk wash X 100 loss=350 disallowed=350 for=100 by 2023-06-20 brk X 100`},
		{"the cost of a call belongs to the shares bought at its strike", "Publication 550, options: holder of a call that is exercised", `
			2023-06-10 brk buy X 50 @12
			2023-01-10 brk buy X230616C00010000 1 @150
			2023-06-10 brk assign X230616C00010000 1
			2023-06-10 brk buy X 100 @10`, `
			2023-06-10 brk holds X 50 basis=600
			2023-06-10 brk holds X 100 basis=1150`},
		{"two calls of one day, each with its shares; fees are part of the basis", "Publication 550, options: holder of a call that is exercised", `
			2023-01-10 brk buy X230616C00010000 1 @150
			2023-01-10 brk buy X230616C00011000 1 @80
			2023-06-10 brk buy X 100 @11
			2023-06-10 brk buy X 100 @10
			2023-06-10 brk assign X230616C00010000 1 fees=5
			2023-06-10 brk assign X230616C00011000 1`, `
			2023-06-10 brk holds X 100 basis=1180
			2023-06-10 brk holds X 100 basis=1155`},
		{"without shares at the strike, the cost belongs to the first shares bought that day", "the package comment", `
			2023-01-10 brk buy X230616C00010000 1 @150
			2023-06-10 brk buy X 100 @10.5
			2023-06-10 brk buy X 100 @11
			2023-06-10 brk assign X230616C00010000 1`, `
			2023-06-10 brk holds X 100 basis=1200
			2023-06-10 brk holds X 100 basis=1100`},
		{"contracts for fewer than 100 shares: the whole cost is added", "Publication 550, options: holder of a call that is exercised", `
			2023-01-10 brk buy X230616C00010000 1 @15
			2023-01-11 brk buy X230616C00010000 1 @17
			2023-06-10 brk buy X 20 @10
			2023-06-10 brk assign X230616C00010000 1
			2023-06-10 brk assign X230616C00010000 1`, `
			2023-06-10 brk holds X 20 basis=232`},
		{"shares bought by exercise in the window are a replacement", "section 1091(a): acquired by purchase", `
			2022-01-10 brk buy X 100 @12
			2023-01-10 brk buy X230616C00010000 1 @150
			2023-06-01 brk sell X 100 @11
			2023-06-10 brk assign X230616C00010000 1
			2023-06-10 brk buy X 100 @10`, `
			2023-06-10 brk holds X 100 basis=1250 adjusted=100 from=2022-01-20
			2023-06-01 brk sold X 100 of=2022-01-10 long=-100 disallowed=100 for=100
			2023-06-01 brk wash X 100 loss=100 disallowed=100 for=100 by 2023-06-10 brk X 100`},
	})
}
