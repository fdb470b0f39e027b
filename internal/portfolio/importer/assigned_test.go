package importer

import (
	"strings"
	"testing"
)

// TestPublication550AssignedPuts: a put is written for $2 a share less $0.65 of fees and assigned at
// a strike price of $150, so that 100 shares cost 100 × 150 − 199.35 = $14,800.65, $148.0065 each.
func TestPublication550AssignedPuts(t *testing.T) {
	const schwab = schwabHead +
		"03/15/2024,Assigned,AMD 03/15/2024 150.00 P,PUT,1,,,\n" +
		"03/15/2024,Buy,AMD,A,100,$150.00,,-$15000.00\n"
	const fromOpen = schwab + `02/01/2024,Sell to Open,AMD 03/15/2024 150.00 P,PUT,1,$2.00,$0.65,$199.35` + "\n"
	flexPut := `assetCategory="OPT" symbol="AMD   240315P00150000" multiplier="100" currency="USD" `
	flex := func(put string) string {
		return string(flexOf(`<Trade ` + flexPut + `tradeDate="20240201" quantity="-1" tradePrice="2" ibCommission="-0.65" buySell="SELL" openCloseIndicator="O" tradeID="1"/>` +
			`<Trade ` + put + `tradeDate="20240315" quantity="1" tradePrice="0" buySell="BUY" openCloseIndicator="C" notes="A" tradeID="2"/>` +
			`<Trade assetCategory="STK" symbol="AMD" currency="USD" tradeDate="20240315" quantity="100" tradePrice="150" buySell="BUY" openCloseIndicator="O" notes="A" tradeID="3"/>`))
	}
	for name, tt := range map[string]struct {
		file  string
		price string // of the shares
		moved int    // records that moved shares
	}{
		"schwab":                           {fromOpen, "148.0065", 0},
		"schwab, without the opening sale": {schwab, "150", 1},
		"schwab, bought back before": {fromOpen +
			"02/10/2024,Buy to Close,AMD 03/15/2024 150.00 P,PUT,1,$1.00,$0.65,-$100.65\n", "150", 3},
		"schwab, one of two expired": {schwabHead +
			"03/15/2024,Expired,AMD 03/15/2024 150.00 P,PUT,1,,,\n" + strings.TrimPrefix(schwab, schwabHead) +
			"02/01/2024,Sell to Open,AMD 03/15/2024 150.00 P,PUT,2,$2.00,$1.30,$398.70\n", "148.0065", 1},
		"schwab, another strike price": {strings.ReplaceAll(fromOpen, "100,$150.00,,-$15000.00",
			"100,$151.00,,-$15100.00"), "151", 2},
		"schwab, other shares": {strings.ReplaceAll(fromOpen, "100,$150.00,,-$15000.00",
			"200,$150.00,,-$30000.00"), "150", 2},
		"schwab, the opening sale of one of two": {strings.NewReplacer("PUT,1,,,", "PUT,2,,,",
			"100,$150.00,,-$15000.00", "200,$150.00,,-$30000.00").Replace(fromOpen), "150", 2},
		"schwab, all on one day, newest first": {schwab +
			"03/15/2024,Sell to Open,AMD 03/15/2024 150.00 P,PUT,1,$2.00,$0.65,$199.35\n", "148.0065", 0},
		"schwab, shares of another day": {strings.ReplaceAll(fromOpen, "03/15/2024,Buy",
			"03/14/2024,Buy"), "150", 2},
		"schwab, a call": {strings.ReplaceAll(fromOpen, "150.00 P", "150.00 C"), "150", 2},
		"fidelity": {fidelityHead +
			"03/18/2024,YOU BOUGHT ASSIGNED PUTS AS OF 03-15-24 AMD (AMD) (Margin),AMD,A,Margin,100,150,,,,-15000.00,\n" +
			"03/18/2024,ASSIGNED as of Mar-15-2024 PUT (AMD) (Margin),-AMD240315P150,PUT (AMD),Margin,1,,,,,,\n" +
			"02/01/2024,YOU SOLD OPENING TRANSACTION PUT (AMD) (Margin),-AMD240315P150,PUT (AMD),Margin,-1,2,0.65,,,199.35,\n",
			"148.0065", 0},
		"robinhood": {robinhoodHead +
			"3/15/2024,,,AMD,AMD 3/15/2024 Put $150.00,OASGN,1,,\n" +
			"3/15/2024,,,AMD,Advanced Micro Devices,Buy,100,$150.00,($15000.00)\n" +
			"2/1/2024,,,AMD,AMD 3/15/2024 Put $150.00,STO,1,$2.00,$199.35\n", "148.0065", 0},
		"flex":                  {flex(flexPut), "148.0065", 0},
		"flex, another account": {flex(`accountId="U9" ` + flexPut), "150", 2},
		"e*trade": {"Activity/Trade Date,Activity Type,Description,Symbol,Quantity #,Price $,Amount $,Commission\n" +
			"03/15/24,Option Assigned,PUT  AMD    03/15/24   150.000,AMD,1.0,--,--,0\n" +
			"03/15/24,Bought,ADVANCED MICRO DEVICES,AMD,100.0,150.0,-15000.0,0\n" +
			"02/01/24,Sold Short,PUT  AMD    03/15/24   150.000,AMD,-1.0,2.0,199.35,0.65\n", "148.0065", 0},
	} {
		opts := &Options{Account: "brk"}
		if strings.HasPrefix(name, "flex") {
			opts = nil
		}
		imp := mustRead(t, name, []byte(tt.file), opts)
		moved := 0
		for _, s := range imp.Skipped {
			if s.Shares {
				moved++
			}
		}
		if len(imp.Rows) != 1 || imp.Rows[0].Price.String() != tt.price || moved != tt.moved {
			t.Errorf("%s: %s\nexpected one purchase at %s and %d records that moved shares", name,
				describe(imp, nil), tt.price, tt.moved)
		}
	}
	// Each of two assignments lowers the basis of its own shares.
	two := strings.TrimPrefix(schwab, schwabHead)
	imp := mustRead(t, "two", []byte(schwabHead+two+two+
		"02/01/2024,Sell to Open,AMD 03/15/2024 150.00 P,PUT,2,$2.00,$1.30,$398.70\n"),
		&Options{Account: "brk"})
	for _, r := range imp.Rows {
		if r.Price.String() != "148.0065" {
			t.Errorf("two assignments: %s", describe(imp, nil))
		}
	}
	// The same purchase has the same ID in an export without the opening sale.
	opts := &Options{Account: "brk"}
	if a, b := mustRead(t, "a", []byte(schwab), opts), mustRead(t, "b", []byte(fromOpen), opts); a.Rows[0].ID != b.Rows[0].ID {
		t.Errorf("IDs %s and %s", a.Rows[0].ID, b.Rows[0].ID)
	}
}

