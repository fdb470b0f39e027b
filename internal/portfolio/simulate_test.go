package portfolio

import (
	"context"
	"strings"
	"testing"

	"signalbox/internal/portfolio/answer"
)

// sales is a portfolio whose sales have figures that TestSimulatedSales computes by hand.
const sales = `
-- portfolio.yaml --
accounts: [{id: brk}, {id: ira, kind: ira}]
tax_rates: {short_term: 0.32, long_term: 0.15, state: 0.05, niit: 0.038}
-- transactions/brk.csv --
` + header + `2024-01-10,brk,buy,SLV,100,20,,,
2026-01-12,brk,buy,SLV,100,30,,,new
2026-06-10,ira,buy,SLV,10,24,,,
2026-06-15,brk,buy,SLV,20,24,,,
2026-06-15,brk,buy,FRAC,1.5,24,,,
-- prices/2026.csv --
date,ticker,close
2026-06-30,SLV,25
2026-06-30,FRAC,25
`

func TestSection1091SimulatedSales(t *testing.T) {
	for _, tt := range []struct {
		name, settings string
		q              SimulateQuery
		verdict        string
		flags          map[string]string
	}{
		// 100 × ($25 − $20) = $500, taxed at 15 + 5 + 3.8 percent: $119.
		{"FIFO", "", SimulateQuery{Shares: "100"},
			"Selling 100 SLV realizes $500.00 long-term; costs $119 of tax this year", nil},
		// 100 × ($25 − $30) = −$500. The 10 shares of the IRA and the 20 of June replace 30: $150,
		// of which $50 is lost (Rev. Rul. 2008-5). $350 saves 32 + 5 percent: $129.50. Clean 31
		// days after 15 June; bought again 31 days after 1 July.
		{"a lot at a loss", "", SimulateQuery{Lots: []string{"new"}},
			"Selling 100 SLV realizes -$350.00 short-term, after $150.00 of losses disallowed as wash sales ($50.00 for good); saves $129.50 of tax this year",
			map[string]string{
				"wash_sale":     "Wash sales disallow $150, because of 10 SLV of 2026-06-10 in ira, 20 SLV of 2026-06-15 in brk; clean from 2026-07-16",
				"would_be_lost": "$50 of the loss would be lost for good — replaced in an IRA, Roth, HSA or 401k",
				"do_not_buy":    "Do not buy SLV before 2026-08-01",
				"identify_lots": "Name the lots to the broker when you sell, or others are sold: 100 of 2026-01-12: -$500.00 short-term"}},
		// The 20 shares of June are sold too, at a gain of 20 × $1: −500 + 50 + 20 = −430.
		{"the highest basis first", "", SimulateQuery{Shares: "120", Method: "hifo"},
			"Selling 120 SLV realizes -$430.00 short-term, after $50.00 of losses disallowed as wash sales ($50.00 for good); saves $159.10 of tax this year", nil},
		// $1,000 of other gains are taxed at 32 + 5 + 3.8 percent: 650 × 40.8 % − 1,000 × 40.8 %.
		{"with other gains", "realized: {short_term: 1000}", SimulateQuery{Lots: []string{"new"}},
			"Selling 100 SLV realizes -$350.00 short-term, after $150.00 of losses disallowed as wash sales ($50.00 for good); saves $142.80 of tax this year", nil},
		// $1,010 needs 40.4 shares, and the account has whole ones: 41 × $5 = $205.
		{"cash", "", SimulateQuery{Cash: "1010"},
			"Selling 41 SLV realizes $205.00 long-term; costs $48.79 of tax this year", nil},
		{"a price", "", SimulateQuery{Shares: "10", Price: "26"},
			"Selling 10 SLV realizes $60.00 long-term; costs $14.28 of tax this year", nil},
		{"a part of two lots", "", SimulateQuery{Shares: "110",
			Lots: []string{"new", "2024-01-10#1"}},
			"Selling 110 SLV realizes -$350.00 short-term and $50.00 long-term, after $150.00 of losses disallowed as wash sales ($50.00 for good); saves $111 of tax this year", nil},
		{"a retirement account", "", SimulateQuery{AccountID: "ira"},
			"Selling 10 SLV is not taxed: the account is a retirement account",
			map[string]string{"not_taxed": "Gains and losses in a retirement account do not count"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			q := tt.q
			q.Ticker, q.Format, q.AccountID = "slv", "agent", "brk"
			if tt.q.AccountID != "" {
				q.AccountID = tt.q.AccountID
			}
			d := desk(t, folder(t, replaced(sales, "tax_rates", tt.settings+"\ntax_rates")))
			a := agent(t, d.SimulateSale(context.Background(), q))
			if a.verdict() != tt.verdict {
				t.Errorf("verdict %q\nwant    %q", a.verdict(), tt.verdict)
			}
			for flag, want := range tt.flags {
				if got := a.message(flag); got != want {
					t.Errorf("%s: %q, want %q", flag, got, want)
				}
			}
			if tt.flags == nil && a.message("identify_lots") == "" && len(a.Flags) > 1 {
				t.Errorf("%v", a.Flags)
			}
			for _, format := range []string{"full", "summary", "report"} {
				q.Format = format
				if r := d.SimulateSale(context.Background(), q); r.Problem != nil ||
					!strings.Contains(string(r.JSON), `"flags":[`) {
					t.Errorf("%s: %s", format, r.JSON)
				}
			}
		})
	}
}

