package importer

import (
	"fmt"
	"strings"
	"testing"
)

const (
	schwabHead    = "Date,Action,Symbol,Description,Quantity,Price,Fees & Comm,Amount\n"
	fidelityHead  = "Run Date,Action,Symbol,Description,Type,Quantity,Price ($),Commission ($),Fees ($),Accrued Interest ($),Amount ($),Settlement Date\n"
	robinhoodHead = "Activity Date,Process Date,Settle Date,Instrument,Description,Trans Code,Quantity,Price,Amount\n"
)

// outcome describes what became of a file with one record.
func outcome(imp *Import, err error) string {
	switch {
	case err != nil:
		return "fault"
	case len(imp.Rows) == 1 && len(imp.Skipped) == 0:
		r := imp.Rows[0]
		text := fmt.Sprintf("%s %s", r.Action, r.Ticker)
		for _, s := range []string{amount(r.Quantity), amount(r.Price), amount(r.Fees),
			amount(r.Value)} {
			if s != "" {
				text += " " + s
			}
		}
		return text
	case len(imp.Rows) == 0 && len(imp.Skipped) == 1 && imp.Skipped[0].Shares:
		return "shares"
	case len(imp.Rows) == 0 && len(imp.Skipped) == 1:
		return "cash"
	}
	return fmt.Sprintf("%d rows, %d skipped", len(imp.Rows), len(imp.Skipped))
}

// checkActions reads records of a broker one by one. A record that moves shares must become a row,
// a fault, or skipped as shares.
func checkActions(t *testing.T, head string, cases map[string]string) {
	t.Helper()
	for record, want := range cases {
		imp, err := Read("f", []byte(head+record+"\n"), &Options{Account: "brk"})
		if got := outcome(imp, err); got != want {
			t.Errorf("%s\ngives %s, expected %s (%v)", record, got, want, err)
		}
	}
}

func TestSchwabActions(t *testing.T) {
	checkActions(t, schwabHead, map[string]string{
		`01/15/2024,Buy,VTI,V,10,$2.00,,-$20.00`:                          "buy VTI 10 2",
		`01/15/2024,Sell,VTI,V,10,$2.00,$0.01,$19.99`:                     "sell VTI 10 2 0.01",
		`01/15/2024,Reinvest Shares,VTI,V,1.5,$2.00,,-$3.00`:              "reinvest VTI 1.5 2",
		`01/15/2024,Reinvest Dividend,VTI,V,,,,$3.00`:                     "cash",
		`01/15/2024,Qual Div Reinvest,VTI,V,,,,$3.00`:                     "cash",
		`01/15/2024,Stock Split,VTI,V,30,,,`:                              "split VTI 30",
		`01/15/2024,Reverse Split,VTI,V,30,,,`:                            "fault",
		`01/15/2024,Conversion,VTI,V,30,,,`:                               "shares",
		`01/15/2024,Options Frwd Split,TSLA 01/20/2026 333.33 C,V,2,,,`:   "shares",
		`01/15/2024,Journal,,V,,,,$3.00`:                                  "cash",
		`01/15/2024,Journal,VTI,V,-3,,,`:                                  "shares",
		`01/15/2024,Security Transfer,VTI,V,3,,,`:                         "shares",
		`01/15/2024,Journaled Shares,VTI,V,3,,,`:                          "shares",
		`01/15/2024,Expired,AMD 01/12/2024 210.00 C,C,-3,,,`:              "expire AMD240112C00210000 3",
		`01/15/2024,Expired,AMD 01/12/2024 210.00 C,C,3,,,`:               "shares",
		`01/15/2024,Assigned,AMD 01/12/2024 210.00 C,C,3,,,`:              "shares",
		`01/15/2024,Exchange or Exercise,AMD 01/12/2024 210.00 C,C,-3,,,`: "assign AMD240112C00210000 3",
		`01/15/2024,Buy to Open,AMD 01/19/2024 210.00 C,C,2,$5.10,$1.32,` +
			`"-$1,021.32"`: "buy AMD240119C00210000 2 510 1.32",
		`01/15/2024,Sell to Close,amd 01/19/2024 210.00 c,C,1,$5.10,,$510.00`: "sell AMD240119C00210000 1 510",
		`01/15/2024,Sell to Open,AMD 01/19/2024 210.00 C,C,1,$5.10,,$510.00`:  "shares",
		`01/15/2024,Stock Plan Activity,VTI,V,3,,,`:                           "shares",
		`01/15/2024,Cash In Lieu,VTI,V,,,,$3.00`:                              "shares",
		`01/15/2024,Spin-off,VTI,V,3,,,`:                                      "shares",
		`01/15/2024,Name Change,VTI,V,3,,,`:                                   "shares",
		`01/15/2024,Cash Dividend,VTI,V,3,,,$3.00`:                            "shares",
		`01/15/2024,Return of Capital,VTI,V,,,,$3.00`:                         "return_of_capital VTI 3",
		// brings money: a trade taken back
		`01/15/2024,Buy,VTI,V,10,$2.00,,$20.00`:                              "fault",
		`01/15/2024,Sell,VTI,V,10,$2.00,,-$20.00`:                            "fault",
		`01/15/2024,Buy,SWVXX,S,10,$1.00,,-$10.00`:                           "cash",
		`01/15/2024,Buy,912828XX1,US TREASURY,"10,000",$98.50,,"-$9,850.00"`: "shares",
		`01/15/2024,Cancel Buy,VTI,V,10,$2.00,,$20.00`:                       "shares",
	})
}

