package history

import (
	"bytes"
	"cmp"
	"context"
	"maps"
	"slices"
	"time"

	"signalbox"
	"signalbox/internal/core/rules"
	"signalbox/internal/run/inspect"
)

// Stats is what a ledger has learned about agents. It is advice: nothing chooses an agent by it.
type Stats struct {
	// Events is how many events it is from. Tasks counts the tasks of all plans, and Completed those
	// that are completed.
	Events    uint64 `json:"events"`
	Tasks     int    `json:"tasks"`
	Completed int    `json:"completed"`
	// Agents has a row for each agent, model, role and kind of work, by role.
	Agents []AgentStats `json:"agents"`
	// Next is what a task like the completed ones will take.
	Next Estimates `json:"next"`
}

// AgentStats is what is known about an agent with a model in a role, on a kind of work.
type AgentStats struct {
	Role signalbox.Role `json:"role"`
	Kind rules.Kind     `json:"kind,omitempty"` // "" for work that was opened by hand
	// Agent and Model are "" if they are not known.
	Agent string `json:"agent"`
	Model string `json:"model"`
	// Work is how many work items it worked on, Turns how often it was started, and Usage what that
	// used.
	Work  int           `json:"work"`
	Turns int           `json:"turns"`
	Usage inspect.Usage `json:"usage"`

	// Reviewed is how many work items of its own a critic judged, FirstPassed how many of them
	// passed the first time, and Reviews how often they were judged altogether.
	Reviewed    int `json:"reviewed"`
	FirstPassed int `json:"first_passed"`
	Reviews     int `json:"reviews"`
	// Findings is how many findings it raised that sent work back. Accepted is how many of them were
	// fixed, and Waived how many a human let stand.
	Findings int `json:"findings"`
	Accepted int `json:"accepted"`
	Waived   int `json:"waived"`
	// Escaped is how many findings others raised later in work that it had passed.
	Escaped int `json:"escaped"`
	// Unlisted is how many verdicts, of it or on work that it had passed, the ledger has without
	// their findings: the four numbers above are too low by what these found.
	Unlisted int `json:"unlisted,omitempty"`
}

// who is whom a row of the statistics is about.
type who struct {
	role         signalbox.Role
	kind         rules.Kind
	agent, model string
}

// learned computes statistics, event by event.
type learned struct {
	seq   uint64
	meter inspect.Meter
	rows  map[who]*learnedRow
	tasks map[string]*learnedTask
	open  map[uint64]*learnedSession
	// spent is the last report of what each turn at work has used. The end of the turn has all of it,
	// so that most are never decoded.
	spent map[turnAt]signalbox.Event
	// finished are the completed tasks, in the order of their completion.
	finished  []sample
	planTasks int
}

// turnAt names the turn at work: a session has one on each work item that it holds.
type turnAt struct{ session, work string }

type learnedRow struct {
	AgentStats
	work map[string]bool
}

// sample is what a completed task took.
type sample struct {
	seconds   float64
	cost      int64
	costKnown bool
}

type learnedTask struct {
	kind    rules.Kind
	author  *learnedRow // of the work that was last ready for review
	reviews int
	// passed are those who have passed the work as it is.
	passed   map[signalbox.Role]*learnedRow
	findings map[string]*learnedFinding
	// listed means that the findings of the next order to send it back are on the ledger.
	listed    bool
	usage     inspect.Usage
	seconds   float64
	completed bool
}

type learnedFinding struct {
	by       *learnedRow // nil if no agent raised it
	disputed bool
	ended    rules.FindingState
}

type learnedSession struct {
	work    string
	session string
	from    time.Time
	role    signalbox.Role
	agent   string
	row     *learnedRow   // of the last turn
	pending inspect.Usage // of the running turn, whose model is not known yet
	turns   int
	verdict string
	raised  []*learnedFinding
	rework  bool // a verdict without listed findings
}

func (l *learned) task(id string) *learnedTask {
	t := l.tasks[id]
	if t == nil {
		t = &learnedTask{passed: map[signalbox.Role]*learnedRow{},
			findings: map[string]*learnedFinding{}}
		l.tasks[id] = t
	}
	return t
}

func (l *learned) row(of who) *learnedRow {
	r := l.rows[of]
	if r == nil {
		r = &learnedRow{AgentStats: AgentStats{Role: of.role, Kind: of.kind, Agent: of.agent,
			Model: of.model}, work: map[string]bool{}}
		l.rows[of] = r
	}
	return r
}

func (l *learned) add(e *signalbox.Event) {
	if l.rows == nil {
		l.rows, l.tasks = map[who]*learnedRow{}, map[string]*learnedTask{}
		l.open, l.spent = map[uint64]*learnedSession{}, map[turnAt]signalbox.Event{}
	}
	turn := turnAt{e.Session, e.Work}
	if e.Type == rules.TypeAgentSpent {
		l.spent[turn] = *e
		return
	}
	if before, reported := l.spent[turn]; reported {
		switch e.Type {
		case rules.TypeAgentTurnEnded:
			delete(l.spent, turn)
		case rules.TypeAgentStarted, rules.TypeLeaseReleased, rules.TypeLeaseExpired:
			delete(l.spent, turn)
			l.report(&before)
		}
	}
	l.handle(e)
}

