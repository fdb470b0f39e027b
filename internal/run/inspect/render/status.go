// Package render prints what package inspect found, for people: the status of a box, and
// transcripts of agents. All text of agents is escaped.
package render

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"charm.land/lipgloss/v2"

	"signalbox"
	"signalbox/internal/core/rules"
	"signalbox/internal/run/inspect"
	"signalbox/internal/show"
	"signalbox/internal/text"
)

// Options describes where something is printed.
type Options struct {
	// Width and Height are the size of the terminal; 0 means that nothing is shortened.
	Width, Height int
	// Paint has the styles. The zero value has none.
	Paint show.Palette
	// Zone is the time zone of times; nil means the local one.
	Zone *time.Location
}

func (o Options) zone() *time.Location { return cmp.Or(o.Zone, time.Local) }

func (o Options) clock(t time.Time) string { return t.In(o.zone()).Format(time.TimeOnly) }

// Status prints the status of a box, on one screen if it is not large.
func Status(w io.Writer, st *inspect.Status, o Options) error {
	p := statusPrinter{st, o}
	head, foot := p.head(), slices.Concat(p.requests(), p.notices(), p.money())
	lines := slices.Concat(head, p.tasks(max(o.Height-1-len(head)-len(foot), minTasks)), foot)
	_, err := io.WriteString(w, strings.Join(lines, "\n")+"\n")
	return err
}

const (
	// minTasks is the number of lines for tasks on a terminal that is too low for everything.
	minTasks = 4
	// maxRequests is how many requests are printed on a terminal.
	maxRequests = 4
	// maxPlans is how many unfinished plans are printed.
	maxPlans = 3
)

type statusPrinter struct {
	st *inspect.Status
	o  Options
}

// width returns the width for text that is wrapped or cut.
func (p *statusPrinter) width() int {
	if p.o.Width == 0 {
		return 1 << 20
	}
	return max(p.o.Width, 20)
}

// head prints the plans, and whether somebody works on them.
func (p *statusPrinter) head() (lines []string) {
	for _, plan := range p.plans() {
		facts := fmt.Sprintf("%d/%d done", plan.Completed, plan.Tasks)
		if plan.Cancelled > 0 {
			facts += fmt.Sprintf(", %d cancelled", plan.Cancelled)
		}
		title := show.OnScreen(cmp.Or(plan.Title, plan.ID, "plan"))
		room := p.width() - lipgloss.Width(facts) - 2
		line := p.o.Paint.Strong(show.Cut(title, room)) + "  " + facts
		if bar := min(p.width()-lipgloss.Width(line)-2, 30); bar >= 10 && plan.Tasks > 0 {
			full := bar * plan.Completed / plan.Tasks
			line += "  " + p.o.Paint.Good(strings.Repeat("━", full)) + p.o.Paint.Faint(
				strings.Repeat("─", bar-full))
		}
		lines = append(lines, line)
	}
	return slices.Concat(lines, p.standing(), p.machines(), p.copies())
}

// copies prints which machines of a cluster have a good copy of the ledger.
func (p *statusPrinter) copies() []string {
	if len(p.st.Copies) == 0 {
		return nil
	}
	var good, others []string
	for _, c := range p.st.Copies {
		switch {
		case c.Problem != "":
			others = append(others, c.Node+": "+c.Problem)
		case c.Verified == nil:
			others = append(others, c.Node+" does not answer")
		default:
			good = append(good, c.Node)
		}
	}
	line := "copies of the ledger: none is verified"
	if len(good) > 0 {
		line = "copies of the ledger: verified by " + strings.Join(good, ", ")
	}
	return show.Wrap(show.OnScreen(strings.Join(append([]string{line}, others...), "; ")),
		p.width(), 2)
}

// machines prints which machines are at work, if several can be.
func (p *statusPrinter) machines() []string {
	if len(p.st.Machines) == 0 {
		return nil
	}
	var names []string
	for _, m := range p.st.Machines {
		names = append(names, machine(m.Name)+" ("+text.Count(m.Tasks, "task")+")")
	}
	return show.Wrap("at work: "+strings.Join(names, ", "), p.width(), 2)
}

// plans returns the plan that was loaded last, and the others that are not finished.
func (p *statusPrinter) plans() (shown []inspect.Plan) {
	for _, plan := range slices.Backward(p.st.Plans) {
		if (plan.Current || plan.Completed < plan.Tasks) && len(shown) < maxPlans {
			shown = append(shown, plan)
		}
	}
	return shown
}

