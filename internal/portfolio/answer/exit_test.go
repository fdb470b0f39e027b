package answer_test

import (
	"encoding/json"
	"fmt"
	"math"
	"strings"
	"testing"

	"signalbox/brief"
	"signalbox/internal/portfolio/answer"
)

func held() answer.ExitResult {
	return answer.ExitResult{
		Status: "success", Ticker: "SLV", OverallAssessment: "HOLD - no exit rule triggered",
		Signals: []answer.ExitSignal{
			{RuleName: "momentum_exit", IsPrimary: true, Severity: number(0), Status: "ok"},
			{RuleName: "regime_check", Severity: number(0), Status: "ok"},
		},
		Position: answer.ExitPosition{Shares: amount("100")},
	}
}

func exiting() answer.ExitResult {
	r := held()
	r.OverallAssessment = "EXIT - momentum is fading"
	r.Signals[0].Triggered, r.Signals[0].Severity = true, number(0.8)
	r.TradeEligible = true
	r.Sizing = &answer.ExitSizing{SellQuantity: amount("75")}
	r.RecommendedActions = []answer.ExitAction{
		{Step: 1, Action: "SELL", Ticker: "SLV", Quantity: amount("75"), OrderType: "market"},
		{Step: 2, Action: "PLACE_STOP", Quantity: amount("25"), OrderType: "stop"},
	}
	return r
}

func TestSnapshotSuccessHold(t *testing.T) {
	got := answer.SnapshotExit(held())
	want := answer.ExitSnapshot{
		Ticker: "SLV", Status: "success", Verdict: "SLV: HOLD - no exit rule triggered",
		OverallAssessment: "HOLD - no exit rule triggered",
		SignalCount:       2,
		Signals: []answer.SignalSummary{
			{RuleName: "momentum_exit", IsPrimary: true, Status: "ok"},
			{RuleName: "regime_check", Status: "ok"},
		},
		RecommendedActions: []answer.ActionSummary{}, Shares: amount("100"),
		ErroredRules: []string{},
	}
	wantEqual(t, want, got)
}

func TestSnapshotSuccessExit(t *testing.T) {
	got := answer.SnapshotExit(exiting())
	if want := "SLV: EXIT - momentum is fading — sell 75 of 100 shares"; got.Verdict != want {
		t.Errorf("verdict %q, want %q", got.Verdict, want)
	}
	if !got.TradeEligible || !got.SellQuantity.Equal(amount("75")) ||
		!got.Shares.Equal(amount("100")) {
		t.Errorf("got %+v", got)
	}
	fractional := exiting()
	fractional.Position.Shares, fractional.Sizing.SellQuantity = amount("10.50"), amount("7.8750")
	if got := answer.SnapshotExit(fractional); !strings.HasSuffix(got.Verdict,
		" — sell 7.875 of 10.5 shares") {
		t.Errorf("verdict %q", got.Verdict)
	}
	noActions := exiting()
	noActions.RecommendedActions = nil
	if got := answer.SnapshotExit(noActions); got.Verdict != "SLV: EXIT - momentum is fading" {
		t.Errorf("verdict %q without actions", got.Verdict)
	}
}

func TestExitSnapshotError(t *testing.T) {
	failed := exiting()
	failed.Status, failed.Error = "error", "no prices"
	failed.Signals[1].Status = "error"
	got := answer.SnapshotExit(failed)
	want := answer.ExitSnapshot{
		Ticker: "SLV", Status: "error", Verdict: "Exit signal check failed for SLV: no prices",
		OverallAssessment: "EXIT - momentum is fading",
		Signals:           []answer.SignalSummary{}, RecommendedActions: []answer.ActionSummary{},
		Shares: amount("100"), ErroredRules: []string{"regime_check"},
	}
	wantEqual(t, want, got)
	empty := answer.SnapshotExit(answer.ExitResult{})
	if empty.Verdict != "Exit signal check failed for unknown: unknown error" ||
		empty.Status != "error" || empty.OverallAssessment != "UNKNOWN" {
		t.Errorf("an empty result: %+v", empty)
	}
	odd := exiting()
	odd.Status = "partial" // only success is a success
	if got := answer.SnapshotExit(odd); got.Status != "partial" || got.TradeEligible ||
		got.SignalCount != 0 || !got.SellQuantity.IsZero() {
		t.Errorf("an odd status: %+v", got)
	}
	wantEqual(t, keys(t, answer.SnapshotExit(exiting())), keys(t, empty))
}