// report adds what a turn has used so far.
func (l *learned) report(e *signalbox.Event) {
	if metered, more, _ := l.meter.Add(e); metered != nil {
		l.use(e, metered, more, 0)
	}
}

// handle adds everything but what turns report while they are at work.
func (l *learned) handle(e *signalbox.Event) {
	metered, more, turns := l.meter.Add(e)
	completed := false
	switch e.Type {
	case rules.TypeTaskPlanned:
		kind := kindOf(e)
		if l.task(e.Work).kind = kind; kind == rules.KindTask {
			l.planTasks++
		}
	case rules.TypeLeaseGranted:
		l.open[e.Seq] = &learnedSession{work: e.Work, session: e.Session, from: e.Time,
			role: metered.Role}
	case rules.TypeLeaseReleased, rules.TypeLeaseExpired:
		if metered != nil {
			l.end(e, metered.Epoch, e.Type == rules.TypeLeaseReleased)
		}
	case rules.TypeAgentStarted, rules.TypeAgentTurnEnded:
		if metered != nil {
			l.use(e, metered, more, turns)
		}
	case rules.TypeSignalHeard:
		b := read[struct {
			Epoch  uint64 `json:"epoch"`
			Signal string `json:"signal"`
		}](e)
		if s := l.open[b.Epoch]; s != nil {
			s.verdict = b.Signal
		}
	case rules.TypeFindingsRecorded:
		l.findings(e, read[rules.FindingsRecorded](e))
	case rules.TypePhaseChanged:
		completed = bytes.Contains(e.Data, []byte(signalbox.PhaseCompleted)) &&
			read[rules.PhaseChanged](e).To == signalbox.PhaseCompleted
	case rules.TypeReworkOrdered:
		l.sentBack(e, read[rules.ReworkOrdered](e).Cause)
	}
	if !completed && e.Type != rules.TypeLeaseReleased && e.Type != rules.TypeLeaseExpired {
		return
	}
	t := l.task(e.Work)
	t.completed = t.completed || completed && t.kind == rules.KindTask
	if t.completed && t.seconds >= 0 && l.holder(e.Work) == nil {
		l.finished = append(l.finished,
			sample{t.seconds, t.usage.CostMicros, t.usage.UnknownCost == 0 && t.usage.Tokens > 0})
		t.seconds = -1 // counted
	}
}

// holder returns the session that holds a work item.
func (l *learned) holder(work string) *learnedSession {
	for _, s := range l.open {
		if s.work == work {
			return s
		}
	}
	return nil
}

// use adds what a turn used to the row of its agent, once its end has named the model.
func (l *learned) use(e *signalbox.Event, metered *inspect.MeteredSession, more inspect.Usage,
	turns int) {
	s := l.open[metered.Epoch]
	if s == nil {
		return
	}
	l.task(s.work).usage.Add(more)
	if turns > 0 {
		l.flush(s, "")
		s.agent = metered.Agent
	}
	s.turns += turns
	s.pending.Add(more)
	if e.Type == rules.TypeAgentTurnEnded {
		l.flush(s, metered.Model)
	}
}

func (l *learned) flush(s *learnedSession, model string) {
	if s.turns == 0 && s.pending == (inspect.Usage{}) {
		return
	}
	s.row = l.row(who{s.role, l.task(s.work).kind, s.agent, model})
	s.row.work[s.work] = true
	s.row.Turns += s.turns
	s.row.Usage.Add(s.pending)
	s.turns, s.pending = 0, inspect.Usage{}
}

// end judges a session when its lease ends. The time of one that expired is not known.
func (l *learned) end(e *signalbox.Event, epoch uint64, timed bool) {
	s := l.open[epoch]
	if s == nil {
		return
	}
	delete(l.open, epoch)
	l.flush(s, "")
	t := l.task(s.work)
	if timed && t.seconds >= 0 {
		t.seconds += e.Time.Sub(s.from).Seconds()
	}
	for _, f := range s.raised {
		f.by = s.row
	}
	if s.row == nil {
		return
	}
	if s.rework {
		s.row.Unlisted++
	}
	switch s.verdict {
	case signalbox.NameReadyForReview, signalbox.NameRemediationComplete:
		t.author = s.row
		clear(t.passed)
	case signalbox.NameReviewPassed, signalbox.NameReviewFailed:
		passed := s.verdict == signalbox.NameReviewPassed
		if passed {
			t.passed[s.role] = s.row
		}
		if t.author == nil || s.role != signalbox.RoleCritic {
			return
		}
		if t.reviews++; t.reviews == 1 {
			t.author.Reviewed++
			if passed {
				t.author.FirstPassed++
			}
		}
		t.author.Reviews++
	case signalbox.NameAuditPassed:
		t.passed[s.role] = s.row
	}
}

