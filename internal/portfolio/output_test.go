package portfolio

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"signalbox/brief"
	"signalbox/internal/testkit/must"
)

// askBoth asks both tools with output file.
func askBoth(d *Desk, format string) map[string]Answer {
	return map[string]Answer{
		"exit_signals": d.CheckExitSignals(context.Background(),
			ExitQuery{Ticker: "SLV", Format: format, Output: "file"}),
		"tax_harvest": d.SuggestTaxLossHarvest(context.Background(),
			HarvestQuery{Format: format, Output: "file"}),
	}
}

// TestFileOutput checks that the file has the full result, and that every format has its path.
func TestFileOutput(t *testing.T) {
	d := desk(t, folder(t, plain))
	names := map[string]*regexp.Regexp{
		"exit_signals": regexp.MustCompile(`^exit_signals_SLV_20260701_120000-[0-9a-f]{8}\.json$`),
		"tax_harvest":  regexp.MustCompile(`^tax_harvest_20260701_120000-[0-9a-f]{8}\.json$`),
	}
	full := map[string]Answer{
		"exit_signals": d.CheckExitSignals(context.Background(),
			ExitQuery{Ticker: "SLV", Format: "full"}),
		"tax_harvest": d.SuggestTaxLossHarvest(context.Background(), HarvestQuery{Format: "full"}),
	}
	if _, err := os.Stat(d.opts.Logs); err == nil {
		t.Fatal("files were written that were not requested")
	}
	seen := make(map[string]bool)
	for _, format := range brief.Formats() {
		for tool, response := range askBoth(d, string(format)) {
			path := response.FilePath
			if o := decode(t, response.JSON); o["file_path"] != path || o["status"] != "success" ||
				response.Problem != nil {
				t.Errorf("%s of %s has the path %v, want %q: %s", format, tool, o["file_path"],
					path, response.JSON)
			}
			if !filepath.IsAbs(path) || filepath.Dir(path) != filepath.Join(d.opts.Logs, tool) ||
				!names[tool].MatchString(filepath.Base(path)) || seen[path] {
				t.Errorf("%s of %s is in %s", format, tool, path)
			}
			seen[path] = true
			text, err := os.ReadFile(path)
			must.Succeed(t, err)
			want := decode(t, full[tool].JSON)
			delete(want, "flags") // which follow from the result
			if diff := cmp.Diff(want, decode(t, text)); diff != "" {
				t.Errorf("%s: full result -, file +\n%s", tool, diff)
			}
			info, err := os.Stat(path)
			must.Succeed(t, err)
			if runtime.GOOS != "windows" && info.Mode().Perm() != 0o600 {
				t.Errorf("%s has mode %o", path, info.Mode().Perm())
			}
		}
	}
	if got := len(files(t, d.opts.Logs)); got != 2*len(brief.Formats()) {
		t.Errorf("%d files", got)
	}
}

// TestFileOfAFailure checks that failures are saved too, and that no question can write outside the
// folder.
func TestFileOfAFailure(t *testing.T) {
	d := desk(t, folder(t, plain))
	for _, ticker := range []string{"../../x", "GLD", "", strings.Repeat("A", 500), "a/b"} {
		response := d.CheckExitSignals(context.Background(),
			ExitQuery{Ticker: ticker, Output: "file"})
		a := agent(t, response)
		if a.Status != "error" || a.FilePath == nil ||
			filepath.Dir(*a.FilePath) != filepath.Join(d.opts.Logs, "exit_signals") {
			t.Errorf("%q: %s", ticker, response.JSON)
		}
	}
	for _, name := range files(t, d.opts.Logs) {
		if !regexp.MustCompile(
			`^exit_signals/exit_signals(_GLD)?_20260701_120000-[0-9a-f]{8}\.json$`).MatchString(
			name) {
			t.Errorf("a file is called %s", name)
		}
	}
}

