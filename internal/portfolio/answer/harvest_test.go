package answer_test

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"signalbox/brief"
	"signalbox/internal/portfolio/answer"
	"signalbox/internal/testkit/must"
)

func lot(ticker, loss, period string, risk bool) answer.HarvestCandidate {
	return answer.HarvestCandidate{Ticker: ticker, UnrealizedLoss: amount(loss),
		HoldingPeriod: period, WashSaleRisk: risk}
}

func harvest() answer.HarvestResult {
	return answer.HarvestResult{
		Status: "success", TotalHarvestableLoss: amount("-12345.678"),
		ShortTermLoss: amount("-3086.42"), LongTermLoss: amount("-9259.258"),
		CandidateCount: 3, DataCoveragePct: 83.33,
		Candidates: []answer.HarvestCandidate{
			lot("BND", "-3086.42", "short_term", false),
			lot("TLT", "-9000.258", "long_term", false), lot("TLT", "-259", "long_term", false),
		},
		Metadata: answer.HarvestMetadata{PositionsAnalyzed: 12, PositionsWithLots: 10},
	}
}

func empty(coverage float64) answer.HarvestResult {
	return answer.HarvestResult{Status: "success", DataCoveragePct: brief.Number(coverage),
		Metadata: answer.HarvestMetadata{PositionsAnalyzed: 7}}
}

func TestSnapshotSuccess(t *testing.T) {
	got := answer.SnapshotHarvest(harvest())
	want := answer.HarvestSnapshot{
		Status: "success", Verdict: "$12,346 harvestable losses across 3 lots (75% long-term), 83% data coverage",
		TotalHarvestableLoss: amount("-12345.68"), ShortTermLoss: amount("-3086.42"),
		LongTermLoss: amount("-9259.26"), CandidateCount: 3,
		TopCandidates: []answer.TopCandidate{
			{Ticker: "TLT", TotalLoss: amount("-9259.26"), CleanToday: amount("-9259.26"), LotCount: 2,
				HoldingPeriods: []string{"long_term"}},
			{Ticker: "BND", TotalLoss: amount("-3086.42"), CleanToday: amount("-3086.42"), LotCount: 1,
				HoldingPeriods: []string{"short_term"}},
		},
		LotsMissing: []string{}, LotsNotHeld: []string{}, OptionPrices: []string{},
		Crypto: []string{}, UnknownLots: []string{}, Section1256: []string{},
		AverageCost: []string{}, SpouseAccounts: []string{}, Reinvestments: []string{},
		StalePriceTickers: []string{}, WashSaleTickers: []string{}, DataCoveragePct: 83.3,
		PositionsAnalyzed: 12, PositionsWithLots: 10,
		DeductionLimit: amount("3000"), NetAfterHarvest: amount("-12345.68"),
		Disclaimer: answer.Disclaimer, CleanToday: amount("-12345.68"), CleanLots: 3,
		CleanLater: []answer.CleanDate{}, DoNotBuy: []string{},
		Headline: "$12,345.68 is clean today in 3 lots; totals hold only if all 3 lots are sold that day",
	}
	wantEqual(t, want, got)
}

func TestSnapshotAdditions(t *testing.T) {
	r := harvest()
	r.DisallowedLoss, r.PermanentlyDisallowed = amount("10.125"), amount("20.5")
	r.ValueCoveragePct = number(91.26)
	r.Metadata.MinLoss, r.Metadata.BelowMinLossCount = amount("100"), 4
	r.IncompleteHistory = make([]answer.IncompleteSale, 2)
	r.Net = &answer.NetPosition{FilingStatus: "married_separate", Net: amount("-99.999")}
	got := answer.SnapshotHarvest(r)
	data, err := json.Marshal(got)
	fields := object(t, data, err)
	for key, want := range map[string]any{
		"disallowed_loss": 10.12, "permanently_disallowed": 20.5, "value_coverage_pct": 91.3,
		"min_loss": 100.0, "below_min_loss_count": 4.0,
		"incomplete_history_count": 2.0, "deduction_limit": 1500.0, "net_after_harvest": -100.0,
	} {
		if fields[key] != want {
			t.Errorf("%s is %v, want %v", key, fields[key], want)
		}
	}
}

