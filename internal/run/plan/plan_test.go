package plan

import (
	"encoding/json"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"signalbox/internal/testkit/must"
)

func mustParse(t *testing.T, text string) *Plan {
	t.Helper()
	plan, err := Parse("dir/plan.md", []byte(text), &Options{Drafts: true})
	must.Succeed(t, err)
	return plan
}

// TestTaskForms has the ways to write a task.
func TestTaskForms(t *testing.T) {
	head := "### Phase 1: Foundations\n\n#### Task A: first\n\n"
	others := "\n#### Task T1: one\n#### Task T2: two\n"
	for _, test := range []struct {
		name, text string
		want       Task
	}{
		{"paragraphs", "**Work**: Do it.\n\nAnd more.\n\n**Acceptance Criteria**:\n\n- [ ] one\n- [x] two\n\n**Blocked By**: T1, T2\n\n**Required Reading**: docs/a.md, docs/b.md\n",
			Task{Work: "Do it.\n\nAnd more.", Criteria: []string{"one", "two"},
				BlockedBy: []string{"T1", "T2"}, Reading: []string{"docs/a.md", "docs/b.md"}}},
		{"colons inside, in one paragraph, in any case",
			"**work:** Do it.\n**BLOCKED BY:** none\n**priority:** High\n**Acceptance-Criteria:** one\n",
			Task{Work: "Do it.", Priority: 1, Criteria: []string{"one"}}},
		{"labels on lines of their own",
			"__Work__\n\n    code\n\n**Acceptance Criteria**\n1. one\n2. two\n   lines\n\n**Blocked By**\n\n* T1\n* `T2`\n* T1\n",
			Task{Work: "    code", Criteria: []string{"one", "two\nlines"},
				BlockedBy: []string{"T1", "T2"}}},
		{"labels in a list",
			"- **Work**: Do it.\n  And more.\n\n      code\n- **Acceptance Criteria**:\n  - [ ] one\n    - detail\n  - [ ] two\n- **Blocked By**:\n  - Task T1\n  - [T2](#task-t2)\n- **Risks**: few\n",
			Task{Work: "Do it.\nAnd more.\n\n    code", Criteria: []string{"one\n- detail", "two"},
				BlockedBy: []string{"T1", "T2"}, Notes: "**Risks**: few"}},
		{"no empty line after a list or a quote",
			"**Work**:\n> said\n**Acceptance Criteria**:\n- one\n**Blocked By**: T1\n**Priority**: -3\n",
			Task{Work: "> said", Criteria: []string{"one"}, BlockedBy: []string{"T1"},
				Priority: -3}},
		{"no label for the work",
			"Do it.\n\n- a\n- **Parser**: b\n\n**Acceptance Criteria**: one\n",
			Task{Work: "Do it.\n\n- a\n- **Parser**: b", Criteria: []string{"one"}}},
		{"text before the work",
			"See below.\n\n**Work**: Do it.\n\n**Risks:** none *yet*\n\n**Out of scope**\n\n- x\n",
			Task{Work: "Do it.",
				Notes: "See below.\n\n**Risks:** none *yet*\n\n**Out of scope**\n\n- x"}},
		{"a label that is not very similar to a known one",
			"**Work**: Do it.\n\n**Locked In**: x\n",
			Task{Work: "Do it.", Notes: "**Locked In**: x"}},
		{"bold text that is not a label",
			"**Work**: Do it.\n\n**Important** is this.\n\n**This is a whole sentence in bold.**\n\nA **Priority**: not here.\n",
			Task{Work: "Do it.\n\n**Important** is this.\n\n**This is a whole sentence in bold.**\n\nA **Priority**: not here."}},
		{"structure in code, quotes and comments",
			"**Work**:\n````md\n```\n#### Task X: x\n**Blocked By**: X\n```\n````\n\n> #### Task Y: y\n>\n> **Priority**: high\n\n<!--\n#### Task Z: z\n-->\n\n\t#### Task W: w\n",
			Task{Work: "````md\n```\n#### Task X: x\n**Blocked By**: X\n```\n````\n\n> #### Task Y: y\n>\n> **Priority**: high\n\n<!--\n#### Task Z: z\n-->\n\n\t#### Task W: w"}},
		{"headings and rules inside", "**Work**: Do it.\n\n---\n\n##### Details\n\nMore.\n\n---\n",
			Task{Work: "Do it.\n\n---\n\n##### Details\n\nMore."}},
		{"rule at once", "---\n\nDo it.\n", Task{Work: "---\n\nDo it."}},
		{"table", "**Work**:\n\n| a | b |\n|---|---|\n| **Priority**: | high |\n",
			Task{Work: "| a | b |\n|---|---|\n| **Priority**: | high |"}},
		{"names", "**Target Files**: `a b.go`, __init__.py, x/./y.go, `a b.go`\n**Environments**: linux, `windows 11`\n",
			Task{Files: []string{"a b.go", "__init__.py", "x/y.go"},
				Environments: []string{"linux", "windows 11"}}},
		{"names in lists", "**Target Files**:\n- [a](src/a.go)\n- src\\b.go\n\n**Environment**:\n- [ ] linux\n", Task{Files: []string{"src/a.go", "src/b.go"}, Environments: []string{"linux"}}},
		{"nothing needed", "**Target Files**: none\n**Environments**: None.\n**Required Reading**: none\n**Budget**: none\n", Task{}},
		{"reading", "**Required Reading**:\n- [The design](docs/design.md)\n- `docs/style.md`\n- <https://example.org/a>\n- Chapter 3, and [this](x.md), of *the book*\n\nAll of RFC 6962.\nAnd the errata, too.\n",
			Task{Reading: []string{"docs/design.md", "docs/style.md", "https://example.org/a",
				"Chapter 3, and [this](x.md), of *the book*", "All of RFC 6962.",
				"And the errata, too."}}},
		{"criteria of several blocks",
			"**Acceptance Criteria**: all of these\n\n1. one\n\n   ```\n   code\n   ```\n\n- [ ] **Priority**: is shown\n\n<!-- more to come -->\n",
			Task{Criteria: []string{"all of these", "one\n\n```\ncode\n```",
				"**Priority**: is shown"}}},
		{"budget", "**Budget**: 1.5M tokens, $0.25 and 1h30m\n",
			Task{Budget: &Budget{1_500_000, 250_000, 90 * time.Minute}}},
		{"hostile text is kept", "\x1b[2J\u202e<script>\x00\n",
			Task{Work: "\x1b[2J\u202e<script>\ufffd"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			want := test.want
			want.ID, want.Title, want.Phase, want.Line, want.Draft = "A", "first", "1: Foundations",
				3, want.Criteria == nil
			for _, ends := range []string{"\n", "\r\n"} {
				got := mustParse(t, strings.ReplaceAll(head+test.text+others, "\n", ends))
				if diff := cmp.Diff(want, got.Tasks[0]); diff != "" {
					t.Errorf("with %q (-want +got)\n%s", ends, diff)
				}
				if len(got.Tasks) != 3 {
					t.Errorf("%d tasks", len(got.Tasks))
				}
			}
		})
	}
}

