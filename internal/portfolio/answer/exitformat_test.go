package answer_test

import (
	"strings"
	"testing"

	"signalbox/brief"
	"signalbox/internal/portfolio/answer"
)

func TestExitAgentResponseStructure(t *testing.T) {
	data, err := answer.ExitTool().Answer(exiting(), brief.FormatAgent, brief.Saved{})
	fields := object(t, data, err)
	wantEqual(t, []string{"file_path", "flags", "format", "snapshot", "status"}, keys(t, fields))
	if fields["status"] != "success" || fields["format"] != "agent" {
		t.Errorf("got %s", data)
	}
	if snapshot := fields["snapshot"].(map[string]any); snapshot["sell_quantity"] != 75.0 {
		t.Errorf("sell_quantity is %v, want the number 75", snapshot["sell_quantity"])
	}
}

func saveExit(t *testing.T) (brief.Saved, string) {
	dir := t.TempDir()
	return brief.Save(exiting(), "exit.json", saveIn(dir)), dir
}

func TestExitFileOutputAgent(t *testing.T) {
	saved, dir := saveExit(t)
	data, err := answer.ExitTool().Answer(exiting(), brief.FormatAgent, saved)
	wantFile(t, object(t, data, err), dir, exiting())
}

func TestExitInlineNoFilePath(t *testing.T) {
	data, err := answer.ExitTool().Answer(exiting(), brief.FormatAgent, brief.Saved{})
	if path, ok := object(t, data, err)["file_path"]; !ok || path != nil {
		t.Errorf("file_path is %v, %v; want null", path, ok)
	}
	data, err = answer.ExitTool().Answer(exiting(), brief.FormatFull, brief.Saved{})
	if path, ok := object(t, data, err)["file_path"]; ok {
		t.Errorf("the full result has the file_path %v", path)
	}
}

func TestFileOutputSummary(t *testing.T) {
	r := exiting()
	r.Signals[0].Months = []answer.ExitMonth{{Month: "2024-05", Return: 0.1}}
	saved, dir := saveExit(t)
	data, err := answer.ExitTool().Answer(r, brief.FormatSummary, saved)
	fields := object(t, data, err)
	wantFile(t, fields, dir, exiting())
	if fields["overall_assessment"] != r.OverallAssessment ||
		strings.Contains(string(data), "months") {
		t.Errorf("got %s", data)
	}
	if len(r.Signals[0].Months) != 1 {
		t.Error("the summary took the months from the result itself")
	}
}

func TestExitFileOutputFull(t *testing.T) {
	saved, dir := saveExit(t)
	data, err := answer.ExitTool().Answer(exiting(), brief.FormatFull, saved)
	fields := object(t, data, err)
	wantFile(t, fields, dir, exiting())
	if len(fields["signals"].([]any)) != 2 {
		t.Errorf("got %s", data)
	}
}

func TestExitAgentErrorPropagation(t *testing.T) {
	data, err := answer.ExitTool().Answer(answer.ExitResult{Status: "error", Ticker: "SLV",
		Error: "no prices"}, brief.FormatAgent, brief.Saved{})
	const want = `{"status":"error","format":"agent","snapshot":{"ticker":"SLV","status":"error","verdict":"Exit signal check failed for SLV: no prices",` +
		`"overall_assessment":"UNKNOWN","signal_count":0,"signals":[],"trade_eligible":false,"recommended_actions":[],"shares":0,"sell_quantity":0,` +
		`"errored_rules":[],"stop_above_market":false,"stop_note":"","as_of":"","price_date":"","stale_price_days":0,"incomplete_history":false,"incomplete_record":"","option_price":"","size_note":"","sale":"","sale_unknown":"","error_kind":"","error_hint":""},` +
		`"flags":[{"flag":"signal_error","severity":"error","message":"Exit signal check failed for SLV: no prices"}],"file_path":null}`
	if err != nil || string(data) != want {
		t.Errorf("got %s, %v\nwant %s", data, err, want)
	}
}

func TestExitReport(t *testing.T) {
	r := exiting()
	r.Signals[0].Return, r.Signals[0].Gap = number(-0.1), number(-0.08)
	r.Signals[1].Status, r.Signals[1].Error = "error", "no price | of\nGLD\\"
	stop := amount("65.0")
	r.RecommendedActions[1].StopPrice, r.RecommendedActions[1].TimeInForce = &stop, "GTC"
	const want = `# Exit signals: SLV

**SLV: EXIT - momentum is fading — sell 75 of 100 shares**

- warning: Rule failed to evaluate: regime_check
- warning: Primary momentum signal triggered — exit recommended
- info: Recommended: sell 75 shares (75% of position)

## Rules

| Rule                    | Status | Triggered | Severity |  Return |      Gap |
| ----------------------- | ------ | --------- | -------: | ------: | -------: |
| momentum_exit (primary) | ok     | yes       |     0.80 | -10.00% | -8.00 pp |
| regime_check            | error  | no        |     0.00 |       – |        – |

- regime_check: no price | of GLD\

## Actions

| Step | Action     | Quantity | Order               |
| ---: | ---------- | -------: | ------------------- |
|    1 | SELL       |       75 | market              |
|    2 | PLACE_STOP |       25 | stop at $65.00, GTC |
`
	wantEqual(t, want, answer.ReportExit(r))
	failed := answer.ReportExit(answer.ExitResult{Ticker: "SLV"})
	if !strings.Contains(failed, "- error: Exit signal check failed for SLV: unknown error\n") ||
		strings.Contains(failed, "|") {
		t.Errorf("a failed one:\n%s", failed)
	}
}
