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
	"signalbox/internal/testkit/must"
	"signalbox/internal/testkit/property"
)

func TestFinite(t *testing.T) {
	if got := brief.Finite(math.NaN(), 7); got != 7 {
		t.Errorf("NaN became %v", got)
	}
	if got := brief.Finite(math.Inf(-1), 7); got != 7 {
		t.Errorf("an infinity became %v", got)
	}
	if got := brief.Finite(-2.5, 7); got != -2.5 {
		t.Errorf("-2.5 became %v", got)
	}
}

func TestNumberIsAlwaysJSON(t *testing.T) {
	property.Check(t, func(t *rapid.T) {
		f := rapid.OneOf(rapid.Float64(),
			rapid.SampledFrom([]float64{math.NaN(), math.Inf(1), math.Inf(-1)})).Draw(t, "f")
		data, err := json.Marshal(brief.Number(f))
		must.Succeed(t, err)
		var back float64
		must.Succeed(t, json.Unmarshal(data, &back))
		if want := brief.Finite(f, 0); back != want {
			t.Fatalf("%v became %v, want %v", f, back, want)
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
		{"", "SLV", "x", at}, {"../x", "SLV", "x", at}, {"e", "slv", "x", at},
		{"e", "A/B", "x", at}, {"e", "ABCDEFGHIJKLMNOPQRSTUV", "x", at},
		{"e", "A B", "x", at}, {"e", "É", "x", at}, {"e", "SLV\n", "x", at}, {"e", "SLV", "", at},
		{"e", "SLV", "a.b", at}, {"e", "SLV", "a/b", at},
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
		if strings.ContainsAny(name, "/\\\x00\n :") || name[0] == '.' ||
			!strings.HasSuffix(name, ".json") || len(name) > 32+1+16+1+15+1+32+5 {
			t.Errorf("%s is not a valid name", strconv.Quote(name))
		}
	})
}
