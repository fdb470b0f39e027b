package config

import (
	"math"
	"path"
	"strings"

	"signalbox"
)

// PricesDate is the day of the built-in prices. Prices change, and there are other prices than
// these: for long prompts, for fast or slow service, and by contract. Config.Prices overrides them.
const PricesDate = "2026-11-16"

// builtinPrices are the list prices of standard service in dollars per million tokens on
// PricesDate, from the vendors' pages: platform.claude.com/docs/en/about-claude/pricing,
// developers.openai.com/api/docs/pricing and ai.google.dev/gemini-api/docs/pricing.
var builtinPrices = map[string][3]float64{ // input, output, cached
	"claude-opus-4-0*":   {15, 75, 1.50},
	"claude-opus-4-1*":   {15, 75, 1.50},
	"claude-opus-4-20*":  {15, 75, 1.50}, // with a date
	"claude-opus-4-*":    {5, 25, 0.50},
	"claude-opus-5*":     {5, 25, 0.50},
	"claude-opus-5-5*":   {4, 20, 0.20},
	"claude-sonnet-4*":   {3, 15, 0.30},
	"claude-sonnet-5*":   {2, 10, 0.20},
	"claude-sonnet-5-5*": {2, 10, 0.10},
	"claude-haiku-4*":    {1, 5, 0.10},
	"claude-haiku-5*":    {0.50, 2.50, 0.05}, // for long prompts; short ones cost a fifth
	"claude-fable-5*":    {10, 50, 1},
	"claude-fable-5-1*":  {10, 50, 0.25},
	"claude-mythos-5*":   {10, 50, 1},
	"claude-mythos-5-1*": {10, 50, 0.25},

	"gpt-5":          {1.25, 10, 0.125},
	"gpt-5-*":        {1.25, 10, 0.125},
	"gpt-5-mini*":    {0.25, 2, 0.025},
	"gpt-5-nano*":    {0.05, 0.40, 0.005},
	"gpt-5.1*":       {1.25, 10, 0.125},
	"gpt-5.2*":       {1.75, 14, 0.175},
	"gpt-5.3*":       {1.75, 14, 0.175},
	"gpt-5.4*":       {2.50, 15, 0.25},
	"gpt-5.4-mini*":  {0.75, 4.50, 0.075},
	"gpt-5.5*":       {5, 30, 0.50},
	"gpt-5.6-sol*":   {4, 20, 0.40},
	"gpt-5.6-terra*": {2, 12, 0.20},
	"gpt-5.6-luna*":  {0.20, 1.20, 0.02},
	"gpt-6-astra*":   {10, 50, 1},
	"gpt-6-sol*":     {2, 10, 0.20},
	"gpt-6.1-sol*":   {2, 10, 0.10},
	"gpt-6-luna*":    {0.10, 0.50, 0.01},

	"gemini-2.5-pro*":        {1.25, 10, 0.125},
	"gemini-2.5-flash*":      {0.30, 2.50, 0.03},
	"gemini-2.5-flash-lite*": {0.10, 0.40, 0.01},
	"gemini-3-pro*":          {2, 12, 0.20},
	"gemini-3.1-pro*":        {2, 12, 0.20},
	"gemini-3.5-flash*":      {1.50, 9, 0.15},
	"gemini-3.6-flash*":      {1.50, 7.50, 0.15},
}

func (c *Config) configuredPrice(model string) (Price, bool) {
	return longest(c.Prices, model, func(p Price) Price { return p })
}

// PriceOf returns the price of a model: a configured one, or else a built-in one. A provider in
// front of the name, up to the last slash, is optional in patterns.
func (c *Config) PriceOf(model string) (Price, bool) {
	if p, ok := c.configuredPrice(model); ok {
		return p, true
	}
	return longest(builtinPrices, model, builtinPrice)
}

func builtinPrice(p [3]float64) Price {
	micros := func(dollars float64) int64 { return int64(math.Round(dollars * 1e6)) }
	return Price{micros(p[0]), micros(p[1]), micros(p[2])}
}

// longest returns the price of the longest pattern that matches a model.
func longest[P any](prices map[string]P, model string,
	convert func(P) Price) (price Price, found bool) {
	best := ""
	for _, pattern := range sortedKeys(prices) {
		whole, _ := path.Match(pattern, model)
		name, _ := path.Match(pattern, model[strings.LastIndexByte(model, '/')+1:])
		if (whole || name) && len(pattern) > len(best) {
			best, price, found = pattern, convert(prices[pattern]), true
		}
	}
	return price, found
}

// HighestPrice returns the highest built-in price of the vendor of a program, for models whose
// price is not known: a limit of cost must not be exceeded because a model is new. The other
// programs report their cost themselves.
func HighestPrice(format signalbox.Format) (highest Price, known bool) {
	prefix := map[signalbox.Format]string{signalbox.FormatClaude: "claude-",
		signalbox.FormatCodex: "gpt-", signalbox.FormatGemini: "gemini-"}[format]
	for pattern, p := range builtinPrices {
		if price := builtinPrice(p); prefix != "" && strings.HasPrefix(pattern, prefix) {
			highest = Price{max(highest.InputMicros, price.InputMicros),
				max(highest.OutputMicros, price.OutputMicros),
				max(highest.CachedMicros, price.CachedMicros)}
		}
	}
	return highest, prefix != ""
}

// ModelPrice returns the price of a key of Models: its own, or else a configured one for the name
// of the model; nil if it is unknown.
func (c *Config) ModelPrice(name string) *Price {
	m := c.Models[name]
	if p, ok := c.configuredPrice(m.Model); m.Price == nil && ok {
		return &p
	}
	return m.Price
}

// CostMicros returns what tokens cost, in millionths of a dollar. cached is a part of input.
func (p Price) CostMicros(input, cached, output int64) int64 {
	cached = min(cached, input)
	return int64(math.Round(
		(float64(input-cached)*float64(p.InputMicros) + float64(cached)*float64(
			p.CachedMicros) + float64(output)*float64(p.OutputMicros)) / 1e6))
}
