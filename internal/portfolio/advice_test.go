package portfolio

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"signalbox/brief"
	"signalbox/internal/portfolio/answer"
	"signalbox/internal/testkit/must"
)

// methods is a portfolio in which the older lot is at a gain and the newer one at a loss. METHOD is
// the method of the account.
const methods = `
-- portfolio.yaml --
accounts: [{id: brk, lot_method: METHOD}]
-- transactions/brk.csv --
` + header + `2020-01-10,brk,buy,XYZ,100,10,,,
2021-01-10,brk,buy,XYZ,100,100,,,
-- prices/2026.csv --
date,ticker,close
2026-06-30,XYZ,80
`

// fullHarvest returns the full result of a harvest.
func fullHarvest(t *testing.T, d *Desk, q HarvestQuery) answer.HarvestResult {
	t.Helper()
	q.Format = string(brief.FormatFull)
	var r answer.HarvestResult
	must.Succeed(t, json.Unmarshal(d.SuggestTaxLossHarvest(context.Background(), q).JSON,
		&r))
	return r
}

// TestHarvestDoesNotPromiseWhatASaleWouldNotRealize compares the answer in all formats with what a
// sale realizes.
func TestHarvestDoesNotPromiseWhatASaleWouldNotRealize(t *testing.T) {
	const gain = "selling 100 XYZ realizes a gain of $7,000"
	for _, tt := range []struct {
		method     string
		loss       float64
		candidates int
		flag, says string
	}{
		{"fifo", 0, 0, "lots_not_reached",
			"identify lot 2021-01-10#1 to the broker; without that fifo applies, and " + gain},
		{"specific", -2000, 1, "identify_lots",
			"identify lot 2021-01-10#1 to the broker; without that fifo applies, and " + gain},
		{"lifo", -2000, 1, "harvest_available", "$2,000 in harvestable losses across 1 lots"},
		{"hifo", -2000, 1, "harvest_available", "$2,000 in harvestable losses across 1 lots"},
		{"min_tax", -2000, 1, "harvest_available", "$2,000 in harvestable losses across 1 lots"},
	} {
		t.Run(tt.method, func(t *testing.T) {
			d := desk(t, folder(t, strings.ReplaceAll(methods, "METHOD", tt.method)))
			a := askHarvest(t, d, HarvestQuery{})
			if a.Snapshot["total_harvestable_loss"] != tt.loss ||
				a.Snapshot["candidate_count"] != float64(tt.candidates) ||
				!strings.Contains(a.message(tt.flag), tt.says) {
				t.Errorf("%v\n%v", a.Snapshot, a.Flags)
			}
			r := fullHarvest(t, d, HarvestQuery{Output: "file"})
			if len(r.Candidates) != tt.candidates || floatOf(r.Net.NetLongTerm) != tt.loss ||
				len(r.NotReached) != 1-tt.candidates {
				t.Errorf("%+v", r)
			}
			for _, c := range r.Candidates {
				if c.IdentifyLot == (floatOf(*c.PlainSale.Gain) < 0) ||
					c.IdentifyLot != (tt.method == "specific") {
					t.Errorf("%+v", c)
				}
			}
			var report struct{ Report string }
			must.Succeed(t, json.Unmarshal(d.SuggestTaxLossHarvest(context.Background(),
				HarvestQuery{Format: "report"}).JSON, &report))
			if strings.Contains(report.Report, "-$2,000.00") != (tt.candidates == 1 ||
				tt.method == "fifo") ||
				strings.Contains(report.Report, gain) == (tt.flag == "harvest_available") {
				t.Error(report.Report)
			}
		})
	}
}

