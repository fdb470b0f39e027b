package portfolio

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"signalbox/internal/testkit/must"
)

// harvestLines returns the totals of a harvest, and a line for each candidate.
func harvestLines(t *testing.T, d *Desk, q HarvestQuery) []string {
	t.Helper()
	r := d.Harvest(context.Background(), q)
	if r.Status != "success" {
		t.Fatalf("%s: %s", r.Status, r.Error)
	}
	lines := []string{fmt.Sprintf("total %s short %s long %s disallowed %s", r.TotalHarvestableLoss, r.ShortTermLoss, r.LongTermLoss, r.DisallowedLoss)}
	for _, c := range r.Candidates {
		lines = append(lines,
			fmt.Sprintf("%s %s %s: %s at %s, basis %s, loss %s, disallowed %s of %s shares, clean %s",
				c.AccountID, c.Ticker, c.HoldingPeriod, c.Shares, c.Price, c.BasisTotal,
				c.UnrealizedLoss, c.DisallowedLoss, c.DisallowedShares, c.CleanDate))
	}
	return lines
}

// year is a portfolio with gains and losses of the year, and losses still to take: 3,000 long-term
// and 50 short-term.
const year = `
-- transactions/brk.csv --
` + header + `2024-01-10,brk,buy,OLD,100,50,,,
2026-03-02,brk,buy,NEW,10,30,,,
2026-02-02,brk,buy,G,10,10,,,
2026-04-01,brk,sell,G,10,30,,,
2024-01-05,brk,buy,L,10,100,,,
2026-05-01,brk,sell,L,10,150,,,
2024-01-05,brk,buy,P,10,10,,,
2025-05-01,brk,sell,P,10,2000,,,
2026-01-05,ira,buy,R,10,10,,,
2026-05-01,ira,sell,R,10,2000,,,
-- prices/2026.csv --
date,ticker,close
2026-06-30,OLD,20
2026-06-30,NEW,25
`

func yearConfig(status, realized string) string {
	return "-- portfolio.yaml --\naccounts: [{id: brk}, {id: ira, kind: ira}]\nfiling_status: " +
		status + "\nrealized: {" + realized + "}\n"
}

// TestNet checks the net of the year: the sales in the files, the amounts in portfolio.yaml and the
// candidates, without sales of other years and of the IRA.
func TestNet(t *testing.T) {
	const exceed = "$3,050 harvestable losses exceed "
	for _, tt := range []struct {
		status, realized     string
		short, long, net     string
		deductible, carryfwd string
		message              string
	}{
		{"single", "", "150", "-2500", "-2350", "2350", "0",
			exceed + "$3,000 annual deduction limit — but net of realized gains and carryover it is $2,350, within the limit"},
		{"single", "short_term: 100, long_term: -50, carryover_short: 40, carryover_long: 60",
			"210", "-2610", "-2400", "2400", "0",
			exceed + "$3,000 annual deduction limit — but net of realized gains and carryover it is $2,400, within the limit"},
		{"single", "carryover_long: -60", "150", "-2560", "-2410", "2410", "0",
			exceed + "$3,000 annual deduction limit — but net of realized gains and carryover it is $2,410, within the limit"},
		{"married_separate",
			"short_term: 100, long_term: -50, carryover_short: 40, carryover_long: 60", "210",
			"-2610", "-2400", "1500", "900",
			exceed + "$1,500 annual deduction limit — net of realized gains and carryover it is $2,400, over the limit too"},
		{"head", "short_term: -1000.25", "-850.25", "-2500", "-3350.25", "3000", "350.25",
			exceed + "$3,000 annual deduction limit — net of realized gains and carryover it is $3,350.25, over the limit too"},
		{"married_joint", "short_term: 5000", "5150", "-2500", "2650", "0", "0",
			exceed + "$3,000 annual deduction limit — but net of realized gains and carryover no loss is left"},
		{"married_joint", "long_term: -700", "150", "-3200", "-3050", "3000", "50", exceed +
			"$3,000 annual deduction limit"},
	} {
		t.Run(tt.status+" "+tt.realized, func(t *testing.T) {
			d := desk(t, folder(t, year, yearConfig(tt.status, tt.realized)))
			n := d.Harvest(context.Background(), HarvestQuery{}).Net
			if n == nil {
				t.Fatal("there is no net")
			}
			got := []string{n.NetShortTerm.String(), n.NetLongTerm.String(), n.Net.String(), n.Deductible.String(), n.Carryforward.String(), n.FilingStatus}
			wantEqual(t, []string{tt.short, tt.long, tt.net, tt.deductible, tt.carryfwd,
				tt.status}, got)
			a := askHarvest(t, d, HarvestQuery{})
			if a.message("significant_harvest") != tt.message {
				t.Errorf("significant_harvest says %q\nwant %q", a.message("significant_harvest"),
					tt.message)
			}
		})
	}
}

