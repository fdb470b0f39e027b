package history

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"signalbox"
	"signalbox/internal/core/rules"
	"signalbox/internal/run/inspect"
	"signalbox/internal/text"
)

// Part is what a task spent time or money on.
type Part string

// The parts of a task. Everything else that uses agents is one of them too.
const (
	Development   Part = "development"
	Rework        Part = "rework" // development after the work was sent back
	Checks        Part = "checks"
	Review        Part = "review"
	Audit         Part = "audit"
	Merge         Part = "merge"
	Specification Part = "specification"
	Advice        Part = "advice"
	// Unfinished are attempts that came to nothing: failed, stopped or expired.
	Unfinished Part = "unfinished"

	WaitTasks   Part = "wait_tasks"   // for other tasks
	WaitSlot    Part = "wait_slot"    // others were at work, or had just been
	WaitLimit   Part = "wait_limit"   // no agent of the role was available
	WaitMachine Part = "wait_machine" // nothing worked in the whole box
	WaitHuman   Part = "wait_human"   // for an answer, an approval, the end of a pause
	WaitBase    Part = "wait_base"    // for checks on the base, or their repair
	WaitExpert  Part = "wait_expert"
	WaitFile    Part = "wait_file"    // which another task had locked
	WaitRequest Part = "wait_request" // until the pull request was merged
)

// InWords returns the part for people.
func (p Part) InWords() string {
	switch p {
	case Unfinished:
		return "unfinished attempts"
	case WaitTasks:
		return "waiting for other tasks"
	case WaitSlot:
		return "waiting for a slot"
	case WaitLimit:
		return "waiting for agents"
	case WaitMachine:
		return "nothing was running"
	case WaitHuman:
		return "waiting for you"
	case WaitBase:
		return "waiting for the base"
	case WaitExpert:
		return "waiting for an expert"
	case WaitFile:
		return "waiting for a file"
	case WaitRequest:
		return "pull request"
	}
	return string(p)
}

// IsWait reports whether the task waits in this part: no one works on it.
func (p Part) IsWait() bool { return strings.HasPrefix(string(p), "wait_") }

// Explanation is where the time and the money of a work item went.
type Explanation struct {
	ID    string          `json:"id"`
	Title string          `json:"title"`
	Phase signalbox.Phase `json:"phase"`
	// Done means that it is completed or cancelled. Otherwise To is the time of the explanation.
	Done bool      `json:"done"`
	From time.Time `json:"from"`
	To   time.Time `json:"to"`
	// Seconds is the time from From to To. It differs if a clock was corrected meanwhile.
	Seconds float64 `json:"seconds"`
	// Turns is how often an agent was started, and Usage what all of them used.
	Turns int           `json:"turns"`
	Usage inspect.Usage `json:"usage"`
	// Parts is where it went, the longest first. The seconds of the parts add up to Seconds, and
	// their usage to Usage.
	Parts []PartSum `json:"parts"`
	// Steps is what happened, in order, without gaps.
	Steps []Step `json:"steps"`
	// Events are single events that changed what happened.
	Events []Remark `json:"events"`
	// Cache is how much of the input came from a cache; absent if no turn reported it.
	Cache *Cache `json:"cache,omitempty"`
	// Now is why no one works on it, "" if someone does or it is done.
	Now string `json:"now,omitempty"`
}

// PartSum is all that went into a part.
type PartSum struct {
	Part    Part          `json:"part"`
	Seconds float64       `json:"seconds"`
	Turns   int           `json:"turns,omitempty"`
	Usage   inspect.Usage `json:"usage"`
}