// TestFileNotSaved checks the answer if the full result cannot be saved: the result and its status
// are as without a file, and a flag says what happened.
func TestFileNotSaved(t *testing.T) {
	dir := folder(t, plain)
	blocked := filepath.Join(t.TempDir(), "logs")
	put(t, blocked, "a file where the folder should be")
	d := NewDesk(dir, &Options{Logs: blocked, Now: noon})
	for _, format := range brief.Formats() {
		for tool, response := range askBoth(d, string(format)) {
			o := decode(t, response.JSON)
			path, there := o["file_path"]
			if o["status"] != "success" || response.Status != brief.StatusSuccess || !there ||
				path != nil || response.FilePath != "" {
				t.Errorf("%s of %s: %s", format, tool, response.JSON)
			}
			if response.Problem == nil || response.Problem.Kind != FileNotSaved ||
				goText.MatchString(response.Problem.Text) {
				t.Errorf("%s of %s: problem %+v", format, tool, response.Problem)
			}
			var flags struct{ Flags []brief.Flag }
			must.Succeed(t, json.Unmarshal(response.JSON, &flags))
			if i := slices.IndexFunc(flags.Flags,
				func(f brief.Flag) bool { return f.Flag == FileNotSaved }); i != 0 {
				t.Errorf("%s of %s has the flags %v", format, tool, flags.Flags)
			} else if text := flags.Flags[0].Message; strings.Contains(text, blocked) ||
				goText.MatchString(text) {
				t.Errorf("%s of %s: the flag says %q", format, tool, text)
			}
		}
	}
	harvest := agent(t, d.SuggestTaxLossHarvest(context.Background(),
		HarvestQuery{Format: "agent", Output: "file"}))
	if harvest.Snapshot["total_harvestable_loss"] != -100.0 {
		t.Errorf("the snapshot lost its figures: %v", harvest.Snapshot)
	}
}

// crowd is a portfolio of 400 tickers and 2,700 lots, one of each ticker bought a few days ago, and
// with ids of the maximum length.
func crowd(t *testing.T) string {
	var trades, prices strings.Builder
	trades.WriteString(header)
	prices.WriteString("date,ticker,close\n")
	id := strings.Repeat(`<""é\u0000&>`, 6)
	for i := range 400 {
		older := 5
		if i < 300 {
			older++
		}
		for n := range older {
			fmt.Fprintf(&trades, "2025-0%d-10,brk,buy,T%04d,10,20,,,\"%s %d\"\n", n+1, i, id, n)
		}
		fmt.Fprintf(&trades, "2026-06-20,brk,buy,T%04d,5,9,,,\"%s new\"\n", i, id)
		fmt.Fprintf(&prices, "2026-06-30,T%04d,10\n", i)
	}
	var rules strings.Builder
	for i := range 300 {
		fmt.Fprintf(&rules, "      %s%d: {}\n", strings.Repeat("rule", 60), i)
	}
	return folder(t, "-- portfolio.yaml --\naccounts: [{id: brk}]\nexit_rules:\n  T0000:\n    primary: "+strings.Repeat("rule", 60)+"7\n    rules:\n"+
		rules.String()+"-- transactions/a.csv --\n"+trades.String()+"-- prices/a.csv --\n"+
		prices.String())
}

