package plan

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/yuin/goldmark/ast"

	"signalbox"
	"signalbox/internal/lazy"
	"signalbox/internal/text"
)

// A heading that was probably meant to be that of a task, but is not one, is refused: otherwise its
// task would silently be missing from the run.
var (
	// glued is "Task-3: title", "Task3 title" or "Task #3: title".
	glued = lazy.Regexp(`(?i)^task(?:[-_.]*#?(\d[\w.-]*)|[-_.#]+([\w.-]+):)\s*[:.)–—-]?\s*(.*)$`)
	// numbered is a number with a mark before or after it, "2. title", "#2 title", "2 - title"; an
	// id with a digit, "T2: title"; or a word of trackers with a number, "Step 2: title".
	numbered = lazy.Regexp(`(?i)^(?:(?:todo|step|story|item|ticket|issue|feature|bug)\s+)?` +
		`(?:#(\d+)[:.)]?|[([](\d+)[)\]]:?|(\d+(?:\.\d+)*)(?:[:.)]|\s+[-–—])|` +
		`([a-z]+[-_.]?\d[\w.-]*)(?::|\s+[-–—]))\s+(.+)$`)
	// box is an item of a task list as a heading, "[ ] title".
	box = lazy.Regexp(`^\[[ xX]?\]\s+()(.+)$`)
)

// likelyTask returns the id and the title of a heading that was probably meant to be that of a task
// wherever it is in the file: it begins with something that is almost the word "task".
func likelyTask(heading string) (id, title string, ok bool) {
	word, rest, _ := strings.Cut(heading, " ")
	id, title, colon := strings.Cut(rest, ":")
	if id = strings.TrimSpace(id); text.EditDistance(strings.ToLower(word), "task") == 1 && colon &&
		signalbox.CheckID(id) == nil {
		return id, strings.TrimSpace(title), true
	}
	return match(glued(), heading)
}

// numberedLikeTask returns the id and the title of a heading that looks like one of a list of
// tasks. Sections of a document are numbered too, so it counts only at the level of the tasks.
func numberedLikeTask(heading string) (id, title string, ok bool) {
	for _, form := range []*regexp.Regexp{numbered(), box()} {
		if id, title, ok = match(form, heading); ok {
			return id, title, true
		}
	}
	return "", "", false
}

// splitHeading returns the id and the title of a heading with the sections of a task below it.
func splitHeading(heading string) (id, title string) {
	if id, title, ok := numberedLikeTask(heading); ok {
		return id, title
	}
	if id, title, colon := strings.Cut(heading, ":"); colon && len(strings.Fields(id)) == 1 {
		return id, strings.TrimSpace(title)
	}
	return "", heading
}

// match returns the id and the title that a form finds: its last group is the title, and one of the
// others the id.
func match(form *regexp.Regexp, heading string) (id, title string, ok bool) {
	found := form.FindStringSubmatch(heading)
	if found == nil {
		return "", "", false
	}
	groups := found[1:]
	for _, g := range groups[:len(groups)-1] {
		id += strings.TrimRight(g, ":.")
	}
	return id, strings.TrimSpace(groups[len(groups)-1]), true
}

// misspelledTask reports a heading that is probably that of a task, and ends the task before it.
func (o *outline) misspelledTask(n *ast.Heading, id, title string) {
	o.endTask(n)
	o.stray = nil
	o.almostTask(n, id, title)
}

// almostTask reports a heading that is probably that of a task.
func (o *outline) almostTask(n *ast.Heading, id, title string) {
	plain, level := o.plain(n), n.Level
	if o.taskLevel > 0 {
		level = o.taskLevel
	}
	if id == "" || signalbox.CheckID(id) != nil {
		id = "ID"
	}
	if title == "" {
		title = "title"
	}
	o.fault(n.Pos(), fmt.Sprintf(`write "%s Task %s: %s"`, hashes(level), id,
		text.Printable(text.Shorten(title, 60))),
		"the heading %s looks like a task, but does not begin with Task", quote(plain))
}

// checkNumbered reports numbered headings at the level of the tasks. The level is known only when
// the whole file was read.
func (o *outline) checkNumbered() {
	for _, n := range o.numbered {
		reported := slices.ContainsFunc(o.faults,
			func(f Fault) bool { return f.Line == o.line(n.Pos()) })
		if n.Level != o.taskLevel || reported {
			continue
		}
		id, title, _ := numberedLikeTask(o.plain(n))
		o.almostTask(n, id, title)
	}
}
