package progress

import (
	"cmp"
	"slices"
	"strings"
	"time"
	"unicode"

	"signalbox"
	"signalbox/internal/core/rules"
)

// view is what the screen shows of a run: plain values, so that drawing it is a function of them. All text of agents in it is
// escaped already.
type view struct {
	seq      uint64 // of the last event
	title    string
	began    time.Time
	standing rules.Standing
	// tasks and done count the plan's tasks, running the agents and checks at work, slots how many agents may be.
	tasks, done, running, slots int
	spent                       rules.Spent
	lanes                       []lane
	story                       []event // what happened last, the newest at the end
	questions                   []asked
	notices                     []string // what keeps the whole run from going on
	warning                     string   // the last thing written to standard error
	drafts                      bool     // whether any task has to be specified first
}

// asked is an open question, or a merge that waits for a yes, which has no id.
type asked struct{ id, work, text, command string }

// event is a line of the story.
type event struct{ clock, work, text string }

// stage is a stop on the way of a task.
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

// condition is how a task fares at its stage.
type condition int

const (
	laneAtWork    condition = iota
	laneAsking              // waits for the human
	laneRemedied            // waits for a remediation
	laneParked              // its agent waits for an expert or a file
	laneReady               // could be worked on, and waits for a slot
	laneWaiting             // for other tasks
	lanePaused              // by order
	laneCancelled           // by order
	laneDone
)

// lane is a task on its way.
type lane struct {
	id, title string
	kind      rules.Kind
	at        stage
	is        condition
	// who is at work, the how-many-eth of its role it is, and since when.
	who     string
	attempt int
	since   time.Time
	// reworks is how often it was sent back, mishaps how often an agent failed or said nothing that counts.
	reworks, mishaps int
	// note is what it waits for, or what its agent is doing.
	note    string
	percent int
	took    time.Duration // of a task that is done
}

// look fills a view from the state. live is what agents do, by session.
func look(s *rules.State, title string, began, now time.Time, live map[string]string) view {
	st := s.Status(now)
	v := view{seq: s.Seq(), title: onScreen(title), began: began, standing: st.Standing, tasks: st.Tasks, done: st.Completed, spent: s.Spent()}
	if v.title == "" {
		_, name, _ := s.Plan()
		v.title = onScreen(name)
	}
	policy, _ := s.Policy()
	v.slots = policy.Slots
	for w := range s.Works() {
		if w.Task == nil || w.Task.Kind != rules.KindTask && w.Done() {
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
		v.questions = append(v.questions, asked{"", id, "waits for your yes to its merge", "signalbox approve " + id})
	}
	v.notices = noticesOf(s, st, now)
	return v
}

// rests tells whether nothing can go on by itself.
func (v *view) rests() bool { return v.running == 0 && v.standing != rules.StandingWorking }

// asksTheSameAs tells whether two views want the same of the user.
func (v *view) asksTheSameAs(other view) bool {
	return v.standing == other.standing && v.done == other.done && slices.Equal(v.questions, other.questions) && slices.Equal(v.notices, other.notices)
}

// rank puts what all work stands on before the tasks.
func rank(kind rules.Kind) int {
	return slices.Index([]rules.Kind{rules.KindBaseline, rules.KindRemediation, rules.KindExpert, rules.KindTask}, kind)
}

func noticesOf(s *rules.State, st rules.Status, now time.Time) []string {
	var notices []string
	switch {
	case s.Cancelled() != "":
		notices = append(notices, "the run is cancelled ("+onScreen(s.Cancelled())+")")
	case s.Paused():
		notices = append(notices, "the run is paused: signalbox resume goes on")
	case st.Standing == rules.StandingStuck:
		for _, reason := range st.Reasons {
			notices = append(notices, "stuck: "+onScreen(reason))
		}
	}
	for _, role := range rules.DispatchRoles() {
		if until := s.Limited(role); until.After(now) {
			notices = append(notices, "rate limit: no "+string(role)+" before "+until.Local().Format(time.TimeOnly))
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
	trip := tripOf(w)
	l := lane{id: w.ID, title: onScreen(w.Title), kind: t.Kind, at: stageOf(phase, t), reworks: trip.reworks, mishaps: t.Counts.Unknown + t.Counts.Incompletes, took: trip.took}
	for _, n := range t.Timeouts {
		l.mishaps += n
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
		l.is, l.note = laneRemedied, t.Remedy
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

// onScreen makes text of an agent one line that a terminal can show: escaped, and with no more marks on a letter than
// languages have, since they would spill over other lines.
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

// maxMarks is how many marks a letter may have.
const maxMarks = 3

// waitsFor tells a task that could be worked on from one that waits for others.
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
	if p, ok := s.Policy(); ok && p.ApproveMerge && w.Task.Audited && !w.Task.Approved && w.Phase == signalbox.PhaseReadyForMerge {
		return laneAsking, "waits for your yes"
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
