package portfolio

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/govalues/decimal"

	"signalbox/brief"
	"signalbox/internal/portfolio/answer"
	"signalbox/internal/portfolio/form8949"
)

// fullYear is a year with a sale for each part of Form 8949. TestGainsOfAFullYear has the figures.
const fullYear = `
-- portfolio.yaml --
accounts:
  - {id: brk, form_1099: basis}
  - {id: coins, form_1099: basis}
  - {id: paper, form_1099: none}
  - {id: ira, kind: ira}
-- transactions/all.csv --
` + longHeader + `2023-03-01,brk,buy,VTI,10,200,1,,,,,,,
2025-02-03,brk,sell,VTI,4,250,0.10,,,,,,,
2025-03-03,brk,buy,SLV,100,30,,,,,,,,
2025-04-01,brk,sell,SLV,100,27,,,,,,,,
2025-04-10,ira,buy,SLV,30,26,,,,,,,,
2025-04-20,brk,buy,SLV,20,26.50,,,,,,,,
2025-06-02,brk,sell,SLV,20,31,,,,,,,,
2025-05-01,brk,buy,XOM,1,10,,,,,,,,
2025-05-02,brk,buy,XOM,1,10,,,,,,,,
2025-05-05,brk,buy,XOM,1,10,,,,,,,,
2025-06-10,brk,sell,XOM,3,33.33333333,,,,,,,,
2025-01-10,brk,buy,KO,10,70,,,,,,,,
2025-12-15,brk,sell,KO,10,60,,,,,,,,
2026-01-10,brk,buy,KO,10,59,,,,,,,,
2005-06-01,brk,buy,T,50,20,,,,,,,,
2025-07-01,brk,sell,T,50,18,,,,,,,,
2025-02-01,paper,buy,PRIV,10,5,,,,,,,,
2025-08-01,paper,sell,PRIV,10,8,,,,,,,,
2025-05-10,brk,inherit,MMM,10,,,,,,,,,500
2025-05-20,brk,sell,MMM,10,52,,,,,,,,
2025-03-01,brk,gift_in,GE,10,,,,,,,800,2015-05-05,600
2025-09-01,brk,sell,GE,10,70,,,,,,,,
2025-02-10,brk,buy,AAPL250620C00150000,1,100,,,,,,,,
2025-06-20,brk,expire,AAPL250620C00150000,1,,,,,,,,,
2024-01-05,coins,buy,BTC-USD,0.5,40000,,,,,,,,
2025-05-01,coins,sell,BTC-USD,0.5,90000,,,,,,,,
2024-01-02,brk,buy,O,10,1,,,,,,,,
2025-12-31,brk,return_of_capital,O,,,,,,,,,,12.50
2025-02-01,paper,buy,ETH-USD,1,3000,,,,,,,,
2025-03-01,paper,sell,ETH-USD,1,2500,,,,,,,,
2025-03-05,paper,buy,ETH-USD,1,2400,,,,,,,,
2025-04-10,ira,sell,SLV,1,20,,,,,,,,
2024-05-05,brk,buy,VTI,1,210,,,,,,,,
`

// fullYearForm is the broker's form for the same year. It does not know the wash sale in the IRA,
// and has the three lots of XOM as one.
const fullYearForm = `account,ticker,quantity,acquired,sold,proceeds,basis,wash_sale,box
brk,VTI,4,2023-03-01,2025-02-03,999.90,800.40,,D
brk,SLV,100,2025-03-03,2025-04-01,2700.00,3000.00,150.00,A
brk,SLV,20,03/23/2025,06/02/2025,620.00,590.00,,A
brk,XOM,3,VARIOUS,2025-06-10,100.00,30.00,,A
brk,KO,10,2025-01-10,2025-12-15,600.00,700.00,100.00,A
brk,T,50,2005-06-01,2025-07-01,900.00,,,E
brk,MMM,10,INHERITED,2025-05-20,520.00,500.00,,D
brk,GE,10,2015-05-05,2025-09-01,700.00,700.00,,D
brk,AAPL250620C00150000,1,2025-02-10,2025-06-20,0,100.00,,A
coins,BTC-USD,0.5,2024-01-05,2025-05-01,45000.00,,,K
`

