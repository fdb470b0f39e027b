package tax

import (
	"strings"
	"testing"

	"github.com/govalues/decimal"

	"signalbox/internal/testkit/must"
)

// TestSection355SpinOffs: the basis is divided by the published fraction, lot by lot.
func TestSection355SpinOffs(t *testing.T) {
	check(t, []history{
		{"1 new for 2 old, 20 percent of the basis: 100 × $10 becomes 800 and 200", "section 358(b)(2), Reg. 1.358-2(a)(2)(iv); section 1223(1)", `
			2023-01-10 brk buy X 100 @10
			2023-06-01 brk buy X 50 @20
			2024-03-01 - spin_off X new=S ratio=1:2 fraction=0.2`, `
			2023-01-10 brk holds S 50 basis=200
			2023-06-01 brk holds S 25 basis=200
			2023-01-10 brk holds X 100 basis=800
			2023-06-01 brk holds X 50 basis=800`},
		{"the shares received in an account, and cash for the half share: 0.5 × $8 = $4 of basis", "section 358; Rev. Rul. 66-365 for the cash", `
			2023-01-10 brk buy X 25 @16
			2023-01-10 two buy X 10 @16
			2024-03-01 brk spin_off X 12.5 new=S fraction=0.25
			2024-03-01 two spin_off X 5 new=S fraction=0.25
			2024-03-05 brk cash_in_lieu S 0.5 value=6`, `
			2023-01-10 brk holds S 12 basis=96
			2023-01-10 brk holds X 25 basis=300
			2023-01-10 two holds S 5 basis=40
			2023-01-10 two holds X 10 basis=120
			2024-03-05 brk sold S 0.5 of=2023-01-10 long=2`},
		{"they were not purchased: a loss on S 10 days before is not replaced", "section 1091(a)", `
			2023-01-10 brk buy X 100 @10
			2023-01-10 brk buy S 10 @9
			2024-02-20 brk sell S 10 @5
			2024-03-01 - spin_off X new=S ratio=1:1 fraction=0.5`, `
			2023-01-10 brk holds S 100 basis=500
			2023-01-10 brk holds X 100 basis=500
			2024-02-20 brk sold S 10 of=2023-01-10 long=-40`},
		{"a purchase of X replaces what was sold of X, not of S", "section 1091(a): another corporation", `
			2023-01-10 brk buy X 10 @10
			2024-03-01 - spin_off X new=S ratio=1:1 fraction=0.5
			2024-03-10 brk sell X 10 @4
			2024-03-10 brk sell S 10 @4
			2024-03-20 brk buy X 10 @4`, `
			2024-03-20 brk holds X 10 basis=50 adjusted=10 from=2023-01-21
			2024-03-10 brk sold X 10 of=2023-01-10 long=-10 disallowed=10 for=10
			2024-03-10 brk sold S 10 of=2023-01-10 long=-10
			2024-03-10 brk wash X 10 loss=10 disallowed=10 for=10 by 2024-03-20 brk X 10`},
		{"a loss that the lot took is divided too: (1,000 + 200) × 0.25 = 300, of which 50", "section 1091(d), section 358", `
			2024-01-10 brk buy X 100 @12
			2024-02-20 brk sell X 100 @10
			2024-02-25 brk buy X 100 @10
			2024-03-01 - spin_off X new=S ratio=1:1 fraction=0.25`, `
			2024-02-25 brk holds S 100 basis=300 adjusted=50 from=2024-01-16
			2024-02-25 brk holds X 100 basis=900 adjusted=150 from=2024-01-16
			2024-02-20 brk sold X 100 of=2024-01-10 short=-200 disallowed=200 for=100
			2024-02-20 brk wash X 100 loss=200 disallowed=200 for=100 by 2024-02-25 brk X 100`},
		{"a taxable one: a new lot with its value, and X keeps its basis", "section 301(d)", `
			2023-01-10 brk buy X 100 @10
			2024-03-01 brk spin_off X 20 new=S value=140`, `
			2024-03-01 brk holds S 20 basis=140
			2023-01-10 brk holds X 100 basis=1000`},
		{"without shares there is nothing to spin off", "no lot is invented", `
			2024-03-01 brk spin_off X 20 new=S fraction=0.1`, `
			2024-03-01 brk gap X 20: spun off from shares that were not bought`},
	})
}

