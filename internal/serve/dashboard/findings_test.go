package dashboard

import (
	"strings"
	"testing"

	"signalbox"
	"signalbox/internal/core/rules"
)

// The page of a task has all findings ever, as text, and is unfolded while one is open.
func TestTaskPageHasFindings(t *testing.T) {
	s := newStage(t)
	load := rules.LoadPlan{Plan: signalbox.Hash{2}, Name: "words", ID: "words", Source: "words.md",
		Replace: true, Actor: "op", Tasks: []rules.PlanTask{{ID: "W1", Title: "count"}}}
	for !s.do(load).Plan.Loaded {
	}
	if _, _, page := s.get(s.viewer(), "/work/W1"); strings.Contains(page, `id="findings"`) {
		t.Error("there are findings before anybody found something")
	}
	s.do(rules.Rework{Work: "W1", Text: "<script>alert(1)</script>\u202e", Actor: "ann"})
	_, _, page := s.get(s.viewer(), "/work/W1")
	_, section, _ := strings.Cut(page, `<details id="findings" open><summary>1 finding, 1 open</summary>`)
	section, _, ended := strings.Cut(section, "</details>")
	for _, want := range []string{"<td>F1</td>", "<td>human</td>", "<td>open</td>", "&lt;script&gt;"} {
		if !strings.Contains(section, want) {
			t.Errorf("the section has no %q: %s", want, section)
		}
	}
	if !ended || strings.Contains(section, "<script") || strings.Contains(section, "\u202e") {
		t.Errorf("the section: %q\nthe page: %s", section, page)
	}
}