func TestHeadingLevels(t *testing.T) {
	want := &Plan{Name: "My plan & more", Tasks: []Task{
		{ID: "1.1", Title: "Use a:b *now*", Phase: "1", Work: "Do.", Line: 4, Draft: true},
		{ID: "1.2", Title: "<b>x</b>", Phase: "II: Next", Work: "#### Details\nMore.", Line: 8,
			Draft: true},
		{ID: "2", Title: "z", Line: 15, Draft: true},
	}}
	text := "\ufeffMy *plan* &amp; `more`\n===\n## phase 1\n### TASK 1.1: Use `a:b` \\*now\\* ###\nDo.\n## Phase II: Next\nText.\n### Task 1.2 : <b>x</b>\n#### Details\nMore.\n### Appendix\n**Blocked By**: X\n"
	text += "\n## Later\n### Task 2: z\n"
	if diff := cmp.Diff(want, mustParse(t, text)); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	faults := faultsOf(t, text+"\nTask 3: t\n---\n", &Options{Drafts: true})
	if len(faults) != 1 ||
		faults[0].Text != "the heading of the task has level 2, but the first task on line 4 has level 3" {
		t.Errorf("%+v", faults)
	}
}

func TestPlanName(t *testing.T) {
	for text, want := range map[string]string{
		"### Sub\n## Name\n# Other\n#### Task A: a\n": "Name",
		"## Phase 1: x\n### Task A: a\n":              "plan.md",
	} {
		if got := mustParse(t, text).Name; got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}

func TestPlanID(t *testing.T) {
	const task = "#### Task A: a\n"
	for text, want := range map[string][2]string{
		"---\nid: sprint-2\ntags: [x]\n---\n# Name\n" + task: {"sprint-2", "Name"},
		"---\nid: 7\n---\n" + task:                           {"7", "plan.md"},
		"---\ntitle: x\n---\n# Name\n" + task:                {"", "Name"},
		"# Plan sprint-2: Name\n" + task:                     {"sprint-2", "Name"},
		"# Plan: Name\n" + task:                              {"", "Plan: Name"},
		"# Plan for the week: Name\n" + task:                 {"", "Plan for the week: Name"},
		"---\nid: a\n---\n# Plan b: Name\n" + task:           {"a", "Name"},
		"---\nnot a mapping\n---\n" + task:                   {"", "not a mapping"},
	} {
		if got := mustParse(t, text); got.ID != want[0] || got.Name != want[1] ||
			got.Tasks[0].Line != strings.Count(text, "\n") {
			t.Errorf("%q: %q, %q, line %d", text, got.ID, got.Name, got.Tasks[0].Line)
		}
	}
}

func TestJSONIsWhatIsStored(t *testing.T) {
	plan := mustParse(t,
		"### Phase 1: p\n#### Task A: a\n**Work**: w\n**Budget**: 5 tokens, $1, 1s\n**Priority**: low\n**Why**: n\n\n#### Task B: b\n**Blocked By**: A\n**Acceptance Criteria**: c\n")
	got, err := json.Marshal(plan.Tasks)
	want := `[{"id":"A","title":"a","phase":"1: p","work":"w","priority":-1,"budget":{"tokens":5,"cost_micros":1000000,"time_ns":1000000000},"notes":"**Why**: n","draft":true},` +
		`{"id":"B","title":"b","phase":"1: p","criteria":["c"],"blocked_by":["A"]}]`
	if err != nil || string(got) != want {
		t.Errorf("got  %s\nwant %s\n%v", got, want, err)
	}
}

func TestBudget(t *testing.T) {
	for text, want := range map[string]*Budget{
		"200000 tokens":                 {Tokens: 200_000},
		"200,000 tokens":                {Tokens: 200_000},
		"200k tokens + $5":              {Tokens: 200_000, CostMicros: 5_000_000},
		"$1,000.000001":                 {CostMicros: 1_000_000_001},
		"5 USD, 2 hours":                {CostMicros: 5_000_000, Time: 2 * time.Hour},
		"90 min":                        {Time: 90 * time.Minute},
		"30m, 10 Tokens":                {Tokens: 10, Time: 30 * time.Minute},
		"":                              nil,
		"5":                             nil,
		"$0":                            nil,
		"-$5":                           nil,
		"$-5":                           nil,
		"$0.0000001":                    nil,
		"-5m":                           nil,
		"1.5 tokens":                    nil,
		"9999999999999999999999 tokens": nil,
		// half of the largest int64 is the limit, so that two budgets can be added
		"5000000000000000000 tokens":     nil,
		"$5 $6":                          nil,
		"30m 1h":                         nil,
		"5 bananas":                      nil,
		"and":                            nil,
		"tokens":                         nil,
		"$":                              nil,
		"2147483647 hours and 10 tokens": nil,
	} {
		got, ok := parseBudget(text)
		if diff := cmp.Diff(want, got); diff != "" || ok != (want != nil) {
			t.Errorf("%q: %v (-want +got)\n%s", text, ok, diff)
		}
	}
}

func TestExample(t *testing.T) {
	text, err := os.ReadFile("../../../examples/plan.md")
	must.Succeed(t, err)
	plan, err := Parse("plan.md", text, nil)
	must.Succeed(t, err)
	if got, want := plan.Summary(),
		"6 tasks in 2 phases, 1 can start at once, longest chain 4"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