// TestSection354Exchanges: lots keep date, basis and identity.
func TestSection354Exchanges(t *testing.T) {
	check(t, []history{
		{"a new ticker", "section 1223(1)", `
			2023-01-10 brk buy X 100 @10 lot=a
			2024-03-01 - exchange X new=Y ratio=1:1
			2024-03-05 brk sell Y 40 @12 lot=a`, `
			2023-01-10 brk holds Y 60 basis=600
			2024-03-05 brk sold Y 40 of=2023-01-10 long=80`},
		{"a merger at 3 for 2 into a ticker that is held, HIFO", "sections 354 and 358", `
			2023-01-10 hifo buy Y 10 @15
			2023-02-10 hifo buy X 100 @30
			2024-03-01 hifo exchange X 150 new=Y
			2024-03-05 hifo sell Y 150 @21`, `
			2023-01-10 hifo holds Y 10 basis=150
			2024-03-05 hifo sold Y 150 of=2023-02-10 long=150`},
		{"sold before, bought under the new ticker: 10 became 15, of which 6 replace 4 of the old", "Publication 550: predecessor and successor; section 1091(a)", `
			2023-01-10 brk buy X 10 @30
			2024-02-20 brk sell X 10 @20
			2024-03-01 - exchange X new=Y ratio=3:2
			2024-03-10 brk buy Y 6 @13`, `
			2024-03-10 brk holds Y 6 basis=118 adjusted=40 from=2023-01-30
			2024-02-20 brk sold X 10 of=2023-01-10 long=-100 disallowed=40 for=4
			2024-02-20 brk wash X 10 loss=100 disallowed=40 for=4 by 2024-03-10 brk Y 4`},
		{"a split before the merger counts, and a purchase on its day: 6 replace 3", "Publication 550; section 1091(a)", `
			2023-01-10 brk buy X 10 @30
			2024-02-20 brk sell X 10 @20
			2024-02-25 - split X ratio=2:1
			2024-03-01 - exchange X new=Y ratio=1:1
			2024-03-01 brk buy Y 6 @13`, `
			2024-03-01 brk holds Y 6 basis=108 adjusted=30 from=2023-01-21
			2024-02-20 brk sold X 10 of=2023-01-10 long=-100 disallowed=30 for=3
			2024-02-20 brk wash X 10 loss=100 disallowed=30 for=3 by 2024-03-01 brk Y 3`},
		{"bought under the old ticker, sold under the new one: 15 of the 20 of February", "Publication 550; section 1091(a)", `
			2023-01-10 brk buy X 10 @20
			2024-02-20 brk buy X 10 @12
			2024-03-01 - exchange X new=Y ratio=2:1
			2024-03-10 brk sell Y 15 @5`, `
			2023-01-10 brk holds Y 5 basis=50
			2024-02-20 brk holds Y 15 basis=165 adjusted=75 from=2022-12-23
			2024-02-20 brk holds Y 5 basis=30
			2024-03-10 brk sold Y 15 of=2023-01-10 long=-75 disallowed=75 for=15
			2024-03-10 brk wash Y 15 loss=75 disallowed=75 for=15 by 2024-02-20 brk X 15`},
		{"before the merger the two are different companies", "section 1091(a)", `
			2023-01-10 brk buy X 10 @20
			2024-02-10 brk buy Y 10 @12
			2024-02-20 brk sell X 10 @15
			2024-03-01 - exchange X new=Y ratio=1:1`, `
			2024-02-10 brk holds Y 10 basis=120
			2024-02-20 brk sold X 10 of=2023-01-10 long=-50`},
		{"a replacement stays one", "section 1091(d)", `
			2024-01-10 brk buy X 10 @20
			2024-02-20 brk sell X 10 @15
			2024-02-25 brk buy X 10 @15
			2024-03-01 - exchange X new=Y ratio=1:1
			2024-03-10 brk buy Y 10 @11
			2024-03-11 brk sell Y 10 @10 closed=10@2024-03-10`, `
			2024-02-25 brk holds Y 10 basis=200 adjusted=50 from=2024-01-16
			2024-02-20 brk sold X 10 of=2024-01-10 short=-50 disallowed=50 for=10
			2024-03-11 brk sold Y 10 of=2024-03-10 short=-10
			2024-02-20 brk wash X 10 loss=50 disallowed=50 for=10 by 2024-02-25 brk X 10`},
		// Each old share gets $5 and one new share of $12.
		{"$5 a share in cash: a gain of 7 counts up to 5, one of 2 as 2, and a loss of 3 does not", "section 356(a)(1) and (c), section 358(a)(1)", `
			2023-01-10 brk buy X 10 @10
			2023-02-10 brk buy X 10 @15
			2023-12-10 brk buy X 10 @20
			2024-03-01 - exchange X @5 new=Y ratio=1:1 newprice=12`, `
			2023-01-10 brk holds Y 10 basis=100
			2023-02-10 brk holds Y 10 basis=120
			2023-12-10 brk holds Y 10 basis=150
			2024-03-01 brk sold X 0 of=2023-01-10 long=50
			2024-03-01 brk sold X 0 of=2023-02-10 long=20`},
		{"two lots without an id keep two names", "the package comment", `
			2023-01-10 brk buy X 10 @20
			2023-01-10 brk buy Y 10 @30
			2024-03-01 - exchange X new=Y ratio=1:1
			2024-03-11 brk sell Y 10 @25 lot=2023-01-10#2`, `
			2023-01-10 brk holds Y 10 basis=300
			2024-03-11 brk sold Y 10 of=2023-01-10 long=50`},
		{"all three: split, spin-off and exchange on one day, in the order of rows after the split", "the package comment", `
			2023-01-10 brk buy X 10 @20
			2024-03-01 - exchange X new=Y ratio=1:1
			2024-03-01 - split X ratio=2:1
			2024-03-01 - spin_off Y new=S ratio=1:1 fraction=0.5`, `
			2023-01-10 brk holds S 20 basis=100
			2023-01-10 brk holds Y 20 basis=100`},
	})
	// Do not buy the new ticker after a loss on the old one.
	b := buildAt(t, `
		2023-01-10 brk buy X 10 @20
		2024-02-20 brk sell X 10 @15
		2024-03-01 - exchange X new=Y ratio=1:1`, "2024-03-05")
	var got []string
	for _, r := range restrictions(b.restricted) {
		got = append(got, strings.Join(r.Tickers, ",")+" "+r.Before.String())
	}
	if s := strings.Join(got, "; "); s != "X 2024-03-22; Y 2024-03-22" {
		t.Errorf("restricted: %s", s)
	}
}

