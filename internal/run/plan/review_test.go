package plan

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"signalbox/internal/core/rules"
)

// A task names the review that it needs, or the plan does for all tasks that name none. Agents are
// not told.
func TestReview(t *testing.T) {
	p, err := Parse("plan.md", []byte("# Plan\n\nText.\n\n**Review**: critic\n\nMore.\n\n"+
		"#### Task A: a\n**Review**: Checks."+good+"\n#### Task B: b"+good+
		"\n#### Task C: c\n\n- **Review**: full\n- **Acceptance Criteria**: done\n"), nil)
	if err != nil {
		t.Fatal(err)
	}
	var got []rules.Review
	for _, task := range p.Tasks {
		got = append(got, task.Review)
		if strings.Contains(task.Sections(), "eview") {
			t.Errorf("agents are told: %s", task.Sections())
		}
	}
	want := []rules.Review{rules.ReviewChecks, rules.ReviewCritic, rules.ReviewFull}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	if p.Introduction != "Text.\n\n\nMore." {
		t.Errorf("introduction %q", p.Introduction)
	}
	for source, want := range map[string]string{
		"#### Task A: a\n**Review**: none" + good:                       `2: "none" is not a review | ` + ReviewHint,
		"**Review**: x\n\n#### Task A: a" + good:                        `1: "x" is not a review | ` + ReviewHint,
		"**Review**: full\n\n**Review**: full\n\n#### Task A: a" + good: `3: the label "Review" is used twice, first on line 1 | keep one of them`,
		"#### Task A: a" + good + "\n#### Notes\n\n**Review**: checks\n": `7: the label "Review" has no effect here | ` +
			"move it below the heading of a task, or above the first phase and task",
		"### Phase 1: x\n\n**Review**: checks\n\n#### Task A: a" + good: `3: the label "Review" is under a phase, where it has no effect | move it below the heading of each task that it applies to`,
	} {
		var got []string
		for _, f := range faultsOf(t, source, nil) {
			got = append(got, fmt.Sprintf("%d: %s | %s", f.Line, f.Text, f.Hint))
		}
		if diff := cmp.Diff([]string{want}, got); diff != "" {
			t.Errorf("%q (-want +got)\n%s", source, diff)
		}
	}
}
