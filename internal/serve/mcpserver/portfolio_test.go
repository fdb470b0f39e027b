package mcpserver

import (
	"context"
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"signalbox/brief"
	"signalbox/internal/portfolio"
	"signalbox/internal/testkit/must"
)

func TestNoPortfolio(t *testing.T) {
	c := newCaller(t, newServer(t, newBox(t), nil))
	for tool, in := range map[string]args{"check_exit_signals": {"ticker": "SLV"},
		"suggest_tax_loss_harvest": {"format": "agent"}} {
		if a := c.fails(tool, "no_portfolio", in); !strings.Contains(a.text,
			"signalbox portfolio init") {
			t.Errorf("%s: does not explain how to get one: %s", tool, a.text)
		}
	}
}

// If the folder has no portfolio, the answer names the folder of the server.
func TestNoPortfolioInFolder(t *testing.T) {
	t.Chdir(t.TempDir())
	here, err := os.Getwd()
	must.Succeed(t, err)
	c := newCaller(t, newServer(t, newBox(t), &Options{Portfolio: portfolio.NewDesk(".", nil)}))
	for tool, in := range map[string]args{"check_exit_signals": {"ticker": "SLV"},
		"suggest_tax_loss_harvest": {}} {
		for _, format := range brief.Formats() {
			in["format"] = format
			a := c.call(tool, in)
			for _, want := range []string{"no portfolio.yaml in this folder", here, "--portfolio",
				"SIGNALBOX_PORTFOLIO"} {
				if a.Status != brief.StatusError || !strings.Contains(a.text, want) {
					t.Errorf("%s as %s: does not say %q: %s", tool, format, want, a.text)
				}
			}
		}
	}
	in := args{"ticker": "SLV", "output": "file"} // and the file is a resource
	if a := c.call("check_exit_signals", in); a.FilePath == nil {
		t.Errorf("no file: %s", a.text)
	}
}

// TestPortfolioSnapshotKeys compares the snapshots of failed and successful calls.
func TestPortfolioSnapshotKeys(t *testing.T) {
	c := newCaller(t, newServer(t, newBox(t), &Options{Portfolio: smallDesk(t)}))
	for tool, in := range map[string]args{"check_exit_signals": {"ticker": "SLV"},
		"suggest_tax_loss_harvest": {}} {
		in["as_of"], in["format"] = "2026-01-02", "agent"
		good := c.ok(tool, in)
		in["as_of"] = "yesterday"
		bad := c.fails(tool, "invalid_arguments", in)
		want := slices.Sorted(maps.Keys(good.Snapshot))
		if tool == "suggest_tax_loss_harvest" { // others are left out if they are zero or empty
			want = []string{"candidate_count", "data_coverage_pct", "disclaimer", "error_hint",
				"error_kind", "long_term_loss", "positions_analyzed", "positions_with_lots",
				"short_term_loss", "status", "top_candidates", "total_harvestable_loss", "verdict",
				"wash_sale_ticker_count", "wash_sale_tickers"}
		}
		if diff := cmp.Diff(want, slices.Sorted(maps.Keys(bad.Snapshot))); diff != "" {
			t.Errorf("%s: keys (-success +invalid arguments):\n%s", tool, diff)
		}
	}
}

// Each portfolio tool accepts the other's name for the account argument.
func TestPortfolioAccountNames(t *testing.T) {
	d := &desk{answer: portfolio.Answer{JSON: json.RawMessage(`{"status":"success"}`),
		Status: brief.StatusSuccess}}
	c := newCaller(t, newServer(t, newBox(t), &Options{Portfolio: d}))
	c.call("check_exit_signals", args{"ticker": "SLV", "account": "brk"})
	c.call("suggest_tax_loss_harvest", args{"account_id": "ira"})
	if d.exits.AccountID != "brk" || d.harvest.Account != "ira" {
		t.Errorf("asked %+v and %+v", d.exits, d.harvest)
	}
	c.fails("check_exit_signals", "invalid_arguments",
		args{"ticker": "SLV", "account": "brk", "account_id": "ira"})
	if a := c.fails("suggest_tax_loss_harvest", "invalid_arguments",
		args{"acount": "brk"}); !strings.Contains(a.string("verdict"), `did you mean "account"?`) {
		t.Errorf("a name with a mistake: %s", a.text)
	}
}

