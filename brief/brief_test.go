package brief_test

import (
	"encoding/json"
	"errors"
	"io/fs"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"signalbox/brief"
	"signalbox/internal/testkit/must"
	"signalbox/internal/testkit/property"
)

func TestSort(t *testing.T) {
	in := []brief.Flag{
		{Flag: "a", Severity: brief.Success}, {Flag: "b", Severity: "odd"},
		{Flag: "c", Severity: brief.Info},
		{Flag: "d", Severity: brief.Error}, {Flag: "e", Severity: brief.Warning},
		{Flag: "f", Severity: brief.Error},
		{Flag: "g", Severity: ""},
	}
	before := slices.Clone(in)
	var got strings.Builder
	for _, flag := range brief.Sort(in) {
		got.WriteString(flag.Flag)
	}
	if got.String() != "dfebcga" {
		t.Errorf("sorted to %s, want dfebcga", got.String())
	}
	if diff := cmp.Diff(before, in); diff != "" {
		t.Errorf("the argument changed (-before +after):\n%s", diff)
	}
	if brief.Sort(nil) == nil {
		t.Error("no flags are nil, which is null in JSON")
	}
}

func TestSortProperties(t *testing.T) {
	flag := rapid.Custom(func(t *rapid.T) brief.Flag {
		return brief.Flag{
			Flag: rapid.StringMatching("[a-z]{1,3}").Draw(t, "flag"),
			Severity: brief.Severity(rapid.SampledFrom([]string{"error", "warning", "info",
				"success", "odd"}).Draw(t, "severity")),
		}
	})
	rank := map[brief.Severity]int{"error": 0, "warning": 1, "info": 2, "odd": 2, "success": 3}
	property.Check(t, func(t *rapid.T) {
		flags := rapid.SliceOfN(flag, 0, 20).Draw(t, "flags")
		sorted := brief.Sort(flags)
		var want []brief.Flag
		for r := range 4 {
			for _, f := range flags {
				if rank[f.Severity] == r {
					want = append(want, f)
				}
			}
		}
		if !slices.Equal(want, sorted) {
			t.Fatalf("got %v, want %v", sorted, want)
		}
	})
}

func TestParseNames(t *testing.T) {
	for _, format := range brief.Formats() {
		if got, err := brief.ParseFormat(string(format)); got != format || err != nil {
			t.Errorf("format %s: %s, %v", format, got, err)
		}
	}
	for _, output := range brief.Outputs() {
		if got, err := brief.ParseOutput(string(output)); got != output || err != nil {
			t.Errorf("output %s: %s, %v", output, got, err)
		}
	}
	_, err := brief.ParseFormat("Agent")
	if want := `unknown format "Agent": use agent, summary, full, report`; err == nil ||
		err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
	_, err = brief.ParseOutput("")
	if want := `unknown output "": use inline, file`; err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
}

// animal, its snapshot and its flags stand for a tool.
type animal struct {
	Name   string       `json:"name"`
	Weight brief.Number `json:"weight"`
	Secret string       `json:"secret"`
}

type sight struct {
	Status  string `json:"status"`
	Verdict string `json:"verdict"`
}

func zoo() brief.Tool[animal, sight] {
	return brief.Tool[animal, sight]{
		Snapshot: func(a animal) sight {
			if a.Name == "" {
				return sight{"gone", "no animal"}
			}
			return sight{"success", "a " + a.Name}
		},
		Flags: func(s sight) []brief.Flag {
			return []brief.Flag{{Flag: "seen", Severity: brief.Success, Message: s.Verdict},
				{Flag: "loud", Severity: brief.Info, Message: "loud"}}
		},
		Status:  func(s sight) brief.Status { return brief.StatusOf(s.Status) },
		Summary: func(a animal) any { a.Secret = ""; return a },
		Report:  func(a animal) string { return "# " + a.Name },
	}
}