func TestSnapshotNoCandidates(t *testing.T) {
	got := answer.SnapshotHarvest(empty(100))
	if want := "No tax-loss harvesting candidates found (7 positions analyzed)"; got.Verdict != want {
		t.Errorf("verdict %q, want %q", got.Verdict, want)
	}
}

func TestHarvestSnapshotError(t *testing.T) {
	failed := harvest()
	failed.Status, failed.Error = "error", "no such folder"
	want := answer.HarvestSnapshot{
		Status: "error", Verdict: "Tax harvest analysis failed: no such folder",
		TopCandidates: []answer.TopCandidate{}, WashSaleTickers: []string{},
		StalePriceTickers: []string{}, Disclaimer: answer.Disclaimer,
		LotsMissing: []string{}, LotsNotHeld: []string{}, OptionPrices: []string{},
		Crypto: []string{}, UnknownLots: []string{}, Section1256: []string{},
		AverageCost: []string{}, SpouseAccounts: []string{}, Reinvestments: []string{},
		CleanLater: []answer.CleanDate{}, DoNotBuy: []string{},
	}
	wantEqual(t, want, answer.SnapshotHarvest(failed))
	none := answer.SnapshotHarvest(answer.HarvestResult{})
	if none.Status != "error" || none.Verdict != "Tax harvest analysis failed: unknown error" {
		t.Errorf("an empty result: %+v", none)
	}
}

func TestSnapshotTickerConsolidation(t *testing.T) {
	r := harvest()
	r.Candidates = []answer.HarvestCandidate{
		lot("AAA", "-1.10", "long_term", false), lot("BBB", "-100", "long_term", false),
		lot("AAA", "-2.20", "long_term", true),
		lot("BBB", "-0.005", "long_term", false), lot(" AAA ", "-3.30", "long_term", false),
	}
	want := []answer.TopCandidate{
		{Ticker: "BBB", TotalLoss: amount("-100"), CleanToday: amount("-100"), LotCount: 2,
			HoldingPeriods: []string{"long_term"}},
		{Ticker: "AAA", TotalLoss: amount("-6.60"), CleanToday: amount("-6.60"), LotCount: 3,
			HoldingPeriods: []string{"long_term"}, WashSaleRisk: true},
	}
	wantEqual(t, want, answer.SnapshotHarvest(r).TopCandidates)
}

func TestSnapshotTopCandidatesCapped(t *testing.T) {
	r := harvest()
	r.Candidates = nil
	for i := range 10 {
		// T3 and T7 lose the same; the first comes first.
		r.Candidates = append(r.Candidates, lot(fmt.Sprint("T", i), fmt.Sprint(-(i%4)*100-1),
			"long_term", false))
	}
	var got []string
	for _, candidate := range answer.SnapshotHarvest(r).TopCandidates {
		got = append(got, candidate.Ticker)
	}
	wantEqual(t, []string{"T3", "T7", "T2", "T6", "T1"}, got)
}

func washWarnings(r answer.HarvestResult, count int) answer.HarvestResult {
	for i := range count {
		r.WashSaleWarnings = append(r.WashSaleWarnings,
			answer.WashSaleWarning{Ticker: fmt.Sprint("W", i)})
	}
	return r
}

func TestSnapshotWashSaleInVerdict(t *testing.T) {
	for count, want := range map[int]string{0: "83% data coverage",
		1: ", wash sale risk on 1 ticker", 7: ", wash sale risk on 7 tickers"} {
		got := answer.SnapshotHarvest(washWarnings(harvest(), count))
		if !strings.HasSuffix(got.Verdict, want) {
			t.Errorf("verdict %q, want it to end in %q", got.Verdict, want)
		}
		if got.WashSaleTickerCount != count || len(got.WashSaleTickers) != min(count, 5) {
			t.Errorf("%d tickers: count %d, listed %v", count, got.WashSaleTickerCount,
				got.WashSaleTickers)
		}
	}
}