func gainLines(r answer.GainsResult) []string {
	lines := make([]string, 0, len(r.Rows))
	for _, row := range r.Rows {
		lines = append(lines, strings.Join(strings.Fields(fmt.Sprintf("%s | %s | %s | %s | %s | %s | %s | %s | %s",
			row.Box, row.Description, row.Acquired, row.Sold, row.Proceeds, row.Basis, row.Code,
			row.Adjustment, row.Gain)), " "))
	}
	return lines
}

func scheduleLines(r answer.GainsResult) []string {
	var lines []string
	for _, l := range r.ScheduleD {
		lines = append(lines, fmt.Sprintf("%s: %s %s %s %s, %d rows", l.Line, l.Proceeds, l.Basis,
			l.Adjustment, l.Gain, l.Rows))
	}
	return lines
}

// TestGainsOfAFullYear has the figures of fullYear, by hand:
//
//   - SLV loses 3 dollars a share. 30 shares are replaced in the IRA, where 90 dollars are lost for
//     good (Rev. Rul. 2008-5), and 20 in the account, whose basis becomes 530 + 60.
//   - KO is replaced in January of the next year (section 1091(a): 30 days after the sale).
//   - The proceeds of XOM, 100 dollars, are divided among three lots.
//   - T was bought before 2011, so that its basis is not reported (Reg. 1.6045-1(a)(15)).
//   - GE is a gift that was worth less than the donor's basis, and is sold between the two: neither
//     a gain nor a loss (Publication 551).
//   - What O returned above its basis is a gain (Publication 550), and on no Form 1099-B.
//   - ETH is not a security, so that buying it back disallows nothing (section 1091).
func TestGainsOfAFullYearByForm8949AndScheduleD(t *testing.T) {
	got := desk(t, folder(t, fullYear)).Gains(context.Background(), GainsQuery{Year: "2025"})
	if got.Status != "success" {
		t.Fatalf("%s (%s)", got.Error, got.ErrorHint)
	}
	wantLines(t, gainLines(got), `
A | 100 sh. SLV | 2025-03-03 | 2025-04-01 | 2700 | 3000 | W | 150 | -150
A | 20 sh. SLV | 2025-04-20 | 2025-06-02 | 620 | 590 | | 0 | 30
A | 1 sh. XOM | 2025-05-01 | 2025-06-10 | 33.33 | 10 | | 0 | 23.33
A | 1 sh. XOM | 2025-05-02 | 2025-06-10 | 33.34 | 10 | | 0 | 23.34
A | 1 sh. XOM | 2025-05-05 | 2025-06-10 | 33.33 | 10 | | 0 | 23.33
A | 1 contract AAPL250620C00150000 | 2025-02-10 | 2025-06-20 | 0 | 100 | | 0 | -100
A | 10 sh. KO | 2025-01-10 | 2025-12-15 | 600 | 700 | W | 100 | 0
C | 10 sh. PRIV | 2025-02-01 | 2025-08-01 | 80 | 50 | | 0 | 30
D | 4 sh. VTI | 2023-03-01 | 2025-02-03 | 999.9 | 800.4 | | 0 | 199.5
D | 10 sh. MMM | INHERITED | 2025-05-20 | 520 | 500 | | 0 | 20
D | 10 sh. GE | 2015-05-05 | 2025-09-01 | 700 | 700 | | 0 | 0
E | 50 sh. T | 2005-06-01 | 2025-07-01 | 900 | 1000 | | 0 | -100
F | Nondividend distribution, O | 2024-01-02 | 2025-12-31 | 2.5 | 0 | | 0 | 2.5
I | 1 ETH-USD | 2025-02-01 | 2025-03-01 | 2500 | 3000 | | 0 | -500
K | 0.5 BTC-USD | 2024-01-05 | 2025-05-01 | 45000 | 20000 | | 0 | 25000
`)
	wantLines(t, scheduleLines(got), `
1b: 4020 4420 250 -150, 7 rows
3: 2580 3050 0 -470, 2 rows
8b: 2219.9 2000.4 0 219.5, 3 rows
9: 45900 21000 0 24900, 2 rows
10: 2.5 0 0 2.5, 1 rows
`)
	if total := fmt.Sprint(got.ShortTerm, got.LongTerm, got.WashSales, got.Permanent); total !=
		"-620 25122 250 90" {
		t.Errorf("totals %s", total)
	}
	if got.FinalOn != "" {
		t.Errorf("final on %s, but that day is over", got.FinalOn)
	}
}

