package portfolio

import (
	"strings"
	"testing"

	"signalbox/internal/portfolio/answer"
	"signalbox/internal/portfolio/tax"
)

// TestSection1091LaterRows: 10 shares bought at $20 are sold at $10 on 31 December, a loss of $100.
// A purchase of 4 on 5 January disallows 4 × $10 = $40 of it.
func TestSection1091LaterRows(t *testing.T) {
	const rows = "-- transactions/brk.csv --\n" + header + "2024-01-10,brk,buy,SLV,10,20,,,\n" +
		"2025-12-31,brk,sell,SLV,10,10,,,\n2024-02-10,brk,buy,GLD,10,20,,,\n" +
		"-- prices/2026.csv --\ndate,ticker,close\n2025-12-31,SLV,10\n2025-12-31,GLD,20\n"
	for _, tt := range []struct {
		name, later, says string
		disallowed, net   float64
	}{
		{"nothing later", "", "", 0, -100},
		{"within 30 days", "2026-01-05,brk,buy,SLV,4,10,,,\n",
			"1 purchase after 2025-12-31 changes this answer: SLV of 2026-01-05 in brk (transactions/later.csv:2). They disallow $40 of the year's losses, which the net counts.",
			40, -60},
		{"a day too late", "2026-01-31,brk,buy,SLV,4,10,,,\n", "", 0, -100},
		{"another ticker", "2026-01-05,brk,buy,GLD,4,10,,,\n", "", 0, -100},
	} {
		t.Run(tt.name, func(t *testing.T) {
			d := desk(t, folder(t, plain, rows, "-- transactions/later.csv --\n"+header+tt.later))
			a := askHarvest(t, d, HarvestQuery{AsOf: "2025-12-31"})
			r := fullHarvest(t, d, HarvestQuery{AsOf: "2025-12-31"})
			if a.message("later_purchases") != tt.says || floatOf(r.LaterDisallowed) != tt.disallowed ||
				floatOf(r.Net.Net) != tt.net {
				t.Errorf("%q, %s, net %s", a.message("later_purchases"), r.LaterDisallowed, r.Net.Net)
			}
			// What was known on the day stays as it was.
			if len(r.RealizedWashSales) != 0 {
				t.Errorf("%+v", r.RealizedWashSales)
			}
		})
	}
}

// TestSection1091LaterPurchaseOfACandidate: a candidate that is sold on the day would be replaced.
func TestSection1091LaterPurchaseOfACandidate(t *testing.T) {
	d := desk(t, folder(t, plain, rows("2026-06-20,ira,buy,SLV,4,10,,,")))
	a := askHarvest(t, d, HarvestQuery{AsOf: "2026-06-01"})
	if !strings.HasPrefix(a.message("later_purchases"),
		"1 purchase after 2026-06-01 changes this answer: SLV of 2026-06-20 in ira") {
		t.Errorf("%v", a.Flags)
	}
}

