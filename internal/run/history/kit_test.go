package history

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/txtar"
	"pgregory.net/rapid"

	"signalbox"
	"signalbox/internal/core/rules"
	"signalbox/internal/run/inspect"
	"signalbox/internal/testkit/must"
)

// events is a log in memory.
type events []signalbox.Event

func (l events) Read(_ context.Context, after uint64, limit int) ([]signalbox.Event, error) {
	return slices.Clone(l[min(int(after), len(l)):min(int(after)+limit, len(l))]), nil
}

// recorded returns the histories that every version must replay, by name.
func recorded(t *testing.T) map[string]events {
	t.Helper()
	paths, err := filepath.Glob("../../core/rules/testdata/history/*.txtar")
	if err != nil || len(paths) == 0 {
		t.Fatalf("%d histories: %v", len(paths), err)
	}
	logs := map[string]events{}
	for _, path := range paths {
		archive, err := txtar.ParseFile(path)
		must.Succeed(t, err)
		var log events
		for line := range strings.Lines(string(archive.Files[0].Data)) {
			var r struct {
				Seq                              uint64
				Time, Type, Work, Session, Actor string
				Data                             json.RawMessage
			}
			must.Succeed(t, json.Unmarshal([]byte(line), &r))
			at, err := time.Parse(signalbox.EventTime, r.Time)
			must.Succeed(t, err)
			log = append(log, signalbox.Event{Seq: r.Seq, Time: at, Type: r.Type, Work: r.Work,
				Session: r.Session, Actor: r.Actor, Data: r.Data})
		}
		logs[filepath.Base(path)] = log
	}
	return logs
}

// play is a history that a test writes, or draws.
type play struct {
	t    testing.TB
	s    *rules.State
	log  events
	now  time.Time
	next int
	held map[string]rules.Answer // by work
}

func begin(t testing.TB, change func(*rules.Policy), tasks ...rules.PlanTask) *play {
	p := &play{t: t, s: &rules.State{}, now: time.Date(2026, 3, 1, 9, 0, 0, 0, time.UTC),
		held: map[string]rules.Answer{}}
	policy := rules.Policy{Slots: 2, Limits: rules.DefaultLimits()}
	for _, role := range rules.DispatchRoles() {
		policy.Roles = append(policy.Roles, rules.RoleSlots{Role: role, Slots: 2})
		policy.Agents = append(policy.Agents, rules.RoleAgents{Role: role,
			Agents: []string{"claude", "codex"}})
	}
	if change != nil {
		change(&policy)
	}
	p.must(rules.OpenBox{Box: "box-1", Actor: "op"})
	p.must(rules.Configure{Policy: policy, Actor: "op"})
	load := rules.LoadPlan{Plan: signalbox.Hash{1}, Name: "counter", ID: "counter",
		Source: "counter.md", Tasks: tasks, Actor: "op"}
	for !p.must(load).Plan.Loaded {
	}
	return p
}

func task(id string, blockers ...string) rules.PlanTask {
	return rules.PlanTask{ID: id, Title: "task " + id, BlockedBy: blockers,
		Text: signalbox.Hash{id[len(id)-1]}}
}

func (p *play) must(c rules.Command) rules.Answer {
	p.t.Helper()
	answer, err := p.try(c)
	if err != nil {
		p.t.Fatalf("%#v: %v", c, err)
	}
	return answer
}

// try carries out a command. One that is refused can have events too.
func (p *play) try(c rules.Command) (rules.Answer, error) {
	p.t.Helper()
	d := rules.Decide(p.s, p.now, c)
	for i := range d.Events {
		d.Events[i].Seq = p.s.Seq() + 1
		if err := p.s.Apply(&d.Events[i]); err != nil {
			p.t.Fatalf("%#v: %v", c, err)
		}
		p.log = append(p.log, d.Events[i])
	}
	return d.Answer, d.Err
}

func (p *play) after(d time.Duration) *play {
	p.now = p.now.Add(d)
	return p
}

// start dispatches the next work for a role.
func (p *play) start(role signalbox.Role) (rules.Answer, error) {
	p.next++
	session := fmt.Sprintf("w-1.%d", p.next)
	a, err := p.try(rules.Dispatch{Roles: []signalbox.Role{role}, Session: session, Actor: "crew",
		Lease: "l-" + session})
	if err != nil {
		return a, err
	}
	p.held[a.Work] = a
	if inspect.RunsAgent(role) {
		p.must(rules.StartAgent{Session: session, Epoch: a.Lease.Epoch, Agent: a.Agent})
	}
	return a, nil
}