func TestLongAnswersAreSentOnce(t *testing.T) {
	long := strings.Repeat("x", maxText)
	verdicts := map[string]string{
		`{"status":"success","verdict":"Take two losses","more":"` + long +
			`"}`: "Take two losses. ",
		`{"status":"success","format":"report","report":"# Losses\n\n**Take three**\n\n` + long +
			`","file_path":null}`: "Take three. ",
		`{"status":"success","candidate_count":0,"metadata":{"positions_analyzed":7},"disclaimer":"` + long + `","file_path":null}`: "No tax-loss harvesting candidates found (7 positions analyzed). ",
		`{"status":"error","error":"too many rows","error_kind":"not_computable","error_hint":"` +
			long + `","total_harvestable_loss":0}`: "Tax harvest analysis failed: too many rows. ",
	}
	for text, want := range verdicts {
		told := portfolio.Answer{JSON: json.RawMessage(text), Status: brief.StatusSuccess}
		if strings.Contains(text, `"status":"error"`) {
			told.Status = brief.StatusError
		}
		c := newCaller(t, newServer(t, newBox(t), &Options{Portfolio: &desk{answer: told}}))
		a := c.call("suggest_tax_loss_harvest", nil)
		if !strings.HasPrefix(a.text, want) || len(a.text) > 1000 || a.structured < maxText ||
			len(a.links) != 1 {
			t.Fatalf("%.60s: %d bytes of text, %d of structured content, %d links: %.300s", text,
				len(a.text), a.structured, len(a.links), a.text)
		}
		read, err := c.session.ReadResource(t.Context(),
			&mcp.ReadResourceParams{URI: a.links[0].URI})
		if err != nil || read.Contents[0].Text != text {
			t.Errorf("the file does not have the answer: %v", err)
		}
		// If the file cannot be written the text is complete, because some clients show only the
		// text.
		c = newCaller(t, newServer(t, t.TempDir()+"/nothing",
			&Options{Portfolio: &desk{answer: told}}))
		if a := c.call("suggest_tax_loss_harvest", nil); a.text != text {
			t.Errorf("without a box: %.300s", a.text)
		}
	}
}

// desk is a portfolio that records its queries and returns fixed answers.
type desk struct {
	exits    portfolio.ExitQuery
	harvest  portfolio.HarvestQuery
	gains    portfolio.GainsQuery
	simulate portfolio.SimulateQuery
	check    portfolio.ReconcileQuery
	answer   portfolio.Answer
}

func (d *desk) ReconcilePositions(_ context.Context, q portfolio.ReconcileQuery) portfolio.Answer {
	d.check = q
	return d.answer
}

func (d *desk) CheckExitSignals(_ context.Context, q portfolio.ExitQuery) portfolio.Answer {
	d.exits = q
	return d.answer
}

func (d *desk) SuggestTaxLossHarvest(_ context.Context, q portfolio.HarvestQuery) portfolio.Answer {
	d.harvest = q
	return d.answer
}

func (d *desk) RealizedGains(_ context.Context, q portfolio.GainsQuery) portfolio.Answer {
	d.gains = q
	return d.answer
}

func (d *desk) SimulateSale(_ context.Context, q portfolio.SimulateQuery) portfolio.Answer {
	d.simulate = q
	return d.answer
}

// TestSimulateSale calls the tool with and without a portfolio, and with every argument.
func TestSimulateSale(t *testing.T) {
	newCaller(t, newServer(t, newBox(t), nil)).fails("simulate_sale", "no_portfolio",
		args{"ticker": "SLV"})
	d := &desk{answer: portfolio.Answer{JSON: json.RawMessage(`{"status":"success"}`),
		Status: brief.StatusSuccess}}
	c := newCaller(t, newServer(t, newBox(t), &Options{Portfolio: d}))
	c.call("simulate_sale", args{"ticker": "SLV", "shares": 5, "cash": 100.5, "account": "brk",
		"lots": []string{"a", "b"}, "method": "hifo", "price": 20.25, "as_of": "2026-01-02",
		"format": "full", "output": "file"})
	if diff := cmp.Diff(portfolio.SimulateQuery{Ticker: "SLV", Shares: "5", Cash: "100.5",
		AccountID: "brk", Lots: []string{"a", "b"}, Method: "hifo", Price: "20.25",
		AsOf: "2026-01-02", Format: "full", Output: "file"}, d.simulate); diff != "" {
		t.Errorf("query (-want +got):\n%s", diff)
	}
	c = newCaller(t, newServer(t, newBox(t), &Options{Portfolio: smallDesk(t)}))
	good := c.ok("simulate_sale", args{"ticker": "SLV", "as_of": "2026-01-02"})
	bad := c.fails("simulate_sale", "invalid_arguments", args{"ticker": "SLV", "method": "best"})
	if diff := cmp.Diff(slices.Sorted(maps.Keys(good.Snapshot)),
		slices.Sorted(maps.Keys(bad.Snapshot))); diff != "" {
		t.Errorf("keys (-success +invalid arguments):\n%s", diff)
	}
}

