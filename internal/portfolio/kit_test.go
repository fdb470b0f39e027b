package portfolio

import (
	"context"
	"encoding/json"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/txtar"

	"signalbox/brief"
	"signalbox/internal/testkit/must"
)

// noon returns the time of all questions.
func noon() time.Time { return time.Date(2026, 7, 1, 12, 0, 0, 0, time.UTC) }

// The first line of a file of transactions, with and without the columns that only some actions
// need.
const (
	header     = "date,account,action,ticker,quantity,price,fees,currency,lot_id\n"
	longHeader = "date,account,action,ticker,quantity,price,fees,currency,lot_id,to_account,ratio,donor_basis,donor_date,value\n"
)

// plain is a portfolio with one lot at a loss of 100 dollars and exit rules that hold.
const plain = `
-- portfolio.yaml --
accounts:
  - {id: brk}
  - {id: ira, kind: ira}
exit_rules:
  SLV: {rules: {momentum_exit: {lookback: 3}}, stop: {price: 7.5}}
-- transactions/brk.csv --
` + header + `2025-01-10,brk,buy,SLV,10,20,,,
-- prices/2026.csv --
date,ticker,close
2026-01-30,SLV,10
2026-02-27,SLV,10
2026-03-31,SLV,10
2026-04-30,SLV,10
2026-05-29,SLV,10
2026-06-30,SLV,10
`

// folder writes a portfolio. Later archives replace and add files.
func folder(t testing.TB, archives ...string) string {
	t.Helper()
	dir := t.TempDir()
	for _, archive := range archives {
		for _, f := range txtar.Parse([]byte(archive)).Files {
			put(t, filepath.Join(dir, f.Name), string(f.Data))
		}
	}
	return dir
}

func put(t testing.TB, name, text string) {
	t.Helper()
	must.Succeed(t, os.MkdirAll(filepath.Dir(name), 0o700))
	must.Succeed(t, os.WriteFile(name, []byte(text), 0o600))
}

// desk returns a desk for a folder on the day of the tests. Full results are saved in a temporary
// folder that does not exist yet.
func desk(t testing.TB, dir string) *Desk {
	t.Helper()
	return NewDesk(dir, &Options{Logs: filepath.Join(t.TempDir(), "logs"), Now: noon})
}

// object is a decoded JSON object.
type object = map[string]any

func decode(t testing.TB, text []byte) object {
	t.Helper()
	var o object
	if err := json.Unmarshal(text, &o); err != nil {
		t.Fatalf("%v in %s", err, text)
	}
	return o
}

// agentAnswer is an answer in the format agent.
type agentAnswer struct {
	Status   string
	Snapshot object
	Flags    []brief.Flag
	FilePath *string
}

// agent decodes an answer in the format agent, and checks its keys, its length and the order of its
// flags.
func agent(t testing.TB, response Answer) agentAnswer {
	t.Helper()
	if len(response.JSON) > brief.MaxAgentBytes {
		t.Errorf("the answer has %d bytes: %s", len(response.JSON), response.JSON)
	}
	if keys := slices.Sorted(maps.Keys(decode(t, response.JSON))); !slices.Equal(keys,
		[]string{"file_path", "flags", "format", "snapshot", "status"}) {
		t.Errorf("the answer has the keys %v", keys)
	}
	var a struct {
		Status   string       `json:"status"`
		Format   string       `json:"format"`
		Snapshot object       `json:"snapshot"`
		Flags    []brief.Flag `json:"flags"`
		FilePath *string      `json:"file_path"`
	}
	must.Succeed(t, json.Unmarshal(response.JSON, &a))
	if a.Status != string(response.Status) || a.Format != string(brief.FormatAgent) ||
		a.Flags == nil {
		t.Errorf("status %s, want %s, or another form: %s", a.Status, response.Status,
			response.JSON)
	}
	wantEqual(t, brief.Sort(a.Flags), a.Flags)
	return agentAnswer{a.Status, a.Snapshot, a.Flags, a.FilePath}
}

// names returns the names of the flags with their severities.
func (a agentAnswer) names() []string {
	names := make([]string, len(a.Flags))
	for i, f := range a.Flags {
		names[i] = string(f.Severity) + " " + f.Flag
	}
	return names
}

func (a agentAnswer) message(flag string) string {
	for _, f := range a.Flags {
		if f.Flag == flag {
			return f.Message
		}
	}
	return ""
}

func (a agentAnswer) verdict() string { return fmt.Sprint(a.Snapshot["verdict"]) }

func askHarvest(t testing.TB, d *Desk, q HarvestQuery) agentAnswer {
	t.Helper()
	q.Format = string(brief.FormatAgent)
	return agent(t, d.SuggestTaxLossHarvest(context.Background(), q))
}

func askExits(t testing.TB, d *Desk, q ExitQuery) agentAnswer {
	t.Helper()
	q.Format = string(brief.FormatAgent)
	return agent(t, d.CheckExitSignals(context.Background(), q))
}

// lots returns the open lots as lines: account, ticker, date, start of the holding period, shares,
// basis, adjustment.
func lots(t testing.TB, d *Desk, asOf string) []string {
	t.Helper()
	list, err := d.Lots(context.Background(), LotsQuery{AsOf: asOf})
	must.Succeed(t, err)
	lines := make([]string, len(list))
	for i, l := range list {
		lines[i] = fmt.Sprintf("%s %s %s %s %s %s %s", l.Account, l.Ticker, l.LotDate,
			l.HoldingStart, l.Quantity, l.BasisTotal, l.BasisAdjustment)
	}
	return lines
}

func wantLines(t testing.TB, got []string, want string) {
	t.Helper()
	wantEqual(t, strings.Split(strings.TrimSpace(want), "\n"), got)
}

// files returns the names of the files below a folder.
func files(t testing.TB, dir string) []string {
	t.Helper()
	var names []string
	err := filepath.WalkDir(dir, func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		short, err := filepath.Rel(dir, name)
		names = append(names, filepath.ToSlash(short))
		return err
	})
	must.Succeed(t, err)
	return names
}

// wantEqual reports how got differs from want.
func wantEqual(t testing.TB, want, got any, opts ...cmp.Option) {
	t.Helper()
	if diff := cmp.Diff(want, got, opts...); diff != "" {
		t.Errorf("want -, got +\n%s", diff)
	}
}

// replaced returns a text in which names are replaced by texts.
func replaced(text string, pairs ...string) string {
	return strings.NewReplacer(pairs...).Replace(text)
}