// TestGainsReconcileToTheCent: the broker's form agrees with the rows, and each amount that is
// changed by a cent is found.
func TestGainsReconcileToTheCent(t *testing.T) {
	d := desk(t, folder(t, fullYear))
	ask := func(form string) answer.GainsResult {
		t.Helper()
		got := d.Gains(context.Background(), GainsQuery{Year: "2025", Form: []byte(form),
			FormName: "form.csv"})
		if got.Status != "success" {
			t.Fatalf("%s (%s)", got.Error, got.ErrorHint)
		}
		return got
	}
	got := ask(fullYearForm)
	if f := got.Form1099; f.Rows != 10 || f.Agree != 10 || len(f.Differences) > 0 {
		t.Errorf("%d of %d rows agree: %v", f.Agree, f.Rows, f.Differences)
	}
	wantEqual(t, []string{"paper"}, got.Form1099.NotCompared)
	for _, tt := range []struct{ from, to, want string }{
		{"999.90,800.40", "999.91,800.40", "VTI sold 2025-02-03: proceeds $999.90, form $999.91 (-$0.01)"},
		{"999.90,800.40", "999.90,800.39", "VTI sold 2025-02-03: basis $800.40, form $800.39 ($0.01)"},
		{"3000.00,150.00", "3000.00,60.00", "SLV sold 2025-04-01: wash_sale $150.00, form $60.00 ($90.00)"},
		{"brk,VTI,4,", "brk,VTI,5,", "VTI sold 2025-02-03: quantity 4, form 5 (-1)"},
		{",100.00,30.00,,A", ",100.01,30.00,,A", "XOM sold 2025-06-10: proceeds $100.00, form $100.01 (-$0.01)"},
		{"800.40,,D", "800.40,,A", "VTI sold 2025-02-03: box D, form A"},
		{"brk,KO,10,2025-01-10,2025-12-15,600.00,700.00,100.00,A\n", "", "KO sold 2025-12-15: row 10 for $600.00, form none"},
		{"coins,BTC", "brk,JNJ,1,2025-01-02,2025-02-03,5.00,4.00,,A\ncoins,BTC", "JNJ sold 2025-02-03: row none, form 1 for $5.00"},
	} {
		changed := strings.Replace(fullYearForm, tt.from, tt.to, 1)
		if changed == fullYearForm {
			t.Fatalf("the form does not have %q", tt.from)
		}
		differences := ask(changed).Form1099.Differences
		if len(differences) != 1 || differences[0].String() != tt.want {
			t.Errorf("%s: %v, want %s", tt.to, differences, tt.want)
		}
	}
}

