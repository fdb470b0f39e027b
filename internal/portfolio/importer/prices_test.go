package importer

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/govalues/decimal"

	"signalbox/internal/portfolio/tax"
	"signalbox/internal/testkit/must"
)

func TestReadPrices(t *testing.T) {
	got, err := ReadPrices("p.csv",
		[]byte("\xef\xbb\xbfDate,ticker,close,adjusted,currency\r\n2024-01-31,vti,240.10,239.5,usd\r\n\r\n2024-02-29,VTI,\"1,250\",,\r\n"))
	must.Succeed(t, err)
	want := []Price{
		{Date: tax.DateOf(2024, 1, 31), Ticker: "VTI", Close: decimal.MustParse("240.1"),
			Adjusted: decimal.MustParse("239.5"), Currency: "USD",
			Source: Source{File: "p.csv", Line: 2}},
		{Date: tax.DateOf(2024, 2, 29), Ticker: "VTI", Close: decimal.MustParse("1250"),
			Source: Source{File: "p.csv", Line: 4}},
	}
	if diff := cmp.Diff(want, got, compareRows()); diff != "" {
		t.Errorf("prices (-want +got):\n%s", diff)
	}
	_, err = ReadPrices("p.csv",
		[]byte("date,ticker,close\n2024-01-31,VTI,0\n2024-01-32,,-1\n2024-01-31,KO,60\n2024-01-31,KO,61\n2024-01-31,KO,61,62\n2024-01-31,T,\n"))
	for _, want := range []string{`p.csv:2:16: close: "0" is not above 0`, `p.csv:3:1: date`,
		"p.csv:3:12: the ticker is empty", `p.csv:3:13: close: "-1"`,
		"p.csv:5:1: KO on 2024-01-31 is also in line 4", "p.csv:6:1: the record has 4 fields",
		`p.csv:7:14: close: ""`} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v\ndoes not have %s", err, want)
		}
	}
	for _, data := range []string{"", "date,ticker\n", "date,ticker,close,volume\n", "PK\x03\x04",
		"a,\"b\n"} {
		if got, err := ReadPrices("p.csv", []byte(data)); err == nil {
			t.Errorf("%q gives %v, expected an error", data, got)
		}
	}
}

func TestReadRates(t *testing.T) {
	want := []Rate{{Date: tax.DateOf(2024, 1, 31), From: "EUR", To: "USD", Rate: decimal.MustParse("1.0837"),
		Source: Source{File: "fx.csv", Line: 2}}}
	for _, data := range []string{"date,from,to,rate\n2024-01-31,eur,usd,1.0837\n",
		"date,ticker,close,adjusted,currency\n2024-01-31,EURUSD=X,1.0837,,USD\n",
		"date,ticker,close\n2024-01-31,EUR/USD,1.0837\n"} {
		got, err := ReadRates("fx.csv", []byte(data))
		must.Succeed(t, err)
		if diff := cmp.Diff(want, got, compareRows()); diff != "" {
			t.Errorf("%q (-want +got):\n%s", data, diff)
		}
	}
	for data, want := range map[string]string{
		"date,from,to,rate\n2024-01-31,EUR,EUR,1\n":                         "fx.csv:2:12: the rate is not between two currencies",
		"date,from,to,rate\n2024-01-31,EUR,USD,0\n":                         `fx.csv:2:20: rate: "0" is not above 0`,
		"date,ticker,close\n2024-01-31,VTI,1\n":                             "fx.csv:2:12: the rate",
		"date,rate\n":                                                       `column "from" is missing`,
		"date,from,to,rate\n2024-01-31,EUR,USD,1\n2024-01-31,EUR,USD,1.1\n": "EUR in USD on 2024-01-31 is also in line 2",
	} {
		if _, err := ReadRates("fx.csv", []byte(data)); err == nil ||
			!strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v\nexpected %s", data, err, want)
		}
	}
}
