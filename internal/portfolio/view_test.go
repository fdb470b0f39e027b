package portfolio

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"signalbox/internal/portfolio/answer"
	"signalbox/internal/testkit/must"
)

// busy is a portfolio with a recent purchase, a recent loss without a replacement, and a recent
// wash sale.
const busy = plain + `
-- portfolio.yaml --
accounts:
  - {id: brk}
  - {id: ira, kind: ira}
identical: [[GLD, IAU]]
exit_rules:
  SLV: {rules: {momentum_exit: {lookback: 3}}, stop: {price: 7.5, time_in_force: DAY}}
-- transactions/brk.csv --
` + header + `2025-01-10,brk,buy,SLV,10,20,,,
2025-01-10,brk,buy,GLD,5,90,,,
2025-01-10,brk,buy,TLT,8,90,,,
2026-05-20,brk,sell,TLT,8,80,,,
2026-05-25,ira,buy,TLT,3,80,,,
2026-06-10,ira,buy,SLV,4,11,,,
2026-06-18,brk,sell,GLD,5,80,,,
-- prices/more.csv --
date,ticker,close
2026-06-30,GLD,80
2026-06-30,IAU,40
2026-06-30,TLT,80
`

// TestCalendar checks when tickers may be sold and bought, and that all dates are those of the
// answer.
func TestCalendar(t *testing.T) {
	d := desk(t, folder(t, busy))
	o, err := d.Overview(t.Context(), HarvestQuery{AsOf: "2026-06-30"})
	must.Succeed(t, err)
	wantEqual(t, d.Harvest(t.Context(), HarvestQuery{AsOf: "2026-06-30"}), o.Harvest)
	window := func(kind, date, from, to, account, ticker string, shares int64) Window {
		return Window{Kind: kind, Date: date, From: from, To: to, Account: account, Ticker: ticker,
			Shares: answer.Whole(shares)}
	}
	want := []CalendarRow{
		{Ticker: "GLD", Identical: []string{"IAU"}, BuyFrom: "2026-07-19",
			Windows: []Window{window(WindowLoss, "2026-06-18", "2026-05-19", "2026-07-18", "",
				"GLD", 0)}},
		{Ticker: "IAU", Identical: []string{"GLD"}, BuyFrom: "2026-07-19",
			Windows: []Window{window(WindowLoss, "2026-06-18", "2026-05-19", "2026-07-18", "",
				"IAU", 0)}},
		{Ticker: "SLV", Identical: []string{}, Candidate: true, SellFrom: "2026-07-11",
			BuyFromIfSold: "2026-07-31", Windows: []Window{
				window(WindowPurchase, "2026-06-10", "2026-05-11", "2026-07-10", "ira", "SLV", 4),
				window(WindowPlanned, "2026-06-30", "2026-05-31", "2026-07-30", "", "SLV", 0)}},
		{Ticker: "TLT", Windows: []Window{
			window(WindowWashSale, "2026-05-20", "2026-04-20", "2026-06-19", "brk", "TLT", 3),
			window(WindowPurchase, "2026-05-25", "2026-04-25", "2026-06-24", "ira", "TLT", 3)}},
	}
	wantEqual(t, want, o.Calendar, cmp.Comparer(answer.Amount.Equal))
	wantEqual(t, [][]string{{"SLV"}, {"brk"}, {"brk.csv", "signalbox"}},
		[][]string{o.ExitTickers, o.Accounts, o.Sources})
	if now := o.Harvest.DoNotBuyNow; len(now) != 2 || now[0].LastLoss != "2026-06-18" {
		t.Errorf("do not buy now: %+v", now)
	}
	// Two months later, nothing is left.
	if later := Calendar(answer.HarvestResult{Metadata: answer.HarvestMetadata{AsOf: "2026-08-30"},
		RealizedWashSales: o.Harvest.RealizedWashSales}); len(later) != 0 {
		t.Errorf("later: %+v", later)
	}
}

// TestPosition checks that the view of a ticker has the answers of the commands, the prices up to
// the day, and the stop whether or not it would be placed.
func TestPosition(t *testing.T) {
	split := "-- transactions/split.csv --\n" + longHeader + "2026-03-10,brk,split,SLV,,,,,,,2,,,\n"
	d := desk(t, folder(t, busy))
	v, err := d.Position(t.Context(), ExitQuery{Ticker: "slv", AccountID: "brk",
		AsOf: "2026-05-30"})
	must.Succeed(t, err)
	wantEqual(t, d.Exits(t.Context(), ExitQuery{Ticker: "SLV", AccountID: "brk",
		AsOf: "2026-05-30"}), v.Exits)
	if n := len(v.Prices); n != 5 || v.Prices[n-1].Day.Format("2006-01-02") != "2026-05-29" ||
		v.Currency != "USD" || v.Split != "" {
		t.Errorf("prices %+v in %s after the split %q", v.Prices, v.Currency, v.Split)
	}
	if v.Stop == nil || v.Stop.String() != "7.5" || v.TimeInForce != "DAY" || len(v.Lots) != 1 {
		t.Errorf("stop %v %s, lots %+v", v.Stop, v.TimeInForce, v.Lots)
	}
	v, err = desk(t, folder(t, busy, split)).Position(t.Context(),
		ExitQuery{Ticker: "SLV", AccountID: "brk"})
	if err != nil || len(v.Prices) != 4 || v.Split != "2026-03-10" {
		t.Errorf("after a split: %+v, %v", v, err)
	}
	v, err = d.Position(t.Context(), ExitQuery{Ticker: "IAU"})
	if err != nil || v.Exits.ErrorKind != NoExitRules || len(v.Prices) != 1 || v.Lots != nil {
		t.Errorf("a ticker with prices only: %+v, %v", v, err)
	}
	for _, ticker := range []string{"XYZ", "a b"} {
		if v, err := d.Position(t.Context(), ExitQuery{Ticker: ticker}); err == nil {
			t.Errorf("%s: %+v", ticker, v)
		}
	}
}

func TestExists(t *testing.T) {
	if desk(t, t.TempDir()).Exists() || !desk(t, folder(t, plain)).Exists() {
		t.Error("a portfolio is a folder with portfolio.yaml")
	}
}

// TestTodaySavesSection1211: a loss of $100 is clean today. It is deducted at the rate for short-term
// gains and that of the state: 100 × (24 % + 5 %) = $29. IRA lots have a gain too, which is not taxed.
func TestTodaySavesSection1211(t *testing.T) {
	const rates = `
-- portfolio.yaml --
accounts: [{id: brk}, {id: ira, kind: ira}]
tax_rates: {short_term: 0.24, long_term: 0.15, state: 0.05}
-- transactions/ira.csv --
` + header + "2026-05-10,ira,buy,SLV,1,8,,,\n"
	o, err := desk(t, folder(t, plain, rates)).Overview(t.Context(), HarvestQuery{})
	must.Succeed(t, err)
	wantEqual(t, []TodayRow{{Ticker: "SLV", Accounts: []string{"brk"}, Clean: answer.Whole(-100),
		CleanLots: 1, DoNotBuyBefore: "2026-08-01"}}, o.Today, cmp.Comparer(answer.Amount.Equal))
	if o.Saves == nil || o.Saves.Tax == nil || o.Saves.Tax.String() != "-29" {
		t.Errorf("saves %+v", o.Saves)
	}
	var gains []string
	for _, l := range o.Lots {
		gains = append(gains, l.Account+" "+l.Gain.String()+" "+l.LongTermFrom)
	}
	wantEqual(t, []string{"brk -100 2026-01-11", "ira 2 2027-05-11"}, gains)
}
