package answer_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"signalbox/brief"
	"signalbox/internal/portfolio/answer"
)

func TestHarvestAgentResponseStructure(t *testing.T) {
	data, err := answer.HarvestTool().Answer(harvest(), brief.FormatAgent, brief.Saved{})
	fields := object(t, data, err)
	wantEqual(t, []string{"file_path", "flags", "format", "snapshot", "status"}, keys(t, fields))
	if fields["status"] != "success" || fields["format"] != "agent" {
		t.Errorf("got %s", data)
	}
	if snapshot := fields["snapshot"].(map[string]any); snapshot["total_harvestable_loss"] != -12345.68 {
		t.Errorf("total_harvestable_loss is %v, want the number -12345.68",
			snapshot["total_harvestable_loss"])
	}
}

func saveHarvest(t *testing.T) (brief.Saved, string) {
	dir := t.TempDir()
	return brief.Save(harvest(), "harvest.json", saveIn(dir)), dir
}

func TestHarvestFileOutputAgent(t *testing.T) {
	saved, dir := saveHarvest(t)
	data, err := answer.HarvestTool().Answer(harvest(), brief.FormatAgent, saved)
	wantFile(t, object(t, data, err), dir, harvest())
}

func TestHarvestInlineNoFilePath(t *testing.T) {
	for _, format := range []brief.Format{brief.FormatAgent, brief.FormatReport} {
		data, err := answer.HarvestTool().Answer(harvest(), format, brief.Saved{})
		if path, ok := object(t, data, err)["file_path"]; !ok || path != nil {
			t.Errorf("%s: file_path is %v, %v; want null", format, path, ok)
		}
	}
}

func TestFileOutputReport(t *testing.T) {
	saved, dir := saveHarvest(t)
	data, err := answer.HarvestTool().Answer(harvest(), brief.FormatReport, saved)
	fields := object(t, data, err)
	wantFile(t, fields, dir, harvest())
	wantEqual(t, []string{"file_path", "flags", "format", "report", "status"}, keys(t, fields))
	if fields["report"] != answer.ReportHarvest(harvest()) {
		t.Errorf("got %s", data)
	}
}

func TestHarvestFileOutputFull(t *testing.T) {
	saved, dir := saveHarvest(t)
	data, err := answer.HarvestTool().Answer(harvest(), brief.FormatFull, saved)
	fields := object(t, data, err)
	wantFile(t, fields, dir, harvest())
	if len(fields["candidates"].([]any)) != 3 || fields["disclaimer"] != answer.Disclaimer {
		t.Errorf("got %s", data)
	}
	for _, name := range []string{"wash_sale_warnings", "realized_wash_sales", "do_not_buy_before",
		"incomplete_history"} {
		if empty, ok := fields[name].([]any); !ok || len(empty) != 0 {
			t.Errorf("%s is %v, want []", name, fields[name])
		}
	}
}

func TestRealizedWashSaleForm(t *testing.T) {
	data, err := brief.Encode(answer.RealizedWashSale{SaleDate: "2024-03-01", Account: "brk",
		Ticker: "VOO", Shares: amount("10"), Loss: amount("-250.50"),
		DisallowedShares: amount("4"), DisallowedLoss: amount("100.20"), PermanentLoss: amount("0"),
		Replacements: []answer.Purchase{{Date: "2024-03-05", Account: "ira", Ticker: "IVV",
			Shares: amount("4")}}})
	const want = `{"sale_date":"2024-03-01","account":"brk","ticker":"VOO","shares":10,"loss":-250.5,"disallowed_shares":4,"disallowed_loss":100.2,` +
		`"permanent_loss":0,"replacements":[{"date":"2024-03-05","account":"ira","ticker":"IVV","shares":4}]}`
	if err != nil || string(data) != want {
		t.Errorf("got %s, %v\nwant %s", data, err, want)
	}
	if data, err = brief.Encode(answer.RealizedWashSale{}); err != nil ||
		!strings.HasSuffix(string(data), `"replacements":[]}`) {
		t.Errorf("got %s, %v", data, err)
	}
}