func TestSnapshotSignalsSummarized(t *testing.T) {
	r := held()
	r.Signals = []answer.ExitSignal{{}}
	for i := range 7 {
		r.Signals = append(r.Signals, answer.ExitSignal{RuleName: fmt.Sprint("rule", i),
			Triggered: true, Severity: number(0.25), Status: "error", Gap: number(1)})
	}
	got := answer.SnapshotExit(r)
	if got.SignalCount != 8 || len(got.Signals) != 5 {
		t.Errorf("%d signals of %d, want 5 of 8", len(got.Signals), got.SignalCount)
	}
	data, err := json.Marshal(got.Signals[:2])
	const want = `[{"rule_name":"unknown","triggered":false,"severity":0,"is_primary":false,"status":"ok"},` +
		`{"rule_name":"rule0","triggered":true,"severity":0.25,"is_primary":false,"status":"error"}]`
	if err != nil || string(data) != want {
		t.Errorf("got %s, %v\nwant %s", data, err, want)
	}
	wantEqual(t, []string{"rule0", "rule1", "rule2", "rule3", "rule4", "rule5", "rule6"},
		got.ErroredRules)
}

func TestErroredRulesCapped(t *testing.T) {
	r := held()
	for i := range 12 {
		r.Signals = append(r.Signals, answer.ExitSignal{RuleName: fmt.Sprint("rule", i),
			Status: "error"})
	}
	if got := answer.SnapshotExit(r).ErroredRules; len(got) != 10 || got[9] != "rule9" {
		t.Errorf("got %v", got)
	}
}

func TestSnapshotActionsCapped(t *testing.T) {
	r := exiting()
	r.RecommendedActions = []answer.ExitAction{{},
		{Action: "A", Ticker: "GLD", Quantity: amount("1.50"), OrderType: "market"}, {Action: "B"},
		{Action: "C"}, {Action: "D"}}
	data, err := json.Marshal(answer.SnapshotExit(r).RecommendedActions)
	const want = `[{"action":"unknown","ticker":"SLV","quantity":0,"order_type":"unknown"},` +
		`{"action":"A","ticker":"GLD","quantity":1.5,"order_type":"market"},{"action":"B","ticker":"SLV","quantity":0,"order_type":"unknown"}]`
	if err != nil || string(data) != want {
		t.Errorf("got %s, %v\nwant %s", data, err, want)
	}
}

func TestExitSnapshotSafeFloat(t *testing.T) {
	r := held()
	r.Signals = nil
	for _, severity := range []*brief.Number{nil, number(math.NaN()), number(math.Inf(1)),
		number(math.Inf(-1)), number(0.5)} {
		r.Signals = append(r.Signals, answer.ExitSignal{Severity: severity, Return: severity})
	}
	var got []float64
	for _, signal := range answer.SnapshotExit(r).Signals {
		got = append(got, signal.Severity)
	}
	wantEqual(t, []float64{0, 0, 0, 0, 0.5}, got)
	for _, format := range brief.Formats() {
		if _, err := answer.ExitTool().Answer(r, format, brief.Saved{}); err != nil {
			t.Errorf("%s: %v", format, err)
		}
	}
}

func overall(text string) []brief.Flag {
	return answer.FlagsExit(answer.ExitSnapshot{Status: "success", OverallAssessment: text})
}

func TestSignalErrorFlag(t *testing.T) {
	for _, status := range []string{"error", "", "partial"} {
		flags := answer.FlagsExit(answer.ExitSnapshot{Status: status, Verdict: "it failed",
			OverallAssessment: "HOLD", ErroredRules: []string{"a"}})
		wantOnly(t, flags, "signal_error", brief.Error, "it failed")
	}
	wantFlag(t, answer.FlagsExit(answer.ExitSnapshot{}),
		"signal_error", brief.Error, "Exit signal evaluation failed")
}

func TestPrimaryRuleErrorFlag(t *testing.T) {
	wantOnly(t, overall("ERROR - momentum_exit failed"), "primary_rule_error", brief.Error,
		"Primary rule failed — cannot determine exit status")
}

