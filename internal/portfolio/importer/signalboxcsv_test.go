package importer

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/govalues/decimal"
	"pgregory.net/rapid"

	"signalbox/internal/testkit/must"
	"signalbox/internal/testkit/property"
)

// sameAgain checks that rows do not change, except for their lines, when they are written as
// signalbox CSV and read again.
func sameAgain(t interface {
	Helper()
	Fatalf(string, ...any)
}, rows []Row) {
	t.Helper()
	text, err := Format(rows)
	if err != nil {
		t.Fatalf("%v", err)
	}
	again, err := Read("own.csv", text, nil)
	if err != nil {
		t.Fatalf("%v in\n%s", err, text)
	}
	if diff := cmp.Diff(rows, again.Rows, compareRows(), cmpopts.IgnoreFields(Row{}, "Source"),
		cmpopts.EquateEmpty()); diff != "" {
		t.Fatalf("rows changed (-want +got):\n%s\nin\n%s", diff, text)
	}
	twice, err := Format(again.Rows)
	if err != nil || string(twice) != string(text) {
		t.Fatalf("text changed (%v):\n%s\nto\n%s", err, text, twice)
	}
}

func TestFormatSamples(t *testing.T) {
	for _, name := range []string{"own.csv", "schwab.csv", "fidelity.csv", "robinhood.csv",
		"flex.xml", "activity.qfx"} {
		sameAgain(t, mustRead(t, name, sample(t, name), &Options{Account: accountFor(name)}).Rows)
	}
}

func TestFormatColumns(t *testing.T) {
	rows := mustRead(t, "f", []byte(ownHead+"2024-01-31,brk,buy,VTI,10,0,,,\n"), nil).Rows
	text, err := Format(rows)
	must.Succeed(t, err)
	if want := ownHead + "2024-01-31,brk,buy,VTI,10,0,,,\n"; string(text) != want {
		t.Errorf("Format = %q, expected %q", text, want)
	}
	rows[0].ID = "mine"
	if text, err = Format(rows); err != nil ||
		!strings.HasPrefix(string(text), strings.TrimSpace(ownHead)+",id\n") {
		t.Errorf("Format = %q, %v, expected a column for an id of its own", text, err)
	}
}

// TestFormatProperty makes rows of every action.
func TestFormatProperty(t *testing.T) {
	word := rapid.StringMatching(`[a-z"',é|;:-][a-z"',é\n|;:-]{0,7}[a-z"]`)
	positive := rapid.Custom(func(t *rapid.T) string {
		return decimal.MustNew(rapid.Int64Range(1, 1<<50).Draw(t, "coefficient"),
			rapid.IntRange(0, 9).Draw(t, "scale")).Trim(0).String()
	})
	property.Check(t, func(t *rapid.T) {
		var b strings.Builder
		b.WriteString(strings.TrimSpace(ownHead) +
			",to_account,ratio,donor_basis,donor_date,value,id\n")
		quote := func(s string) string { return `"` + strings.ReplaceAll(s, `"`, `""`) + `"` }
		for i := range rapid.IntRange(0, 6).Draw(t, "rows") {
			action := rapid.SampledFrom(
				strings.Split("buy sell reinvest split transfer return_of_capital expire assign gift_in inherit", " ")).Draw(t, "action")
			ratio := positive.Draw(t, "new") + ":" + positive.Draw(t, "old")
			prices := []string{"1.50", "123.456"}
			if action == "buy" || action == "sell" || action == "reinvest" || action == "expire" {
				prices = append(prices, "0")
			}
			id := ""
			if rapid.Bool().Draw(t, "has id") {
				id = fmt.Sprint("row", i)
			}
			fmt.Fprintf(&b, "20%02d-0%d-1%d,%s,%s,%s,%s,%s,%s,%s,%s,%s,%s,%s,2001-01-01,%s,%s\n",
				rapid.IntRange(10, 30).Draw(t, "year"),
				rapid.IntRange(1, 9).Draw(t, "month"), rapid.IntRange(0, 9).Draw(t, "day"),
				quote(word.Draw(t, "account")), action,
				rapid.StringMatching(`[A-Z^][A-Z0-9.=^-]{0,9}`).Draw(t, "ticker"),
				positive.Draw(t, "quantity"),
				rapid.SampledFrom(prices).Draw(t, "price"),
				rapid.SampledFrom([]string{"", "0", "4.95"}).Draw(t, "fees"),
				rapid.SampledFrom([]string{"", "USD", "eur"}).Draw(t, "currency"),
				quote(word.Draw(t, "lot")), quote("to "+word.Draw(t, "to")),
				ratio, positive.Draw(t, "basis"),
				rapid.SampledFrom([]string{"", "0", "77.70"}).Draw(t, "value"), id)
		}
		imp, err := Read("own.csv", []byte(b.String()), nil)
		if err != nil {
			t.Fatalf("%v in\n%s", err, b.String())
		}
		sameAgain(t, imp.Rows)
	})
}