// TestCoinbaseConverts: an exchange of coins has one record that is sold and one that is bought.
func TestCoinbaseConverts(t *testing.T) {
	const head = "ID,Timestamp,Transaction Type,Asset,Quantity Transacted,Price Currency,Price at Transaction,Subtotal,Total (inclusive of fees and/or spread),Fees and/or Spread,Notes\n"
	record := func(id, asset, quantity string) string {
		return id + ",2024-03-24 22:14:05 UTC,Convert," + asset + "," + quantity + ",USD,$1.00,$65.00,$65.00,$0.00,\n"
	}
	for _, tt := range []struct {
		file string
		rows int
	}{
		{record("a", "BTC", "0.001") + record("a", "USDC", "-65"), 2},
		{record("a", "BTC", "0.001") + record("a", "USDC", "65"), 0},
		{record("a", "BTC", "0.001") + record("b", "USDC", "-65"), 0},
		{record("", "BTC", "0.001") + record("", "USDC", "-65"), 0},
	} {
		imp := mustRead(t, "f", []byte(head+tt.file), &Options{Account: "cb"})
		if len(imp.Rows) != tt.rows || len(imp.Rows)+len(imp.Skipped) != 2 {
			t.Errorf("%s%s", tt.file, describe(imp, nil))
		}
		for _, s := range imp.Skipped {
			if !s.Shares {
				t.Errorf("%s is not known to have moved shares", s.Text)
			}
		}
		if tt.rows == 2 && imp.Rows[0].ID == imp.Rows[1].ID {
			t.Errorf("both have the ID %s", imp.Rows[0].ID)
		}
	}
}

