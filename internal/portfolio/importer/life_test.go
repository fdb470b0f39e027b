package importer

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestForeignFiles checks the messages for files that cannot be imported, and the positions of
// faults.
func TestForeignFiles(t *testing.T) {
	row := "2024-01-31,brk,buy,VTI,10,1,,,\n"
	for data, want := range map[string]string{
		"PK\x03\x04\x14\x00\x06\x00[Content_Types].xml": "f:1:1: the file is an Excel workbook (XLSX): save it as CSV",
		"PK\x03\x04\x14\x00statement.csv":               "is a zip file: unpack it",
		"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1":              "old Excel workbook (XLS)",
		"%PDF-1.7\n":                                    "is a PDF: ask the broker for CSV",
		"\x1f\x8b\x08":                                  "gzip",
		"\x89PNG\r\n":                                   "is an image",
		"<!DOCTYPE html>\n<html><head>":                 "is a web page (HTML)",
		"\xef\xbb\xbf  <HTML>":                          "is a web page (HTML)",
		"<?xml version=\"1.0\"?><html xmlns=\"x\">":     "is a web page (HTML)",
		"{\n  \"FromDate\": \"01/01/2024\"}":            "is JSON",
		"!Type:Invst\nD1/1/24":                          "is QIF",
		"":                                              "is empty, expected",
		"<Transactions><T/></Transactions>":             "starts with <Transactions>, expected <FlexQueryResponse>",
		ownHead + row + "2024\x00":                      "f:3:5: the file contains a zero byte",
		"date;account;action;ticker;quantity;price;fees;currency;lot_id\n":                                   "f:1:5: the columns are separated by semicolons: save the file with commas",
		"\"Date\";\"Action\";\"Symbol\";\"Description\";\"Quantity\";\"Price\";\"Fees & Comm\";\"Amount\"\n": "separated by semicolons",
		strings.ReplaceAll(robinhoodHead, ",",
			"\t"): "separated by tabs",
		"date,account,action,symbol,quantity,price,fees,currency,lot_id\n":                "f:1:1: the header looks like signalbox CSV, but lacks ticker",
		"Date,Action,Symbol,Description,Quantity,Price,Amount\n":                          "looks like a Schwab export, but lacks fees & comm",
		"Symbol,Description,Quantity,Price,Cost Basis\n":                                  "is a list of positions",
		"Account Number,Account Name,Symbol,Description,Quantity,Last Price,Cost Basis\n": "is a list of positions",
		"Date,Action,Symbol,Description,Quantity,FeesAndCommissions,Amount,AwardDate\n":   "Equity Award Center",
		"Date,Investment,Transaction Type,Amount ($),Shares/Unit\n":                       "Fidelity workplace plan",
		"Account Number,Trade Date,Transaction Type,Symbol,Shares,Share Price\n":          "looks like a Vanguard export, but lacks net amount",
		"date,from,to,rate\n2024-01-31,EUR,USD,1.1\n":                                     "has exchange rates",
		"Statement,Header,Field Name,Field Value\n":                                       "no table Trades",
		"hello\nworld\n": "no known header",
		"date,account,action,ticker,quantity,price,fees,currency,lot_id,date\n":     "f:1:64: column \"date\" appears twice",
		"Date,Action,Symbol,Description,Quantity,Price,Fees & Comm,Amount,Amount\n": "f:1:66: column \"Amount\" appears a second time",
		"Run Date,Action,Symbol,Quantity,Price ($),Amount ($),Price\n":              "column \"Price\" appears a second time",
		ownHead + "01/31/2024,brk,buy,VTI,10,1,,,\n":                                "f:2:1: date: \"01/31/2024\" is not a date, expected something like 2024-01-31",
		schwabHead + "02/30/2024,Buy,VTI,V,1,1,,\n":                                 "f:2:1: date: \"02/30/2024\" is not a date",
		schwabHead + "13/01/2024,Buy,VTI,V,1,1,,\n":                                 "the month first",
		ownHead + "2024-01-31,brk,buy,VTI,ten,1,,,\n":                               "f:2:24: quantity: \"ten\" is not a number",
		ownHead + "2024-01-31,brk,sell,VTI,10,,,,\n":                                "f:2:28: price: sell needs a price",
		ownHead + "2024-01-31,brk,buy,VTI,12345678901234567890,1,,,\n":              "more than 19 digits",
		ownHead + "2024-01-31,brk,buy,VTI,10,\"1\"2\",,,\n":                         "write a quote inside a field twice",
		strings.TrimSpace(ownHead) +
			",ratio\n2024-01-31,brk,split,VTI,,,,,,0\n": "f:2:31: ratio: \"0\" must have positive numbers",
		strings.TrimSpace(ownHead) +
			",ratio\n2024-01-31,brk,split,VTI,,,,,,0:1\n": "must have positive numbers",
		"date,ticker,close\n2024-01-31,VTI,240\n":                                                "move it to the folder prices",
		"OFXHEADER:100\nDATA:OFXSGML\nVERSION:102\n\n<OFX><BANKMSGSRSV1></BANKMSGSRSV1></OFX>\n": "OFX",
	} {
		if fe := refusal(t, data, &Options{Account: "brk"}); !strings.Contains(fe.Error(), want) ||
			len(fe.Faults) != 1 {
			t.Errorf("%.80q\ngives %v\nexpected only %s", data, fe, want)
		}
	}
}

