package dashboard

import (
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"

	"signalbox"
	"signalbox/internal/core/rules"
	"signalbox/internal/testkit/must"
)

// TestBoardFilters shows the tasks that a filter leaves, and remembers it in the form.
func TestBoardFilters(t *testing.T) {
	s := newStage(t) // T1 waits for approval, T2 asks, T3 was sent back
	s.do(rules.OpenWork{Work: "hand", Title: "by hand", Actor: "ann"})
	for query, want := range map[string]string{
		"":                                 "B-1 T1 T2 T3 hand",
		"plan=counter":                     "T1 T2 T3",
		"plan=none":                        "",
		"waiting=me":                       "T1 T2",
		"role=developer":                   "T2 T3 hand",
		"role=merger":                      "T1",
		"role=critic":                      "",
		"role=developer&waiting=me":        "T2",
		"q=t3":                             "T3",
		"q=BY+hand":                        "hand",
		"q=%3Cscript%3E":                   "T1 T2 T3",
		"q=t3&role=merger":                 "",
		"plan=counter&role=developer&q=T2": "T2",
	} {
		_, _, page := s.get(s.viewer(), "/board?"+query)
		var shown []string
		for _, m := range regexp.MustCompile(`id="task-([^"]+)"`).FindAllStringSubmatch(page, -1) {
			shown = append(shown, m[1])
		}
		slices.Sort(shown)
		if got := strings.Join(shown, " "); got != want {
			t.Errorf("%q shows %q, want %q", query, got, want)
		}
		if (want == "") != strings.Contains(page, "No task is like that.") ||
			(query != "") != strings.Contains(page, "Show all") {
			t.Errorf("%q: the page does not say what is shown", query)
		}
		values, err := url.ParseQuery(query)
		must.Succeed(t, err)
		if role := values.Get("role"); role != "" && !strings.Contains(page, "<option selected>"+
			role) || values.Has("waiting") != strings.Contains(page, " checked") {
			t.Errorf("%q: the form does not have the filter", query)
		}
		if strings.Contains(page, "<script>") {
			t.Errorf("%q: the text is not escaped", query)
		}
	}
}

// TestBoardOfSeveralPlans lets the user choose a plan.
func TestBoardOfSeveralPlans(t *testing.T) {
	s := newStage(t)
	if _, _, page := s.get(s.viewer(), "/board"); strings.Contains(page, "filter-plan") {
		t.Error("one plan can be chosen")
	}
	second := rules.LoadPlan{Plan: signalbox.Hash{2}, Name: "again", ID: "again",
		Source: "again.md", Actor: "op", Replace: true,
		Tasks: []rules.PlanTask{{ID: "T9", Title: "nine", Text: s.blob("T9")}}}
	for !s.do(second).Plan.Loaded {
	}
	_, _, page := s.get(s.viewer(), "/board?plan=again")
	if !strings.Contains(page, `<option value="again" selected>again (0 of 1)</option>`) ||
		!strings.Contains(page, `<option value="counter">`) ||
		!strings.Contains(page, `id="task-T9"`) || strings.Contains(page, `id="task-T1"`) {
		t.Errorf("the board of the second plan:\n%s", page)
	}
}

// The board says why the base branch waits for the checkout, as long as it does.
func TestBoardSaysWhyTheBranchWaits(t *testing.T) {
	folder, commit := repository(t, map[string]string{"a.go": "x"})
	s := newStageIn(t, folder, git(t, folder, "rev-parse", "main"), commit)
	const waits = "the branch main waits, because "
	if page := s.mustGet(t, "/board"); strings.Contains(page, waits) {
		t.Errorf("it waits for nothing:\n%s", page)
	}
	git(t, folder, "update-ref", "refs/signalbox/base/main", commit)
	git(t, folder, "update-ref", "refs/signalbox/waits/main", "main")
	page := s.mustGet(t, "/board")
	if !strings.Contains(page, waits) ||
		!strings.Contains(page, "git merge refs/signalbox/base/main") {
		t.Errorf("the board does not say it:\n%s", page)
	}
}
