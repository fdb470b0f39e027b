package dashboard

import (
	"strings"
	"testing"

	"signalbox"
	"signalbox/internal/core/rules"
)

// The page of a task says where its time went, with links to the events, and words of others are
// text.
func TestTaskPageHasHistory(t *testing.T) {
	s := newStage(t)
	load := rules.LoadPlan{Plan: signalbox.Hash{2}, Name: "words", ID: "words", Source: "words.md",
		Replace: true, Actor: "op", Tasks: []rules.PlanTask{{ID: "W1", Title: "count"}}}
	for !s.do(load).Plan.Loaded {
	}
	s.do(rules.Rework{Work: "W1", Text: "<script>alert(1)</script>\u202e", Actor: "ann"})
	_, _, page := s.get(s.viewer(), "/work/W1")
	_, section, _ := strings.Cut(page, `<section id="history" data-live>`)
	section, _, ended := strings.Cut(section, "</section>")
	for _, want := range []string{"in IMPLEMENTATION, after ", `<th scope="row">total</th>`,
		`<a href="/ledger/`, "sent back by ann: &lt;script&gt;", "<strong>now:</strong>"} {
		if !strings.Contains(section, want) {
			t.Errorf("the section has no %q: %s", want, section)
		}
	}
	if !ended || strings.Contains(section, "<script") || strings.Contains(section, "\u202e") {
		t.Errorf("the section: %q", section)
	}
}