func TestCorporateFaults(t *testing.T) {
	for row, want := range map[string]string{
		"brk spin_off X 5":                            "the spin_off has no new_ticker",
		"brk spin_off X 5 new=X fraction=0.1":         "has no new_ticker",
		"- spin_off X 5 new=S fraction=0.1":           "has no ratio",
		"brk spin_off X 5 new=S":                      "needs either basis_fraction",
		"brk spin_off X 5 new=S fraction=0.1 value=5": "needs either basis_fraction",
		"- spin_off X new=S ratio=1:1 value=5":        "needs either basis_fraction",
		"brk spin_off X 5 new=S fraction=1":           "is not below 1",
		"brk exchange X 5 new=S value=100":            "the exchange has a value",
		"brk exchange X 5 @5 new=S":                   "the exchange needs both or none",
		"brk exchange X 5 new=S newprice=5":           "the exchange needs both or none",
		"brk exchange X new=S":                        "has no ratio",
		"brk cash_in_lieu S 0.5":                      "the cash in lieu has no value",
	} {
		if _, err := Build(household(), rows(t, "2024-06-03 "+row), day(t,
			farFuture)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", row, err)
		}
	}
}

// TestSection1091SpunOffSharesReplaceNothing: S of a recent lot of X does not replace S of an old
// one, because it was not purchased.
func TestSection1091SpunOffSharesReplaceNothing(t *testing.T) {
	b := buildAt(t, `
		2023-01-10 brk buy X 10 @20
		2024-02-20 brk buy X 10 @20
		2024-03-01 - spin_off X new=S ratio=1:1 fraction=0.5`, "2024-03-05")
	r, err := Harvest(b, map[string]decimal.Decimal{"S": dec(t, "4")}, HarvestOptions{})
	must.Succeed(t, err)
	if len(r.Candidates) != 2 || !r.DisallowedLoss.IsZero() ||
		!r.Candidates[0].DisallowedLoss.IsZero() || !r.Candidates[1].DisallowedLoss.IsZero() {
		t.Errorf("%s", formatHarvest(r))
	}
}