// TestLongLine checks that a fault stays readable even if the field is very long.
func TestLongLine(t *testing.T) {
	long := strings.Repeat("x", 10<<20)
	for _, file := range []string{long, ownHead + "2024-01-31,brk,buy," + long + ",10,1,,,\n",
		ownHead + "2024-01-31,brk," + long + ",VTI," + long + ",1,,,\n",
		schwabHead + "01/15/2024," + long + ",VTI,V,1,1,,\n",
		string(flexOf("<Trade " + strings.Replace(flexBuy, "VTI", long, 1) + "/>"))} {
		for _, f := range refusal(t, file, &Options{Account: "brk"}).Faults {
			if len(f.Message) > 1300 || !strings.Contains(f.Message, "expected") {
				t.Errorf("%.60q gives a message of %d bytes, or without advice: %.200s", file,
					len(f.Message), f.Message)
			}
		}
	}
}

// TestUTF16WithoutMark reads UTF-16 without a byte order mark, as some programs write it.
func TestUTF16WithoutMark(t *testing.T) {
	for _, big := range []bool{false, true} {
		imp := mustRead(t, "f", utf16Of(ownHead+"2024-01-31,brk,buy,VTI,10,1,,,\n", big)[2:], nil)
		if len(imp.Rows) != 1 || len(imp.Notes) != 1 {
			t.Errorf("%d rows and notes %q, expected one of each", len(imp.Rows), imp.Notes)
		}
	}
}

// TestOptionSpelling checks that an option has one name, with or without the spaces of its OCC
// symbol, in upper or lower case.
func TestOptionSpelling(t *testing.T) {
	imp := mustRead(t, "f",
		[]byte(ownHead+"2024-01-31,a,buy,AAPL  240621C00180000,1,510,,,\n2024-02-01,a,sell,aapl240621c00180000,1,520,,,\n"), nil)
	for _, r := range imp.Rows {
		if r.Ticker != "AAPL240621C00180000" {
			t.Errorf("ticker %q", r.Ticker)
		}
	}
}

func ids(imp *Import) map[string]string {
	m := make(map[string]string)
	for _, r := range imp.Rows {
		m[r.ID] = r.Date.String() + " " + string(r.Action) + " " + r.Ticker + " " + r.Quantity.String()
	}
	return m
}

// TestReexport checks that a row keeps its ID when a later export has more rows before and after
// it.
func TestReexport(t *testing.T) {
	for head, rows := range map[string][]string{
		schwabHead: {"03/04/2024,Buy,KO,K,1,$2.00,,-$2.00\n",
			"03/03/2024,Stock Split,KO,K,9,,,\n03/03/2024,Buy,VTI,V,1,$2.00,,-$2.00\n03/03/2024,Buy,VTI,V,1,$2.00,,-$2.00\n",
			"03/02/2024,Buy,VTI,V,1,$2.00,,-$2.00\n"},
		robinhoodHead: {"3/4/2024,,,KO,K,Buy,1,$2.00,($2.00)\n",
			"3/3/2024,,,XELA,X,SPR,100S,,\n3/3/2024,,,XELA,X,SPR,5,,\n3/3/2024,,,VTI,V,Buy,1,$2.00,($2.00)\n",
			"3/2/2024,,,VTI,V,Sell,1,$2.00,$2.00\n"},
		ownHead: {"2024-03-02,brk,buy,KO,1,2,,,\n",
			"2024-03-03,brk,buy,VTI,1,2,,,\n2024-03-03,brk,buy,VTI,1,2,,,\n",
			"2024-03-04,brk,buy,VTI,1,2,,,\n"},
	} {
		opts := &Options{Account: "brk"}
		part := mustRead(t, "part", []byte(head+rows[1]), opts)
		whole := mustRead(t, "whole", []byte(head+rows[0]+rows[1]+rows[2]), opts)
		all := ids(whole)
		for id, what := range ids(part) {
			if all[id] != what {
				t.Errorf("%s has the ID of %q in the later export", what, all[id])
			}
		}
		if merged, duplicates := merge(part, whole); len(merged) != len(whole.Rows) ||
			duplicates != len(part.Rows) {
			t.Errorf("%d rows and %d duplicates, expected %d and %d", len(merged), duplicates,
				len(whole.Rows), len(part.Rows))
		}
	}
}