func TestStrongExitFlag(t *testing.T) {
	wantOnly(t, overall("STRONG EXIT - all rules triggered"), "strong_exit", brief.Warning,
		"Both momentum and regime signals triggered — strong exit signal")
}

func TestExitSignalFlag(t *testing.T) {
	wantOnly(t, overall("EXIT - primary triggered"), "exit_signal", brief.Warning,
		"Primary momentum signal triggered — exit recommended")
}

func TestMonitorFlag(t *testing.T) {
	wantOnly(t, overall("MONITOR - regime"), "monitor", brief.Info,
		"Secondary signal triggered — monitoring, no action yet")
}

func TestHoldFlag(t *testing.T) {
	wantOnly(t, overall("HOLD"), "hold", brief.Success,
		"No exit signals triggered — position holds")
}

// TestOverallByPrefixOnly checks that a keyword counts only at the start of the text.
func TestOverallByPrefixOnly(t *testing.T) {
	for _, text := range []string{"", "UNKNOWN", "hold", " HOLD", "do not EXIT"} {
		if flags := overall(text); len(flags) != 0 {
			t.Errorf("%q has flags %+v", text, flags)
		}
	}
}

func TestTradeRecommendedFlag(t *testing.T) {
	for _, tt := range []struct {
		eligible     bool
		sell, shares string
		want         string // "" for no flag
	}{
		{true, "75", "100", "Recommended: sell 75 shares (75% of position)"},
		// 12.5 rounds to even
		{true, "0.50", "4", "Recommended: sell 0.5 shares (12% of position)"},
		{true, "3", "8", "Recommended: sell 3 shares (38% of position)"},
		{true, "2", "3", "Recommended: sell 2 shares (67% of position)"},
		{true, "5", "0", "Recommended: sell 5 shares (0% of position)"},
		{true, "5", "-5", "Recommended: sell 5 shares (0% of position)"},
		{true, "0", "100", ""},
		{true, "-1", "100", ""},
		{false, "75", "100", ""},
	} {
		flags := answer.FlagsExit(answer.ExitSnapshot{Status: "success", TradeEligible: tt.eligible,
			SellQuantity: amount(tt.sell), Shares: amount(tt.shares)})
		if tt.want == "" {
			wantNoFlag(t, flags, "trade_recommended")
			continue
		}
		wantFlag(t, flags, "trade_recommended", brief.Info, tt.want)
	}
}

func TestRuleEvaluationErrorFlag(t *testing.T) {
	r := held()
	r.Signals[1].Status = "error"
	flags := exitFlags(r)
	wantNames(t, flags, "rule_evaluation_error", "hold")
	wantFlag(t, flags, "rule_evaluation_error", brief.Warning,
		"Rule failed to evaluate: regime_check")
	r.Signals[0].Status = "error"
	wantFlag(t, exitFlags(r),
		"rule_evaluation_error", brief.Warning,
		"Rules failed to evaluate: momentum_exit, regime_check")
}

func TestStopAboveMarketFlag(t *testing.T) {
	r := exiting()
	r.StopAboveMarket = true
	flags := exitFlags(r)
	wantNames(t, flags, "exit_signal", "stop_above_market", "trade_recommended")
	wantFlag(t, flags, "stop_above_market", brief.Warning,
		"Configured stop is not below the market price — no stop order recommended")
	r.StopNote = "stop at 65 is not below 64"
	wantFlag(t, exitFlags(r),
		"stop_above_market", brief.Warning, r.StopNote)
	r.StopAboveMarket = false
	wantNoFlag(t, exitFlags(r), "stop_above_market")
}

func TestExitFlagSortOrder(t *testing.T) {
	r := exiting()
	r.OverallAssessment = "ERROR - primary failed"
	r.Signals[0].Status = "error"
	wantNames(t, exitFlags(r), "primary_rule_error",
		"rule_evaluation_error", "trade_recommended")
	r.OverallAssessment = "HOLD"
	wantNames(t, exitFlags(r), "rule_evaluation_error",
		"trade_recommended", "hold")
}

func TestPrimaryErroredNoSignalError(t *testing.T) {
	r := held()
	r.OverallAssessment = "ERROR - primary failed"
	flags := exitFlags(r)
	wantNames(t, flags, "primary_rule_error")
	wantNoFlag(t, flags, "signal_error")
}
