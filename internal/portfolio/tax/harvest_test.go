package tax

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/govalues/decimal"

	"signalbox/internal/testkit/must"
)

// formatHarvest formats a result in lines.
func formatHarvest(r *HarvestResult) string {
	var s strings.Builder
	for _, c := range r.Candidates {
		fmt.Fprintf(&s, "%s %s sell %s %s %s=-%s", c.LotDate, c.Account, c.Ticker, c.Quantity,
			term(c.LongTerm), c.Loss)
		if !c.DisallowedShares.IsZero() {
			fmt.Fprintf(&s, " disallowed=%s for=%s", c.DisallowedLoss, c.DisallowedShares)
		}
		if !c.PermanentLoss.IsZero() {
			fmt.Fprintf(&s, " permanent=%s", c.PermanentLoss)
		}
		if len(c.Causes) > 0 {
			fmt.Fprintf(&s, " by %s", formatReplacements(c.Causes))
		}
		if c.CombinedShares.Cmp(c.DisallowedShares) != 0 {
			fmt.Fprintf(&s, "; together disallowed=%s for=%s", c.CombinedLoss, c.CombinedShares)
		}
		if c.CleanFrom != r.AsOf {
			fmt.Fprintf(&s, "; clean from %s", c.CleanFrom)
		}
		s.WriteString("\n")
	}
	var c calc
	fmt.Fprintf(&s, "all %s: allowed %s, short %s, long %s, disallowed %s, permanent %s\n",
		c.add(r.AllowedLoss, r.DisallowedLoss).Trim(0), r.AllowedLoss, r.ShortTermLoss,
		r.LongTermLoss, r.DisallowedLoss, r.PermanentLoss)
	for _, e := range r.DoNotBuy {
		fmt.Fprintf(&s, "then do not buy %s before %s\n", strings.Join(e.Tickers, " "), e.Before)
	}
	for _, e := range r.DoNotBuyNow {
		fmt.Fprintf(&s, "now do not buy %s before %s\n", strings.Join(e.Tickers, " "), e.Before)
	}
	return s.String()
}

func parsePrices(tb testing.TB, text string) map[string]decimal.Decimal {
	tb.Helper()
	prices := make(map[string]decimal.Decimal)
	for _, f := range strings.Fields(text) {
		name, price, _ := strings.Cut(f, "=")
		prices[name] = dec(tb, price)
	}
	return prices
}

// TestHarvest has X at 8, and VOO and IVV at 400.
func TestHarvest(t *testing.T) {
	checkHarvest(t, []history{
		{"a clean loss, long-term", "section 1222(4)", `
			2023-01-10 brk buy X 10 @10`, `
			2023-01-10 brk sell X 10 long=-20
			all 20: allowed 20, short 0, long 20, disallowed 0, permanent 0
			then do not buy X before 2024-05-01`},
		{"gains, retirement accounts and lots at cost are not candidates", "section 165 and 408(e)(1)", `
			2023-01-10 brk buy X 10 @7
			2023-01-11 brk buy X 10 @8
			2023-01-12 ira buy X 10 @10`, `
			all 0: allowed 0, short 0, long 0, disallowed 0, permanent 0`},
		{"a purchase 30 days ago counts, one 31 days ago does not", "section 1091(a)", `
			2023-01-10 brk buy X 10 @10
			2024-02-29 two buy X 3 @7
			2024-03-01 two buy X 4 @7`, `
			2023-01-10 brk sell X 10 long=-20 disallowed=8 for=4 by 2024-03-01 two X 4; clean from 2024-04-01
			all 20: allowed 12, short 0, long 12, disallowed 8, permanent 0
			then do not buy X before 2024-05-01`},
		{"the lot itself is not its own replacement", "Rev. Rul. 56-602", `
			2024-03-20 brk buy X 10 @10`, `
			2024-03-20 brk sell X 10 short=-20
			all 20: allowed 20, short 20, long 0, disallowed 0, permanent 0
			then do not buy X before 2024-05-01`},
		{"sold alone, each lot is replaced by the other; sold together, none is", "Rev. Rul. 56-602: a sale that reduces the holding", `
			2024-03-20 brk buy X 10 @10
			2024-03-25 brk buy X 10 @9`, `
			2024-03-20 brk sell X 10 short=-20 disallowed=20 for=10 by 2024-03-25 brk X 10; together disallowed=0 for=0; clean from 2024-04-25
			2024-03-25 brk sell X 10 short=-10 disallowed=10 for=10 by 2024-03-20 brk X 10; together disallowed=0 for=0; clean from 2024-04-20
			all 30: allowed 30, short 30, long 0, disallowed 0, permanent 0
			then do not buy X before 2024-05-01`},
		{"a purchase in an IRA: permanently disallowed, and each replacement share counts once", "Rev. Rul. 2008-5 and Reg. 1.1091-1(e)", `
			2023-01-10 brk buy X 10 @10
			2023-01-12 two buy X 10 @11
			2024-03-25 ira reinvest X 4 @8`, `
			2023-01-12 two sell X 10 long=-30 disallowed=12 for=4 permanent=12 by 2024-03-25 ira X 4; together disallowed=0 for=0; clean from 2024-04-25
			2023-01-10 brk sell X 10 long=-20 disallowed=8 for=4 permanent=8 by 2024-03-25 ira X 4; clean from 2024-04-25
			all 50: allowed 42, short 0, long 42, disallowed 8, permanent 8
			then do not buy X before 2024-05-01`},
		{"clean only after the last purchase has left the window", "section 1091(a)", `
			2023-01-10 brk buy X 5 @10
			2024-03-05 ira buy X 10 @9
			2024-03-25 ira buy X 10 @9`, `
			2023-01-10 brk sell X 5 long=-10 disallowed=10 for=5 permanent=10 by 2024-03-05 ira X 5; clean from 2024-04-25
			all 10: allowed 0, short 0, long 0, disallowed 10, permanent 10
			then do not buy X before 2024-05-01`},
	})
}