// TestSharesNotHeldAreNotOffered: a sell from a lot that does not exist, and a short sale with its
// cover.
func TestSharesNotHeldAreNotOffered(t *testing.T) {
	for _, tt := range []struct{ name, rows, record string }{
		{"a mistyped lot", "2023-01-10,brk,buy,SLV,100,20,,,lot-1\n2023-02-10,brk,sell,SLV,100,15,,,lot-l\n",
			`transactions/brk.csv:3: sold from a lot that does not exist of 100 SLV (lot_id "lot-l")`},
		{"a transfer of a mistyped lot",
			"2023-01-10,brk,buy,SLV,100,20,,,lot-1\n2023-02-10,brk,transfer,SLV,100,,,,lot-l\n",
			`transactions/brk.csv:3: transferred without a buy of 100 SLV (lot_id "lot-l")`},
		{"a short sale and its cover",
			"2023-01-10,brk,sell,SLV,100,25,,,\n2023-02-10,brk,buy,SLV,100,20,,,\n",
			"transactions/brk.csv:2: sold without a buy of 100 SLV"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			d := desk(t, folder(t, plain, "-- transactions/brk.csv --\n"+header+tt.rows))
			a := askHarvest(t, d, HarvestQuery{})
			if a.Snapshot["candidate_count"] != 0.0 || !strings.Contains(a.message("lots_not_held"),
				"SLV in brk: 0 held, lots of 100 ("+tt.record+")") {
				t.Errorf("%v", a.Flags)
			}
			if exit := askExits(t, d,
				ExitQuery{Ticker: "SLV"}); exit.Snapshot["error_kind"] != NotHeld {
				t.Errorf("exits: %v", exit.Snapshot)
			}
			if lots, err := d.Lots(context.Background(), LotsQuery{}); err != nil ||
				len(lots) != 1 || !lots[0].NotHeld {
				t.Errorf("lots %+v, %v", lots, err)
			}
			// With the broker's list of positions it is known what is held.
			put(t, filepath.Join(d.dir, "positions.csv"), "account,ticker,quantity\nbrk,SLV,100\n")
			if a := askHarvest(t, d, HarvestQuery{}); a.Snapshot["candidate_count"] != 1.0 ||
				a.message("lots_not_held") != "" {
				t.Errorf("with positions: %v", a.Flags)
			}
		})
	}
}

// TestPositions compares the lots of SLV, 10 shares, with lists of positions.
func TestPositions(t *testing.T) {
	const schwab = `"Positions for account Individual ...123 as of 03:34 PM ET, 2026/06/30"

"Symbol","Description","Qty (Quantity)","Price","Mkt Val (Market Value)","Security Type",
"SLV","ISHARES SILVER TRUST","QTY","$10.00","$100.00","ETFs & Closed End Funds",
"Cash & Cash Investments","--","--","--","$99.00","Cash and Money Market",
"Account Total","--","--","--","$199.00","--",
`
	const fidelity = `Account Number,Account Name,Symbol,Description,Quantity,Last Price,Last Price Change,Current Value
X12345678,Individual,SLV,ISHARES SILVER TRUST,QTY,$10.00,+$0.01,$100.00
X12345678,Individual,SPAXX**,HELD IN MONEY MARKET,,,,$250.00

"The data and information in this spreadsheet is provided to you solely for your use"

"Date downloaded Jun-30-2026 10:00 a.m ET"
`
	const names = `
-- portfolio.yaml --
accounts:
  - {id: brk, names: ["Individual ...123", X12345678]}
  - {id: ira, kind: ira}
`
	for _, tt := range []struct {
		name, positions string
		coverage        any
		flag, says      string
	}{
		{"equal", "account,ticker,quantity\nbrk,SLV,10\n", 100.0, "", ""},
		{"more are held", "account,ticker,quantity\nbrk,SLV,40\n", 25.0, "lots_missing",
			"SLV in brk: 40 held, lots of 10"},
		{"fewer are held", "account,ticker,quantity\nbrk,SLV,4\n", 0.0, "lots_not_held",
			"SLV in brk: 4 held, lots of 10"},
		{"another ticker, with its value",
			"account,ticker,quantity,price\nbrk,SLV,10,\nbrk,ABC,3,100\n", 25.0, "lots_missing",
			"ABC in brk: 3 held, lots of 0"},
		{"another ticker, without a value", "account,ticker,quantity\nbrk,SLV,10\nbrk,ABC,3\n",
			50.0, "lots_missing", "ABC in brk: 3 held, lots of 0"},
		{"not in the list", "account,ticker,quantity,price\nbrk,ABC,1,10\n", 0.0, "lots_not_held",
			"SLV in brk: 0 held, lots of 10"},
		{"rounded by the broker", "account,ticker,quantity\nbrk,SLV,10.001\n", 100.0, "", ""},
		{"a little more", "account,ticker,quantity\nbrk,SLV,10.1\n", 99.0, "lots_missing",
			"SLV in brk: 10.1 held, lots of 10"},
		{"another account", "account,ticker,quantity\nira,SLV,3\n", 100.0, "", ""},
		{"Schwab", strings.ReplaceAll(schwab, "QTY", "40"), 25.0, "lots_missing",
			"SLV in brk: 40 held, lots of 10"},
		{"Fidelity", strings.ReplaceAll(fidelity, "QTY", "40.000"), 25.0, "lots_missing",
			"SLV in brk: 40 held, lots of 10"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			check := func(d *Desk) {
				t.Helper()
				a := askHarvest(t, d, HarvestQuery{})
				if a.Snapshot["data_coverage_pct"] != tt.coverage || tt.flag != "" &&
					!strings.Contains(a.message(tt.flag), tt.says) {
					t.Errorf("coverage %v, want %v; %v", a.Snapshot["data_coverage_pct"],
						tt.coverage, a.Flags)
				}
				if tt.flag == "" && (a.message("lots_missing") != "" ||
					a.message("lots_not_held") != "") {
					t.Errorf("%v", a.Flags)
				}
			}
			check(desk(t, folder(t, plain, names, "-- positions.csv --\n"+tt.positions)))
			named := strings.Replace(names, "accounts:", "positions: broker/list.csv\naccounts:", 1)
			check(desk(t, folder(t, plain, named, "-- broker/list.csv --\n"+tt.positions)))
			d := desk(t, folder(t, plain, names))
			if _, err := d.ImportPositions(outside(t, "list.csv", tt.positions),
				ImportOptions{}); err != nil {
				t.Fatal(err)
			}
			check(d)
		})
	}
}

