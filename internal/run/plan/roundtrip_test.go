package plan

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"signalbox/internal/testkit/must"
	"signalbox/internal/testkit/property"
	"signalbox/internal/text"
)

// genPlan draws plans whose texts are Markdown.
func genPlan(t *rapid.T) *Plan {
	word := rapid.StringMatching(`[a-zA-Zäß日][a-z0-9]{0,5}`).Filter(
		func(s string) bool { return !isNone(s) })
	sentence := rapid.Custom(func(t *rapid.T) string {
		words := rapid.SliceOfN(rapid.OneOf(word,
			rapid.SampledFrom([]string{"*really*", "`a, b`", "**Priority**:", "<b>x</b>", "&amp;",
				"\\#", "[a](b)", "\u202e", "1."})), 0, 5).Draw(t, "words")
		return strings.Join(append([]string{word.Draw(t, "first")}, words...), " ")
	})
	letters := rapid.StringOfN(rapid.RuneFrom([]rune("ab Z*_`<>&;:#[]()\\!-~日\"'.,1")), 1, 20, -1)
	title := rapid.Map(letters,
		func(s string) string { return strings.Join(strings.Fields(s+"t"), " ") })
	block := rapid.OneOf(sentence, rapid.Just("- a\n- b"), rapid.Just("```\n#### Task X: x\n```"),
		rapid.Just("> **Work**: quoted"), rapid.Just("##### More"))
	path := rapid.StringMatching(`[a-z_]{1,6}(/[a-z_]{1,6}){0,2}\.go`)
	p := &Plan{Name: title.Draw(t, "name")}
	phase := ""
	for i := range rapid.IntRange(1, 6).Draw(t, "tasks") {
		if rapid.Bool().Draw(t, "new phase") {
			phase = fmt.Sprintf("%d: %s", i, title.Draw(t, "phase"))
		}
		task := Task{ID: fmt.Sprintf("T%d", i), Title: title.Draw(t, "title"), Phase: phase,
			Work:         strings.Join(rapid.SliceOfN(block, 0, 3).Draw(t, "work"), "\n\n"),
			Criteria:     rapid.SliceOfN(sentence, 0, 3).Draw(t, "criteria"),
			Reading:      rapid.SliceOfN(path, 0, 2).Draw(t, "reading"),
			Environments: rapid.SliceOfNDistinct(word, 0, 2, rapid.ID).Draw(t, "environments"),
			Files:        rapid.SliceOfNDistinct(path, 0, 2, rapid.ID).Draw(t, "files"),
			Priority:     rapid.IntRange(-maxPriority, maxPriority).Draw(t, "priority"),
		}
		for j := range i {
			if rapid.Bool().Draw(t, "blocked") {
				task.BlockedBy = append(task.BlockedBy, fmt.Sprintf("T%d", j))
			}
		}
		if rapid.Bool().Draw(t, "budget") {
			task.Budget = &Budget{rapid.Int64Range(0, 1e12).Draw(t, "tokens"),
				rapid.Int64Range(1, 1e12).Draw(t, "cost"),
				time.Duration(rapid.Int64Range(0, 1e12).Draw(t, "time"))}
		}
		if rapid.Bool().Draw(t, "notes") {
			task.Notes = "**Some Notes**: " + sentence.Draw(t, "notes")
		}
		task.Draft = len(task.Criteria) == 0
		p.Tasks = append(p.Tasks, task)
	}
	return p
}

func escapeTitle(s string) string {
	var b strings.Builder
	for _, r := range s {
		if strings.ContainsRune("*_`<>&;:#[]()\\!-~\"'.,", r) {
			b.WriteByte('\\')
		}
		b.WriteRune(r)
	}
	return b.String()
}