// TestTransfersOutside checks transfers into and out of the portfolio.
func TestTransfersOutside(t *testing.T) {
	head := strings.TrimSpace(ownHead) + ",to_account,donor_basis,donor_date\n"
	imp := mustRead(t, "f",
		[]byte(head+"2024-01-31,brk,transfer,VTI,1,,,,,,,\n2024-01-31,,transfer,KO,2,,,,,brk,90,2020-01-02\n"), nil)
	if len(imp.Rows) != 2 || imp.Rows[0].ToAccount != "" || imp.Rows[1].Account != "" ||
		imp.Rows[1].DonorDate != "2020-01-02" {
		t.Errorf("rows %+v", imp.Rows)
	}
	sameAgain(t, imp.Rows)
	// The donor may have bought the shares on the day of the transfer.
	mustRead(t, "f", []byte(head+"2024-01-31,,transfer,KO,2,,,,,brk,90,2024-01-31\n"), nil)
}

func TestOwnRefusals(t *testing.T) {
	head := strings.TrimSpace(ownHead) + ",to_account,ratio,donor_basis,donor_date,value,id\n"
	for row, want := range map[string]string{
		"2024-01-31,a,buy,VTI,1,,,,,,,,,,":                                                         "f:2:24: price: buy needs",
		"2024-01-31,,transfer,VTI,1,,,,,,,,,,":                                                     "to_account: transfer needs an account",
		"2024-01-31,a,inherit,VTI,1,0,,,,,,,,0,":                                                   "value: inherit needs",
		"2024-01-31,a,transfer,VTI,1,,,,,a,,,,,":                                                   "to_account: transfer needs an account and a different to_account",
		"2024-01-31,a,gift_in,VTI,1,,,,,,,5,2024-02-01,5,":                                         "f:2:36: donor_date: 2024-02-01 is after the date of the row",
		"2024-01-31,a,split,VTI,,,,,,,,,,,":                                                        "ratio: split needs",
		"2024-01-31,a,return_of_capital,VTI,1,,,,,,,,,,":                                           "value: return_of_capital needs",
		"2024-01-31,a,inherit,VTI,9999999999999999999,9999999999999999999,,,,,,,,,":                "quantity × price is too large",
		"2024-01-31,a,buy,VTI,1,1,-1,,,,,,,,":                                                      "fees: \"-1\" is negative",
		"2024-01-31,a,buy,VTI,1,1,,,,,,,,,x\n2024-01-31,a,buy,VTI,1,1,,,,,,,,,x":                   "f:3:34: id: \"x\" is also in line 2",
		"2024-01-31,a,buy,VTI,1,1,,US,,,,,,,":                                                      "currency: \"US\" is not a currency",
		"2024-01-31,a,expire,VTI,,,,,,,,,,,\n2024-01-31,a,assign,VTI,0,,,,,,,,,,\n,a,buy,V,1,1,,,": "4:1: date: \"\" is not a date",
	} {
		if fe := refusal(t, head+row+"\n", nil); !strings.Contains(fe.Error(), want) {
			t.Errorf("%s\ngives %v\nexpected %s", row, fe, want)
		}
	}
}