// TestHarvestAcross has groups, options, and losses that are realized already.
func TestHarvestAcross(t *testing.T) {
	checkHarvest(t, []history{
		{"a group, and a call", "section 1091(a): substantially identical, or an option to acquire", `
			2023-01-10 brk buy VOO 150 @410
			2024-03-25 her buy IVV 20 @390
			2024-03-26 brk buy VOO240621C00450000 1 @500`, `
			2023-01-10 brk sell VOO 150 long=-1500 disallowed=1200 for=120 by 2024-03-25 her IVV 20, 2024-03-26 brk VOO240621C00450000 100; clean from 2024-04-26
			all 1500: allowed 300, short 0, long 300, disallowed 1200, permanent 0
			then do not buy IVV VOO before 2024-05-01`},
		{"a purchase does not replace twice; a realized loss restricts the ticker", "Reg. 1.1091-1(e)", `
			2023-01-10 brk buy X 10 @10
			2023-01-11 brk buy X 10 @10
			2024-03-10 two buy X 4 @7
			2024-03-20 brk sell X 10 @8`, `
			2023-01-11 brk sell X 10 long=-20
			2024-03-10 two sell X 4 long=-4
			all 24: allowed 24, short 0, long 24, disallowed 0, permanent 0
			then do not buy X before 2024-05-01
			now do not buy X before 2024-04-20`},
		{"a loss 30 days ago restricts the ticker for one more day, unless all of its shares are replaced; an older loss does not", "section 1091(a)", `
			2023-01-10 brk buy X 10 @10
			2023-01-10 brk buy VOO 10 @500
			2023-01-10 brk buy Z 10 @10
			2024-03-01 brk sell X 10 @8
			2024-03-02 brk sell VOO 10 @400
			2024-03-04 brk buy IVV 10 @300
			2024-02-29 brk sell Z 10 @8`, `
			all 0: allowed 0, short 0, long 0, disallowed 0, permanent 0
			now do not buy X before 2024-04-01`},
		{"a call is restricted as long as its stock: buying it replaces the stock", "section 1091(a)", `
			2024-01-02 brk buy X240621C00010000 1 @300
			2023-01-02 brk buy X 100 @10
			2024-03-10 brk sell X240621C00010000 1 @100
			2024-03-20 brk sell X 100 @8`, `
			all 0: allowed 0, short 0, long 0, disallowed 0, permanent 0
			now do not buy X before 2024-04-20
			now do not buy X240621C00010000 before 2024-04-20`},
		{"a put is not: buying it replaces only that put", "section 1091(a)", `
			2024-01-02 brk buy X240621P00010000 1 @300
			2023-01-02 brk buy X 100 @10
			2024-03-10 brk sell X240621P00010000 1 @100
			2024-03-20 brk sell X 100 @8`, `
			all 0: allowed 0, short 0, long 0, disallowed 0, permanent 0
			now do not buy X before 2024-04-20
			now do not buy X240621P00010000 before 2024-04-10`},
		{"a loss on a gift is counted from its value", "section 1015(a)", `
			2024-01-10 brk gift_in X 10 donor=1000 since=2010-01-01 value=90`, `
			2024-01-10 brk sell X 10 short=-10
			all 10: allowed 10, short 10, long 0, disallowed 0, permanent 0
			then do not buy X before 2024-05-01`},
	})
}