// TestPositionsOfAnotherDay: what was traded after the day of the list is added to it.
func TestPositionsOfAnotherDay(t *testing.T) {
	list := "-- positions.csv --\ndate,account,ticker,quantity\n2026-03-31,brk,SLV,DAY\n"
	for _, tt := range []struct{ name, quantity, rows, asOf, want string }{
		{"the same since", "10", "", "", ""},
		{"bought since", "10", "2026-05-05,brk,buy,SLV,5,20,,,", "", ""},
		{"sold since", "10", "2026-05-05,brk,sell,SLV,5,20,,,", "", ""},
		{"wrong since", "11", "2026-05-05,brk,sell,SLV,5,20,,,", "",
			"SLV in brk: 6 held, lots of 5"},
		{"before the list", "11", "", "2026-02-27", "SLV in brk: 11 held, lots of 10"},
		{"before the list, and traded in between", "11", "2026-03-05,brk,buy,SLV,5,20,,,",
			"2026-02-27", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			a := askHarvest(t, desk(t,
				folder(t, plain, strings.Replace(list, "DAY", tt.quantity, 1), rows(tt.rows))),
				HarvestQuery{AsOf: tt.asOf})
			if got := a.message("lots_missing"); (got == "") != (tt.want == "") ||
				!strings.Contains(got, tt.want) || a.message("lots_not_held") != "" {
				t.Errorf("%v", a.Flags)
			}
		})
	}
}

