package plan

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"signalbox"
	"signalbox/internal/core/rules"
	"signalbox/internal/text"
)

// taskReader parses the sections of one task.
type taskReader struct {
	md       markdown
	task     Task
	blockers []blocker // BlockedBy with lines
	faults   []Fault
	reviewed bool // the task names the review that it needs
}

// ReviewHint is the hint for a review that does not exist.
const ReviewHint = "write full (critic and auditor), critic, or checks (neither)"

func parseReview(text string) (rules.Review, bool) {
	return rules.ParseReview(strings.ToLower(strings.TrimSuffix(strings.TrimSpace(text), ".")))
}

type blocker struct {
	id   string
	line int
}

func (r *taskReader) fault(line int, hint, format string, args ...any) {
	r.faults = append(r.faults, Fault{line, fmt.Sprintf(format, args...), hint})
}

func (r *taskReader) read(sections []section, opts Options) {
	r.checkID()
	var notes []string
	intro := ""
	seen := map[string]int{}
	for i, s := range sections {
		switch first := seen[s.known]; {
		case s.written == "":
			intro = s.text
		case s.known == "":
			notes = append(notes, s.whole)
			if i > 0 && sections[i-1].known == labelCriteria && r.md.hasCheckbox(s.text) {
				r.fault(s.line, "write all criteria in one list, without a label between them",
					"the label %s ends the acceptance criteria, but a task list follows",
					quote(s.written))
			}
		case first > 0:
			r.fault(s.line, "merge the sections", "the label %s is used twice, first on line %d",
				quote(s.written), first)
		default:
			seen[s.known] = s.line
			r.section(s)
		}
	}
	switch {
	case seen[labelWork] == 0:
		r.task.Work = intro
	case intro != "":
		notes = slices.Insert(notes, 0, intro)
	}
	if err := (rules.PlanTask{Title: r.task.Title, BlockedBy: r.task.BlockedBy,
		Files: r.task.Files}).CheckText(); err != nil {
		r.faults = append(r.faults, faultOf(r.task.Line, err))
	}
	r.task.Notes = strings.Join(notes, "\n\n")
	r.task.Draft = len(r.task.Criteria) == 0
	if r.task.Draft && !opts.Drafts &&
		!slices.ContainsFunc(r.faults,
			func(f Fault) bool { return f.Line == seen[labelCriteria] }) {
		r.fault(r.task.Line,
			`write "**Acceptance Criteria**:" and below it a list such as "- [ ] the tests pass"`,
			"task %s has no acceptance criteria", quote(r.task.ID))
	}
}

// checkID reports an id that is not valid or reserved. An empty id has been reported with the
// heading.
func (r *taskReader) checkID() {
	id := r.task.ID
	if id == "" {
		return
	}
	if err := signalbox.CheckID(id); err != nil {
		r.fault(r.task.Line, `write "#### Task ID: title" with an id such as T1 or 1.2`, "%s",
			text.Printable(err.Error()))
		return
	}
	if kind, number, ok := strings.Cut(id, "-"); ok && len(kind) == 1 &&
		strings.ContainsAny(kind, "RXQBrxqb") &&
		number != "" && strings.Trim(number, "0123456789") == "" {
		r.fault(r.task.Line, "choose another id, such as T"+number,
			"the id %s is reserved for signalbox", quote(id))
	}
	if isNone(id) {
		r.fault(r.task.Line, "choose another id, such as T1",
			"the id %s is reserved: in Blocked By it means no blocker", quote(id))
	}
}

func isNone(s string) bool { return strings.EqualFold(strings.TrimSuffix(s, "."), "none") }

