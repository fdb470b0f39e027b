package importer

import (
	"fmt"
	"runtime"
	"strings"
	"testing"
)

// ofxSecurities is a list with a stock, a fund, and two options: C has an OCC symbol for a ticker,
// P does not.
const ofxSecurities = "<SECLISTMSGSRSV1><SECLIST>" +
	"<STOCKINFO><SECINFO><SECID><UNIQUEID>V<UNIQUEIDTYPE>CUSIP</SECID><SECNAME>Total &amp; more<TICKER>VTI</SECINFO></STOCKINFO>" +
	"<MFINFO><SECINFO><SECID><UNIQUEID>B<UNIQUEIDTYPE>CUSIP</SECID><SECNAME>Class B<TICKER>brk/b</SECINFO></MFINFO>" +
	"<OPTINFO><SECINFO><SECID><UNIQUEID>C<UNIQUEIDTYPE>CUSIP</SECID><TICKER>VTI   240621C00150500</SECINFO><SHPERCTRCT>10</OPTINFO>" +
	"<OPTINFO><SECINFO><SECID><UNIQUEID>P<UNIQUEIDTYPE>CUSIP</SECID><TICKER>V.P</SECINFO><OPTTYPE>PUT<STRIKEPRICE>35,5<DTEXPIRE>20240621160000[-5:EST]" +
	"<SECID><UNIQUEID>V<UNIQUEIDTYPE>CUSIP</SECID></OPTINFO>" +
	"<OPTINFO><SECINFO><SECID><UNIQUEID>X<UNIQUEIDTYPE>CUSIP</SECID><TICKER>V.X</SECINFO><STRIKEPRICE>35<DTEXPIRE>20240621<SECID><UNIQUEID>V</SECID></OPTINFO>" +
	"</SECLIST></SECLISTMSGSRSV1>"

// ofxOf makes a file of OFX 1 with the given transactions.
func ofxOf(transactions string) string {
	return "OFXHEADER:100\nDATA:OFXSGML\n\n<OFX><INVSTMTMSGSRSV1><INVSTMTTRNRS><INVSTMTRS><CURDEF>USD<INVACCTFROM><ACCTID>7</INVACCTFROM><INVTRANLIST>\n" +
		transactions + "\n</INVTRANLIST></INVSTMTRS></INVSTMTTRNRS></INVSTMTMSGSRSV1>" +
		ofxSecurities + "</OFX>\n"
}