// TestWashSales checks that purchases in the IRA count, and that the losses they disallow are lost
// permanently.
func TestWashSales(t *testing.T) {
	d := desk(t, folder(t, year, yearConfig("single", ""), `
-- transactions/more.csv --
`+header+`2026-06-15,ira,buy,OLD,10,19,,,
2026-01-05,brk,buy,W,10,50,,,
2026-03-02,brk,sell,W,10,30,,,
2026-03-10,ira,buy,W,4,30,,,
2026-03-11,brk,buy,W,6,31,,,
-- prices/w.csv --
date,ticker,close
2026-06-30,W,60
`))
	wantLines(t, harvestLines(t, d, HarvestQuery{}), `
total -2750 short -50 long -2700 disallowed 300
brk OLD long_term: 100 at 20, basis 5000, loss -3000, disallowed 300 of 10 shares, clean 2026-07-16
brk NEW short_term: 10 at 25, basis 300, loss -50, disallowed 0 of 0 shares, clean 2026-07-01
`)
	wantLines(t, harvestLines(t, d, HarvestQuery{SkipWashCheck: true})[:1],
		"total -3050 short -50 long -3000 disallowed 0")
	wantLines(t, harvestLines(t, d, HarvestQuery{AsOf: "2026-06-30", SortBy: "days_held"})[1:2], `
brk OLD long_term: 100 at 20, basis 5000, loss -3000, disallowed 300 of 10 shares, clean 2026-07-16`)
	// The holding period from 2026-01-06 to 2026-03-02, 56 days, is added to the six shares.
	wantLines(t, lots(t, d, ""), `
brk NEW 2026-03-02 2026-03-03 10 300 0
brk OLD 2024-01-10 2024-01-11 100 5000 0
brk W 2026-03-11 2026-01-15 6 306 120
ira OLD 2026-06-15 2026-06-16 10 190 0
ira W 2026-03-10 2026-03-11 4 120 0
`)
	warned := d.Harvest(context.Background(), HarvestQuery{}).WashSaleWarnings
	if len(warned) != 1 || warned[0].Ticker != "OLD" || warned[0].CleanDate != "2026-07-16" ||
		len(warned[0].Purchases) != 1 || warned[0].Purchases[0].Account != "ira" {
		t.Errorf("%+v", warned)
	}
	a := askHarvest(t, d, HarvestQuery{})
	want := []string{"warning wash_sale_risk", "warning permanently_disallowed",
		"warning would_be_lost"}
	wantEqual(t, want, a.names())
	if got := a.message("permanently_disallowed"); !strings.HasPrefix(got,
		"$80 of realized losses permanently disallowed") {
		t.Errorf("permanently_disallowed says %q", got)
	}
}

