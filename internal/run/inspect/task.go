package inspect

import (
	"context"
	"encoding/json"
	"math"
	"slices"
	"strings"
	"time"

	"signalbox"
	"signalbox/internal/core/rules"
)

// Condition is what a work item does or waits for in its phase.
type Condition string

const (
	Working       Condition = "working"
	Parked        Condition = "parked"         // its agent waits for an expert or a file
	Asking        Condition = "asking"         // waits for an answer
	NeedsApproval Condition = "needs_approval" // its merge waits for approval
	InRequest     Condition = "in_request"     // waits until its pull request is merged
	InRemediation Condition = "in_remediation" // waits for a remediation
	Paused        Condition = "paused"
	Ready         Condition = "ready"   // waits for a slot, or for somebody who claims it
	Waiting       Condition = "waiting" // for other tasks
	Blocked       Condition = "blocked" // was opened by hand, and waits for unblock
	Cancelled     Condition = "cancelled"
	Completed     Condition = "completed"
)

// Task is a work item: a task of a plan, what the rules added to it, or work opened by hand, which
// has no kind.
type Task struct {
	ID    string          `json:"id"`
	Title string          `json:"title"`
	Kind  rules.Kind      `json:"kind,omitempty"`
	Plan  string          `json:"plan,omitempty"`
	Phase signalbox.Phase `json:"phase"`
	// Step is the phase in which it continues if it is blocked, and Phase otherwise.
	Step      signalbox.Phase `json:"step"`
	Condition Condition       `json:"condition"`
	// Worker holds it now; absent if no one does.
	Worker *Worker `json:"worker,omitempty"`
	// WaitsFor is what it waits for, for people.
	WaitsFor string `json:"waits_for,omitempty"`
	// Questions are its open questions, and Blockers the tasks that it waits for.
	Questions []string `json:"questions,omitempty"`
	Blockers  []string `json:"blockers,omitempty"`
	// Audited means that it has passed its audit, and waits for its merge if it is ready for that.
	Audited bool `json:"audited,omitempty"`
	// Skipped are the gates that it passes without a verdict, because its plan says so: review,
	// audit.
	Skipped []string `json:"skipped,omitempty"`
	// OpenFindings is how many findings keep it from passing.
	OpenFindings int `json:"open_findings,omitempty"`
	// MessagesFor are the roles that wait for words of the human, one for each message that no
	// agent has got yet, and that the one at work does not have either; "" is the next agent,
	// whatever its role.
	MessagesFor []signalbox.Role `json:"messages_for,omitempty"`
	// DoneBy are the agents that wrote and judged it, with their vendors and models.
	DoneBy []rules.DoneBy `json:"done_by,omitempty"`
	// Request is the address of its pull request, "" if it has none.
	Request string `json:"request,omitempty"`
	Effort
	Usage Usage `json:"usage"`
}

// Worker is who works on a task.
type Worker struct {
	Role    signalbox.Role `json:"role"`
	Expert  string         `json:"expert,omitempty"`
	Agent   string         `json:"agent,omitempty"`
	Actor   string         `json:"actor"`
	Session string         `json:"session"`
	Epoch   uint64         `json:"epoch"`
	Since   time.Time      `json:"since"`
	// Attempt is the attempt number of this role on this task, from 1; 0 if it runs no agent.
	Attempt int `json:"attempt,omitempty"`
	// Activity and Percent are from its last checkpoint.
	Activity string `json:"activity,omitempty"`
	Percent  int    `json:"percent,omitempty"`
	// Sandbox is what its agent may do, and what enforces that; absent if it runs no agent, or
	// before it has started.
	Sandbox *rules.Sandbox `json:"sandbox,omitempty"`
	// Machine is the name of the machine on which it works, absent if only one can use the ledger.
	Machine string `json:"machine,omitempty"`
	// Lost means that its process was killed: the next run releases the task.
	Lost bool `json:"lost,omitempty"`
}

// Effort is what a task has taken so far.
type Effort struct {
	// Attempts is how many agents were started.
	Attempts int `json:"attempts"`
	// Reworks is how often it was sent back, and Failures how often an agent failed or sent no
	// valid signal.
	Reworks  int `json:"reworks"`
	Failures int `json:"failures"`
	// AgentSeconds is how long agents held it.
	AgentSeconds float64 `json:"agent_seconds"`
}