// standing prints the condition of the run, which processes carry it out, and how to continue if
// none does.
func (p *statusPrinter) standing() []string {
	st := p.st
	says, style := p.condition()
	run := "no run is active here"
	if st.Active() {
		crews, agents := 0, 0
		for _, c := range st.Crews {
			if c.Alive {
				crews, agents = crews+1, agents+c.Agents
			}
		}
		run = text.Count(crews, "run") + " active here, " + text.Count(agents, "agent")
	} else if st.Standing == rules.StandingComplete {
		return []string{style(says)}
	}
	how := ""
	if commands := st.HowToContinue(); commands != "" {
		how = "; continue with: " + show.OnScreen(commands)
	}
	if lipgloss.Width(says+" · "+run+how) <= p.width() {
		return []string{style(says) + " · " + run + how}
	}
	var lines []string
	for _, line := range show.Wrap(says, p.width(), 2) {
		lines = append(lines, style(line))
	}
	if lipgloss.Width(says+" · "+run) <= p.width() {
		lines = []string{style(says) + " · " + run}
	} else {
		lines = append(lines, show.Cut(run, p.width()))
	}
	if how != "" {
		lines = append(lines, show.Wrap(strings.TrimPrefix(how, "; "), p.width(), 3)...)
	}
	return lines
}

// condition returns the condition of the run in words, and their style.
func (p *statusPrinter) condition() (says string, style func(string) string) {
	st, paint := p.st, p.o.Paint
	switch st.Standing {
	case rules.StandingEmpty:
		return "there is no plan yet; load one with: signalbox run plan.md", paint.Faint
	case inspect.StandingByHand:
		return "no plan; work opened by hand", paint.Faint
	case rules.StandingComplete:
		return "complete", paint.Good
	case rules.StandingStuck:
		return "stuck", paint.Bad
	case rules.StandingWorking:
		switch {
		case st.Continue != "":
			return "stopped", paint.Warn
		case st.Cancelled != "":
			return "cancelled; agents are being stopped", paint.Warn
		case st.Paused:
			return "paused; agents finish their turns", paint.Warn
		case !st.Active():
			return "working elsewhere", paint.Warn
		}
		return "working", paint.Good
	}
	says = map[rules.Standing]string{rules.StandingAsking: "waiting for you",
		rules.StandingLimited: "waiting for a limit to end",
		rules.StandingWaiting: "waiting for pull requests",
		rules.StandingPaused:  "paused"}[st.Standing]
	if st.Paused && st.Standing != rules.StandingPaused {
		says = "paused, and " + says
	}
	return cmp.Or(says, string(st.Standing)), paint.Warn
}

// tasks prints the table of the tasks that do something or wait for somebody, and counts the
// others.
func (p *statusPrinter) tasks(room int) (lines []string) {
	tasks := slices.Clone(p.st.Tasks)
	slices.SortStableFunc(tasks,
		func(a, b inspect.Task) int { return cmp.Compare(urgency(a), urgency(b)) })
	hidden := 0
	// two blank lines, the names of the columns, and the counts
	if p.o.Height > 0 && len(tasks) > room-4 {
		hidden = len(tasks) - max(room-4, 1)
		tasks = tasks[:len(tasks)-hidden]
	}
	if len(tasks) > 0 {
		table := [][]string{{"TASK", "NOW", "AGENTS", "COST", "FOR", "WHO", "TITLE"}}
		for _, t := range tasks {
			table = append(table, p.row(t))
		}
		lines = append(lines, "")
		for i, line := range show.Table(table, p.o.Width) {
			if i == 0 {
				lines = append(lines, p.o.Paint.Faint(line))
				continue
			}
			lines = append(lines, p.emphasize(line, tasks[i-1]))
		}
	}
	return append(lines, p.counts(hidden)...)
}

// emphasize paints the id and the state of a task at the start of its line.
func (p *statusPrinter) emphasize(line string, t inspect.Task) string {
	rest, ok := strings.CutPrefix(line, t.ID)
	if !ok {
		return line
	}
	style := p.o.Paint.Warn
	switch t.Condition {
	case inspect.Working:
		style = p.o.Paint.Busy
	case inspect.InRemediation, inspect.Blocked:
		style = p.o.Paint.Bad
	case inspect.Ready:
		style = func(text string) string { return text }
	}
	state := now(t)
	gap, after, _ := strings.Cut(rest, state)
	return p.o.Paint.Strong(t.ID) + gap + style(state) + after
}

