package example_test

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"signalbox"
	"signalbox/brief"
	"signalbox/internal/portfolio"
	"signalbox/internal/portfolio/example"

	"github.com/google/go-cmp/cmp"

	"signalbox/internal/testkit/must"
)

// fresh writes the example to a new folder.
func fresh(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	if _, err := example.Write(dir); err != nil {
		t.Fatal(err)
	}
	return dir
}

func desk(dir string) *portfolio.Desk {
	return portfolio.NewDesk(dir, &portfolio.Options{Logs: filepath.Join(dir, "logs"),
		Now: func() time.Time { return time.Date(2026, 7, 1, 12, 0, 0, 0, time.UTC) }})
}

// told is an answer in the format agent.
type told struct {
	Status   string
	Snapshot struct {
		Verdict            string
		RecommendedActions []struct {
			Action   string
			Quantity json.Number
		} `json:"recommended_actions"`
	}
	Flags []brief.Flag
}

func read(t *testing.T, answer portfolio.Answer) told {
	t.Helper()
	const most = 4096
	if len(answer.JSON) > most {
		t.Errorf("the answer has %d bytes, more than %d", len(answer.JSON), most)
	}
	var a told
	must.Succeed(t, json.Unmarshal(answer.JSON, &a))
	return a
}

func (a told) has(flag, severity string) bool {
	return slices.ContainsFunc(a.Flags,
		func(f brief.Flag) bool { return f.Flag == flag && string(f.Severity) == severity })
}

func readme(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile("portfolio/README.md")
	must.Succeed(t, err)
	return string(text)
}

// TestRecipes follows the recipe in the README for each flag, on a fresh copy.
func TestRecipes(t *testing.T) {
	for _, r := range readRecipes(t, readme(t)) {
		t.Run(r.name(), func(t *testing.T) {
			t.Parallel()
			dir := fresh(t)
			if before := read(t, r.ask(t, desk(dir), dir)); len(r.changes) > 0 &&
				before.has(r.flag, r.severity) {
				t.Fatalf("README.md:%d: %s is there without the change", r.line, r.flag)
			}
			must.Succeed(t, os.RemoveAll(filepath.Join(dir, "logs")))
			for _, c := range r.changes {
				if err := c.make(dir); err != nil {
					t.Fatalf("README.md:%d: %v", r.line, err)
				}
			}
			after := read(t, r.ask(t, desk(dir), dir))
			if !after.has(r.flag, r.severity) {
				t.Errorf("README.md:%d: there is no %s (%s) in %q\nverdict: %s", r.line, r.flag,
					r.severity, after.Flags, after.Snapshot.Verdict)
			}
		})
	}
}

func TestLots(t *testing.T) {
	lots, err := desk(fresh(t)).Lots(t.Context(), portfolio.LotsQuery{AsOf: ""})
	must.Succeed(t, err)
	if n := len(lots); n < 75 || n > 85 {
		t.Errorf("%d open lots, expected 75 to 85", n)
	}
	accounts, tickers := make(map[string]bool), make(map[string]bool)
	for _, lot := range lots {
		accounts[lot.Account], tickers[lot.Ticker] = true, true
	}
	for _, id := range []string{"brk", "joint", "ira", "roth"} {
		if !accounts[id] {
			t.Errorf("account %s has no lots", id)
		}
	}
	if n := len(tickers); n < 14 || n > 16 {
		t.Errorf("%d tickers, expected about 15", n)
	}
}

