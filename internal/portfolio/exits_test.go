package portfolio

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/govalues/decimal"
	"pgregory.net/rapid"

	"signalbox/internal/portfolio/answer"
	"signalbox/internal/portfolio/importer"
	"signalbox/internal/portfolio/tax"
	"signalbox/internal/testkit/must"
	"signalbox/internal/testkit/property"
)

// monthEnds are the last trading days from January to May 2026.
func monthEnds() []string {
	return []string{"2026-01-30", "2026-02-27", "2026-03-31", "2026-04-30", "2026-05-29"}
}

// closes returns a file of month-end prices by ticker; the last price is that of May.
func closes(prices map[string][]string) string {
	var text strings.Builder
	text.WriteString("-- prices/2026.csv --\ndate,ticker,close\n")
	for ticker, list := range prices {
		dates := monthEnds()
		for i, price := range list {
			fmt.Fprintf(&text, "%s,%s,%s\n", dates[len(dates)-len(list)+i], ticker, price)
		}
	}
	return text.String()
}

func exitConfigText(rules string) string {
	return "-- portfolio.yaml --\naccounts: [{id: brk}, {id: two}]\nexit_rules:\n  SLV: {" + rules +
		"}\n"
}

const momentum = "rules: {momentum_exit: {lookback: 3}}"

func held(shares string) string {
	return "-- transactions/brk.csv --\n" + header + "2025-01-10,brk,buy,SLV," + shares + ",20,,,\n"
}

// askedExit returns the result of a question that must succeed.
func askedExit(t *testing.T, dir string, q ExitQuery) answer.ExitResult {
	t.Helper()
	q.Ticker = "SLV"
	if q.AsOf == "" {
		q.AsOf = "2026-06-03"
	}
	r := desk(t, dir).Exits(context.Background(), q)
	if r.Status != "success" {
		t.Fatalf("%s: %s", r.Status, r.Error)
	}
	return r
}

// TestExitCheckValues checks the values that every implementation must give.
func TestExitCheckValues(t *testing.T) {
	for _, tt := range []struct {
		name    string
		closes  []string
		overall string
		gap     float64
		sizing  string
	}{
		{".10 .08 .12 → .05", []string{"100", "110", "118.8", "133.056", "139.7088"},
			"EXIT — momentum_exit: +5.00% in 2026-05, mean before +10.00%, gap -5.00 pp", -5,
			"sell 5 of 10, fraction 0.5, left 5"},
		{"−.02 −.01 −.03 → −.10", []string{"100", "98", "97.02", "94.1094", "84.69846"},
			"EXIT — momentum_exit: -10.00% in 2026-05, mean before -2.00%, gap -8.00 pp", -8,
			"sell 7 of 10, fraction 0.75, left 3"},
		{".05 .06 .04 → .10", []string{"100", "105", "111.3", "115.752", "127.3272"},
			"HOLD — momentum_exit: +10.00% in 2026-05, mean before +5.00%, gap +5.00 pp", 5, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := askedExit(t, folder(t, exitConfigText(momentum), held("10"),
				closes(map[string][]string{"SLV": tt.closes})), ExitQuery{})
			if r.OverallAssessment != tt.overall || r.TradeEligible != (tt.sizing != "") {
				t.Errorf("%q, eligible %v, want %q", r.OverallAssessment, r.TradeEligible,
					tt.overall)
			}
			if gap := float64(*r.Signals[0].Gap) * 100; math.Abs(gap-tt.gap) > 1e-9 {
				t.Errorf("gap %v, want %v", gap, tt.gap)
			}
			if got := sizing(r); got != tt.sizing {
				t.Errorf("sizing %q, want %q", got, tt.sizing)
			}
		})
	}
}

func sizing(r answer.ExitResult) string {
	if r.Sizing == nil {
		return ""
	}
	return fmt.Sprintf("sell %s of %s, fraction %s, left %s", r.Sizing.SellQuantity,
		r.Position.Shares, r.Sizing.Fraction, r.Sizing.Remaining)
}