func TestHarvestSnapshotSafeFloat(t *testing.T) {
	for _, f := range []float64{math.NaN(), math.Inf(1), math.Inf(-1)} {
		r := harvest()
		r.DataCoveragePct, r.ValueCoveragePct, r.Candidates[0].LossPct = brief.Number(f), number(f),
			brief.Number(f)
		got := answer.SnapshotHarvest(r)
		if got.DataCoveragePct != 0 || *got.ValueCoveragePct != 0 ||
			!strings.HasSuffix(got.Verdict, " 0% data coverage") {
			t.Errorf("%v: %+v", f, got)
		}
		for _, format := range brief.Formats() {
			if _, err := answer.HarvestTool().Answer(r, format, brief.Saved{}); err != nil {
				t.Errorf("%v as %s: %v", f, format, err)
			}
		}
	}
	var r answer.HarvestResult
	const text = `{"status":"success","total_harvestable_loss":null,"short_term_loss":"NaN","long_term_loss":"-inf","candidate_count":1,
		"candidates":[{"ticker":"A","unrealized_loss":null}],"data_coverage_pct":null}`
	must.Succeed(t, json.Unmarshal([]byte(text), &r))
	got := answer.SnapshotHarvest(r)
	if got.Verdict != "$0 harvestable losses across 1 lots (0% long-term), 0% data coverage" ||
		!got.TopCandidates[0].TotalLoss.IsZero() {
		t.Errorf("got %+v", got)
	}
}

// seedKeys are the keys that every snapshot has.
func seedKeys() []string {
	return []string{"candidate_count", "data_coverage_pct", "long_term_loss", "positions_analyzed",
		"positions_with_lots", "short_term_loss", "status", "top_candidates",
		"total_harvestable_loss", "verdict", "wash_sale_ticker_count", "wash_sale_tickers"}
}

func TestSnapshotErrorKeyConsistency(t *testing.T) {
	for _, r := range []answer.HarvestResult{harvest(), empty(0), {Status: "error"}, {}} {
		got := keys(t, answer.SnapshotHarvest(r))
		for _, key := range seedKeys() {
			if !slices.Contains(got, key) {
				t.Errorf("status %q: there is no key %s", r.Status, key)
			}
		}
	}
	// Other keys are there only if they say something.
	wantEqual(t, append(seedKeys(), "disclaimer", "error_kind", "error_hint"),
		keys(t, answer.SnapshotHarvest(answer.HarvestResult{Status: "error"})), sorted())
}

func TestSnapshotHoldingPeriods(t *testing.T) {
	r := harvest()
	r.Candidates = []answer.HarvestCandidate{lot("A", "-1", "short_term", false),
		lot("A", "-1", "", false), lot("A", "-1", "long_term", false),
		lot("A", "-1", "short_term", false)}
	wantEqual(t, []string{"long_term", "short_term", "unknown"},
		answer.SnapshotHarvest(r).TopCandidates[0].HoldingPeriods)
}

func TestSnapshotTickerNormalization(t *testing.T) {
	r := harvest()
	r.Candidates = []answer.HarvestCandidate{lot("", "-1", "long_term", false),
		lot("  ", "-2", "long_term", false), lot("unknown", "-3", "long_term", false)}
	want := []answer.TopCandidate{{Ticker: "unknown", TotalLoss: amount("-6"), CleanToday: amount("-6"), LotCount: 3,
		HoldingPeriods: []string{"long_term"}}}
	wantEqual(t, want, answer.SnapshotHarvest(r).TopCandidates)
}

func TestSnapshotOverflowIsAnError(t *testing.T) {
	r := harvest()
	r.Candidates = []answer.HarvestCandidate{lot("A", "-9999999999999999999", "long_term", false),
		lot("A", "-9999999999999999999", "long_term", false)}
	got := answer.SnapshotHarvest(r)
	if got.Status != "error" ||
		!strings.HasPrefix(got.Verdict,
			"Tax harvest analysis failed: the losses of A are too large to add: ") {
		t.Errorf("got %+v", got)
	}
	data, err := answer.HarvestTool().Answer(r, brief.FormatAgent, brief.Saved{})
	if object(t, data, err)["status"] != "error" {
		t.Errorf("got %s", data)
	}
}