// Step is a session, or what the work waited for without interruption.
type Step struct {
	Part Part `json:"part"`
	// Text says what was done, or what was waited for. It can have words of agents.
	Text    string    `json:"text"`
	From    time.Time `json:"from"`
	To      time.Time `json:"to"`
	Seconds float64   `json:"seconds"`
	// First and Last are the sequences of the events with which it began and ended. Shown is that
	// of the event that shows it: how the session ended, or why the wait began.
	First uint64         `json:"first_event"`
	Last  uint64         `json:"last_event"`
	Shown uint64         `json:"shown_by_event"`
	Role  signalbox.Role `json:"role,omitempty"`
	Agent string         `json:"agent,omitempty"`
	Model string         `json:"model,omitempty"`
	// Round is how often the work had been sent back, and Because why the last time.
	Round   int    `json:"round,omitempty"`
	Because string `json:"because,omitempty"`
	// Findings are what a session found that sends the work back.
	Findings []string      `json:"findings,omitempty"`
	Turns    int           `json:"turns,omitempty"`
	Usage    inspect.Usage `json:"usage"`
}

// Remark is an event in words.
type Remark struct {
	Event uint64    `json:"event"`
	At    time.Time `json:"at"`
	Text  string    `json:"text"`
}

// Cache is how many tokens of the input came from a cache, in the turns that reported it.
type Cache struct {
	Turns  int   `json:"turns"`
	Input  int64 `json:"input_tokens"`
	Cached int64 `json:"cached_tokens"`
}

// wait is why no one works on the task, since an event. until is when the wait ends by itself; zero
// if it does not.
type wait struct {
	part  Part
	what  string
	event uint64
	until time.Time
}

// open is the session that holds the work.
type open struct {
	inspect.Session
	expires time.Time
	parked  *wait
	// finished means that it came to a result.
	finished bool
	shown    uint64
	// steps are the indexes of its steps: more than one if it was parked.
	steps    []int
	findings []string
}

// fold computes an explanation, event by event.
type fold struct {
	x     Explanation
	box   boxwide
	meter inspect.Meter
	at    time.Time
	seq   uint64
	// ended is how many steps there are if the work is done, and endedAt since when.
	done     bool
	endSteps int

	task      rules.TaskPlanned
	planned   bool
	waits     []string // blockers that agents named
	questions []wait
	paused    *wait
	cancelled *wait
	remedy    *wait
	submitted *wait // the audit is passed
	request   *wait // a pull request is open
	approved  bool
	steering  bool
	commit    string
	delivered string // the commit
	round     int
	because   string
	authors   []rules.AgentModel
	session   *open
	threads   map[string]rules.Thread
}

// boxwide is what is known about everything else in the box.
type boxwide struct {
	policy            rules.Policy
	busy              bool
	idleSince         uint64
	idleAt            time.Time
	paused, cancelled *wait
	roles             map[signalbox.Role]wait // paused ones
	questions         []wait                  // about the run
	asked             map[string]rules.QuestionAsked
	limits            map[string]wait // by "role ROLE", "agent AGENT" or "agent AGENT ROLE"
	window            wait
	base              []wait // open baselines and remediations
	done              map[string]bool
	removed           map[string]bool // cancelled
	dropped           map[string]bool // cancelled because the plan has them no more
	offered           map[string]bool // its pull request is open
}

func newFold(id string) *fold {
	return &fold{x: Explanation{ID: id, Parts: []PartSum{}, Steps: []Step{}, Events: []Remark{}},
		threads: map[string]rules.Thread{},
		box: boxwide{roles: map[signalbox.Role]wait{}, asked: map[string]rules.QuestionAsked{},
			limits: map[string]wait{}, done: map[string]bool{}, removed: map[string]bool{},
			dropped: map[string]bool{}, offered: map[string]bool{}}}
}

// advance accounts for the time up to an event.
func (f *fold) advance(to time.Time, seq uint64) {
	for !f.x.From.IsZero() && f.at.Before(to) {
		until := to
		if f.session != nil && f.session.parked == nil && !f.session.expired(f.at) {
			if e := f.session.expires; !e.IsZero() && e.Before(until) {
				until = e
			}
			f.extend(f.workStep(), until, seq)
		} else {
			w := f.waiting()
			if w.until.After(f.at) && w.until.Before(until) {
				until = w.until
			}
			f.extend(f.waitStep(w), until, seq)
		}
		f.at = until
	}
	f.at = to
}

func (f *fold) extend(step int, to time.Time, seq uint64) {
	s := &f.x.Steps[step]
	s.Seconds += to.Sub(f.at).Seconds()
	s.To, s.Last = to, seq
}

