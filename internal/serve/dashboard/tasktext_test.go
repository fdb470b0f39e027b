package dashboard

import (
	"encoding/json"
	"html"
	"strings"
	"testing"

	"signalbox"
	"signalbox/internal/core/rules"
	"signalbox/internal/run/plan"
	"signalbox/internal/testkit/must"
)

// TestTaskPageHasTheText checks that the page on which a human decides says what the task asks for,
// and only as text. Redacted text is left out.
func TestTaskPageHasTheText(t *testing.T) {
	s := newStage(t)
	stored, err := json.Marshal(plan.Task{ID: "W1", Title: "count", Work: hostile,
		Criteria: []string{"it counts to four"}})
	must.Succeed(t, err)
	text := s.blob(string(stored))
	load := rules.LoadPlan{Plan: signalbox.Hash{2}, Name: "words", ID: "words", Source: "words.md",
		Replace: true, Actor: "op",
		Tasks: []rules.PlanTask{{ID: "W1", Title: "count", Text: text}}}
	for !s.do(load).Plan.Loaded {
	}
	_, _, page := s.get(s.viewer(), "/work/W1")
	_, section, _ := strings.Cut(page, `<details open><summary>Task</summary><pre class="text">`)
	section, _, ended := strings.Cut(section, "</pre></details>")
	if !ended || strings.Contains(section, "<script") || strings.Contains(section, "\x1b") ||
		strings.Contains(section, "\u202e") {
		t.Errorf("the section: %q\nthe page: %s", section, page)
	}
	for _, want := range []string{"**Work**: pwned <script>",
		"**Acceptance Criteria**\n\n- [ ] it counts to four"} {
		if !strings.Contains(html.UnescapeString(section), want) {
			t.Errorf("the section has no %q: %s", want, section)
		}
	}
	if _, err := s.box.Redact(t.Context(), rules.RedactBlob{Blob: text, Reason: "private",
		Actor: "op"}); err != nil {
		t.Fatal(err)
	}
	if _, _, page := s.get(s.viewer(), "/work/W1"); !strings.Contains(page, "W1") ||
		strings.Contains(page, "<summary>Task") {
		t.Errorf("after the redaction: %s", page)
	}
}
