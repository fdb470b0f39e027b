package importer

import (
	"testing"

	"signalbox/internal/testkit/must"
)

func TestParseNumber(t *testing.T) {
	for _, c := range []struct{ in, want string }{
		{"10", "10"}, {"10.00", "10"}, {" $1,234.56 ", "1234.56"}, {"-$1,234.56", "-1234.56"},
		{"$-200.00", "-200"},
		{"($97.99)", "-97.99"}, {"(1,000)", "-1000"}, {"+5", "5"}, {".5", "0.5"}, {"5.", "5"},
		{"0012", "12"}, {"-0", "0"},
		{"1234567890123456789", "1234567890123456789"},
		{"0.0000000000000000001", "0.0000000000000000001"},
		{"1.50000000000000000000000000", "1.5"}, {"1,000,000", "1000000"},
		{"", ""}, {"-", ""}, {"$", ""}, {"()", ""}, {".", ""}, {"1,50", ""}, {"1,5000", ""},
		{",500", ""}, {"1,,000", ""}, {"1.2.3", ""},
		{"--5", ""}, {"(-5)", ""}, {"1e5", ""}, {"5 %", ""}, {"12345678901234567890", ""},
		{"0.00000000000000000001", ""}, {"1.000,5", ""},
		{"ten", ""}, {"NaN", ""}, {"１０", ""},
	} {
		got, err := parseNumber(c.in)
		switch {
		case c.want == "" && err == nil:
			t.Errorf("parseNumber(%q) = %s, expected an error", c.in, got)
		case c.want != "" && err != nil:
			t.Errorf("parseNumber(%q): %v", c.in, err)
		case c.want != "" && got.String() != c.want:
			t.Errorf("parseNumber(%q) = %s, expected %s", c.in, got, c.want)
		}
	}
}

func TestParseUSDate(t *testing.T) {
	for in, want := range map[string]string{
		"01/02/2024": "2024-01-02", "1/2/2024": "2024-01-02", "1/2/24": "2024-01-02",
		"03-28-2024": "2024-03-28", "2024-03-28": "2024-03-28",
		"01/02/2024 as of 12/29/2023": "2023-12-29", "01/02/2024  AS OF 12/29/2023": "2023-12-29",
		"Mar-15-2024": "2024-03-15",
		"13/01/2024":  "", "02/30/2024": "", "": "", "01/02/0024": "", "01/02/2024 as of": "",
		"28.03.2024": "",
	} {
		if got, ok := parseUSDate(in); got.String() != want || ok != (want != "") {
			t.Errorf("parseUSDate(%q) = %s, %v, expected %q", in, got, ok, want)
		}
	}
}

func TestParseOption(t *testing.T) {
	for in, want := range map[string]string{
		"AAPL  240119C00150000":                              "AAPL240119C00150000",
		"AAPL240119C00150000":                                "AAPL240119C00150000",
		"TRIP 04/17/2026 10.50 C":                            "TRIP260417C00010500",
		"BRK/B 04/17/2026 410.00 P":                          "BRKB260417P00410000",
		"-XLU260710P44.5":                                    "XLU260710P00044500",
		"-F240315C13":                                        "F240315C00013000",
		"MOD 6/18/2026 Put $280.00":                          "MOD260618P00280000",
		"Option Expiration for SPX 3/27/2026 Call $5,257.50": "SPX260327C05257500",
		"VTI": "", "BRK.B": "", "": "",
	} {
		got, ok, err := parseOption(in)
		if err != nil || got != want || ok != (want != "") {
			t.Errorf("parseOption(%q) = %q, %v, %v, expected %q", in, got, ok, err, want)
		}
	}
	for _, in := range []string{"TRIP 13/17/2026 10.50 C", "TRIP 04/17/2026 10.5001 C",
		"TRIP 04/17/2026 123456 C", "-XLU269910P44.5",
		"LONGROOT 04/17/2026 10.50 C", "TRIP 04/17/2026 0 C"} {
		if got, ok, err := parseOption(in); !ok || err == nil {
			t.Errorf("parseOption(%q) = %q, %v, %v, expected an error", in, got, ok, err)
		}
	}
}

func TestParseRatio(t *testing.T) {
	for in, want := range map[string]string{"4": "4", "4:1": "4", "3:2": "3:2", "1:3": "1:3",
		"0.1": "0.1", "2.0": "2",
		"0": "", "1:0": "", "-2": "", "3/2": "", "1:2:3": "", "": ""} {
		got, err := parseRatio(in)
		if (err != nil) != (want == "") || got.String() != want {
			t.Errorf("parseRatio(%q) = %q, %v, expected %q", in, got, err, want)
		}
	}
	third, err := parseRatio("1:3")
	must.Succeed(t, err)
	if d, err := third.Decimal(); err != nil || d.String() != "0.3333333333333333333" {
		t.Errorf("1:3 as a decimal is %s, %v", d, err)
	}
	if _, err := (Ratio{}).Decimal(); err == nil {
		t.Error("the zero ratio has a decimal, expected an error")
	}
}
