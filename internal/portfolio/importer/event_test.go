package importer

import (
	"strings"
	"testing"

	"github.com/govalues/decimal"

	"signalbox/internal/testkit/must"
)

func numberOf(t *testing.T, s string) number {
	t.Helper()
	if s == "" {
		return number{ok: true}
	}
	n, err := parseNumber(s)
	must.Succeed(t, err)
	return n
}

// TestSettle checks that quantity × price and fees give the amount that was paid.
func TestSettle(t *testing.T) {
	for _, c := range []struct {
		name                          string
		kind                          kind
		quantity, price, fees, amount string
		option, feesInAmount          bool
		wantPrice, wantFees, wantErr  string
	}{
		{name: "plain", kind: buy, quantity: "10", price: "260.00", fees: "4.95",
			amount: "-2604.95", wantPrice: "260", wantFees: "4.95"},
		{name: "sale", kind: sell, quantity: "-10", price: "260.00", fees: "0.07",
			amount: "2599.93", wantPrice: "260", wantFees: "0.07"},
		{name: "cents of rounding stay", kind: reinvest, quantity: "0.548", price: "182.31",
			amount: "-99.91", wantPrice: "182.31", wantFees: "0"},
		{name: "rounded price gives way to cash", kind: buy, quantity: "1000", price: "410.25",
			amount: "-410253.70", wantPrice: "410.2537", wantFees: "0"},
		{name: "rounded price of a sale", kind: sell, quantity: "1000", price: "410.25", fees: "1",
			amount: "410252.70", wantPrice: "410.2537", wantFees: "1"},
		{name: "no price", kind: buy, quantity: "4", fees: "1", amount: "-101", wantPrice: "25",
			wantFees: "1"},
		{name: "no price, sale", kind: sell, quantity: "4", fees: "1", amount: "99",
			wantPrice: "25", wantFees: "1"},
		{name: "no amount", kind: buy, quantity: "4", price: "25", fees: "1", wantPrice: "25",
			wantFees: "1"},
		{name: "worthless", kind: sell, quantity: "4", price: "0", wantPrice: "0", wantFees: "0"},
		{name: "option", kind: buy, quantity: "2", price: "5.10", fees: "1.32", amount: "-1021.32",
			option: true, wantPrice: "510", wantFees: "1.32"},
		{name: "fees in the amount", kind: sell, quantity: "1", price: "6.00", amount: "599.94",
			option: true, feesInAmount: true, wantPrice: "600", wantFees: "0.06"},
		{name: "fees in the amount, none", kind: buy, quantity: "10", price: "6.00",
			amount: "-60.00", feesInAmount: true, wantPrice: "6", wantFees: "0"},
		{name: "fees in the amount, too many", kind: buy, quantity: "10", price: "6.00",
			amount: "-70.00", feesInAmount: true, wantErr: "does not give the amount"},
		{name: "better than printed", kind: buy, quantity: "10", price: "6.00", amount: "-59.97",
			feesInAmount: true, wantPrice: "5.997", wantFees: "0"},
		{name: "rebate", kind: buy, quantity: "10", price: "6", fees: "-1", wantPrice: "5.9",
			wantFees: "0"},
		{name: "rebate of a sale", kind: sell, quantity: "10", price: "6", fees: "-1",
			wantPrice: "6.1", wantFees: "0"},
		{name: "rebate above the price", kind: buy, quantity: "1", price: "6", fees: "-7",
			wantErr: "negative price"},
		{name: "bond", kind: buy, quantity: "10000", price: "98.50", amount: "-9850",
			wantErr: "does not give the amount"},
		{name: "wrong multiplier", kind: buy, quantity: "1", price: "5.10", amount: "-51",
			option: true, wantErr: "does not give the amount"},
		{name: "nothing", kind: buy, quantity: "1", wantErr: "neither a price nor an amount"},
		{name: "fees above the amount", kind: buy, quantity: "1", fees: "5", amount: "-1",
			wantErr: "negative price"},
		{name: "too large", kind: buy, quantity: "9999999999999999999",
			price: "9999999999999999999", amount: "1", wantErr: "too large"},
	} {
		e := event{meaning: meaning{kind: c.kind}, quantity: numberOf(t, c.quantity),
			price: numberOf(t, c.price), fees: numberOf(t, c.fees).Decimal,
			amount: numberOf(t, c.amount), option: c.option, feesInAmount: c.feesInAmount,
			multiplier: decimal.Hundred}
		calc := &calc{}
		price, fees := e.settle(calc)
		if c.wantErr != "" {
			if calc.err == nil || !strings.Contains(calc.err.Error(), c.wantErr) {
				t.Errorf("%s: error %v, expected %s", c.name, calc.err, c.wantErr)
			}
			continue
		}
		if calc.err != nil || price.String() != c.wantPrice || fees.String() != c.wantFees {
			t.Errorf("%s: price %s, fees %s, %v, expected %s and %s", c.name, price, fees, calc.err,
				c.wantPrice, c.wantFees)
		}
	}
}

// TestOFXHeader reads files as some servers send them: with empty lines before the header, or
// without a header.
func TestOFXHeader(t *testing.T) {
	text := strings.ReplaceAll(string(sample(t, "activity.qfx")), "\r\n", "\n")
	plain := mustRead(t, "f", []byte(text), nil)
	above := mustRead(t, "f", []byte("\n\n"+text), nil)
	without := mustRead(t, "f", []byte(text[strings.Index(text, "<OFX>"):]), nil)
	for name, imp := range map[string]*Import{"lines above": above, "no header": without} {
		if len(imp.Rows) != len(plain.Rows) || imp.Rows[0].ID != plain.Rows[0].ID {
			t.Errorf("%s: %d rows, expected %d", name, len(imp.Rows), len(plain.Rows))
		}
	}
	if got, want := above.Rows[0].Source.Line, plain.Rows[0].Source.Line+2; got != want {
		t.Errorf("line %d, expected %d", got, want)
	}
}

func BenchmarkReadOwn(b *testing.B) {
	data := []byte(ownHead + strings.Repeat(
		"2024-01-31,brk,buy,VTI,10,215.50,,,\n2024-02-01,brk,sell,VTI,1,216.50,0.02,USD,\n",
		50_000))
	b.SetBytes(int64(len(data)))
	for b.Loop() {
		if imp, err := Read("own.csv", data, nil); err != nil || len(imp.Rows) != 100_000 {
			b.Fatal(err)
		}
	}
}
