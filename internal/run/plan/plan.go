// Package plan reads plan files: Markdown that says which tasks there are, what each asks for, and which waits for
// which.
//
// A plan is CommonMark. The headings "### Phase N: name" and "#### Task ID: title" give it its shape; other levels do
// as well if all tasks have the same one and phases a shallower one. Below a task's heading, bold labels at the start
// of a paragraph, of a line of one, or of the items of a list introduce its sections:
//
//	**Work**: what is to be done, any Markdown
//	**Acceptance Criteria**: a list, best a task list
//	**Blocked By**: T1, T2          or none, or a list
//	**Required Reading**: paths, addresses or lines of text
//	**Environments**: linux, darwin
//	**Target Files**: paths inside the workspace
//	**Priority**: high, medium, low, or a whole number from -1000 to 1000 (high is 1, medium 0, low -1)
//	**Budget**: 200000 tokens, $5, 30m
//
// The colon may stand inside or outside the bold text, or be left out if the label has its line for itself. All
// sections but the criteria are optional. Any other label is a note, kept as it is written. Text before the first
// label is the work, or, where a Work section follows, a note. What stands in code blocks, quotes and HTML comments is
// no structure.
//
// Where a plan could be understood in two ways it is refused, and all that is wrong with it is said at once: a plan
// that is read wrongly costs more than one that is corrected. Nothing here does I/O. The texts of a plan are kept as
// they were written; what Text, SVG and the errors show is safe for a terminal and a browser.
package plan

import (
	"bytes"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"signalbox"
	"signalbox/internal/text"
)

// Limits of a plan file.
const (
	MaxBytes = 8 << 20
	MaxTasks = 10_000
	// maxMarkers bounds how deep a line may nest quotes and lists, and maxDefinitions how many lines may define the
	// target of a link: both cost the Markdown parser time that grows with the square.
	maxMarkers     = 1000
	maxDefinitions = 10_000
)

// Plan is a plan file.
type Plan struct {
	// Name is the text of the first heading of level 1 or 2 that is neither a phase nor a task, else the base name of
	// the file.
	Name string `json:"name"`
	// Tasks are in the order of the file.
	Tasks []Task `json:"tasks"`
}

// Task is one task of a plan. Equal tasks have equal JSON, byte for byte.
type Task struct {
	ID    string `json:"id"`
	Title string `json:"title"`
	// Phase is the number and name of the phase, "1: Foundations", and empty for a task under none.
	Phase string `json:"phase,omitempty"`
	// Work is the Markdown of the Work section.
	Work string `json:"work,omitempty"`
	// Criteria are the acceptance criteria, each in Markdown.
	Criteria []string `json:"criteria,omitempty"`
	// BlockedBy are the ids of the tasks that must be completed first, in the order written.
	BlockedBy []string `json:"blocked_by,omitempty"`
	// Reading is what must be read first: paths, addresses, or lines of text.
	Reading      []string `json:"reading,omitempty"`
	Environments []string `json:"environments,omitempty"`
	// Files are the target files: clean paths with slashes, relative to the workspace.
	Files []string `json:"files,omitempty"`
	// Priority is higher for what should come first; zero is medium.
	Priority int `json:"priority,omitempty"`
	// Budget is nil for a task that has none of its own.
	Budget *Budget `json:"budget,omitempty"`
	// Notes are the sections with other labels, as they were written.
	Notes string `json:"notes,omitempty"`
	// Draft marks a task without acceptance criteria: a business analyst is to expand it.
	Draft bool `json:"draft,omitempty"`
	// Line is where the task's heading stands.
	Line int `json:"-"`
}

// Budget is what a task may cost; zero means no limit.
type Budget struct {
	Tokens     int64         `json:"tokens,omitempty"`
	CostMicros int64         `json:"cost_micros,omitempty"` // millionths of a dollar
	Time       time.Duration `json:"time_ns,omitempty"`
}

// Options are the choices of whoever reads a plan.
type Options struct {
	// Drafts allows tasks without acceptance criteria, since a business analyst is there to expand them. Zero: such a
	// task is a fault.
	Drafts bool
}

// Fault is one thing that is wrong with a plan.
type Fault struct {
	Line int    `json:"line"`
	Text string `json:"text"`
	Hint string `json:"hint"` // what to write instead
}