// TestCoinbaseMoney: money in the currency of the account is not a coin.
func TestCoinbaseMoney(t *testing.T) {
	const file = "Timestamp,Transaction Type,Asset,Quantity Transacted,Spot Price Currency,Subtotal,Total\n" +
		"2024-03-24T22:14:05Z,Deposit,EUR,1000,EUR,€1000.00,€1000.00\n" +
		"2024-03-24T22:14:05Z,Withdrawal,USD,-10,EUR,€9.00,€9.00\n"
	imp := mustRead(t, "f", []byte(file), &Options{Account: "cb"})
	for _, s := range imp.Skipped {
		if s.Shares {
			t.Errorf("%s", describe(imp, nil))
		}
	}
}

// TestReverseSplitByCUSIP joins the halves of a reverse split whose old shares have their CUSIP.
func TestReverseSplitByCUSIP(t *testing.T) {
	const in, out = "05/18/2026,Reverse Split,PPCB,PROPANC,587,,,\n",
		"05/18/2026,Reverse Split,74346N701,PROPANC XXXREVERSE SPLIT,\"-14,684\",,,\n"
	opts := &Options{Account: "brk"}
	imp := mustRead(t, "f", []byte(schwabHead+in+out), opts)
	if len(imp.Rows) != 1 || imp.Rows[0].Ticker != "PPCB" ||
		imp.Rows[0].Ratio.String() != "587:14684" {
		t.Errorf("%+v", imp.Rows)
	}
	// Of two splits of one day it is not known which is which.
	refusal(t, schwabHead+in+out+"05/18/2026,Reverse Split,OTHR,OTHER,5,,,\n", opts)
}

// TestFlexEveningActions: a split that was booked in the evening is effective on the next trading
// day, so that a sale of its day is of old shares. Its ID is that of the day on which it was booked.
func TestFlexEveningActions(t *testing.T) {
	split := func(when string) *Import {
		return mustRead(t, "f", flexOf(`<CorporateAction symbol="NVDA" `+when+` quantity="90" description="NVDA SPLIT 10 FOR 1"/>`), nil)
	}
	old := split(`dateTime="20240607"`)
	for when, day := range map[string]string{
		`dateTime="20240607;202500" reportDate="20240610"`: "2024-06-10",
		`dateTime="20240607;202500"`:                       "2024-06-08",
		`dateTime="20240607;093000" reportDate="20240610"`: "2024-06-07",
		`reportDate="20240607"`:                            "2024-06-07",
	} {
		r := split(when).Rows[0]
		if r.Date.String() != day || r.ID != old.Rows[0].ID {
			t.Errorf("%s: %s with ID %s, expected %s with %s", when, r.Date, r.ID, day, old.Rows[0].ID)
		}
	}
}

// TestFlexDollars: 10 shares at €100 and a fee of €1, at 1.1 dollars for a euro.
func TestFlexDollars(t *testing.T) {
	const euro = `<Trade symbol="ASML" currency="EUR" tradeDate="20240105" quantity="10" tradePrice="100" ibCommission="-1" buySell="BUY" openCloseIndicator="O" tradeID="1" fxRateToBase="1.1"/>`
	for _, tt := range []struct{ more, currency, price, fees string }{
		{`<AccountInformation accountId="U1" currency="USD"/>`, "USD", "110", "1.1"},
		{`<Trade symbol="VTI" currency="USD" tradeDate="20240106" quantity="1" tradePrice="1" buySell="BUY" openCloseIndicator="O" tradeID="2" fxRateToBase="1"/>`, "USD", "110", "1.1"},
		{`<AccountInformation accountId="U1" currency="EUR"/>`, "EUR", "100", "1"},
		{`<Trade symbol="VTI" currency="USD" tradeDate="20240106" quantity="1" tradePrice="1" buySell="BUY" openCloseIndicator="O" tradeID="2" fxRateToBase="10"/>`, "EUR", "100", "1"},
		{"", "EUR", "100", "1"},
	} {
		r := mustRead(t, "f", flexOf(euro+tt.more), nil).Rows[0]
		if r.Currency != tt.currency || amount(r.Price) != tt.price || amount(r.Fees) != tt.fees {
			t.Errorf("%s: %s %s and %s, expected %s %s and %s", tt.more, r.Price, r.Currency, r.Fees,
				tt.price, tt.currency, tt.fees)
		}
	}
}