// render formats a plan with labels in paragraphs, or in a list.
func render(p *Plan, list bool) string {
	var b strings.Builder
	fmt.Fprintf(&b, "# %s\n\n", escapeTitle(p.Name))
	phase := ""
	for _, t := range p.Tasks {
		if t.Phase != phase {
			phase = t.Phase
			number, name, _ := strings.Cut(phase, ": ")
			fmt.Fprintf(&b, "### Phase %s: %s\n\n", number, escapeTitle(name))
		}
		fmt.Fprintf(&b, "#### Task %s: %s\n\n", t.ID, escapeTitle(t.Title))
		section := func(label, text string) {
			if text == "" {
				return
			}
			if label != "" {
				text = "**" + label + "**:\n\n" + text
			}
			if list {
				text = "- " + strings.ReplaceAll(text, "\n", "\n  ")
			}
			b.WriteString(text + "\n\n")
		}
		section("Work", t.Work)
		criteria := ""
		for _, c := range t.Criteria {
			criteria += "- [ ] " + c + "\n"
		}
		section("Acceptance Criteria", strings.TrimSuffix(criteria, "\n"))
		section("Blocked By", strings.Join(append([]string{}, t.BlockedBy...), ", "))
		section("Required Reading", strings.Join(t.Reading, "\n"))
		section("Environments", strings.Join(t.Environments, ", "))
		section("Target Files", strings.Join(t.Files, ", "))
		section("Priority", fmt.Sprint(t.Priority))
		if t.Budget != nil {
			amounts := fmt.Sprintf("$%d.%06d", t.Budget.CostMicros/1e6, t.Budget.CostMicros%1e6)
			if t.Budget.Tokens > 0 {
				amounts += fmt.Sprintf(", %d tokens", t.Budget.Tokens)
			}
			if t.Budget.Time > 0 {
				amounts += ", " + t.Budget.Time.String()
			}
			section("Budget", amounts)
		}
		section("", t.Notes)
	}
	return b.String()
}

// TestRoundTrip checks that parsing a formatted plan gives the same plan.
func TestRoundTrip(t *testing.T) {
	property.Check(t, func(t *rapid.T) {
		want := genPlan(t)
		text := render(want, rapid.Bool().Draw(t, "list"))
		got, err := Parse("plan.md", []byte(text), &Options{Drafts: true})
		if err != nil {
			t.Fatalf("%v\n%s", err, text)
		}
		if diff := cmp.Diff(want, got, cmpopts.IgnoreFields(Task{}, "Line"),
			cmpopts.EquateEmpty()); diff != "" {
			t.Fatalf("(-want +got)\n%s\n%s", diff, text)
		}
		for _, task := range got.Tasks {
			if line := strings.Split(text, "\n")[task.Line-1]; !strings.HasPrefix(line,
				"#### Task "+task.ID+":") {
				t.Fatalf("task %s is not on line %d:\n%s", task.ID, task.Line, text)
			}
		}
	})
}

func FuzzParse(f *testing.F) {
	example, err := os.ReadFile("../../../examples/plan.md")
	must.Succeed(f, err)
	f.Add(example)
	seeds, err := filepath.Glob("testdata/*.md")
	if err != nil || len(seeds) == 0 {
		f.Fatal("there are no plans in testdata", err)
	}
	for _, name := range seeds {
		text, err := os.ReadFile(name)
		must.Succeed(f, err)
		f.Add(text)
	}
	for _, text := range []string{"#### Task A: a\n- **Work**:\n\t- x\n**Blocked By**: A\n",
		"Task A: a\n===\n---\nx\n---\n",
		"# Task A:a\n-\n  **Work**\n", "#### Task A: a\n**Work**", "####\n#### Task",
		"#### Task A: a\n> - **Budget**: 1\n **Work**:\r\r"} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, source []byte) {
		opts := &Options{Drafts: true}
		plan, err := Parse("plan.md", source, opts)
		again, errAgain := Parse("plan.md", source, opts)
		if diff := cmp.Diff(plan, again); diff != "" || fmt.Sprint(err) != fmt.Sprint(errAgain) {
			t.Fatalf("parsing twice gives different results: %s\n%v\n%v", diff, err, errAgain)
		}
		lines := 1 + bytes.Count(source, []byte("\n")) + bytes.Count(source, []byte("\r"))
		if wrong := (*Error)(nil); errors.As(err, &wrong) {
			for _, fault := range wrong.Faults {
				if fault.Line < 1 || fault.Line > lines || fault.Text == "" || fault.Hint == "" ||
					text.Printable(fault.Text) != fault.Text {
					t.Fatalf("of %d lines: %+v", lines, fault)
				}
			}
			return
		}
		if err != nil || len(plan.Tasks) == 0 || len(plan.Order()) != len(plan.Tasks) ||
			len(plan.Startable()) == 0 {
			t.Fatalf("%+v, %v", plan, err)
		}
		checkShown(t, plan)
		if _, err := json.Marshal(plan); err != nil {
			t.Fatal(err)
		}
	})
}
