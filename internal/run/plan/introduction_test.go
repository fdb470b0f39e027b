package plan

import (
	"strings"
	"testing"
)

func TestIntroduction(t *testing.T) {
	const taskText = "#### Task T1: title\n\n**Work**: do\n\n**Acceptance Criteria**\n\n- [ ] done\n"
	long := strings.Repeat("a line of the introduction\n", 1000)
	for source, want := range map[string]string{
		"# Name\n\nFirst.\n\n## Why\n\nBecause.\n\n" +
			taskText: "First.\n\n## Why\n\nBecause.",
		"# Name\n\nFirst.\n\n### Phase 1: one\n\nNot this.\n\n" + taskText: "First.",
		"Name\n====\n\nFirst.\n\n" + taskText:                              "First.",
		"---\nid: x\n---\n# Name\n\nFirst.\n\n" + taskText:                 "First.",
		"Before the name.\n\n" + taskText:                                  "Before the name.",
		"# Name\n\n" + taskText:                                            "",
		taskText:                                                           "",
		taskText + "\n# Name\n\nAfter the tasks.\n":                        "",
		"# Name\n\n" + long + "\n" +
			taskText: long[:maxIntroduction/27*27] + "…",
		"# Name\n\n" + strings.Repeat("é", 9000) + "\n\n" +
			taskText: strings.Repeat("é", (maxIntroduction-3)/2) + "…",
	} {
		p, err := Parse("plan.md", []byte(source), nil)
		if err != nil {
			t.Fatalf("%.60q: %v", source, err)
		}
		if p.Introduction != want || len(p.Introduction) > maxIntroduction {
			t.Errorf("%.60q: %.80q (%d bytes), want %.80q (%d bytes)", source, p.Introduction,
				len(p.Introduction), want, len(want))
		}
	}
}
