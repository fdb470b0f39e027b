package tax

import "testing"

// TestSection1091Chains: section 1091(d) adds to the basis, and 1223(3) to the holding period,
// again and again.
func TestSection1091Chains(t *testing.T) {
	check(t, []history{
		{"the replacement is sold at a loss, and replaced", "section 1091(d) and 1223(3), twice", `
			2023-01-10 brk buy X 10 @10
			2024-03-01 brk sell X 10 @8
			2024-03-10 brk buy X 10 @9
			2024-04-20 brk sell X 10 @7
			2024-05-01 brk buy X 10 @6`, `
			2024-05-01 brk holds X 10 basis=100 adjusted=40 from=2023-01-31
			2024-03-01 brk sold X 10 of=2023-01-10 long=-20 disallowed=20 for=10
			2024-04-20 brk sold X 10 of=2024-03-10 long=-40 disallowed=40 for=10
			2024-03-01 brk wash X 10 loss=20 disallowed=20 for=10 by 2024-03-10 brk X 10
			2024-04-20 brk wash X 10 loss=40 disallowed=40 for=10 by 2024-05-01 brk X 10`},
		{"the replacement is sold and not replaced: the whole loss is allowed then", "section 1091(d)", `
			2024-01-10 brk buy X 10 @10
			2024-01-20 brk sell X 10 @8
			2024-01-25 brk buy X 10 @9
			2024-02-05 brk sell X 10 @7`, `
			2024-01-20 brk sold X 10 of=2024-01-10 short=-20 disallowed=20 for=10
			2024-02-05 brk sold X 10 of=2024-01-25 short=-40
			2024-01-20 brk wash X 10 loss=20 disallowed=20 for=10 by 2024-01-25 brk X 10`},
		{"a gain on the replacement is smaller by the loss", "section 1091(d)", `
			2024-01-10 brk buy X 10 @10
			2024-01-20 brk sell X 10 @8
			2024-01-25 brk buy X 10 @9
			2024-06-05 brk sell X 10 @12`, `
			2024-01-20 brk sold X 10 of=2024-01-10 short=-20 disallowed=20 for=10
			2024-06-05 brk sold X 10 of=2024-01-25 short=10
			2024-01-20 brk wash X 10 loss=20 disallowed=20 for=10 by 2024-01-25 brk X 10`},
		{"a chain that ends in an IRA is permanently disallowed as a whole", "section 1091(d), then Rev. Rul. 2008-5", `
			2024-01-10 brk buy X 10 @10
			2024-01-20 brk sell X 10 @8
			2024-01-25 brk buy X 10 @9
			2024-03-05 brk sell X 10 @7
			2024-03-06 ira buy X 10 @7`, `
			2024-03-06 ira holds X 10 basis=70
			2024-01-20 brk sold X 10 of=2024-01-10 short=-20 disallowed=20 for=10
			2024-03-05 brk sold X 10 of=2024-01-25 short=-40 disallowed=40 for=10
			2024-01-20 brk wash X 10 loss=20 disallowed=20 for=10 by 2024-01-25 brk X 10
			2024-03-05 brk wash X 10 loss=40 disallowed=40 for=10 permanent=40 by 2024-03-06 ira X 10`},
		{"inherited shares, replaced by shares that are held already", "section 1223(3) and 1223(9)", `
			2024-01-10 brk inherit X 10 @10
			2024-01-15 two buy X 10 @9
			2024-01-20 brk sell X 10 @8
			2024-02-25 two sell X 10 @12`, `
			2024-01-20 brk sold X 10 of=2024-01-10 long=-20 disallowed=20 for=10
			2024-02-25 two sold X 10 of=2024-01-15 long=10
			2024-01-20 brk wash X 10 loss=20 disallowed=20 for=10 by 2024-01-15 two X 10`},
		{"inherited shares are long-term, and so are their replacements", "section 1223(3) and 1223(9)", `
			2024-01-10 brk inherit X 10 @10
			2024-01-20 brk sell X 10 @8
			2024-01-25 brk buy X 10 @9
			2024-02-25 brk sell X 10 @12`, `
			2024-01-20 brk sold X 10 of=2024-01-10 long=-20 disallowed=20 for=10
			2024-02-25 brk sold X 10 of=2024-01-25 long=10
			2024-01-20 brk wash X 10 loss=20 disallowed=20 for=10 by 2024-01-25 brk X 10`},
	})
}