// NewTask returns a work item as it is at time now.
func NewTask(s *rules.State, w *rules.Work, now time.Time) Task {
	t := Task{ID: w.ID, Title: w.Title, Phase: w.Phase, Step: w.Phase, Effort: NewEffort(w)}
	if w.Phase == signalbox.PhaseBlocked {
		t.Step = w.BlockedFrom
	}
	lease := w.LiveLease(now)
	if lease != nil {
		t.Worker = newWorker(w, lease)
	}
	if w.Task == nil {
		t.byHand(w)
		return t
	}
	t.Kind, t.Plan, t.Questions, t.Audited, t.Usage = w.Task.Kind, w.Task.Plan, w.Task.Questions,
		w.Task.Audited, usageOf(w.Task.Spent)
	t.Skipped, t.OpenFindings = w.Task.Skipped, len(w.Task.OpenFindings())
	t.DoneBy = w.Task.DoneBy
	for _, m := range w.Task.Messages {
		if !t.Worker.has(m) {
			t.MessagesFor = append(t.MessagesFor, m.Role)
		}
	}
	if w.Task.Delivered != nil {
		t.Request = w.Task.Delivered.Request
	}
	switch {
	case w.Phase == signalbox.PhaseCompleted:
		t.Condition = Completed
	case w.Task.Cancelled != "":
		// "cancelled by ann" would follow the condition, which says it already
		t.Condition, t.WaitsFor = Cancelled, strings.TrimPrefix(w.Task.Cancelled, "cancelled ")
	case lease != nil && w.Task.Parked != nil:
		t.Condition, t.WaitsFor = Parked, w.Task.Parked.For
	case lease != nil:
		t.Condition = Working
	case len(w.Task.Questions) > 0:
		t.Condition, t.WaitsFor = Asking, strings.Join(w.Task.Questions, ", ")
	case w.Task.Remedy != "":
		t.Condition, t.WaitsFor = InRemediation, w.Task.Remedy
	case w.Task.Paused:
		t.Condition = Paused
	default:
		t.wait(s, w)
	}
	return t
}

// byHand completes work that was opened by hand.
func (t *Task) byHand(w *rules.Work) {
	switch {
	case w.Done():
		t.Condition = Completed
	case t.Worker != nil:
		t.Condition = Working
	case w.Phase == signalbox.PhaseBlocked:
		t.Condition, t.WaitsFor = Blocked, w.Notes
	default:
		t.Condition = Ready
	}
}

// wait completes a task that nothing but its place in the plan stops.
func (t *Task) wait(s *rules.State, w *rules.Work) {
	t.Condition = Ready
	var open []string
	for _, id := range s.OpenBlockers(w) {
		t.Blockers = append(t.Blockers, id)
		if b, known := s.Work(id); known && b.Task != nil && b.Task.Cancelled != "" {
			id += " (cancelled)"
		}
		open = append(open, id)
	}
	switch {
	case w.WaitsForRequest():
		t.Condition, t.WaitsFor = InRequest, t.Request
	case len(open) > 0:
		t.Condition, t.WaitsFor = Waiting, strings.Join(open, ", ")
	case s.WaitsForApproval(w):
		t.Condition = NeedsApproval
	default:
		t.WaitsFor = s.LackOfJudge(w)
	}
}

func newWorker(w *rules.Work, lease *signalbox.Lease) *Worker {
	worker := &Worker{Role: lease.Role, Actor: lease.Actor, Session: lease.Session,
		Epoch: lease.Epoch}
	if w.Present != nil {
		worker.Since = w.Present.From
	}
	if t := w.Task; t != nil {
		worker.Attempt, worker.Expert = t.Starts[lease.Role], t.Expert
		if t.Progress != nil && !t.Progress.At.Before(worker.Since) {
			worker.Activity, worker.Percent = t.Progress.Activity, t.Progress.Percent
		}
	}
	return worker
}

// has reports whether an agent at work has a message in its prompt, or is interrupted to read it.
// Only the end of its turn records that it got it.
func (w *Worker) has(m rules.Message) bool {
	return w != nil && w.Attempt > 0 && m.IsFor(w.Role) && (m.Seq < w.Epoch || m.Now)
}