// workStep returns the index of the current step of the session.
func (f *fold) workStep() int {
	s := f.session
	if n := len(s.steps); n > 0 && s.steps[n-1] == len(f.x.Steps)-1 {
		return s.steps[n-1]
	}
	f.x.Steps = append(f.x.Steps, Step{Part: f.partOf(s.Role), From: f.at, To: f.at, First: f.seq,
		Last: f.seq, Role: s.Role, Round: f.round, Because: f.because})
	s.steps = append(s.steps, len(f.x.Steps)-1)
	return len(f.x.Steps) - 1
}

func (f *fold) waitStep(w wait) int {
	if n := len(f.x.Steps); n > 0 && f.endSteps < n {
		if s := &f.x.Steps[n-1]; s.Part == w.part && s.Text == w.what {
			return n - 1
		}
	}
	f.x.Steps = append(f.x.Steps, Step{Part: w.part, Text: w.what, From: f.at, To: f.at,
		First: f.seq, Last: f.seq, Shown: cmp.Or(w.event, f.seq)})
	return len(f.x.Steps) - 1
}

func (f *fold) partOf(role signalbox.Role) Part {
	switch role {
	case signalbox.RoleCI:
		return Checks
	case signalbox.RoleCritic:
		return Review
	case signalbox.RoleAuditor, signalbox.RoleHealthAuditor:
		return Audit
	case signalbox.RoleMerger:
		return Merge
	case signalbox.RoleBusinessAnalyst:
		return Specification
	case signalbox.RoleExpert, signalbox.RoleExpertCreator:
		return Advice
	}
	if f.round > 0 {
		return Rework
	}
	return Development
}

// expired reports whether the lease of an agent has expired. Those of checks and merges are renewed
// together with others, which is not followed.
func (s *open) expired(at time.Time) bool {
	return !s.expires.IsZero() && !at.Before(s.expires)
}

// waiting returns why no one works on the task at f.at. It tries reasons in the order of the rules.
func (f *fold) waiting() wait {
	switch {
	case f.session != nil && f.session.parked != nil:
		return *f.session.parked
	case f.session != nil:
		return wait{part: WaitMachine, what: "the machine that worked on it was gone or stood still: its lease expired"}
	case f.cancelled != nil:
		return *f.cancelled
	case len(f.questions) > 0:
		return f.questions[0]
	case f.remedy != nil:
		return *f.remedy
	case f.paused != nil:
		return *f.paused
	case !f.planned && f.x.Phase == signalbox.PhaseBlocked:
		return wait{part: WaitHuman, what: "it was blocked, until signalbox work unblock"}
	case !f.planned:
		return wait{part: WaitHuman, what: "nobody had claimed it"}
	case f.request != nil && f.atMerge() && f.delivered == f.commit:
		return *f.request
	}
	if w, ok := f.blockers(); ok {
		return w
	}
	if f.submitted != nil && f.atMerge() && !f.approved &&
		(f.box.policy.ApproveMerge || f.steering && !f.box.policy.TrustSteering) {
		return wait{part: WaitHuman, what: "your approval of the merge", event: f.submitted.event}
	}
	return f.turn()
}

func (f *fold) atMerge() bool {
	return f.x.Phase == signalbox.PhaseReadyForMerge && f.submitted != nil
}

// blockers returns which tasks it waits for. Like the rules, it waits for a cancelled one that the
// plan names until somebody says what becomes of the tasks that depend on it.
func (f *fold) blockers() (w wait, ok bool) {
	var names []string
	passed := func(id string) bool {
		return f.box.done[id] || f.box.policy.Stack && f.box.offered[id]
	}
	for _, id := range f.task.Blockers {
		switch {
		case passed(id), f.box.dropped[id]:
		case f.box.removed[id]:
			names = append(names, id+" (cancelled)")
		default:
			names = append(names, id)
		}
	}
	for _, id := range f.waits {
		if !passed(id) && !f.box.removed[id] && !slices.Contains(names, id) {
			names = append(names, id)
		}
	}
	return wait{part: WaitTasks, what: strings.Join(names, ", ")}, len(names) > 0
}

