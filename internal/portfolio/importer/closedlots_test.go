package importer

import (
	"fmt"
	"strings"
	"testing"

	"signalbox/internal/portfolio/tax"
	"signalbox/internal/testkit/must"
)

// flexTrades has two purchases and a sale of 10 shares at $15.20, with a commission of $1 each, as
// an activity query has them.
const flexTrades = `
<Trade assetCategory="STK" currency="USD" symbol="KO" tradeDate="20230105" dateTime="20230105;100000" quantity="10" tradePrice="0.212" ibCommission="-1" buySell="BUY" openCloseIndicator="O" tradeID="1" transactionID="11" levelOfDetail="EXECUTION"/>
<Trade assetCategory="STK" currency="USD" symbol="KO" tradeDate="20240201" dateTime="20240201;150000" quantity="10" tradePrice="20.2" ibCommission="-1" buySell="BUY" openCloseIndicator="O" tradeID="2" transactionID="12" levelOfDetail="EXECUTION"/>
<Trade assetCategory="STK" currency="USD" symbol="KO" tradeDate="20240603" dateTime="20240603;110000" quantity="-10" tradePrice="15.2" ibCommission="-1" buySell="SELL" openCloseIndicator="C" tradeID="3" transactionID="13" fifoPnlRealized="-52" levelOfDetail="EXECUTION"/>
`

// closedLot returns a closed lot of the sale, as Interactive Brokers writes it: tradePrice and cost
// are those of the purchase, dateTime is that of the sale.
func closedLot(quantity, opened, realized string) string {
	return fmt.Sprintf(`<Lot accountId="U1" assetCategory="STK" currency="USD" symbol="KO" tradeDate="20240603" dateTime="20240603;110000" quantity="%s" buySell="SELL" openDateTime="%s" fifoPnlRealized="%s" transactionID="13" levelOfDetail="CLOSED_LOT"/>
`, quantity, opened, realized)
}

// TestFlexClosedLotsReg110121c: the lots that the broker closed are part of the sale, wherever they
// are in the file and whatever their element is called.
func TestFlexClosedLotsReg110121c(t *testing.T) {
	two := closedLot("6", "20240201;150000", "-31.8") + closedLot("4", "20230105;100000", "-20.2")
	for _, tt := range []struct{ name, items, want string }{
		{"the newer lot", flexTrades + closedLot("10", "20240201;150000", "-52"),
			"10@2024-02-01T15:00:00"},
		{"before the trades", closedLot("10", "20240201;150000", "-52") + flexTrades,
			"10@2024-02-01T15:00:00"},
		{"as Trade", flexTrades + strings.Replace(closedLot("-10", "2024-02-01", "-52"), "<Lot",
			"<Trade", 1), "10@2024-02-01"},
		{"parts of two", flexTrades + two, "6@2024-02-01T15:00:00;4@2023-01-05T10:00:00"},
		{"without the broker's number", flexTrades + strings.ReplaceAll(two,
			`transactionID="13" `, ""), "6@2024-02-01T15:00:00;4@2023-01-05T10:00:00"},
		{"with attributes that are not known", flexTrades + strings.ReplaceAll(two, "<Lot ",
			`<Lot cost="1" novel="9" `), "6@2024-02-01T15:00:00;4@2023-01-05T10:00:00"},
		{"without the date on which they were opened", flexTrades + closedLot("10", "", "-52"), ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			imp := mustRead(t, "f", flexOf(tt.items), nil)
			if len(imp.Rows) != 3 || formatClosedLots(imp.Rows[2].Lots) != tt.want ||
				imp.Rows[2].Time.String() != "11:00:00" {
				t.Errorf("%+v", imp.Rows)
			}
			// It is the same transaction with and without its lots.
			if plain := mustRead(t, "f", flexOf(flexTrades), nil); plain.Rows[2].ID != imp.Rows[2].ID {
				t.Errorf("ID %s, without lots %s", imp.Rows[2].ID, plain.Rows[2].ID)
			}
			text, err := Format(imp.Rows)
			must.Succeed(t, err)
			if again := mustRead(t, "g", text, nil); formatClosedLots(again.Rows[2].Lots) != tt.want ||
				again.Rows[2].Time.String() != "11:00:00" || again.Rows[2].ID != imp.Rows[2].ID {
				t.Errorf("written and read: %+v", again.Rows[2])
			}
		})
	}
}

