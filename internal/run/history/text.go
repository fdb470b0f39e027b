package history

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"time"

	"signalbox"
	"signalbox/internal/core/rules"
	"signalbox/internal/run/inspect"
	"signalbox/internal/show"
	"signalbox/internal/text"
)

// Options describes where something is printed.
type Options struct {
	// Width is that of the terminal; 0 means that nothing is shortened.
	Width int
	Paint show.Palette
	// Zone is the time zone of times.
	Zone *time.Location
}

// Took formats a number of seconds.
func Took(seconds float64) string {
	return show.Took(time.Duration(seconds * float64(time.Second)))
}

// none stands where there is nothing to show.
const none = "-"

// Cost formats what turns cost; none ran is "-", and what is not known is never zero.
func Cost(u inspect.Usage, turns int) string {
	return amount(show.Dollars(u.CostMicros), u.CostMicros, u.UnknownCost, turns)
}

// Tokens formats the tokens of turns like Cost.
func Tokens(u inspect.Usage, turns int) string {
	return amount(show.Tokens(u.Tokens), u.Tokens, u.UnknownTokens, turns)
}

func amount(known string, n, unknown int64, turns int) string {
	switch {
	case n == 0 && unknown > 0:
		return "unknown"
	case n == 0 && turns == 0:
		return none
	}
	return show.Sum(known, unknown)
}

// percent returns a share, "" if there is nothing to divide.
func percent(part, whole float64) string {
	switch {
	case whole <= 0:
		return none
	case part > 0 && part < whole/100:
		return "<1%"
	}
	return fmt.Sprintf("%.0f%%", part/whole*100)
}

// Share returns which part of the time of a task a number of seconds is.
func (x *Explanation) Share(seconds float64) string { return percent(seconds, x.Seconds) }

// Head says in a few words how long the task took and what it cost.
func (x *Explanation) Head() string {
	head := "in " + string(x.Phase) + ", after "
	switch {
	case x.Done && x.Phase == signalbox.PhaseCompleted:
		head = "completed in "
	case x.Done:
		head = "cancelled after "
	}
	head += Took(x.Seconds)
	if x.Turns > 0 {
		head += fmt.Sprintf(": %s, %s tokens, %s of agents", Cost(x.Usage, x.Turns),
			Tokens(x.Usage, x.Turns), text.Count(x.Turns, "turn"))
	}
	return head
}

// Most names the part that took most of the time, and the one that took most of the money.
func (x *Explanation) Most() string {
	if len(x.Parts) < 2 || x.Seconds == 0 {
		return ""
	}
	dearest := x.Parts[0]
	for _, p := range x.Parts {
		if p.Usage.CostMicros > dearest.Usage.CostMicros {
			dearest = p
		}
	}
	most := fmt.Sprintf("most time: %s (%s)", x.Parts[0].Part.InWords(),
		x.Share(x.Parts[0].Seconds))
	if dearest.Usage.CostMicros > 0 {
		known := ""
		if x.Usage.UnknownCost > 0 {
			known = " of what is known"
		}
		most += fmt.Sprintf("; most money: %s (%s%s)", dearest.Part.InWords(),
			percent(float64(dearest.Usage.CostMicros), float64(x.Usage.CostMicros)), known)
	}
	return most
}

// InWords says in a line what happened in the step, without what was found.
func (s *Step) InWords() string {
	switch s.Part {
	case WaitTasks:
		return "waited for " + s.Text
	case WaitSlot:
		return "waited for " + s.Text
	case WaitHuman:
		return "waited for you: " + s.Text
	case WaitBase:
		return "waited for " + s.Text
	case WaitExpert:
		return "waited for the expert: " + s.Text
	case WaitFile:
		return "waited for the file " + s.Text
	case WaitRequest:
		return "waited for the pull request " + s.Text
	case WaitLimit, WaitMachine:
		return "waited: " + s.Text
	}
	if s.Agent == "" && s.Text != "" && (s.Part == Checks || s.Part == Merge) {
		return s.Text
	}
	line := s.Part.sayWork(s.Role)
	if s.Round > 0 && s.Role.IsAuthor() {
		line += fmt.Sprintf(" (round %d, after: %s)", s.Round, s.Because)
	}
	if s.Agent != "" {
		line += " by " + s.Agent
		if s.Model != "" {
			line += ", " + s.Model
		}
	}
	if s.Text != "" {
		line += ": " + s.Text
	}
	return line
}

func (p Part) sayWork(role signalbox.Role) string {
	if p == Unfinished {
		return "unfinished attempt of the " + inWords(role)
	}
	return string(p)
}

// FirstFindings returns what a person reads of the findings: the first ones, and how many more there
// are.
func (s *Step) FirstFindings() []string {
	if len(s.Findings) <= maxFindings {
		return s.Findings
	}
	return append(slices.Clone(s.Findings[:maxFindings]),
		fmt.Sprintf("and %d more", len(s.Findings)-maxFindings))
}