// turn returns why work does not start that nothing of its own stops.
func (f *fold) turn() wait {
	b, role := &f.box, f.next()
	switch agent := inspect.RunsAgent(role); {
	case b.cancelled != nil:
		return *b.cancelled
	case b.paused != nil:
		return *b.paused
	case len(b.base) > 0 && f.task.Kind == rules.KindTask:
		return b.base[0]
	case agent && b.roles[role].part != "":
		return b.roles[role]
	case agent && b.window.until.After(f.at):
		return b.window
	}
	for _, q := range b.questions {
		asked := b.asked[q.what]
		agents := asked.Kind == rules.AskedAgent
		if asked.Kind == rules.AskedSetup || inspect.RunsAgent(role) && !agents &&
			(asked.Role == "" || asked.Role == role) {
			return wait{part: WaitHuman, what: "your answer to " + q.what, event: q.event}
		}
	}
	if w, limited := f.limited(role); limited {
		return w
	}
	if !b.busy && !f.at.Before(b.idleAt.Add(idleGap)) {
		return wait{part: WaitMachine, what: "no session was at work in the whole box",
			event: b.idleSince}
	}
	w := wait{part: WaitSlot, what: "a slot for its " + inWords(role)}
	if !b.busy {
		w.until = b.idleAt.Add(idleGap)
	}
	return w
}

// idleGap is how long a box has no session before it counts as one in which nothing runs. A run
// needs a moment from one session to the next.
const idleGap = 30 * time.Second

// next returns the role that works on the task next.
func (f *fold) next() signalbox.Role {
	switch {
	case f.atMerge():
		return signalbox.RoleMerger
	case f.task.Kind == rules.KindRemediation && f.x.Phase == signalbox.PhaseImplementation:
		return signalbox.RoleRemediation
	case f.task.Kind == rules.KindRemediation && f.x.Phase == signalbox.PhaseReview:
		return signalbox.RoleHealthAuditor
	case f.task.Kind == rules.KindExpert:
		return signalbox.RoleExpert
	}
	return f.x.Phase.ClaimableBy()
}

// limited returns until when no agent of a role is available.
func (f *fold) limited(role signalbox.Role) (w wait, limited bool) {
	if w = f.box.limits["role "+string(role)]; w.until.After(f.at) {
		return w, true
	}
	var agents []string
	for _, r := range f.box.policy.Agents {
		if r.Role == role && (r.Expert == "" || r.Expert == f.task.Expert) {
			agents = r.Agents
			if !r.Named && f.task.Kind == rules.KindTask &&
				(role == signalbox.RoleCritic || role == signalbox.RoleAuditor) {
				agents = slices.DeleteFunc(slices.Clone(agents), f.isDependent)
				if len(agents) == 0 && len(r.Agents) > 0 {
					return wait{part: WaitHuman, what: "an agent for the " + inWords(role) +
						" of another " + string(f.box.policy.Independence) + " than its author"}, true
				}
			}
		}
	}
	for i, name := range agents {
		down := f.box.limits["agent "+name]
		if down.part == "" || !down.until.IsZero() && !down.until.After(f.at) {
			return wait{}, false
		}
		if i == 0 || !down.until.IsZero() && (w.until.IsZero() || down.until.Before(w.until)) {
			w = down
		}
	}
	return w, len(agents) > 0
}

// isDependent reports whether an agent is, by its settings, not independent of an author.
func (f *fold) isDependent(agent string) bool {
	m := rules.AgentModel{Agent: agent}
	for _, a := range f.box.policy.AgentSettings {
		if a.Agent == agent {
			m.Vendor, m.Model = a.Vendor, a.Model
		}
	}
	i := f.box.policy.Independence
	return i != rules.IndependenceNone && slices.ContainsFunc(f.authors,
		func(author rules.AgentModel) bool { return !i.Between(m, author) })
}

func inWords(role signalbox.Role) string {
	if role == signalbox.RoleCI {
		return "checks"
	}
	return strings.ReplaceAll(string(role), "-", " ")
}