// TestHarvestJSON checks what other programs read: the names of fields, and that numbers are JSON
// numbers.
func TestHarvestJSON(t *testing.T) {
	d := desk(t, folder(t, plain, `
-- transactions/more.csv --
`+header+`2026-01-05,brk,buy,W,10,50,1.25,,
2026-03-02,brk,sell,W,10,30.5,,,
2026-03-11,brk,buy,W,6.5,31,,,mine
-- prices/w.csv --
date,ticker,close
2026-06-30,W,60
`))
	response := d.SuggestTaxLossHarvest(context.Background(), HarvestQuery{Format: "full"})
	var full struct {
		Washes []map[string]json.RawMessage `json:"realized_wash_sales"`
	}
	if err := json.Unmarshal(response.JSON, &full); err != nil || len(full.Washes) != 1 {
		t.Fatalf("%d wash sales, %v: %s", len(full.Washes), err, response.JSON)
	}
	checkFields(t, full.Washes[0], map[string]string{
		"sale_date": `"2026-03-02"`, "account": `"brk"`, "ticker": `"W"`, "shares": "10",
		"loss": "196.25", "disallowed_shares": "6.5",
		"disallowed_loss": "127.5625", "permanent_loss": "0",
		"replacements": `[{"date":"2026-03-11","account":"brk","ticker":"W","shares":6.5}]`})
	list, err := d.Lots(context.Background(), LotsQuery{AsOf: ""})
	if err != nil || len(list) != 2 {
		t.Fatalf("%d lots, %v", len(list), err)
	}
	text, err := json.Marshal(list[1])
	must.Succeed(t, err)
	var lot map[string]json.RawMessage
	must.Succeed(t, json.Unmarshal(text, &lot))
	checkFields(t, lot, map[string]string{
		"account": `"brk"`, "ticker": `"W"`, "lot_date": `"2026-03-11"`,
		"holding_start": `"2026-01-15"`, "quantity": "6.5",
		"basis_total": "329.0625", "gain": "60.9375", "price": "60", "long_term_from": `"2027-01-15"`, // 6.5 × 60 − 329.0625
		"basis_adjustment": "127.5625", "lot_id": `"mine"`})
}

func checkFields(t *testing.T, got map[string]json.RawMessage, want map[string]string) {
	t.Helper()
	texts := make(map[string]string)
	for name, value := range got {
		texts[name] = string(value)
	}
	wantEqual(t, want, texts)
}

// TestNothingToHarvest checks the answers for no losses, only small losses, and no lots.
func TestNothingToHarvest(t *testing.T) {
	noLots := "-- transactions/brk.csv --\n" + longHeader +
		"2026-01-02,,transfer,SLV,5,,,,,brk,,,,\n"
	soldOnly := "-- transactions/brk.csv --\n" + header + "2026-01-02,brk,sell,SLV,5,10,,,\n"
	for _, tt := range []struct {
		name, change, minLoss string
		flags                 []string
		message               string
	}{
		{"gains only", "-- prices/2026.csv --\ndate,ticker,close\n2026-06-30,SLV,20\n", "",
			[]string{"success no_candidates"},
			"No unrealized losses to harvest — all lots are at a gain or break-even"},
		{"small losses", "", "100.01", []string{"info below_min_loss"},
			"All losses are below the minimum of $100.01"},
		{"no lots", noLots, "", []string{"warning no_lot_data", "warning incomplete_history",
			"warning lots_missing"}, "No lot data for any position — losses cannot be computed"},
		{"nothing is held", soldOnly, "",
			[]string{"success no_candidates", "warning incomplete_history"},
			"No unrealized losses to harvest — all lots are at a gain or break-even"},
		{"no transactions", "-- transactions/brk.csv --\n" + header, "",
			[]string{"success no_candidates"},
			"No unrealized losses to harvest — all lots are at a gain or break-even"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			a := askHarvest(t, desk(t, folder(t, plain, tt.change)),
				HarvestQuery{MinLoss: tt.minLoss})
			wantEqual(t, slices.Sorted(slices.Values(tt.flags)),
				slices.Sorted(slices.Values(a.names())))
			_, name, _ := strings.Cut(tt.flags[0], " ")
			if a.Status != "success" || a.message(name) != tt.message {
				t.Errorf("%s: %q, want %q", a.Status, a.message(name), tt.message)
			}
		})
	}
	// A loss of exactly the minimum is a candidate.
	if a := askHarvest(t, desk(t, folder(t, plain)),
		HarvestQuery{MinLoss: "100"}); a.Snapshot["candidate_count"] != 1.0 {
		t.Errorf("%v", a.Snapshot)
	}
}

