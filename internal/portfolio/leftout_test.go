package portfolio

import (
	"slices"
	"testing"
)

// TestLeftOutRecordsPublication550SpinOff: a spin-off moves a part of the basis of each lot to new
// shares (Publication 550, nontaxable corporate distributions), and the record does not contain the
// amount. So the lot of 10 SLV at $20, which looks like a loss of $100 at $10, is not a candidate.
func TestLeftOutRecordsPublication550SpinOff(t *testing.T) {
	const list = "-- left-out.csv --\nfile,line,why,record\nschwab.csv,7,WHY,RECORD\n"
	for _, tt := range []struct {
		name, why, record string
		unknown           bool
	}{
		{"the symbol", "a corporate action", "06/15/2026 Spin-off SLV", true},
		{"the description", "a corporate action",
			"06/15/2026 Spin-off NEWCO NEW COMPANY SPUN OFF FROM ISHARES (SLV)", true},
		{"an exchange", "a corporate action", "Merger XYZ exchanged for SLV", true},
		{"an assigned put", "opens or closes a short position or a written option, for which no lots are kept",
			"06/15/2026 Assigned SLV 06/12/2026 12.00 P", true},
		{"an assigned put by its symbol", "opens or closes a short position or a written option, for which no lots are kept",
			"ASSIGNED as of Jun-12-2026 -SLV260612P12", true},
		{"a written call, which does not change the shares", "opens or closes a short position or a written option, for which no lots are kept",
			"06/15/2026 Sell to Open SLV 06/12/2026 22.00 C", false},
		{"another ticker", "a corporate action", "06/15/2026 Spin-off SLVX from SLVP", false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			quoted := func(s string) string { return `"` + s + `"` }
			text := replaced(list, "WHY", quoted(tt.why), "RECORD", quoted(tt.record))
			d := desk(t, folder(t, plain, text))
			a := askHarvest(t, d, HarvestQuery{})
			candidates, coverage, loss, says := 1.0, 100.0, -100.0, ""
			if tt.unknown {
				candidates, coverage, loss = 0, 0, 0
				says = "Records that are missing changed the lots of 1 ticker, which are not offered: SLV (schwab.csv:7)"
			}
			if a.Snapshot["candidate_count"] != candidates ||
				a.Snapshot["data_coverage_pct"] != coverage ||
				a.Snapshot["total_harvestable_loss"] != loss || a.message("unknown_lots") != says {
				t.Errorf("%v\n%v", a.Snapshot, a.Flags)
			}
			if slices.Contains(a.names(), "success no_candidates") {
				t.Error("the answer says that all lots are at a gain")
			}
			if r := fullHarvest(t, d, HarvestQuery{}); slices.Equal(r.LeftOut[0].Tickers,
				[]string{"SLV"}) != tt.unknown {
				t.Errorf("%+v", r.LeftOut)
			}
		})
	}
}

// TestNotUnderstoodRecordsNameTickers: the same for a broker's file in the folder.
func TestNotUnderstoodRecordsNameTickers(t *testing.T) {
	const schwab = `
-- transactions/schwab.csv --
"Transactions  for account brk as of 06/30/2026"
"Date","Action","Symbol","Description","Quantity","Price","Fees & Comm","Amount"
"06/15/2026","Spin-off","NEWCO","SPUN OFF FROM SLV","5","","",""
`
	a := askHarvest(t, desk(t, folder(t, plain, schwab)), HarvestQuery{})
	if a.Snapshot["candidate_count"] != 0.0 || a.message("unknown_lots") !=
		"Records that are missing changed the lots of 1 ticker, which are not offered: SLV (transactions/schwab.csv:3)" {
		t.Errorf("%v\n%v", a.Snapshot, a.Flags)
	}
}

// TestOrderUnknownFlag: by LIFO, a sale takes what was bought that day, if that came first.
func TestOrderUnknownFlag(t *testing.T) {
	const timed = "-- transactions/brk.csv --\ndate,account,action,ticker,quantity,price,time\n2025-01-10,brk,buy,SLV,10,20,\n" +
		"2026-06-01,brk,buy,SLV,10,12,15:00:00\n2026-06-01,brk,sell,SLV,10,11,TIME\n"
	for time, says := range map[string]string{"": "1 sale took shares bought on the same day, and the records do not show which came first — add a time to both rows: transactions/brk.csv:4: 2026-06-01 SLV in brk",
		"10:00:00": ""} {
		a := askHarvest(t, desk(t, folder(t, plain,
			"-- portfolio.yaml --\naccounts: [{id: brk, lot_method: lifo}]\n",
			replaced(timed, "TIME", time))), HarvestQuery{})
		if got := a.message("order_unknown"); got != says {
			t.Errorf("at %q: %q", time, got)
		}
	}
}
