package brief_test

import (
	"encoding/json"
	"math"
	"strconv"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"signalbox/brief"
	"signalbox/internal/testkit/property"
)

// The wanted texts are what CPython 3 prints for the same format.
func TestMoneyAsPythonWritesIt(t *testing.T) {
	for in, want := range map[float64]string{
		0: "0", 0.5: "0", 1.5: "2", 2.5: "2", 999.5: "1,000", 1000: "1,000", 1234.4: "1,234", 1234567.89: "1,234,568",
		-0.4: "-0", -1234.5: "-1,234", -999999.5: "-1,000,000", 2999.999: "3,000", 1e21: "1,000,000,000,000,000,000,000",
		math.Inf(1): "0", math.Inf(-1): "0",
	} {
		if got := brief.Money(in); got != want {
			t.Errorf("Money(%v) = %q, want %q", in, got, want)
		}
	}
	if got := brief.Money(math.NaN()); got != "0" {
		t.Errorf("Money(NaN) = %q", got)
	}
	for in, want := range map[float64]string{53.5: "54", 54.5: "54", 49.96: "50", 12345: "12345", math.Inf(1): "0"} {
		if got := brief.Whole(in); got != want {
			t.Errorf("Whole(%v) = %q, want %q", in, got, want)
		}
	}
}

// The wanted values are those of CPython's round.
func TestRoundAsPythonDoes(t *testing.T) {
	for _, tt := range []struct {
		in     float64
		digits int
		want   float64
	}{
		{2.675, 2, 2.67}, {1.005, 2, 1}, {0.125, 2, 0.12}, {0.375, 2, 0.38}, {-2.675, 2, -2.67}, {49.95, 1, 50}, {49.96, 1, 50},
		{53.25, 1, 53.2}, {1e300, 2, 1e300}, {math.MaxFloat64, 2, math.MaxFloat64}, {math.NaN(), 2, 0}, {math.Inf(-1), 1, 0},
	} {
		if got := brief.Round(tt.in, tt.digits); got != tt.want {
			t.Errorf("Round(%v, %d) = %v, want %v", tt.in, tt.digits, got, tt.want)
		}
	}
}

func TestFiniteAndPercent(t *testing.T) {
	if got := brief.Finite(math.NaN(), 7); got != 7 {
		t.Errorf("NaN became %v", got)
	}
	if got := brief.Finite(math.Inf(-1), 7); got != 7 {
		t.Errorf("an infinity became %v", got)
	}
	if got := brief.Finite(-2.5, 7); got != -2.5 {
		t.Errorf("-2.5 became %v", got)
	}
	for _, tt := range []struct{ part, whole, want float64 }{{1, 4, 25}, {1, 0, 0}, {0, 0, 0}, {math.Inf(1), 2, 0}, {1, math.NaN(), 0}} {
		if got := brief.Percent(tt.part, tt.whole); got != tt.want {
			t.Errorf("%v of %v is %v percent, want %v", tt.part, tt.whole, got, tt.want)
		}
	}
}

func TestNumberIsAlwaysJSON(t *testing.T) {
	property.Check(t, func(t *rapid.T) {
		f := rapid.OneOf(rapid.Float64(), rapid.SampledFrom([]float64{math.NaN(), math.Inf(1), math.Inf(-1)})).Draw(t, "f")
		data, err := json.Marshal(brief.Number(f))
		if err != nil {
			t.Fatal(err)
		}
		var back float64
		if err := json.Unmarshal(data, &back); err != nil {
			t.Fatal(err)
		}
		if want := brief.Finite(f, 0); back != want {
			t.Fatalf("%v became %v, want %v", f, back, want)
		}
	})
}

func TestGroup(t *testing.T) {
	for in, want := range map[string]string{
		"": "", "1": "1", "123": "123", "1234": "1,234", "-123": "-123", "-1234.5678": "-1,234.5678", "123456": "123,456", "0.5": "0.5",
	} {
		if got := brief.Group(in); got != want {
			t.Errorf("Group(%q) = %q, want %q", in, got, want)
		}
	}
}

func FuzzGroup(f *testing.F) {
	for _, seed := range []string{"", "-1234.5", "1,234", "+12345678901234567890", "....", "é"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, number string) {
		got := brief.Group(number)
		if without, want := strings.ReplaceAll(got, ",", ""), strings.ReplaceAll(number, ",", ""); without != want {
			t.Errorf("Group(%q) = %q lost something", number, got)
		}
	})
}

func TestFileName(t *testing.T) {
	at := time.Date(2025, 3, 4, 5, 6, 7, 890, time.UTC)
	for _, tt := range []struct{ prefix, ticker, random, want string }{
		{"exit_signals", "SLV", "a1B2", "exit_signals_SLV_20250304_050607-a1B2.json"},
		{"exit_signals", "BRK.B", "x", "exit_signals_BRK.B_20250304_050607-x.json"},
		{"exit_signals", "^GSPC", "x", "exit_signals_^GSPC_20250304_050607-x.json"},
		{"exit_signals", "EURUSD=X", "x", "exit_signals_EURUSD=X_20250304_050607-x.json"},
		{"tax_harvest", "", "x", "tax_harvest_20250304_050607-x.json"},
	} {
		got, err := brief.FileName(tt.prefix, tt.ticker, at, tt.random)
		if err != nil || got != tt.want {
			t.Errorf("%q, %v, want %q", got, err, tt.want)
		}
	}
	for _, tt := range []struct {
		prefix, ticker, random string
		at                     time.Time
	}{
		{"", "SLV", "x", at}, {"../x", "SLV", "x", at}, {"e", "slv", "x", at}, {"e", "A/B", "x", at}, {"e", "ABCDEFGHIJKLMNOPQ", "x", at},
		{"e", "A B", "x", at}, {"e", "É", "x", at}, {"e", "SLV\n", "x", at}, {"e", "SLV", "", at}, {"e", "SLV", "a.b", at}, {"e", "SLV", "a/b", at},
		{"e", "SLV", strings.Repeat("x", 33), at}, {"e", "SLV", "x", at.AddDate(9000, 0, 0)},
	} {
		if got, err := brief.FileName(tt.prefix, tt.ticker, tt.at, tt.random); err == nil {
			t.Errorf("%+v is accepted: %q", tt, got)
		}
	}
}

func FuzzFileName(f *testing.F) {
	f.Add("exit_signals", "SLV", int64(1700000000), "a1")
	f.Add("..", "../../etc", int64(-1), "/")
	f.Add("e", "..", int64(1)<<60, "x")
	f.Fuzz(func(t *testing.T, prefix, ticker string, seconds int64, random string) {
		name, err := brief.FileName(prefix, ticker, time.Unix(seconds, 0).UTC(), random)
		if err != nil {
			return
		}
		if strings.ContainsAny(name, "/\\\x00\n :") || name[0] == '.' || !strings.HasSuffix(name, ".json") || len(name) > 32+1+16+1+15+1+32+5 {
			t.Errorf("%s is no good name", strconv.Quote(name))
		}
	})
}
