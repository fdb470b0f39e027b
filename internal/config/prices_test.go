package config

import (
	"path"
	"strings"
	"testing"
	"time"

	"signalbox"
)

func TestPriceOf(t *testing.T) {
	c := mustParse(t, `
prices:
  "mine-*": {input: 1, output: 2}
  "mine-large-*": {input: 3, output: 4, cached: 0.5}
  gpt-5: {input: 9, output: 9}
`)
	for model, want := range map[string]Price{
		"mine-1":               {1_000_000, 2_000_000, 1_000_000},
		"mine-large-1":         {3_000_000, 4_000_000, 500_000}, // the longest pattern
		"some/provider/mine-1": {1_000_000, 2_000_000, 1_000_000},
		// instead of the built-in price
		"gpt-5":                    {9_000_000, 9_000_000, 9_000_000},
		"gpt-5-codex":              {1_250_000, 10_000_000, 125_000},
		"claude-opus-4-1-20250805": {15_000_000, 75_000_000, 1_500_000},
		"claude-opus-4-8":          {5_000_000, 25_000_000, 500_000},
		"claude-opus-5-5":          {4_000_000, 20_000_000, 200_000},
		"gemini-2.5-flash-lite":    {100_000, 400_000, 10_000},
	} {
		if got, ok := c.PriceOf(model); !ok || got != want {
			t.Errorf("%s: %+v %t, want %+v", model, got, ok, want)
		}
	}
	for _, model := range []string{"", "qwen3", "gpt-9", "claude", "other/qwen3"} {
		if p, ok := c.PriceOf(model); ok {
			t.Errorf("%q has the price %+v", model, p)
		}
	}
	for format, known := range map[signalbox.Format]bool{signalbox.FormatClaude: true,
		signalbox.FormatCodex: true, signalbox.FormatGemini: true,
		signalbox.FormatOpencode: false, signalbox.FormatPlain: false} {
		if p, ok := HighestPrice(format); ok != known ||
			known != (p.OutputMicros >= p.InputMicros && p.CachedMicros > 0) {
			t.Errorf("%s: %+v %t", format, p, ok)
		}
	}
}

func TestModelPrice(t *testing.T) {
	c := mustParse(t, `
models:
  own: {provider: openai, model: qwen3, price: {input: 1, output: 2}}
  listed: {provider: openai, model: qwen3-coder}
  unknown: {provider: openai, model: gpt-5}
prices: {"qwen3*": {input: 5, output: 6}}
oracle: {model: listed, limits: {cost: 1}}
`)
	if p := c.ModelPrice("own"); p == nil || p.InputMicros != 1_000_000 {
		t.Errorf("own: %+v", p)
	}
	if p := c.ModelPrice("listed"); p == nil || p.OutputMicros != 6_000_000 {
		t.Errorf("listed: %+v", p)
	}
	if p := c.ModelPrice("unknown"); p != nil {
		t.Errorf("unknown: %+v", p)
	}
}

func TestCostMicros(t *testing.T) {
	p := Price{3_000_000, 15_000_000, 300_000}
	for _, tt := range []struct{ input, cached, output, want int64 }{
		{1_000_000, 0, 0, 3_000_000}, {1_000_000, 1_000_000, 0, 300_000}, {1000, 400, 100, 3420},
		{10, 20, 0, 3}, {0, 0, 0, 0},
	} {
		if got := p.CostMicros(tt.input, tt.cached, tt.output); got != tt.want {
			t.Errorf("%+v: %d", tt, got)
		}
	}
}

// TestBuiltinPrices checks that the table can be used, and that the reference names its date.
func TestBuiltinPrices(t *testing.T) {
	if _, err := time.Parse(time.DateOnly, PricesDate); err != nil {
		t.Error(err)
	}
	if !strings.Contains(document(t), PricesDate) {
		t.Errorf("the reference does not say that the prices are of %s", PricesDate)
	}
	for pattern, p := range builtinPrices {
		if _, err := path.Match(pattern, "x"); err != nil || p[0] <= 0 || p[1] < p[0] ||
			p[2] <= 0 || p[2] > p[0] {
			t.Errorf("%s: %v %v", pattern, p, err)
		}
	}
}