// begins starts a session that must be about a work item.
func (p *play) begins(role signalbox.Role, work string) {
	p.t.Helper()
	if a, err := p.start(role); err != nil || a.Work != work {
		p.t.Fatalf("dispatched %q for a %s, not %s: %v", a.Work, role, work, err)
	}
}

func (p *play) say(work, signal string, cost int64, said rules.SignalFields) {
	p.t.Helper()
	a := p.held[work]
	p.must(rules.ReportSignal{Session: a.Session, Epoch: a.Lease.Epoch, Signal: signal,
		Named: work, Fields: said, Turn: turnOf(cost, a.Agent)})
}

func turnOf(cost int64, agent string) *rules.Turn {
	return &rules.Turn{Output: signalbox.Hash{9}, Model: agent + "-large",
		Spent: rules.Spent{Tokens: cost / 10, CostMicros: cost, Time: time.Second}}
}

func (p *play) check(work string, passed bool) {
	p.t.Helper()
	p.begins(signalbox.RoleCI, work)
	a := p.held[work]
	p.must(rules.ReportChecks{Session: a.Session, Epoch: a.Lease.Epoch, Commit: p.commit(work),
		Rows: []rules.CheckRow{{Check: "test", Environment: "linux", Passed: passed}}})
}

// merge merges work that may be merged.
func (p *play) merge(work string) {
	p.t.Helper()
	p.begins(signalbox.RoleMerger, work)
	a, commit, before := p.held[work], p.commit(work), p.s.Base()
	p.must(rules.PrepareMerge{Session: a.Session, Epoch: a.Lease.Epoch, Commit: commit,
		Before: before})
	p.must(rules.ReportMerge{Session: a.Session, Epoch: a.Lease.Epoch, Commit: commit,
		Before: before, Moves: true})
}

func (p *play) commit(work string) string {
	if work[0] == 'B' && p.s.Base() != "" {
		return p.s.Base()
	}
	return fmt.Sprintf("%040d", p.s.Seq())
}

// explain explains a work item at the time of the last event.
func (p *play) explain(work string) *Explanation {
	p.t.Helper()
	return explain(p.t, new(Reader), p.log, work, p.now)
}

func explain(t testing.TB, r *Reader, log events, work string, now time.Time) *Explanation {
	t.Helper()
	x, err := r.Explain(context.Background(), log, work, uint64(len(log)), now)
	must.Succeed(t, err)
	return x
}

// draw plays a random history.
func draw(t *rapid.T, tb testing.TB) *play {
	tasks := []rules.PlanTask{task("T1"), task("T2"), task("T3", "T1"), task("T4", "T2", "T3")}
	p := begin(tb, func(policy *rules.Policy) {
		policy.ApproveMerge = rapid.Bool().Draw(t, "approve")
		if rapid.IntRange(0, 3).Draw(t, "window") == 0 {
			policy.Window = rules.TokenWindow{Tokens: 50_000, Every: time.Hour}
		}
		policy.Slots = rapid.IntRange(1, 3).Draw(t, "slots")
	}, tasks...)
	for range rapid.IntRange(20, 150).Draw(t, "steps") {
		p.after(time.Duration(rapid.IntRange(0, 300).Draw(t, "pause")) * time.Second)
		p.step(t)
	}
	return p
}

// step does something at random. Much is refused, and some of that is recorded too.
func (p *play) step(t *rapid.T) {
	work := rapid.SampledFrom([]string{"T1", "T2", "T3", "T4", "R-1", "B-1"}).Draw(t, "work")
	held := slices.Sorted(func(yield func(string) bool) {
		for id := range p.held {
			if w, ok := p.s.Work(id); ok && w.Lease != nil && !yield(id) {
				return
			}
		}
	})
	kind := rapid.IntRange(0, 30).Draw(t, "kind")
	order := func(what rules.OrderKind, of string) {
		p.try(rules.Order{What: what, Work: of, Reason: "because", Actor: "ann"})
	}
	switch {
	case kind < 8 || len(held) == 0 && kind < 22:
		for _, role := range rules.DispatchRoles() {
			if _, err := p.start(role); err == nil {
				break
			}
		}
	case kind < 22:
		p.report(t, rapid.SampledFrom(held).Draw(t, "held"))
	case kind == 22:
		order(rapid.SampledFrom([]rules.OrderKind{rules.OrderPause, rules.OrderCancel,
			rules.OrderRetry, rules.OrderResume}).Draw(t, "order"), work)
	case kind == 23:
		order(rapid.SampledFrom([]rules.OrderKind{rules.OrderPause, rules.OrderResume,
			rules.OrderResume}).Draw(t, "order"), "")
	case kind == 24:
		p.after(time.Hour)
		p.try(rules.Expire{})
	case kind == 25:
		p.try(rules.Rework{Work: work, Text: "do it otherwise", Actor: "ann"})
	case kind == 26:
		p.try(rules.CorrectClock{To: p.now.Add(-10 * time.Minute), Reason: "it was ahead",
			Actor: "op"})
		p.now = p.now.Add(-10 * time.Minute)
	case kind == 27:
		for _, id := range p.s.Approvals() {
			order(rules.OrderApprove, id)
		}
	default:
		for _, q := range p.s.Questions() {
			if q.Open() {
				p.try(rules.AnswerQuestion{Question: q.ID, Answer: rapid.SampledFrom(
					[]string{"yes", "no", "again", "retry"}).Draw(t, "answer"), Actor: "ann"})
			}
		}
	}
}

