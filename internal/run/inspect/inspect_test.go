package inspect

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"signalbox"
	"signalbox/internal/core/rules"
	"signalbox/internal/run/agent"
	"signalbox/internal/testkit/must"
)

// history is a log in memory, and the state that it gives. A test says what happens.
type history struct {
	t      *testing.T
	s      *rules.State
	events []signalbox.Event
	now    time.Time
	held   map[string]rules.Answer // the session that holds each task
}

// begin starts a history with a plan.
func begin(t *testing.T, change func(*rules.Policy), tasks ...rules.PlanTask) *history {
	h := &history{t: t, s: &rules.State{}, now: time.Date(2026, 3, 1, 9, 0, 0, 0, time.UTC),
		held: map[string]rules.Answer{}}
	policy := rules.Policy{Slots: 5, Limits: rules.DefaultLimits()}
	for _, role := range rules.DispatchRoles() {
		policy.Roles = append(policy.Roles, rules.RoleSlots{Role: role, Slots: 3})
	}
	if change != nil {
		change(&policy)
	}
	h.do(rules.OpenBox{Box: "box-1", Actor: "op"})
	h.do(rules.Configure{Policy: policy, Actor: "op"})
	load := rules.LoadPlan{Plan: signalbox.Hash{1}, Name: "counter", ID: "counter", Source: "counter.md", Tasks: tasks, Actor: "op"}
	for len(tasks) > 0 && !h.do(load).Plan.Loaded {
	}
	return h
}

func task(id string, blockers ...string) rules.PlanTask {
	return rules.PlanTask{ID: id, Title: "task " + id, BlockedBy: blockers,
		Text: signalbox.Hash{id[len(id)-1]}}
}

// do carries out a command a second after the last one.
func (h *history) do(c rules.Command) rules.Answer {
	h.t.Helper()
	h.now = h.now.Add(time.Second)
	d := rules.Decide(h.s, h.now, c)
	for i := range d.Events {
		d.Events[i].Seq = h.s.Seq() + 1
		if err := h.s.Apply(&d.Events[i]); err != nil {
			h.t.Fatalf("%#v: %v", c, err)
		}
		h.events = append(h.events, d.Events[i])
	}
	if d.Err != nil {
		h.t.Fatalf("%#v: %v", c, d.Err)
	}
	return d.Answer
}

// Read makes a history a Journal.
func (h *history) Read(_ context.Context, after uint64, limit int) ([]signalbox.Event, error) {
	return slices.Clone(h.events[min(int(after), len(h.events)):min(int(after)+limit,
		len(h.events))]), nil
}

// start dispatches the next work for a role, which must be the given one.
func (h *history) start(role signalbox.Role, work string) {
	h.t.Helper()
	session := fmt.Sprintf("w-1.%d", h.s.Seq())
	answer := h.do(rules.Dispatch{Roles: []signalbox.Role{role}, Session: session, Actor: "crew",
		Lease: "l-" + session})
	if answer.Work != work {
		h.t.Fatalf("dispatched %s for %s, not %s", role, answer.Work, work)
	}
	h.held[work] = answer
	if RunsAgent(role) {
		h.do(rules.StartAgent{Session: session, Epoch: answer.Lease.Epoch, Agent: "claude"})
	}
}

// say ends the turn of the agent that holds the work with a signal.
func (h *history) say(work, signal string, said rules.SignalFields) {
	h.t.Helper()
	a := h.held[work]
	h.do(rules.ReportSignal{Session: a.Session, Epoch: a.Lease.Epoch, Signal: signal, Named: work,
		Fields: said,
		Turn: &rules.Turn{Output: signalbox.Hash{9},
			Spent: rules.Spent{Tokens: 2100, CostMicros: 70_000, Time: time.Second}}})
}

// check reports the checks of the work.
func (h *history) check(work string, rows ...rules.CheckRow) {
	h.t.Helper()
	h.start(signalbox.RoleCI, work)
	a := h.held[work]
	commit := "3f2a91c000000000000000000000000000000000"
	if work[0] == 'B' && h.s.Base() != "" {
		commit = h.s.Base()
	}
	h.do(rules.ReportChecks{Session: a.Session, Epoch: a.Lease.Epoch, Commit: commit, Rows: rows})
}

func (h *history) develop(work string) {
	h.t.Helper()
	h.start(signalbox.RoleDeveloper, work)
	h.say(work, "ready_for_review", rules.SignalFields{})
	h.check(work, rules.CheckRow{Check: "test", Environment: "linux", Passed: true})
}