func (r *taskReader) section(s section) {
	if s.fault != nil {
		return // reported already
	}
	t := &r.task
	switch s.known {
	case labelWork:
		t.Work = s.text
	case labelCriteria:
		for _, v := range r.md.values(s) {
			if v.text == "" {
				r.fault(v.line, "write the criterion, or delete the line",
					"the acceptance criterion is empty")
				continue
			}
			t.Criteria = append(t.Criteria, v.text)
		}
		if len(t.Criteria) == 1 && isNone(t.Criteria[0]) {
			t.Criteria = nil
		}
	case labelBlockedBy:
		r.readBlockers(s)
	case labelReading:
		t.Reading = r.readReading(s)
	case labelEnvironments:
		for _, p := range r.pieces(s, "a name such as linux") {
			t.Environments = append(t.Environments, p.name())
		}
		t.Environments = unique(t.Environments)
	case labelFiles:
		r.readFiles(s)
	case labelPriority:
		n, ok := parsePriority(s.text)
		if !ok {
			r.fault(s.line, "write high, medium, low, or a whole number from -1000 to 1000",
				"%s is not a priority", quote(s.text))
		}
		t.Priority = n
	case labelReview:
		review, ok := parseReview(s.text)
		if !ok {
			r.fault(s.line, ReviewHint, "%s is not a review", quote(s.text))
		}
		t.Review, r.reviewed = review, true
	case labelBudget:
		b, ok := parseBudget(s.text)
		if !ok {
			r.fault(s.line, `write amounts such as "200000 tokens, $5, 30m", each at most once`,
				"%s is not a budget", quote(s.text))
		}
		t.Budget = b
	}
}

func unique(list []string) []string {
	seen := map[string]bool{}
	return slices.DeleteFunc(list, func(s string) bool {
		again := seen[s]
		seen[s] = true
		return again
	})
}

// pieces returns the entries of a section that is a list of names, or nil for "none". An empty
// section is a fault, because something may have been forgotten.
func (r *taskReader) pieces(s section, what string) []piece {
	var found []piece
	for _, v := range r.md.values(s) {
		if v.pieces == nil && v.text != "" {
			r.fault(v.line, "write "+what+" alone", "%s is more than one name", quote(v.text))
			return nil
		}
		found = append(found, v.pieces...)
	}
	if len(found) == 1 && isNone(found[0].name()) {
		return nil
	}
	found = slices.DeleteFunc(found, func(p piece) bool { return p.name() == "" })
	if len(found) == 0 {
		r.fault(s.line, "write "+what+", or none", "the section %s is empty", quote(s.written))
	}
	return found
}

func (r *taskReader) readBlockers(s section) {
	const form = "write ids separated by commas, such as T1, T2, or none"
	seen := map[string]bool{}
	for _, p := range r.pieces(s, "an id such as T1") {
		id := p.text()
		if rest, ok := keyword(id, "task"); ok && rest != "" {
			id = rest
		}
		switch err := signalbox.CheckID(id); {
		case isNone(id):
			r.fault(p.line, form, "Blocked By has both ids and none")
		case err != nil:
			r.fault(p.line, form, "%s is not the id of a task", quote(id))
		case !seen[id]:
			seen[id] = true
			r.task.BlockedBy = append(r.task.BlockedBy, id)
			r.blockers = append(r.blockers, blocker{id, p.line})
		}
	}
}

func (r *taskReader) readFiles(s section) {
	for _, p := range r.pieces(s, "a path such as cmd/main.go") {
		name := p.name()
		clean := path.Clean(strings.ReplaceAll(name, `\`, "/"))
		switch {
		case !p.marked() && strings.ContainsAny(name, " \t"):
			r.fault(p.line, "write the path alone, in backquotes if it has spaces",
				"%s is not a path", quote(name))
		case path.IsAbs(clean), clean == "..", strings.HasPrefix(clean, "../"), len(clean) > 1 &&
			clean[1] == ':':
			r.fault(p.line, "write the path from the top of the workspace, such as cmd/main.go",
				"the target file %s is outside the workspace", quote(name))
		default:
			r.task.Files = append(r.task.Files, clean)
		}
	}
	r.task.Files = unique(r.task.Files)
}

// readReading takes list items and lines verbatim, but splits a line that consists of paths
// separated by commas.
func (r *taskReader) readReading(s section) []string {
	var list []string
	for _, v := range r.md.values(s) {
		names, whole := v.pieces, v.item
		for _, p := range names {
			whole = whole || !p.marked() && strings.ContainsAny(p.name(), " \t")
		}
		switch {
		case len(names) == 1:
			list = append(list, names[0].name())
		case whole && v.item:
			list = append(list, v.text)
		case whole, names == nil:
			for line := range strings.Lines(v.text) {
				list = append(list, strings.TrimSpace(line))
			}
		default:
			for _, p := range names {
				list = append(list, p.name())
			}
		}
	}
	list = slices.DeleteFunc(list, func(s string) bool { return s == "" })
	if len(list) == 1 && isNone(list[0]) {
		return nil
	}
	return list
}