// TestPositionsAreKeptByAccount: importing the list of an account keeps those of others.
func TestPositionsAreKeptByAccount(t *testing.T) {
	d := desk(t, folder(t, plain))
	for _, list := range []string{"account,ticker,quantity\nbrk,SLV,10\nbrk,ABC,1\n",
		"account,ticker,quantity\nira,SLV,3\n", "account,ticker,quantity\nbrk,SLV,12.5\n"} {
		if _, err := d.ImportPositions(outside(t, "list.csv", list), ImportOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(filepath.Join(d.dir, "positions.csv"))
	if want := "date,account,ticker,quantity,price\n,ira,SLV,3,\n,brk,SLV,12.5,\n"; err != nil ||
		string(got) != want {
		t.Errorf("%s, %v; want %s", got, err, want)
	}
	for text, want := range map[string]string{
		"date,action,symbol,quantity,price\n":                "not positions",
		"a,b\n1,2\n":                                         "not a list of positions",
		"account,ticker,quantity\nxyz,SLV,1\n":               `account "xyz" is not in portfolio.yaml`,
		"account,ticker,quantity\nbrk,SLV,\n":                "no quantity",
		"account,ticker,quantity\nbrk,SLV,1\nbrk,SLV,2\n":    "each position once",
		"symbol,quantity\nSLV,1\n":                           "does not name its account",
		"account,ticker,quantity,date\nbrk,SLV,1,tomorrow\n": "is not a date",
	} {
		if _, err := d.ImportPositions(outside(t, "list.csv", text), ImportOptions{}); err == nil ||
			!strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %s", text, err, want)
		}
	}
}

// TestRecordsLeftOut: what an import leaves out is still reported afterwards.
func TestRecordsLeftOut(t *testing.T) {
	journal := schwabHead + `"05/20/2026","Journaled Shares","SLV","SILVER","-10","","",""` + "\n"
	bought := journal + `"05/20/2026","Buy","SLV","SILVER","10","$20.00","","-$200.00"` + "\n"
	for name, text := range map[string]string{"only such records": journal, "with rows": bought} {
		t.Run(name, func(t *testing.T) {
			d := desk(t, folder(t, plain,
				"-- portfolio.yaml --\naccounts: [{id: brk, names: [Individual XXXX-1234]}, {id: ira, kind: ira}]\n"))
			file := outside(t, "schwab.csv", text)
			if _, err := d.Import(file, ImportOptions{}); err == nil {
				t.Error("the file was imported without --leave-out")
			}
			for range 2 { // the second time changes nothing
				if _, err := d.Import(file, ImportOptions{LeaveOut: true}); err != nil {
					t.Fatal(err)
				}
				a := askHarvest(t, d, HarvestQuery{})
				if a.Snapshot["records_left_out_count"] != 1.0 ||
					!strings.HasPrefix(a.message("records_left_out"),
						"1 record that moved shares left out on import") {
					t.Errorf("%v", a.Flags)
				}
			}
			r := fullHarvest(t, d, HarvestQuery{})
			if len(r.LeftOut) != 1 || r.LeftOut[0].File != "schwab.csv" || r.LeftOut[0].Line != 3 {
				t.Errorf("%+v", r.LeftOut)
			}
			// The user has added a row for the record, and removes its line.
			put(t, filepath.Join(d.dir, leftOutFile), strings.Join(leftOutColumns(), ",")+"\n")
			if a := askHarvest(t, d, HarvestQuery{}); a.message("records_left_out") != "" {
				t.Errorf("%v", a.Flags)
			}
		})
	}
}

// TestCryptoHasNoWashSales: a purchase in the window does not matter, and the answer says so.
func TestCryptoHasNoWashSales(t *testing.T) {
	const coins = "-- transactions/coins.csv --\n" + header +
		"2025-01-10,brk,buy,TICKER,2,50,,,\n2026-06-20,ira,buy,TICKER,1,20,,,\n2026-02-10,brk,sell,TICKER,1,20,,,\n2026-02-15,brk,buy,TICKER,1,25,,,\n" +
		"-- prices/coins.csv --\ndate,ticker,close\n2026-06-30,TICKER,10\n"
	for _, tt := range []struct {
		ticker, crypto string
		exempt         bool
	}{
		{"BTC-USD", "", true}, {"ETH-USD", "", true}, {"BTC.USD", "", true}, {"BTC/USD", "", true},
		{"BTC-USD", "crypto: []", false}, {"ABC-USD", "", false},
		{"ABC-USD", "crypto: [ABC-USD]", true}, {"ABC/USD", "crypto: [ABC/USD]", true},
		{"BTC", "", false}, // a fund
	} {
		d := desk(t, folder(t, plain, strings.ReplaceAll(coins, "TICKER", tt.ticker),
			"-- portfolio.yaml --\n"+tt.crypto+"\naccounts: [{id: brk}, {id: ira, kind: ira}]\n"))
		a, r := askHarvest(t, d, HarvestQuery{}), fullHarvest(t, d, HarvestQuery{})
		washed := a.message("wash_sale_risk") != "" || len(r.RealizedWashSales) > 0 ||
			!r.DisallowedLoss.IsZero()
		restricted := slices.ContainsFunc(r.DoNotBuyBefore,
			func(d answer.DoNotBuy) bool { return d.Ticker != "SLV" })
		if washed == tt.exempt || restricted == tt.exempt ||
			(a.message("crypto") != "") != tt.exempt {
			t.Errorf("%+v: %v", tt, a.Flags)
		}
		for _, c := range r.Candidates {
			if c.Ticker != "SLV" && (c.WashSaleRules != "") != tt.exempt {
				t.Errorf("%+v: %+v", tt, c)
			}
		}
	}
}

// TestSoldCrypto: the answer also says so about crypto that was sold.
func TestSoldCrypto(t *testing.T) {
	a := askHarvest(t, desk(t,
		folder(t, plain, rows(
			"2026-01-02,brk,buy,BTC-USD,1,50,,,\n2026-02-02,brk,sell,BTC-USD,1,40,,,"))),
		HarvestQuery{})
	if !strings.Contains(a.message("crypto"), "not applied to BTC-USD") {
		t.Errorf("%v", a.Flags)
	}
}

// TestOptionPrices: a price per share for an option that was bought at a price per contract is
// pointed out.
func TestOptionPrices(t *testing.T) {
	const option = "AAPL260918C00150000"
	for _, tt := range []struct {
		bought, price string
		flagged       bool
	}{
		{"510", "5.10", true}, {"510", "7.9", true}, {"510", "3.1", true}, {"5.10", "510", true},
		{"510", "480", false}, {"510", "60", false}, {"510", "4000", false},
		{"510", "0.0001", false},
	} {
		d := desk(t, folder(t, plain, rows("2026-01-02,brk,buy,"+option+",1,"+tt.bought+",,,"),
			"-- prices/options.csv --\ndate,ticker,close\n2026-06-30,"+option+","+tt.price+"\n"))
		a := askHarvest(t, d, HarvestQuery{})
		if says := a.message("option_prices"); (says != "") != tt.flagged || tt.flagged &&
			!strings.Contains(says, option+" at "+strings.TrimSuffix(tt.price, "0")) {
			t.Errorf("bought at %s, now %s: %q", tt.bought, tt.price, says)
		}
		for _, c := range fullHarvest(t, d, HarvestQuery{}).Candidates {
			if want := map[bool]string{true: "contract", false: "share"}[c.Ticker == option]; c.PricePer != want {
				t.Errorf("the price of %s is per %s", c.Ticker, c.PricePer)
			}
		}
	}
}

// TestExitsOfAnOption: the symbol of an option may have the spaces of the OCC, in the question and
// in portfolio.yaml.
func TestExitsOfAnOption(t *testing.T) {
	const option = "AAPL260918C00150000"
	var prices strings.Builder
	for _, day := range []string{"2026-01-30", "2026-02-27", "2026-03-31", "2026-04-30",
		"2026-05-29"} {
		prices.WriteString(day + "," + option + ",500\n")
	}
	for _, key := range []string{option, "'AAPL  260918C00150000'"} {
		d := desk(t, folder(t, plain, rows("2026-01-02,brk,buy,"+option+",1,510,,,"),
			"-- prices/options.csv --\ndate,ticker,close\n"+prices.String()+"2026-06-30,"+option+
				",400\n",
			"-- portfolio.yaml --\naccounts: [{id: brk}, {id: ira, kind: ira}]\nexit_rules: {"+key+
				": {rules: {momentum_exit: {}}}}\n"))
		for _, ticker := range []string{option, "AAPL  260918C00150000", "aapl 260918c00150000",
			" AAPL260918C00150000 "} {
			response := d.CheckExitSignals(context.Background(),
				ExitQuery{Ticker: ticker, Output: "file"})
			a := agent(t, response)
			// Half of one contract cannot be sold.
			if a.Status != "success" || a.Snapshot["ticker"] != option ||
				!strings.HasPrefix(a.verdict(), option+": EXIT") ||
				a.Snapshot["sell_quantity"] != 0.0 {
				t.Errorf("%q: %s", ticker, response.JSON)
			}
			if !strings.HasPrefix(filepath.Base(response.FilePath), "exit_signals_"+option+"_") {
				t.Errorf("%q: file %s", ticker, response.FilePath)
			}
			if lots, err := d.Lots(context.Background(), LotsQuery{Ticker: ticker}); err != nil ||
				len(lots) != 1 {
				t.Errorf("%q: lots %v, %v", ticker, lots, err)
			}
		}
	}
}

// TestErrorsNameTheTicker: an error about an argument names the ticker of the query.
func TestErrorsNameTheTicker(t *testing.T) {
	d := desk(t, folder(t, plain))
	for _, tt := range []struct {
		q    ExitQuery
		want string
	}{
		{ExitQuery{Ticker: "sl v!"}, "sl v!"},
		{ExitQuery{Ticker: strings.Repeat("X", 30)}, strings.Repeat("X", 30)},
		{ExitQuery{Ticker: "slv", Shares: "many"}, "SLV"},
		{ExitQuery{Ticker: "slv", Shares: "-1"}, "SLV"},
		{ExitQuery{Ticker: "slv", AsOf: "soon"}, "SLV"},
		{ExitQuery{Ticker: "slv", AsOf: "2999-01-01"}, "SLV"},
		{ExitQuery{Ticker: "slv", AccountID: "nobody"}, "SLV"},
		{ExitQuery{Ticker: "slv", Format: "short"}, "SLV"},
		{ExitQuery{Ticker: "slv", Output: "printer"}, "SLV"},
	} {
		a := agent(t, d.CheckExitSignals(context.Background(), tt.q))
		if a.Status != "error" || a.Snapshot["ticker"] != tt.want ||
			!strings.HasPrefix(a.verdict(), "Exit signal check failed for "+tt.want+": ") {
			t.Errorf("%+v: %v", tt.q, a.Snapshot)
		}
	}
}

func floatOf(a answer.Amount) float64 {
	f, _ := a.Float64()
	return f
}