// TestCoverage checks that coverage is the part, by value, of what is held that has lots.
func TestCoverage(t *testing.T) {
	const moved = "-- transactions/a.csv --\n" + longHeader
	gap := moved + "2026-01-02,,transfer,A,30,,,,,brk,,,,\n2026-01-02,,transfer,B,5,,,,,brk,,,,\n"
	sold := rows("2019-01-02,brk,sell,A,30,10,,,\n2019-01-02,brk,sell,B,5,10,,,\n2019-01-02,brk,sell,C,5,10,,,")
	pricesOfA := "-- prices/a.csv --\ndate,ticker,close\n2026-06-30,A,10\n"
	none := []string{"warning incomplete_history", "info harvest_available"}
	for _, tt := range []struct {
		name, change string
		data, value  any
		flags        []string
	}{
		{"all", "", 100.0, 100.0, []string{"info harvest_available"}},
		// SLV is worth 100 and A 300; B has no price: a third of the positions, but only a quarter
		// of what has a value.
		{"a quarter", gap + pricesOfA, 25.0, nil,
			[]string{"warning lots_missing", "warning low_coverage", "warning incomplete_history"}},
		{"a third by number", gap + "-- prices/a.csv --\ndate,ticker,close\n2026-06-30,A,1\n", 33.3,
			nil, []string{"warning lots_missing", "warning low_coverage",
				"warning incomplete_history"}},
		{"a quarter by value", moved + "2026-01-02,,transfer,A,30,,,,,brk,,,,\n" + pricesOfA, 25.0,
			25.0, []string{"warning lots_missing", "warning low_coverage",
				"warning incomplete_history"}},
		{"sold years ago without buys", sold + pricesOfA, 100.0, 100.0,
			append([]string{"warning carryover_unknown"}, none...)},
		// A gap in the IRA does not count as a position, but is reported.
		{"ira", rows("2026-01-02,ira,sell,A,30,10,,,"), 100.0, 100.0, none},
	} {
		t.Run(tt.name, func(t *testing.T) {
			a := askHarvest(t, desk(t, folder(t, plain, tt.change)), HarvestQuery{})
			if a.Snapshot["data_coverage_pct"] != tt.data ||
				a.Snapshot["value_coverage_pct"] != tt.value {
				t.Errorf("coverage %v and %v, want %v and %v", a.Snapshot["data_coverage_pct"],
					a.Snapshot["value_coverage_pct"], tt.data, tt.value)
			}
			wantEqual(t, tt.flags, a.names())
		})
	}
}