// urgency orders tasks for people.
func urgency(t inspect.Task) int {
	order := []inspect.Condition{inspect.Asking, inspect.NeedsApproval, inspect.Blocked,
		inspect.Working, inspect.Parked, inspect.InRemediation, inspect.Paused, inspect.InRequest,
		inspect.Ready}
	return slices.Index(order, t.Condition)
}

// row returns the cells of a task.
func (p *statusPrinter) row(t inspect.Task) []string {
	row := []string{t.ID, now(t), fmt.Sprint(t.Attempts), "-", "-", "-", show.OnScreen(t.Title)}
	if t.Usage.CostMicros > 0 {
		row[3] = show.Sum(show.Dollars(t.Usage.CostMicros), t.Usage.UnknownCost)
	}
	if worker := t.Worker; worker != nil {
		row[4], row[5] = text.Duration(p.st.At.Sub(worker.Since)), who(worker)
	}
	return row
}

// machine returns the name of a machine for a screen, without its domain.
func machine(name string) string {
	short, _, _ := strings.Cut(name, ".")
	return show.Cut(show.OnScreen(cmp.Or(short, name)), 20)
}

func who(w *inspect.Worker) string {
	name := show.OnScreen(w.Name())
	if w.Agent != "" {
		name += " " + show.OnScreen(w.Agent)
	}
	if w.Attempt > 1 {
		name += " (" + text.Ordinal(w.Attempt) + ")"
	}
	if w.Machine != "" {
		name += " on " + machine(w.Machine)
	}
	if w.Lost {
		name += ", killed"
	}
	return name
}

// now returns what a task does, in a few words.
func now(t inspect.Task) string {
	if n := t.OpenFindings; n > 0 && t.Condition != inspect.Completed {
		t.OpenFindings = 0
		return now(t) + ", " + text.Count(n, "finding")
	}
	if skipped := strings.Join(t.Skipped, " or "); skipped != "" {
		t.Skipped = nil
		return now(t) + ", no " + skipped
	}
	step := Step(t.Step, t.Audited)
	switch t.Condition {
	case inspect.Asking:
		return "asks " + show.OnScreen(t.WaitsFor)
	case inspect.NeedsApproval:
		return "needs approval"
	case inspect.InRequest:
		return "pull request"
	case inspect.Parked:
		return "waits for " + show.Cut(show.OnScreen(t.WaitsFor), 20)
	case inspect.InRemediation:
		return "waits for " + t.WaitsFor
	case inspect.Paused:
		return "paused"
	case inspect.Blocked:
		return "blocked"
	case inspect.Ready:
		if t.WaitsFor != "" {
			return "waits for " + show.Cut(show.OnScreen(t.WaitsFor), 60)
		}
		return "ready: " + step
	}
	return step
}

// Step returns the name of a step of the lifecycle in lower case.
func Step(phase signalbox.Phase, audited bool) string {
	switch phase {
	case signalbox.PhaseDraft:
		return "draft"
	case signalbox.PhaseImplementation:
		return "implement"
	case signalbox.PhaseCIPending:
		return "checks"
	case signalbox.PhaseReadyForReview, signalbox.PhaseReview:
		return "review"
	case signalbox.PhaseReadyForMerge:
		if audited {
			return "merge"
		}
		return "audit"
	}
	return strings.ToLower(strings.ReplaceAll(string(phase), "_", " "))
}

// counts prints how many tasks are not in the table.
func (p *statusPrinter) counts(hidden int) []string {
	var parts []string
	add := func(n int, what string) {
		if n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n, what))
		}
	}
	c := p.st.Counts
	ready, byHand := c.Ready, c.ByHand
	for _, t := range p.st.Tasks {
		switch {
		case t.Kind == "":
			byHand--
		case t.Condition == inspect.Ready && t.Kind == rules.KindTask:
			ready--
		}
	}
	add(hidden, "more like these")
	add(ready, "ready")
	add(p.waiting(), "waiting for other tasks")
	add(c.Completed, "done")
	add(c.Cancelled, "cancelled")
	add(byHand, "opened by hand")
	if len(parts) == 0 {
		return nil
	}
	var lines []string
	for _, line := range show.Wrap(strings.Join(parts, " · "), p.width(), 3) {
		lines = append(lines, p.o.Paint.Faint(line))
	}
	return append([]string{""}, lines...)
}