func TestOFXActions(t *testing.T) {
	tran := "<INVTRAN><FITID>1<DTTRADE>20240131</INVTRAN>"
	of := func(id string) string { return tran + "<SECID><UNIQUEID>" + id + "<UNIQUEIDTYPE>CUSIP</SECID>" }
	for record, want := range map[string]string{
		"<BUYSTOCK><INVBUY>" + of("V") +
			"<UNITS>10<UNITPRICE>2<COMMISSION>1<TAXES>2<FEES>3<LOAD>4<TOTAL>-30</INVBUY><BUYTYPE>BUY</BUYSTOCK>": "buy VTI 10 2 10",
		"<BUYSTOCK><INVBUY>" + of("V") +
			"<UNITS>1,5<UNITPRICE>2,00<TOTAL>-3,00</INVBUY></BUYSTOCK>": "buy VTI 1.5 2",
		"<BUYSTOCK><INVBUY>" + of("V") +
			"<UNITS>1e1<UNITPRICE>0.20000000000000001<TOTAL>-2</INVBUY></BUYSTOCK>": "buy VTI 10 0.2",
		"<BUYSTOCK><INVBUY>" + of("V") +
			"<UNITS>10<UNITPRICE>2<COMMISSION><TOTAL>-20</INVBUY></BUYSTOCK>": "buy VTI 10 2",
		"<BUYSTOCK><INVBUY>" + of("V") +
			"<UNITS>10<UNITPRICE>2<TOTAL>-20</INVBUY><BUYTYPE>BUYTOCOVER</BUYSTOCK>": "shares",
		"<BUYSTOCK><INVBUY>" + of("V") +
			"<UNITS>10<UNITPRICE>2<TOTAL>-20</INVBUY><BUYTYPE>LATER</BUYSTOCK>": "fault",
		"<BUYSTOCK><INVBUY>" + of("NONE") +
			"<UNITS>10<UNITPRICE>2<TOTAL>-20</INVBUY></BUYSTOCK>": "fault",
		"<BUYSTOCK><INVBUY>" + of("V") +
			"<UNITS>1,000.5<UNITPRICE>2<TOTAL>-2001</INVBUY></BUYSTOCK>": "fault",
		"<BUYSTOCK><INVBUY>" + of("V") +
			"<UNITS>1e99<UNITPRICE>2<TOTAL>-20</INVBUY></BUYSTOCK>": "fault",
		"<BUYSTOCK></BUYSTOCK>": "fault",
		"<BUYMF><INVBUY>" + of("B") +
			"<UNITS>10<UNITPRICE>2<TOTAL>-20</INVBUY></BUYMF>": "buy BRK.B 10 2",
		"<BUYOTHER><INVBUY>" + of("V") +
			"<UNITS>10<TOTAL>-20</INVBUY></BUYOTHER>": "buy VTI 10 2",
		"<BUYOPT><INVBUY>" + of("P") +
			"<UNITS>1<UNITPRICE>2<TOTAL>-200</INVBUY><OPTBUYTYPE>BUYTOOPEN</BUYOPT>": "buy VTI240621P00035500 1 200",
		"<BUYOPT><INVBUY>" + of("C") +
			"<UNITS>1<UNITPRICE>2<TOTAL>-20</INVBUY><OPTBUYTYPE>BUYTOOPEN</BUYOPT>": "buy VTI240621C00150500 1 20",
		"<BUYOPT><INVBUY>" + of("C") +
			"<UNITS>1<UNITPRICE>2<TOTAL>-100</INVBUY><OPTBUYTYPE>BUYTOOPEN<SHPERCTRCT>50</BUYOPT>": "buy VTI240621C00150500 1 100",
		"<BUYOPT><INVBUY>" + of("C") +
			"<UNITS>1<UNITPRICE>2<TOTAL>-20</INVBUY><OPTBUYTYPE>BUYTOCLOSE</BUYOPT>": "shares",
		// neither call nor put
		"<BUYOPT><INVBUY>" + of("X") +
			"<UNITS>1<UNITPRICE>2<TOTAL>-200</INVBUY><OPTBUYTYPE>BUYTOOPEN</BUYOPT>": "fault",
		"<BUYDEBT><INVBUY>" + of("V") +
			"<UNITS>10</INVBUY></BUYDEBT>": "shares",
		"<SELLSTOCK><INVSELL>" + of("V") +
			"<UNITS>-10<UNITPRICE>2<COMMISSION>1<TOTAL>19</INVSELL><SELLTYPE>SELL</SELLSTOCK>": "sell VTI 10 2 1",
		"<SELLSTOCK><INVSELL>" + of("V") +
			"<UNITS>-10<UNITPRICE>2<WITHHOLDING>5<TOTAL>9<STATEWITHHOLDING>4<PENALTY>2</INVSELL></SELLSTOCK>": "sell VTI 10 2",
		// all of the cash was withheld
		"<SELLSTOCK><INVSELL>" + of("V") +
			"<UNITS>-10<WITHHOLDING>20<TOTAL>0</INVSELL></SELLSTOCK>": "sell VTI 10 2",
		"<SELLSTOCK><INVSELL>" + of("V") +
			"<UNITS>-10<UNITPRICE>2<TOTAL>20</INVSELL><SELLTYPE>SELLSHORT</SELLSTOCK>": "shares",
		"<SELLMF><INVSELL>" + of("B") +
			"<UNITS>-10<UNITPRICE>2<TOTAL>20</INVSELL></SELLMF>": "sell BRK.B 10 2",
		"<SELLOTHER><INVSELL>" + of("V") +
			"<UNITS>-10<UNITPRICE>2<TOTAL>20</INVSELL></SELLOTHER>": "sell VTI 10 2",
		"<SELLOPT><INVSELL>" + of("C") +
			"<UNITS>-1<UNITPRICE>2<TOTAL>20</INVSELL><OPTSELLTYPE>SELLTOCLOSE</SELLOPT>": "sell VTI240621C00150500 1 20",
		"<SELLOPT><INVSELL>" + of("C") +
			"<UNITS>-1<UNITPRICE>2<TOTAL>20</INVSELL><OPTSELLTYPE>SELLTOOPEN</SELLOPT>": "shares",
		"<SELLDEBT><INVSELL>" + of("V") +
			"<UNITS>10</INVSELL></SELLDEBT>": "shares",
		"<REINVEST>" + of("V") +
			"<INCOMETYPE>DIV<TOTAL>-20<UNITS>10<UNITPRICE>2</REINVEST>": "reinvest VTI 10 2",
		"<RETOFCAP>" + of("V") +
			"<TOTAL>20</RETOFCAP>": "return_of_capital VTI 20",
		"<SPLIT>" + of("V") +
			"<OLDUNITS>1<NEWUNITS>2<NUMERATOR>2<DENOMINATOR>1</SPLIT>": "split VTI",
		"<SPLIT>" + of("V") +
			"<OLDUNITS>1<NEWUNITS>2<NUMERATOR>2<DENOMINATOR>1<FRACCASH>3</SPLIT>": "1 rows, 1 skipped",
		"<SPLIT>" + of("V") +
			"<NUMERATOR>2</SPLIT>": "fault",
		"<CLOSUREOPT>" + of("C") +
			"<OPTACTION>EXPIRE<UNITS>-1<SUBACCTSEC>CASH</CLOSUREOPT>": "expire VTI240621C00150500 1",
		"<CLOSUREOPT>" + of("C") +
			"<OPTACTION>EXPIRE<UNITS>1<SUBACCTSEC>CASH</CLOSUREOPT>": "shares",
		"<CLOSUREOPT>" + of("C") +
			"<OPTACTION>EXPIRE<UNITS>-1<SUBACCTSEC>SHORT</CLOSUREOPT>": "shares",
		"<CLOSUREOPT>" + of("C") +
			"<OPTACTION>EXERCISE<UNITS>1<SUBACCTSEC>CASH</CLOSUREOPT>": "assign VTI240621C00150500 1",
		"<CLOSUREOPT>" + of("C") +
			"<OPTACTION>ASSIGN<UNITS>-1<SUBACCTSEC>CASH</CLOSUREOPT>": "shares",
		"<CLOSUREOPT>" + of("C") +
			"<UNITS>1<SUBACCTSEC>CASH</CLOSUREOPT>": "fault",
		"<INCOME>" + of("V") +
			"<INCOMETYPE>DIV<TOTAL>5</INCOME>": "cash",
		"<INVEXPENSE>" + of("V") +
			"<TOTAL>5</INVEXPENSE>": "cash",
		"<JRNLFUND>" + tran +
			"<TOTAL>5</JRNLFUND>": "cash",
		"<JRNLSEC>" + of("V") +
			"<UNITS>5</JRNLSEC>": "cash",
		"<MARGININTEREST>" + tran +
			"<TOTAL>5</MARGININTEREST>": "cash",
		"<TRANSFER>" + of("V") +
			"<UNITS>5<TFERACTION>IN</TRANSFER>": "shares",
		"<INVBANKTRAN><STMTTRN><TRNAMT>5<FITID>1<NAME>Deposit</STMTTRN></INVBANKTRAN>": "cash",
		"<SPINOFF>" + of("V") +
			"<UNITS>5</SPINOFF>": "fault",
	} {
		imp, err := Read("f", []byte(ofxOf(record)), nil)
		if got := outcome(imp, err); got != want {
			t.Errorf("%s\ngives %s, expected %s (%v)", record, got, want, err)
		}
	}
}

