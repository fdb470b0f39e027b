package brief_test

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"signalbox/brief"
	"signalbox/internal/testkit/property"
)

// fitted is the answer as JSON, after checks that hold for every answer.
func fitted(t interface {
	Helper()
	Fatalf(string, ...any)
}, in brief.Answer) string {
	t.Helper()
	out, again := brief.Fit(in), brief.Fit(in)
	data, err := json.Marshal(out)
	if err != nil {
		t.Fatalf("no JSON: %v", err)
	}
	if len(data) > brief.MaxAgentBytes {
		t.Fatalf("%d bytes: %s", len(data), data)
	}
	if plain, err := brief.Encode(out); err != nil || len(plain) > brief.MaxAgentBytes {
		t.Fatalf("%d bytes without escapes, %v", len(plain), err)
	}
	if second, err := json.Marshal(again); err != nil || string(second) != string(data) {
		t.Fatalf("shortened differently (%v):\n%s\n%s", err, data, second)
	}
	if out.Flags == nil {
		t.Fatalf("flags are null")
	}
	return string(data)
}

func TestFitLeavesShortAnswersAlone(t *testing.T) {
	in := brief.Answer{Status: brief.StatusSuccess, Format: brief.FormatAgent,
		Snapshot: map[string]any{"verdict": strings.Repeat("x", 3900)}, Flags: []brief.Flag{}}
	if diff := cmp.Diff(in, brief.Fit(in)); diff != "" {
		t.Errorf("(-in +out):\n%s", diff)
	}
}