func TestFidelityActions(t *testing.T) {
	checkActions(t, fidelityHead, map[string]string{
		`Dec-31-2024,YOU BOUGHT VTI (VTI) (Cash),VTI,V,Cash,10,2,,,,-20,`:                       "buy VTI 10 2",
		`12/31/2024,YOU SOLD VTI (VTI) (Cash),VTI,V,Cash,-10,2,,0.01,,19.99,`:                   "sell VTI 10 2 0.01",
		`12/31/2024,REINVESTMENT VTI (VTI) (Cash),VTI,V,Cash,1.5,2,,,,-3,`:                      "reinvest VTI 1.5 2",
		`12/31/2024,REINVESTMENT CASH (315994103) (Cash),315994103,CASH,Cash,1.5,1,,,,-1.5,`:    "cash",
		`12/31/2024,DIVIDEND RECEIVED VTI (VTI) (Cash),VTI,V,Cash,0.000,,,,,3,`:                 "cash",
		`12/31/2024,DISTRIBUTION VTI (VTI) (Cash),VTI,V,Cash,5,,,,,,`:                           "shares",
		`12/31/2024,DISTRIBUTION STOCK SPLIT (VTI) (Cash),VTI,V,Cash,5,,,,,,`:                   "split VTI 5",
		`12/31/2024,REVERSE SPLIT R/S FROM 123456789#REOR M1 (VTI) (Cash),VTI,V,Cash,5,,,,,,`:   "fault",
		`12/31/2024,TRANSFERRED FROM VS Z12 (VTI) (Cash),VTI,V,Cash,5,,,,,,`:                    "shares",
		`12/31/2024,TRANSFERRED TO VS Z12 (Cash),,No Description,Cash,0,,,,,-500,`:              "cash",
		`12/31/2024,TRANSFER OF ASSETS ACAT RECEIVE (VTI) (Cash),VTI,V,Cash,5,,,,,,`:            "shares",
		`12/31/2024,EXPIRED CALL (F) FORD as of Dec-27-2024 (Cash),-F241227C13,C,Cash,-4,,,,,,`: "expire F241227C00013000 4",
		`12/31/2024,ASSIGNED as of Dec-27-2024 PUT (F) (Cash),-F241227P13,C,Cash,4,,,,,,`:       "shares",
		`12/31/2024,EXERCISED as of Dec-27-2024 CALL (F) (Cash),-F241227C13,C,Cash,-4,,,,,,`:    "assign F241227C00013000 4",
		`12/31/2024,MERGER MER PAYOUT (TWTR) (Cash),TWTR,T,Cash,-10,,,,,542,`:                   "shares",
		`12/31/2024,REDEMPTION PAYOUT BILL (912797AB1) (Cash),912797AB1,B,Cash,-5000,,,,,5000,`: "shares",
		`12/31/2024,REDEMPTION FROM CORE ACCOUNT FDIC (QXXXX) (Cash),QXXXX,Q,Cash,-10,1,,,,10,`: "cash",
		`12/31/2024,YOU BOUGHT FDIC INSURED DEPOSIT (QPIFQ) (Cash),QPIFQ,Q,Cash,10,1,,,,-10,`:   "cash",
		`12/31/2024,YOU SOLD CANCELLED TRADE (VTI) (Cash),VTI,V,Cash,10,2,,,,-20,`:              "shares",
		`12/31/2024,YOU BOUGHT CLOSING TRANSACTION CALL (F),-F241227C13,C,Cash,1,2,,,,-200,`:    "shares",
		`12/31/2024,IN LIEU OF FRX SHARE (GE) (Cash),GE,G,Cash,0,,,,,3.10,`:                     "shares",
	})
}

