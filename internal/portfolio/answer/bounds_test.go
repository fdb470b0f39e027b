package answer_test

import (
	"encoding/json"
	"fmt"
	"math"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"signalbox/brief"
	"signalbox/internal/portfolio/answer"
	"signalbox/internal/testkit/must"
	"signalbox/internal/testkit/property"
)

// wantBrief checks that an answer in the format agent is short and well-formed.
func wantBrief(t *rapid.T, data json.RawMessage, err error) brief.Answer {
	must.Succeed(t, err)
	if len(data) > brief.MaxAgentBytes {
		t.Fatalf("%d bytes: %s", len(data), data)
	}
	var out brief.Answer
	if err := json.Unmarshal(data, &out); err != nil {
		t.Fatalf("%v: %s", err, data)
	}
	if len(out.Flags) > 0 && out.Format != brief.FormatAgent {
		t.Fatalf("format %q", out.Format)
	}
	for i, flag := range brief.Sort(out.Flags) {
		if flag != out.Flags[i] {
			t.Fatalf("flags are not sorted: %+v", out.Flags)
		}
	}
	return out
}

func anyText() *rapid.Generator[string] {
	return rapid.OneOf(rapid.StringMatching("[A-Z]{1,5}"), rapid.String(),
		rapid.Map(rapid.IntRange(0, 3000), func(n int) string { return strings.Repeat("<é", n) }))
}

func anyNumber() *rapid.Generator[*brief.Number] {
	special := rapid.SampledFrom([]float64{math.NaN(), math.Inf(1), math.Inf(-1), 0,
		math.MaxFloat64})
	return rapid.Ptr(rapid.Map(rapid.OneOf(rapid.Float64(), special),
		func(f float64) brief.Number { return brief.Number(f) }), true)
}

func anyAmount() *rapid.Generator[answer.Amount] {
	return rapid.Custom(func(t *rapid.T) answer.Amount {
		whole, scale := rapid.Int64().Draw(t, "whole"), rapid.IntRange(0, 19).Draw(t, "scale")
		return amount(fmt.Sprint(whole)[:min(19, len(fmt.Sprint(whole)))] + "e-" +
			fmt.Sprint(scale))
	})
}

func anyStatus() *rapid.Generator[string] {
	return rapid.OneOf(rapid.Just("success"), rapid.Just("success"), rapid.Just("error"), anyText())
}

func TestExitBriefIsShort(t *testing.T) {
	property.Check(t, func(t *rapid.T) {
		r := answer.ExitResult{
			Status: anyStatus().Draw(t, "status"), Ticker: anyText().Draw(t, "ticker"),
			Error: anyText().Draw(t, "error"),
			OverallAssessment: rapid.SampledFrom([]string{"", "HOLD ", "EXIT ", "ERROR ",
				"STRONG EXIT "}).Draw(t, "prefix") + anyText().Draw(t, "overall"),
			TradeEligible:   rapid.Bool().Draw(t, "eligible"),
			StopAboveMarket: rapid.Bool().Draw(t, "stop"), StopNote: anyText().Draw(t, "note"),
			Position: answer.ExitPosition{Shares: anyAmount().Draw(t, "shares")},
			Sizing:   &answer.ExitSizing{SellQuantity: anyAmount().Draw(t, "sell")},
		}
		for range rapid.IntRange(0, 30).Draw(t, "signals") {
			r.Signals = append(r.Signals, answer.ExitSignal{RuleName: anyText().Draw(t, "rule"),
				Severity: anyNumber().Draw(t, "severity"),
				Status:   anyStatus().Draw(t, "rule's status")})
		}
		for range rapid.IntRange(0, 10).Draw(t, "actions") {
			r.RecommendedActions = append(r.RecommendedActions,
				answer.ExitAction{Action: anyText().Draw(t, "action"),
					Quantity: anyAmount().Draw(t, "quantity")})
		}
		data, err := answer.ExitTool().Answer(r, brief.FormatAgent, brief.Saved{})
		out := wantBrief(t, data, err)
		if (out.Status == brief.StatusSuccess) != (r.Status == "success") {
			t.Fatalf("status %s of %q", out.Status, r.Status)
		}
		for _, format := range brief.Formats() {
			if data, err := answer.ExitTool().Answer(r, format,
				brief.Saved{Path: "/f"}); err != nil || !json.Valid(data) {
				t.Fatalf("%s: %v: %s", format, err, data)
			}
		}
	})
}