// own applies an event of the task.
func (f *fold) own(e *signalbox.Event) {
	f.advance(e.Time, e.Seq)
	f.seq = e.Seq
	if f.x.From.IsZero() {
		f.x.From, f.at = e.Time, e.Time
	}
	f.ofTask(e)
	f.ofSession(e)
	done := f.session == nil && (f.x.Phase == signalbox.PhaseCompleted || f.cancelled != nil)
	if done && !f.done {
		f.x.To, f.endSteps = e.Time, len(f.x.Steps)
	}
	f.done = done
}

// ofTask applies what an event changes about the task.
func (f *fold) ofTask(e *signalbox.Event) {
	switch e.Type {
	case rules.TypeWorkOpened:
		b := read[rules.WorkOpened](e)
		f.x.Title, f.x.Phase = b.Title, b.Phase
	case rules.TypeTaskPlanned:
		f.task, f.planned = read[rules.TaskPlanned](e), true
		f.x.Title, f.x.Phase = f.task.Title, f.task.Phase
	case rules.TypeTaskReplanned:
		b := read[rules.TaskReplanned](e)
		f.x.Title, f.task.Blockers = b.Title, b.Blockers
	case rules.TypeBlockerAdded:
		f.waits = append(f.waits, read[rules.BlockerAdded](e).On...)
	case rules.TypeTaskExpanded:
		f.waits = append(f.waits, read[rules.TaskExpanded](e).SubTasks...)
	case rules.TypeExpertRegistered:
		f.task.Expert = read[rules.ExpertRegistered](e).Expert.Name
	case rules.TypePhaseChanged:
		f.enter(read[rules.PhaseChanged](e))
	case rules.TypeQuestionAsked:
		asked := read[rules.QuestionAsked](e)
		id := asked.Question
		f.box.asked[id] = asked
		f.questions = append(f.questions, wait{part: WaitHuman, what: "your answer to " + id,
			event: e.Seq})
	case rules.TypeQuestionAnswered:
		b := read[rules.QuestionAnswered](e)
		f.questions = slices.DeleteFunc(f.questions,
			func(w wait) bool { return w.what == "your answer to "+b.Question })
		if f.box.asked[b.Question].Kind == rules.AskedRequest && !b.Withdrawn {
			f.request = nil // another one is opened
		}
	case rules.TypePaused:
		f.paused = &wait{part: WaitHuman, what: "paused by " + e.Actor, event: e.Seq}
	case rules.TypeResumed:
		f.paused = nil
	case rules.TypeCancelled:
		f.cancelled = &wait{part: WaitHuman, what: "cancelled by " + e.Actor, event: e.Seq}
	case rules.TypeRetried:
		f.x.Events = append(f.x.Events, Remark{e.Seq, e.Time, "retried by " + e.Actor})
		f.cancelled, f.paused, f.request = nil, nil, nil
		if read[rules.Retried](e).From != "" {
			f.submitted, f.approved, f.remedy = nil, false, nil
		}
	case rules.TypeRemediationNeeded:
		id := read[rules.RemediationNeeded](e).Remediation
		f.remedy = &wait{part: WaitBase, what: "remediation " + id, event: e.Seq}
	case rules.TypeRemediationEnded:
		f.remedy = nil
	case rules.TypeMergeRequested:
		f.submitted, f.approved = &wait{event: e.Seq}, false
	case rules.TypeMergeApproved:
		f.approved = true
	case rules.TypeDelivered:
		b := read[rules.Delivered](e)
		if f.delivered = b.Tip; b.Request != "" {
			f.request = &wait{part: WaitRequest, what: "until it is merged: " + b.Request,
				event: e.Seq}
		}
	case rules.TypeChecksRan:
		b := read[rules.ChecksRan](e)
		f.steering, f.commit = len(b.Steering) > 0, b.Commit
	case rules.TypeReworkOrdered:
		b := read[rules.ReworkOrdered](e)
		f.sentBack(e, rules.FindingSource(b.Cause), b.Summary)
		if b.Cause == rules.FindingHuman {
			f.remedy = nil
		}
	case rules.TypeConflictFound:
		if b := read[rules.ConflictFound](e); len(b.Files) > 0 && (f.session == nil ||
			!f.session.Role.IsAuthor()) {
			f.sentBack(e, "conflict with the base", text.JoinSome(b.Files, maxNames))
		}
	}
}

