package importer

import (
	"strings"
	"testing"
)

func flexOf(items string) []byte {
	return []byte("<FlexQueryResponse><FlexStatements><FlexStatement accountId=\"U1\">\n" + items +
		"\n</FlexStatement></FlexStatements></FlexQueryResponse>")
}

const flexBuy = `assetCategory="STK" symbol="VTI" tradeDate="20240304" quantity="10" tradePrice="260" buySell="BUY" currency="USD" `

// TestFlexOrders checks that orders are read only if a query has no executions.
func TestFlexOrders(t *testing.T) {
	order := "<Order " + flexBuy + `levelOfDetail="ORDER"/>`
	for items, want := range map[string]int{order: 1, order + "<Trade " + flexBuy + `/>`: 1, order +
		"<Trade " + flexBuy + `levelOfDetail="CLOSED_LOT"/>`: 1} {
		if imp := mustRead(t, "f", flexOf(items), nil); len(imp.Rows) != want {
			t.Errorf("%s\ngives %d rows, expected %d", items, len(imp.Rows), want)
		}
	}
}

func TestFlexAccountAndCurrency(t *testing.T) {
	imp := mustRead(t, "f", flexOf("<Trade accountId=' U1&#13;&#10;x ' "+flexBuy+"/>"), nil)
	if got := imp.Rows[0].Account; got != "U1 x" {
		t.Errorf("account %q, expected one line", got)
	}
	fe := refusal(t, string(flexOf("<Trade "+strings.Replace(flexBuy, "USD", "dollars", 1)+"/>")),
		nil)
	if !strings.Contains(fe.Error(), `f:2:1: "dollars" is not a currency`) {
		t.Error(fe)
	}
}

func TestBlankRecords(t *testing.T) {
	if imp := mustRead(t, "f", []byte(ownHead+",,,,,,,,\n\n2024-01-31,brk,buy,VTI,10,1,,,\n , ,\n"),
		nil); len(imp.Rows) != 1 || imp.Rows[0].Source.Line != 4 {
		t.Errorf("rows %+v, expected one, of line 4", imp.Rows)
	}
}
