package api

import (
	"encoding/json"
	"net/http"
	"testing"

	"github.com/google/go-cmp/cmp"

	"signalbox/brief"
	"signalbox/internal/portfolio"
	"signalbox/internal/serve/access"
	"signalbox/internal/testkit/must"
)

// TestPortfolioOperations compares the answers with those of the commands.
func TestPortfolioOperations(t *testing.T) {
	w := newWorld(t, false)
	read := w.tokens[access.Read]
	decode := func(data []byte) (value any) {
		t.Helper()
		if err := json.Unmarshal(data, &value); err != nil {
			t.Fatalf("%v in %s", err, data)
		}
		return value
	}
	lots, err := w.desk.Lots(t.Context(), portfolio.LotsQuery{Ticker: "SLV"})
	must.Succeed(t, err)
	listed, err := json.Marshal(map[string]any{"items": lots})
	must.Succeed(t, err)
	full := string(brief.FormatFull)
	for path, want := range map[string][]byte{
		"/portfolio/harvest": w.desk.SuggestTaxLossHarvest(t.Context(),
			portfolio.HarvestQuery{Format: full}).JSON,
		"/portfolio/harvest?min_loss=200&sort_by=days_held&account=brk&source=signalbox&as_of=2026-06-30&no_wash_sale_check=true": w.desk.SuggestTaxLossHarvest(t.Context(),
			portfolio.HarvestQuery{MinLoss: "200", SortBy: "days_held", Account: "brk",
				Source: "signalbox", AsOf: "2026-06-30", SkipWashCheck: true, Format: full}).JSON,
		"/portfolio/exits/slv": w.desk.CheckExitSignals(t.Context(),
			portfolio.ExitQuery{Ticker: "SLV", Format: full}).JSON,
		"/portfolio/exits/VOO?account=brk&shares=3&as_of=2026-06-30": w.desk.CheckExitSignals(
			t.Context(), portfolio.ExitQuery{Ticker: "VOO", AccountID: "brk", Shares: "3",
				AsOf: "2026-06-30", Format: full}).JSON,
		"/portfolio/lots?ticker=SLV": listed,
	} {
		status, got := w.request(http.MethodGet, Prefix+path, read, nil)
		expected := decode(want)
		if tool, ok := expected.(map[string]any); ok {
			delete(tool, "flags") // which only the tools add to the result
		}
		if diff := cmp.Diff(expected, decode(got)); status != http.StatusOK || diff != "" {
			t.Errorf("%s: %d, command -, API +\n%s", path, status, diff)
		}
	}
	for path, want := range map[string]int{"/portfolio/harvest?min_loss=x": 400,
		"/portfolio/harvest?sort=x": 400, "/portfolio/harvest?account=x": 404,
		"/portfolio/exits/XYZ": 404,
		"/portfolio/exits/VOO": 422, "/portfolio/lots?as_of=2030-01-01": 422} {
		if status, body := w.request(http.MethodGet, Prefix+path, read, nil); status != want {
			t.Errorf("%s: %d %s, want %d", path, status, body, want)
		}
	}
	w.desk = portfolio.NewDesk(t.TempDir(), nil)
	for _, path := range []string{"/portfolio/harvest", "/portfolio/exits/SLV", "/portfolio/lots"} {
		if status, body := w.request(http.MethodGet, Prefix+path, read,
			nil); status != http.StatusNotFound {
			t.Errorf("%s without a portfolio: %d %s", path, status, body)
		}
	}
}
