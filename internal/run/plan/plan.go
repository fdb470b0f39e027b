// Package plan parses plan files: Markdown that lists tasks, what each requires, and which tasks
// wait for which.
//
// A plan is CommonMark. The headings "### Phase N: name" and "#### Task ID: title" structure it.
// Other levels are allowed if all tasks have the same level and all phases the same higher one. A
// plan can have an id, as "id: sprint-2" in YAML front matter or in a heading "# Plan sprint-2:
// name". Below the heading of a task, bold labels at the start of a paragraph, a line or a list
// item introduce its sections:
//
//	**Work**: what is to be done, any Markdown
//	**Acceptance Criteria**: a list, best a task list
//	**Blocked By**: T1, T2          or none, or a list
//	**Required Reading**: paths, addresses or lines of text
//	**Environments**: linux, darwin
//	**Target Files**: paths inside the workspace
//	**Priority**: high, medium, low, or a whole number from -1000 to 1000 (high is 1, medium 0, low -1)
//	**Budget**: 200000 tokens, $5, 30m
//	**Review**: full, critic or checks; before the first task, for all that do not say
//
// The colon may be inside or outside the bold text, and is optional if the label is alone on its
// line. All sections except the criteria are optional. A section with any other label is a note,
// kept verbatim. Text before the first label is the work, or a note if a Work section follows.
// Headings and labels inside code blocks, quotes and HTML comments are ignored.
//
// A plan that is ambiguous is refused, because running a plan that was misread costs more than
// correcting it. All errors are reported at once, including those for which a box would refuse the
// plan. The package does no I/O. Texts are kept verbatim; the output of Text, SVG and the errors is
// safe for a terminal and a browser.
package plan

import (
	"bytes"
	"cmp"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"signalbox"
	"signalbox/internal/core/rules"
	"signalbox/internal/text"
)

// Limits of a plan file.
const (
	MaxBytes = 8 << 20
	MaxTasks = 10_000
	// maxMarkers limits how deep a line nests quotes and lists, maxDefinitions how many lines
	// define the target of a link, and maxLinkWork the number of links in a paragraph times its
	// length: for all, the time of the Markdown parser grows quadratically.
	maxMarkers     = 1000
	maxDefinitions = 10_000
	maxLinkWork    = 64 << 20
	// maxIntroduction bounds the introduction, because it is in every prompt.
	maxIntroduction = 8 << 10
)

// Plan is a plan file.
type Plan struct {
	// ID identifies the plan, from "id" in the front matter or from a heading "# Plan ID: name".
	// Empty means that it has none.
	ID string `json:"id,omitempty"`
	// Name is the text of the first heading of level 1 or 2 that is neither a phase nor a task.
	// Without one it is the base name of the file.
	Name string `json:"name"`
	// Introduction is the Markdown between that heading and the first phase or task, at most
	// maxIntroduction bytes.
	Introduction string `json:"introduction,omitempty"`
	// Tasks are in the order of the file.
	Tasks []Task `json:"tasks"`
}

// Task is one task of a plan. Equal tasks have equal JSON, byte for byte.
type Task struct {
	ID    string `json:"id"`
	Title string `json:"title"`
	// Phase is the number and name of the phase, such as "1: Foundations". Empty means none.
	Phase string `json:"phase,omitempty"`
	// Work is the Markdown of the Work section.
	Work string `json:"work,omitempty"`
	// Criteria are the acceptance criteria, each in Markdown.
	Criteria []string `json:"criteria,omitempty"`
	// BlockedBy are the ids of the tasks that must be completed first, in the order of the file.
	BlockedBy []string `json:"blocked_by,omitempty"`
	// Reading lists what the agent must read first: paths, addresses or lines of text.
	Reading      []string `json:"reading,omitempty"`
	Environments []string `json:"environments,omitempty"`
	// Files are the target files: clean slash-separated paths, relative to the workspace.
	Files []string `json:"files,omitempty"`
	// Priority is higher for tasks that should come first. Zero means medium.
	Priority int `json:"priority,omitempty"`
	// Budget is nil if the task does not have its own.
	Budget *Budget `json:"budget,omitempty"`
	// Review is which gates the task needs besides its checks.
	Review rules.Review `json:"review,omitempty"`
	// Notes are the sections with other labels, verbatim.
	Notes string `json:"notes,omitempty"`
	// Draft reports whether the task has no acceptance criteria, so that a business analyst must
	// expand it.
	Draft bool `json:"draft,omitempty"`
	// Line is the line of the heading.
	Line int `json:"-"`
}

// Budget limits the cost of a task. Zero means no limit.
type Budget struct {
	Tokens     int64         `json:"tokens,omitempty"`
	CostMicros int64         `json:"cost_micros,omitempty"` // millionths of a dollar
	Time       time.Duration `json:"time_ns,omitempty"`
}

// Options configure Parse.
type Options struct {
	// Drafts allows tasks without acceptance criteria, for runs with a business analyst who expands
	// them. False means that such a task is an error.
	Drafts bool
}

// Fault is one error in a plan.
type Fault struct {
	Line int    `json:"line"`
	Text string `json:"text"`
	Hint string `json:"hint"` // what to write instead
}

// Error lists all errors in a plan, in the order of the lines.
type Error struct {
	File   string
	Faults []Fault
}

// Error returns one fault per line, as "file:line: text".
func (e *Error) Error() string {
	lines := make([]string, len(e.Faults))
	for i := range e.Faults {
		lines[i] = e.Describe(i)
	}
	return strings.Join(lines, "\n")
}

// Describe returns fault i with its position, on one line.
func (e *Error) Describe(i int) string {
	return fmt.Sprintf("%s:%d: %s", text.Printable(e.File), e.Faults[i].Line, e.Faults[i].Text)
}