// TestSection1091LongChains has chains through accounts, parts, splits and groups.
func TestSection1091LongChains(t *testing.T) {
	check(t, []history{
		{"three times, in two accounts and the spouse's: the last basis has all losses, and only days of holding count", "section 1091(d) and 1223(3)", `
			2024-01-02 brk buy X 10 @20
			2024-01-12 brk sell X 10 @18
			2024-01-22 two buy X 10 @17
			2024-02-01 two sell X 10 @15
			2024-02-11 her buy X 10 @14
			2024-02-21 her sell X 10 @12
			2024-03-02 brk buy X 10 @11`, `
			2024-03-02 brk holds X 10 basis=170 adjusted=60 from=2024-02-02
			2024-01-12 brk sold X 10 of=2024-01-02 short=-20 disallowed=20 for=10
			2024-02-01 two sold X 10 of=2024-01-22 short=-40 disallowed=40 for=10
			2024-02-21 her sold X 10 of=2024-02-11 short=-60 disallowed=60 for=10
			2024-01-12 brk wash X 10 loss=20 disallowed=20 for=10 by 2024-01-22 two X 10
			2024-02-01 two wash X 10 loss=40 disallowed=40 for=10 by 2024-02-11 her X 10
			2024-02-21 her wash X 10 loss=60 disallowed=60 for=10 by 2024-03-02 brk X 10`},
		{"only a part is sold: the adjusted shares of a lot go before the others", "Reg. 1.1091-1(c), then section 1091(d)", `
			2023-01-10 brk buy X 4 @10
			2024-03-01 brk sell X 4 @8
			2024-03-10 brk buy X 10 @9
			2024-04-20 brk sell X 6 @7
			2024-05-01 brk buy X 5 @6`, `
			2024-03-10 brk holds X 4 basis=36
			2024-05-01 brk holds X 4 basis=40 adjusted=16 from=2023-01-31
			2024-05-01 brk holds X 1 basis=8 adjusted=2 from=2024-03-22
			2024-03-01 brk sold X 4 of=2023-01-10 long=-8 disallowed=8 for=4
			2024-04-20 brk sold X 4 of=2024-03-10 long=-16 disallowed=16 for=4
			2024-04-20 brk sold X 2 of=2024-03-10 short=-4 disallowed=2 for=1
			2024-03-01 brk wash X 4 loss=8 disallowed=8 for=4 by 2024-03-10 brk X 4
			2024-04-20 brk wash X 6 loss=20 disallowed=18 for=5 by 2024-05-01 brk X 5`},
		{"an adjusted basis turns a gain into a loss, and that loss is disallowed too", "section 1091(d), then 1091(a)", `
			2024-01-10 brk buy X 10 @10
			2024-01-20 brk sell X 10 @6
			2024-01-25 brk buy X 10 @7
			2024-02-05 brk sell X 10 @8
			2024-02-10 brk buy X 10 @8`, `
			2024-02-10 brk holds X 10 basis=110 adjusted=30 from=2024-01-21
			2024-01-20 brk sold X 10 of=2024-01-10 short=-40 disallowed=40 for=10
			2024-02-05 brk sold X 10 of=2024-01-25 short=-30 disallowed=30 for=10
			2024-01-20 brk wash X 10 loss=40 disallowed=40 for=10 by 2024-01-25 brk X 10
			2024-02-05 brk wash X 10 loss=30 disallowed=30 for=10 by 2024-02-10 brk X 10`},
		{"through two tickers that are declared identical", "section 1091(a): substantially identical", `
			2023-01-10 brk buy VOO 10 @400
			2024-03-01 brk sell VOO 10 @390
			2024-03-10 brk buy IVV 10 @391
			2024-04-20 brk sell IVV 10 @380
			2024-05-01 brk buy VOO 10 @381`, `
			2024-05-01 brk holds VOO 10 basis=4020 adjusted=210 from=2023-01-31
			2024-03-01 brk sold VOO 10 of=2023-01-10 long=-100 disallowed=100 for=10
			2024-04-20 brk sold IVV 10 of=2024-03-10 long=-210 disallowed=210 for=10
			2024-03-01 brk wash VOO 10 loss=100 disallowed=100 for=10 by 2024-03-10 brk IVV 10
			2024-04-20 brk wash IVV 10 loss=210 disallowed=210 for=10 by 2024-05-01 brk VOO 10`},
		{"through a split of the replacement", "section 307 after 1091(d)", `
			2023-01-10 brk buy X 10 @10
			2024-03-01 brk sell X 10 @8
			2024-03-10 brk buy X 10 @9
			2024-03-15 - split X ratio=2:1
			2024-04-20 brk sell X 20 @4
			2024-05-01 ira buy X 5 @4`, `
			2024-05-01 ira holds X 5 basis=20
			2024-03-01 brk sold X 10 of=2023-01-10 long=-20 disallowed=20 for=10
			2024-04-20 brk sold X 20 of=2024-03-10 long=-30 disallowed=7.5 for=5
			2024-03-01 brk wash X 10 loss=20 disallowed=20 for=10 by 2024-03-10 brk X 10
			2024-04-20 brk wash X 20 loss=30 disallowed=7.5 for=5 permanent=7.5 by 2024-05-01 ira X 5`},
	})
}
