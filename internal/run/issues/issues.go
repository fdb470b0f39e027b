// Package issues makes a plan from the issues of a GitHub repository, as gh issue list prints them
// in JSON.
//
// Anybody can write an issue. Its text becomes part of a task only as a quotation, in which
// headings, labels and signals have no effect, so it cannot add tasks, dependencies or criteria
// other than those that Import takes from it. Whatever the issues contain, the plan is valid. The
// package does no I/O.
package issues

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"signalbox"
	"signalbox/internal/lazy"
	"signalbox/internal/run/plan"
	"signalbox/internal/text"
)

// Fields are the fields of an issue that Import reads, as gh issue list --json expects them.
const Fields = "number,title,body,labels,url,milestone,state"

// Issue is an issue as gh prints it.
type Issue struct {
	Number int    `json:"number"`
	Title  string `json:"title"`
	Body   string `json:"body"`
	URL    string `json:"url"`
	State  string `json:"state"`
	Labels []struct {
		Name string `json:"name"`
	} `json:"labels"`
	Milestone *struct {
		Title string `json:"title"`
	} `json:"milestone"`
}

// Limits of an imported plan.
const (
	MaxIssues    = 1000
	maxBody      = 16 << 10 // bytes of one issue
	maxBodies    = 4 << 20  // bytes of all issues
	maxTitle     = 200      // characters
	maxCriterion = 500      // characters
	maxCriteria  = 50       // of an issue
	maxMarks     = 100      // at the start of a line
	maxLinks     = 200      // in an issue
)

// Result is an imported plan.
type Result struct {
	Plan []byte
	// Tasks is the number of its tasks.
	Tasks int
	// LeftOut says what the plan does not have, one line each. It contains no control characters.
	LeftOut []string
}

// task is an issue that becomes a task.
type task struct {
	Issue
	id       string
	lines    []string // of the body, without comments
	criteria []string
	blockers []int // numbers of issues
}

// Import makes a plan from a JSON list of issues. An empty name means one that names the
// repository.
func Import(source []byte, name string) (*Result, error) {
	var all []Issue
	if err := json.Unmarshal(bytes.TrimSpace(source), &all); err != nil {
		return nil, notIssues(signalbox.CodeUsage, wrongJSON(err))
	}
	if len(all) > 0 && !slices.ContainsFunc(all,
		func(issue Issue) bool { return issue.Number > 0 }) {
		return nil, notIssues(signalbox.CodeFailed, "none of them has a number")
	}
	i := importer{known: map[int]bool{}, closed: map[int]bool{}}
	i.selectIssues(all)
	if len(i.tasks) == 0 {
		return nil, signalbox.CodeFailed.Errorf("check the repository and the label",
			"there are no open issues")
	}
	for _, t := range i.tasks {
		i.read(t)
	}
	i.removeCycles()
	made := &Result{Plan: i.render(cmp.Or(name, i.name())), Tasks: len(i.tasks), LeftOut: i.leftOut}
	if _, err := plan.Parse("plan.md", made.Plan, nil); err != nil {
		return nil, err
	}
	return made, nil
}

// notIssues returns the error for a source that is not what gh prints.
func notIssues(code signalbox.Code, why string) error {
	return &signalbox.Error{Code: code, Err: fmt.Errorf("this is not a list of issues: %s", why),
		Hint: "pass the output of gh issue list --json " + Fields}
}

// wrongJSON says what is wrong with JSON, without the names of Go types.
func wrongJSON(err error) string {
	wrong := (*json.UnmarshalTypeError)(nil)
	switch {
	case errors.As(err, &wrong) && wrong.Field == "":
		return "it is " + text.WithArticle(wrong.Value) + ", not a list of objects"
	case errors.As(err, &wrong):
		return fmt.Sprintf("%s is %s", text.Printable(wrong.Field), text.WithArticle(wrong.Value))
	}
	return text.Printable(err.Error())
}

type importer struct {
	tasks         []*task
	known, closed map[int]bool // numbers of issues
	leftOut       []string
}

func (i *importer) leave(format string, args ...any) {
	i.leftOut = append(i.leftOut, text.Printable(fmt.Sprintf(format, args...)))
}

// selectIssues takes the open issues, in the order of their numbers.
func (i *importer) selectIssues(all []Issue) {
	slices.SortStableFunc(all, func(a, b Issue) int { return cmp.Compare(a.Number, b.Number) })
	more := 0
	for _, issue := range all {
		switch {
		case issue.Number <= 0:
			i.leave("an issue without a number")
		case i.known[issue.Number]:
			i.leave("#%d the second time", issue.Number)
		case issue.State != "" && !strings.EqualFold(issue.State, "open"):
			i.closed[issue.Number] = true
			i.leave("#%d, which is closed", issue.Number)
		case len(i.tasks) == MaxIssues:
			more++
		default:
			i.known[issue.Number] = true
			i.tasks = append(i.tasks, &task{Issue: issue, id: "GH-" + strconv.Itoa(issue.Number)})
		}
	}
	if more > 0 {
		i.leave("%d issues after the first %d", more, MaxIssues)
	}
}

var (
	fence    = lazy.Regexp("^ {0,3}(```+|~~~+)")
	checkbox = lazy.Regexp(`^\s*(?:[-*+]|\d{1,9}[.)])\s+\[[ xX]\]\s+(.*)$`)
	depends  = lazy.Regexp(
		`(?i)\b(?:depends\s+on|blocked\s+by)\b[\s:*_]*(#\d+(?:(?:\s*,\s*|\s+and\s+|\s*&\s*|\s+)#\d+)*)`)
	number    = lazy.Regexp(`#(\d{1,9})\b`)
	heading   = lazy.Regexp(`^( {0,3})(#{1,6})(\s|$)`)
	underline = lazy.Regexp(`^ {0,3}(=+|-+)\s*$`)
)