// TestActivityRefuses checks what an activity statement must not be imported with.
func TestActivityRefuses(t *testing.T) {
	const head = "Statement,Header,Field Name,Field Value\nTrades,Header,DataDiscriminator,Asset Category,Currency,Symbol,Date/Time,Quantity,T. Price,C. Price,Proceeds,Comm/Fee,Basis,Realized P/L,MTM P/L,Code\n"
	for row, want := range map[string]string{
		`Trades,Data,Trade Cancel,Stocks,USD,VTI,"2024-03-04, 10:30:00",-1,10,10,10,0,,,,`:                                                                  "expected Order",
		`Trades,Data,Order,Stocks,USD,VTI,"2024-03-04, 10:30:00",-1,10,10,10,0,,,,C;Ca`:                                                                     "was cancelled",
		`Trades,Data,Order,Equity and Index Options,USD,SPX 21JUN24 520 C,"2024-03-04, 10:30:00",1,8,8,-80,0,,,,O`:                                          "is not for 100 shares",
		`Trades,Data,Order,Stocks,USD,VTI,"03/04/2024, 10:30:00",1,10,10,-10,0,,,,O`:                                                                        "is not a date",
		`Trades,Data,Order,Stocks,USD,VTI,"2024-03-04, 10:30:00","1,50",10,10,-10,0,,,,O`:                                                                   "is not a number",
		`Trades,Data,Order,Stocks,USD,VTI,"2024-03-04, 10:30:00",-2,10,10,20,0,,,,C` + "\n" + `Trades,Data,ClosedLot,Stocks,USD,VTI,2024-01-04,1,10,,,,,,,`: "closed lots have 1",
		`Trades,Data,Order,Stocks,USD,VTI,"2024-03-04, 10:30:00",-2,10,10,20,0,,,,C` + "\n" + `Trades,Data,ClosedLot,Stocks,USD,KO,2024-01-04,2,10,,,,,,,`:  "expected Order",
	} {
		if fe := refusal(t, head+row+"\n", &Options{Account: "brk"}); !strings.Contains(fe.Error(), want) {
			t.Errorf("%s\ngives %v, expected %s", row, fe, want)
		}
	}
	// A return of capital, and shares that moved in a table of its own, change the lots.
	imp := mustRead(t, "f", []byte(head+"Dividends,Header,Currency,Date,Description,Amount\n"+
		"Dividends,Data,USD,2024-05-01,VNQ(US9229085538) Cash Dividend (Return of Capital),100\n"+
		"Trade Transfers,Header,Currency,Symbol,Date,Quantity\n"+
		"Trade Transfers,Data,USD,VNQ,2024-05-02,-50\n"+
		`Trades,Data,Order,Stocks,USD,VTI,"2024-03-04, 10:30:00",1,10,10,-10,0,,,,O`+"\n"),
		&Options{Account: "brk"})
	if len(imp.Skipped) != 2 || !imp.Skipped[0].Shares || !imp.Skipped[1].Shares {
		t.Errorf("%+v", imp.Skipped)
	}
	// What no lots are kept for is left out by name.
	imp = mustRead(t, "f", []byte(head+`Trades,Data,Order,Bonds,USD,T 4,"2024-03-04, 10:30:00",1000,1,1,-1000,0,,,,O`+"\n"), &Options{Account: "brk"})
	if len(imp.Skipped) != 1 || !imp.Skipped[0].Shares {
		t.Errorf("%+v", imp)
	}
}