func (h *history) audit(work string) {
	h.t.Helper()
	h.start(signalbox.RoleCritic, work)
	h.say(work, "review_passed", rules.SignalFields{})
	h.start(signalbox.RoleAuditor, work)
	h.say(work, "audit_passed", rules.SignalFields{})
}

// find returns the listed task with an id.
func find(t *testing.T, st *Status, id string) Task {
	t.Helper()
	i := slices.IndexFunc(st.Tasks, func(t Task) bool { return t.ID == id })
	if i < 0 {
		t.Fatalf("%s is not listed among %d tasks", id, len(st.Tasks))
	}
	return st.Tasks[i]
}

func TestStatusListsWhatDoesNotMerelyWait(t *testing.T) {
	h := begin(t, func(p *rules.Policy) { p.ApproveMerge = true }, task("T1"), task("T2"),
		task("T3", "T1"), task("T4"), task("T5"), task("T6", "T3"))
	h.check("B-1")
	h.develop("T1")
	h.audit("T1")
	h.start(signalbox.RoleDeveloper, "T2")
	h.say("T2", "divine_clarification", rules.SignalFields{Summary: "how many?"})
	h.start(signalbox.RoleDeveloper, "T4")
	began := h.now.Add(-time.Second)
	h.do(rules.Order{What: rules.OrderCancel, Work: "T6", Reason: "not wanted", Actor: "ann"})
	st := NewStatus(h.s, h.now)
	must.Succeed(t, st.nameAgents(t.Context(), h))
	got := map[string]Condition{}
	for _, task := range st.Tasks {
		got[task.ID] = task.Condition
	}
	if diff := cmp.Diff(map[string]Condition{"T1": NeedsApproval, "T2": Asking, "T4": Working},
		got); diff != "" {
		t.Errorf("listed (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(Counts{Tasks: 5, Cancelled: 1, Working: 1, Asking: 2, Ready: 1, Waiting: 1},
		st.Counts); diff != "" {
		t.Errorf("counts (-want +got):\n%s", diff)
	}
	worker := find(t, st, "T4").Worker
	if worker.Role != signalbox.RoleDeveloper || worker.Agent != "claude" ||
		!worker.Since.Equal(began) || worker.Attempt != 1 {
		t.Errorf("T4 is worked on by %+v", worker)
	}
	if t1 := find(t, st, "T1"); t1.Attempts != 3 || t1.Usage.CostMicros != 210_000 ||
		t1.Phase != signalbox.PhaseReadyForMerge {
		t.Errorf("T1 is %+v", t1)
	}
	var commands []string
	for _, r := range st.Requests {
		commands = append(commands, string(r.Kind)+": "+r.Command)
	}
	if diff := cmp.Diff([]string{"question: signalbox answer Q-1 TEXT",
		"approval: signalbox approve T1"}, commands); diff != "" {
		t.Errorf("requests (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]Plan{{ID: "counter", Title: "counter", Source: "counter.md", Tasks: 5,
		Cancelled: 1, Current: true}}, st.Plans); diff != "" {
		t.Errorf("plans (-want +got):\n%s", diff)
	}
	if questions, approvals := st.Waiting(); questions != 1 || approvals != 1 {
		t.Errorf("%d questions and %d approvals", questions, approvals)
	}
}

func TestStatusOfBudgetsAndTheTokenWindow(t *testing.T) {
	h := begin(t, func(p *rules.Policy) {
		p.Run = rules.Budget{CostMicros: 70_000}
		p.RoleBudgets = []rules.RoleBudget{{Role: signalbox.RoleCritic,
			Budget: rules.Budget{Tokens: 5000}}}
		p.Window = rules.TokenWindow{Tokens: 10_000, Every: time.Hour}
	}, task("T1"))
	h.check("B-1")
	h.develop("T1")
	st := NewStatus(h.s, h.now)
	if len(st.Requests) != 1 || st.Requests[0].Kind != RequestBudget ||
		!slices.Equal(st.Requests[0].Answers, []string{"yes", "no"}) {
		t.Errorf("requests are %+v", st.Requests)
	}
	want := []BudgetUse{
		{Of: rules.CapRun, Used: Usage{Tokens: 2100, CostMicros: 70_000, Seconds: 1},
			Limit: Usage{CostMicros: 70_000}},
		{Of: rules.CapRole, Role: signalbox.RoleCritic, Limit: Usage{Tokens: 5000}},
	}
	if diff := cmp.Diff(want, st.Spending.Budgets); diff != "" {
		t.Errorf("budgets (-want +got):\n%s", diff)
	}
	if w := st.Spending.Window; w == nil || w.Tokens != 2100 || w.Limit != 10_000 || w.Ends == nil {
		t.Errorf("the window is %+v", w)
	}
	h.do(rules.AnswerQuestion{Question: "Q-1", Answer: "yes", Actor: "ann"})
	st = NewStatus(h.s, h.now.Add(2*time.Hour))
	if used := st.Spending.Budgets[0].Used; used != (Usage{}) {
		t.Errorf("after the extension the run has used %+v", used)
	}
	if w := st.Spending.Window; w.Tokens != 0 || w.Ends != nil {
		t.Errorf("after its end the window is %+v", w)
	}
}

