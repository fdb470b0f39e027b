package progress

import (
	"cmp"
	"slices"
	"strings"
	"time"
	"unicode"

	"signalbox"
	"signalbox/internal/core/rules"
	"signalbox/internal/run/crew"
)

// view holds what a screen shows, as plain values, so that drawing is a function of them. Its text is already escaped.
type view struct {
	seq      uint64 // of the last event
	title    string
	began    time.Time
	standing rules.Standing
	// tasks and done count the tasks of the plan, running the agents and checks at work, slots the most agents at once.
	tasks, done, running, slots int
	spent                       rules.Spent
	lanes                       []lane
	story                       []event // what happened last, the newest at the end
	questions                   []asked
	notices                     []string // why the whole run is waiting
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

// condition is what a task does or waits for at its stage.
type condition int

const (
	laneAtWork        condition = iota
	laneAsking                  // for the human
	laneInRemediation           // waits for a remediation
	laneParked                  // its agent waits for an expert or a file
	laneReady                   // waits for a slot
	laneWaiting                 // for other tasks
	lanePaused                  // by order
	laneCancelled               // by order
	laneDone
)

// lane is one task on the board.
type lane struct {
	id, title string
	kind      rules.Kind
	at        stage
	is        condition
	// who is at work, which attempt of its role it is, and since when.
	who     string
	attempt int
	since   time.Time
	// reworks counts how often it was sent back, failures how often an agent failed or sent no valid signal.
	reworks, failures int
	// note is what the task waits for, or what its agent is doing.
	note           string
	percent        int
	formatDuration time.Duration // of a task that is done
}

// newView makes a view of the state. live is the activity of agents, by session.
func newView(s *rules.State, title string, began, now time.Time, live map[string]string) view {
	st := s.Status(now)
	v := view{seq: s.Seq(), title: onScreen(title), began: began, standing: st.Standing, tasks: st.Tasks, done: st.Completed, spent: s.Spent(), withoutPlan: withoutPlan(s)}
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
		l := laneOf(s, w, live)
		if l.is == laneAtWork {
			v.running++
		}
		v.drafts = v.drafts || l.at == stageDraft
		v.lanes = append(v.lanes, l)
	}
	slices.SortStableFunc(v.lanes, func(a, b lane) int { return cmp.Compare(rank(a.kind), rank(b.kind)) })
	for _, q := range s.Questions() {
		if q.Open() {
			v.questions = append(v.questions, asked{q.ID, q.Work, onScreen(q.Text), "signalbox answer " + q.ID + " TEXT"})
		}
	}
	for _, id := range st.Approvals {
		v.questions = append(v.questions, asked{"", id, onScreen(crew.ApprovalText(s, id)), "signalbox approve " + id})
	}
	v.notices = noticesOf(s, st, now)
	return v
}

// idle reports whether nothing is running or about to run.
func (v *view) idle() bool { return v.running == 0 && v.standing != rules.StandingWorking }

// asksTheSame reports whether two views ask the same of the user.
func (v *view) asksTheSame(other view) bool {
	return v.standing == other.standing && v.done == other.done && slices.Equal(v.questions, other.questions) && slices.Equal(v.notices, other.notices)
}

// rank puts baselines and remediations, which all tasks depend on, before the tasks.
func rank(kind rules.Kind) int {
	return slices.Index([]rules.Kind{rules.KindBaseline, rules.KindRemediation, rules.KindExpert, rules.KindTask}, kind)
}

func noticesOf(s *rules.State, st rules.Status, now time.Time) []string {
	var notices []string
	switch {
	case s.Cancelled() != "":
		notices = append(notices, "the run is cancelled ("+onScreen(s.Cancelled())+")")
	case s.Paused():
		notices = append(notices, "the run is paused; continue with: signalbox resume")
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
			notices = append(notices, "rate limit: no "+string(role)+" until "+until.Local().Format(time.TimeOnly))
		}
	}
	return notices
}

func laneOf(s *rules.State, w *rules.Work, live map[string]string) lane {
	t := w.Task
	phase := w.Phase
	if phase == signalbox.PhaseBlocked {
		phase = w.BlockedFrom
	}
	effort := effortOf(w)
	l := lane{id: w.ID, title: onScreen(w.Title), kind: t.Kind, at: stageOf(phase, t), reworks: effort.reworks, failures: t.Counts.Unknown + t.Counts.Incompletes, formatDuration: effort.formatDuration}
	for _, n := range t.Timeouts {
		l.failures += n
	}
	if t.Progress != nil && w.Lease != nil && w.Present != nil && !t.Progress.At.Before(w.Present.From) {
		l.percent = t.Progress.Percent
		l.note = onScreen(t.Progress.Activity)
	}
	switch {
	case w.Phase == signalbox.PhaseCompleted:
		l.is, l.at = laneDone, stageDone
	case t.Cancelled != "":
		l.is, l.note = laneCancelled, onScreen(t.Cancelled)
	case w.Lease != nil && t.Parked != nil:
		l.is, l.who, l.since, l.note = laneParked, roleName(w), since(w), onScreen(t.Parked.For)
	case w.Lease != nil:
		l.is, l.who, l.since, l.attempt = laneAtWork, roleName(w), since(w), t.Starts[w.Lease.Role]
		if text := live[w.Lease.Session]; text != "" {
			l.note = onScreen(text)
		}
	case len(t.Questions) > 0:
		l.is, l.note = laneAsking, "asks "+strings.Join(t.Questions, ", ")
	case t.Remedy != "":
		l.is, l.note = laneInRemediation, t.Remedy
	case t.Paused:
		l.is = lanePaused
	default:
		l.is, l.note = waitsFor(s, w)
	}
	return l
}

func since(w *rules.Work) time.Time {
	if w.Present == nil {
		return time.Time{}
	}
	return w.Present.From
}

func roleName(w *rules.Work) string {
	switch {
	case w.Lease.Role == signalbox.RoleCI:
		return "checks"
	case w.Lease.Role == signalbox.RoleExpert && w.Task.Expert != "":
		return onScreen(w.Task.Expert)
	}
	return strings.ReplaceAll(strings.TrimPrefix(string(w.Lease.Role), "business-"), "-", " ")
}

// onScreen returns text on one line that is safe for a terminal: escaped, and with few combining marks per letter, because
// stacks of them would spill over other lines.
func onScreen(text string) string {
	marks := 0
	return strings.Map(func(r rune) rune {
		if !unicode.In(r, unicode.Mn, unicode.Me) {
			marks = 0
			return r
		}
		if marks++; marks > maxMarks {
			return -1
		}
		return r
	}, oneLine(text))
}

// maxMarks is the most combining marks per letter.
const maxMarks = 3

// waitsFor reports whether a task is ready, or what it waits for.
func waitsFor(s *rules.State, w *rules.Work) (condition, string) {
	var open []string
	for _, id := range s.OpenBlockers(w) {
		if b, known := s.Work(id); known && b.Task != nil && b.Task.Cancelled != "" {
			id += " (cancelled)"
		}
		open = append(open, id)
	}
	if len(open) > 0 {
		return laneWaiting, strings.Join(open, ", ")
	}
	if s.WaitsForApproval(w) {
		return laneAsking, "needs approval"
	}
	return laneReady, ""
}

func stageOf(phase signalbox.Phase, t *rules.Task) stage {
	switch phase {
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
