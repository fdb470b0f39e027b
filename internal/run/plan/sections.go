package plan

import (
	"fmt"
	"strings"
)

// Sections returns the sections of a task that say what is to be done, in Markdown as in a plan:
// without the heading, and without the settings of the run such as the priority.
func (t *Task) Sections() string {
	var parts []string
	list := func(label, bullet string, items []string) {
		if len(items) == 0 {
			return
		}
		part := fmt.Sprintf("**%s**\n", label)
		for _, item := range items {
			part += "\n" + bullet + strings.ReplaceAll(item, "\n", "\n  ")
		}
		parts = append(parts, part)
	}
	if t.Work != "" {
		parts = append(parts, fmt.Sprintf("**%s**: %s", labelWork, t.Work))
	}
	list(labelCriteria, "- [ ] ", t.Criteria)
	list(labelReading, "- ", t.Reading)
	list(labelFiles, "- ", t.Files)
	for _, line := range []struct {
		label string
		items []string
	}{{labelEnvironments, t.Environments}, {labelBlockedBy, t.BlockedBy}} {
		if len(line.items) > 0 {
			parts = append(parts,
				fmt.Sprintf("**%s**: %s", line.label, strings.Join(line.items, ", ")))
		}
	}
	if t.Notes != "" {
		parts = append(parts, t.Notes)
	}
	return strings.Join(parts, "\n\n")
}
