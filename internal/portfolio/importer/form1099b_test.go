package importer

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"signalbox/internal/testkit/must"
)

// exampleForm has every column, a dash for a missing amount, and the three ways to write a date.
const exampleForm = "Account,Ticker,Quantity,Acquired,Sold,Proceeds,Basis,Wash_Sale,Box\n" +
	"brk,SLV,100,03/03/2025,2025-04-01,\"$2,700.00\",3000.00,150.00,a\n" +
	"brk,AAPL  250620C00150000,1,VARIOUS,2025-06-20,0,100,,B\n" +
	"\n" +
	"brk,MMM,10.5,inherited,2025-05-20,520.00,--,,E\n"

func TestReadForm1099B(t *testing.T) {
	rows, err := ReadForm1099B("f.csv", []byte(exampleForm), nil)
	must.Succeed(t, err)
	var got []string
	for _, r := range rows {
		got = append(got, strings.Join([]string{r.Account, r.Ticker, r.Quantity.String(), r.Acquired,
			r.Sold, r.Proceeds.String(), r.Basis.String(), map[bool]string{true: "reported"}[r.HasBasis],
			r.WashSale.String(), r.Box}, " "))
	}
	want := []string{
		"brk SLV 100 2025-03-03 2025-04-01 2700 3000 reported 150 A",
		"brk AAPL250620C00150000 1  2025-06-20 0 100 reported 0 B",
		"brk MMM 10.5 INHERITED 2025-05-20 520 0  0 E",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("want -, got +\n%s", diff)
	}
	if rows[2].Source.Line != 5 {
		t.Errorf("the last row is in line %d", rows[2].Source.Line)
	}
}

func TestReadForm1099BRefuses(t *testing.T) {
	const head = "account,ticker,quantity,sold,proceeds,box\n"
	for _, tt := range []struct{ text, want string }{
		{"", "f.csv:1:1: the file is empty"},
		{"account,ticker,quantity,sold,proceeds\n", "f.csv:1:1: the column box is missing, expected account,"},
		{"account,ticker,quantity,sold,proceeds,box,colour\n", `f.csv:1:43: the column "colour" is not known, expected some of account,`},
		{head + "brk,SLV,1,2025-04-01,5\n", "f.csv:2:1: the line has 5 fields, expected 6"},
		{head + "brk,SLV,1,2025-04-01,5,A,9\n", "f.csv:2:1: the line has 7 fields, expected 6"},
		{head + "brk,SLV,0,2025-04-01,5,A\n", `f.csv:2:9: the quantity is "0", expected a number above 0`},
		{head + "brk,SLV,-1,2025-04-01,5,A\n", `f.csv:2:9: the quantity is "-1", expected`},
		{head + "brk,SLV,1,2025-04-31,5,A\n", `f.csv:2:11: sold: "2025-04-31" is not a date`},
		{head + "brk,SLV,1,2025-04-01,,A\n", "f.csv:2:22: the proceeds are missing"},
		{head + "brk,SLV,1,2025-04-01,1.5.0,A\n", `f.csv:2:22: proceeds: "1.5.0" is not a number`},
		{head + "brk,SLV,1,2025-04-01,5,M\n", `f.csv:2:24: "M" is not a box of Form 8949`},
		{head + "brk,SLV,1,2025-04-01,5,AB\n", `f.csv:2:24: "AB" is not a box of Form 8949`},
		{head + "brk,SLV,1,2025-04-01,5,\n", `f.csv:2:24: "" is not a box of Form 8949`},
		{head + "brk,S V!,1,2025-04-01,5,A\n", "f.csv:2:5: "},
		{head + ",SLV,1,2025-04-01,5,A\n", "f.csv:2:1: the file does not name its account"},
		{"wash_sale," + head + "-1,brk,SLV,1,2025-04-01,5,A\n", "f.csv:2:1: the disallowed loss is negative"},
		{head + "brk,\"SLV,1,2025-04-01,5,A\n", "f.csv:2:"},
	} {
		rows, err := ReadForm1099B("f.csv", []byte(tt.text), nil)
		if err == nil || !strings.HasPrefix(err.Error(), tt.want) || rows != nil {
			t.Errorf("%q: %v, %v, want %s", tt.text, rows, err, tt.want)
		}
	}
	rows, err := ReadForm1099B("f.csv", []byte("ticker,quantity,sold,proceeds,box\nSLV,1,2025-04-01,5,A\n"),
		&Options{Account: "brk"})
	if err != nil || rows[0].Account != "brk" {
		t.Errorf("%v, %v", rows, err)
	}
}

func FuzzForm1099B(f *testing.F) {
	f.Add([]byte(exampleForm))
	f.Fuzz(func(t *testing.T, data []byte) {
		rows, err := ReadForm1099B("f", data, nil)
		for _, r := range rows {
			if err != nil || r.Account == "" || r.Ticker == "" || !r.Quantity.IsPos() ||
				r.Sold == "" || r.WashSale.IsNeg() || len(r.Box) != 1 ||
				!strings.Contains(formBoxes, r.Box) {
				t.Fatalf("row %+v is incomplete (%v)", r, err)
			}
		}
	})
}