// maxNames is how many files or findings a line names.
const maxNames = 3

func (f *fold) enter(b rules.PhaseChanged) {
	f.x.Phase = b.To
	again := b.To == signalbox.PhaseImplementation || b.To == signalbox.PhaseCIPending
	switch {
	case b.To == signalbox.PhaseBlocked || b.From == signalbox.PhaseBlocked && !again:
	case again, b.To == signalbox.PhaseReadyForReview:
		f.submitted, f.approved = nil, false
	}
}

// sentBack begins another round.
func (f *fold) sentBack(e *signalbox.Event, because, summary string) {
	f.round++
	f.because = because
	if f.session == nil || e.Session != f.session.Session.Session {
		f.x.Events = append(f.x.Events, Remark{e.Seq, e.Time,
			strings.TrimSuffix("sent back by "+cmp.Or(e.Actor, because)+": "+summary, ": ")})
		return
	}
	f.session.finished = true
	if len(f.session.findings) == 0 && summary != "" && inspect.RunsAgent(f.session.Role) {
		f.session.findings = []string{summary}
	}
}

// ofSession applies what an event says about the session that holds the work.
func (f *fold) ofSession(e *signalbox.Event) {
	if e.Type == rules.TypeLeaseGranted {
		b := read[rules.LeaseGranted](e)
		f.session = &open{Session: inspect.Session{SessionView: rules.SessionView{
			Session: e.Session, Role: b.Role, Epoch: e.Seq}}, shown: e.Seq}
		if inspect.RunsAgent(b.Role) {
			f.session.expires = b.Expires
		}
		f.workStep()
	}
	metered, more, turns := f.meter.Add(e)
	s := f.session
	if s == nil {
		return
	}
	if metered != nil && metered.Epoch == s.Epoch {
		if len(s.steps) == 0 {
			f.workStep()
		}
		step := &f.x.Steps[s.steps[len(s.steps)-1]]
		step.Turns += turns
		step.Usage.Add(more)
	}
	if e.Session != s.Session.Session {
		if e.Type == rules.TypeLeaseReleased || e.Type == rules.TypeLeaseExpired {
			f.end(e)
		}
		return
	}
	s.Add(e)
	switch e.Type {
	case rules.TypeLeaseRenewed:
		if inspect.RunsAgent(s.Role) {
			s.expires = read[rules.LeaseRenewed](e).Expires
		}
	case rules.TypeSessionParked:
		b := read[rules.SessionParked](e)
		s.parked = &wait{part: WaitExpert, what: b.For, event: e.Seq}
		if b.File {
			s.parked.part = WaitFile
		}
	case rules.TypeSessionResumed:
		s.parked = nil
		if to := read[rules.SessionResumed](e).Agent; to != "" {
			f.x.Events = append(f.x.Events, Remark{e.Seq, e.Time, to + " takes over the session"})
		}
	case rules.TypeSignalHeard:
		name := read[rules.SignalHeard](e).Signal
		if row, known := signalbox.LineSignalNamed(name); !known || !row.Urgent {
			s.finished, s.shown = true, e.Seq
			if s.Outcome == row.Text {
				s.Outcome = strings.ReplaceAll(name, "_", " ")
			}
		}
	case rules.TypeAgentSessionCompleted, rules.TypeChecksRan, rules.TypeMerged,
		rules.TypeDelivered, rules.TypeTaskExpanded, rules.TypeConflictFound:
		s.finished, s.shown = true, e.Seq
	case rules.TypeIncompleteLogged, rules.TypeAgentFailed:
		s.finished, s.shown = false, e.Seq
	case rules.TypeFindingsRecorded:
		s.found(read[rules.FindingsRecorded](e))
	case rules.TypeAgentTurnEnded:
		b := read[rules.AgentTurnEnded](e)
		f.addCache(b.Thread)
		if b.Wrote {
			f.authors = append(f.authors,
				rules.AgentModel{Agent: s.Agent(), Vendor: b.Vendor, Model: b.Model})
		}
	case rules.TypeLeaseReleased, rules.TypeLeaseExpired:
		f.end(e)
	}
}