// TestSection1212CarryoverFromTransactions: $20,000 is lost in 2025, and $3,000 of it deducted.
// 2026 has a gain of $5,000 and a candidate with a loss of $100: 5,000 − 17,000 − 100 = −12,100.
func TestSection1212CarryoverFromTransactions(t *testing.T) {
	const rows = "-- transactions/brk.csv --\n" + header + "2025-01-10,brk,buy,SLV,10,20,,,\n" +
		"2025-02-10,brk,buy,ABC,1000,30,,,\n2025-06-10,brk,sell,ABC,1000,10,,,\n" +
		"2026-01-12,brk,buy,XYZ,100,50,,,\n2026-03-02,brk,sell,XYZ,100,100,,,\n"
	for _, tt := range []struct {
		name, realized, more string
		net                  float64
		flag, says           string
	}{
		{"computed", "", "", -12_100, "carryover_computed",
			"$17,000 of losses are carried over, by the transactions of earlier years — set what your tax return says under realized in portfolio.yaml"},
		{"the tax return wins", "realized: {carryover_short: 18000}", "", -13_100,
			"carryover_differs",
			"$18,000 of losses are carried over by portfolio.yaml, which counts, and $17,000 by the transactions of earlier years"},
		{"zero of the tax return wins too", "realized: {carryover_short: 0, carryover_long: 0}", "",
			4_900, "carryover_differs",
			"$0 of losses are carried over by portfolio.yaml, which counts, and $17,000 by the transactions of earlier years"},
		{"equal", "realized: {carryover_short: 17000}", "", -12_100, "", ""},
		{"a sale without a purchase: there is no number", "", "2025-07-01,brk,sell,OLD,5,10,,,\n",
			4_900, "carryover_unknown",
			"Losses carried over are not known, because sales of earlier years have no purchase or a missing record — set them under realized in portfolio.yaml, from your tax return"},
		{"such a sale of this year", "", "2026-05-01,brk,sell,OLD,5,10,,,\n", -12_100,
			"carryover_computed", ""},
		// $1,500 a year: 20,000 − 1,500 = 18,500.
		{"filing separately", "filing_status: married_separate", "", -13_600, "carryover_computed",
			"$18,500 of losses are carried over, by the transactions of earlier years — set what your tax return says under realized in portfolio.yaml"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			a := askHarvest(t, desk(t, folder(t, plain, rows+tt.more,
				"-- portfolio.yaml --\naccounts: [{id: brk}, {id: ira, kind: ira}]\n"+tt.realized+
					"\n")), HarvestQuery{})
			if a.Snapshot["net_after_harvest"] != tt.net {
				t.Errorf("net %v, want %v", a.Snapshot["net_after_harvest"], tt.net)
			}
			for _, flag := range []string{"carryover_computed", "carryover_differs",
				"carryover_unknown"} {
				if got := a.message(flag); (got != "") != (flag == tt.flag) || got != "" &&
					tt.says != "" && got != tt.says {
					t.Errorf("%s: %q", flag, got)
				}
			}
		})
	}
}

// TestSection1256AndAverageCostAreNotOffered: their lots are not candidates (section 1256; Reg.
// 1.1012-1(e) for funds at average cost), and the answer names them.
func TestSection1256AndAverageCostAreNotOffered(t *testing.T) {
	for _, tt := range []struct{ ticker, setting, flag string }{
		{"SPXW260918C05000000", "", "index_options"}, {"VTSAX", "", "average_cost"},
		{"VTSAX", "average_cost: []", ""}, {"VTSAX", "average_cost: [SLV]", ""},
		{"ABC", "average_cost: [ABC]", "average_cost"}, {"ABC", "", ""}, {"SWVXX", "", ""},
	} {
		d := desk(t, folder(t, plain, rows("2026-01-12,brk,buy,"+tt.ticker+",1,500,,,"),
			"-- prices/more.csv --\ndate,ticker,close\n2026-06-30,"+tt.ticker+",300\n",
			"-- portfolio.yaml --\naccounts: [{id: brk}, {id: ira, kind: ira}]\n"+tt.setting+"\n"))
		a, offered := askHarvest(t, d, HarvestQuery{}), false
		for _, c := range fullHarvest(t, d, HarvestQuery{}).Candidates {
			offered = offered || c.Ticker == tt.ticker
		}
		if offered != (tt.flag == "") {
			t.Errorf("%+v: offered %t", tt, offered)
		}
		for _, flag := range []string{"index_options", "average_cost"} {
			if got := strings.HasSuffix(a.message(flag), ": "+tt.ticker); got != (flag == tt.flag) {
				t.Errorf("%+v: %s %q", tt, flag, a.message(flag))
			}
		}
	}
}

// TestSection1211SeparateReturns: two persons who file separately do not add their losses (section
// 1211(b), $1,500 each), and a purchase of the one replaces what the other sold (Rev. Rul. 2008-5,
// Publication 550: your spouse buys substantially identical stock).
func TestSection1211SeparateReturns(t *testing.T) {
	const spouses = "-- portfolio.yaml --\naccounts: [{id: brk}, {id: her, owner: spouse}, {id: ira, kind: ira}]\nfiling_status: STATUS\n" +
		"-- transactions/her.csv --\n" + header + "2025-01-10,her,buy,GLD,10,50,,,\n2026-06-20,her,buy,SLV,4,10,,,\n" +
		"-- prices/more.csv --\ndate,ticker,close\n2026-06-30,GLD,20\n"
	for _, tt := range []struct {
		status, account   string
		total, disallowed float64
		spouse            string
	}{
		// brk: 10 × ($20 − $10) = $100, of which 4 shares are replaced: $60. her: 10 × $30 = $300.
		{"married_joint", "", -360, 40, ""},
		{"married_separate", "", -60, 40,
			"You file separately: the accounts of your spouse are in no total, ask for them by name: her"},
		{"married_separate", "her", -300, 0, ""},
		{"married_separate", "brk", -60, 40, ""},
	} {
		a := askHarvest(t, desk(t, folder(t, plain, replaced(spouses, "STATUS", tt.status))),
			HarvestQuery{Account: tt.account})
		disallowed, _ := a.Snapshot["disallowed_loss"].(float64)
		if a.Snapshot["total_harvestable_loss"] != tt.total || disallowed != tt.disallowed ||
			a.Snapshot["net_after_harvest"] != tt.total || a.message("spouse_left_out") != tt.spouse {
			t.Errorf("%+v: %v\n%v", tt, a.Snapshot, a.Flags)
		}
	}
}