// TestVanguardHoldings reads a file with more holdings above its history than a header is searched
// for elsewhere.
func TestVanguardHoldings(t *testing.T) {
	file := "Account Number,Investment Name,Symbol,Shares,Share Price,Total Value,\n" +
		strings.Repeat("20000001,FUND,VTI,1,1.00,1.00,\n", 200) +
		"Account Number,Trade Date,Transaction Type,Investment Name,Symbol,Shares,Share Price,Net Amount\n" +
		"20000001,03/04/2024,Buy,FUND,VTI,2,10.00,-20.00\n"
	if imp := mustRead(t, "f", []byte(file), nil); len(imp.Rows) != 1 {
		t.Errorf("%+v", imp)
	}
}

// TestVanguardUnknownWord: what an unknown word means for a security that it names is not known.
func TestVanguardUnknownWord(t *testing.T) {
	const head = "Account Number,Trade Date,Transaction Type,Investment Name,Symbol,Shares,Share Price,Net Amount\n"
	for row, shares := range map[string]bool{
		"20000001,03/04/2024,Return of capital,FUND,VNQ,0,0,500.00\n": true,
		"20000001,03/04/2024,Some fee,CASH,,0,0,-5.00\n":              false,
	} {
		imp := mustRead(t, "f", []byte(head+row), nil)
		if len(imp.Skipped) != 1 || imp.Skipped[0].Shares != shares {
			t.Errorf("%s: %+v", row, imp.Skipped)
		}
	}
}

// TestOFXTransferWithBasis: shares that came in with price and day of their purchase are a lot.
func TestOFXTransferWithBasis(t *testing.T) {
	file := func(fields string) []byte {
		return []byte("OFXHEADER:100\n\n<OFX><INVSTMTMSGSRSV1><INVSTMTTRNRS><INVSTMTRS><CURDEF>USD<INVACCTFROM><ACCTID>1</INVACCTFROM><INVTRANLIST>" +
			"<TRANSFER><INVTRAN><FITID>T2<DTTRADE>20260301</INVTRAN><SECID><UNIQUEID>037833100</SECID><UNITS>10<TFERACTION>IN<POSTYPE>LONG" +
			fields + "</TRANSFER></INVTRANLIST></INVSTMTRS></INVSTMTTRNRS></INVSTMTMSGSRSV1>" +
			"<SECLISTMSGSRSV1><SECLIST><STOCKINFO><SECINFO><SECID><UNIQUEID>037833100</SECID><TICKER>AAPL</SECINFO></STOCKINFO></SECLIST></SECLISTMSGSRSV1></OFX>")
	}
	for fields, known := range map[string]bool{
		"<UNITPRICE>150<DTPURCHASE>20240105":                   true,
		"<AVGCOSTBASIS>1500<UNITPRICE>150<DTPURCHASE>20240105": true,
		"<AVGCOSTBASIS>150<UNITPRICE>150<DTPURCHASE>20240105":  true,
		"<AVGCOSTBASIS>1600<UNITPRICE>150<DTPURCHASE>20240105": false,
		"<AVGCOSTBASIS>1500<UNITPRICE>150":                     false,
		"<AVGCOSTBASIS>1500<DTPURCHASE>20240105":               false,
		"<UNITPRICE>150<DTPURCHASE>20260401":                   false,
		"":                                                     false,
	} {
		imp := mustRead(t, "f", file(fields), &Options{Accounts: map[string]string{"1": "brk"}})
		if !known {
			if len(imp.Rows) != 0 || len(imp.Skipped) != 1 || !imp.Skipped[0].Shares {
				t.Errorf("%s: %s", fields, describe(imp, nil))
			}
			continue
		}
		if len(imp.Rows) != 1 || imp.Rows[0].Account != "" || imp.Rows[0].ToAccount != "brk" ||
			amount(imp.Rows[0].DonorBasis) != "1500" || imp.Rows[0].DonorDate.String() != "2024-01-05" {
			t.Errorf("%s: %s", fields, describe(imp, nil))
		}
	}
}
