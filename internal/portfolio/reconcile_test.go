package portfolio

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"signalbox/internal/testkit/must"
)

// reconciled returns the positions as lines: account, ticker, shares by the list and by the lots,
// basis by both, and whether they agree.
func reconciled(t *testing.T, archives ...string) []string {
	t.Helper()
	list, err := desk(t, folder(t, archives...)).Reconcile(context.Background())
	must.Succeed(t, err)
	var lines []string
	for _, c := range list {
		listed, off := "none", "none"
		if c.ListedBasis != nil {
			listed = c.ListedBasis.String()
		}
		if c.BasisDifference != nil {
			off = c.BasisDifference.String()
		}
		line := fmt.Sprintf("%s %s %s %s, %s %s off %s, agrees %t", c.Account, c.Ticker, c.Shares,
			c.Lots, c.Basis, listed, off, c.Agrees)
		if c.WashSales.IsPos() {
			line += " with " + c.WashSales.String() + " of wash sales"
		}
		for _, r := range c.Records {
			line += "; " + r
		}
		lines = append(lines, line)
	}
	return lines
}

// TestReconcile: SLV cost 10 × $20 = $200. GLD was sold at a loss of $40 and bought again, which the
// broker of two accounts does not know: 4 × $30 + $40 = $160, and not $120.
func TestReconcile(t *testing.T) {
	const list = "-- positions.csv --\ndate,account,ticker,quantity,basis\n"
	const gld = "2026-01-12,brk,buy,GLD,4,40,,,\n2026-02-02,brk,sell,GLD,4,30,,,\n2026-02-10,brk,buy,GLD,4,30,,,"
	for _, tt := range []struct{ name, rows, list, want string }{
		{"equal", "", "2026-06-30,brk,SLV,10,200\n", "brk SLV 10 10, 200 200 off 0, agrees true"},
		{"a cent of rounding", "", "2026-06-30,brk,SLV,10,200.01\n",
			"brk SLV 10 10, 200 200.01 off -0.01, agrees true"},
		{"another basis", "", "2026-06-30,brk,SLV,10,199\n",
			"brk SLV 10 10, 200 199 off 1, agrees false"},
		{"no basis", "", "2026-06-30,brk,SLV,10,\n", "brk SLV 10 10, 200 none off none, agrees true"},
		{"other shares", "", "2026-06-30,brk,SLV,9,180\n",
			"brk SLV 9 10, 200 180 off none, agrees false"},
		{"a wash sale", gld, "2026-06-30,brk,SLV,10,200\n2026-06-30,brk,GLD,4,120\n", `
brk GLD 4 4, 160 120 off 40, agrees false with 40 of wash sales
brk SLV 10 10, 200 200 off 0, agrees true`},
		{"not on the list", gld, "2026-06-30,brk,SLV,10,200\n", `
brk GLD 0 4, 160 none off none, agrees false with 40 of wash sales
brk SLV 10 10, 200 200 off 0, agrees true`},
		{"without a purchase", "2026-03-02,brk,sell,KO,1,60,,,", "2026-06-30,brk,SLV,10,200\n2026-06-30,brk,KO,5,1\n", `
brk KO 5 0, 0 1 off none, agrees false; transactions/more.csv:2: sold without a buy of 1 KO
brk SLV 10 10, 200 200 off 0, agrees true`},
		{"on the day of the list", gld, "2026-01-31,brk,SLV,10,200\n2026-01-31,brk,GLD,4,160\n", `
brk GLD 4 4, 160 160 off 0, agrees true
brk SLV 10 10, 200 200 off 0, agrees true`},
		{"a retirement account on another day", "2026-06-10,ira,buy,SLV,4,10,,,", "2026-06-30,brk,SLV,10,200\n2026-05-30,ira,SLV,0,0\n", `
brk SLV 10 10, 200 200 off 0, agrees true
ira SLV 0 0, 0 0 off 0, agrees true`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			want := strings.Split(strings.TrimSpace(tt.want), "\n")
			wantEqual(t, want, reconciled(t, plain, rows(tt.rows), list+tt.list))
		})
	}
	if _, err := desk(t, folder(t, plain)).Reconcile(context.Background()); err == nil ||
		!strings.Contains(err.Error(), "no list of positions") {
		t.Errorf("without a list: %v", err)
	}
}