// TestFilters checks that an account or a source limits the candidates, but not the purchases that
// cause wash sales.
func TestFilters(t *testing.T) {
	d := desk(t, folder(t, `
-- portfolio.yaml --
accounts:
  - {id: brk}
  - {id: joint, owner: spouse, names: [Joint XXXX-9876]}
  - {id: ira, kind: ira}
-- transactions/brk.csv --
`+header+`2025-01-10,brk,buy,SLV,10,20,,,
2026-06-20,ira,buy,GLD,1,50,,,
-- transactions/schwab.csv --
"Transactions  for account Joint XXXX-9876 as of 06/29/2026 10:11:12 ET"
"Date","Action","Symbol","Description","Quantity","Price","Fees & Comm","Amount"
"03/28/2025","Buy","GLD","GOLD","10","$60.00","","-$600.00"
-- prices/a.csv --
date,ticker,close
2026-06-30,SLV,10
2026-06-30,GLD,50
`))
	const (
		total = "total -190 short 0 long -190 disallowed 10\n"
		slv   = "brk SLV long_term: 10 at 10, basis 200, loss -100, disallowed 0 of 0 shares, clean 2026-07-01"
		gld   = "joint GLD long_term: 10 at 50, basis 600, loss -100, disallowed 10 of 1 shares, clean 2026-07-21"
	)
	wantLines(t, harvestLines(t, d, HarvestQuery{}), total+slv+"\n"+gld)
	onlyBrk, onlyJoint := "total -100 short 0 long -100 disallowed 0\n"+slv,
		"total -90 short 0 long -90 disallowed 10\n"+gld
	for _, tt := range []struct {
		account, source, want string
	}{
		{"brk", "", onlyBrk}, {"joint", "", onlyJoint},
		{"", "brk.csv", onlyBrk}, {"", "transactions/brk.csv", onlyBrk}, {"", "signalbox", onlyBrk},
		{"", "schwab", onlyJoint}, {"", "schwab.csv", onlyJoint}, {"joint", "schwab", onlyJoint},
	} {
		wantLines(t, harvestLines(t, d, HarvestQuery{Account: tt.account, Source: tt.source}),
			tt.want)
	}
	for _, q := range []HarvestQuery{{Source: "fidelity"}, {Source: "SCHWAB"},
		{Account: "brk", Source: "schwab"}, {Account: "ira"}} {
		if a := askHarvest(t, d, q); a.Status != "error" ||
			!slices.Contains(a.names(), "error "+BadArgument) {
			t.Errorf("%+v: %v", q, a.names())
		}
	}
}

// TestCurrencies checks that amounts and prices are converted at the rates of their own days, in
// both directions of the rate.
func TestCurrencies(t *testing.T) {
	const (
		accounts = "-- portfolio.yaml --\naccounts: [{id: brk}]\n"
		prices   = "-- prices/a.csv --\ndate,ticker,close,adjusted,currency\n"
	)
	for _, tt := range []struct {
		name, rates, price string
		want               string
	}{
		// (10 × 100 + 5) × 1.1 and 10 × 80 × 1.2
		{"euros in dollars", "date,from,to,rate\n2026-01-02,EUR,USD,1.1\n2026-06-30,EUR,USD,1.2\n",
			"2026-06-30,SAP,80,,EUR",
			"total -145.5 short -145.5 long 0 disallowed 0\nbrk SAP short_term: 10 at 96, basis 1105.5, loss -145.5, disallowed 0 of 0 shares, clean 2026-07-01"},
		// (10 × 100 + 5) / 0.8 and 10 × 50 / 0.5
		{"dollars in euros", "date,from,to,rate\n2026-01-02,USD,EUR,0.8\n2026-06-30,USD,EUR,0.5\n",
			"2026-06-30,SAP,50,,EUR",
			"total -256.25 short -256.25 long 0 disallowed 0\nbrk SAP short_term: 10 at 100, basis 1256.25, loss -256.25, disallowed 0 of 0 shares, clean 2026-07-01"},
		// The rate is that of the date of the price, and may be ten days old.
		{"pairs as prices", "date,ticker,close\n2025-12-23,EURUSD=X,1.1\n2026-06-10,EURUSD=X,1.2\n2026-07-01,EURUSD=X,9\n", "2026-06-20,SAP,80,,EUR",
			"total -145.5 short -145.5 long 0 disallowed 0\nbrk SAP short_term: 10 at 96, basis 1105.5, loss -145.5, disallowed 0 of 0 shares, clean 2026-07-01"},
		// A price in dollars needs no rate.
		{"price in dollars", "date,from,to,rate\n2026-01-02,EUR,USD,1.1\n",
			"2026-06-30,SAP,100,,USD",
			"total -105.5 short -105.5 long 0 disallowed 0\nbrk SAP short_term: 10 at 100, basis 1105.5, loss -105.5, disallowed 0 of 0 shares, clean 2026-07-01"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			dir := folder(t, accounts+"-- transactions/brk.csv --\n"+header+
				"2026-01-02,brk,buy,SAP,10,100,5,EUR,\n-- fx.csv --\n"+tt.rates+prices+tt.price+
				"\n")
			wantLines(t, harvestLines(t, desk(t, dir), HarvestQuery{}), tt.want)
		})
	}
	// Eleven days are too old.
	dir := folder(t, accounts+"-- transactions/brk.csv --\n"+header+
		"2026-01-13,brk,buy,SAP,10,100,5,EUR,\n-- fx.csv --\ndate,from,to,rate\n2026-01-02,EUR,USD,1.1\n")
	a := askHarvest(t, desk(t, dir), HarvestQuery{})
	if want := "Tax harvest analysis failed: transactions/brk.csv:2: there is no exchange rate of EUR in dollars for 2026-01-13"; a.verdict() != want {
		t.Errorf("%q, want %q", a.verdict(), want)
	}
	if want := "add a line to fx.csv: 2026-01-13,EUR,USD,RATE"; a.message(MissingRate) != want {
		t.Errorf("%q, want %q", a.message(MissingRate), want)
	}
}