func TestFitCutsTexts(t *testing.T) {
	long := strings.Repeat("é", 5000)
	got := fitted(t, brief.Answer{
		Status: brief.StatusError, Format: brief.FormatAgent, Snapshot: sight{"error", long},
		Flags: []brief.Flag{{Flag: "signal_error", Severity: brief.Error, Message: long}},
	})
	cut := strings.Repeat("é", 499) + "…"
	want := `{"status":"error","format":"agent","snapshot":{"status":"error","verdict":"` + cut +
		`"},"flags":[{"flag":"signal_error","severity":"error","message":"` + cut +
		`"}],"file_path":null}`
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestFitSaysWhenEntriesAreLeftOut(t *testing.T) {
	type snapshot struct {
		Verdict string `json:"verdict"`
		List    []int  `json:"list"`
		After   string `json:"after"`
	}
	list := make([]int, 5000)
	for i := range list {
		list[i] = i
	}
	got := fitted(t, brief.Answer{Status: brief.StatusSuccess, Format: brief.FormatAgent,
		Snapshot: snapshot{"v", list, "a"},
		Flags:    []brief.Flag{{Flag: "ok", Severity: brief.Success}}})
	numbers := strings.Trim(strings.ReplaceAll(fmt.Sprint(list[:100]), " ", ","), "[]")
	want := `{"status":"success","format":"agent","snapshot":{"verdict":"v","list":[` + numbers +
		`],"after":"a"},"flags":[` +
		`{"flag":"brief_shortened","severity":"info","message":"Entries were left out to keep this answer short — the full format has them"},` +
		`{"flag":"ok","severity":"success","message":""}],"file_path":null}`
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestFitKeepsTheGravestFlags(t *testing.T) {
	flags := []brief.Flag{{Flag: "late", Severity: brief.Error, Message: "m"}}
	for i := range 500 {
		flags = append([]brief.Flag{{Flag: fmt.Sprint("w", i), Severity: brief.Warning,
			Message: "m"}}, flags...)
	}
	got := fitted(t, brief.Answer{Status: brief.StatusSuccess, Format: brief.FormatAgent,
		Snapshot: map[string]any{}, Flags: flags})
	if !strings.Contains(got,
		`"flags":[{"flag":"late","severity":"error","message":"m"},{"flag":"w499"`) ||
		!strings.Contains(got, "brief_shortened") {
		t.Errorf("got %s", got)
	}
}

// TestFitKeepsAFlagWhereNoListStays has a snapshot that fits only without any entry of its lists.
func TestFitKeepsAFlagWhereNoListStays(t *testing.T) {
	wide := map[string]string{}
	for i := range 25 {
		wide[fmt.Sprint("key", i)] = strings.Repeat("x", 100)
	}
	snapshot := map[string]any{}
	for i := range 10 {
		snapshot[fmt.Sprint("list", i)] = []any{wide}
	}
	got := fitted(t, brief.Answer{Status: brief.StatusSuccess, Format: brief.FormatAgent,
		Snapshot: snapshot, Flags: []brief.Flag{{Flag: "grave", Severity: brief.Error,
			Message: "m"}}})
	if !strings.Contains(got,
		`"list9":[]},"flags":[{"flag":"grave","severity":"error","message":"m"},{"flag":"brief_shortened"`) {
		t.Errorf("got %s", got)
	}
}

func TestFitDropsNumbersThatAreNone(t *testing.T) {
	got := fitted(t, brief.Answer{Status: brief.StatusSuccess, Format: brief.FormatAgent,
		Snapshot: json.RawMessage(`{"verdict":"v","n":` + strings.Repeat("9", 9000) +
			`,"pi":3.14}`)})
	if !strings.Contains(got, `"snapshot":{"verdict":"v","n":null,"pi":3.14}`) ||
		!strings.Contains(got, "brief_shortened") {
		t.Errorf("got %s", got)
	}
}

// TestFitHasNoWayRound tries what the limits of texts and lists alone do not hold.
func TestFitHasNoWayRound(t *testing.T) {
	big := strings.Repeat("<", 10000)
	nested := any("x")
	for range 5000 {
		nested = map[string]any{"k": nested}
	}
	manyKeys := map[string]any{}
	for i := range 5000 {
		manyKeys[fmt.Sprint("key", i)] = i
	}
	path, fair := "/"+strings.Repeat("p", 5000), "/"+strings.Repeat("p", 1800)
	for name, in := range map[string]brief.Answer{
		"depth":         {Snapshot: nested},
		"keys":          {Snapshot: manyKeys},
		"a long key":    {Snapshot: map[string]any{big: 1}},
		"a long number": {Snapshot: json.Number(strings.Repeat("9", 9000))},
		"status":        {Status: brief.Status(big), Snapshot: 1},
		"format":        {Format: brief.Format(big), Snapshot: 1},
		"a flag's name": {Snapshot: 1, Flags: []brief.Flag{{Flag: big, Severity: brief.Error}}},
		"a severity": {Snapshot: 1,
			Flags: []brief.Flag{{Flag: "f", Severity: brief.Severity(big)}}},
		"a long path": {Snapshot: 1, FilePath: &path},
		"NaN":         {Snapshot: math.NaN()},
		"a function":  {Snapshot: func() {}},
		"controls": {Snapshot: strings.Repeat("\x01", 5000),
			Flags: []brief.Flag{{Flag: "f", Severity: brief.Info,
				Message: strings.Repeat("\x01", 5000)}}},
		"not UTF-8":      {Snapshot: strings.Repeat("\xff", 5000)},
		"path and texts": {Snapshot: sight{big, big}, FilePath: &fair},
		"nothing":        {},
	} {
		t.Run(name, func(t *testing.T) {
			got := fitted(t, in)
			if in.FilePath == &fair && !strings.Contains(got, fair) {
				t.Errorf("the path was cut: %s", got)
			}
			if in.FilePath == &path && (!strings.Contains(got, `"file_path":null`) ||
				!strings.Contains(got, "file_path_too_long")) {
				t.Errorf("got %s", got)
			}
			if strings.Contains(got, "NaN") {
				t.Errorf("got %s", got)
			}
		})
	}
}

func TestFitFailsWhatHasNoJSON(t *testing.T) {
	out := brief.Fit(brief.Answer{Status: brief.StatusSuccess, Format: brief.FormatAgent,
		Snapshot: map[string]any{"x": math.Inf(1)}})
	if out.Status != brief.StatusError || len(out.Flags) != 1 ||
		out.Flags[0].Flag != "answer_not_writable" || out.Flags[0].Severity != brief.Error {
		t.Errorf("got %+v", out)
	}
}

func TestFitProperties(t *testing.T) {
	var value func(depth int) *rapid.Generator[any]
	text := rapid.OneOf(rapid.String(),
		rapid.Map(rapid.IntRange(0, 5000), func(n int) string { return strings.Repeat("a<", n) }))
	value = func(depth int) *rapid.Generator[any] {
		leaves := []*rapid.Generator[any]{text.AsAny(), rapid.Float64().AsAny(),
			rapid.Bool().AsAny(), rapid.Just[any](nil)}
		if depth == 0 {
			return rapid.OneOf(leaves...)
		}
		inner := rapid.Deferred(func() *rapid.Generator[any] { return value(depth - 1) })
		return rapid.OneOf(append(leaves, rapid.SliceOfN(inner, 0, 30).AsAny(),
			rapid.MapOfN(rapid.String(), inner, 0, 30).AsAny())...)
	}
	flag := rapid.Custom(func(t *rapid.T) brief.Flag {
		return brief.Flag{
			Flag: rapid.StringMatching("[a-z_]{1,30}").Draw(t, "flag"),
			Severity: rapid.SampledFrom([]brief.Severity{"error", "warning", "info",
				"success"}).Draw(t, "severity"),
			Message: text.Draw(t, "message"),
		}
	})
	property.Check(t, func(t *rapid.T) {
		in := brief.Answer{
			Status: brief.StatusSuccess, Format: brief.FormatAgent,
			Snapshot: value(3).Draw(t, "snapshot"), Flags: rapid.SliceOfN(flag, 0, 20).Draw(t,
				"flags"),
		}
		got := fitted(t, in)
		var out brief.Answer
		if err := json.Unmarshal([]byte(got), &out); err != nil {
			t.Fatalf("%v: %s", err, got)
		}
		gravest := brief.Sort(in.Flags)
		if len(gravest) > 0 &&
			(gravest[0].Severity == brief.Error || gravest[0].Severity == brief.Warning) &&
			out.Flags[0].Flag != gravest[0].Flag {
			t.Fatalf("the gravest flag %q is gone: %s", gravest[0].Flag, got)
		}
	})
}

func FuzzFit(f *testing.F) {
	f.Add([]byte(`{"verdict":"v","list":[1,2,{"a":null}]}`), "message", "/path")
	f.Add([]byte(`["`+strings.Repeat("x", 5000)+`"]`), strings.Repeat("é", 5000), "")
	f.Add([]byte(strings.Repeat("[", 3000)+strings.Repeat("]", 3000)), "", "p")
	f.Add([]byte(`{"a":`+strings.Repeat("9", 5000)+`}`), "m", "p")
	f.Add([]byte(`not JSON`), "m", "p")
	f.Fuzz(func(t *testing.T, snapshot []byte, message, path string) {
		in := brief.Answer{Status: brief.StatusSuccess, Format: brief.FormatAgent,
			Snapshot: json.RawMessage(snapshot), FilePath: &path,
			Flags: []brief.Flag{{Flag: "f", Severity: brief.Warning, Message: message}}}
		got := fitted(t, in)
		if !json.Valid([]byte(got)) {
			t.Errorf("not JSON: %s", got)
		}
		if json.Valid(snapshot) != (brief.Fit(in).Status == brief.StatusSuccess) {
			t.Errorf("status %s for the snapshot %q", brief.Fit(in).Status, snapshot)
		}
	})
}

// TestFitKeepsFlags: lists of the snapshot are shortened before a flag is dropped.
func TestFitKeepsFlags(t *testing.T) {
	var flags []brief.Flag
	for i := range 10 {
		flags = append(flags, brief.Flag{Flag: fmt.Sprint("flag", i), Severity: brief.Warning,
			Message: strings.Repeat("m", 150)})
	}
	list := slices.Repeat([]string{strings.Repeat("e", 240)}, 9)
	out := brief.Fit(brief.Answer{Status: brief.StatusSuccess, Format: brief.FormatAgent,
		Snapshot: map[string]any{"list": list}, Flags: flags})
	text := string(out.Snapshot.(json.RawMessage))
	if kept := strings.Count(text, "eee\""); len(out.Flags) != 11 || kept < 2 || kept > 5 {
		t.Errorf("%d flags, %d entries", len(out.Flags), kept)
	}
}
