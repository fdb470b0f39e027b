package answer_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/govalues/decimal"

	"signalbox/brief"
	"signalbox/internal/portfolio/answer"
	"signalbox/internal/testkit/must"
)

// amount parses a number, and panics if it is malformed.
func amount(text string) answer.Amount { return answer.Amount{Decimal: decimal.MustParse(text)} }

func number(f float64) *brief.Number {
	n := brief.Number(f)
	return &n
}

// flagged returns the flags by name.
func flagged(flags []brief.Flag) map[string]brief.Flag {
	byName := map[string]brief.Flag{}
	for _, flag := range flags {
		byName[flag.Flag] = flag
	}
	return byName
}

func exitFlags(r answer.ExitResult) []brief.Flag { return answer.FlagsExit(answer.SnapshotExit(r)) }

func harvestFlags(r answer.HarvestResult) []brief.Flag {
	return answer.FlagsHarvest(answer.SnapshotHarvest(r))
}

// wantFlag checks that there is a flag with a severity and a message.
func wantFlag(t *testing.T, flags []brief.Flag, name string, severity brief.Severity,
	message string) {
	t.Helper()
	wantEqual(t, brief.Flag{Flag: name, Severity: severity, Message: message}, flagged(flags)[name])
}

// wantOnly checks that there is only this flag.
func wantOnly(t *testing.T, flags []brief.Flag, name string, severity brief.Severity,
	message string) {
	t.Helper()
	wantEqual(t, []brief.Flag{{Flag: name, Severity: severity, Message: message}}, flags)
}

// wantNoFlag checks that none of the flags is there.
func wantNoFlag(t *testing.T, flags []brief.Flag, names ...string) {
	t.Helper()
	for _, flag := range flags {
		if slices.Contains(names, flag.Flag) {
			t.Errorf("flag %+v", flag)
		}
	}
}

// wantNames checks that there are exactly these flags in this order.
func wantNames(t *testing.T, flags []brief.Flag, want ...string) {
	t.Helper()
	var got []string
	for _, flag := range flags {
		got = append(got, flag.Flag)
	}
	wantEqual(t, want, got)
}

// object is a decoded answer.
func object(t *testing.T, data []byte, err error) map[string]any {
	t.Helper()
	must.Succeed(t, err)
	var fields map[string]any
	if err := json.Unmarshal(data, &fields); err != nil {
		t.Fatalf("%v: %s", err, data)
	}
	return fields
}

// keys returns the keys of a value in JSON, sorted.
func keys(t *testing.T, value any) []string {
	t.Helper()
	data, err := json.Marshal(value)
	var names []string
	for name := range object(t, data, err) {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// saveIn returns a function that saves files in a folder.
func saveIn(dir string) brief.Saver {
	return func(name string, data []byte) (string, error) {
		path := filepath.Join(dir, name)
		return path, os.WriteFile(path, data, 0o600)
	}
}

// wantFile checks that the answer names a file with the full result.
func wantFile(t *testing.T, fields map[string]any, dir string, result any) {
	t.Helper()
	path, _ := fields["file_path"].(string)
	if filepath.Dir(path) != dir {
		t.Fatalf("file_path is %v, want a file in %s", fields["file_path"], dir)
	}
	data, err := os.ReadFile(path)
	got := object(t, data, err)
	full, err := json.Marshal(result)
	wantEqual(t, object(t, full, err), got)
	if !strings.Contains(string(data), "\n  \"status\"") {
		t.Errorf("the file is not indented: %.80s", data)
	}
}

// wantEqual reports how got differs from want.
func wantEqual(t testing.TB, want, got any, opts ...cmp.Option) {
	t.Helper()
	if diff := cmp.Diff(want, got, opts...); diff != "" {
		t.Errorf("want -, got +\n%s", diff)
	}
}

// sorted compares lists of names in any order.
func sorted() cmp.Option {
	return cmp.Transformer("sorted", func(list []string) []string {
		list = slices.Clone(list)
		slices.Sort(list)
		return list
	})
}