// TestCrowd checks that an answer in the format agent is short for a large portfolio, and that the
// full result is complete.
func TestCrowd(t *testing.T) {
	dir := crowd(t)
	logs := t.TempDir()
	for range 4 { // the path, which is part of the answer, is nearly as long as possible
		logs = filepath.Join(logs, strings.Repeat("long-", 36))
	}
	must.Succeed(t, os.MkdirAll(logs, 0o700))
	d := NewDesk(dir, &Options{Logs: logs, Now: noon})
	harvest := askHarvest(t, d, HarvestQuery{})
	long := askHarvest(t, d, HarvestQuery{Output: "file"})
	if harvest.Status != "success" || harvest.Snapshot["candidate_count"] != 2300.0 ||
		harvest.Snapshot["wash_sale_ticker_count"] != 400.0 {
		t.Errorf("%s, %v", harvest.Status, harvest.Snapshot)
	}
	wantEqual(t, harvest.Snapshot, long.Snapshot)
	exits := askExits(t, d, ExitQuery{Ticker: "t0000", Output: "file"})
	if exits.Status != "success" || exits.Snapshot["shares"] != 65.0 ||
		!slices.Contains(exits.names(), "error primary_rule_error") {
		t.Errorf("%s, %v", exits.Status, exits.Snapshot)
	}
	for name, a := range map[string]Answer{
		"simulate": d.SimulateSale(t.Context(), SimulateQuery{Ticker: "T0000", Output: "file"}),
		"gains":    d.RealizedGains(t.Context(), GainsQuery{Year: "2025", Output: "file"}),
	} {
		if len(a.JSON) > brief.MaxAgentBytes || a.Status != brief.StatusSuccess {
			t.Errorf("%s: %d bytes: %s", name, len(a.JSON), a.JSON)
		}
	}
	if harvest.FilePath != nil || long.FilePath == nil || exits.FilePath == nil {
		t.Errorf("paths %v, %v, %v", harvest.FilePath, long.FilePath, exits.FilePath)
	}
	response := d.SuggestTaxLossHarvest(context.Background(),
		HarvestQuery{Format: "full", Output: "file"})
	for _, text := range [][]byte{response.JSON, read(t, response.FilePath)} {
		var full struct {
			Candidates []struct {
				LotID string `json:"lot_id"`
			} `json:"candidates"`
			Total float64 `json:"total_harvestable_loss"`
		}
		must.Succeed(t, json.Unmarshal(text, &full))
		// Of the shares of each ticker, five would be washed: 2,300 lots at a loss of 100 each, less
		// 400 × 50.
		if len(full.Candidates) != 2300 || full.Total != -210_000 ||
			!strings.HasPrefix(full.Candidates[0].LotID, `<"é\u0000&>`) {
			t.Errorf("%d candidates, total %v", len(full.Candidates), full.Total)
		}
	}
	if list, err := d.Lots(context.Background(), LotsQuery{AsOf: ""}); err != nil ||
		len(list) != 2700 {
		t.Errorf("%d lots, %v", len(list), err)
	}
}

func read(t testing.TB, name string) []byte {
	t.Helper()
	text, err := os.ReadFile(name)
	must.Succeed(t, err)
	return text
}

// TestConcurrentQuestions asks two desks for the same folder concurrently: all answers are equal,
// and each has its own file.
func TestConcurrentQuestions(t *testing.T) {
	dir, logs := folder(t, plain), filepath.Join(t.TempDir(), "logs")
	opts := &Options{Logs: logs, Now: noon}
	desks := []*Desk{NewDesk(dir, opts), NewDesk(dir, opts)}
	const askers = 8
	paths := make([][]string, askers)
	var group sync.WaitGroup
	for i := range askers {
		group.Go(func() {
			for range 5 {
				for _, response := range askBoth(desks[i%2], "agent") {
					if response.Status != brief.StatusSuccess {
						t.Errorf("%s", response.JSON)
					}
					paths[i] = append(paths[i], response.FilePath)
				}
				if list, err := desks[i%2].Lots(context.Background(),
					LotsQuery{AsOf: ""}); err != nil || len(list) != 1 {
					t.Errorf("%d lots, %v", len(list), err)
				}
			}
		})
	}
	group.Wait()
	all := slices.Concat(paths...)
	slices.Sort(all)
	if unique := slices.Compact(slices.Clone(all)); len(all) != askers*5*2 ||
		len(unique) != len(all) || len(files(t, logs)) != len(all) {
		t.Errorf("%d answers, %d paths, %d files", len(all), len(unique), len(files(t, logs)))
	}
}

// TestCancelledQuestion checks that a cancelled question is not computed.
func TestCancelledQuestion(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	d := desk(t, folder(t, plain))
	if r := d.Harvest(ctx, HarvestQuery{}); r.Status != "error" || r.ErrorKind != NotComputable {
		t.Errorf("%+v", r)
	}
	if _, err := d.Lots(ctx, LotsQuery{AsOf: ""}); err == nil {
		t.Error("lots were listed")
	}
}