// TestOrders checks that each order has the largest first.
func TestOrders(t *testing.T) {
	d := desk(t, folder(t, plain,
		rows("2026-01-05,brk,buy,A,100,12,,,\n2024-01-05,brk,buy,B,100,10.1,,,")+
			"-- prices/a.csv --\ndate,ticker,close\n2026-06-30,A,10\n2026-06-30,B,10\n"))
	for sort, want := range map[string][]string{"": {"A", "SLV", "B"},
		"loss_amount": {"A", "SLV", "B"}, "loss_pct": {"SLV", "A", "B"},
		"days_held": {"B", "SLV", "A"}} {
		var got []string
		for _, c := range d.Harvest(context.Background(), HarvestQuery{SortBy: sort}).Candidates {
			got = append(got, c.Ticker)
		}
		if !slices.Equal(got, want) {
			t.Errorf("by %s: %v, want %v", sort, got, want)
		}
	}
}

// TestStalePrices checks that a price older than a week is used and reported.
func TestStalePrices(t *testing.T) {
	d := desk(t, folder(t, plain))
	if a := askHarvest(t, d, HarvestQuery{AsOf: "2026-06-05"}); slices.Contains(a.names(),
		"warning stale_prices") {
		t.Errorf("a price of a week ago is called stale: %v", a.names())
	}
	if e := askExits(t, d, ExitQuery{Ticker: "SLV", AsOf: "2026-06-05"}); slices.Contains(e.names(),
		"warning stale_prices") {
		t.Errorf("a price of a week ago is called stale: %v", e.names())
	}
	a := askHarvest(t, d, HarvestQuery{AsOf: "2026-06-06"})
	if want := "Prices of 1 ticker are more than a week old: SLV"; a.message(
		"stale_prices") != want {
		t.Errorf("%q, want %q", a.message("stale_prices"), want)
	}
	if e := askExits(t, d, ExitQuery{Ticker: "SLV", AsOf: "2026-06-06"}); !strings.HasPrefix(
		e.message("stale_prices"), "The last price is from 2026-05-29, 8 days old") {
		t.Errorf("%q", e.message("stale_prices"))
	}
}