func TestExitBasket(t *testing.T) {
	dir := folder(t, exitConfigText(
		"primary: regime_check, rules: {regime_check: {tickers: [SLV, GLD, TLT], period: 3}}"),
		held("10"), closes(map[string][]string{
			"SLV": {"100", "95", "85.5", "82.935"}, "GLD": {"100", "98", "94.08", "93.1392"},
			"TLT": {"100", "97", "92.15", "90.307"}}))
	r := askedExit(t, dir, ExitQuery{})
	if want := "EXIT — regime_check: basket -11.27% over 3 months to 2026-05"; r.OverallAssessment != want {
		t.Errorf("%q, want %q", r.OverallAssessment, want)
	}
	if *r.Signals[0].Severity != 1 {
		t.Errorf("severity %v", *r.Signals[0].Severity)
	}
}

// TestExitSizing checks that no more is sold than the rules say, fractions only if the position has
// them or is one share, and that a stop is placed only below the market.
func TestExitSizing(t *testing.T) {
	falling := closes(map[string][]string{"SLV": {"100", "98", "97.02", "94.1094", "84.69846"}})
	for _, tt := range []struct {
		name, shares, rules string
		asked               string
		sizing              string
		actions             []string
		flags               []string
	}{
		{"fractions", "3.333", momentum, "", "sell 2.49975 of 3.333, fraction 0.75, left 0.83325",
			[]string{"SELL 2.49975 market"},
			[]string{"warning exit_signal", "info trade_recommended", "info sale_realizes"}},
		{"one share", "1", momentum + ", stop: {price: 65.0}", "",
			"sell 0.75 of 1, fraction 0.75, left 0.25",
			[]string{"SELL 0.75 market", "PLACE_STOP 0.25 stop at 65 GTC"},
			[]string{"warning exit_signal", "info trade_recommended", "info sale_realizes", "info odd_quantity"}},
		{"less than one share", "0.4", momentum, "", "sell 0.3 of 0.4, fraction 0.75, left 0.1",
			[]string{"SELL 0.3 market"}, []string{"warning exit_signal", "info trade_recommended", "info sale_realizes"}},
		{"two shares", "2", momentum + ", stop: {price: 65.0, time_in_force: DAY}", "",
			"sell 1 of 2, fraction 0.75, left 1",
			[]string{"SELL 1 market", "PLACE_STOP 1 stop at 65 DAY"},
			[]string{"warning exit_signal", "info trade_recommended", "info sale_realizes"}},
		{"a part", "10", momentum + ", stop: {price: 65.0}", "4",
			"sell 3 of 4, fraction 0.75, left 1",
			[]string{"SELL 3 market", "PLACE_STOP 1 stop at 65 GTC"},
			[]string{"warning exit_signal", "info trade_recommended", "info sale_realizes"}},
		{"own sizing", "10", momentum + ", sizing: {min: 0.2, max: 0.9, gap_pp: 8.5}", "",
			"sell 2 of 10, fraction 0.2, left 8", []string{"SELL 2 market"},
			[]string{"warning exit_signal", "info trade_recommended", "info sale_realizes"}},
		{"stop above market", "10", momentum + ", stop: {price: 84.70}", "",
			"sell 7 of 10, fraction 0.75, left 3", []string{"SELL 7 market"},
			[]string{"warning exit_signal", "warning stop_above_market", "info trade_recommended", "info sale_realizes"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			dir := folder(t, exitConfigText(tt.rules), held(tt.shares), falling)
			r := askedExit(t, dir, ExitQuery{Shares: tt.asked})
			if got := sizing(r); got != tt.sizing {
				t.Errorf("sizing %q, want %q", got, tt.sizing)
			}
			var actions []string
			for i, a := range r.RecommendedActions {
				text := fmt.Sprintf("%s %s %s", a.Action, a.Quantity, a.OrderType)
				if a.StopPrice != nil {
					text += fmt.Sprintf(" at %s %s", a.StopPrice, a.TimeInForce)
				}
				if actions = append(actions, text); a.Step != i+1 || a.AccountID != "brk" ||
					a.Ticker != "SLV" {
					t.Errorf("action %+v", a)
				}
			}
			wantEqual(t, tt.actions, actions)
			a := askExits(t, desk(t, dir), ExitQuery{Ticker: "slv", Shares: tt.asked,
				AsOf: "2026-06-03"})
			wantEqual(t, tt.flags, a.names())
		})
	}
}