// TestSection1091ExpectedReinvestments: a reinvestment is a purchase, also in a retirement account.
func TestSection1091ExpectedReinvestments(t *testing.T) {
	const series = "2026-03-05,ACCOUNT,reinvest,SLV,1,10,,,\n2026-04-06,ACCOUNT,reinvest,SLV,1,10,,,\n" +
		"2026-05-05,ACCOUNT,reinvest,SLV,1,10,,,\n2026-06-05,ACCOUNT,reinvest,SLV,1,10,,,"
	for _, account := range []string{"brk", "ira"} {
		a := askHarvest(t, desk(t, folder(t, plain, rows(replaced(series, "ACCOUNT", account)))),
			HarvestQuery{})
		if want := "Turn off reinvestments, or they make wash sales: SLV in " +
			account + " on 2026-07-05"; a.message("reinvestments_expected") != want {
			t.Errorf("%v", a.Flags)
		}
	}
	day := func(s string) tax.Date { d, _ := tax.ParseDate(s); return d }
	for series, want := range map[string]string{
		"2026-01-05 2026-02-05 2026-03-05":            "2026-04-05",
		"2025-10-31 2025-12-01 2025-12-31":            "2026-01-31",
		"2025-11-30 2025-12-31 2026-01-31":            "2026-02-28",
		"2025-09-22 2025-12-22 2026-03-23":            "2026-06-23",
		"2025-01-10 2025-07-11 2026-01-09":            "2026-07-09",
		"2024-12-20 2025-12-19 2026-12-18":            "2027-12-18",
		"2026-01-05 2026-01-12 2026-01-19":            "2026-01-26",
		"2026-01-05 2026-02-05":                       "", // too short
		"2026-01-05 2026-02-05 2026-05-05":            "", // not regular
		"2024-01-05 2026-01-05 2026-02-05 2026-03-05": "",
	} {
		var days []tax.Date
		for _, s := range strings.Fields(series) {
			days = append(days, day(s))
		}
		next, regular := nextOf(days)
		if got := next.String(); regular != (want != "") || regular && got != want {
			t.Errorf("%s: next %s, %t", series, got, regular)
		}
	}
}

// TestExpectedReinvestmentsEnd: a series that stopped, or whose shares were sold, has no next one.
func TestExpectedReinvestmentsEnd(t *testing.T) {
	const series = "2026-02-05,brk,reinvest,GLD,1,10,,,\n2026-03-05,brk,reinvest,GLD,1,10,,,\n2026-04-06,brk,reinvest,GLD,1,10,,,\n"
	const price = "-- prices/more.csv --\ndate,ticker,close\n2026-01-30,GLD,20\n"
	for _, tt := range []struct {
		asOf, more string
		want       []answer.ExpectedReinvestment
	}{
		{"2026-04-30", "", []answer.ExpectedReinvestment{{Ticker: "GLD", AccountID: "brk",
			Last: "2026-04-06", Next: "2026-05-06"}}},
		{"2026-05-10", "", []answer.ExpectedReinvestment{{Ticker: "GLD", AccountID: "brk",
			Last: "2026-04-06", Next: "2026-05-10"}}},
		{"2026-05-17", "", nil},
		{"2026-04-30", "2026-04-07,brk,sell,GLD,3,20,,,\n", nil},
	} {
		r := fullHarvest(t, desk(t, folder(t, plain, price, rows(series+tt.more))),
			HarvestQuery{AsOf: tt.asOf})
		if len(tt.want) == 0 && len(r.ExpectedReinvestments) == 0 {
			continue
		}
		wantEqual(t, tt.want, r.ExpectedReinvestments)
	}
}