// findings adds what becomes of findings.
func (l *learned) findings(e *signalbox.Event, b rules.FindingsRecorded) {
	t := l.task(e.Work)
	t.listed = true
	for _, raised := range b.Raised {
		if raised.Note {
			continue
		}
		f := &learnedFinding{}
		t.findings[raised.ID] = f
		t.escape(b.Cause, func(r *learnedRow) { r.Escaped++ })
		if s := l.holder(e.Work); s != nil && s.session == e.Session &&
			(b.Cause == rules.ReworkReview || b.Cause == rules.ReworkAudit) {
			s.raised = append(s.raised, f)
		}
	}
	for _, id := range b.Resolved {
		if f := t.findings[id]; f != nil {
			f.ended = rules.FindingResolved
		}
	}
	for _, again := range b.Again {
		if f := t.findings[again.ID]; f != nil {
			f.ended = rules.FindingOpen
		}
	}
	for _, reply := range b.Replies {
		if f := t.findings[reply.ID]; f != nil {
			f.ended = reply.State
			f.disputed = reply.State == rules.FindingDisputed
		}
	}
}

// escape calls f for the agents that passed work in which an auditor, a check or a human found
// something later. They are not to blame for a merge conflict.
func (t *learnedTask) escape(cause string, f func(*learnedRow)) {
	switch cause {
	case rules.ReworkAudit, rules.ReworkChecks, rules.ReworkRequest, rules.FindingHuman:
		for role, row := range t.passed {
			if cause != rules.ReworkAudit || role != signalbox.RoleAuditor {
				f(row)
			}
		}
	}
}

// sentBack notes verdicts whose findings are not on the ledger, as in older ones.
func (l *learned) sentBack(e *signalbox.Event, cause string) {
	t := l.task(e.Work)
	if !t.listed && slices.Contains([]string{rules.ReworkReview, rules.ReworkAudit,
		rules.ReworkChecks, rules.ReworkMerge, rules.ReworkRequest, rules.FindingHuman}, cause) {
		t.escape(cause, func(r *learnedRow) { r.Unlisted++ })
		if s := l.holder(e.Work); s != nil && s.session == e.Session {
			s.rework = inspect.RunsAgent(s.role)
		}
	}
	t.listed = false
}

// Stats returns what the events up to a sequence say about agents.
func (r *Reader) Stats(ctx context.Context, j inspect.Journal, upTo uint64) (*Stats, error) {
	l := &r.stats
	if err := r.follow(ctx, j, &l.seq, upTo, l.add); err != nil {
		return nil, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, e := range l.spent {
		l.report(&e)
	}
	clear(l.spent)
	st := &Stats{Events: l.seq, Tasks: l.planTasks, Completed: len(l.finished),
		Agents: []AgentStats{}, Next: estimate(l.finished)}
	rows := map[who]*AgentStats{}
	index := map[*learnedRow]*AgentStats{}
	for of, row := range l.rows {
		stats := row.AgentStats
		stats.Work = len(row.work)
		rows[of], index[row] = &stats, &stats
	}
	for _, s := range l.open { // turns at work
		if s.turns == 0 && s.pending == (inspect.Usage{}) {
			continue
		}
		of := who{s.role, l.task(s.work).kind, s.agent, ""}
		if rows[of] == nil {
			rows[of] = &AgentStats{Role: of.role, Kind: of.kind, Agent: of.agent}
		}
		if row := l.rows[of]; row == nil || !row.work[s.work] {
			rows[of].Work++
		}
		rows[of].Turns += s.turns
		rows[of].Usage.Add(s.pending)
	}
	for _, t := range l.tasks {
		for _, f := range t.findings {
			if by := index[f.by]; by != nil {
				by.Findings++
				switch {
				case f.ended == rules.FindingWaived:
					by.Waived++
				case f.ended == rules.FindingFixed, f.ended == rules.FindingResolved && !f.disputed:
					by.Accepted++
				}
			}
		}
	}
	for _, row := range slices.Collect(maps.Values(rows)) {
		st.Agents = append(st.Agents, *row)
	}
	order := rules.DispatchRoles()
	slices.SortFunc(st.Agents, func(a, b AgentStats) int {
		return cmp.Or(-cmp.Compare(slices.Index(order, a.Role), slices.Index(order, b.Role)),
			cmp.Compare(b.Usage.CostMicros, a.Usage.CostMicros), cmp.Compare(b.Turns, a.Turns),
			cmp.Compare(a.Agent, b.Agent), cmp.Compare(a.Model, b.Model),
			cmp.Compare(a.Kind, b.Kind))
	})
	return st, nil
}