func TestHarvestSummary(t *testing.T) {
	r := washWarnings(harvest(), 1)
	purchases := []answer.Purchase{{Ticker: "PURCHASED"}}
	r.Candidates[0].WashSalePurchases, r.WashSaleWarnings[0].Purchases = purchases, purchases
	data, err := answer.HarvestTool().Answer(r, brief.FormatSummary, brief.Saved{})
	if fields := object(t, data, err); len(fields["candidates"].([]any)) != 3 ||
		strings.Contains(string(data), "PURCHASED") {
		t.Errorf("got %s", data)
	}
	if r.Candidates[0].WashSalePurchases == nil || r.WashSaleWarnings[0].Purchases == nil {
		t.Error("the summary took the purchases from the result itself")
	}
}

func TestHarvestAgentErrorPropagation(t *testing.T) {
	data, err := answer.HarvestTool().Answer(answer.HarvestResult{Status: "error",
		Error: "no folder"}, brief.FormatAgent, brief.Saved{})
	const want = `{"status":"error","format":"agent","snapshot":{"status":"error","verdict":"Tax harvest analysis failed: no folder",` +
		`"total_harvestable_loss":0,"short_term_loss":0,"long_term_loss":0,"candidate_count":0,"top_candidates":[],"wash_sale_ticker_count":0,` +
		`"wash_sale_tickers":[],"data_coverage_pct":0,"positions_analyzed":0,"positions_with_lots":0,"error_kind":"","error_hint":"",` +
		`"disclaimer":"Estimates under US federal rules; not tax advice"},` +
		`"flags":[{"flag":"harvest_error","severity":"error","message":"Tax harvest analysis failed: no folder"}],"file_path":null}`
	if err != nil || string(data) != want {
		t.Errorf("got %s, %v\nwant %s", data, err, want)
	}
}

func TestFileSaveReturnsNoneOnFailure(t *testing.T) {
	saved := brief.Save(harvest(), "harvest.json",
		func(string, []byte) (string, error) { return "/kept", errors.New("disk is full") })
	want := map[string]any{"flag": "file_not_saved", "severity": "error",
		"message": "The full result could not be saved: disk is full"}
	for _, format := range brief.Formats() {
		data, err := answer.HarvestTool().Answer(harvest(), format, saved)
		fields := object(t, data, err)
		if path, ok := fields["file_path"]; !ok || path != nil || fields["status"] != "success" {
			t.Errorf("%s: file_path is %v, %v, status %v; want null and success", format, path, ok,
				fields["status"])
		}
		if flags, _ := fields["flags"].([]any); len(flags) == 0 || cmp.Diff(want, flags[0]) != "" {
			t.Errorf("%s: flags are %v", format, flags)
		}
	}
}

// earlyReturn checks the answers without lots in every format, and that they are saved.
func earlyReturn(t *testing.T, r answer.HarvestResult, flags ...string) {
	t.Helper()
	dir := t.TempDir()
	data, err := answer.HarvestTool().Answer(r, brief.FormatAgent,
		brief.Save(r, "harvest.json", saveIn(dir)))
	fields := object(t, data, err)
	wantFile(t, fields, dir, r)
	if fields["status"] != "success" {
		t.Errorf("got %s", data)
	}
	s := answer.SnapshotHarvest(r)
	for _, key := range seedKeys() {
		if !slices.Contains(keys(t, s), key) {
			t.Errorf("there is no key %s", key)
		}
	}
	wantNames(t, answer.FlagsHarvest(s), flags...)
}

func TestAgentEarlyReturnNoTransactions(t *testing.T) {
	earlyReturn(t, answer.HarvestResult{Status: "success"}, "no_candidates")
}

func TestAgentEarlyReturnNoOpenLots(t *testing.T) {
	r := empty(0)
	r.IncompleteHistory = []answer.IncompleteSale{{Date: "2024-01-02", Account: "brk", Ticker: "A",
		Shares: amount("3")}}
	earlyReturn(t, r, "no_lot_data", "incomplete_history")
}

