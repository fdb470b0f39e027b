package progress

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"signalbox"
	"signalbox/internal/core/rules"
	"signalbox/internal/run/inspect"
	"signalbox/internal/run/questions"
	"signalbox/internal/show"
)

// view holds what a screen shows, as plain values, so that drawing is a function of them. Its text
// is already escaped.
type view struct {
	seq      uint64 // of the last event
	title    string
	began    time.Time
	standing rules.Standing
	// tasks and done count the tasks of the plan, running the agents and checks at work, slots the
	// most agents at once.
	tasks, done, running, slots int
	spent                       rules.Spent
	lanes                       []lane
	story                       []event // what happened last, the newest at the end
	questions                   []asked
	notices                     []string // why the whole run is waiting
	paused                      bool     // the whole run
	warning                     string   // the last thing written to standard error
	drafts                      bool     // some task must be specified first
	withoutPlan                 string   // what is shown instead of tasks if there is no plan
}

// asked is an open question, or a merge that needs approval and has no id.
type asked struct{ id, work, text, command string }

// event is a line of the story.
type event struct{ clock, work, text string }

// stage is a step of a task's lifecycle.
type stage int

const (
	stageDraft stage = iota
	stageImplement
	stageChecks
	stageReview
	stageAudit
	stageMerge
	stageDone
)

// lane is one task on the board.
type lane struct {
	id, title string
	kind      rules.Kind
	at        stage
	is        inspect.Condition
	// who is at work, which attempt of its role it is, and since when.
	who     string
	attempt int
	since   time.Time
	// reworks counts how often it was sent back, failures how often an agent failed or sent no
	// valid signal.
	reworks, failures int
	// note is what the task waits for, or what its agent is doing.
	note    string
	percent int
	took    time.Duration // of a task that is done
}

// version identifies what the task is at: it changes when its text on a pane may have changed.
func (l *lane) version() string {
	return fmt.Sprint(l.at, l.is, l.who, l.attempt, l.since.UnixNano(), l.reworks, l.failures,
		l.note != "" && l.is != inspect.Working)
}

// newView makes a view of the state. live is the activity of agents, by session.
func newView(s *rules.State, title string, began, now time.Time, live map[string]string) view {
	st := s.Status(now)
	v := view{seq: s.Seq(), title: onScreen(title), began: began, standing: st.Standing,
		tasks: st.Tasks, done: st.Completed, paused: s.Paused(), withoutPlan: withoutPlan(s)}
	for _, w := range worksOfPlan(s) {
		v.spent = v.spent.Plus(w.Task.Spent)
	}
	if v.title == "" {
		_, name, _ := s.Plan()
		v.title = onScreen(name)
	}
	policy, _ := s.Policy()
	v.slots = policy.Slots
	for w := range s.Works() {
		if !s.InPlan(w) || w.Task.Kind != rules.KindTask && w.Done() {
			continue
		}
		l := laneOf(s, w, now, live)
		if l.is == inspect.Working {
			v.running++
		}
		v.drafts = v.drafts || l.at == stageDraft
		v.lanes = append(v.lanes, l)
	}
	slices.SortStableFunc(v.lanes,
		func(a, b lane) int { return cmp.Compare(rank(a.kind), rank(b.kind)) })
	for _, q := range s.Questions() {
		if q.Open() {
			v.questions = append(v.questions,
				asked{q.ID, q.Work, onScreen(q.Text), "signalbox answer " + q.ID + " TEXT"})
		}
	}
	for _, id := range st.Approvals {
		v.questions = append(v.questions, asked{"", id, onScreen(questions.ApprovalText(s, id)),
			"signalbox approve " + id})
	}
	v.notices = noticesOf(s, st, now)
	return v
}

// idle reports whether nothing is running or about to run.
func (v *view) idle() bool { return v.running == 0 && v.standing != rules.StandingWorking }

// rank puts baselines and remediations, which all tasks depend on, before the tasks.
func rank(kind rules.Kind) int {
	return slices.Index([]rules.Kind{rules.KindBaseline, rules.KindRemediation, rules.KindExpert,
		rules.KindTask}, kind)
}

// pausedNotice says that the run is paused.
const pausedNotice = "the run is paused; continue with: signalbox resume"

func noticesOf(s *rules.State, st rules.Status, now time.Time) []string {
	var notices []string
	switch {
	case s.Cancelled() != "":
		notices = append(notices, "the run is cancelled ("+onScreen(s.Cancelled())+")")
	case s.Paused():
		notices = append(notices, pausedNotice)
	case st.Standing == rules.StandingStuck:
		for _, reason := range st.Reasons {
			notices = append(notices, "stuck: "+onScreen(reason))
		}
	}
	if until := s.WindowEnd(now); !until.IsZero() {
		notices = append(notices, windowLine(until, time.Local))
	}
	for _, role := range rules.DispatchRoles() {
		if until := s.Limited(role); until.After(now) {
			notices = append(notices, rules.WaitsLine(string(role), until.Local()))
		}
	}
	for _, a := range s.Agents() {
		if a.Limited.After(now) {
			notices = append(notices, rules.WaitsLine(onScreen(a.Agent), a.Limited.Local()))
		}
		if a.Until.After(now) {
			notices = append(notices, outageLine(onScreen(a.Agent), a.Until, time.Local))
		}
	}
	return notices
}

func laneOf(s *rules.State, w *rules.Work, now time.Time, live map[string]string) lane {
	t := inspect.NewTask(s, w, now)
	l := lane{id: t.ID, title: onScreen(t.Title), kind: t.Kind, at: stageOf(t), is: t.Condition,
		reworks: t.Reworks, failures: t.Failures,
		note: onScreen(t.WaitsFor), took: time.Duration(t.AgentSeconds * float64(time.Second))}
	switch t.Condition {
	case inspect.Working:
		l.who, l.since, l.attempt, l.percent, l.note = onScreen(t.Worker.Name()), t.Worker.Since,
			t.Worker.Attempt, t.Worker.Percent, onScreen(t.Worker.Activity)
		if text := live[t.Worker.Session]; text != "" {
			l.note = onScreen(text)
		}
	case inspect.Parked:
		l.who, l.since, l.percent = onScreen(t.Worker.Name()), t.Worker.Since, t.Worker.Percent
	case inspect.Asking:
		l.note = "asks " + l.note
	case inspect.NeedsApproval:
		l.note = "needs approval"
	case inspect.InRequest:
		l.note = "waits for its merge: " + l.note
	}
	return l
}

// onScreen returns text on one line that is safe for a terminal.
func onScreen(text string) string { return show.OnScreen(text) }

func stageOf(t inspect.Task) stage {
	switch t.Step {
	case signalbox.PhaseDraft:
		return stageDraft
	case signalbox.PhaseCIPending:
		return stageChecks
	case signalbox.PhaseReadyForReview, signalbox.PhaseReview:
		return stageReview
	case signalbox.PhaseReadyForMerge:
		if t.Audited {
			return stageMerge
		}
		return stageAudit
	case signalbox.PhaseCompleted:
		return stageDone
	}
	return stageImplement
}