// checkHarvest harvests each history on 2024-03-31.
func checkHarvest(t *testing.T, tests []history) {
	t.Helper()
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r, err := Harvest(buildAt(t, tt.rows, "2024-03-31"),
				parsePrices(t, "X=8 VOO=400 IVV=400"), HarvestOptions{})
			must.Succeed(t, err)
			if diff := cmp.Diff(unindent(tt.want), formatHarvest(r)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestHarvestOptions(t *testing.T) {
	b := buildAt(t, `
		2022-01-10 brk buy A 10 @11
		2023-01-10 two buy B 1 @100
		2021-01-10 brk buy C 1000 @10
		2024-03-30 brk buy C 100 @9
		2023-01-10 brk buy D 10 @11`, "2024-03-31")
	prices := parsePrices(t, "A=10 B=50 C=9.9")
	for _, tt := range []struct {
		opts  HarvestOptions
		want  string
		below int
	}{
		{HarvestOptions{}, "C B A", 0},
		{HarvestOptions{SortBy: ByLossAmount}, "C B A", 0},
		{HarvestOptions{SortBy: ByLossPct}, "B A C", 0},
		{HarvestOptions{SortBy: ByDaysHeld}, "C A B", 0},
		{HarvestOptions{MinLoss: dec(t, "50")}, "C B", 1},
		{HarvestOptions{MinLoss: dec(t, "50.01")}, "C", 2},
		{HarvestOptions{Accounts: []string{"two"}}, "B", 0},
		{HarvestOptions{Accounts: []string{"two", "brk", "hifo"}}, "C B A", 0},
	} {
		r, err := Harvest(b, prices, tt.opts)
		must.Succeed(t, err)
		var got []string
		for _, c := range r.Candidates {
			got = append(got, c.Ticker)
		}
		if strings.Join(got, " ") != tt.want || r.BelowMinLoss != tt.below {
			t.Errorf("%+v: %v and %d below, want %s and %d", tt.opts, got, r.BelowMinLoss, tt.want,
				tt.below)
		}
	}
	for _, skip := range []bool{false, true} {
		r, err := Harvest(b, prices, HarvestOptions{SkipWashCheck: skip})
		if err != nil || r.DisallowedLoss.IsZero() != skip ||
			(len(r.Candidates[0].Causes) == 0) != skip {
			t.Errorf("skip %t: disallowed %s, %v", skip, r.DisallowedLoss, err)
		}
	}
	for _, opts := range []HarvestOptions{{SortBy: "name"}, {Accounts: []string{"unknown"}},
		{Accounts: []string{"two", "ira"}}} {
		if _, err := Harvest(b, prices, opts); err == nil {
			t.Errorf("Harvest(%+v) did not fail", opts)
		}
	}
}

// TestManyCauses: a candidate lists 32 purchases, but its amounts include all of them.
func TestManyCauses(t *testing.T) {
	text := "2023-01-10 brk buy X 100 @10\n" + strings.Repeat("2024-03-20 ira reinvest X 1 @7\n",
		40)
	r, err := Harvest(buildAt(t, text, "2024-03-31"), parsePrices(t, "X=8"), HarvestOptions{})
	must.Succeed(t, err)
	c := r.Candidates[0]
	if len(c.Causes) != 32 || c.DisallowedShares.String() != "40" ||
		c.DisallowedLoss.String() != "80" || c.PermanentLoss.String() != "80" {
		t.Errorf("%d causes, %s disallowed for %s, %s of it permanently", len(c.Causes),
			c.DisallowedLoss, c.DisallowedShares, c.PermanentLoss)
	}
}

// TestEqualCandidates: equal candidates are in the order of the book.
func TestEqualCandidates(t *testing.T) {
	b := buildAt(t, `
		2023-01-10 two buy X 10 @10
		2023-01-10 brk buy X 10 @10`, "2024-03-31")
	for _, by := range []SortBy{ByLossAmount, ByLossPct, ByDaysHeld} {
		r, err := Harvest(b, parsePrices(t, "X=8"), HarvestOptions{SortBy: by})
		must.Succeed(t, err)
		if r.Candidates[0].Account != "brk" || r.Candidates[1].Account != "two" {
			t.Errorf("by %s: %s, %s; want brk, two", by, r.Candidates[0].Account,
				r.Candidates[1].Account)
		}
	}
}

func TestCandidateFigures(t *testing.T) {
	b := buildAt(t, "2023-06-15 brk buy X 10 @10 fees=1 lot=q", "2024-06-15")
	r, err := Harvest(b, parsePrices(t, "X=7.07"), HarvestOptions{})
	must.Succeed(t, err)
	c := r.Candidates[0]
	if c.LongTerm || c.LongTermFrom.String() != "2024-06-16" || c.DaysHeld != 366 ||
		c.LotID != "q" || c.Loss.String() != "30.3" ||
		fmt.Sprintf("%.6f", c.LossPct) != "30.000000" || c.Value.String() != "70.7" {
		t.Errorf("%+v", c)
	}
}

// TestCover: what is held counts, by value; what was sold does not, even if its purchase is
// missing.
func TestCover(t *testing.T) {
	b := build(t, `
		2019-01-10 brk sell OLD 1000 @10
		2019-01-10 two sell OLDER 1000 @10
		2023-01-10 brk buy X 30 @10
		2023-01-10 ira sell Z 10 @10
		2023-01-10 - transfer Y 6 to=brk
		2023-01-10 two buy Y 4 @10
		2023-01-11 two sell Y 5 @10
		2023-01-12 two buy Y 4 @10`)
	prices := parsePrices(t, "X=10 Y=50 Z=1000 OLD=500 OLDER=500")
	missing := []Discrepancy{{Position{"brk", "Y"}, dec(t, "6"), dec(t, "0")}}
	for accounts, want := range map[string]Coverage{
		"": {Positions: 3, WithLots: 1, CountPct: 100.0 / 3, ValuePct: 100 * 300.0 / 750,
			Missing: missing},
		"brk": {Positions: 2, WithLots: 1, CountPct: 50, ValuePct: 100 * 300.0 / 600,
			Missing: missing},
		"two": {Positions: 1},
		"brk two ira": {Positions: 3, WithLots: 1, CountPct: 100.0 / 3, ValuePct: 100 * 300.0 / 750,
			Missing: missing},
		"hifo": {},
	} {
		got, err := Cover(b, prices, HarvestOptions{Accounts: strings.Fields(accounts)})
		must.Succeed(t, err)
		if diff := cmp.Diff(want, got, cmpopts.EquateApprox(0, 1e-6)); diff != "" {
			t.Errorf("%q (-want +got):\n%s", accounts, diff)
		}
	}
	// The broker's list of positions takes precedence over the rows.
	held := map[Position]decimal.Decimal{{"brk", "X"}: dec(t, "40"), {"brk", "NEW"}: dec(t, "1")}
	got, err := Cover(b, prices, HarvestOptions{Held: held})
	want := Coverage{Positions: 2, ValuePct: 75, NoPrice: []string{"NEW"}, Missing: []Discrepancy{
		{Position{"brk", "NEW"}, dec(t, "1"), dec(t, "0")},
		{Position{"brk", "X"}, dec(t, "40"), dec(t, "30")}}}
	if diff := cmp.Diff(want, got, cmpopts.EquateApprox(0, 1e-6)); err != nil || diff != "" {
		t.Errorf("with positions: %v (-want +got):\n%s", err, diff)
	}
}