// TestRecordsNotUnderstood checks that skipped records that moved shares are part of the answer.
func TestRecordsNotUnderstood(t *testing.T) {
	d := desk(t, folder(t, plain, `
-- transactions/schwab.csv --
"Transactions  for account brk as of 03/29/2026 10:11:12 ET"
"Date","Action","Symbol","Description","Quantity","Price","Fees & Comm","Amount"
"03/28/2026","Spin-off","SLV","SILVER","10","","",""
"03/27/2026","Cash Dividend","SLV","SILVER","","","","$2.00"
`))
	r := d.Harvest(context.Background(), HarvestQuery{})
	if len(r.NotUnderstood) != 1 || r.NotUnderstood[0].File != "transactions/schwab.csv" ||
		r.NotUnderstood[0].Line != 3 {
		t.Errorf("%+v", r.NotUnderstood)
	}
	if a := askHarvest(t, d, HarvestQuery{}); !slices.Contains(a.names(),
		"warning records_not_understood") {
		t.Errorf("%v", a.names())
	}
	if keys := slices.Sorted(maps.Keys(decode(t, d.SuggestTaxLossHarvest(context.Background(),
		HarvestQuery{Format: "report"}).JSON))); !slices.Equal(keys,
		[]string{"file_path", "flags", "format", "report", "status"}) {
		t.Errorf("a report has the keys %v", keys)
	}
}

// TestHarvestWithoutPrices checks that all missing prices are reported at once, together with past
// sales.
func TestHarvestWithoutPrices(t *testing.T) {
	dir := folder(t, plain, "-- transactions/more.csv --\n"+header+
		"2026-01-05,brk,buy,GLD,10,20,,,\n2026-02-05,brk,sell,GLD,10,15,,,\n2026-02-10,ira,buy,GLD,10,15,,,\n2026-03-01,brk,buy,TLT,1,90,,,\n2026-03-01,brk,buy,BND,1,90,,,\n")
	got := desk(t, dir).Harvest(t.Context(), HarvestQuery{})
	if got.Status != "error" || got.ErrorKind != MissingPrice {
		t.Fatalf("status %s, kind %s", got.Status, got.ErrorKind)
	}
	if want := "there is no price of BND on 2026-07-01 or before, and of 1 more: TLT"; got.Error != want {
		t.Errorf("%q, want %q", got.Error, want)
	}
	if want := "add to a file in prices, below its header date,ticker,close: 2026-07-01,BND,CLOSE / 2026-07-01,TLT,CLOSE"; got.ErrorHint != want {
		t.Errorf("hint %q, want %q", got.ErrorHint, want)
	}
	if len(got.RealizedWashSales) != 1 || got.PermanentlyDisallowed.String() != "50" ||
		len(got.Candidates) != 0 || got.CandidateCount != 0 {
		t.Errorf("got %+v", got)
	}
}

// TestSourceIsTheFormat checks that an imported file can be selected by the format that it came
// from.
func TestSourceIsTheFormat(t *testing.T) {
	d := desk(t, folder(t, household,
		"-- prices/p.csv --\ndate,ticker,close\n2026-06-30,VTI,200\n"))
	imports(t, d, outside(t, "s.csv", schwabHead+schwabRows), ImportOptions{},
		"schwab: 3 new, 0 known, 1 skipped, transactions/schwab-s.csv")
	if got := d.Harvest(t.Context(), HarvestQuery{Source: "schwab"}); got.Status != "success" ||
		got.CandidateCount != 2 {
		t.Errorf("%s: %s, %d candidates", got.Status, got.Error, got.CandidateCount)
	}
	if got := d.Harvest(t.Context(), HarvestQuery{Source: "ofx"}); got.ErrorKind != BadArgument {
		t.Errorf("a source that is not there: %s %s", got.Status, got.Error)
	}
}