// TestConfirmation checks that a trade has the same ID in activity and confirmation queries.
func TestConfirmation(t *testing.T) {
	activity, confirm := mustRead(t, "a", sample(t, "flex-life.xml"), nil),
		mustRead(t, "c", sample(t, "flex-confirm.xml"), nil)
	if rows, duplicates := merge(activity, confirm); duplicates != 1 ||
		len(rows) != len(activity.Rows) {
		t.Errorf("%d rows and %d duplicates, expected %d and 1", len(rows), duplicates,
			len(activity.Rows))
	}
}

// TestFlexHalves checks that the ID of a split does not depend on which half comes first.
func TestFlexHalves(t *testing.T) {
	first := `<CorporateAction symbol="X.OLD" dateTime="20240105" quantity="-9" description="X SPLIT 1 FOR 3" transactionID="1"/>`
	second := `<CorporateAction symbol="X" dateTime="20240105" quantity="3" description="X SPLIT 1 FOR 3" transactionID="2"/>`
	one, two := mustRead(t, "f", flexOf(first+second), nil),
		mustRead(t, "f", flexOf(second+first), nil)
	if diff := cmp.Diff(ids(one), ids(two)); diff != "" || len(one.Rows) != 1 {
		t.Errorf("%d rows, IDs (-one +two):\n%s", len(one.Rows), diff)
	}
}

// TestFidelityHalves checks that the halves of a reverse split are joined by their number, unless
// the ticker changed too: then the file does not say what became of the lots.
func TestFidelityHalves(t *testing.T) {
	into, out := "12/30/2024,REVERSE SPLIT R/S FROM 1#REOR M001 X (FFAI),FFAI,F,Cash,10,,,,,,\n",
		"12/30/2024,REVERSE SPLIT R/S TO 2#REOR M001 X,SYMBOL,F,Cash,-400,,,,,,\n"
	for symbol, rows := range map[string]int{"307359505": 1, "G6331P138": 1, "FFAI": 1, "FFIE": 0} {
		imp := mustRead(t, "f", []byte(fidelityHead+strings.Replace(out, "SYMBOL", symbol, 1)+into),
			&Options{Account: "brk"})
		if len(imp.Rows) != rows || len(imp.Skipped) != 2-2*rows {
			t.Errorf("%s: %+v and %+v, expected %d rows", symbol, imp.Rows, imp.Skipped, rows)
		}
		for _, r := range imp.Rows {
			if r.Ticker != "FFAI" || r.Ratio.String() != "10:400" {
				t.Errorf("%s: %+v", symbol, r)
			}
		}
		for _, s := range imp.Skipped {
			if !s.Shares {
				t.Errorf("%s: %+v, expected that shares moved", symbol, s)
			}
		}
	}
}

// TestFewColumns omits fees, currency and lot_id, and has a split of all accounts.
func TestFewColumns(t *testing.T) {
	imp := mustRead(t, "f",
		[]byte("date,account,action,ticker,quantity,price,ratio\n2024-01-31,a,buy,VTI,1,10,\n2024-02-01,,split,VTI,,,2\n"), nil)
	if len(imp.Rows) != 2 || imp.Rows[1].Account != "" || imp.Rows[1].Ratio.String() != "2" {
		t.Errorf("got %+v", imp.Rows)
	}
	if fe := refusal(t, ownHead+"2024-02-01,,split,VTI,5,,,,\n", nil); !strings.Contains(fe.Error(),
		"account") {
		t.Errorf("a split of some shares without an account: %v", fe)
	}
}

// TestRoundedFractions reads a fund whose shares are printed with three decimals, and whose cash is
// exact.
func TestRoundedFractions(t *testing.T) {
	const row = "12/31/2024,REINVESTMENT FIDELITY 500 INDEX FUND (FXAIX) (Cash),FXAIX,F,Cash,181.35,%s,,,,%s,\n"
	for _, tt := range []struct {
		quantity, amount string
		taken            bool
	}{{"0.078", "-14.20", true}, {"1.234", "-223.86", true}, {"0.078", "-14.40", false}, {"2", "-370.00", false}} {
		imp, err := Read("f", []byte(fidelityHead+fmt.Sprintf(row, tt.quantity, tt.amount)),
			&Options{Account: "a"})
		if taken := err == nil && len(imp.Rows) == 1; taken != tt.taken {
			t.Errorf("%s for %s: %v", tt.quantity, tt.amount, err)
		}
	}
}

// TestUnknownCash checks that an unknown action without a security and a quantity is treated as
// cash.
func TestUnknownCash(t *testing.T) {
	imp := mustRead(t, "f",
		[]byte(schwabHead+"01/15/2024,Contribution,,Roth 2024,,,,\"$7,000.00\"\n"),
		&Options{Account: "a"})
	if len(imp.Skipped) != 1 || imp.Skipped[0].Why != whyNoShares || imp.Skipped[0].Shares {
		t.Errorf("got %+v", imp)
	}
	refusal(t, schwabHead+"01/15/2024,Contribution,VTI,Roth 2024,,,,$7.00\n",
		&Options{Account: "a"})
	refusal(t, schwabHead+"01/15/2024,Contribution,,Roth 2024,3,,,$7.00\n", &Options{Account: "a"})
}