// found remembers what a session found that sends the work back.
func (s *open) found(b rules.FindingsRecorded) {
	for _, r := range b.Raised {
		if !r.Note {
			found := r.ID + " " + r.Text
			if r.Place != "" && !strings.Contains(r.Text, r.Place) {
				found = r.ID + " " + r.Place + ": " + r.Text
			}
			s.findings = append(s.findings, found)
		}
	}
	for _, again := range b.Again {
		s.findings = append(s.findings, again.ID+" again: "+again.Text)
	}
}

// addCache adds what a turn read from a cache. Only programs that report a thread say so.
func (f *fold) addCache(now *rules.Thread) {
	if now == nil {
		return
	}
	before := f.threads[now.ID]
	f.threads[now.ID] = *now
	if now.Input < before.Input || now.Cached < before.Cached {
		before = rules.Thread{}
	}
	if f.x.Cache == nil {
		f.x.Cache = &Cache{}
	}
	f.x.Cache.Turns++
	f.x.Cache.Input += now.Input - before.Input
	f.x.Cache.Cached += now.Cached - before.Cached
}

// end completes the steps of the session.
func (f *fold) end(e *signalbox.Event) {
	s := f.session
	if len(s.steps) == 0 {
		f.workStep()
	}
	outcome := s.Outcome
	if e.Type == rules.TypeLeaseExpired {
		s.finished, outcome = false, "its lease expired"
	}
	if s.shown == s.Epoch {
		s.shown = e.Seq
	}
	f.describe(s, outcome, e.Seq)
	f.session = nil
}

// describe writes what is known about a session into its steps.
func (f *fold) describe(s *open, outcome string, last uint64) {
	for n, i := range s.steps {
		step := &f.x.Steps[i]
		if last != 0 && !s.finished {
			step.Part = Unfinished
		}
		step.Text, step.Shown, step.Findings = outcome, s.shown, s.findings
		if n == len(s.steps)-1 {
			step.Last = max(step.Last, last)
		} else {
			step.Text, step.Findings = "parked", nil
		}
		if len(s.Turns) > 0 {
			turn := s.Turns[len(s.Turns)-1]
			step.Agent, step.Model = turn.Agent, turn.Model
		}
	}
}

// finish returns the explanation at a time.
func (f *fold) finish(now time.Time) *Explanation {
	if f.done {
		f.x.Done = true
		f.x.Steps = f.x.Steps[:f.endSteps]
	} else {
		if now.After(f.at) {
			f.advance(now, f.seq)
		}
		f.x.To = f.at
		if f.session != nil {
			if len(f.session.steps) == 0 {
				f.workStep()
			}
			f.describe(f.session, "at work", 0)
		}
	}
	sums := map[Part]*PartSum{}
	for i := range f.x.Steps {
		s := &f.x.Steps[i]
		if sums[s.Part] == nil {
			sums[s.Part] = &PartSum{Part: s.Part}
		}
		sum := sums[s.Part]
		sum.Seconds += s.Seconds
		sum.Turns += s.Turns
		sum.Usage.Add(s.Usage)
	}
	for _, sum := range sums {
		f.x.Parts = append(f.x.Parts, *sum)
		f.x.Turns += sum.Turns
	}
	slices.SortFunc(f.x.Parts, func(a, b PartSum) int {
		return cmp.Or(cmp.Compare(b.Seconds, a.Seconds),
			cmp.Compare(b.Usage.CostMicros, a.Usage.CostMicros), cmp.Compare(a.Part, b.Part))
	})
	for _, sum := range f.x.Parts { // in this order, so that the same history gives the same sum
		f.x.Seconds += sum.Seconds
		f.x.Usage.Add(sum.Usage)
	}
	return &f.x
}
