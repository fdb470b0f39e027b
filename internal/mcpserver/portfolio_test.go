package mcpserver

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"signalbox/brief"
	"signalbox/internal/portfolio"
)

func TestNoPortfolio(t *testing.T) {
	c := newCaller(t, newServer(t, newBox(t), nil))
	for tool, in := range map[string]args{"check_exit_signals": {"ticker": "SLV"}, "suggest_tax_loss_harvest": {}} {
		if a := c.fails(tool, "no_portfolio", in); !strings.Contains(a.text, "signalbox portfolio init") {
			t.Errorf("%s: does not say how to get one: %s", tool, a.text)
		}
	}
}

// desk notes what it is asked and answers with what it is told.
type desk struct {
	exits   portfolio.ExitQuery
	harvest portfolio.HarvestQuery
	answer  portfolio.Answer
}

func (d *desk) CheckExitSignals(_ context.Context, q portfolio.ExitQuery) portfolio.Answer {
	d.exits = q
	return d.answer
}

func (d *desk) SuggestTaxLossHarvest(_ context.Context, q portfolio.HarvestQuery) portfolio.Answer {
	d.harvest = q
	return d.answer
}

func TestPortfolioArguments(t *testing.T) {
	d := &desk{answer: portfolio.Answer{JSON: json.RawMessage(`{"status":"success"}`), Status: brief.StatusSuccess}}
	c := newCaller(t, newServer(t, newBox(t), &Options{Portfolio: d}))
	c.call("check_exit_signals", args{"ticker": "SLV"})
	c.call("suggest_tax_loss_harvest", nil)
	if diff := cmp.Diff([]any{portfolio.ExitQuery{Ticker: "SLV", Format: "agent", Output: "inline"}, portfolio.HarvestQuery{SortBy: "loss_amount", Format: "summary", Output: "inline"}}, []any{d.exits, d.harvest}); diff != "" {
		t.Errorf("defaults (-want +got):\n%s", diff)
	}
	c.call("check_exit_signals", json.RawMessage(`{"ticker":"SLV","shares":123456789012.3456789,"account_id":"brk","as_of":"2026-01-31","format":"full","output":"file"}`))
	c.call("suggest_tax_loss_harvest", json.RawMessage(`{"min_loss":0.10,"sort_by":"days_held","include_wash_sale_check":false,"account":"a","source":"s","as_of":"2026-01-31","format":"report","output":"file"}`))
	want := []any{
		portfolio.ExitQuery{Ticker: "SLV", Shares: "123456789012.3456789", AccountID: "brk", AsOf: "2026-01-31", Format: "full", Output: "file"},
		portfolio.HarvestQuery{MinLoss: "0.10", SortBy: "days_held", SkipWashCheck: true, Account: "a", Source: "s", AsOf: "2026-01-31", Format: "report", Output: "file"},
	}
	if diff := cmp.Diff(want, []any{d.exits, d.harvest}); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestPortfolioFormats asks a real desk, in every format, for things that are there and things that are not.
func TestPortfolioFormats(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{
		"portfolio.yaml": "accounts:\n  - {id: brk, kind: taxable, owner: self, lot_method: fifo}\nfiling_status: single\n" +
			"exit_rules:\n  SLV: {primary: momentum_exit, rules: {momentum_exit: {lookback: 3}}, sizing: {min: 0.50, max: 0.75, gap_pp: 5}}\n",
		"transactions/t.csv": "date,account,action,ticker,quantity,price,fees,currency,lot_id\n2025-01-02,brk,buy,SLV,100,30,0,USD,\n",
		"prices/p.csv": "date,ticker,close,adjusted,currency\n2025-08-29,SLV,30,30,USD\n2025-09-30,SLV,31,31,USD\n2025-10-31,SLV,32,32,USD\n2025-11-28,SLV,33,33,USD\n" +
			"2025-12-31,SLV,20,20,USD\n2026-01-02,SLV,20,20,USD\n",
	} {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	d := portfolio.NewDesk(dir, &portfolio.Options{Logs: filepath.Join(t.TempDir(), "logs")})
	c := newCaller(t, newServer(t, newBox(t), &Options{Portfolio: d}))
	for _, format := range brief.Formats() {
		for _, output := range brief.Outputs() {
			for tool, in := range map[string]args{"check_exit_signals": {"ticker": "SLV"}, "suggest_tax_loss_harvest": {}} {
				in["as_of"], in["format"], in["output"] = "2026-01-02", format, output
				a := c.ok(tool, in)
				if (a.FilePath != nil) != (output == brief.OutputFile) {
					t.Errorf("%s %s %s: path %v", tool, format, output, a.FilePath)
				}
				if a.FilePath != nil {
					if _, err := c.session.ReadResource(t.Context(), &mcp.ReadResourceParams{URI: a.links[0].URI}); err != nil {
						t.Errorf("%s: %v", tool, err)
					}
				}
			}
		}
		if a := c.call("check_exit_signals", args{"ticker": "NOPE", "as_of": "2026-01-02", "format": format}); a.Status != brief.StatusError {
			t.Errorf("unknown ticker as %s: %s", format, a.text)
		}
	}
}