// waiting returns how many tasks wait for others and are not in the table.
func (p *statusPrinter) waiting() int {
	n := p.st.Counts.Waiting
	for _, t := range p.st.Tasks {
		if t.Kind == rules.KindTask && t.Condition == inspect.InRemediation {
			n--
		}
	}
	return n
}

// requests prints what waits for the human, with the commands that answer it.
func (p *statusPrinter) requests() (lines []string) {
	// The head names the command that continues.
	all := slices.DeleteFunc(slices.Clone(p.st.Requests),
		func(r inspect.Request) bool { return r.Kind == inspect.RequestFault && r.Command == p.st.Continue })
	shown, limit := all, 3
	if p.o.Height > 0 {
		shown = shown[:min(len(shown), maxRequests)]
		if len(shown) > 2 {
			limit = 1
		}
	}
	if len(shown) == 0 {
		return nil
	}
	lines = append(lines, "", p.o.Paint.Warn("Waiting for you"))
	for _, r := range shown {
		lead := strings.Join(slices.DeleteFunc([]string{r.ID, r.Work},
			func(s string) bool { return s == "" }), " ")
		words := show.OnScreen(r.Text)
		if lead != "" {
			words = lead + "  " + words
		}
		if p.o.Width == 0 {
			limit = 1 // one line as long as it is
		}
		for i, line := range show.Wrap(words, p.width()-4, limit) {
			if rest, ok := strings.CutPrefix(line, lead); ok && i == 0 {
				line = p.o.Paint.Strong(lead) + rest
			}
			lines = append(lines, "  "+line)
		}
		commands := show.Pack(append([]string{r.Command}, r.Also...), " · ", p.width()-4)
		if len(r.Answers) > 0 {
			commands = show.Pack([]string{r.Command, "(" + strings.Join(r.Answers, ", ") + ")"},
				"   ", p.width()-4)
		}
		for _, command := range commands {
			lines = append(lines, "    "+p.o.Paint.Busy(show.Cut(command, p.width()-4)))
		}
	}
	if more := len(all) - len(shown); more > 0 {
		lines = append(lines, fmt.Sprintf("  and %d more: signalbox questions", more))
	}
	return lines
}

