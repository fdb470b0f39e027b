package importer

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"signalbox/internal/testkit/must"
)

const (
	schwabPositions = `"Positions for account Individual ...123 as of 03:34 PM ET, 2026/06/30"

"Symbol","Description","Qty (Quantity)","Price","Price Chng $ (Price Change $)","Mkt Val (Market Value)","Security Type",
"VTI","VANGUARD TOTAL STOCK MARKET ETF","10.5","$300.00","-$1.20","$3,150.00","ETFs & Closed End Funds",
"AAPL 01/16/2026 150.00 C","CALL APPLE INC","2","$5.10","--","$1,020.00","Option",
"SWVXX","SCHWAB VALUE ADVANTAGE MONEY","500","$1.00","--","$500.00","Cash and Money Market",
"Cash & Cash Investments","--","--","--","--","$99.00","Cash and Money Market",
"Account Total","--","--","--","--","$4,769.00","--",
`
	fidelityPositions = `Account Number,Account Name,Symbol,Description,Quantity,Last Price,Last Price Change,Current Value
X12345678,Individual,FXAIX,FIDELITY 500 INDEX FUND,12.345,$182.31,+$0.50,$2250.62
X12345678,Individual, -AAPL260116C150,AAPL JAN 16 2026 $150 CALL,1,$5.10,-$0.10,$510.00
X12345678,Individual,SPAXX**,HELD IN MONEY MARKET,,,,$250.00
200000001,Roth IRA,VTI,VANGUARD,3,$300.00,,$900.00
200000001,Roth IRA,Pending Activity,,,,,$10.00

"The data and information in this spreadsheet is provided to you solely for your use."

"Date downloaded 06/30/2026 10:00 AM ET"
`
	vanguardPositions = `Account Number,Investment Name,Symbol,Shares,Share Price,Total Value,
44556677,VANGUARD TOTAL STOCK MARKET ETF,VTI,7.0000,300.00,2100.00,
`
	ownPositions = "date,account,ticker,quantity,price\n2026-06-30,brk,VTI,10,300\n,brk,AAPL  260116C00150000,1,510\n,ira,SHORT,-5,\n"
)

func formatHoldings(p *Positions) string {
	var s strings.Builder
	for _, h := range p.Holdings {
		fmt.Fprintf(&s, "%d: %s %s %s %s @%s\n", h.Source.Line, h.Date, h.Account, h.Ticker,
			h.Quantity, h.Price.Trim(0))
	}
	fmt.Fprintf(&s, "%d skipped\n", len(p.Skipped))
	return s.String()
}

// TestPositionsWithBasis has the columns of Schwab and Fidelity, and writes the basis again.
func TestPositionsWithBasis(t *testing.T) {
	for text, want := range map[string]string{
		"\"Symbol\",\"Qty (Quantity)\",\"Price\",\"Cost Basis\",\n\"VTI\",\"10.5\",\"$300.00\",\"$2,100.50\",\n\"T\",\"1\",\"$20.00\",\"--\",\n": "VTI 2100.5, T none",
		"Account Number,Symbol,Quantity,Last Price,Cost Basis Total\nX1,VTI,3,$300.00,$800.25\n":                                                 "VTI 800.25",
		"account,ticker,quantity,basis\nbrk,VTI,3,\nbrk,T,0,0\n":                                                                                 "VTI none, T 0",
		"Symbol,Quantity,Cost Basis,LevelOfDetail,CurrencyPrimary\nASML,10,8000,SUMMARY,EUR\nASML,10,8000,LOT,EUR\n":                             "ASML none",
		"account,ticker,quantity\nbrk,VTI,3\n":                                                                                                   "VTI none",
	} {
		read := func(text []byte) string {
			found, err := ReadPositions("p.csv", text, &Options{Account: "brk"})
			must.Succeed(t, err)
			var list []string
			for _, h := range found.Holdings {
				basis := "none"
				if h.Basis != nil {
					basis = h.Basis.String()
				}
				list = append(list, h.Ticker+" "+basis)
			}
			again, err := FormatPositions(found.Holdings)
			must.Succeed(t, err)
			if strings.Contains(string(again), ",basis\n") != strings.ContainsAny(
				strings.Join(list, ""), "0123456789") {
				t.Errorf("written as\n%s", again)
			}
			return strings.Join(list, ", ")
		}
		if got := read([]byte(text)); got != want {
			t.Errorf("%s\ngives %s, want %s", text, got, want)
		}
	}
	if _, err := ReadPositions("p.csv", []byte("account,ticker,quantity,basis\nbrk,VTI,3,much\n"),
		nil); err == nil {
		t.Error("a basis that is not a number")
	}
}

// TestReadPositions: the price of an option is per contract, whatever the broker prints.
func TestReadPositions(t *testing.T) {
	accounts := map[string]string{"Individual ...123": "brk", "X12345678": "brk",
		"Roth IRA": "roth", "44556677": "vg"}
	for _, tt := range []struct{ name, text, want string }{
		{"schwab", schwabPositions,
			"4: 2026-06-30 brk VTI 10.5 @300\n5: 2026-06-30 brk AAPL260116C00150000 2 @510\n3 skipped\n"},
		{"fidelity", fidelityPositions,
			"2: 2026-06-30 brk FXAIX 12.345 @182.3102470635884974\n3: 2026-06-30 brk AAPL260116C00150000 1 @510\n5: 2026-06-30 roth VTI 3 @300\n4 skipped\n"},
		{"vanguard", vanguardPositions, "2:  vg VTI 7.0000 @300\n0 skipped\n"},
		{"signalbox", ownPositions,
			"2: 2026-06-30 brk VTI 10 @300\n3:  brk AAPL260116C00150000 1 @510\n4:  ira SHORT -5 @0\n0 skipped\n"},
	} {
		got, err := ReadPositions(tt.name, []byte(tt.text), &Options{Accounts: accounts})
		if err != nil {
			t.Errorf("%s: %v", tt.name, err)
			continue
		}
		if diff := cmp.Diff(tt.want, formatHoldings(got)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tt.name, diff)
		}
	}
}

// FuzzReadPositions: no panic, faults with a position, and positions that do not change when they
// are written and read again.
func FuzzReadPositions(f *testing.F) {
	for _, text := range []string{schwabPositions, fidelityPositions, vanguardPositions,
		ownPositions} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		found, err := ReadPositions("fuzz", data, &Options{Account: "brk"})
		if err != nil {
			faults, ok := errors.AsType[*FaultsError](err)
			if !ok || len(faults.Faults) == 0 || faults.Faults[0].Line < 1 {
				t.Fatalf("%v", err)
			}
			return
		}
		seen := make(map[string]bool)
		for _, h := range found.Holdings {
			if h.Ticker == "" || h.Account == "" || h.Price.IsNeg() {
				t.Fatalf("%+v is incomplete", h)
			}
			if seen[h.Ticker] {
				return // brokers list a ticker twice; the caller adds them
			}
			seen[h.Ticker] = true
		}
		text, err := FormatPositions(found.Holdings)
		must.Succeed(t, err)
		again, err := ReadPositions("again", text, nil)
		if err != nil || len(again.Holdings) != len(found.Holdings) {
			t.Fatalf("%v in %s", err, text)
		}
		for i, h := range again.Holdings {
			if was := found.Holdings[i]; h.Ticker != was.Ticker || h.Date != was.Date ||
				!h.Quantity.Equal(was.Quantity) {
				t.Fatalf("%+v became %+v", was, h)
			}
		}
	})
}