// TestExitVerdicts checks each verdict and its flag.
func TestExitVerdicts(t *testing.T) {
	fall, rise := []string{"100", "98", "97.02", "94.1094", "84.69846"},
		[]string{"100", "105", "111.3", "115.752", "127.3272"}
	const both = "rules: {momentum_exit: {lookback: 3}, regime_check: {tickers: [GLD]}}"
	for _, tt := range []struct {
		rules    string
		slv, gld []string
		overall  string
		flags    []string
	}{
		{both, fall, fall, "STRONG EXIT",
			[]string{"warning strong_exit", "info trade_recommended", "info sale_realizes"}},
		{both, fall, rise, "EXIT", []string{"warning exit_signal", "info trade_recommended", "info sale_realizes"}},
		{both, rise, fall, "MONITOR", []string{"info monitor"}},
		{both, rise, rise, "HOLD", []string{"success hold"}},
		{both, fall, nil, "EXIT", []string{"warning rule_evaluation_error", "warning exit_signal",
			"info trade_recommended", "info sale_realizes"}},
		{both, nil, fall, "ERROR",
			[]string{"error primary_rule_error", "warning rule_evaluation_error"}},
		{"primary: mood, rules: {mood: {}, regime_check: {tickers: [GLD]}}", rise, fall, "ERROR",
			[]string{"error primary_rule_error", "warning rule_evaluation_error"}},
		{"rules: {momentum_exit: {lookback: 4}}", fall, nil, "ERROR",
			[]string{"error primary_rule_error", "warning rule_evaluation_error"}},
	} {
		prices := map[string][]string{}
		if tt.slv != nil {
			prices["SLV"] = tt.slv
		}
		if tt.gld != nil {
			prices["GLD"] = tt.gld
		}
		d := desk(t, folder(t, exitConfigText(tt.rules), held("10"), closes(prices)))
		a := askExits(t, d, ExitQuery{Ticker: "SLV", AsOf: "2026-06-03"})
		if diff := cmp.Diff(tt.flags, a.names()); diff != "" ||
			!strings.HasPrefix(fmt.Sprint(a.Snapshot["overall_assessment"]), tt.overall+" — ") {
			t.Errorf("%s: %v\nwant -, got +\n%s", tt.overall, a.Snapshot["overall_assessment"],
				diff)
		}
	}
}

// TestExitsAroundASplit checks that closes from before a split are used only if they are adjusted.
func TestExitsAroundASplit(t *testing.T) {
	split := "-- transactions/split.csv --\n" + longHeader + "2026-05-15,brk,split,SLV,,,,,,,2,,,\n"
	unadjusted := closes(map[string][]string{"SLV": {"100", "110", "118.8", "133.056", "69.8544"}})
	a := askExits(t, desk(t, folder(t, exitConfigText(momentum), held("10"), unadjusted, split)),
		ExitQuery{Ticker: "SLV", AsOf: "2026-06-03"})
	wantEqual(t, []string{"error primary_rule_error", "warning rule_evaluation_error"}, a.names())
	full := desk(t, folder(t, exitConfigText(momentum), held("10"), unadjusted,
		split)).Exits(context.Background(), ExitQuery{Ticker: "SLV", AsOf: "2026-06-03"})
	if got := full.Signals[0].Error; !strings.HasSuffix(got,
		"; SLV was split on 2026-05-15, and earlier prices need the column adjusted") {
		t.Errorf("the rule says %q", got)
	}
	// Up to the split the unadjusted closes are right.
	r := askedExit(t, folder(t, exitConfigText("rules: {momentum_exit: {lookback: 2}}"), held("10"),
		unadjusted, split), ExitQuery{AsOf: "2026-05-14"})
	if r.Position.Shares.String() != "10" || !strings.HasPrefix(r.OverallAssessment, "HOLD") {
		t.Errorf("%s shares, %s", r.Position.Shares, r.OverallAssessment)
	}
	adjusted := `
-- prices/2026.csv --
date,ticker,close,adjusted
2026-01-30,SLV,100,50
2026-02-27,SLV,110,55
2026-03-31,SLV,118.8,59.4
2026-04-30,SLV,133.056,66.528
2026-05-29,SLV,69.8544,69.8544
`
	r = askedExit(t, folder(t, exitConfigText(momentum), held("10"), adjusted, split), ExitQuery{})
	if got := sizing(r); got != "sell 10 of 20, fraction 0.5, left 10" {
		t.Errorf("sizing %q: %s", got, r.OverallAssessment)
	}
}