func TestRobinhoodActions(t *testing.T) {
	checkActions(t, robinhoodHead, map[string]string{
		`1/5/2024,,,VTI,V,Buy,10,$2.00,($20.00)`:                              "buy VTI 10 2",
		`1/5/2024,,,vti,V,sell,10,$2.00,$19.99`:                               "sell VTI 10 2 0.01",
		`1/5/2024,,,VTI,V Dividend Reinvestment,Buy,1,$2,($2.00)`:             "reinvest VTI 1 2",
		`1/5/2024,,,VTI,V,SPL,30,,`:                                           "split VTI 30",
		`1/5/2024,,,VTI,V,SPR,30,,`:                                           "fault",
		`1/5/2024,,,VTI,V,CDIV,,,$3.00`:                                       "cash",
		`1/5/2024,,,VTI,V,SDIV,3,,`:                                           "shares",
		`1/5/2024,,,F,F 1/5/2024 Call $13.00,BTO,1,$2.00,($200.04)`:           "buy F240105C00013000 1 200 0.04",
		`1/5/2024,,,F,F 1/5/2024 Call $13.00,STC,1,$2.00,$199.96`:             "sell F240105C00013000 1 200 0.04",
		`1/5/2024,,,F,F 1/5/2024 Call $13.00,STO,1,$2.00,$199.96`:             "shares",
		`1/5/2024,,,F,Option Expiration for F 1/5/2024 Call $13.00,OEXP,2S,,`: "expire F240105C00013000 2",
		`1/5/2024,,,F,F 1/5/2024 Call $13.00,OEXCS,2,,`:                       "assign F240105C00013000 2",
		`1/5/2024,,,F,F 1/5/2024 Call $13.00,OASGN,2,,`:                       "shares",
		`1/5/2024,,,F,Option Maturity: Cash Component,OCC,0,,$9`:              "shares",
		`1/5/2024,,,VTI,V,ACATI,3,,`:                                          "shares",
		`1/5/2024,,,VTI,V,SXCH,3,,`:                                           "shares",
		`1/5/2024,,,VTI,V,SS,3,$2,$6.00`:                                      "shares",
		`1/5/2024,,,VTI,V,SCXL,3,$2,($6.00)`:                                  "shares",
		`1/5/2024,,,,V,ACH,,,$5.00`:                                           "cash",
		`1/5/2024,,,VTI,V,MISC,5,,$5.00`:                                      "shares",
	})
}

// TestETradeActions checks that only a dividend that was paid for shares is a reinvestment.
func TestETradeActions(t *testing.T) {
	checkActions(t, "TransactionDate,TransactionType,SecurityType,Symbol,Quantity,Amount,Price,Commission,Description\n",
		map[string]string{
			"03/31/23,Dividend,MF,VFIAX,0.5,-190,0,0,V":      "reinvest VFIAX 0.5 380",
			"03/31/23,Dividend,MF,VFIAX,0.5,190,0,0,V":       "shares",
			"03/31/23,Dividend,MF,VFIAX,0,190,0,0,V":         "cash",
			"03/31/23,Bought,OPTN,SPY,1,-810.51,8.1,.51,SPY": "shares",
			"03/31/23,Reorganization,EQ,VTI,5,0,0,0,V":       "shares",
			"03/31/23,Something new,EQ,--,0,5,0,0,V":         "cash",
			"03/03/23,Bought,EQ,VTI,10,-2004.95,200,4.95,V":  "buy VTI 10 200 4.95",
			"03/03/23,Bought,EQ,VTI,10,-2004.95,200,-4.95,V": "buy VTI 10 200 4.95",
		})
}

// TestETradeAccount finds the account above the table, also in a file that a spreadsheet saved.
func TestETradeAccount(t *testing.T) {
	for _, title := range []string{"For Account:,####1234", "For Account:,####1234,,,,,,,",
		"Account Activity for ####1234 from Current Year,,,"} {
		imp := mustRead(t, "f", []byte(title+"\nTransactionDate,TransactionType,SecurityType,Symbol,Quantity,"+
			"Amount,Price,Commission,Description\n03/03/23,Bought,EQ,VTI,10,-2000,200,0,V\n"),
			&Options{Accounts: map[string]string{"####1234": "brk"}})
		if len(imp.Rows) != 1 || imp.Rows[0].Account != "brk" {
			t.Errorf("%s: %+v", title, imp.Rows)
		}
	}
}

