package plan

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"signalbox/internal/text"
)

// The maximum widths of the columns of titles and blockers. Longer texts push the rest of the line
// to the right.
const (
	maxTitle = 44
	maxWaits = 20
)

// Summary describes the size of the plan and how much of it can run in parallel.
func (p *Plan) Summary() string {
	phases := ""
	if n := len(p.Phases()); n > 0 {
		phases = " in " + text.Count(n, "phase")
	}
	return fmt.Sprintf("%s%s, %d can start at once, longest chain %d",
		text.Count(len(p.Tasks), "task"), phases, len(p.Startable()), len(p.LongestChain()))
}

// Text returns the graph for a terminal: the tasks of each phase with the tasks that they wait for
// and unblock.
func (p *Plan) Text() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s\n%s\n", text.Printable(p.Name), p.Summary())
	net := p.network()
	idWidth, titleWidth, waitWidth := 0, 0, 0
	for i, t := range p.Tasks {
		idWidth = max(idWidth, utf8.RuneCountInString(text.Printable(t.ID)))
		titleWidth = max(titleWidth, min(maxTitle, utf8.RuneCountInString(title(t))))
		waitWidth = max(waitWidth, min(maxWaits, utf8.RuneCountInString(p.waits(net.before[i]))))
	}
	phase := ""
	for i, t := range p.Tasks {
		if i == 0 || t.Phase != phase {
			phase = t.Phase
			b.WriteString("\n")
			if phase != "" {
				fmt.Fprintf(&b, "Phase %s\n", text.Printable(phase))
			}
		}
		start := " "
		if len(t.BlockedBy) == 0 {
			start = "▶"
		}
		line := fmt.Sprintf("  %s %s  %s  %s", start, pad(text.Printable(t.ID), idWidth),
			pad(title(t), titleWidth),
			pad(p.waits(net.before[i]), waitWidth))
		if len(net.after[i]) > 0 {
			line += "  → " + p.ids(net.after[i])
		}
		b.WriteString(strings.TrimRight(line, " ") + "\n")
	}
	b.WriteString("\n▶ can start at once   ← waits for   → unblocks\n")
	if chain := p.LongestChain(); len(chain) > 1 {
		fmt.Fprintf(&b, "\nLongest chain  %s\n", joinSome(chain, " → "))
	}
	fmt.Fprintf(&b, "One at a time  %s\n", joinSome(p.Order(), ", "))
	return b.String()
}

// maxJoined is how many ids a line lists. The list of tasks has the others.
const maxJoined = 30

func joinSome(ids []string, separator string) string {
	more := ""
	if n := len(ids) - maxJoined; n > 0 {
		ids, more = ids[:maxJoined], fmt.Sprintf("%s… (%d more)", separator, n)
	}
	return text.Printable(strings.Join(ids, separator)) + more
}

// title returns the title of a task with its priority and whether it is a draft.
func title(t Task) string {
	s := text.Printable(t.Title)
	switch {
	case t.Priority > 0:
		s += " (high priority)"
	case t.Priority < 0:
		s += " (low priority)"
	}
	if t.Draft {
		s += " (draft)"
	}
	return s
}

// waits lists the tasks that a task waits for.
func (p *Plan) waits(tasks []int) string {
	if len(tasks) == 0 {
		return ""
	}
	return "← " + p.ids(tasks)
}

func (p *Plan) ids(tasks []int) string {
	ids := make([]string, len(tasks))
	for i, task := range tasks {
		ids[i] = text.Printable(p.Tasks[task].ID)
	}
	return strings.Join(ids, ", ")
}

func pad(s string, width int) string {
	return s + strings.Repeat(" ", max(0, width-utf8.RuneCountInString(s)))
}