// TestFlexClosedLotsDisagree: the fault has both figures.
func TestFlexClosedLotsDisagree(t *testing.T) {
	for lots, want := range map[string]string{
		closedLot("9", "20240201;150000", "-52"):     "the sale of KO has 10 shares and its closed lots have 9",
		closedLot("10", "20240201;150000", "147.88"): "the sale of KO realized -52 and its closed lots realized 147.88",
		closedLot("10", "20240201;150000", "-51.97"): "the sale of KO realized -52 and its closed lots realized -51.97",
	} {
		if fe := refusal(t, string(flexOf(flexTrades+lots)), nil); !strings.Contains(fe.Error(),
			"f:5:1: "+want) {
			t.Error(fe)
		}
	}
	mustRead(t, "f", flexOf(flexTrades+closedLot("10", "20240201;150000", "-51.98")), nil) // rounding
	mustRead(t, "f", flexOf(flexTrades+closedLot("10", "20240201;150000", "")), nil)       // no sum
	other := strings.ReplaceAll(closedLot("10", "20240201;150000", "-52"), "20240603", "20240604")
	imp := mustRead(t, "f", flexOf(flexTrades+other), nil)
	if len(imp.Skipped) != 1 || !imp.Skipped[0].Shares || imp.Rows[2].Lots != nil {
		t.Errorf("a lot of a sale that is not there: %+v", imp)
	}
	short := strings.Replace(closedLot("10", "20240201;150000", "-52"), `"SELL"`, `"BUY"`, 1)
	imp = mustRead(t, "f", flexOf(flexTrades+short), nil)
	if len(imp.Skipped) != 1 || imp.Skipped[0].Shares || imp.Rows[2].Lots != nil {
		t.Errorf("a lot of a short position: %+v", imp)
	}
}

// TestFlexFillsOfOneSecond: each fill gets the lots that it has room for.
func TestFlexFillsOfOneSecond(t *testing.T) {
	fill := func(id, quantity string) string {
		return `<Trade assetCategory="STK" currency="USD" symbol="KO" tradeDate="20240603" dateTime="20240603;110000" quantity="-` +
			quantity + `" tradePrice="15" buySell="SELL" tradeID="` + id + `" levelOfDetail="EXECUTION"/>`
	}
	imp := mustRead(t, "f", flexOf(fill("7", "6")+fill("8", "4")+
		closedLot("6", "20230105", "1")+closedLot("3", "20230106", "1")+
		closedLot("1", "20230107", "1")), nil)
	a, b := formatClosedLots(imp.Rows[0].Lots), formatClosedLots(imp.Rows[1].Lots)
	if a != "6@2023-01-05" || b != "3@2023-01-06;1@2023-01-07" {
		t.Errorf("%s and %s", a, b)
	}
	// Records without a number have no number in common.
	imp = mustRead(t, "f", flexOf(fill("7", "10")+strings.Replace(fill("8", "10"), `tradeID="8"`,
		`tradeID="8" transactionID="13"`, 1)+closedLot("10", "20230105", "1")), nil)
	if imp.Rows[0].Lots != nil || formatClosedLots(imp.Rows[1].Lots) != "10@2023-01-05" {
		t.Errorf("%+v", imp.Rows)
	}
	// Not to know the time of a lot, and of a sale, is not to know that it is the same.
	untimed := strings.NewReplacer(` dateTime="20240603;110000"`, "", ` transactionID="13"`, "")
	imp = mustRead(t, "f", flexOf(untimed.Replace(fill("7", "10")+
		closedLot("10", "20230105", "1"))+fill("8", "10")+
		untimed.Replace(closedLot("10", "20230106", "1"))), nil)
	if a, b := formatClosedLots(imp.Rows[0].Lots), formatClosedLots(imp.Rows[1].Lots); a !=
		"10@2023-01-05" || b != "10@2023-01-06" {
		t.Errorf("without times: %s and %s", a, b)
	}
	// A lot is never of a sale that comes after it.
	if fe := refusal(t, string(flexOf(fill("7", "4")+closedLot("6", "20230105", "1")+
		fill("8", "6"))), nil); !strings.Contains(fe.Error(), "has 4 shares and its closed lots have 6") {
		t.Error(fe)
	}
}

func TestParseClosedLots(t *testing.T) {
	for text, ok := range map[string]bool{"": true, "1@2024-01-31": true,
		"1.5@2024-01-31T09:30:01; 2@2024-02-01": true, "1": false, "0@2024-01-31": false,
		"-1@2024-01-31": false, "1@2024-01-31T9": false, "1@31.1.2024": false, ";": false} {
		if _, err := parseClosedLots(text); (err == nil) != ok {
			t.Errorf("%q: %v", text, err)
		}
	}
}

func TestFlexTime(t *testing.T) {
	for text, want := range map[string]string{"20240603;093001": "09:30:01",
		"2024-06-03 09:30:01": "09:30:01", "2024-06-03T09:30:01": "09:30:01",
		"20240603, 093001 EST": "09:30:01", "20240603": "", "20240603;0930": "",
		"20240603;250000": "", "20240602;200500": "", "20240603;093001123": ""} {
		f := flexItem{attr: map[string]string{"dateTime": text}}
		if got := flexTime(f, tax.DateOf(2024, 6, 3)).String(); got != want {
			t.Errorf("%q: %q", text, got)
		}
	}
}