func TestAnswerInEveryFormat(t *testing.T) {
	lost := brief.Saved{Err: errors.New("no room")}
	const lostFlag = `{"flag":"file_not_saved","severity":"error","message":"The full result could not be saved: no room"}`
	const cowFlags = `,"flags":[{"flag":"loud","severity":"info","message":"loud"},{"flag":"seen","severity":"success","message":"a cow"}]`
	for _, tt := range []struct {
		name   string
		in     animal
		format brief.Format
		saved  brief.Saved
		want   string
	}{
		{"agent", animal{Name: "cow"}, brief.FormatAgent, brief.Saved{},
			`{"status":"success","format":"agent","snapshot":{"status":"success","verdict":"a cow"},"flags":[{"flag":"loud","severity":"info","message":"loud"},{"flag":"seen","severity":"success","message":"a cow"}],"file_path":null}`},
		{"agent with a file", animal{Name: "cow"}, brief.FormatAgent,
			brief.Saved{Path: "/z/f.json"},
			`{"status":"success","format":"agent","snapshot":{"status":"success","verdict":"a cow"},"flags":[{"flag":"loud","severity":"info","message":"loud"},{"flag":"seen","severity":"success","message":"a cow"}],"file_path":"/z/f.json"}`},
		{"agent without the file", animal{Name: "cow"}, brief.FormatAgent, lost,
			`{"status":"success","format":"agent","snapshot":{"status":"success","verdict":"a cow"},"flags":[` + lostFlag + `,{"flag":"loud","severity":"info","message":"loud"},{"flag":"seen","severity":"success","message":"a cow"}],"file_path":null}`},
		{"agent without a required file", animal{Name: "cow"}, brief.FormatAgent,
			brief.Saved{Err: lost.Err, Required: true},
			`{"status":"error","format":"agent","snapshot":{"status":"success","verdict":"a cow"},"flags":[` + lostFlag + `,{"flag":"loud","severity":"info","message":"loud"},{"flag":"seen","severity":"success","message":"a cow"}],"file_path":null}`},
		{"agent, failed", animal{}, brief.FormatAgent, brief.Saved{},
			`{"status":"error","format":"agent","snapshot":{"status":"gone","verdict":"no animal"},"flags":[{"flag":"loud","severity":"info","message":"loud"},{"flag":"seen","severity":"success","message":"no animal"}],"file_path":null}`},
		{"summary", animal{Name: "cow", Secret: "s"}, brief.FormatSummary, brief.Saved{},
			`{"name":"cow","weight":0,"secret":""` + cowFlags + `}`},
		{"summary with a file", animal{Name: "cow", Secret: "s"}, brief.FormatSummary,
			brief.Saved{Path: "/f"}, `{"name":"cow","weight":0,"secret":"","file_path":"/f"` + cowFlags + `}`},
		{"full", animal{Name: "<cow>", Weight: brief.Number(math.NaN()), Secret: "s"},
			brief.FormatFull, brief.Saved{}, `{"name":"<cow>","weight":0,"secret":"s","flags":[{"flag":"loud","severity":"info","message":"loud"},{"flag":"seen","severity":"success","message":"a <cow>"}]}`},
		{"full with a file", animal{Name: "cow", Weight: 1.5}, brief.FormatFull,
			brief.Saved{Path: "/f"}, `{"name":"cow","weight":1.5,"secret":"","file_path":"/f"` + cowFlags + `}`},
		{"full without the file", animal{Name: "cow"}, brief.FormatFull, lost,
			`{"name":"cow","weight":0,"secret":"","file_path":null,"flags":[` + lostFlag + `,{"flag":"loud","severity":"info","message":"loud"},{"flag":"seen","severity":"success","message":"a cow"}]}`},
		{"report", animal{Name: "cow"}, brief.FormatReport, brief.Saved{},
			`{"status":"success","format":"report","report":"# cow","file_path":null` + cowFlags + `}`},
		{"report without the file", animal{Name: "cow"}, brief.FormatReport, lost,
			`{"status":"success","format":"report","report":"# cow","file_path":null,"flags":[` +
				lostFlag + `,{"flag":"loud","severity":"info","message":"loud"},{"flag":"seen","severity":"success","message":"a cow"}]}`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, err := zoo().Answer(tt.in, tt.format, tt.saved)
			must.Succeed(t, err)
			if diff := cmp.Diff(tt.want, string(got)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestAnswerRefuses(t *testing.T) {
	if _, err := zoo().Answer(animal{}, "long", brief.Saved{}); err == nil ||
		!strings.Contains(err.Error(), "use agent, summary, full, report") {
		t.Errorf("an unknown format: %v", err)
	}
	bare := zoo()
	bare.Report, bare.Summary = nil, nil
	if _, err := bare.Answer(animal{}, brief.FormatReport, brief.Saved{}); err == nil {
		t.Error("a report without a function for it")
	}
	got, err := bare.Answer(animal{Name: "ox", Secret: "s"}, brief.FormatSummary, brief.Saved{})
	if err != nil || !strings.HasPrefix(string(got), `{"name":"ox","weight":0,"secret":"s","flags":[{`) {
		t.Errorf("a summary without a function for it: %s, %v", got, err)
	}
	none := func(sight) []brief.Flag { return nil }
	list := brief.Tool[[]int, sight]{Snapshot: func([]int) sight { return sight{} }, Flags: none}
	if _, err := list.Answer([]int{1}, brief.FormatFull, brief.Saved{Path: "/f"}); err == nil {
		t.Error("a list took flags")
	}
	empty := brief.Tool[struct{}, sight]{Snapshot: func(struct{}) sight { return sight{} },
		Flags: none}
	if got, err := empty.Answer(struct{}{}, brief.FormatFull,
		brief.Saved{Path: "/f"}); string(got) != `{"file_path":"/f","flags":[]}` {
		t.Errorf("an empty result with a file: %s, %v", got, err)
	}
}

func TestFailed(t *testing.T) {
	got, err := json.Marshal(brief.Failed("no_such_work", "there is no work item T-1"))
	const want = `{"status":"error","format":"agent","snapshot":{"status":"error","verdict":"there is no work item T-1"},` +
		`"flags":[{"flag":"no_such_work","severity":"error","message":"there is no work item T-1"}],"file_path":null}`
	if err != nil || string(got) != want {
		t.Errorf("got %s, %v\nwant %s", got, err, want)
	}
}

func TestSave(t *testing.T) {
	absolute, err := filepath.Abs("zoo.json")
	must.Succeed(t, err)
	var wrote string
	saved := brief.Save(animal{Name: "<cow>"}, "zoo.json",
		func(name string, data []byte) (string, error) {
			wrote = name + ":" + string(data)
			return absolute, nil
		})
	const want = "zoo.json:{\n  \"name\": \"<cow>\",\n  \"weight\": 0,\n  \"secret\": \"\"\n}\n"
	if wrote != want || saved.Path != absolute || saved.Err != nil {
		t.Errorf("wrote %q, want %q; %+v", wrote, want, saved)
	}
	for _, tt := range []struct {
		name   string
		result any
		saver  brief.Saver
		want   string
	}{
		{"no saver", animal{}, nil, "no folder is configured"},
		{"a path error", animal{},
			saver("", &fs.PathError{Op: "open", Path: "/secret", Err: fs.ErrPermission}),
			"permission denied"},
		{"a long error", animal{}, saver("", errors.New(strings.Repeat("é", 130)+"\nmore")),
			strings.Repeat("é", 119) + "…"},
		{"two lines", animal{}, saver("", errors.New("one\ntwo")), "one"},
		{"a relative path", animal{}, saver("zoo.json", nil),
			`the path "zoo.json" is not absolute`},
		{"no path", animal{}, saver("", nil), `the path "" is not absolute`},
		{"a result without JSON", math.NaN(), saver(absolute, nil),
			"encoding the answer: json: unsupported value: NaN"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			saved := brief.Save(tt.result, "zoo.json", tt.saver)
			answer := brief.Compose(animal{Name: "cow"}, zoo().Snapshot, zoo().Flags, zoo().Status,
				saved)
			want := brief.Flag{Flag: "file_not_saved", Severity: brief.Error,
				Message: "The full result could not be saved: " + tt.want}
			if answer.FilePath != nil || answer.Flags[0] != want {
				t.Errorf("got path %v, %+v\nwant %+v", answer.FilePath, answer.Flags[0], want)
			}
		})
	}
}

func saver(path string, err error) brief.Saver {
	return func(string, []byte) (string, error) { return path, err }
}