func TestHarvestReport(t *testing.T) {
	r := harvest()
	r.Candidates = r.Candidates[:1]
	c := &r.Candidates[0]
	c.AccountID, c.LotDate, c.Shares, c.LossPct, c.LongTermFrom = "brk", "2024-01-02",
		amount("40.0"), -12.345, "2025-01-03"
	c.DisallowedLoss, c.CleanDate, r.Metadata.AsOf = amount("1000"), "2024-06-01", "2024-05-31"
	r.DoNotBuyBefore = []answer.DoNotBuy{{Ticker: "BND", Identical: []string{"AGG", "SCHZ"},
		Date: "2024-07-01"}}
	r.RealizedWashSales = []answer.RealizedWashSale{{SaleDate: "2024-03-01", Account: "brk",
		Ticker: "A|B", Shares: amount("1"), Loss: amount("-5"), DisallowedLoss: amount("5")}}
	r.IncompleteHistory = []answer.IncompleteSale{{Date: "2024-01-02", Account: "brk",
		Ticker: "OLD", Shares: amount("3")}}
	const want = `# Tax-loss harvest

**$12,346 harvestable losses across 3 lots (75% long-term), 83% data coverage**

No lot is clean today, $3,086.42 more from 2024-06-01; totals hold only if all 3 lots are sold that day.

- warning: 1 row without a matching purchase — the history is incomplete, and these shares are not counted
- info: $12,346 harvestable losses exceed $3,000 annual deduction limit

|                               |      Amount |
| ----------------------------- | ----------: |
| Harvestable loss              | -$12,345.68 |
| Harvestable, short-term       |  -$3,086.42 |
| Harvestable, long-term        |  -$9,259.26 |
| Disallowed by wash sales      |       $0.00 |
| Net of the year after harvest | -$12,345.68 |
| Annual deduction limit        |   $3,000.00 |

## Lots at a loss

Each line is for selling that lot alone; the totals above are for selling all of them together.

| Ticker | Account | Bought     | Shares |       Loss |     % | Long-term  | Disallowed | Clean from |
| ------ | ------- | ---------- | -----: | ---------: | ----: | ---------- | ---------: | ---------- |
| BND    | brk     | 2024-01-02 |     40 | -$3,086.42 | -12.3 | 2025-01-03 |  $1,000.00 | 2024-06-01 |

## After selling, do not buy before

| Ticker | And identical | Date       |
| ------ | ------------- | ---------- |
| BND    | AGG, SCHZ     | 2024-07-01 |

## Past wash sales

| Sold       | Account | Ticker | Shares |   Loss | Disallowed | Lost for good |
| ---------- | ------- | ------ | -----: | -----: | ---------: | ------------: |
| 2024-03-01 | brk     | A\|B   |      1 | -$5.00 |      $5.00 |         $0.00 |

## Shares without a known purchase

| Date       | Account | Ticker | Shares | Why | Record |
| ---------- | ------- | ------ | -----: | --- | ------ |
| 2024-01-02 | brk     | OLD    |      3 |     |        |

Estimates under US federal rules; not tax advice.
`
	wantEqual(t, want, answer.ReportHarvest(r))
	failed := answer.ReportHarvest(answer.HarvestResult{})
	if !strings.Contains(failed, "- error: Tax harvest analysis failed: unknown error\n") ||
		!strings.Contains(failed, "not tax advice") || strings.Contains(failed, "|") {
		t.Errorf("a failed one:\n%s", failed)
	}
}

// TestSummaryIsShort checks that a summary has a verdict, the first entries of each list, and the
// number of omitted ones.
func TestSummaryIsShort(t *testing.T) {
	r := harvest()
	one := r.Candidates[0]
	r.Candidates = nil
	for range 1000 {
		r.Candidates = append(r.Candidates, one)
	}
	r.CandidateCount = len(r.Candidates)
	data, err := answer.HarvestTool().Answer(r, brief.FormatSummary, brief.Saved{})
	fields := object(t, data, err)
	if n := len(fields["candidates"].([]any)); n != 20 || fields["candidates_omitted"] != 980.0 ||
		fields["candidate_count"] != 1000.0 {
		t.Errorf("%d candidates, %v omitted of %v", n, fields["candidates_omitted"],
			fields["candidate_count"])
	}
	if verdict, _ := fields["verdict"].(string); verdict != answer.SnapshotHarvest(r).Verdict {
		t.Errorf("verdict %q", verdict)
	}
	if len(r.Candidates) != 1000 {
		t.Error("the summary shortened the result itself")
	}
}
