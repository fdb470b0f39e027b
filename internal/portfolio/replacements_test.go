package portfolio

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
)

// TestReplacements: SLV and KO are at a loss, and a loss on GLD was realized on 15 June.
func TestReplacements(t *testing.T) {
	const more = "2026-01-12,brk,buy,KO,10,80,,,\n2026-01-12,brk,buy,GLD,4,40,,,\n2026-06-15,brk,sell,GLD,4,30,,,"
	const prices = "-- prices/more.csv --\ndate,ticker,close\n2026-06-30,KO,60\n"
	config := func(replacements string) string {
		return "-- portfolio.yaml --\naccounts: [{id: brk}, {id: ira, kind: ira}]\nidentical: [[GLD, IAU]]\nreplacements: " +
			replacements + "\n"
	}
	for _, tt := range []struct {
		list      string
		harvested []string // to buy instead of SLV, if all losses are sold
		simulated []string // if SLV alone is
	}{
		{"[[SLV, PPLT, CPER], [PPLT, SLV, XME]]", []string{"PPLT", "CPER", "XME"}, []string{"PPLT", "CPER", "XME"}},
		{"[[SLV, KO, PPLT]]", []string{"PPLT"}, []string{"KO", "PPLT"}},
		{"[[SLV, GLD, IAU-X]]", []string{"IAU-X"}, []string{"IAU-X"}},
		{"[[SLV, BRK/B]]", []string{"BRK.B"}, []string{"BRK.B"}},
		{"[[VTI, SCHB]]", nil, nil},
	} {
		d := desk(t, folder(t, plain, config(tt.list), rows(more), prices))
		var got []string
		for _, e := range fullHarvest(t, d, HarvestQuery{AsOf: "2026-06-30"}).DoNotBuyBefore {
			if e.Ticker == "SLV" {
				got = e.Replacements
			}
		}
		if !slices.Equal(got, tt.harvested) {
			t.Errorf("%s: harvest offers %q, expected %q", tt.list, got, tt.harvested)
		}
		sale := d.Simulate(context.Background(), SimulateQuery{Ticker: "SLV", AccountID: "brk",
			AsOf: "2026-06-30"})
		if !slices.Equal(sale.Replacements, tt.simulated) {
			t.Errorf("%s: simulate offers %q, expected %q (%s)", tt.list, sale.Replacements,
				tt.simulated, sale.Error)
		}
		a := askHarvest(t, d, HarvestQuery{AsOf: "2026-06-30"})
		if n := strings.Count(fmt.Sprint(a.Snapshot["top_candidates"]), "replacements:"); (n > 0) != (tt.harvested != nil) {
			t.Errorf("%s: the snapshot has %d lists of replacements", tt.list, n)
		}
	}
}