// Parse parses a plan. The name of the file is only for messages and for Plan.Name. Nil options
// mean the zero value. The error is a *signalbox.Error with CodeUsage that contains an *Error with
// all faults.
func Parse(name string, source []byte, opts *Options) (*Plan, error) {
	if opts == nil {
		opts = &Options{}
	}
	plan, faults := parse(name, source, *opts)
	if len(faults) == 0 {
		return plan, nil
	}
	slices.SortStableFunc(faults, func(a, b Fault) int { return a.Line - b.Line })
	hint := faults[0].Hint
	if len(faults) > 1 {
		hint = fmt.Sprintf("correct the %d faults; signalbox plan check shows a hint for each",
			len(faults))
	}
	return nil, &signalbox.Error{Code: signalbox.CodeUsage, Err: &Error{File: name, Faults: faults},
		Hint: hint}
}

func parse(name string, source []byte, opts Options) (*Plan, []Fault) {
	if fault := checkText(source); fault != nil {
		return nil, []Fault{*fault}
	}
	source = bytes.TrimPrefix(source, []byte("\ufeff"))
	source = bytes.ReplaceAll(source, []byte("\r\n"), []byte("\n"))
	source = bytes.ReplaceAll(source, []byte("\r"), []byte("\n"))
	source = bytes.ReplaceAll(source, []byte{0}, []byte("\ufffd")) // as CommonMark requires
	id, source, fault := cutFrontMatter(source)
	if fault != nil {
		return nil, []Fault{*fault}
	}
	md := newMarkdown()
	out := readOutline(md, source)
	plan := &Plan{ID: cmp.Or(id, out.id), Name: out.name, Introduction: out.introduction()}
	if plan.Name == "" {
		plan.Name = filepath.Base(name)
	}
	faults := append(out.faults, checkNames(plan, name, out.nameAt)...)
	graph := graphCheck{}
	for _, raw := range out.tasks {
		r := taskReader{md: md, task: Task{ID: raw.id, Title: raw.title, Phase: raw.phase,
			Line: raw.line}}
		r.read(raw.sections, opts)
		if !r.reviewed {
			r.task.Review = out.review
		}
		faults = append(faults, r.faults...)
		plan.Tasks = append(plan.Tasks, r.task)
		graph.blockers = append(graph.blockers, r.blockers)
	}
	graph.tasks = plan.Tasks
	switch {
	case len(plan.Tasks) == 0 && len(faults) == 0:
		faults = append(faults,
			Fault{1, "the plan has no task",
				`begin each task with a heading such as "#### Task T1: title"`})
	case len(plan.Tasks) > MaxTasks:
		return nil, []Fault{{plan.Tasks[MaxTasks].Line, fmt.Sprintf("there are more than %d tasks",
			MaxTasks),
			"split the plan into several files"}}
	}
	return plan, append(faults, graph.faults()...)
}

// checkNames reports a name of the plan or of its file that a box does not accept.
func checkNames(p *Plan, file string, line int) []Fault {
	err := rules.CheckPlanName(p.Name)
	if err == nil && p.ID == "" { // a box identifies the plan by its file
		err = rules.CheckPlanSource(file)
	}
	if err == nil {
		return nil
	}
	return []Fault{faultOf(max(line, 1), err)}
}

// faultOf returns an error of the rules as a fault.
func faultOf(line int, err error) Fault {
	return Fault{line, text.Printable(err.Error()), signalbox.HintOf(err)}
}

// checkText reports a text that must not be parsed.
func checkText(text []byte) *Fault {
	if len(text) > MaxBytes {
		return &Fault{1, fmt.Sprintf("the plan has more than %d bytes", MaxBytes),
			"check that this is the right file, or split the plan into several files"}
	}
	line, definitions := 1, 0
	links, length := 0, 0 // of the paragraph
	for rest := text; len(rest) > 0; line++ {
		end := bytes.IndexByte(rest, '\n') + 1
		if end == 0 {
			end = len(rest)
		}
		if !utf8.Valid(rest[:end]) {
			return &Fault{line, "the line is not valid UTF-8", "save the file as UTF-8"}
		}
		if len(rest[:end])-len(bytes.TrimLeft(rest[:end], " \t>+*-.)0123456789")) > maxMarkers {
			return &Fault{line, fmt.Sprintf("the line begins with more than %d list or quote marks",
				maxMarkers),
				"check that this is the right file"}
		}
		if start := bytes.TrimLeft(rest[:end], " \t>"); len(start) > 0 && start[0] == '[' &&
			bytes.Contains(start, []byte("]:")) {
			definitions++
		}
		if beginsBlock(rest[:end]) {
			links, length = 0, 0
		}
		links, length = links+bytes.Count(rest[:end], []byte("](")), length+end
		if links*length > maxLinkWork {
			return &Fault{line, "the paragraph has too many links",
				"check that this is the right file, or split the paragraph with empty lines"}
		}
		if definitions > maxDefinitions {
			return &Fault{line, fmt.Sprintf("there are more than %d definitions of links",
				maxDefinitions),
				"check that this is the right file, or split the plan into several files"}
		}
		rest = rest[end:]
	}
	return nil
}

// beginsBlock reports whether a line certainly ends the paragraph before it: it is empty, a heading
// or a list item.
func beginsBlock(line []byte) bool {
	start := bytes.TrimLeft(line, " \t>")
	if len(bytes.TrimSpace(start)) == 0 {
		return true
	}
	after := bytes.TrimLeft(start, "#")
	if start[0] == '-' || start[0] == '*' || start[0] == '+' {
		after = start[1:]
	}
	return len(after) < len(start) &&
		(bytes.HasPrefix(after, []byte(" ")) || bytes.HasPrefix(after, []byte("\t")))
}