// TestSimulateCash: a position with fractions is sold in fractions.
func TestSimulateCash(t *testing.T) {
	r := desk(t, folder(t, sales)).Simulate(context.Background(), SimulateQuery{Ticker: "FRAC",
		Cash: "30"})
	if r.Shares.String() != "1.2" {
		t.Errorf("%s shares, want 30 / 25 = 1.2", r.Shares)
	}
}

func TestSimulateRefuses(t *testing.T) {
	for _, tt := range []struct {
		name, files string
		q           SimulateQuery
		kind, says  string
	}{
		{"no account", "", SimulateQuery{}, AccountNeeded, "2 accounts hold SLV"},
		{"not held there", "", SimulateQuery{Ticker: "FRAC", AccountID: "ira"}, NotHeld, "does not hold FRAC"},
		{"never traded", "", SimulateQuery{Ticker: "GLD"}, UnknownTicker, "GLD is not in any transaction"},
		{"too many", "", SimulateQuery{AccountID: "brk", Shares: "221"}, BadArgument, "more than the 220 shares"},
		{"too much cash", "", SimulateQuery{AccountID: "brk", Cash: "5501"}, BadArgument,
			"5501 in cash needs 221 shares, and only 220 are held"},
		{"shares and cash", "", SimulateQuery{Shares: "1", Cash: "1"}, BadArgument, "both shares and cash"},
		{"lots and a method", "", SimulateQuery{Lots: []string{"new"}, Method: "fifo"}, BadArgument, "both lots and a method"},
		{"an unknown method", "", SimulateQuery{Method: "best"}, BadArgument, `method "best"`},
		{"an unknown lot", "", SimulateQuery{AccountID: "brk", Lots: []string{"old"}}, BadArgument, `brk has no open lot "old" of SLV`},
		{"a lot twice", "", SimulateQuery{AccountID: "brk", Lots: []string{"new", "new"}}, BadArgument, `no open lot "new"`},
		{"a lot that is too small", "", SimulateQuery{AccountID: "brk", Shares: "101", Lots: []string{"new"}}, BadArgument, "the lots have 1 shares too few"},
		{"a price of zero", "", SimulateQuery{Price: "0"}, BadArgument, `price "0"`},
		{"a missing record", "-- left-out.csv --\nfile,line,why,record\na.csv,2,a spin-off,SLV spun off\n",
			SimulateQuery{AccountID: "brk"}, IncompleteHistory, "records that are missing changed the lots of SLV"},
		{"fewer shares are held", "-- positions.csv --\naccount,ticker,quantity\nbrk,SLV,200\nbrk,FRAC,1.5\n",
			SimulateQuery{AccountID: "brk", Lots: []string{"new"}}, IncompleteHistory,
			"brk holds 200 shares of SLV and its lots have 220"},
		{"more shares are held", "-- positions.csv --\naccount,ticker,quantity\nbrk,SLV,250\nbrk,FRAC,1.5\n",
			SimulateQuery{AccountID: "brk"}, IncompleteHistory, "brk holds 250 shares of SLV and its lots have 220"},
		{"a fund at average cost", rows("2026-01-12,brk,buy,VTSAX,1,500,,,"),
			SimulateQuery{Ticker: "VTSAX", Price: "1"}, NotComputable, "at average cost"},
		{"a contract under section 1256", rows("2026-01-12,brk,buy,SPXW260918C05000000,1,500,,,"),
			SimulateQuery{Ticker: "SPXW260918C05000000", Price: "1"}, NotComputable, "section 1256"},
		{"no price", rows("2026-01-12,brk,buy,ABC,1,500,,,"), SimulateQuery{Ticker: "ABC"}, MissingPrice, "no price of ABC"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if tt.q.Ticker == "" {
				tt.q.Ticker = "SLV"
			}
			r := desk(t, folder(t, sales, tt.files)).Simulate(context.Background(), tt.q)
			if r.ErrorKind != tt.kind || !strings.Contains(r.Error, tt.says) || r.ErrorHint == "" {
				t.Errorf("%s: %s (%s)", r.ErrorKind, r.Error, r.ErrorHint)
			}
		})
	}
	// A lot that is known can be named although others are not.
	r := desk(t, folder(t, sales, "-- positions.csv --\naccount,ticker,quantity\nbrk,SLV,250\nbrk,FRAC,1.5\n")).
		Simulate(context.Background(), SimulateQuery{Ticker: "SLV", AccountID: "brk",
			Lots: []string{"new"}})
	if r.Status != "success" {
		t.Errorf("%s", r.Error)
	}
}