func TestHarvestBriefIsShort(t *testing.T) {
	property.Check(t, func(t *rapid.T) {
		r := answer.HarvestResult{
			Status: anyStatus().Draw(t, "status"), Error: anyText().Draw(t, "error"),
			TotalHarvestableLoss:  anyAmount().Draw(t, "total"),
			ShortTermLoss:         anyAmount().Draw(t, "short"),
			LongTermLoss:          anyAmount().Draw(t, "long"),
			CandidateCount:        rapid.IntRange(0, 3).Draw(t, "count"),
			ValueCoveragePct:      anyNumber().Draw(t, "value coverage"),
			PermanentlyDisallowed: anyAmount().Draw(t, "permanent"),
		}
		if coverage := anyNumber().Draw(t, "coverage"); coverage != nil {
			r.DataCoveragePct = *coverage
		}
		for range rapid.IntRange(0, 30).Draw(t, "lots") {
			r.Candidates = append(r.Candidates, answer.HarvestCandidate{
				Ticker: anyText().Draw(t, "ticker"), UnrealizedLoss: anyAmount().Draw(t, "loss"),
				HoldingPeriod: anyText().Draw(t, "period"),
			})
			r.WashSaleWarnings = append(r.WashSaleWarnings,
				answer.WashSaleWarning{Ticker: anyText().Draw(t, "wash")})
		}
		data, err := answer.HarvestTool().Answer(r, brief.FormatAgent, brief.Saved{})
		if out := wantBrief(t, data, err); len(out.Flags) == 0 {
			t.Fatalf("no flags: %s", data)
		}
		for _, format := range brief.Formats() {
			if data, err := answer.HarvestTool().Answer(r, format,
				brief.Saved{Path: "/f"}); err != nil || !json.Valid(data) {
				t.Fatalf("%s: %v: %s", format, err, data)
			}
		}
	})
}

// TestLargePortfolioIsNotShortened checks that the limits of the lists are enough to keep an
// ordinary answer short.
func TestLargePortfolioIsNotShortened(t *testing.T) {
	r := washWarnings(harvest(), 3000)
	for i := range 100_000 {
		r.Candidates = append(r.Candidates, lot(fmt.Sprintf("TICKER%d", i%3000), "-1234567.89",
			"long_term", true))
	}
	data, err := answer.HarvestTool().Answer(r, brief.FormatAgent,
		brief.Saved{Path: "/" + strings.Repeat("p", 200)})
	if err != nil || len(data) > 2500 || strings.Contains(string(data), "brief_shortened") {
		t.Errorf("%d bytes, %v: %s", len(data), err, data)
	}
}

func TestAmountJSON(t *testing.T) {
	for in, want := range map[string]string{
		"1": "1", "-12.50": "-12.5", `"3.10"`: "3.1", "0.000": "0", "null": "0", `"NaN"`: "0",
		`"-Infinity"`: "0", `"inf"`: "0", "1e3": "1000", "100": "100",
	} {
		var a answer.Amount
		if err := json.Unmarshal([]byte(in), &a); err != nil {
			t.Errorf("%s: %v", in, err)
			continue
		}
		if got, err := json.Marshal(a); err != nil || string(got) != want || fmt.Sprint(a) != want {
			t.Errorf("%s became %s and %v, %v, want %s", in, got, a, err, want)
		}
	}
	for _, in := range []string{`"abc"`, `""`, "true", "[]", "1e400", "99999999999999999999"} {
		var a answer.Amount
		if err := json.Unmarshal([]byte(in), &a); err == nil {
			t.Errorf("%s became %v", in, a)
		}
	}
}

func FuzzAmount(f *testing.F) {
	for _, seed := range []string{"1", "-0.50", `"7"`, "null", `"NaN"`, "1e-19", "1e400", `"`,
		`"+-1"`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		var a, again answer.Amount
		if a.UnmarshalJSON(data) != nil {
			return
		}
		written, err := a.MarshalJSON()
		if err != nil || !json.Valid(written) {
			t.Fatalf("%q is written as %q, %v", data, written, err)
		}
		if err := again.UnmarshalJSON(written); err != nil || !again.Equal(a) {
			t.Errorf("%q was %v, and then %v, %v", data, a, again, err)
		}
	})
}