// TestSplitOfOneAccount checks that a split that is missing in another account is refused.
func TestSplitOfOneAccount(t *testing.T) {
	const accounts = "-- portfolio.yaml --\naccounts: [{id: brk}, {id: sp, owner: spouse}]\n-- prices/p.csv --\ndate,ticker,close\n2026-06-30,X,45\n"
	bought := longHeader +
		"2025-01-10,brk,buy,X,10,100,,,,,,,,\n2025-01-10,sp,buy,X,10,100,,,,,,,,\n"
	split := func(day, account string) string { return day + "," + account + ",split,X,,,,,,,2,,,\n" }
	for _, tt := range []struct{ name, rows, fault string }{
		{"one of two", bought + split("2025-06-10", "sp"),
			"X was split on 2025-06-10 in account sp, and not in brk, which held it"},
		{"both, a day apart", bought + split("2025-06-10", "sp") + split("2025-06-11", "brk"), ""},
		{"the other bought after it", longHeader + "2025-01-10,sp,buy,X,10,100,,,,,,,,\n" +
			split("2025-06-10", "sp") + "2025-07-10,brk,buy,X,10,50,,,,,,,,\n", ""},
		{"the other got them after it", longHeader + "2025-01-10,sp,buy,X,10,100,,,,,,,,\n" +
			split("2025-06-10", "sp") + "2025-07-10,sp,transfer,X,4,,,,,brk,,,,\n", ""},
		{"the other had sold them", bought + "2025-05-10,brk,sell,X,10,100,,,,,,,,\n" +
			split("2025-06-10", "sp"), ""},
	} {
		got := desk(t, folder(t, accounts, "-- transactions/x.csv --\n"+
			tt.rows)).Harvest(t.Context(), HarvestQuery{})
		if got.Error != tt.fault || tt.fault != "" && got.ErrorKind != MissingSplit {
			t.Errorf("%s: %s %q, want %q", tt.name, got.ErrorKind, got.Error, tt.fault)
		}
	}
}

// TestSeparateReturns checks that separate returns do not include the gains and candidates of the
// spouse.
func TestSeparateReturns(t *testing.T) {
	const rows = "-- transactions/x.csv --\n" + header +
		"2026-01-05,brk,buy,A,10,300,,,\n2026-02-05,brk,sell,A,10,100,,,\n" +
		"2026-01-05,sp,buy,B,10,100,,,\n2026-02-05,sp,sell,B,10,600,,,\n2025-01-05,brk,buy,C,10,100,,,\n2026-01-05,sp,buy,C,10,100,,,\n" +
		"-- prices/p.csv --\ndate,ticker,close\n2026-06-30,C,90\n"
	for _, tt := range []struct{ status, account, short, long string }{
		{"married_joint", "", "2900", "-100"},
		{"married_separate", "", "-2000", "-100"},
		{"married_separate", "sp", "4900", "0"},
	} {
		dir := folder(t, "-- portfolio.yaml --\naccounts: [{id: brk}, {id: sp, owner: spouse}]\nfiling_status: "+tt.status+"\n"+rows)
		got := desk(t, dir).Harvest(t.Context(), HarvestQuery{Account: tt.account})
		if got.Net == nil || got.Net.NetShortTerm.String() != tt.short ||
			got.Net.NetLongTerm.String() != tt.long {
			t.Errorf("%s %s: %s %+v", tt.status, tt.account, got.Error, got.Net)
		}
	}
}

// TestHarvestUnchecked checks that without the wash sale check there is no clean date, and that the
// answer says so.
func TestHarvestUnchecked(t *testing.T) {
	d := desk(t, folder(t, plain, "-- transactions/ira.csv --\n"+header+
		"2026-06-20,ira,buy,SLV,5,10,,,\n"))
	got := d.Harvest(t.Context(), HarvestQuery{SkipWashCheck: true})
	if got.CandidateCount != 1 || got.Candidates[0].CleanDate != "" ||
		!got.Metadata.WashSalesNotChecked || got.Metadata.IncludeWashSaleCheck {
		t.Errorf("got %+v", got)
	}
	checked := d.Harvest(t.Context(), HarvestQuery{})
	if checked.Candidates[0].CleanDate != "2026-07-21" ||
		checked.Candidates[0].PermanentLoss.String() != "50" ||
		checked.DisallowedForGood.String() != "50" {
		t.Errorf("got %+v", checked.Candidates[0])
	}
}