// Name returns what people call the worker: its role in words, or the name of the expert.
func (w *Worker) Name() string {
	switch {
	case w.Role == signalbox.RoleCI:
		return "checks"
	case w.Role == signalbox.RoleExpert && w.Expert != "":
		return w.Expert
	}
	return strings.ReplaceAll(strings.TrimPrefix(string(w.Role), "business-"), "-", " ")
}

// NewEffort returns what a work item has taken so far.
func NewEffort(w *rules.Work) Effort {
	var e Effort
	if w.Task != nil {
		for _, n := range w.Task.Starts {
			e.Attempts += n
		}
		e.Failures = w.Task.Counts.Unknown + w.Task.Counts.Incompletes
		for _, n := range w.Task.Timeouts {
			e.Failures += n
		}
	}
	e.Reworks = reworks(w)
	for _, tenure := range w.Tenures() {
		if RunsAgent(tenure.Role) && !tenure.To.IsZero() {
			e.AgentSeconds += tenure.To.Sub(tenure.From).Seconds()
		}
	}
	return e
}

// reworks returns how often work went back to its author: because of checks, a review, an audit or
// a merge, or because the human sent it back, which can happen while the author still works. Work
// that was sent back and that no author has taken yet counts too.
func reworks(w *rules.Work) (n int) {
	// the epoch of the last author, and whether the work was checked or reviewed since
	started, judged := uint64(0), false
	sentBack := func(before uint64) bool {
		return started > 0 &&
			(judged || w.Task != nil &&
				slices.ContainsFunc(w.Task.Corrections,
					func(f rules.Finding) bool { return f.Seq > started && f.Seq < before }))
	}
	for _, tenure := range w.Tenures() {
		switch tenure.Role {
		case signalbox.RoleDeveloper, signalbox.RoleRemediation:
			if sentBack(tenure.Epoch) {
				n++
			}
			started, judged = tenure.Epoch, false
		case signalbox.RoleCI, signalbox.RoleCritic, signalbox.RoleAuditor, signalbox.RoleMerger,
			signalbox.RoleHealthAuditor:
			judged = true
		}
	}
	at := w.Phase
	if at == signalbox.PhaseBlocked {
		at = w.BlockedFrom
	}
	isNew := func(f rules.Finding) bool { return started > 0 && f.Seq > started }
	endedInstead := at == signalbox.PhaseCompleted && w.Task != nil && // by the human
		slices.ContainsFunc(w.Task.Findings, isNew)
	if at == signalbox.PhaseImplementation && sentBack(math.MaxUint64) || endedInstead {
		n++
	}
	return n
}

// RunsAgent reports whether sessions of a role run an agent.
func RunsAgent(role signalbox.Role) bool {
	return role != signalbox.RoleCI && role != signalbox.RoleMerger
}

const (
	readAtOnce = 64
	// maxStartEvents is how many events after a lease was granted are searched for the start of its
	// agent. The start follows at once, unless the workspace must be prepared first while many
	// others work.
	maxStartEvents = 4096
)

// machineOf returns the machine of the crew to which a lease was granted, "" if it is not known.
func machineOf(ctx context.Context, j Journal, epoch uint64) (string, error) {
	events, err := j.Read(ctx, epoch-1, 1)
	if err != nil || len(events) == 0 || events[0].Type != rules.TypeLeaseGranted {
		return "", err
	}
	return read[rules.LeaseGranted](&events[0]).Machine, nil
}

// startOf returns the start of the agent under a lease, zero if none is found soon after the lease
// was granted.
func startOf(ctx context.Context, j Journal, work string,
	epoch uint64) (rules.AgentStarted, error) {
	for after := epoch; after < epoch+maxStartEvents; {
		events, err := j.Read(ctx, after, readAtOnce)
		if err != nil || len(events) == 0 {
			return rules.AgentStarted{}, err
		}
		for i := range events {
			var started rules.AgentStarted
			if e := &events[i]; e.Type == rules.TypeAgentStarted && e.Work == work &&
				json.Unmarshal(e.Data, &started) == nil && started.Epoch == epoch {
				return started, nil
			}
		}
		after = events[len(events)-1].Seq
	}
	return rules.AgentStarted{}, nil
}