func TestVanguardActions(t *testing.T) {
	checkActions(t, "Account Number,Trade Date,Transaction Type,Investment Name,Symbol,Shares,Share Price,Commissions and Fees,Net Amount\n",
		map[string]string{
			"1,03/04/2024,Buy,F,VTI,10,255.50,4.95,-2559.95":  "buy VTI 10 255.5 4.95",
			"1,03/04/2024,Buy,F,VTI,10,255.50,-4.95,-2559.95": "buy VTI 10 255.5 4.95",
			"1,03/04/2024,Sell,F,VTI,-10,255.50,0,2555":       "sell VTI 10 255.5",
			"1,03/04/2024,Buy,F,VTI,10,255.50":                "buy VTI 10 255.5", // narrower than the header
			"1,03/04/2024,Something new,F,--,0,0,0,5":         "cash",
			"1,03/04/2024,Something new,F,,3,0,0,5":           "shares",
		})
}

func TestCoinbaseActions(t *testing.T) {
	checkActions(t, "ID,Timestamp,Transaction Type,Asset,Quantity Transacted,Price Currency,Subtotal,Total,Fees\n",
		map[string]string{
			"c,2024-03-28 12:08:48 UTC,Buy,BTC,0.001,USD,$70.00,$71.23,$1.23":      "buy BTC-USD 0.001 70000 1.23",
			"c,2024-03-28 12:08:48 UTC,Sell,BTC,-0.001,USD,-$70.00,-$68.77,-$1.23": "sell BTC-USD 0.001 70000 1.23",
			"c,2024-03-28 12:08:48 UTC,Staking Income,ETH,0.001,USD,$3.60,,":       "buy ETH-USD 0.001 3600",
			"c,2024-03-28 12:08:48 UTC,Buy,BTC,0.001,USD,$70.00,,$1.23":            "fault", // paid with or without fees?
			"c,2024-03-28 99:08:48 UTC,Buy,BTC,0.001,USD,$70.00,$71.23,$1.23":      "fault",
		})
}

// TestActivityActions: proceeds are rounded to cents, and those of a currency are not checked.
func TestActivityActions(t *testing.T) {
	checkActions(t, "Statement,Header,Field Name,Field Value\nTrades,Header,DataDiscriminator,Asset Category,Currency,Symbol,Date/Time,Quantity,T. Price,Proceeds,Comm/Fee,Code\n",
		map[string]string{
			`Trades,Data,Order,Stocks,USD,KO,"2024-03-04, 10:30:00",-1,60,60,0,C` + "\n" +
				`Trades,Data,Trade,Stocks,USD,KO,"2024-03-04, 10:30:00",-1,60,60,0,C`: "1 rows, 1 skipped",
			`Trades,Data,Order,Stocks,USD,KO,"2024-03-04, 10:30:00",-1,60,60,0,C` + "\n" +
				`Trades,Data,WashSale,Stocks,USD,KO,"2024-03-04, 10:30:00",1,60,,,`: "1 rows, 1 skipped",
			`Trades,Data,Order,Forex,USD,EUR.USD,"2024-03-05, 09:32:11",1000,1.09,-900,-2,`:                         "cash",
			`Trades,Data,Order,Stocks,USD,PENN,"2024-03-04, 10:30:00",1,0.105,-0.11,0,O`:                            "buy PENN 1 0.105",
			`Trades,Data,Order,Equity and Index Options,USD,SPY 21JUN24 520 C,"2024-03-04, 10:30:00",1,8,-800,-1,O`: "buy SPY240621C00520000 1 800 1",
		})
}