// read takes the criteria and dependencies from the body of an issue, and the lines that are
// quoted.
func (i *importer) read(t *task) {
	body := strings.ReplaceAll(strings.ReplaceAll(t.Body, "\r\n", "\n"), "\r", "\n")
	if shown := text.WithoutComments(body); shown != body {
		i.leave("the hidden comments in #%d", t.Number)
		body = shown
	}
	limit := min(maxBody, maxBodies/len(i.tasks))
	if body = strings.TrimRight(text.Visible(body), " \t\n"); len(body) > limit {
		i.leave("the end of #%d, which has %d bytes", t.Number, len(body))
		body = text.Truncate(body, limit) + "\n…"
	}
	if strings.Count(body, "](") > maxLinks {
		body = strings.ReplaceAll(body, "](", "] (")
	}
	fenced, extra := "", 0
	for line := range strings.SplitSeq(strings.Trim(body, "\n"), "\n") {
		t.lines = append(t.lines, line)
		mark := fence().FindStringSubmatch(line)
		switch {
		case fenced != "" && mark != nil && strings.HasPrefix(mark[1], fenced):
			fenced = ""
			continue
		case fenced != "":
			continue
		case mark != nil:
			fenced = mark[1]
			continue
		case strings.HasPrefix(strings.TrimLeft(line, " "), ">"): // quoted from somewhere else
			continue
		}
		if item := checkbox().FindStringSubmatch(line); item != nil {
			if criterion := oneLine(item[1], maxCriterion); criterion == "" {
			} else if len(t.criteria) == maxCriteria {
				extra++
			} else {
				t.criteria = append(t.criteria, criterion)
			}
		}
		for _, found := range depends().FindAllStringSubmatch(line, -1) {
			for _, n := range number().FindAllStringSubmatch(found[1], -1) {
				i.dependOn(t, n[1])
			}
		}
	}
	if extra > 0 {
		i.leave("%d items of the checklist of #%d after the first %d", extra, t.Number, maxCriteria)
	}
	if len(t.criteria) == 1 && strings.EqualFold(strings.TrimSuffix(t.criteria[0], "."), "none") {
		t.criteria = nil
	}
	if len(t.criteria) == 0 {
		t.criteria = []string{"What the title asks for is done: " + t.title()}
	}
}

func (i *importer) dependOn(t *task, digits string) {
	n, err := strconv.Atoi(digits)
	switch {
	case err != nil || n == t.Number || slices.Contains(t.blockers, n):
	case i.closed[n]: // it is done
	case !i.known[n]:
		i.leave("that #%d depends on #%d, which is not in the plan", t.Number, n)
	default:
		t.blockers = append(t.blockers, n)
	}
}

// removeCycles removes dependencies until no issue waits for itself.
func (i *importer) removeCycles() {
	byNumber := map[int]*task{}
	for _, t := range i.tasks {
		byNumber[t.Number] = t
	}
	const unknown, visiting, done = 0, 1, 2
	state := map[int]int{}
	var visit func(t *task)
	visit = func(t *task) {
		state[t.Number] = visiting
		t.blockers = slices.DeleteFunc(t.blockers, func(n int) bool {
			if state[n] == unknown {
				visit(byNumber[n])
			}
			if state[n] == visiting {
				i.leave("that #%d depends on #%d: they would wait for each other", t.Number, n)
				return true
			}
			return false
		})
		state[t.Number] = done
	}
	for _, t := range i.tasks {
		if state[t.Number] == unknown {
			visit(t)
		}
	}
}

// name returns a name for the plan.
func (i *importer) name() string {
	if address, ok := webAddress(i.tasks[0].URL); ok {
		if parts := strings.Split(strings.Trim(address.Path, "/"), "/"); len(parts) >= 2 {
			return "Issues of " + parts[0] + "/" + parts[1]
		}
	}
	return "GitHub issues"
}

// address are the characters of an address that is shown.
var address = lazy.Regexp(`^https?://[A-Za-z0-9:/._?=&%#~-]{1,500}$`)

func webAddress(s string) (*url.URL, bool) {
	if !address().MatchString(s) {
		return nil, false
	}
	u, err := url.Parse(s)
	return u, err == nil && u.Host != ""
}

func (t *task) title() string {
	return cmp.Or(oneLine(t.Title, maxTitle), "issue "+strconv.Itoa(t.Number))
}

// oneLine returns text of an issue on one line, without signals at its start.
func oneLine(s string, limit int) string {
	return unsignal(text.Shorten(
		text.OneLine(strings.ReplaceAll(text.Visible(text.WithoutComments(s)), "\ufffd", " ")),
		limit))
}

// quotedMark is put before text that would be a signal if an agent repeated it.
const quotedMark = "(from the issue) "

// unsignal returns a line that is not a signal, not even without the quotation around it.
func unsignal(line string) string {
	line = strings.ReplaceAll(line, signalbox.ExitProtocol,
		strings.ReplaceAll(signalbox.ExitProtocol, "_", "-"))
	bare := strings.TrimLeft(line, " \t>#*_`~-+")
	for _, s := range signalbox.LineSignals() {
		if len(bare) >= len(s.Text) && strings.EqualFold(bare[:len(s.Text)], s.Text) {
			return quotedMark + strings.TrimLeft(line, " \t")
		}
	}
	return line
}