// isShort reports whether a step is a wait so short that a person does not want to read of it.
func (x *Explanation) isShort(s *Step) bool {
	return s.Part.IsWait() && s.Seconds < 1 && s.Seconds < x.Seconds/20
}

// CacheText describes how much of the input came from a cache, "" if no agent was started.
func (x *Explanation) CacheText() string {
	switch {
	case x.Turns == 0:
		return ""
	case x.Cache == nil:
		return "input from a cache: not known"
	}
	return fmt.Sprintf("input from a cache: %s, known for %d of %s",
		percent(float64(x.Cache.Cached), float64(x.Cache.Input)), x.Cache.Turns,
		text.Count(x.Turns, "turn"))
}

// Lines returns the explanation for people.
func (x *Explanation) Lines(o Options) []string {
	lines := []string{o.Paint.Strong(show.Cut(show.OnScreen(x.ID+" "+x.Title), wide(o.Width))),
		x.Head()}
	if most := x.Most(); most != "" {
		lines = append(lines, most)
	}
	rows := [][]string{{"WHERE IT WENT", "TIME", "SHARE", "COST", "TOKENS"}}
	for _, p := range x.Parts {
		rows = append(rows, []string{p.Part.InWords(), Took(p.Seconds), x.Share(p.Seconds),
			Cost(p.Usage, p.Turns), Tokens(p.Usage, p.Turns)})
	}
	rows = append(rows, []string{"total", Took(x.Seconds), x.Share(x.Seconds),
		Cost(x.Usage, x.Turns), Tokens(x.Usage, x.Turns)})
	table, _ := show.Columns(rows, o.Width, "TOKENS", "SHARE")
	lines = append(append(lines, ""), table...)
	lines = append(append(lines, ""), x.story(o)...)
	lines = append(lines, "")
	if cache := x.CacheText(); cache != "" {
		lines = append(lines, cache)
	}
	if x.Now != "" {
		lines = append(lines, show.Wrap("now: "+show.OnScreen(x.Now), wide(o.Width), 4)...)
	}
	return append(lines, "the events: signalbox ledger tail --work "+x.ID)
}

func wide(width int) int {
	if width == 0 {
		return 1 << 20
	}
	return max(width, 20)
}

const (
	indent      = "         "
	maxFindings = 3
)

// Row is a line of the story of a task.
type Row struct {
	Event      uint64
	At         time.Time
	Took, Cost string
	Text       string
	Findings   []string
}

// Rows returns what happened, in order: the steps and the remarks, without short waits.
func (x *Explanation) Rows() (rows []Row) {
	remarks := x.Events
	say := func(until uint64) {
		for len(remarks) > 0 && remarks[0].Event < until {
			rows = append(rows, Row{remarks[0].Event, remarks[0].At, none, none, remarks[0].Text, nil})
			remarks = remarks[1:]
		}
	}
	for i := range x.Steps {
		if s := &x.Steps[i]; !x.isShort(s) {
			say(s.First)
			rows = append(rows, Row{s.Shown, s.From, Took(s.Seconds), Cost(s.Usage, s.Turns),
				s.InWords(), s.FirstFindings()})
		}
	}
	say(math.MaxUint64)
	return rows
}

// ShortWaits describes how many waits Rows leaves out, "" if it leaves out none.
func (x *Explanation) ShortWaits() string {
	n, seconds := 0, 0.0
	for i := range x.Steps {
		if x.isShort(&x.Steps[i]) {
			n, seconds = n+1, seconds+x.Steps[i].Seconds
		}
	}
	if n == 0 {
		return ""
	}
	return fmt.Sprintf("and %s of less than a second, %s together", text.Count(n, "wait"),
		Took(seconds))
}

func (x *Explanation) story(o Options) (lines []string) {
	rows := x.Rows()
	cells := [][]string{{"EVENT", "AT", "TOOK", "COST", "WHAT HAPPENED"}}
	layout := time.TimeOnly
	if x.Seconds >= 24*time.Hour.Seconds() {
		layout = "Jan _2 15:04"
	}
	for _, r := range rows {
		cells = append(cells, []string{fmt.Sprint(r.Event),
			r.At.In(cmp.Or(o.Zone, time.Local)).Format(layout), r.Took, r.Cost,
			show.OnScreen(r.Text)})
	}
	for i, line := range show.Table(cells, o.Width) {
		if lines = append(lines, line); i == 0 {
			continue
		}
		for _, found := range rows[i-1].Findings {
			lines = append(lines, o.Paint.Faint(indent+show.Cut(show.OneLine(found),
				wide(o.Width)-len(indent))))
		}
	}
	if short := x.ShortWaits(); short != "" {
		lines = append(lines, short)
	}
	return lines
}