// TestFlexActions checks the elements of a Flex query in the same way.
func TestFlexActions(t *testing.T) {
	option := `assetCategory="OPT" symbol="F     240105C00013000" multiplier="100" tradeDate="20240105" tradePrice="0" currency="USD" tradeID="7" `
	for items, want := range map[string]string{
		"<Trade " + flexBuy +
			"/>": "buy VTI 10 260",
		"<TradeConfirm " + flexBuy +
			`commission="-1" code="O;P"/>`: "buy VTI 10 260 1",
		"<Trade " + flexBuy +
			`levelOfDetail="ORDER"/>`: "buy VTI 10 260",
		"<Trade " + flexBuy +
			`levelOfDetail="CLOSED_LOT"/>`: "shares",
		"<Trade " + flexBuy +
			`levelOfDetail="SYMBOL_SUMMARY"/>`: "shares",
		"<Lot " + flexBuy + `levelOfDetail="CLOSED_LOT"/>`: "shares",
		"<Trade " + flexBuy +
			`ibCommission="-1" ibCommissionCurrency="EUR"/>`: "fault",
		"<Trade " + option +
			`quantity="-2" buySell="SELL" notes="C;Ep"/>`: "expire F240105C00013000 2",
		"<Trade " + option +
			`quantity="-2" buySell="SELL" notes="GEA"/>`: "expire F240105C00013000 2",
		"<Trade " + option +
			`quantity="-2" buySell="SELL" notes="C;Ex"/>`: "assign F240105C00013000 2",
		"<Trade " + option +
			`quantity="2" buySell="BUY" notes="C;A"/>`: "shares",
		"<OptionEAE " + option +
			`quantity="-2" date="20240105"/>`: "shares",
		`<Trade assetCategory="CRYPTO" symbol="BTC.USD-PAXOS" tradeDate="20240105" quantity="0.5" tradePrice="40000" buySell="BUY" openCloseIndicator="O" currency="USD" tradeID="8"/>`: "buy BTC-USD 0.5 40000",
		`<Transfer assetCategory="STK" symbol="KO" quantity="5"/>`:                                          "shares",
		`<Transfer symbol="KO" quantity="5"/>`:                                                              "shares",
		`<Transfer assetCategory="CASH" quantity="0" cashTransfer="5"/>`:                                    "cash",
		`<StockGrantActivity symbol="IBKR" quantity="3"/>`:                                                  "shares",
		`<CorporateAction symbol="ABC" type="SO" quantity="3" description="ABC SPINOFF 1 FOR 4"/>`:          "shares",
		`<CorporateAction symbol="X.OLD" dateTime="20240105" quantity="-9" description="X SPLIT 1 FOR 3"/>`: "split X",
		`<CorporateAction symbol="X" dateTime="20240105" quantity="-9" description="X SPLIT 0 FOR 3"/>`:     "fault",
	} {
		imp, err := Read("f", flexOf(items), nil)
		if got := outcome(imp, err); got != want {
			t.Errorf("%s\ngives %s, expected %s (%v)", items, got, want, err)
		}
	}
	both := flexOf("<Trade " + option +
		`quantity="-2" buySell="SELL" notes="Ep"/><OptionEAE tradeID="7" quantity="-2"/>`)
	if imp := mustRead(t, "f", both, nil); len(imp.Rows) != 1 || len(imp.Skipped) != 1 ||
		imp.Skipped[0].Shares {
		t.Errorf("a trade and its OptionEAE give %+v and %+v, expected one row and a repetition",
			imp.Rows, imp.Skipped)
	}
}

// TestHints checks the suggestions for unknown words.
func TestHints(t *testing.T) {
	for file, want := range map[string]string{
		ownHead + "2024-01-31,a,by,VTI,1,1,,,":                                          "; did you mean buy?",
		ownHead + "2024-01-31,a,return capital,VTI,1,1,,,":                              "; did you mean return_of_capital?",
		ownHead + "2024-01-31,a,zzz,VTI,1,1,,,":                                         `"zzz" is not known, expected buy`,
		schwabHead + "01/15/2024,Reinvested Share,VTI,V,1,1,,":                          "; did you mean reinvest shares?",
		fidelityHead + "12/31/2024,YOU BOUGTH VTI (VTI) (Cash),VTI,V,Cash,10,2,,,,-20,": "; did you mean you bought?",
		robinhoodHead + "1/5/2024,,,VTI,V,CDIVS,10,$2.00,($20.00)":                      "; did you mean cdiv?",
	} {
		if fe := refusal(t, file+"\n", &Options{Account: "a"}); !strings.Contains(fe.Error(),
			want) {
			t.Errorf("%s\ngives %v\nexpected %s", file, fe, want)
		}
	}
}

// TestActivityAccounts: a statement of several accounts names the account of each trade.
func TestActivityAccounts(t *testing.T) {
	imp := mustRead(t, "f", []byte("Statement,Header,Field Name,Field Value\n"+
		"Account Information,Header,Field Name,Field Value\nAccount Information,Data,Account,U1\n"+
		"Trades,Header,DataDiscriminator,Asset Category,Currency,Account,Symbol,Date/Time,Quantity,T. Price,Proceeds,Comm/Fee,Code\n"+
		"Trades,Data,Order,Stocks,USD,U2,KO,\"2024-03-04, 10:30:00\",1,60,-60,0,O\n"+
		"Trades,Data,Order,Stocks,USD,,KO,\"2024-03-05, 10:30:00\",1,60,-60,0,O\n"), nil)
	if len(imp.Rows) != 2 || imp.Rows[0].Account != "U2" || imp.Rows[1].Account != "U1" {
		t.Errorf("%+v", imp.Rows)
	}
}
