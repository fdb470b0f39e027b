package portfolio

import (
	"context"
	"strings"
	"testing"
)

const (
	corporateHeader = "date,account,action,ticker,quantity,price,ratio,value,new_ticker,basis_fraction\n"
	afterSpinOff    = plain + "-- transactions/ira.csv --\n" + header + "2025-02-10,ira,buy,SLV,4,20,,,\n" +
		"-- prices/more.csv --\ndate,ticker,close\n2026-06-30,SPUN,5\n2026-06-30,NEW,6\n"
)

// TestSection355SpinOffInAPortfolio: a quarter of $200 moves to 5 shares. They are worth $25, so that
// $25 can be harvested, and $150 − $100 = $50 of SLV.
func TestSection355SpinOffInAPortfolio(t *testing.T) {
	d := desk(t, folder(t, afterSpinOff, "-- transactions/actions.csv --\n"+corporateHeader+
		"2026-05-04,,spin_off,SLV,,,1:2,,SPUN,0.25\n"))
	wantLines(t, lots(t, d, ""), `
brk SLV 2025-01-10 2025-01-11 10 150 0
brk SPUN 2025-01-10 2025-01-11 5 50 0
ira SLV 2025-02-10 2025-02-11 4 60 0
ira SPUN 2025-02-10 2025-02-11 2 20 0`)
	if a := askHarvest(t, d, HarvestQuery{}); a.Snapshot["total_harvestable_loss"] != -75.0 ||
		a.Snapshot["data_coverage_pct"] != 100.0 {
		t.Errorf("%v", a.Snapshot)
	}
}

// TestSection354ExchangeInAPortfolio: the lots have the new ticker, which can be asked for.
func TestSection354ExchangeInAPortfolio(t *testing.T) {
	d := desk(t, folder(t, afterSpinOff, "-- transactions/actions.csv --\n"+corporateHeader+
		"2026-05-04,,exchange,SLV,,,3:2,,NEW,\n"))
	wantLines(t, lots(t, d, ""), `
brk NEW 2025-01-10 2025-01-11 15 200 0
ira NEW 2025-02-10 2025-02-11 6 80 0`)
	// 15 × $6 − $200 = −$110.
	r := d.Simulate(context.Background(), SimulateQuery{Ticker: "NEW", AccountID: "brk"})
	if r.LongTerm.String() != "-110" {
		t.Errorf("%s %+v", r.Error, r.SaleOutcome)
	}
}

func TestCorporateActionProblems(t *testing.T) {
	for _, tt := range []struct{ name, files, kind, says string }{
		{"in one account only", "2026-05-04,brk,spin_off,SLV,5,,,,SPUN,0.25\n", MissingSplit,
			"SLV had a spin-off on 2026-05-04 in account brk, and not in ira, which held it"},
		{"exchanged in one account only", "2026-05-04,brk,exchange,SLV,5,,,,NEW,\n", MissingSplit,
			"SLV was exchanged on 2026-05-04 in account brk, and not in ira, which held it"},
		{"a price from before it", "2026-07-01,,spin_off,SLV,,,1:2,,SPUN,0.25\n", MissingPrice,
			"the last price of SLV is from 2026-06-30, before its split or spin-off on 2026-07-01"},
		{"positions from before it", "2026-05-04,,exchange,SLV,,,1:1,,NEW,\n" +
			"-- positions.csv --\naccount,ticker,quantity,date\nbrk,SLV,10,2026-04-30\n", NotComputable,
			"the positions of brk are from 2026-04-30, before SLV was exchanged on 2026-05-04"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := fullHarvest(t, desk(t, folder(t, afterSpinOff, "-- transactions/actions.csv --\n"+
				corporateHeader+tt.files)), HarvestQuery{})
			if r.ErrorKind != tt.kind || !strings.Contains(r.Error, tt.says) {
				t.Errorf("%s: %s", r.ErrorKind, r.Error)
			}
		})
	}
}

// TestSection356CashOnForm8949: 10 shares that cost $100 become 10 at $12 and $50 in cash. The gain
// is 120 + 50 − 100 = $70; only the $50 in cash count.
func TestSection356CashOnForm8949(t *testing.T) {
	d := desk(t, folder(t, "-- portfolio.yaml --\naccounts: [{id: brk, form_1099: basis}]\n"+
		"-- transactions/t.csv --\ndate,account,action,ticker,quantity,price,ratio,new_ticker,new_price\n"+
		"2025-01-10,brk,buy,OLDT,10,10,,,\n2025-06-02,,exchange,OLDT,,5,1,NEWT,12\n"))
	r := d.Gains(context.Background(), GainsQuery{Year: "2025"})
	wantLines(t, gainLines(r), `
A | Cash in exchange of OLDT for NEWT | 2025-01-10 | 2025-06-02 | 50 | 0 | | 0 | 50`)
	wantLines(t, lots(t, d, ""), "brk NEWT 2025-01-10 2025-01-11 10 100 0")
}