// TestGainsAsTXF: the file has the rows of boxes A to F in record format 5, by the reference
// numbers of TXF version 042, and its sums are those of Schedule D.
func TestGainsAsTXFVersion042(t *testing.T) {
	got := desk(t, folder(t, fullYear)).Gains(context.Background(), GainsQuery{Year: "2025"})
	text, omitted := form8949.TXF(got.Rows, noon())
	if len(omitted) != 2 || omitted[0].Box != "I" || omitted[1].Box != "K" {
		t.Errorf("left out %v, want the digital assets", omitted)
	}
	head, rest, _ := strings.Cut(string(text), "^\n")
	if want := "V042\nAsignalbox\nD07/01/2026\n"; head != want {
		t.Errorf("it begins with %q, want %q", head, want)
	}
	sums := make(map[string]decimal.Decimal) // of gains, by reference number
	for record := range strings.SplitSeq(strings.TrimSuffix(rest, "^\n"), "^\n") {
		f := strings.Split(strings.TrimSuffix(record, "\n"), "\n")
		if len(f) != 10 || f[0] != "TD" || f[2] != "C1" || f[3] != "L1" || f[4][0] != 'P' {
			t.Fatalf("record %q", record)
		}
		if _, err := time.Parse("D01/02/2006", f[6]); err != nil {
			t.Errorf("date of the sale %q", f[6])
		}
		gain := decimal.Zero
		for i, sign := range []int64{-1, 1, 1} { // basis, proceeds, disallowed
			amount := decimal.MustParse("0" + strings.TrimPrefix(f[7+i], "$"))
			part, _ := amount.Mul(decimal.MustNew(sign, 0))
			gain, _ = gain.Add(part)
		}
		sums[f[1]], _ = sums[f[1]].Add(gain)
	}
	for code, want := range map[string]string{"N321": "-150", "N712": "30", "N323": "219.5", "N713": "-100",
		"N714": "2.5"} {
		if got := sums[code].Trim(0).String(); got != want {
			t.Errorf("%s adds up to %s, want %s", code, got, want)
		}
	}
	if len(sums) != 5 || strings.Contains(string(text), "682") {
		t.Errorf("reference numbers %v", sums)
	}
	for _, want := range []string{
		"TD\nN321\nC1\nL1\nP100 sh. SLV\nD03/03/2025\nD04/01/2025\n$3000.00\n$2700.00\n$150.00\n^\n",
		"TD\nN323\nC1\nL1\nP10 sh. MMM\nD\nD05/20/2025\n$500.00\n$520.00\n$\n^\n",
	} {
		if !strings.Contains(string(text), want) {
			t.Errorf("no record %q", want)
		}
	}
}

// TestGainsAsk: without what a form needs there is no answer, and the hint says what to add.
func TestGainsAsk(t *testing.T) {
	noForm := strings.Replace(fullYear, "brk, form_1099: basis", "brk", 1)
	const lost = "\n-- transactions/more.csv --\n" + header + "2025-03-01,brk,sell,IBM,3,100,,,\n"
	for _, tt := range []struct {
		name, files, extra, kind, text string
		q                              GainsQuery
	}{
		{"a box that is not known", noForm, "", UnknownBox,
			"the box of Form 8949 is not known for 11 sales in brk, the first 4 sh. VTI sold on 2025-02-03 (transactions/all.csv:3)", GainsQuery{Year: "2025"}},
		{"a sale that is not on the form", noForm, "", UnknownBox,
			"the box of Form 8949 is not known for 10 sales in brk, the first 100 sh. SLV sold on 2025-04-01 (transactions/all.csv:5): it is not on the Form 1099-B",
			GainsQuery{Year: "2025", Form: []byte("account,ticker,quantity,sold,proceeds,box\nbrk,VTI,4,2025-02-03,999.90,D\n"), FormName: "f.csv"}},
		{"a sale without a purchase", fullYear, lost, IncompleteHistory,
			"transactions/more.csv:2: sold without a buy of 3 IBM: its gain is not known", GainsQuery{Year: "2025"}},
		{"a year to come", fullYear, "", BadArgument, `year "2031" is not a year with sales`, GainsQuery{Year: "2031"}},
		{"no year", fullYear, "", BadArgument, `year "next" is not a year with sales`, GainsQuery{Year: "next"}},
		{"a form of another year", fullYear, "", MalformedFile, "f.csv:2: the sale of 2024-02-03 is not in 2025",
			GainsQuery{Year: "2025", Form: []byte("account,ticker,quantity,sold,proceeds,box\nbrk,VTI,4,2024-02-03,999.90,D\n"), FormName: "f.csv"}},
		{"a form of a retirement account", fullYear, "", MalformedFile, "f.csv:2: account ira is not taxable (ira)",
			GainsQuery{Year: "2025", Form: []byte("account,ticker,quantity,sold,proceeds,box\nira,VTI,4,2025-02-03,999.90,D\n"), FormName: "f.csv"}},
		{"a form without a box", fullYear, "", MalformedFile, `f.csv:1:1: the column box is missing, expected account,ticker,quantity,acquired,sold,proceeds,basis,wash_sale,box`,
			GainsQuery{Year: "2025", Form: []byte("account,ticker,quantity,sold,proceeds\nbrk,VTI,4,2025-02-03,999.90\n"), FormName: "f.csv"}},
		{"a form of an unknown account", fullYear, "", UnknownAccount, `f.csv:2: account "x" is not in portfolio.yaml`,
			GainsQuery{Year: "2025", Form: []byte("account,ticker,quantity,sold,proceeds,box\nx,VTI,4,2025-02-03,999.90,D\n"), FormName: "f.csv"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			d := desk(t, folder(t, tt.files, tt.extra))
			a := agent(t, d.RealizedGains(context.Background(), tt.q))
			if a.Status != "error" || a.Snapshot["error_kind"] != tt.kind ||
				!strings.HasSuffix(a.verdict(), ": "+tt.text) || a.Snapshot["error_hint"] == "" {
				t.Errorf("%v\nwant %s: %s", a.Snapshot, tt.kind, tt.text)
			}
		})
	}
}