func TestStatusOfARedBase(t *testing.T) {
	h := begin(t, nil, task("T1"))
	h.check("B-1", rules.CheckRow{Check: "test", Environment: "linux", Exit: 127,
		Cause: "go is not installed"})
	st := NewStatus(h.s, h.now)
	if st.Base.Red != "B-1" || !slices.Equal(st.Base.Failing, []string{"test|linux"}) {
		t.Errorf("the base is %+v", st.Base)
	}
	if len(st.Requests) != 1 || st.Requests[0].Kind != RequestFault ||
		!slices.Contains(st.Requests[0].Answers, "accept") {
		t.Errorf("requests are %+v", st.Requests)
	}
	h.do(rules.AnswerQuestion{Question: "Q-1", Answer: "accept", Actor: "ann"})
	if base := NewStatus(h.s, h.now).Base; base.Red != "" ||
		!slices.Equal(base.Accepted, []string{"test|linux"}) {
		t.Errorf("the accepted base is %+v", base)
	}
}

func TestStatusOfRateLimitsAndPauses(t *testing.T) {
	h := begin(t, nil, task("T1"))
	h.check("B-1")
	h.start(signalbox.RoleDeveloper, "T1")
	a, until := h.held["T1"], h.now.Add(time.Hour)
	h.do(rules.ReportFailure{Session: a.Session, Epoch: a.Lease.Epoch, Cause: rules.FailRateLimit,
		Until: until})
	h.do(rules.Order{What: rules.OrderPause, Actor: "ann"})
	st := NewStatus(h.s, h.now)
	if !st.Paused || len(st.RateLimits) != 1 || st.RateLimits[0].Role != signalbox.RoleDeveloper ||
		!st.RateLimits[0].Until.Equal(until) {
		t.Errorf("paused %v, limits %+v", st.Paused, st.RateLimits)
	}
	if limits := NewStatus(h.s, until).RateLimits; len(limits) != 0 {
		t.Errorf("limits that have ended: %+v", limits)
	}
}

// A run that was killed still holds its lease. The status says so, and how to continue.
func TestStatusOfAKilledRun(t *testing.T) {
	h := begin(t, nil, task("T1"))
	h.check("B-1")
	h.start(signalbox.RoleDeveloper, "T1")
	running := NewStatus(h.s, h.now)
	running.addCrews([]agent.Crew{{ID: "w-1", Alive: true, Sessions: []string{"w-1.1"}}})
	if find(t, running, "T1").Worker.Lost || len(running.Requests) != 0 ||
		running.Crews[0].Agents != 1 {
		t.Errorf("a running crew: %+v, %+v", running.Crews, running.Requests)
	}
	killed := NewStatus(h.s, h.now)
	killed.addCrews([]agent.Crew{{ID: "w-1"}})
	if !find(t, killed, "T1").Worker.Lost {
		t.Error("the worker of a killed crew is not lost")
	}
	if len(killed.Requests) != 1 || killed.Requests[0].Command != "signalbox run counter.md" {
		t.Errorf("requests are %+v", killed.Requests)
	}
	// A crew of another machine is not registered here.
	remote := NewStatus(h.s, h.now)
	remote.addCrews(nil)
	if len(remote.Requests) != 0 {
		t.Errorf("requests are %+v", remote.Requests)
	}
}