// notices prints what the whole run waits for.
func (p *statusPrinter) notices() (lines []string) {
	var notices []string
	st := p.st
	add := func(format string,
		args ...any) {
		notices = append(notices, fmt.Sprintf(format, args...))
	}
	switch {
	case st.Cancelled != "":
		add("the run is cancelled (%s); undo it with: signalbox retry", show.OnScreen(st.Cancelled))
	case st.Paused:
		add("the run is paused; end the pause with: signalbox resume")
	case st.Standing == rules.StandingPaused:
		var ids []string
		for _, t := range st.Tasks {
			if t.Condition == inspect.Paused {
				ids = append(ids, t.ID)
			}
		}
		switch len(ids) {
		case 0: // a role, see below
		case 1:
			add("%s is paused; end the pause with: signalbox resume %s", ids[0], ids[0])
		default:
			add("%s are paused; end a pause with: signalbox resume TASK", strings.Join(ids, ", "))
		}
	}
	if st.Standing == rules.StandingStuck {
		for _, reason := range st.Reasons {
			add("stuck: %s", show.OnScreen(reason))
		}
	}
	for _, t := range st.Tasks {
		if t.Condition == inspect.InRequest {
			add("%s waits until its pull request is merged: %s", t.ID, show.OnScreen(t.Request))
		}
	}
	if st.Base.Red != "" {
		add("the base is red: %s; see: signalbox work show %s",
			show.OnScreen(strings.Join(rules.ChecksInWords(st.Base.Failing), ", ")), st.Base.Red)
	}
	if n := len(st.Left); n == 1 {
		add("%s is cancelled and keeps its worktree; remove it with: signalbox clean", st.Left[0])
	} else if n > 1 {
		add("%d tasks are cancelled and keep their worktrees; remove them with: signalbox clean", n)
	}
	if st.Base.Behind != nil {
		add("%s", show.OnScreen(st.Base.Behind.Text))
	}
	if len(st.Base.Accepted) > 0 {
		add("accepted on the base: %s",
			show.OnScreen(strings.Join(rules.ChecksInWords(st.Base.Accepted), ", ")))
	}
	for _, b := range st.Spending.Budgets {
		if b.Paused {
			add("the role %s is paused, because its budget is spent; end the pause with: signalbox resume", b.Role)
		}
	}
	if window := st.Spending.Window; window != nil && window.Ends != nil &&
		window.Tokens >= window.Limit {
		add("the token window is used up until %s", p.o.clock(*window.Ends))
	}
	for _, limit := range st.RateLimits {
		if limit.Cause != "" {
			add("no answer from the server of %s: it is tried again at %s",
				show.OnScreen(limit.Who()), p.o.clock(limit.Until))
			continue
		}
		now := ""
		// otherwise it would also restart what waits for the human, and end pauses
		if st.Counts.Asking == 0 && st.Counts.Paused == 0 && !st.Paused {
			now = "; to try it now: signalbox retry"
		}
		add("rate limit: %s waits until %s%s", show.OnScreen(limit.Who()),
			p.o.clock(limit.Until), now)
	}
	for _, c := range st.Crews {
		if !c.Alive {
			add("a run was killed; the next one on this machine continues its work")
			break
		}
	}
	for _, t := range st.Tasks {
		for i, role := range t.MessagesFor {
			if slices.Index(t.MessagesFor, role) < i {
				continue
			}
			whom := "the next agent"
			if role != "" {
				whom = "the next turn of the " + string(role)
			}
			add("your words on %s wait for %s; see: signalbox work show %s", t.ID, whom, t.ID)
		}
	}
	if len(notices) == 0 {
		return nil
	}
	lines = append(lines, "")
	for _, notice := range notices {
		for _, line := range show.Wrap(notice, p.width(), 2) {
			lines = append(lines, p.o.Paint.Warn(line))
		}
	}
	return lines
}

// money prints what was spent, and the budgets.
func (p *statusPrinter) money() []string {
	sum := p.st.Spending
	var parts []string
	if sum.CostMicros > 0 {
		parts = append(parts, show.Sum(show.Dollars(sum.CostMicros), sum.UnknownCost)+" spent")
	}
	if sum.Tokens > 0 {
		estimated := ""
		if sum.EstimatedTokens > 0 {
			estimated = " (partly estimated)"
		}
		parts = append(parts, show.Sum(show.Tokens(sum.Tokens)+" tokens", sum.UnknownTokens)+
			estimated)
	}
	if len(parts) > 0 && sum.Plans > 1 { // the heading names only one of them
		parts[0] += " in this box"
	}
	for _, b := range sum.Budgets {
		parts = append(parts, of(b)+" budget "+Budget(b))
	}
	if w := sum.Window; w != nil {
		part := fmt.Sprintf("window %s of %s tokens", show.Tokens(w.Tokens), show.Tokens(w.Limit))
		if w.Ends != nil {
			part += " until " + p.o.clock(*w.Ends)
		}
		parts = append(parts, part)
	}
	if len(parts) == 0 {
		return nil
	}
	return append([]string{""}, show.Wrap(strings.Join(parts, " · "), p.width(), 3)...)
}

// Budget returns the use of a budget in words.
func Budget(b inspect.BudgetUse) string {
	var uses []string
	if b.Limit.CostMicros > 0 {
		uses = append(uses, show.Sum(show.Dollars(b.Used.CostMicros), b.Used.UnknownCost)+" of "+
			show.Dollars(b.Limit.CostMicros))
	}
	if b.Limit.Tokens > 0 {
		uses = append(uses, show.Sum(show.Tokens(b.Used.Tokens), b.Used.UnknownTokens)+" of "+
			show.Tokens(b.Limit.Tokens)+" tokens")
	}
	if b.Limit.Seconds > 0 {
		seconds := func(s float64) string { return text.Duration(time.Duration(s * float64(time.Second))) }
		uses = append(uses, seconds(b.Used.Seconds)+" of "+seconds(b.Limit.Seconds))
	}
	return strings.Join(uses, ", ")
}

// of returns what a budget is for.
func of(b inspect.BudgetUse) string {
	if b.Role != "" {
		return string(b.Role)
	}
	return string(b.Of)
}