// TestGainsFlags: what can still change, and what makes the rows doubtful, is a flag.
func TestGainsFlags(t *testing.T) {
	ask := func(q GainsQuery, archives ...string) agentAnswer {
		t.Helper()
		q.Format = string(brief.FormatAgent)
		return agent(t, desk(t, folder(t, append([]string{fullYear}, archives...)...)).
			RealizedGains(context.Background(), q))
	}
	const more = "\n-- transactions/more.csv --\n" + header
	wantEqual(t, []string{"warning permanently_disallowed"}, ask(GainsQuery{Year: "2025"}).names())
	a := ask(GainsQuery{Year: "2026"})
	wantEqual(t, []string{"warning year_not_final", "success no_sales"}, a.names())
	if a.verdict() != "2026: no sales in taxable accounts" || a.Snapshot["final_on"] != "2027-01-31" {
		t.Errorf("%v", a.Snapshot)
	}
	a = ask(GainsQuery{Year: "2025"}, more+"2024-03-01,brk,sell,XOM,3,100,,,\n")
	wantEqual(t, []string{"warning permanently_disallowed", "warning incomplete_history"}, a.names())
	a = ask(GainsQuery{Year: "2026"}, more+"2026-03-02,brk,buy,SPXW260918C05000000,1,9000,,,\n"+
		"2026-06-01,brk,sell,SPXW260918C05000000,1,8000,,,\n")
	wantEqual(t, []string{"warning year_not_final", "warning form_6781", "success no_sales"}, a.names())
	a = ask(GainsQuery{Year: "2025", Form: []byte(fullYearForm), FormName: "f"})
	wantEqual(t, []string{"warning permanently_disallowed", "info not_compared",
		"success form_1099b_agrees"}, a.names())
	config := strings.Replace(strings.Split(fullYear, "-- transactions")[0], "accounts:",
		"as_of: 2025-12-31\nrealized: {short_term: 5}\nfiling_status: married_separate\naccounts:\n  - {id: her, owner: spouse}", 1)
	a = ask(GainsQuery{Year: "2025"}, config,
		more+"2025-03-01,her,buy,XOM,3,100,,,\n2025-04-01,her,sell,XOM,3,100,,,\n")
	wantEqual(t, []string{"warning permanently_disallowed", "info other_gains",
		"info spouse_omitted"}, a.names())
}