// Lines returns the statistics for people.
func (st *Stats) Lines(o Options) []string {
	lines := []string{fmt.Sprintf("%d of %s completed, from %s", st.Completed,
		text.Count(st.Tasks, "task"), text.Count(int(st.Events), "event")), ""}
	authors := [][]string{{"ROLE", "AGENT", "MODEL", "ON", "TURNS", "COST", "TIME",
		"PASSED FIRST", "REVIEWS"}}
	judges := [][]string{{"ROLE", "AGENT", "MODEL", "ON", "TURNS", "COST", "TIME", "FOUND",
		"ACCEPTED", "WAIVED", "ESCAPED"}}
	for i := range st.Agents {
		a := &st.Agents[i]
		row := []string{inWords(a.Role), show.OnScreen(cmp.Or(a.Agent, "unknown")),
			show.OnScreen(cmp.Or(a.Model, "unknown")), a.On(), fmt.Sprint(a.Turns),
			Cost(a.Usage, a.Turns), Took(a.Usage.Seconds)}
		if a.Judges() {
			judges = append(judges, append(row, a.Count(a.Findings), a.Count(a.Accepted),
				a.Count(a.Waived), a.Count(a.Escaped)))
		} else {
			authors = append(authors, append(row, a.First(), a.Rounds()))
		}
	}
	for _, rows := range [][][]string{authors, judges} {
		if len(rows) > 1 {
			table, _ := show.Columns(rows, o.Width, "TIME", "TURNS", "ON", "MODEL", "WAIVED")
			lines = append(append(lines, table...), "")
		}
	}
	for _, next := range st.Next.Lines() {
		lines = append(lines, show.Wrap(next, wide(o.Width), 4)...)
	}
	return lines
}

// On says what it worked on.
func (a *AgentStats) On() string {
	switch a.Kind {
	case "":
		return fmt.Sprintf("%d by hand", a.Work)
	case rules.KindTask:
		return text.Count(a.Work, "task")
	}
	return fmt.Sprintf("%d %s", a.Work, a.Kind)
}

// Judges reports whether the role judges the work of others.
func (a *AgentStats) Judges() bool {
	return a.Role == signalbox.RoleCritic || a.Role == signalbox.RoleAuditor
}

// First formats how much of its work passed its first review.
func (a *AgentStats) First() string {
	if a.Reviewed == 0 {
		return none
	}
	return fmt.Sprintf("%d of %d", a.FirstPassed, a.Reviewed)
}

// Rounds formats how often its work was reviewed.
func (a *AgentStats) Rounds() string {
	if a.Reviewed == 0 {
		return none
	}
	return fmt.Sprintf("%.1f", float64(a.Reviews)/float64(a.Reviewed))
}

// Count formats a number of findings, which is too low if verdicts are without them.
func (a *AgentStats) Count(n int) string {
	if n == 0 && a.Unlisted > 0 {
		return "unknown"
	}
	return show.Sum(fmt.Sprint(n), int64(a.Unlisted))
}

// Lines says what the next task will take.
func (e Estimates) Lines() []string {
	return []string{
		e.Cost.line("the cost of a task", "a known cost", dollars),
		e.Work.line("the work on a task, without waits", "known times", Took),
	}
}

func dollars(micros float64) string { return show.Dollars(int64(micros)) }

func (e Estimate) line(what, known string, format func(float64) string) string {
	if !e.Known() {
		return fmt.Sprintf("%s: too little history: %s with %s completed, a range needs %d", what,
			text.Count(e.Tasks, "task"), known, e.Needs)
	}
	return fmt.Sprintf("%s: %s to %s; %s", what, format(e.Low), format(e.High), e.Record())
}

// Record describes how often such a range was right.
func (e Estimate) Record() string {
	if e.Tried == 0 {
		return "how often such a range is right is not known yet"
	}
	return fmt.Sprintf("such a range was right for %d of %s", e.Right,
		text.Count(e.Tried, "task"))
}

// CostOf says what a number of tasks will cost.
func (e Estimates) CostOf(tasks int) string {
	return e.Cost.of(tasks, "with a known cost ", dollars)
}

// WorkOf estimates how long the work on tasks takes if they are done in waves, without waits.
func (e Estimates) WorkOf(tasks, waves int) string {
	line := e.Work.of(min(tasks, waves), "", Took)
	if e.Work.Known() && tasks > waves {
		line += fmt.Sprintf("; in %s one after the other, and without waits",
			text.Count(waves, "wave"))
	}
	return line
}

func (e Estimate) of(n int, known string, format func(float64) string) string {
	if !e.Known() {
		return fmt.Sprintf("no estimate: %s %scompleted here, a range needs %d",
			text.Count(e.Tasks, "task"), known, e.Needs)
	}
	each := fmt.Sprintf("%s to %s a task", format(e.Low), format(e.High))
	if n > 1 {
		each = fmt.Sprintf("%s to %s, at %s", format(e.Low*float64(n)), format(e.High*float64(n)),
			each)
	}
	return each + "; " + e.Record()
}