// TestHoldings checks the shares of each account.
func TestHoldings(t *testing.T) {
	for _, tt := range []struct{ name, rows, want string }{
		{"buys and sells", "2026-01-02,brk,buy,SLV,10,1,,,,,,,,\n2026-01-03,brk,sell,SLV,2.5,1,,,,,,,,\n2026-01-04,brk,reinvest,SLV,0.25,1,,,,,,,,", "brk 7.75"},
		{"other tickers", "2026-01-02,brk,buy,GLD,10,1,,,,,,,,", ""},
		{"later rows", "2026-06-30,brk,buy,SLV,10,1,,,,,,,,\n2026-07-01,brk,buy,SLV,10,1,,,,,,,,",
			"brk 10"},
		{"transfer", "2026-01-02,brk,buy,SLV,10,1,,,,,,,,\n2026-01-03,brk,transfer,SLV,4,,,,,two,,,,", "brk 6, two 4"},
		{"transfer out", "2026-01-02,brk,buy,SLV,10,1,,,,,,,,\n2026-01-03,brk,transfer,SLV,4,,,,,,,,,", "brk 6"},
		{"transfer in", "2026-01-03,,transfer,SLV,4,,,,,two,,40,2020-01-02,", "two 4"},
		{"gift and inheritance",
			"2026-01-02,brk,gift_in,SLV,3,,,,,,,30,2020-01-02,60\n2026-01-03,brk,inherit,SLV,4,,,,,,,,,80", "brk 7"},
		{"split everywhere by each account's row",
			"2026-01-02,brk,buy,SLV,10,1,,,,,,,,\n2026-01-02,two,buy,SLV,3,1,,,,,,,,\n2026-01-03,brk,split,SLV,,,,,,,3:2,,,\n2026-01-03,two,split,SLV,,,,,,,3:2,,,", "brk 15, two 4.5"},
		{"split in one account",
			"2026-01-02,brk,buy,SLV,10,1,,,,,,,,\n2026-01-02,two,buy,SLV,3,1,,,,,,,,\n2026-01-03,brk,split,SLV,,,,,,,1:4,,,", "brk 2.5, two 3"},
		{"split by shares added",
			"2026-01-02,brk,buy,SLV,10,1,,,,,,,,\n2026-01-03,brk,split,SLV,90,,,,,,,,,", "brk 100"},
		{"split before the trades of its day",
			"2026-01-02,brk,buy,SLV,10,1,,,,,,,,\n2026-01-03,brk,sell,SLV,5,1,,,,,,,,\n2026-01-03,brk,split,SLV,,,,,,,2,,,", "brk 15"},
		{"return of capital",
			"2026-01-02,brk,buy,SLV,10,1,,,,,,,,\n2026-01-03,brk,return_of_capital,SLV,,,,,,,,,,5",
			"brk 10"},
		{"sell without buy", "2026-01-03,brk,sell,SLV,5,1,,,,,,,,", "brk -5"},
		{"all sold", "2026-01-02,brk,buy,SLV,10,1,,,,,,,,\n2026-01-03,brk,sell,SLV,10,1,,,,,,,,",
			""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			data, problem := load(folder(t, exitConfigText(momentum), "-- transactions/a.csv --\n"+
				longHeader+tt.rows+"\n"), ifNeeded)
			if problem != nil {
				t.Fatal(problem)
			}
			if got := holdingsText(t, data, "SLV", "2026-06-30"); got != tt.want {
				t.Errorf("%s, want %s", got, tt.want)
			}
		})
	}
}

func holdingsText(t rapid.TB, data *Data, ticker, on string) string {
	t.Helper()
	day, err := tax.ParseDate(on)
	must.Succeed(t, err)
	book, problem := data.build(day)
	if problem != nil {
		t.Fatal(problem)
	}
	list, problem := data.holdings(book, ticker)
	if problem != nil {
		t.Fatal(problem)
	}
	var parts []string
	for _, h := range list {
		parts = append(parts, h.AccountID+" "+h.Shares.String())
	}
	return strings.Join(parts, ", ")
}

// TestIncompleteHistoryOfAnExit checks a position for which more shares were sold than bought
// before.
func TestIncompleteHistoryOfAnExit(t *testing.T) {
	d := desk(t, folder(t, plain, rows("2024-01-03,brk,sell,SLV,5,1,,,")))
	a := askExits(t, d, ExitQuery{Ticker: "SLV"})
	if !slices.Contains(a.names(), "warning incomplete_history") || a.Snapshot["shares"] != 5.0 {
		t.Errorf("%v, shares %v", a.names(), a.Snapshot["shares"])
	}
	if b := askExits(t, desk(t, folder(t, plain)),
		ExitQuery{Ticker: "SLV"}); slices.Contains(b.names(), "warning incomplete_history") {
		t.Errorf("%v", b.names())
	}
}