// report reports something about the session that holds the work.
func (p *play) report(t *rapid.T, work string) {
	a := p.held[work]
	w, _ := p.s.Work(work)
	turn := turnOf(int64(rapid.IntRange(0, 300_000).Draw(t, "cost")), w.Task.Agent)
	if rapid.IntRange(0, 5).Draw(t, "unknown") == 0 {
		turn.Spent.CostMicros, turn.Spent.UnknownCost = 0, 1
	}
	choice := rapid.IntRange(0, 11).Draw(t, "report")
	switch role := w.Lease.Role; {
	case role == signalbox.RoleCI:
		p.try(rules.ReportChecks{Session: a.Session, Epoch: a.Lease.Epoch, Commit: p.commit(work),
			Rows: []rules.CheckRow{{Check: "test", Environment: "linux", Passed: choice > 2}}})
	case role == signalbox.RoleMerger:
		refusal := ""
		if choice <= 2 {
			refusal = "its checks failed"
		}
		p.try(rules.ReportMerge{Session: a.Session, Epoch: a.Lease.Epoch,
			Unchanged: choice > 2, Refusal: refusal})
	case choice == 0:
		p.try(rules.ReportFailure{Session: a.Session, Epoch: a.Lease.Epoch, Turn: turn,
			Cause: rapid.SampledFrom([]rules.FailCause{rules.FailCrash, rules.FailRateLimit,
				rules.FailTimeout, rules.FailServer, rules.FailLogin}).Draw(t, "cause"),
			Until: p.now.Add(20 * time.Minute)})
	case choice == 1:
		p.try(rules.ReportUsage{Session: a.Session, Epoch: a.Lease.Epoch, Spent: turn.Spent,
			Estimated: turn.Spent.UnknownCost > 0})
	case choice == 2:
		p.try(rules.Renew{Work: work, Session: a.Session, Epoch: a.Lease.Epoch,
			TTL: time.Hour})
	default:
		signals := map[signalbox.Role][]string{
			signalbox.RoleDeveloper: {"ready_for_review", "ready_for_review", "task_incomplete",
				"infra_blocked", "unknown", "file_conflict", "expert_request"},
			signalbox.RoleCritic: {"review_passed", "review_passed", "review_failed"},
			signalbox.RoleAuditor: {"audit_passed", "audit_passed", "audit_passed", "audit_failed",
				"audit_blocked"},
			signalbox.RoleRemediation: {"remediation_complete"}}[role]
		if len(signals) == 0 {
			signals = []string{"unknown"}
		}
		fields := rules.SignalFields{Summary: "it is wrong", Expert: "db", File: "a.go"}
		if rapid.Bool().Draw(t, "listed") {
			fields.Findings = []rules.SaidFinding{{Place: "a.go:1",
				Text: fmt.Sprintf("wrong %d", p.s.Seq())}}
		}
		p.try(rules.ReportSignal{Session: a.Session, Epoch: a.Lease.Epoch,
			Signal: rapid.SampledFrom(signals).Draw(t, "signal"), Named: work, Fields: fields,
			Turn: turn})
	}
}

