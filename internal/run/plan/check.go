package plan

import (
	"fmt"
	"strconv"
	"strings"

	"signalbox/internal/text"
)

// graphCheck finds errors in the relations between tasks.
type graphCheck struct {
	tasks    []Task
	blockers [][]blocker // of each task
}

// maxSuggestions limits how many unknown blockers get a suggestion, because each suggestion
// compares all tasks.
const maxSuggestions = 20

func (g *graphCheck) faults() []Fault {
	byID, found := g.index()
	graph := make([][]int, len(g.tasks))
	suggestions := maxSuggestions
	free := len(g.tasks) == 0
	for i, t := range g.tasks {
		free = free || len(g.blockers[i]) == 0
		for _, b := range g.blockers[i] {
			j, known := byID[b.id]
			switch {
			case b.id == t.ID:
				found = append(found,
					Fault{b.line, fmt.Sprintf("task %s is blocked by itself", quote(t.ID)),
						"remove " + t.ID + ", or write none"})
			case known:
				graph[i] = append(graph[i], j)
			default:
				hint := "write the id of a task of this plan, or none"
				if suggestions > 0 {
					suggestions--
					hint = g.suggest(b.id, hint)
				}
				found = append(found,
					Fault{b.line, fmt.Sprintf("task %s is blocked by %s, which is not in the plan",
						quote(t.ID), quote(b.id)), hint})
			}
		}
	}
	for _, cycle := range cycles(graph) {
		found = append(found, g.cycleFault(cycle))
	}
	if !free {
		found = append(found, Fault{g.tasks[0].Line, "no task can start: each waits for another",
			`write "**Blocked By**: none" in the first task`})
	}
	return found
}

// index maps ids to tasks. Ids that differ only in case are faults, because some systems have one
// file or branch for both.
func (g *graphCheck) index() (map[string]int, []Fault) {
	byID, byFold := map[string]int{}, map[string]int{}
	var found []Fault
	for i, t := range g.tasks {
		if t.ID == "" {
			continue
		}
		first, folds := byFold[strings.ToLower(t.ID)]
		switch {
		case folds && g.tasks[first].ID == t.ID:
			found = append(found,
				Fault{t.Line, fmt.Sprintf("the id %s is used twice, on lines %d and %d",
					quote(t.ID), g.tasks[first].Line, t.Line),
					"give one of the tasks a different id"})
			continue
		case folds:
			found = append(found,
				Fault{t.Line, fmt.Sprintf(
					"the ids %s on line %d and %s on line %d differ only in case",
					quote(g.tasks[first].ID), g.tasks[first].Line, quote(t.ID), t.Line),
					"give one of the tasks a different id"})
		default:
			byFold[strings.ToLower(t.ID)] = i
		}
		byID[t.ID] = i
	}
	return byID, found
}

// suggest returns a hint with the id that is most similar to an unknown one, or otherwise if none
// is.
func (g *graphCheck) suggest(unknown, otherwise string) string {
	best, least := "", max(1, len(unknown)/3)
	for _, t := range g.tasks {
		if t.ID == "" {
			continue
		}
		d := text.EditDistance(strings.ToLower(t.ID), strings.ToLower(unknown))
		if d < least || d == least && best == "" {
			best, least = t.ID, d
		}
	}
	if best == "" {
		return otherwise
	}
	return "did you mean " + text.Printable(best) + "?"
}

func (g *graphCheck) cycleFault(cycle []int) Fault {
	var way []string
	for _, i := range append(cycle, cycle[0]) {
		way = append(way, fmt.Sprintf("%s (line %d)", text.Printable(g.tasks[i].ID),
			g.tasks[i].Line))
	}
	line := g.tasks[cycle[0]].Line
	for _, b := range g.blockers[cycle[0]] {
		if b.id == g.tasks[cycle[1]].ID {
			line = b.line
		}
	}
	return Fault{line, "tasks wait for each other in a cycle: " + strings.Join(way, " → "),
		"remove one of these ids from the Blocked By section of the task before it"}
}

// maxQuoted is how many characters of a plan's text an error repeats.
const maxQuoted = 60

// quote returns text of a plan for an error: short, escaped, and in quotes.
func quote(s string) string { return strconv.Quote(text.Shorten(s, maxQuoted)) }
