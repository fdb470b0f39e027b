package toolbox

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"signalbox/brief"
	"signalbox/internal/oracle/chunk"
	"signalbox/internal/oracle/prompt"
	"signalbox/internal/portfolio"
	"signalbox/internal/serve/mcpserver"
	"signalbox/internal/testkit/must"
)

// TestPortfolioSameAsMCP compares the definitions of the portfolio tools with those of the MCP
// server.
func TestPortfolioSameAsMCP(t *testing.T) {
	server, err := mcpserver.New(func() (string, error) { return t.TempDir(), nil }, nil)
	must.Succeed(t, err)
	defer server.Close()
	in, say := io.Pipe()
	hear, out := io.Pipe()
	ended := make(chan error, 1)
	go func() { ended <- server.ServeStdio(t.Context(), in, out) }()
	go fmt.Fprintln(say, `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"test","version":"1"}}}
{"jsonrpc":"2.0","method":"notifications/initialized"}
{"jsonrpc":"2.0","id":2,"method":"tools/list"}`)
	type described struct {
		Name        string         `json:"name"`
		Description string         `json:"description"`
		Schema      map[string]any `json:"inputSchema"`
	}
	there := map[string]described{}
	for lines := bufio.NewReader(hear); len(there) == 0; {
		line, err := lines.ReadBytes('\n')
		must.Succeed(t, err)
		var answer struct{ Result struct{ Tools []described } }
		must.Succeed(t, json.Unmarshal(line, &answer))
		for _, tool := range answer.Result.Tools {
			there[tool.Name] = tool
		}
	}
	say.Close()
	go io.Copy(io.Discard, hear)
	if err := <-ended; err != nil {
		t.Error(err)
	}
	for _, tool := range []Tool{CheckExitSignals(nil), SuggestTaxLossHarvest(nil)} {
		here := described{Name: tool.Name, Description: tool.Description}
		must.Succeed(t, json.Unmarshal(tool.Schema, &here.Schema))
		want := there[tool.Name]
		properties, _ := want.Schema["properties"].(map[string]any)
		if properties["format"] == nil || properties["output"] == nil {
			t.Errorf("%s has no format or no output any more", tool.Name)
		}
		maps.DeleteFunc(properties,
			func(name string, _ any) bool { return name == "format" || name == "output" })
		if diff := cmp.Diff(want, here); diff != "" {
			t.Errorf("%s (-MCP +here):\n%s", tool.Name, diff)
		}
		if tool.Kind != prompt.PortfolioTool || !tool.ReadOnly {
			t.Errorf("%s is of kind %s, read only: %v", tool.Name, tool.Kind, tool.ReadOnly)
		}
	}
}

// asked is a portfolio that records its queries.
type asked struct {
	exits   portfolio.ExitQuery
	harvest portfolio.HarvestQuery
	answer  portfolio.Answer
}

func (a *asked) CheckExitSignals(_ context.Context, q portfolio.ExitQuery) portfolio.Answer {
	a.exits = q
	return a.answer
}

func (a *asked) SuggestTaxLossHarvest(_ context.Context,
	q portfolio.HarvestQuery) portfolio.Answer {
	a.harvest = q
	return a.answer
}

func TestPortfolioQuestions(t *testing.T) {
	desk := &asked{answer: portfolio.Answer{JSON: json.RawMessage(`{"status":"success"}`),
		Status: brief.StatusSuccess}}
	out := Run(t.Context(), CheckExitSignals(desk),
		Call{Arguments: json.RawMessage(
			`{"ticker":"SLV","shares":12.3400,"account_id":"brk","as_of":"2026-01-02"}`)})
	want := Outcome{OK: true, Text: `{"status":"success"}`,
		Sources: []chunk.Source{{Type: "portfolio", Path: "portfolio.yaml",
			Title: "exit signals of SLV"}}}
	if diff := cmp.Diff(want, out); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(portfolio.ExitQuery{Ticker: "SLV", Shares: "12.3400", AccountID: "brk",
		AsOf: "2026-01-02", Format: "agent"}, desk.exits); diff != "" {
		t.Errorf("(-want +asked):\n%s", diff)
	}
	ok(t, SuggestTaxLossHarvest(desk), args{})
	if diff := cmp.Diff(portfolio.HarvestQuery{Format: "agent"}, desk.harvest); diff != "" {
		t.Errorf("(-want +asked):\n%s", diff)
	}
	ok(t, SuggestTaxLossHarvest(desk), args{"min_loss": 100, "sort_by": "days_held",
		"include_wash_sale_check": false, "account": "ira", "source": "ofx", "as_of": "2026-01-02"})
	if diff := cmp.Diff(portfolio.HarvestQuery{MinLoss: "100", SortBy: "days_held",
		SkipWashCheck: true, Account: "ira", Source: "ofx", AsOf: "2026-01-02", Format: "agent"},
		desk.harvest); diff != "" {
		t.Errorf("(-want +asked):\n%s", diff)
	}
	fails(t, CheckExitSignals(desk), args{"ticker": "SLV", "account": "brk"},
		`unknown argument "account", did you mean "account_id"?`)
	fails(t, SuggestTaxLossHarvest(desk), args{"sort_by": "name"},
		`argument "sort_by" is not valid: enum`, `"enum":["loss_amount","loss_pct","days_held"]`)
}

func TestPortfolioDesk(t *testing.T) {
	dir := folderOf(t, `
-- portfolio.yaml --
accounts:
  - {id: brk}
-- transactions/brk.csv --
date,account,action,ticker,quantity,price,fees,currency,lot_id
2025-01-10,brk,buy,SLV,10,20,,,
-- prices/2026.csv --
date,ticker,close
2026-06-30,SLV,10
`)
	noon := func() time.Time { return time.Date(2026, 7, 1, 12, 0, 0, 0, time.UTC) }
	desk := portfolio.NewDesk(dir, &portfolio.Options{Now: noon})
	text := ok(t, SuggestTaxLossHarvest(desk), args{})
	has(t, text, `"format":"agent"`, `"snapshot":{`)
	if len(text) > brief.MaxAgentBytes {
		t.Errorf("%d bytes", len(text))
	}
	failure := fails(t, CheckExitSignals(desk), args{"ticker": "SLV"}, `"status":"error"`,
		"no_exit_rules")
	if !json.Valid([]byte(failure)) || strings.Contains(failure, "panic") {
		t.Error(failure)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := SuggestTaxLossHarvest(desk).Use(ctx,
		Call{Arguments: json.RawMessage(`{}`)}); err != context.Canceled {
		t.Errorf("a question that is withdrawn: %v", err)
	}
}