// TestRealizedGains calls the tool with and without a portfolio, in every format.
func TestRealizedGains(t *testing.T) {
	newCaller(t, newServer(t, newBox(t), nil)).fails("realized_gains", "no_portfolio", nil)
	d := &desk{answer: portfolio.Answer{JSON: json.RawMessage(`{"status":"success"}`),
		Status: brief.StatusSuccess}}
	c := newCaller(t, newServer(t, newBox(t), &Options{Portfolio: d}))
	c.call("realized_gains", nil)
	byDefault := d.gains
	c.call("realized_gains", args{"year": 2025, "format": "full", "output": "file"})
	if diff := cmp.Diff([]portfolio.GainsQuery{{Format: "agent", Output: "inline"},
		{Year: "2025", Format: "full", Output: "file"}},
		[]portfolio.GainsQuery{byDefault, d.gains}); diff != "" {
		t.Errorf("queries (-want +got):\n%s", diff)
	}
	c = newCaller(t, newServer(t, newBox(t), &Options{Portfolio: smallDesk(t)}))
	good := c.ok("realized_gains", args{"year": 2025})
	if verdict := good.string("verdict"); verdict != "2025: no sales in taxable accounts" {
		t.Errorf("verdict %q", verdict)
	}
	for _, year := range []any{"next", 1800, 2025.5} {
		bad := c.fails("realized_gains", "invalid_arguments", args{"year": year})
		if diff := cmp.Diff(slices.Sorted(maps.Keys(good.Snapshot)),
			slices.Sorted(maps.Keys(bad.Snapshot))); diff != "" {
			t.Errorf("keys (-success +invalid arguments):\n%s", diff)
		}
	}
	c.fails("realized_gains", "bad_argument", args{"year": 9999})
	for _, format := range brief.Formats() {
		for _, output := range brief.Outputs() {
			a := c.ok("realized_gains", args{"year": 2025, "format": format, "output": output})
			if (a.FilePath != nil) != (output == brief.OutputFile) {
				t.Errorf("%s %s: path %v", format, output, a.FilePath)
			}
		}
	}
}

// TestReconcilePositions calls the tool with and without a list of positions.
func TestReconcilePositions(t *testing.T) {
	d := &desk{answer: portfolio.Answer{JSON: json.RawMessage(`{"status":"success"}`),
		Status: brief.StatusSuccess}}
	c := newCaller(t, newServer(t, newBox(t), &Options{Portfolio: d}))
	c.call("reconcile_positions", args{"format": "full", "output": "file"})
	if want := (portfolio.ReconcileQuery{Format: "full", Output: "file"}); d.check != want {
		t.Errorf("asked %+v", d.check)
	}
	c = newCaller(t, newServer(t, newBox(t), &Options{Portfolio: smallDesk(t)}))
	without := c.fails("reconcile_positions", "bad_argument", nil)
	bad := c.fails("reconcile_positions", "invalid_arguments", args{"account": "brk"})
	if diff := cmp.Diff(slices.Sorted(maps.Keys(without.Snapshot)),
		slices.Sorted(maps.Keys(bad.Snapshot))); diff != "" {
		t.Errorf("keys:\n%s", diff)
	}
	for _, format := range brief.Formats() {
		if a := c.call("reconcile_positions", args{"format": format}); a.Status != brief.StatusError {
			t.Errorf("%s: %s", format, a.text)
		}
	}
}