// TestSimulatedTaxIsUnknown: without rates, or without the losses carried over, there is no tax.
func TestSimulatedTaxIsUnknown(t *testing.T) {
	const q = "add your rates to portfolio.yaml: tax_rates: {short_term: 0.24, long_term: 0.15}"
	for name, tt := range map[string]struct{ archive, more, want string }{
		"no rates": {replaced(sales, "tax_rates: {short_term: 0.32, long_term: 0.15, state: 0.05, niit: 0.038}", ""), "", q},
		"carryover": {sales, rows("2025-07-01,brk,sell,OLD,5,10,,,"),
			"losses carried over are not known: set them under realized in portfolio.yaml"},
		"a missing record of a ticker that was sold": {sales, rows("2024-07-01,brk,buy,OLD,5,10,,,\n2025-07-01,brk,sell,OLD,5,10,,,") +
			"-- left-out.csv --\nfile,line,why,record\na.csv,2,a spin-off,OLD spun off\n",
			"losses carried over are not known: set them under realized in portfolio.yaml"},
	} {
		r := desk(t, folder(t, tt.archive, tt.more)).Simulate(context.Background(),
			SimulateQuery{Ticker: "SLV", AccountID: "brk"})
		if r.Status != "success" || r.Year.Tax != nil || r.Year.TaxUnknown != tt.want {
			t.Errorf("%s: %s %+v", name, r.Error, r.Year)
		}
	}
}

// TestExitsSayWhatTheSaleRealizes: the recommended sale is simulated.
func TestExitsSayWhatTheSaleRealizes(t *testing.T) {
	const exits = "-- portfolio.yaml --\naccounts: [{id: brk}, {id: ira, kind: ira}]\nexit_rules:\n  SLV: {rules: {momentum_exit: {lookback: 3}}}\n" +
		"-- prices/2026.csv --\ndate,ticker,close\n2026-01-30,SLV,30\n2026-02-27,SLV,31\n2026-03-31,SLV,32\n2026-04-30,SLV,33\n2026-05-29,SLV,34\n2026-06-30,SLV,25\n"
	a := askExits(t, desk(t, folder(t, sales, exits)), ExitQuery{Ticker: "SLV", AccountID: "brk"})
	// 75 percent of 220 is 165: 100 × $5 = $500 and 65 × −$5 = −$325. The 35 shares that remain of
	// the lot do not replace the others, and 10 of the IRA and 20 of June do: $50 + $100.
	if want := "Selling 165 SLV realizes -$175.00 short-term and $500.00 long-term, after $150.00 of losses disallowed as wash sales ($50.00 for good)"; a.message("sale_realizes") != want {
		t.Errorf("%v", a.Flags)
	}
	a = askExits(t, desk(t, folder(t, sales, exits,
		"-- left-out.csv --\nfile,line,why,record\na.csv,2,a spin-off,SLV spun off\n")),
		ExitQuery{Ticker: "SLV", AccountID: "brk"})
	if want := "What the sale realizes is not known: records that are missing changed the lots of SLV"; a.message("sale_not_known") != want {
		t.Errorf("%v", a.Flags)
	}
}

// TestSection1222Tax: a net loss of one kind lowers the net gain of the other, and a net loss of
// both is deducted up to the limit (section 1211(b)).
func TestSection1222Tax(t *testing.T) {
	var n numbers
	rates := answer.TaxRates{ShortTerm: n.decimal("0.32"), LongTerm: n.decimal("0.15"),
		State: n.decimal("0.05"), NIIT: n.decimal("0.038")}
	for _, tt := range []struct{ short, long, want string }{
		{"100", "200", "88.4"},    // 100 × 40.8 % + 200 × 23.8 %
		{"-200", "500", "71.4"},   // 300 × 23.8 %
		{"500", "-200", "122.4"},  // 300 × 40.8 %
		{"-5000", "100", "-1110"}, // 3,000 × 37 %
		{"-100", "-200", "-111"},  // 300 × 37 %
		{"-500", "500", "0"},
	} {
		net, err := answer.NetOf("single", answer.Realized{}, amount(n.decimal(tt.short)),
			amount(n.decimal(tt.long)))
		if err != nil {
			t.Fatal(err)
		}
		if tax, err := net.Tax(rates); err != nil || tax.String() != tt.want {
			t.Errorf("%s and %s: %s, want %s (%v)", tt.short, tt.long, tax, tt.want, err)
		}
	}
}