// Words wait for an agent until one has them in its prompt, or is interrupted to read them.
func TestStatusOfWordsThatWait(t *testing.T) {
	h := begin(t, nil, task("T1"))
	h.check("B-1")
	waits := func(when string, want ...signalbox.Role) {
		t.Helper()
		w, _ := h.s.Work("T1")
		got := NewTask(h.s, w, h.now).MessagesFor
		if !slices.Equal(got, want) {
			t.Errorf("%s: words wait for %q, want %q", when, got, want)
		}
	}
	tell := rules.Tell{Work: "T1", Text: "be brief", Actor: "ann"}
	h.do(tell)
	waits("before the developer", signalbox.RoleDeveloper)
	if status := NewStatus(h.s, h.now); len(status.Tasks) != 1 {
		t.Errorf("before the developer starts, the status lists %+v", status.Tasks)
	}
	h.start(signalbox.RoleDeveloper, "T1")
	waits("while the developer reads them")
	tell.Now = true
	h.do(tell)
	waits("while the developer is interrupted")
	tell.Now = false
	h.do(tell)
	waits("while the developer works", signalbox.RoleDeveloper)
}

// What follows the word cancelled does not repeat it.
func TestWhyATaskIsCancelled(t *testing.T) {
	for reason, want := range map[string]string{"": "by ann", "not needed": "not needed"} {
		h := begin(t, nil, task("T1"))
		h.do(rules.Order{What: rules.OrderCancel, Work: "T1", Reason: reason, Actor: "ann"})
		w, _ := h.s.Work("T1")
		if got := NewTask(h.s, w, h.now); got.Condition != Cancelled || got.WaitsFor != want {
			t.Errorf("the task is %s: %s, want %s", got.Condition, got.WaitsFor, want)
		}
	}
}

func TestStatusWithoutAPlan(t *testing.T) {
	h := begin(t, nil)
	if st := NewStatus(h.s, h.now); st.Standing != rules.StandingEmpty {
		t.Errorf("the standing is %s", st.Standing)
	}
	h.do(rules.OpenWork{Work: "w1", Actor: "ann"})
	h.do(rules.OpenWork{Work: "w2", Actor: "ann"})
	h.do(rules.Claim{Work: "w1", Role: signalbox.RoleDeveloper, Session: "s1", Actor: "ann",
		Lease: "l1", TTL: time.Hour})
	st := NewStatus(h.s, h.now)
	if st.Standing != StandingByHand || st.Counts.ByHand != 2 || len(st.Tasks) != 1 ||
		st.Tasks[0].Worker.Actor != "ann" {
		t.Errorf("%s, %+v, %+v", st.Standing, st.Counts, st.Tasks)
	}
	if expired := NewStatus(h.s, h.now.Add(2*time.Hour)); len(expired.Tasks) != 0 {
		t.Errorf("an expired lease still holds %+v", expired.Tasks)
	}
}

// Without a run on this machine, the status names the command that continues, if a run helps.
func TestStatusSaysWhatContinues(t *testing.T) {
	h := begin(t, nil, task("T1"), task("T2"))
	status := func(crews ...agent.Crew) *Status {
		st := NewStatus(h.s, h.now)
		st.addCrews(crews)
		return st
	}
	h.check("B-1", rules.CheckRow{Check: "test", Environment: "linux", Passed: true})
	if st := status(); st.Continue != "signalbox run counter.md" || st.Active() {
		t.Errorf("before the first task: %q", st.Continue)
	}
	if st := status(agent.Crew{ID: "w-1", Alive: true}); st.Continue != "" || !st.Active() {
		t.Errorf("with a run: %q", st.Continue)
	}
	h.start(signalbox.RoleDeveloper, "T1")
	if st := status(); st.Continue != "" {
		t.Errorf("somebody else works: %q", st.Continue)
	}
	if st := status(agent.Crew{ID: "w-1"}); st.Continue == "" {
		t.Error("a killed crew is taken for one that works")
	}
	h.say("T1", signalbox.NameDivineClarification, rules.SignalFields{Summary: "how many?"})
	h.do(rules.Order{What: rules.OrderPause, Actor: "ann"})
	for _, want := range []rules.Standing{rules.StandingAsking, rules.StandingPaused} {
		if st := status(); st.Standing != want || st.Continue != "signalbox run counter.md" ||
			!st.Paused {
			t.Errorf("%s: %q", st.Standing, st.Continue)
		}
		h.do(rules.Order{What: rules.OrderRetry, Work: "T1", Actor: "ann"})
	}
	h.do(rules.Order{What: rules.OrderCancel, Actor: "ann"})
	if st := status(); st.Standing != rules.StandingStuck || st.Continue != "" {
		t.Errorf("%s: %q", st.Standing, st.Continue)
	}
	// Work that was claimed by hand is not a run of the plan.
	byHand := begin(t, nil, task("T1"))
	byHand.do(rules.OpenWork{Work: "w1", Actor: "ann"})
	byHand.do(rules.Claim{Work: "w1", Role: signalbox.RoleDeveloper, Session: "s1", Actor: "ann",
		Lease: "l1", TTL: time.Hour})
	st := NewStatus(byHand.s, byHand.now)
	if st.addCrews(nil); st.Continue == "" {
		t.Error("work that was claimed by hand is taken for a run")
	}
}

