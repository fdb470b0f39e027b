package plan

import (
	"strings"
	"testing"

	"pgregory.net/rapid"

	"signalbox"
	"signalbox/internal/testkit/must"
	"signalbox/internal/testkit/property"
)

func TestSkeleton(t *testing.T) {
	text, err := Skeleton("A *new* plan_for # `us`")
	must.Succeed(t, err)
	p, err := Parse("plan.md", text, nil)
	if err != nil || len(p.Tasks) != 2 || p.Name != "A *new* plan_for # `us`" ||
		strings.Contains(p.Introduction, "<!--") {
		t.Errorf("%+v, %v", p, err)
	}
	for _, title := range []string{"", " ", "Task T9: x", "Phase 1: x", "Plan x: y",
		"a\n#### Task T9: b", "\x1b[2J", "\xff", strings.Repeat("x", 5000)} {
		if _, err := Skeleton(title); signalbox.CodeOf(err) != signalbox.CodeUsage ||
			signalbox.HintOf(err) == "" {
			t.Errorf("%q: %v", title, err)
		}
	}
}

// TestAnyTitle checks that a title is refused or is the name of the plan, and never changes its
// tasks.
func TestAnyTitle(t *testing.T) {
	property.Check(t, func(t *rapid.T) {
		title := strings.Join(
			rapid.SliceOfN(rapid.OneOf(rapid.SampledFrom([]string{"Task ", "T1", ": ", "#", "`",
				"**Work**", "\\", "&lt;", "\n", "- "}), rapid.String()), 0, 6).Draw(t, "title"), "")
		text, err := Skeleton(title)
		if err != nil {
			return
		}
		if p, err := Parse("plan.md", text, nil); err != nil || len(p.Tasks) != 2 {
			t.Fatalf("%+v, %v", p, err)
		}
	})
}
