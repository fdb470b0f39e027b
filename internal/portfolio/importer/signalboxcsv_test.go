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
		imp.Rows[1].DonorDate.String() != "2020-01-02" {
		t.Errorf("rows %+v", imp.Rows)
	}
	sameAgain(t, imp.Rows)
	// The donor may have bought the shares on the day of the transfer.
	mustRead(t, "f", []byte(head+"2024-01-31,,transfer,KO,2,,,,,brk,90,2024-01-31\n"), nil)
}

// TestCorporateActions checks the rows of spin-offs, exchanges and cash for fractions.
func TestCorporateActions(t *testing.T) {
	head := strings.TrimSpace(ownHead) + ",ratio,value,new_ticker,basis_fraction\n"
	imp := mustRead(t, "f", []byte(head+"2024-04-02,,spin_off,GE,,,,,,1:4,,gev,0.173\n"+
		"2024-04-02,a,spin_off,GE,5,,,,,,70,OLD,\n2024-06-03,a,exchange,SQ,80,,,,,,,XYZ,\n"+
		"2024-06-05,a,cash_in_lieu,GEV,0.5,,,,,,88.20,,\n"), nil)
	if len(imp.Rows) != 4 || imp.Rows[0].NewTicker != "GEV" ||
		imp.Rows[0].BasisFraction.String() != "0.173" || imp.Rows[0].ID == imp.Rows[1].ID {
		t.Errorf("rows %+v", imp.Rows)
	}
	sameAgain(t, imp.Rows)
	for row, want := range map[string]string{
		"a,spin_off,GE,5,,,,,,,,0.1":      "new_ticker: spin_off needs the ticker",
		"a,exchange,GE,5,,,,,,,GE,":       "new_ticker: exchange needs the ticker",
		",spin_off,GE,5,,,,,,,GEV,0.1":    "account: spin_off needs the account",
		"a,exchange,GE,,,,,,,,GEV,":       "ratio: exchange needs a ratio like 1:4",
		"a,spin_off,GE,5,,,,,,,GEV,":      "basis_fraction: spin_off needs the part",
		"a,spin_off,GE,5,,,,,,70,GEV,0.1": "basis_fraction: spin_off needs the part",
		"a,spin_off,GE,5,,,,,,,GEV,1/8":   "basis_fraction: ",
		"a,exchange,GE,5,,,,,,70,GEV,":    "value: exchange needs no value",
		"a,exchange,GE,5,3,,,,,,GEV,":     "new_price: exchange needs both",
		"a,exchange,GE,5,,,,,,,G V$,":     "new_ticker: ",
		"a,cash_in_lieu,GE,0.5,,,,,,,,":   "value: cash_in_lieu needs the cash",
		"a,cash_in_lieu,GE,,,,,,,5,,":     "quantity: cash_in_lieu needs a quantity",
	} {
		if fe := refusal(t, head+"2024-01-31,"+row+"\n", nil); !strings.Contains(fe.Error(), want) {
			t.Errorf("%s\ngives %v\nexpected %s", row, fe, want)
		}
	}
}

// TestFlexReorganizations has descriptions as in public Flex queries.
func TestFlexReorganizations(t *testing.T) {
	const record = `<CorporateAction accountId="U1" assetCategory="STK" dateTime="20210723;202500" symbol="SYMBOL" quantity="QUANTITY" type="IC" description="DESCRIPTION"/>`
	const change = "CCIV(US1714391026) CUSIP/ISIN Change to (US5494981039) "
	both := func(old, oldQuantity, new, newQuantity string) string {
		r := strings.NewReplacer("SYMBOL", old, "QUANTITY", oldQuantity, "DESCRIPTION",
			change+"(CCIV, CHURCHILL CAPITAL CORP IV-A, US1714391026)")
		s := strings.NewReplacer("SYMBOL", new, "QUANTITY", newQuantity, "DESCRIPTION",
			change+"("+new+", LUCID GROUP INC, US5494981039)")
		return r.Replace(record) + "\n" + s.Replace(record)
	}
	spinOff := strings.NewReplacer("SYMBOL", "WAB", "QUANTITY", "0.5371", "DESCRIPTION",
		"GE(US3696041033) SPINOFF  5371 FOR 1000000 (WAB, WABTEC CORP, 929740108)").Replace(record)
	for _, tt := range []struct{ name, records, want string }{
		{"a new ticker", both("CCIV.OLD", "-85", "LCID", "85"), "exchange CCIV for LCID 85:85"},
		{"another number of shares", both("CCIV", "-90", "LCID", "30"), "exchange CCIV for LCID 30:90"},
		{"the same ticker", both("CCIV.OLD", "-85", "CCIV", "85"),
			"only the number of the security changed, only the number of the security changed"},
		{"the same ticker, another number of shares", both("CCIV.OLD", "-85", "CCIV", "84"),
			"shares: " + whyCorp + ", shares: " + whyCorp},
		{"one half", strings.SplitN(both("CCIV", "-85", "LCID", "85"), "\n", 2)[0], "shares: " + whyCorp},
		{"a spin-off", spinOff,
			"shares: a spin-off from GE: add a spin_off row of GE with new_ticker WAB, quantity 0.5371 and the basis_fraction that the company published, in signalbox CSV"},
	} {
		imp := mustRead(t, "f.xml", []byte("<FlexQueryResponse><FlexStatements><FlexStatement accountId=\"U1\"><CorporateActions>"+
			tt.records+"</CorporateActions></FlexStatement></FlexStatements></FlexQueryResponse>"), nil)
		var got []string
		for _, r := range imp.Rows {
			got = append(got, fmt.Sprintf("%s %s for %s %s:%s", r.Action, r.Ticker, r.NewTicker,
				r.Ratio.New, r.Ratio.Old))
		}
		for _, s := range imp.Skipped {
			why := s.Why
			if s.Shares {
				why = "shares: " + why
			}
			got = append(got, why)
		}
		if g := strings.Join(got, ", "); g != tt.want {
			t.Errorf("%s: %s\nwant %s", tt.name, g, tt.want)
		}
	}
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