func TestOFXDates(t *testing.T) {
	for date, want := range map[string]string{
		"20240131": "2024-01-31", "20240131 ": "2024-01-31", "2024013123": "2024-01-31",
		"202401312359": "2024-01-31", "20240131235959": "2024-01-31",
		"20240131235959.999": "2024-01-31", "20240131235959.999[-5:EST]": "2024-01-31",
		"20240131000000[+5.30:IST]": "2024-01-31", "20240131[0]": "2024-01-31",
		"20240230": "", "202401": "", "18991231": "", "2024-01-31": "", "20240131235959999": "",
		"": "", "20240131T": "",
	} {
		imp, err := Read("f",
			[]byte(ofxOf("<INCOME><INVTRAN><FITID>1<DTTRADE>"+date+"<MEMO>x</INVTRAN></INCOME>")),
			nil)
		switch {
		case want == "" && (err == nil || !strings.Contains(err.Error(), "DTTRADE")):
			t.Errorf("%q gives %+v, %v, expected a fault", date, imp, err)
		case want != "" && (err != nil || !strings.Contains(imp.Skipped[0].Text, want)):
			t.Errorf("%q gives %+v, %v, expected %s", date, imp, err, want)
		}
	}
}

// TestOFXCurrency reads the currency of the statement, and that of a transaction which has its own.
// The original currency of a converted amount does not count.
func TestOFXCurrency(t *testing.T) {
	buy := "<BUYSTOCK><INVBUY><INVTRAN><FITID>1<DTTRADE>20240131</INVTRAN><SECID><UNIQUEID>V</SECID><UNITS>1<UNITPRICE>2<TOTAL>-2%s</INVBUY></BUYSTOCK>"
	for extra, want := range map[string]string{
		"":                                 "USD",
		"<CURRENCY><CURSYM>eur</CURRENCY>": "EUR",
		"<CURRENCY><CURSYM>XXX</CURRENCY>": "USD",
		"<ORIGCURRENCY><CURSYM>EUR</ORIGCURRENCY>": "USD",
	} {
		if imp := mustRead(t, "f", []byte(ofxOf(fmt.Sprintf(buy, extra))),
			nil); imp.Rows[0].Currency != want {
			t.Errorf("%s gives %s, expected %s", extra, imp.Rows[0].Currency, want)
		}
	}
}