// Every way back to the author counts once, also before the author starts again.
func TestReworks(t *testing.T) {
	h := begin(t, func(p *rules.Policy) { p.ApproveMerge = true }, task("T1"))
	h.check("B-1", rules.CheckRow{Check: "test", Environment: "linux", Passed: true})
	want := func(when string, n int) {
		t.Helper()
		w, _ := h.s.Work("T1")
		if got := NewEffort(w).Reworks; got != n {
			t.Errorf("%s: %d reworks, want %d", when, got, n)
		}
	}
	rework := func(reject bool) { h.do(rules.Rework{Work: "T1", Text: "not so", Actor: "ann", Reject: reject}) }
	rework(false)
	want("the human asked for something before anybody worked on it", 0)
	h.start(signalbox.RoleDeveloper, "T1")
	want("the first developer works", 0)
	rework(false)
	want("sent back while the developer worked", 1)
	rework(false)
	want("sent back again before the developer started", 1)
	h.start(signalbox.RoleDeveloper, "T1")
	h.say("T1", "ready_for_review", rules.SignalFields{})
	want("the second developer is done", 1)
	h.check("T1", rules.CheckRow{Check: "test", Environment: "linux", Exit: 1})
	want("the checks failed", 2)
	h.develop("T1")
	want("checked again", 2)
	h.audit("T1")
	rework(true)
	want("the merge was rejected", 3)
	h.develop("T1")
	want("developed again", 3)
}

// Work that was sent back, and that the human then ends, was sent back nevertheless.
func TestReworksAfterAnAnswer(t *testing.T) {
	h := begin(t, func(p *rules.Policy) { p.Limits.Remediations = 1 }, task("T1"))
	h.check("B-1", rules.CheckRow{Check: "test", Environment: "linux", Passed: true})
	h.start(signalbox.RoleDeveloper, "T1")
	h.say("T1", signalbox.NameInfraBlocked, rules.SignalFields{Summary: "no disk"})
	want := func(when string, n int) {
		t.Helper()
		w, _ := h.s.Work("R-1")
		if got := NewEffort(w).Reworks; got != n {
			t.Errorf("%s: %d reworks, want %d", when, got, n)
		}
	}
	remedy := func() {
		h.start(signalbox.RoleRemediation, "R-1")
		h.say("R-1", signalbox.NameRemediationComplete, rules.SignalFields{})
		h.check("R-1", rules.CheckRow{Check: "test", Environment: "linux", Passed: true})
		h.start(signalbox.RoleHealthAuditor, "R-1")
	}
	remedy()
	want("audited", 0)
	h.say("R-1", signalbox.NameHealthUnhealthy, rules.SignalFields{Summary: "still no disk"})
	want("unhealthy", 1)
	h.do(rules.AnswerQuestion{Question: "Q-1", Answer: "look at the mounts", Actor: "ann"})
	want("answered", 1)
	remedy()
	h.say("R-1", signalbox.NameHealthUnhealthy, rules.SignalFields{Summary: "still no disk"})
	want("unhealthy again", 2)
	h.do(rules.AnswerQuestion{Question: "Q-2", Answer: "healthy", Actor: "ann"})
	want("declared healthy", 2)
}

func TestSpendingOfSeveralPlans(t *testing.T) {
	h := begin(t, nil, task("T1"))
	spend := func(work string, plans int) {
		t.Helper()
		h.start(signalbox.RoleDeveloper, work)
		h.say(work, "ready_for_review", rules.SignalFields{})
		if got := spending(h.s, h.now).Plans; got != plans {
			t.Errorf("after %s, %d plans have spent something, not %d", work, got, plans)
		}
	}
	h.check("B-1", rules.CheckRow{Check: "test", Environment: "linux", Passed: true})
	if got := spending(h.s, h.now).Plans; got != 0 {
		t.Errorf("before any agent, %d plans have spent something", got)
	}
	spend("T1", 1)
	load := rules.LoadPlan{Plan: signalbox.Hash{2}, Name: "friday", ID: "friday", Source: "friday.md", Replace: true, Tasks: []rules.PlanTask{task("F1")}, Actor: "op"}
	for !h.do(load).Plan.Loaded {
	}
	spend("F1", 2)
}
