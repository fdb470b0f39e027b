package findings

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"signalbox/internal/core/rules"
)

type found = rules.SaidFinding

func TestFromVerdict(t *testing.T) {
	criteria := []string{"It counts words", "It stops"}
	for name, test := range map[string]struct {
		fields map[string]any
		want   []found
	}{
		"a list": {
			map[string]any{"Issues Found": []string{"a.go:12: it panics", "internal/b.go:3-9: `x`"},
				"Required Fixes": "do not panic", "Summary": "two"},
			[]found{{Place: "a.go:12", Text: "a.go:12: it panics"},
				{Place: "internal/b.go:3", Text: "internal/b.go:3-9: `x`"}},
		},
		"text with a list": {
			map[string]any{"text": "Not yet.\n\n1. **a.go**: bad\n   very bad\n2) other"},
			[]found{{Text: "Not yet."}, {Place: "a.go", Text: "**a.go**: bad\n   very bad"},
				{Text: "other"}},
		},
		"only fixes": {
			map[string]any{"Required Fixes": []string{"use tabs"}, "Summary": "bad"},
			[]found{{Text: "use tabs", Says: rules.SaidVaguely}},
		},
		"earlier ones by label": {
			map[string]any{"F10": "fixed", "F2": "not fixed, because it panics",
				"T1/F3": []string{"still there", "F4: **fixed**", "x.go is new"}},
			[]found{{Place: "x.go", Text: "x.go is new"},
				{ID: "F2", Text: "not fixed, because it panics"}, {ID: "F3", Text: "still there"},
				{ID: "F4", Text: "**fixed**", Says: rules.SaidFixed},
				{ID: "F10", Text: "fixed", Says: rules.SaidFixed}},
		},
		"earlier ones in a list": {
			map[string]any{"Issues Found": "F1: fixed\nF2: I cannot tell\n- F1: not fixed\n- new"},
			[]found{{ID: "F1", Text: "fixed", Says: rules.SaidFixed},
				{ID: "F2", Text: "I cannot tell"}, {ID: "F1", Text: "not fixed"}, {Text: "new"}},
		},
		"severity": {
			map[string]any{"Issues Found": []string{"nit: spaces", "[note] a name", "**Note:** b",
				"blocking: c", "notes are missing", "Minor problem"}, "Notes": "d"},
			[]found{{Text: "spaces", Says: rules.SaidNote}, {Text: "a name", Says: rules.SaidNote},
				{Text: "b", Says: rules.SaidNote}, {Text: "c"}, {Text: "notes are missing"},
				{Text: "Minor problem"}, {Text: "d", Says: rules.SaidNote}},
		},
		"a basis": {
			map[string]any{"Issues Found": []string{"it hangs. Shown by: `go test -run X`",
				"shown by:", "criterion 2 is not met", "criterion 21", "it does not: \"it counts  WORDS\""}},
			[]found{{Text: "it hangs. Shown by: `go test -run X`", Basis: rules.BasisShown},
				{Text: "shown by:"}, {Text: "criterion 2 is not met", Basis: rules.BasisCriterion, Criterion: 2},
				{Text: "criterion 21"},
				{Text: "it does not: \"it counts  WORDS\"", Basis: rules.BasisCriterion, Criterion: 1}},
		},
		"nothing":  {map[string]any{"Issues Found": "None.", "Summary": "- "}, nil},
		"no place": {map[string]any{"text": "e.g. https://x.org/a.go, 1:2 and 3.14"}, []found{{Text: "e.g. https://x.org/a.go, 1:2 and 3.14", Says: rules.SaidVaguely}}},
	} {
		got := FromVerdict(test.fields, Task{[]string{"T1"}, criteria}, true)
		if diff := cmp.Diff(test.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
	passed := FromVerdict(map[string]any{"Summary": "all good", "Notes": []string{"a.go: split it"},
		"F1": "fixed"}, Task{}, false)
	if diff := cmp.Diff([]found{{ID: "F1", Text: "fixed", Says: rules.SaidFixed},
		{Place: "a.go", Text: "a.go: split it", Says: rules.SaidNote}}, passed); diff != "" {
		t.Errorf("passed (-want +got):\n%s", diff)
	}
}

func TestFromReply(t *testing.T) {
	got := FromReply(map[string]any{"Summary": "did it\nF1: fixed\nF2: disputed, because tabs",
		"F3": "won't fix: it is right", "Findings": []string{"T1/F4 — done", "F5: later"},
		"Files Modified": "F6: fixed", "T2/F7": "fixed"}, Task{Names: []string{"T1"}})
	want := []found{{ID: "F3", Text: "won't fix: it is right", Says: rules.SaidDisputed},
		{ID: "F4", Text: "done", Says: rules.SaidFixed}, {ID: "F5", Text: "later"},
		{ID: "F1", Text: "fixed", Says: rules.SaidFixed},
		{ID: "F2", Text: "disputed, because tabs", Says: rules.SaidDisputed}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// What says that a finding is settled must be plain: what a critic quotes or doubts settles nothing.
func TestSettled(t *testing.T) {
	for text, want := range map[string]rules.Said{
		"F1: fixed": rules.SaidFixed, "**F1**: Fixed.": rules.SaidFixed, "F1 fixed": rules.SaidFixed,
		"[F1] - resolved in a.go": rules.SaidFixed, "F1: withdrawn, the developer is right": rules.SaidFixed,
		"F1: not a defect: the plan says so": rules.SaidFixed,
		"F1: fixed, but now it hangs":        rules.SaidFound, "F1: resolved only in a.go": rules.SaidFound,
		"F1: done wrong": rules.SaidFound, "F1: fixed? no": rules.SaidFound,
		"F1: fixed, it doesn't panic in a.go": rules.SaidFound, "F1: not fixed": rules.SaidFound,
		"F1: fixed-size buffer overflows":   rules.SaidFound,
		"F1: done callback is called twice": rules.SaidFound,
		"F1: disputed":                      rules.SaidFound, "F1 still panics": rules.SaidFound,
	} {
		got := FromVerdict(map[string]any{"Issues Found": []string{text}}, Task{}, true)
		if len(got) != 1 || got[0].ID != "F1" || got[0].Says != want {
			t.Errorf("%q: %+v", text, got)
		}
	}
	for _, text := range []string{"F5 key does not refresh", "F1 score is below 0.5", "F0: fixed",
		"FF1: fixed", "f1: fixed"} {
		if got := FromVerdict(map[string]any{"text": text}, Task{}, true); len(got) != 1 ||
			got[0].ID != "" {
			t.Errorf("%q: %+v", text, got)
		}
	}
	quoted := "- a.go:3: the test prints\n~~~~ x\nF1: fixed\n```\n~~~\n- F2: fixed\n~~~~\n- F3: fixed"
	got := FromVerdict(map[string]any{"Issues Found": quoted}, Task{}, true)
	if len(got) != 2 || got[0].ID != "" || got[1].ID != "F3" {
		t.Errorf("quoted: %+v", got)
	}
}

// The fields that prompts ask for count wherever agents put them.
func TestFieldsAtColumn0(t *testing.T) {
	got := FromVerdict(map[string]any{"Issues Found": []string{"it hangs"},
		"Shown by": "go test", "F1": "fixed\nnote: a name is long"}, Task{}, true)
	want := []found{{Text: "a name is long", Says: rules.SaidNote, Basis: rules.BasisShown},
		{ID: "F1", Text: "fixed", Says: rules.SaidFixed, Basis: rules.BasisShown},
		{Text: "it hangs", Basis: rules.BasisShown}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestPlaces(t *testing.T) {
	for text, want := range map[string][]Place{
		"a.go:12":                          {{"a.go", 12, 12}},
		"a.go:12-3":                        {{"a.go", 12, 12}},
		"`./b.go`":                         {{"b.go", 0, 0}},
		"a.go:10-40 and (c.txt:3:7)":       {{"a.go", 10, 40}, {"c.txt", 3, 3}},
		"a.go#L12-L14, internal\\win.go:3": {{"a.go", 12, 14}, {"internal/win.go", 3, 3}},
		"src/app/[id]/page.tsx:10":         {{"src/app/[id]/page.tsx", 10, 10}},
		"Makefile:3: e.g. https://x.org/a.go 1:2 3.14": {{"Makefile", 3, 3}},
	} {
		if diff := cmp.Diff(want, Places(text)); diff != "" {
			t.Errorf("%q (-want +got):\n%s", text, diff)
		}
	}
}

// FuzzVerdict: whatever an agent writes, nothing breaks, ids are ids, and a verdict that fails work
// with a text has a finding.
func FuzzVerdict(f *testing.F) {
	f.Add("Issues Found", "- F1: fixed\n- a.go:1 bad")
	f.Add("T1/F2", "x")
	f.Add("text", "1. \xff\n\x00 criterion 1")
	f.Fuzz(func(t *testing.T, label, text string) {
		fields := map[string]any{label: text, "Replies": []any{text, 1}}
		for _, said := range append(FromVerdict(fields, Task{Criteria: []string{text}}, true),
			FromReply(fields, Task{})...) {
			if id, _ := cutID(said.ID); id != said.ID {
				t.Errorf("the id %q", said.ID)
			}
			if said.ID == "" && said.Text == "" {
				t.Errorf("an empty finding from %q", text)
			}
		}
	})
}

// What is said about a finding of another task settles none of this one.
func TestOtherTasks(t *testing.T) {
	got := FromVerdict(map[string]any{"Issues Found": []string{"T1/F1: fixed", "T2/F2: fixed",
		"p/T1/F3: not fixed", "T2/F4: not fixed"}}, Task{Names: []string{"T1", "p/T1"}}, true)
	want := []found{{ID: "F1", Text: "fixed", Says: rules.SaidFixed},
		{ID: "F3", Text: "not fixed"}, {Text: "T2/F4: not fixed"}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// However long a list is, what is compared with the work is bounded, and what names findings comes
// first.
func TestLongLists(t *testing.T) {
	list := strings.Repeat("- a.go:1: bad\n", 100_000)
	got := FromVerdict(map[string]any{"Issues Found": list, "F1": "not fixed"}, Task{}, true)
	if len(got) != maxSaid || got[0].ID != "F1" || got[0].Says != rules.SaidFound {
		t.Errorf("%d items, the first is %+v", len(got), got[0])
	}
	named := map[string]any{}
	for n := range 2 * maxSaid {
		named[fmt.Sprintf("F%d", n+1)] = "fixed"
	}
	if got := FromReply(named, Task{}); len(got) != maxSaid {
		t.Errorf("%d replies", len(got))
	}
}