// TestVerdicts checks the verdicts that the README and the documentation quote.
func TestVerdicts(t *testing.T) {
	d := desk(fresh(t))
	harvest := read(t, d.SuggestTaxLossHarvest(t.Context(),
		portfolio.HarvestQuery{Format: "agent"}))
	const losses = "$9,756 harvestable losses across 39 lots (19% long-term), 100% data coverage, wash sale risk on 5 tickers"
	if diff := cmp.Diff(losses, harvest.Snapshot.Verdict); diff != "" {
		t.Errorf("harvest (-want +got):\n%s", diff)
	}
	for ticker, want := range map[string]string{
		"SLV":  "SLV: STRONG EXIT — all 2 rules triggered; momentum_exit: -11.00% in 2026-06, mean before +0.00%, gap -11.00 pp — sell 273 of 365 shares",
		"INTC": "INTC: EXIT — momentum_exit: -15.85% in 2026-06, mean before +3.81%, gap -19.67 pp — sell 52 of 105 shares",
		"TLT":  "TLT: MONITOR — only regime_check triggered; momentum_exit: +0.71% in 2026-06, mean before -0.61%, gap +1.32 pp",
		"GLD":  "GLD: HOLD — momentum_exit: +1.21% in 2026-06, mean before -0.56%, gap +1.77 pp",
	} {
		got := read(t, d.CheckExitSignals(t.Context(),
			portfolio.ExitQuery{Ticker: ticker, Format: "agent"}))
		if diff := cmp.Diff(want, got.Snapshot.Verdict); diff != "" {
			t.Errorf("%s (-want +got):\n%s", ticker, diff)
		}
		if ticker != "SLV" {
			continue
		}
		var actions []string
		for _, a := range got.Snapshot.RecommendedActions {
			actions = append(actions, a.Action+" "+a.Quantity.String())
		}
		if diff := cmp.Diff([]string{"SELL 273", "PLACE_STOP 92"}, actions); diff != "" {
			t.Errorf("SLV's actions (-want +got):\n%s", diff)
		}
	}
}

// contents returns the files below a folder by name.
func contents(t *testing.T, dir string) map[string]string {
	t.Helper()
	files := make(map[string]string)
	err := fs.WalkDir(os.DirFS(dir), ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		data, err := os.ReadFile(filepath.Join(dir, filepath.FromSlash(name)))
		files[name] = string(data)
		return err
	})
	must.Succeed(t, err)
	return files
}

// TestCopies checks that the two copies of the example are equal.
func TestCopies(t *testing.T) {
	want := contents(t, "portfolio")
	if len(want) < 10 {
		t.Fatalf("only %d files in portfolio", len(want))
	}
	if diff := cmp.Diff(want, contents(t, fresh(t))); diff != "" {
		t.Errorf("Write (-portfolio +written):\n%s", diff)
	}
	if diff := cmp.Diff(want, contents(t, "../../../examples/portfolio")); diff != "" {
		t.Errorf("examples/portfolio is not the same: copy internal/portfolio/example/portfolio there (-here +there):\n%s", diff)
	}
}

func TestWriteRefusesWhatIsThere(t *testing.T) {
	for name := range contents(t, "portfolio") {
		dir := t.TempDir()
		file := filepath.Join(dir, filepath.FromSlash(name))
		must.Succeed(t, os.MkdirAll(filepath.Dir(file), 0o700))
		must.Succeed(t, os.WriteFile(file, []byte("mine"), 0o600))
		_, err := example.Write(dir)
		if classed, ok := errors.AsType[*signalbox.Error](err); !ok ||
			classed.Code != signalbox.CodeConflict {
			t.Errorf("%s: error %v, expected a conflict", name, err)
		}
		if diff := cmp.Diff(map[string]string{name: "mine"}, contents(t, dir)); diff != "" {
			t.Errorf("the folder has changed (-want +got):\n%s", diff)
		}
	}
}

// TestPricesAreHandSized keeps the example readable.
func TestPricesAreHandSized(t *testing.T) {
	lines := 0
	for name, text := range contents(t, "portfolio/prices") {
		if filepath.Ext(name) != ".csv" {
			t.Errorf("prices/%s is no CSV", name)
		}
		for _, r := range text {
			if r == '\n' {
				lines++
			}
		}
	}
	if lines == 0 || lines > 1500 {
		t.Errorf("%d lines of prices, expected at most 1500", lines)
	}
}