// checkExplanation checks what holds for every explanation: its steps follow each other without gap
// and overlap, and are all of the time; its parts are the same, and used as much as the rules know.
func checkExplanation(t testing.TB, log events, x *Explanation, want inspect.Usage,
	now time.Time) {
	t.Helper()
	var usage inspect.Usage
	var parts, steps float64
	for _, p := range x.Parts {
		usage.Add(p.Usage)
		parts += p.Seconds
	}
	near := func(what string, got, want float64) {
		t.Helper()
		if math.Abs(got-want) > 1e-6 {
			t.Errorf("%s: %s is %f s, want %f", x.ID, what, got, want)
		}
	}
	near("agents' time", usage.Seconds, want.Seconds)
	if usage.Seconds = want.Seconds; usage != want {
		t.Errorf("%s: the parts used %+v, the rules know %+v", x.ID, usage, want)
	}
	at, corrected := x.From, false
	for i, s := range x.Steps {
		if steps += s.Seconds; s.Seconds < 0 || s.First > s.Last || s.Shown == 0 {
			t.Errorf("%s: step %d is %+v", x.ID, i, s)
		}
	}
	first := slices.IndexFunc(log, func(e signalbox.Event) bool { return e.Work == x.ID })
	elapsed, last := 0.0, uint64(0)
	if len(x.Steps) > 0 {
		last = x.Steps[len(x.Steps)-1].Last
	}
	for _, e := range log[first:] {
		if x.Done && e.Seq > last {
			break
		}
		elapsed += e.Time.Sub(at).Seconds()
		if at = e.Time; e.Type == rules.TypeClockCorrected {
			at, corrected = read[rules.ClockCorrected](&e).To, true
		}
	}
	if !x.Done && now.After(at) {
		elapsed += now.Sub(at).Seconds()
	}
	near("the time", x.Seconds, elapsed)
	near("the sum of the steps", steps, elapsed)
	near("the sum of the parts", parts, elapsed)
	if at = x.From; !corrected {
		for i, s := range x.Steps {
			if !s.From.Equal(at) || s.To.Before(s.From) {
				t.Errorf("%s: step %d is from %v to %v, the one before ended at %v", x.ID, i, s.From,
					s.To, at)
			}
			at = s.To
		}
		if !at.Equal(x.To) {
			t.Errorf("%s: the last step ends at %v, not %v", x.ID, at, x.To)
		}
	}
}

// checkLast checks the last step against what the rules know at the same time.
func checkLast(t testing.TB, s *rules.State, x *Explanation, now time.Time) {
	t.Helper()
	w, known := s.Work(x.ID)
	if !known || len(x.Steps) == 0 {
		return
	}
	task, last, anyLease := inspect.NewTask(s, w, now), x.Steps[len(x.Steps)-1].Part, false
	for other := range s.Works() {
		anyLease = anyLease || other.Lease != nil
	}
	one := func(parts ...Part) {
		t.Helper()
		if x.Done || !slices.Contains(parts, last) {
			t.Errorf("%s at event %d is %s (%s), and its last step is %+v", x.ID, s.Seq(),
				task.Condition, task.WaitsFor, x.Steps[len(x.Steps)-1])
		}
	}
	switch task.Condition {
	case inspect.Completed, inspect.Cancelled:
		if w.Lease == nil && !x.Done {
			t.Errorf("%s is %s, and its explanation is not done", x.ID, task.Condition)
		}
	case inspect.Working:
		if x.Done || last.IsWait() {
			one()
		}
	case inspect.Parked:
		one(WaitExpert, WaitFile)
	case inspect.Asking, inspect.NeedsApproval, inspect.Paused, inspect.Blocked:
		one(WaitHuman, waitExpired(w, now))
	case inspect.InRequest:
		one(WaitRequest)
	case inspect.InRemediation:
		one(WaitBase, waitExpired(w, now))
	case inspect.Waiting:
		one(WaitTasks, waitExpired(w, now))
		names := strings.ReplaceAll(x.Steps[len(x.Steps)-1].Text, " (cancelled)", "")
		if last == WaitTasks && names != strings.Join(s.OpenBlockers(w), ", ") {
			t.Errorf("%s at event %d waits for %q, want %q", x.ID, s.Seq(), names, s.OpenBlockers(w))
		}
	case inspect.Ready:
		switch {
		case w.Lease != nil && now.Equal(w.Lease.Expires): // since now
		case w.Lease != nil: // expired
			one(waitExpired(w, now), Checks, Merge)
		case anyLease:
			one(WaitSlot, WaitLimit, WaitHuman, WaitBase)
		default:
			one(WaitMachine, WaitSlot, WaitLimit, WaitHuman, WaitBase)
		}
	}
}

// waitExpired is what work waits for whose lease has expired, before the ledger says so.
func waitExpired(w *rules.Work, now time.Time) Part {
	if w.Lease != nil && w.LiveLease(now) == nil {
		return WaitMachine
	}
	return ""
}
