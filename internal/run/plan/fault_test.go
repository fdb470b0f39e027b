package plan

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"signalbox"
)

// good is the rest of a valid task.
const good = "\n**Acceptance Criteria**:\n- [ ] done\n"

func faultsOf(t *testing.T, text string, opts *Options) []Fault {
	t.Helper()
	plan, err := Parse("plan.md", []byte(text), opts)
	if err == nil {
		return nil
	}
	wrong, classed := (*Error)(nil), (*signalbox.Error)(nil)
	if plan != nil || !errors.As(err, &wrong) || !errors.As(err, &classed) ||
		classed.Code != signalbox.CodeUsage || classed.Hint == "" {
		t.Fatalf("%v: %#v", plan, err)
	}
	return wrong.Faults
}

// manyFiles returns n different paths, each after a comma.
func manyFiles(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, ", %s%d", strings.Repeat("f", 150), i)
	}
	return b.String()
}

func TestFaults(t *testing.T) {
	for _, test := range []struct {
		name, text string
		want       []string // "line: text | hint"
	}{
		{"duplicate id", "#### Task A: a" + good + "#### Task A: b" + good,
			[]string{`4: the id "A" is used twice, on lines 1 and 4 | give one of the tasks a different id`}},
		{"ids that differ in case", "#### Task a: a" + good + "#### Task A: b" + good,
			[]string{`4: the ids "a" on line 1 and "A" on line 4 differ only in case | give one of the tasks a different id`}},
		{"unknown blocker", "#### Task T1: a" + good + "#### Task T2: b\n**Blocked By**: T11" +
			good,
			[]string{`5: task "T2" is blocked by "T11", which is not in the plan | did you mean T1?`}},
		{"unknown blocker like none", "#### Task T1: a" + good +
			"#### Task T2: b\n**Blocked By**:\n- T1\n- setup" + good,
			[]string{`7: task "T2" is blocked by "setup", which is not in the plan | write the id of a task of this plan, or none`}},
		{"cycle", "#### Task A: a\n**Blocked By**: B" + good +
			"#### Task B: b\n\n**Blocked By**: D, C" + good + "#### Task C: c\n**Blocked By**: A" +
			good + "#### Task D: d" + good,
			[]string{`2: tasks wait for each other in a cycle: A (line 1) → B (line 5) → C (line 10) → A (line 1) | remove one of these ids from the Blocked By section of the task before it`}},
		{"nothing can start", "#### Task A: a\n**Blocked By**: B" + good +
			"#### Task B: b\n**Blocked By**: A" + good,
			[]string{`1: no task can start: each waits for another | write "**Blocked By**: none" in the first task`,
				`2: tasks wait for each other in a cycle: A (line 1) → B (line 5) → A (line 1) | remove one of these ids from the Blocked By section of the task before it`}},
		{"blocked by itself", "#### Task A: a\n**Blocked By**: A" + good + "#### Task B: b" + good,
			[]string{`2: task "A" is blocked by itself | remove A, or write none`}},
		{"misspelled task", "#### Task T1: one" + good + "#### Taks T2: two" + good,
			[]string{`4: the heading "Taks T2: two" looks like a task, but does not begin with Task | write "#### Task T2: two"`}},
		{"misspelled task without sections", "#### Task T1: one" + good +
			"#### Tasks T2: two\n\n#### Task T3: three" + good,
			[]string{`4: the heading "Tasks T2: two" looks like a task, but does not begin with Task | write "#### Task T2: two"`}},
		{"task without the word", "#### Task T1: one" + good + "#### T2: two\n\n**Work**: x\n" +
			good,
			[]string{`4: the heading "T2: two" looks like a task, but does not begin with Task | write "#### Task T2: two"`}},
		{"task without word and id", "#### Two things" + good + "#### Task T1: one" + good,
			[]string{`1: the heading "Two things" looks like a task, but does not begin with Task | write "#### Task ID: Two things"`}},
		{"task without the word, sections in a list", "#### Task T1: one" + good +
			"### T2: two\n\n- **Work**: x\n- **Acceptance Criteria**: y\n",
			[]string{`4: the heading "T2: two" looks like a task, but does not begin with Task | write "#### Task T2: two"`}},
		{"numbered headings among tasks", "# P\n\n## Task 1: Add login" + good +
			"## 2. Add logout" + good + "## Task-3: Profile page" + good + "## #4 Search" + good +
			"## [ ] Sort" + good + "## Step 6: Filter" + good + "## **T7** – Page" + good +
			"## (8) Print" + good,
			[]string{
				`6: the heading "2. Add logout" looks like a task, but does not begin with Task | write "## Task 2: Add logout"`,
				`9: the heading "Task-3: Profile page" looks like a task, but does not begin with Task | write "## Task 3: Profile page"`,
				`12: the heading "#4 Search" looks like a task, but does not begin with Task | write "## Task 4: Search"`,
				`15: the heading "[ ] Sort" looks like a task, but does not begin with Task | write "## Task ID: Sort"`,
				`18: the heading "Step 6: Filter" looks like a task, but does not begin with Task | write "## Task 6: Filter"`,
				`21: the heading "T7 – Page" looks like a task, but does not begin with Task | write "## Task T7: Page"`,
				`24: the heading "(8) Print" looks like a task, but does not begin with Task | write "## Task 8: Print"`}},
		{"a number before the first task, which would be the name of the plan",
			"## 1. Add login\n\ntext\n\n## Task 2: Add logout" + good,
			[]string{`1: the heading "1. Add login" looks like a task, but does not begin with Task | write "## Task 1: Add login"`}},
		{"Task-API at another level", "# Task-API: first\n\n## Task 2: second" + good,
			[]string{`1: the heading "Task-API: first" looks like a task, but does not begin with Task | write "# Task API: first"`}},
		{"sections of a document", "# 2026: the plan\n\n## Notes\n\n## Tasks\n\n" +
			"## Task-based design\n\n## Taskforce: who\n\n## Version 2: why\n\n## 2 things\n\n" +
			"## 1. Ways\n\n### Task 1: one" + good + "\n#### 1. Detail\n\n## 2. Later\n", nil},
		{"control character in a title", "\n\n#### Task T1: one\x1b[2J" + good,
			[]string{"3: invalid title: must not contain control characters | shorten it or write it as plain text"}},
		{"control character in the name", "text\n\n# Plan\u009b2J\n\n#### Task T1: one" + good,
			[]string{"3: invalid name of the plan: must not contain control characters | shorten it or write it as plain text"}},
		{"long title", "#### Task T1: " + strings.Repeat("x", 5000) + good,
			[]string{"1: invalid title: 5000 bytes, limit 4096 | shorten it or write it as plain text"}},
		{"too many files", "#### Task T1: one\n\n**Target Files**: " +
			strings.Repeat("a", 200) + manyFiles(1000) + "\n" + good,
			[]string{"1: the blockers and target files of the task have 156128 bytes, limit 131072 | name folders instead of files, or split the task"}},
		{"many links in a line", "#### Task T1: one\n\n" + strings.Repeat("[a](", 10_000) + "\n" +
			good,
			[]string{"3: the paragraph has too many links | check that this is the right file, or split the paragraph with empty lines"}},
		{"many links in a paragraph", "#### Task T1: one\n\n" +
			strings.Repeat("*[a](b \"\n", 10_000) + "\n" + good,
			[]string{"2733: the paragraph has too many links | check that this is the right file, or split the paragraph with empty lines"}},
		{"a mark at the end", "#### Task T1: one" + good + "\n-",
			[]string{"5: the acceptance criterion is empty | write the criterion, or delete the line"}},
		{"many links in a list", "#### Task T1: one\n\n" + strings.Repeat("- [a](b)\n", 10_000) +
			"\n" + good, nil},
		{"id of the plan", "---\ntitle: x\nid: a b\n---\n#### Task T1: one" + good,
			[]string{`3: the id of the plan is not valid: id "a b": must be letters, digits, '.', '_' and '-', and begin with a letter or a digit | write "id: sprint-2"`}},
		{"no task", "# Plan\n\nSome text.\n",
			[]string{`1: the plan has no task | begin each task with a heading such as "#### Task T1: title"`}},
		{"empty", "", []string{`1: the plan has no task | begin each task with a heading such as "#### Task T1: title"`}},
		{"no criteria", "\n#### Task A: a\n**Work**: do it\n",
			[]string{`2: task "A" has no acceptance criteria | write "**Acceptance Criteria**:" and below it a list such as "- [ ] the tests pass"`}},
		{"criteria that are none", "#### Task A: a\n**Acceptance Criteria**: none\n",
			[]string{`1: task "A" has no acceptance criteria | write "**Acceptance Criteria**:" and below it a list such as "- [ ] the tests pass"`}},
		{"empty criterion", "#### Task A: a\n**Acceptance Criteria**:\n- [ ] one\n- [ ]\n",
			[]string{`4: the acceptance criterion is empty | write the criterion, or delete the line`}},
		{"no title", "#### Task A:" + good,
			[]string{`1: task "A" has no title | write "#### Task ID: title", or do not begin the heading with Task`}},
		{"no id", "#### Task: a" + good,
			[]string{`1: the heading of the task has no id | write "#### Task ID: title", or do not begin the heading with Task`}},
		{"no id and nothing", "#### Task" + good,
			[]string{`1: the heading of the task has no colon after its id | write "#### Task ID: title", or do not begin the heading with Task`}},
		{"no colon", "### Task A a" + good,
			[]string{`1: the heading of the task has no colon after its id | write "#### Task ID: title", or do not begin the heading with Task`,
				`1: id "A a": must be letters, digits, '.', '_' and '-', and begin with a letter or a digit | write "#### Task ID: title" with an id such as T1 or 1.2`}},
		{"bad id", "#### Task ../x: a" + good,
			[]string{`1: id "../x": must not contain '..' | write "#### Task ID: title" with an id such as T1 or 1.2`}},
		{"an id of signalbox", "#### Task R-1: a" + good,
			[]string{`1: the id "R-1" is reserved for signalbox | choose another id, such as T1`}},
		{"the id none", "#### Task None: a" + good,
			[]string{`1: the id "None" is reserved: in Blocked By it means no blocker | choose another id, such as T1`}},
		{"misspelled label", "#### Task A: a\n**Blockd By**: none" + good,
			[]string{`2: unknown label "Blockd By" | write "**Blocked By**:", or use a different label`}},
		{"another word for a label", "#### Task A: a" + good + "\n**Depends on:** B\n",
			[]string{`5: unknown label "Depends on" | write "**Blocked By**:", or use a different label`}},
		{"label with an addition", "#### Task A: a" + good +
			"\n**Acceptance Criteria (more)**\n- b\n",
			[]string{`5: unknown label "Acceptance Criteria (more)" | write "**Acceptance Criteria**:", or use a different label`}},
		{"label without colon", "#### Task A: a\n**Blocked By** T1" + good,
			[]string{`2: the label "Blocked By" has no colon | write "**Blocked By**:", or start the line with another word`}},
		{"label twice", "#### Task A: a" + good + "\n**Acceptance criteria:** more\n",
			[]string{`5: the label "Acceptance criteria" is used twice, first on line 2 | merge the sections`}},
		{"label as heading", "#### Task A: a\n##### Blocked By\nB\n" + good,
			[]string{`2: the label "Blocked By" is a heading here | write "**Blocked By**:" instead of a heading`}},
		{"label underlined", "#### Task A: a" + good + "\n**Blocked By**: B\n---\n",
			[]string{`5: the label "Blocked By" is a heading here | put an empty line before the line of dashes under it`}},
		{"label under a phase", "### Phase 1: x\n**Blocked By**: B\n#### Task A: a" + good,
			[]string{`2: the label "Blocked By" is under a phase, where it has no effect | move it below the heading of each task that it applies to`}},
		{"label among other items", "#### Task A: a" + good +
			"\n\nText\n\n- **Blocked By**: B\n- more\n",
			[]string{`8: the label "Blocked By" is in a list with other text | put the label in its own paragraph; if it is not a label, put another word before it`}},
		{"label inside an item",
			"#### Task A: a\n- **Work**: x\n  **Blocked By**: B\n- **Acceptance Criteria**: y\n",
			[]string{`3: the label "Blocked By" is inside a list item | put the label in its own paragraph; if it is not a label, put another word before it`}},
		{"label in a nested item", "#### Task A: a\n- x\n  - **Blocked By**: B\n\n" + good,
			[]string{`3: the label "Blocked By" is inside a list item | put the label in its own paragraph; if it is not a label, put another word before it`}},
		{"criteria under two labels", "#### Task A: a" + good + "\n**Edge cases**:\n- [ ] b\n",
			[]string{`5: the label "Edge cases" ends the acceptance criteria, but a task list follows | write all criteria in one list, without a label between them`}},
		{"bad priority", "#### Task A: a\n**Priority**: urgent" + good,
			[]string{`2: "urgent" is not a priority | write high, medium, low, or a whole number from -1000 to 1000`}},
		{"bad budget", "#### Task A: a\n**Budget**: much" + good,
			[]string{`2: "much" is not a budget | write amounts such as "200000 tokens, $5, 30m", each at most once`}},
		{"empty blockers", "#### Task A: a\n**Blocked By**:" + good,
			[]string{`2: the section "Blocked By" is empty | write an id such as T1, or none`}},
		{"blockers in words", "#### Task A: a" + good +
			"#### Task B: b\n**Blocked By**: A and then some" + good,
			[]string{`5: "A and then some" is not the id of a task | write ids separated by commas, such as T1, T2, or none`}},
		{"ids and none", "#### Task A: a" + good + "#### Task B: b\n**Blocked By**: A, none" + good,
			[]string{`5: Blocked By has both ids and none | write ids separated by commas, such as T1, T2, or none`}},
		{"nested blockers", "#### Task A: a" + good +
			"#### Task B: b\n**Blocked By**:\n- A\n  - A\n" + good,
			[]string{`6: "A\n- A" is more than one name | write an id such as T1 alone`}},
		{"file in words", "#### Task A: a\n**Target Files**: a.go (new)" + good,
			[]string{`2: "a.go (new)" is not a path | write the path alone, in backquotes if it has spaces`}},
		{"file outside", "#### Task A: a\n**Target Files**:\n- ok.go\n- `a/../../b`" + good,
			[]string{`4: the target file "a/../../b" is outside the workspace | write the path from the top of the workspace, such as cmd/main.go`}},
		{"deeper task", "#### Task A: a" + good + "##### Task B: b" + good,
			[]string{`4: the heading of the task has level 5, but the first task on line 1 has level 4 | write "#### Task ID: title"; tasks cannot be nested`}},
		{"task above its phase", "### Phase 1: x\n## Task A: a" + good,
			[]string{`2: the heading of the task is not below the phase on line 1, which has level 3 | write "#### Task ID: title"`}},
		{"phase below a task", "#### Task A: a" + good + "##### Phase 1: x\n",
			[]string{`4: the heading of the phase is not above the tasks, which have level 4 | write "### Phase 1: x"`}},
		{"phases of two levels", "## Phase 1: x\n### Phase 2: y\n#### Task A: a" + good,
			[]string{`2: the heading of the phase has level 3, but the first phase on line 1 has level 2 | write "## Phase 2: y"`}},
		{"phase without colon", "### Phase 1 - x\n#### Task A: a" + good,
			[]string{`1: the phase "1 - x" has no colon after its number | write the heading as "### Phase 1: name"`}},
		{"task in a list", "#### Task A: a" + good + "  #### Task B: b\n",
			[]string{`4: the heading "Task B: b" is inside a list | begin the heading at the start of its line`}},
		{"open code block", "#### Task A: a" + good + "\n```\n#### Task B: b\n",
			[]string{`5: the code block is never closed | end it with a line of the same marks`}},
		{"open comment", "#### Task A: a" + good + "\n<!-- more\n#### Task B: b\n",
			[]string{`5: the comment is never closed | end it with "-->"`}},
		{"no UTF-8", "#### Task A: a\n\xff" + good,
			[]string{`2: the line is not valid UTF-8 | save the file as UTF-8`}},
		{"too big", strings.Repeat("x", MaxBytes+1),
			[]string{`1: the plan has more than 8388608 bytes | check that this is the right file, or split the plan into several files`}},
		{"too deep", "\n" + strings.Repeat("> ", 1000),
			[]string{`2: the line begins with more than 1000 list or quote marks | check that this is the right file`}},
		{"too many definitions", strings.Repeat("[a]: b\n", 10_001),
			[]string{`10001: there are more than 10000 definitions of links | check that this is the right file, or split the plan into several files`}},
		{"too many tasks", strings.Repeat("# Task A: a\n", MaxTasks+1),
			[]string{`10001: there are more than 10000 tasks | split the plan into several files`}},
		{"hostile text", "#### Task A\x1b[2J\u202e: a\n**Priority**: \x1b]0;x\x07" + good,
			[]string{`1: id "A\x1b[2J\u202e": must be letters, digits, '.', '_' and '-', and begin with a letter or a digit | write "#### Task ID: title" with an id such as T1 or 1.2`,
				`2: "\x1b]0;x\a" is not a priority | write high, medium, low, or a whole number from -1000 to 1000`}},
	} {
		t.Run(test.name, func(t *testing.T) {
			var got []string
			for _, f := range faultsOf(t, test.text, nil) {
				got = append(got, fmt.Sprintf("%d: %s | %s", f.Line, f.Text, f.Hint))
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
		})
	}
}

func TestErrorFormat(t *testing.T) {
	_, err := Parse("a\nb.md", []byte("#### Task R-1: a\n\n#### Task Q-7: b\n"),
		&Options{Drafts: true})
	want := `a\nb.md:1: the id "R-1" is reserved for signalbox` + "\n" +
		`a\nb.md:3: the id "Q-7" is reserved for signalbox`
	if err == nil || err.Error() != want {
		t.Errorf("got %v", err)
	}
}

func TestDraftsOption(t *testing.T) {
	text := []byte("#### Task A: a\n\n#### Task B: b" + good)
	plan, err := Parse("plan.md", text, &Options{Drafts: true})
	if err != nil || !plan.Tasks[0].Draft || plan.Tasks[1].Draft {
		t.Fatalf("%+v, %v", plan, err)
	}
	if faults := faultsOf(t, string(text), &Options{}); len(faults) != 1 || faults[0].Line != 1 {
		t.Errorf("%+v", faults)
	}
}

// Front matter cannot keep the YAML parser busy: it is short, and aliases are not written out.
func TestHostileFrontMatter(t *testing.T) {
	bomb := "a0: &a0 [x,x,x,x,x,x,x,x,x,x]\n"
	for i := 1; i < 12; i++ {
		bomb += fmt.Sprintf("a%d: &a%d [%s]\n", i, i,
			strings.TrimSuffix(strings.Repeat(fmt.Sprintf("*a%d,", i-1), 10), ","))
	}
	_, err := Parse("plan.md", []byte("---\n"+bomb+"id: *a11\n---\n#### Task T1: one"+good), nil)
	if err == nil || !strings.Contains(err.Error(), "the id of the plan is not valid") {
		t.Errorf("an alias as the id: %v", err)
	}
	p, err := Parse("plan.md", []byte("---\n"+bomb+"id: sprint-2\n---\n#### Task T1: one"+good),
		nil)
	if err != nil || p.ID != "sprint-2" {
		t.Errorf("aliases in other keys: %+v, %v", p, err)
	}
	_, err = Parse("plan.md", []byte("---\na: "+strings.Repeat("[", 100_000)+
		"\n---\n#### Task T1: one"+good), nil)
	// it is a heading between two lines
	if err == nil || !strings.Contains(err.Error(), "invalid name of the plan") {
		t.Errorf("deep nesting: %v", err)
	}
}