func TestPortfolioArguments(t *testing.T) {
	d := &desk{answer: portfolio.Answer{JSON: json.RawMessage(`{"status":"success"}`),
		Status: brief.StatusSuccess}}
	c := newCaller(t, newServer(t, newBox(t), &Options{Portfolio: d}))
	c.call("check_exit_signals", args{"ticker": "SLV"})
	c.call("suggest_tax_loss_harvest", nil)
	if diff := cmp.Diff([]any{portfolio.ExitQuery{Ticker: "SLV", Format: "agent", Output: "inline"},
		portfolio.HarvestQuery{SortBy: "loss_amount", Format: "agent", Output: "inline"}},
		[]any{d.exits, d.harvest}); diff != "" {
		t.Errorf("defaults (-want +got):\n%s", diff)
	}
	c.call("check_exit_signals",
		json.RawMessage(`{"ticker":"SLV","shares":123456789012.3456789,"account_id":"brk","as_of":"2026-01-31","format":"full","output":"file"}`))
	c.call("suggest_tax_loss_harvest",
		json.RawMessage(`{"min_loss":0.10,"sort_by":"days_held","include_wash_sale_check":false,"account":"a","source":"s","as_of":"2026-01-31","format":"report","output":"file"}`))
	want := []any{
		portfolio.ExitQuery{Ticker: "SLV", Shares: "123456789012.3456789", AccountID: "brk",
			AsOf: "2026-01-31", Format: "full", Output: "file"},
		portfolio.HarvestQuery{MinLoss: "0.10", SortBy: "days_held", SkipWashCheck: true,
			Account: "a", Source: "s", AsOf: "2026-01-31", Format: "report", Output: "file"},
	}
	if diff := cmp.Diff(want, []any{d.exits, d.harvest}); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// smallDesk returns a portfolio with one position.
func smallDesk(t *testing.T) *portfolio.Desk {
	t.Helper()
	dir := t.TempDir()
	for name, text := range map[string]string{
		"portfolio.yaml": "accounts:\n  - {id: brk, kind: taxable, owner: self, lot_method: fifo}\nfiling_status: single\n" +
			"exit_rules:\n  SLV: {primary: momentum_exit, rules: {momentum_exit: {lookback: 3}}, sizing: {min: 0.50, max: 0.75, gap_pp: 5}}\n",
		"transactions/t.csv": "date,account,action,ticker,quantity,price,fees,currency,lot_id\n2025-01-02,brk,buy,SLV,100,30,0,USD,\n",
		"prices/p.csv": "date,ticker,close,adjusted,currency\n2025-08-29,SLV,30,30,USD\n2025-09-30,SLV,31,31,USD\n2025-10-31,SLV,32,32,USD\n2025-11-28,SLV,33,33,USD\n" +
			"2025-12-31,SLV,20,20,USD\n2026-01-02,SLV,20,20,USD\n",
	} {
		path := filepath.Join(dir, name)
		must.Succeed(t, os.MkdirAll(filepath.Dir(path), 0o700))
		must.Succeed(t, os.WriteFile(path, []byte(text), 0o600))
	}
	return portfolio.NewDesk(dir, &portfolio.Options{Logs: filepath.Join(t.TempDir(), "logs")})
}

// TestPortfolioFormats queries a real portfolio in every format, for existing and missing
// positions.
func TestPortfolioFormats(t *testing.T) {
	c := newCaller(t, newServer(t, newBox(t), &Options{Portfolio: smallDesk(t)}))
	for _, format := range brief.Formats() {
		for _, output := range brief.Outputs() {
			for tool, in := range map[string]args{"check_exit_signals": {"ticker": "SLV"},
				"suggest_tax_loss_harvest": {}} {
				in["as_of"], in["format"], in["output"] = "2026-01-02", format, output
				a := c.ok(tool, in)
				if (a.FilePath != nil) != (output == brief.OutputFile) {
					t.Errorf("%s %s %s: path %v", tool, format, output, a.FilePath)
				}
				if a.FilePath != nil {
					if _, err := c.session.ReadResource(t.Context(),
						&mcp.ReadResourceParams{URI: a.links[0].URI}); err != nil {
						t.Errorf("%s: %v", tool, err)
					}
				}
			}
		}
		if a := c.call("check_exit_signals", args{"ticker": "NOPE", "as_of": "2026-01-02",
			"format": format}); a.Status != brief.StatusError {
			t.Errorf("unknown ticker as %s: %s", format, a.text)
		}
	}
}

// TestErrorsNameTheTicker calls with wrong arguments: the answer names the ticker that was given,
// and options are tickers too.
func TestErrorsNameTheTicker(t *testing.T) {
	c := newCaller(t, newServer(t, newBox(t), &Options{Portfolio: smallDesk(t)}))
	for _, in := range []args{
		{"ticker": "SLV", "shares": -1}, {"ticker": "SLV", "format": "short"},
		{"ticker": "SLV", "colour": "red"}, {"ticker": "SLV", "as_of": "soon"},
		{"ticker": "SLV", "shares": "many"},
	} {
		if a := c.call("check_exit_signals", in); !strings.Contains(a.text,
			"Exit signal check failed for SLV: ") {
			t.Errorf("%v: %s", in, a.text)
		}
	}
	if a := c.call("check_exit_signals",
		args{"ticker": "AAPL  260116C00150000"}); !strings.Contains(a.text,
		"AAPL260116C00150000 is not in the portfolio") {
		t.Error(a.text)
	}
}