// TestHoldingsAreTheLots checks that in a complete history the holdings are the sum of the lots.
func TestHoldingsAreTheLots(t *testing.T) {
	property.Check(t, func(t *rapid.T) {
		data := &Data{Rules: tax.Rules{Accounts: []tax.Account{{ID: "a"},
			{ID: "b", Method: tax.HIFO}}}}
		data.transactions = history(t)
		day := data.transactions[len(data.transactions)-1].Date
		book, problem := data.build(day)
		if problem != nil {
			t.Fatal(problem)
		}
		if len(book.Incomplete) > 0 {
			t.Fatalf("the history is not complete: %+v", book.Incomplete)
		}
		sum := make(map[string]decimal.Decimal)
		for i := range book.Lots {
			l := &book.Lots[i]
			total, err := sum[l.Account].Add(l.Quantity)
			must.Succeed(t, err)
			sum[l.Account] = total
		}
		list, problem := data.holdings(book, "SLV")
		if problem != nil {
			t.Fatal(problem)
		}
		for _, h := range list {
			if !h.Shares.Equal(sum[h.AccountID]) {
				t.Errorf("account %s has %s shares, its lots %s", h.AccountID, h.Shares,
					sum[h.AccountID])
			}
			delete(sum, h.AccountID)
		}
		if len(sum) > 0 {
			t.Errorf("lots without holdings: %v", sum)
		}
	})
}

// history generates transactions that never sell more than is held.
func history(t *rapid.T) []tax.Transaction {
	start, err := tax.ParseDate("2024-01-02")
	must.Succeed(t, err)
	counted := make(map[string]decimal.Decimal)
	var list []tax.Transaction
	for i := range rapid.IntRange(1, 25).Draw(t, "rows") {
		from := rapid.SampledFrom([]string{"a", "b"}).Draw(t, "account")
		row := tax.Transaction{Date: start.AddDays(i * rapid.IntRange(1, 20).Draw(t, "scale")),
			Account: from, Ticker: "SLV", Action: tax.Buy,
			Quantity: decimal.MustNew(rapid.Int64Range(1, 50_000).Draw(t, "shares"), 3),
			Price:    decimal.MustNew(rapid.Int64Range(1, 9_000).Draw(t, "price"), 2),
			Source:   importer.Source{File: "a.csv", Line: i + 2}}
		row.Date = max(row.Date, start.AddDays(i))
		if n := len(list); n > 0 {
			row.Date = max(row.Date, list[n-1].Date.AddDays(1))
		}
		row.Action = rapid.SampledFrom([]tax.Action{tax.Buy, tax.Buy, tax.Reinvest, tax.Inherit,
			tax.Sell, tax.Transfer, tax.Split}).Draw(t, "action")
		switch row.Action {
		case tax.Sell, tax.Transfer:
			if row.Quantity = row.Quantity.Min(counted[from]).Trim(0); !row.Quantity.IsPos() {
				continue
			}
			if row.Action == tax.Transfer {
				row.ToAccount = map[string]string{"a": "b", "b": "a"}[from]
			}
		case tax.Split:
			row.Quantity, row.Price = decimal.Zero, decimal.Zero
			row.Ratio = rapid.SampledFrom([]tax.Ratio{ratio(2, 1), ratio(3, 2), ratio(1, 2),
				ratio(5, 4), ratio(1, 3)}).Draw(t, "ratio")
			row.Account = rapid.SampledFrom([]string{"", from}).Draw(t, "split of")
		}
		must.Succeed(t, applyToHoldings(counted, &row))
		list = append(list, row)
	}
	if len(list) == 0 {
		list = append(list, tax.Transaction{Date: start, Account: "a", Ticker: "SLV",
			Action: tax.Buy, Quantity: decimal.One, Price: decimal.One})
	}
	return list
}

func ratio(a, b int64) tax.Ratio {
	return tax.Ratio{New: decimal.MustNew(a, 0), Old: decimal.MustNew(b, 0)}
}