// TestOFXPlaces checks the lines and columns of rows and faults.
func TestOFXPlaces(t *testing.T) {
	buy := "<BUYSTOCK><INVBUY>\n<INVTRAN>\n <FITID>a&amp;b<DTTRADE>20240131</INVTRAN><SECID><UNIQUEID>V</SECID>\n<UNITS>%s\n<UNITPRICE>2</INVBUY></BUYSTOCK>"
	if imp := mustRead(t, "f", []byte(ofxOf(fmt.Sprintf(buy, "1"))),
		nil); imp.Rows[0].Source.Line != 7 {
		t.Errorf("the row is in line %d, expected 7", imp.Rows[0].Source.Line)
	}
	fe := refusal(t, ofxOf(fmt.Sprintf(buy, "one")+"<BUYSTOCK>"), nil)
	if f := fe.Faults[0]; len(fe.Faults) != 1 ||
		!strings.HasPrefix(f.String(),
			"f:10:1: the OFX cannot be read: <BUYSTOCK> in line 9, column 33 has no end tag") {
		t.Errorf("faults %v", fe)
	}
	fe = refusal(t, ofxOf(fmt.Sprintf(buy, "one")), nil)
	if f := fe.Faults[0]; !strings.HasPrefix(f.String(), "f:8:1: UNITS: \"one\" is not a number") {
		t.Errorf("faults %v", fe)
	}
	if fe = refusal(t, ofxOf(strings.Repeat(" ", maxOFX)), nil); !strings.Contains(fe.Error(),
		"larger than 16 MB") {
		t.Errorf("faults %v", fe)
	}
}

// TestOFXMemory compares the memory for n and 2n transactions.
func TestOFXMemory(t *testing.T) {
	memory := func(n int) uint64 {
		var b strings.Builder
		for i := range n {
			fmt.Fprintf(&b, "<BUYSTOCK><INVBUY><INVTRAN><FITID>%d<DTTRADE>20240131</INVTRAN><SECID><UNIQUEID>V</SECID><UNITS>1<UNITPRICE>2<TOTAL>-2</INVBUY></BUYSTOCK>\n", i)
		}
		text := []byte(ofxOf(b.String()))
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		if imp := mustRead(t, "f", text, nil); len(imp.Rows) != n {
			t.Fatalf("%d rows of %d", len(imp.Rows), n)
		}
		runtime.ReadMemStats(&after)
		return after.TotalAlloc - before.TotalAlloc
	}
	if once, twice := memory(4000), memory(8000); twice > 3*once {
		t.Errorf("%d bytes for 4000 transactions and %d for 8000", once, twice)
	}
}