// Error is all that is wrong with a plan, in the order of the lines.
type Error struct {
	File   string
	Faults []Fault
}

// Error has one fault a line, as "file:line: text".
func (e *Error) Error() string {
	lines := make([]string, len(e.Faults))
	for i := range e.Faults {
		lines[i] = e.Describe(i)
	}
	return strings.Join(lines, "\n")
}

// Describe is the i-th fault with its place, on one line.
func (e *Error) Describe(i int) string {
	return fmt.Sprintf("%s:%d: %s", text.Printable(e.File), e.Faults[i].Line, e.Faults[i].Text)
}

// Parse reads the plan in the text of the file with the given name, which is only for messages. Options may be nil.
// All that is wrong is in the *Error, which is inside a *signalbox.Error with the code for wrong usage.
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
		hint = fmt.Sprintf("correct the %d faults; signalbox plan check says what to write for each", len(faults))
	}
	return nil, &signalbox.Error{Code: signalbox.CodeUsage, Err: &Error{File: name, Faults: faults}, Hint: hint}
}

func parse(name string, source []byte, opts Options) (*Plan, []Fault) {
	if fault := unreadable(source); fault != nil {
		return nil, []Fault{*fault}
	}
	source = bytes.TrimPrefix(source, []byte("\ufeff"))
	source = bytes.ReplaceAll(source, []byte("\r\n"), []byte("\n"))
	source = bytes.ReplaceAll(source, []byte("\r"), []byte("\n"))
	source = bytes.ReplaceAll(source, []byte{0}, []byte("\ufffd")) // as CommonMark asks
	md := newMarkdown()
	out := readOutline(md, source)
	plan := &Plan{Name: out.name}
	if plan.Name == "" {
		plan.Name = filepath.Base(name)
	}
	faults := out.faults
	graph := graphCheck{}
	for _, sketch := range out.tasks {
		r := taskReader{md: md, task: Task{ID: sketch.id, Title: sketch.title, Phase: sketch.phase, Line: sketch.line}}
		r.read(sketch.sections, opts)
		faults = append(faults, r.faults...)
		plan.Tasks = append(plan.Tasks, r.task)
		graph.blockers = append(graph.blockers, r.blockers)
	}
	graph.tasks = plan.Tasks
	switch {
	case len(plan.Tasks) == 0 && len(faults) == 0:
		faults = append(faults, Fault{1, "there is no task in the plan", `begin each task with a heading such as "#### Task T1: title"`})
	case len(plan.Tasks) > MaxTasks:
		return nil, []Fault{{plan.Tasks[MaxTasks].Line, fmt.Sprintf("there are more than %d tasks", MaxTasks),
			"divide the plan into several files"}}
	}
	return plan, append(faults, graph.faults()...)
}

// unreadable is the fault of a text that is not even looked into.
func unreadable(text []byte) *Fault {
	if len(text) > MaxBytes {
		return &Fault{1, fmt.Sprintf("the plan has more than %d bytes", MaxBytes),
			"check that this is the file you meant, or divide the plan into several files"}
	}
	line, definitions := 1, 0
	for rest := text; len(rest) > 0; line++ {
		end := bytes.IndexByte(rest, '\n') + 1
		if end == 0 {
			end = len(rest)
		}
		if !utf8.Valid(rest[:end]) {
			return &Fault{line, "the line is not valid UTF-8", "save the file as UTF-8"}
		}
		if len(rest[:end])-len(bytes.TrimLeft(rest[:end], " \t>+*-.)0123456789")) > maxMarkers {
			return &Fault{line, fmt.Sprintf("the line begins with more than %d marks of lists, quotes or rules", maxMarkers),
				"check that this is the file you meant"}
		}
		if start := bytes.TrimLeft(rest[:end], " \t>"); len(start) > 0 && start[0] == '[' && bytes.Contains(start, []byte("]:")) {
			definitions++
		}
		if definitions > maxDefinitions {
			return &Fault{line, fmt.Sprintf("there are more than %d definitions of links", maxDefinitions),
				"check that this is the file you meant, or divide the plan into several files"}
		}
		rest = rest[end:]
	}
	return nil
}
