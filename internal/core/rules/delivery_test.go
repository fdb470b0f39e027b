package rules

import (
	"bytes"
	"cmp"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"

	"signalbox"
)

// brokenDelivery returns what does not hold of the delivery loop, though it always must; "" if all
// is well.
func brokenDelivery(s *State, log []signalbox.Event) string {
	if s.run.Policy == nil {
		return ""
	}
	again, err := FromSnapshot(s.Snapshot())
	if err != nil {
		return err.Error()
	}
	return cmp.Or(brokenLoop(s), brokenDeliveryIndex(s, again))
}

func brokenLoop(s *State) string {
	return cmp.Or(brokenTasks(s), brokenSlots(s), brokenLocks(s), brokenQuestions(s),
		brokenAgents(s), brokenStatus(s))
}

// brokenTasks holds that no gate is skipped, and that every task is done, held, to be had, or says
// why not.
func brokenTasks(s *State) string {
	remediations := 0
	for w := range s.Works() {
		t := w.Task
		if t == nil {
			continue
		}
		if t.Kind == KindRemediation && !w.Done() {
			remediations++
		}
		switch {
		case t.Kind == KindTask && w.Phase == signalbox.PhaseCompleted &&
			!(t.Checked && t.reviewed() && t.Audited) && !t.Unchanged:
			return w.ID + " is completed and did not pass every gate"
		case w.Phase == signalbox.PhaseBlocked && w.Lease != nil:
			return w.ID + " is BLOCKED and held"
		case w.Phase == signalbox.PhaseBlocked && len(t.Questions) == 0 && t.Remedy == "" &&
			t.Cancelled == "":
			return w.ID + " is BLOCKED, and nothing will end that"
		case t.Parked != nil && w.Lease == nil:
			return w.ID + " is parked and not held"
		case t.Cancelled != "" && (w.Lease != nil || len(t.Locks) > 0 || len(t.Questions) > 0):
			return w.ID + " is cancelled and not let go of"
		case len(t.Stored) > 0 && w.Phase == signalbox.PhaseCompleted &&
			(t.Delivered == nil || t.Delivered.Request != ""):
			return w.ID + " is completed, and its bundles are remembered"
		case t.Remedy != "" && remedyOver(s, t.Remedy):
			return w.ID + " waits for a remediation that is over"
		case !w.Done() && w.Lease == nil && !s.canStart(w) && s.Reason(w) == "":
			return w.ID + " waits without a reason"
		}
	}
	if remediations > 1 {
		return fmt.Sprintf("%d remediations are open", remediations)
	}
	return ""
}

func remedyOver(s *State, id string) bool {
	w, known := s.Work(id)
	return !known || w.Done()
}

// brokenSlots holds that no more agents are at work than may be; those that wait for an expert or a
// file are not. Several tasks may be merged at once only by one session.
func brokenSlots(s *State) string {
	all, roles, mergers := 0, map[signalbox.Role]int{}, map[string]bool{}
	for w := range s.Works() {
		if w.Task == nil || w.Lease == nil || w.Task.Parked != nil {
			continue
		}
		roles[w.Lease.Role]++
		switch w.Lease.Role {
		case signalbox.RoleMerger:
			mergers[w.Lease.Session] = true
		case signalbox.RoleCI:
		default:
			all++
		}
	}
	if p := s.run.Policy; all > p.Slots || len(mergers) > 1 ||
		roles[signalbox.RoleCI] > max(p.Checks, 1) {
		return fmt.Sprintf("%d agents and mergers %v are at work: %v", all, mergers, roles)
	}
	for role, n := range roles {
		if isAgent(role) && role != signalbox.RoleExpert && n > s.run.Policy.slots(role) {
			return fmt.Sprintf("%d agents are at work as %s", n, role)
		}
	}
	return ""
}

func brokenLocks(s *State) string {
	owners := map[string]string{}
	for w := range s.Works() {
		if w.Task == nil {
			continue
		}
		for _, file := range w.Task.Locks {
			if other := owners[file]; other != "" {
				return fmt.Sprintf("%s and %s have %s", other, w.ID, file)
			}
			owners[file] = w.ID
		}
		if w.Phase == signalbox.PhaseCompleted && len(w.Task.Locks) > 0 {
			return w.ID + " is completed and has files"
		}
	}
	if !maps.Equal(owners, s.locks) && len(owners)+len(s.locks) > 0 {
		return fmt.Sprintf("files are of %v; the index says %v", owners, s.locks)
	}
	return ""
}

func brokenQuestions(s *State) string {
	open := map[string]string{}
	for i, q := range s.Questions() {
		if q.ID != fmt.Sprintf("Q-%d", i+1) {
			return fmt.Sprintf("question %d is %s", i+1, q.ID)
		}
		if q.Open() {
			open[q.ID] = q.Work
		}
	}
	for w := range s.Works() {
		if w.Task == nil {
			continue
		}
		for _, q := range w.Task.Questions {
			if open[q] != w.ID {
				return fmt.Sprintf("%s waits for %s, which is not open or about %q", w.ID, q,
					open[q])
			}
			delete(open, q)
		}
	}
	for q, work := range open {
		if work != "" {
			return fmt.Sprintf("%s is open about %s, which does not wait for it", q, work)
		}
	}
	return ""
}

// brokenAgents holds that the human is asked about every role that has no agent left.
func brokenAgents(s *State) string {
	asked := map[string]bool{}
	for _, q := range s.Questions() {
		for _, name := range q.Agents {
			asked[name] = asked[name] || q.Open()
		}
	}
	for _, r := range s.run.Policy.Agents {
		if r.Role == signalbox.RoleExpert && r.Expert == "" && len(s.Experts()) == 0 {
			continue
		}
		ok := func(name string) bool { return s.Agent(name).Down == "" || asked[name] }
		if !slices.ContainsFunc(r.Agents, ok) {
			return fmt.Sprintf("all of %q are down, and the human is not asked", r.Agents)
		}
	}
	return ""
}

// brokenDeliveryIndex compares what a state looks up quickly with what one made from its snapshot
// does.
func brokenDeliveryIndex(s, again *State) string {
	for n, role := range dispatchOrder {
		var scanned []int
		for i, w := range s.works {
			if w.Task != nil && w.claimableBy() == role && s.canStart(w) {
				scanned = append(scanned, i)
			}
		}
		got, rebuilt := slices.Collect(s.ready[n].all()), slices.Collect(again.ready[n].all())
		if !slices.Equal(got, scanned) || !slices.Equal(rebuilt, scanned) {
			return fmt.Sprintf("ready for %s are %v, from a snapshot %v; a scan finds %v", role,
				got, rebuilt, scanned)
		}
		roles := []signalbox.Role{role}
		if s.CanDispatch(roles, 0, s.time) != again.CanDispatch(roles, 0, s.time) {
			return fmt.Sprintf("whether there is something for %s depends on a snapshot", role)
		}
	}
	for _, kind := range []Kind{KindTask, KindRemediation, KindExpert, KindBaseline} {
		n := 0
		for w := range s.Works() {
			if w.Task != nil && w.Task.Kind == kind && !w.Done() {
				n++
			}
		}
		if s.open[kind] != n || again.open[kind] != n {
			return fmt.Sprintf("%d of kind %s are open, from a snapshot %d; a scan finds %d",
				s.open[kind], kind, again.open[kind], n)
		}
	}
	if !slices.Equal(s.downstreamCounts(), again.downstreamCounts()) {
		return fmt.Sprintf("downstream are %v, from a snapshot %v", s.downstreamCounts(),
			again.downstreamCounts())
	}
	if !maps.Equal(s.locks, again.locks) && len(s.locks)+len(again.locks) > 0 {
		return fmt.Sprintf("files are of %v, from a snapshot of %v", s.locks, again.locks)
	}
	return ""
}

func brokenStatus(s *State) string {
	st := s.Status(s.time)
	if st.Standing == StandingComplete {
		for w := range s.Works() {
			if w.Task != nil && w.Task.Kind == KindTask && !w.Done() {
				return "the run is complete, and " + w.ID + " is not"
			}
		}
	}
	if st.Standing != StandingWorking && st.Standing != StandingComplete && len(st.Reasons) == 0 {
		return fmt.Sprintf("the run is %s and does not say why", st.Standing)
	}
	return ""
}

// plan is a plan of some tasks.
func plan(digest byte, tasks ...PlanTask) LoadPlan {
	return LoadPlan{Plan: signalbox.Hash{digest}, Name: "plan.md", Tasks: tasks, Actor: "op"}
}

// todo is a task of a plan.
func todo(id string, blockers ...string) PlanTask {
	return PlanTask{ID: id, Title: "do " + id, BlockedBy: blockers,
		Text: signalbox.Hash{7, byte(len(id))}}
}

func withFiles(t PlanTask, files ...string) PlanTask {
	t.Files = files
	return t
}

func unspecified(id string) PlanTask {
	t := todo(id)
	t.Draft = true
	return t
}

// policy is what most tests deliver under.
func policy() Policy {
	p := Policy{Slots: 5, Limits: DefaultLimits(),
		Experts: []Expert{{Name: "sql", Keywords: []string{"query"}}}}
	for _, role := range []signalbox.Role{signalbox.RoleDeveloper, signalbox.RoleCritic,
		signalbox.RoleAuditor, signalbox.RoleBusinessAnalyst,
		signalbox.RoleRemediation, signalbox.RoleHealthAuditor} {
		p.Roles = append(p.Roles, RoleSlots{role, 3})
	}
	return p
}

func withCreator(p Policy) Policy {
	p.Roles = append(slices.Clone(p.Roles), RoleSlots{signalbox.RoleExpertCreator, 1})
	return p
}

func shared(p Policy) Policy {
	p.Shared = true
	return p
}

// planned returns a box with a plan.
func planned(t failer, p Policy, tasks ...PlanTask) *box {
	t.Helper()
	b := newBox(t)
	b.do(Configure{p, "op"})
	b.do(plan(1, tasks...))
	return b
}

// deliver returns a box with a plan whose baseline has passed.
func deliver(t failer, p Policy, tasks ...PlanTask) *box {
	t.Helper()
	b := planned(t, p, tasks...)
	b.baseline()
	return b
}

// baseline runs the checks on the base; those named fail.
func (b *box) baseline(failing ...string) {
	b.t.Helper()
	b.checked(b.dispatch(signalbox.RoleCI), failing...)
}

// dispatch gives whatever is next to a session of a role, and answers with the lease.
func (b *box) dispatch(role signalbox.Role) Answer {
	b.t.Helper()
	return b.do(b.dispatchOf(role))
}

func (b *box) dispatchOf(roles ...signalbox.Role) Dispatch {
	id := fmt.Sprintf("s%d", len(b.log))
	return Dispatch{Roles: roles, Session: id, Actor: "a-" + id, Lease: "L-" + id}
}

// wantDispatch dispatches and checks what came.
func (b *box) wantDispatch(role signalbox.Role, work string) Answer {
	b.t.Helper()
	a := b.dispatch(role)
	if a.Work != work {
		b.t.Fatalf("dispatched %s to the %s, want %s", a.Work, role, work)
	}
	return a
}

// wantNothing checks that there is nothing for a role.
func (b *box) wantNothing(roles ...signalbox.Role) {
	b.t.Helper()
	if b.s.CanDispatch(roles, 0, b.now) {
		w, role := b.s.next(roles, 0, b.now)
		b.t.Fatalf("there is something for %v: %v for %s", roles, w, role)
	}
	wantRefusedAs(b.t, b.try(b.dispatchOf(roles...)), signalbox.CodeNotFound)
}

func wantRefusedAs(t failer, d Decision, code signalbox.Code) {
	t.Helper()
	if r := refusedBy(d.Err); r == nil || r.Code != code || r.NoHint {
		t.Fatalf("got %+v (%v), want a refusal with code %v and a hint", r, d.Err, code)
	}
}

// hear is a signal of who was dispatched, about the work it holds.
func hear(a Answer, signal string) ReportSignal {
	return by(a, ReportSignal{Signal: signal, Named: a.Work,
		Fields: SignalFields{Summary: "said " + signal}})
}

func (b *box) say(a Answer, signal string) Decision {
	b.t.Helper()
	return b.sayMore(a, signal, func(*ReportSignal) {})
}

func (b *box) sayMore(a Answer, signal string, more func(*ReportSignal)) Decision {
	b.t.Helper()
	h := hear(a, signal)
	more(&h)
	return b.decide(h)
}

// checked reports the checks; the named ones fail.
func (b *box) checked(a Answer, failing ...string) Decision {
	b.t.Helper()
	return b.checkedAs(a, func(c *ReportChecks) {
		for i := range c.Rows {
			if slices.Contains(failing, c.Rows[i].Check) {
				c.Rows[i].Passed, c.Rows[i].Exit = false, 1
			}
		}
	})
}

// checkedAs reports checks that pass, as more changes them.
func (b *box) checkedAs(a Answer, more func(*ReportChecks)) Decision {
	b.t.Helper()
	c := by(a, ReportChecks{Commit: sha("c0ffee")})
	for _, name := range []string{"lint", "test", "vet"} {
		c.Rows = append(c.Rows, CheckRow{Check: name, Environment: "local", Passed: true, Millis: 10})
	}
	more(&c)
	return b.decide(c)
}

func (b *box) merged(a Answer) Decision {
	b.t.Helper()
	b.do(by(a, PrepareMerge{Commit: sha("beef"), Before: b.s.Base()}))
	return b.decide(by(a, ReportMerge{Commit: sha("beef"), Before: b.s.Base()}))
}

// next gives what is next to a session of a role. It must be that work, unless that is "".
func (b *box) next(role signalbox.Role, work string) Answer {
	b.t.Helper()
	if work == "" {
		return b.dispatch(role)
	}
	return b.wantDispatch(role, work)
}

// ready has a developer report the next task as ready.
func (b *box) ready(work string) Decision {
	b.t.Helper()
	return b.say(b.next(signalbox.RoleDeveloper, work), "ready_for_review")
}

// judged has a task pass its review and its audit.
func (b *box) judged(work string) Decision {
	b.t.Helper()
	b.say(b.next(signalbox.RoleCritic, work), "review_passed")
	return b.say(b.next(signalbox.RoleAuditor, work), "audit_passed")
}

// withTurn adds the end of a turn to a signal.
func withTurn(turn Turn) func(*ReportSignal) {
	return func(h *ReportSignal) { h.Turn = &turn }
}

// waitsOn makes a signal say that the task waits for others.
func waitsOn(blockers ...string) func(*ReportSignal) {
	return func(h *ReportSignal) { h.Fields.Cause, h.Fields.BlockedBy = CauseWaiting, blockers }
}

// expands makes a signal specify a task, with sub-tasks.
func expands(confidence string, subTasks ...PlanTask) func(*ReportSignal) {
	return func(h *ReportSignal) { h.Fields.Confidence, h.Fields.SubTasks = confidence, subTasks }
}

// saying gives a signal a summary.
func saying(summary string) func(*ReportSignal) {
	return func(h *ReportSignal) { h.Fields.Summary = summary }
}

// bring takes the next task of developers to a phase: CI_PENDING, READY_FOR_REVIEW, READY_FOR_MERGE
// or COMPLETED.
func (b *box) bring(task string, to signalbox.Phase) {
	b.t.Helper()
	b.ready(task)
	if to == signalbox.PhaseCIPending {
		return
	}
	b.checked(b.wantDispatch(signalbox.RoleCI, task))
	if to == signalbox.PhaseReadyForReview {
		return
	}
	b.say(b.wantDispatch(signalbox.RoleCritic, task), "review_passed")
	if to == signalbox.PhaseReadyForMerge {
		return
	}
	b.say(b.wantDispatch(signalbox.RoleAuditor, task), "audit_passed")
	if !b.s.run.Policy.Shared {
		b.merged(b.wantDispatch(signalbox.RoleMerger, task))
	}
}

func (b *box) wantPhase(work string, want signalbox.Phase) *Work {
	b.t.Helper()
	w := b.work(work)
	if w.Phase != want {
		b.t.Fatalf("%s is in %s, want %s", work, w.Phase, want)
	}
	return w
}

func (b *box) wantStanding(want Standing) Status {
	b.t.Helper()
	st := b.s.Status(b.now)
	if st.Standing != want {
		b.t.Fatalf("the run is %s, want %s: %+v", st.Standing, want, st)
	}
	return st
}

// wantTypes checks the types of a decision's events, each with the work it is about.
func wantTypes(t failer, d Decision, want ...string) {
	t.Helper()
	var got []string
	for _, e := range d.Events {
		got = append(got, e.Type+" "+e.Work)
	}
	if diff := gocmp.Diff(want, got); diff != "" {
		t.Fatalf("events (-want +got):\n%s", diff)
	}
}

// wantBody checks the body of one event of a decision.
func wantBody(t failer, d Decision, want body) {
	t.Helper()
	for _, e := range d.Events {
		if e.Type == typeOf(want) {
			if diff := gocmp.Diff(want, mustDecode(&e)); diff != "" {
				t.Fatalf("%s (-want +got):\n%s", e.Type, diff)
			}
			return
		}
	}
	t.Fatalf("there is no %s among %d events", typeOf(want), len(d.Events))
}

func TestDeliverTwoDependentTasks(t *testing.T) {
	b := deliver(t, policy(), todo("t1"), todo("t2", "t1"))
	b.wantStanding(StandingWorking)
	b.bring("t1", signalbox.PhaseReadyForMerge)
	b.say(b.wantDispatch(signalbox.RoleAuditor, "t1"), "audit_passed")
	b.wantNothing(signalbox.RoleDeveloper)
	wantBody(t, b.merged(b.dispatch(signalbox.RoleMerger)),
		Merged{Epoch: b.s.seq - 4, Commit: sha("beef"), Unblocked: []string{"t2"},
			Tip: sha("c0ffee")})
	b.bring("t2", signalbox.PhaseCompleted)
	if st := b.wantStanding(StandingComplete); st.Tasks != 2 || st.Completed != 2 ||
		st.Running != 0 || st.Reasons != nil {
		t.Errorf("status %+v", st)
	}
	b.wantNothing(DispatchRoles()...)
}

func TestDispatchOrder(t *testing.T) {
	urgent := todo("urgent")
	urgent.Priority = 1
	b := deliver(t, policy(), todo("first"), todo("hub"), todo("x", "hub"), todo("y", "x"), urgent)
	for _, want := range []string{"urgent", "hub", "first"} {
		b.wantDispatch(signalbox.RoleDeveloper, want)
	}
	b.wantNothing(signalbox.RoleDeveloper)
}

func TestSlotsFillCriticsFirst(t *testing.T) {
	b := deliver(t, policy(), todo("t1"), todo("t2"), todo("t3"), todo("t4"))
	b.bring("t1", signalbox.PhaseReadyForMerge)
	b.bring("t2", signalbox.PhaseReadyForReview)
	for _, want := range []signalbox.Role{signalbox.RoleCritic, signalbox.RoleAuditor,
		signalbox.RoleDeveloper} {
		if a := b.do(b.dispatchOf(DispatchRoles()...)); a.Lease.Role != want {
			t.Fatalf("dispatched %s to %s, want %s", a.Work, a.Lease.Role, want)
		}
	}
}

func TestDispatchIsRepeatable(t *testing.T) {
	b := deliver(t, policy(), todo("t1"), todo("t2"))
	c := b.dispatchOf(signalbox.RoleDeveloper)
	first := b.do(c)
	again := b.do(c)
	if !again.Repeated || again.Work != first.Work || again.Lease.Epoch != first.Lease.Epoch {
		t.Errorf("again: %+v", again)
	}
	c.Lease = "L-other"
	b.refuses(c, signalbox.CodeUsage)
}

func TestSlotsOfAllRolesTogether(t *testing.T) {
	p := policy()
	p.Slots = 2
	b := deliver(t, p, todo("t1"), todo("t2"), todo("t3"))
	b.dispatch(signalbox.RoleDeveloper)
	a := b.dispatch(signalbox.RoleDeveloper)
	b.wantNothing(signalbox.RoleDeveloper)
	b.say(a, "ready_for_review")
	b.dispatch(signalbox.RoleCI) // checks take no slot
	b.dispatch(signalbox.RoleDeveloper)
	b.wantNothing(signalbox.RoleDeveloper)
}

func TestExpiredLeaseIsDispatchedAgain(t *testing.T) {
	b := deliver(t, policy(), todo("t1"))
	a := b.dispatch(signalbox.RoleDeveloper)
	b.pass(signalbox.DefaultLeaseTTL)
	if !b.s.CanDispatch([]signalbox.Role{signalbox.RoleDeveloper}, 0, b.now) {
		t.Fatal("nothing can be dispatched")
	}
	d := b.try(b.dispatchOf(signalbox.RoleDeveloper))
	wantTypes(t, d, "LeaseExpired t1")
	b.wantDispatch(signalbox.RoleDeveloper, "t1")
	d = b.try(hear(a, "ready_for_review"))
	if r := refusedBy(d.Err); r == nil || r.Reason != signalbox.ReasonStaleLease {
		t.Errorf("a stale signal: %v", d.Err)
	}
	wantTypes(t, d, "SignalRefused t1")
	b.wantPhase("t1", signalbox.PhaseImplementation)
}

func TestNothingIsDispatchedBeforeThePlanIsLoaded(t *testing.T) {
	b := newBox(t)
	b.refuses(plan(1, todo("t1")), signalbox.CodeUsage)
	b.do(Configure{policy(), "op"})
	b.wantStanding(StandingEmpty)
	b.wantNothing(DispatchRoles()...)
	b.do(plan(1, todo("t1")))
	b.wantNothing(signalbox.RoleDeveloper, signalbox.RoleCritic)
	if got := b.s.Reason(b.work("t1")); got != "t1 waits for the checks on the base, B-1" {
		t.Errorf("reason %q", got)
	}
	b.baseline()
	b.dispatch(signalbox.RoleDeveloper)
}

func TestRollbackOfDelivery(t *testing.T) {
	b := deliver(t, policy(), todo("t1"), todo("t2", "t1"))
	b.bring("t1", signalbox.PhaseReadyForMerge)
	b.say(b.dispatch(signalbox.RoleAuditor), "audit_passed")
	before, log := b.s.Snapshot(), len(b.log)
	b.s.Begin()
	p := policy()
	p.ApproveMerge = true
	b.do(Configure{p, "op"})
	b.do(plan(2, todo("t1"), todo("t2", "t1"), todo("t3", "t2"), todo("t4", "t1")))
	b.do(orderOf(OrderApprove, "t1"))
	b.merged(b.dispatch(signalbox.RoleMerger))
	b.s.Rollback()
	b.log = b.log[:log]
	if !bytes.Equal(before, b.s.Snapshot()) {
		t.Error("the state is not what it was")
	}
	if fault := brokenInvariant(b.s, b.log); fault != "" {
		t.Error(fault)
	}
	b.do(OpenWork{Work: "by-hand", Actor: "op"})
	b.merged(b.dispatch(signalbox.RoleMerger))
}

func TestConfigure(t *testing.T) {
	b := newBox(t)
	b.do(Configure{policy(), "op"})
	if a := b.do(Configure{policy(), "op"}); !a.Repeated {
		t.Error("the same policy was recorded twice")
	}
	bad := policy()
	bad.Limits.Unknown = 0
	b.refuses(Configure{bad, "op"}, signalbox.CodeUsage)
	if got, ok := b.s.Policy(); !ok || !got.equal(new(policy())) {
		t.Errorf("policy %+v", got)
	}
}

func BenchmarkDispatch(b *testing.B) {
	for _, n := range []int{100, 1000, 10_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) { benchmarkDispatch(b, n) })
	}
}

// benchmarkDispatch is one dispatch and its release, in a plan where half can start.
func benchmarkDispatch(b *testing.B, n int) {
	s := &State{}
	carryOut(b, s, t0, []Command{OpenBox{Box: "box-1", Actor: "op"}, Configure{policy(), "op"}})
	var tasks []PlanTask
	for i := range n {
		t := todo(fmt.Sprintf("t%d", i))
		if i%2 == 1 {
			t.BlockedBy = []string{fmt.Sprintf("t%d", i-1)}
		}
		tasks = append(tasks, t)
	}
	for _, _, loaded := s.Plan(); !loaded; _, _, loaded = s.Plan() {
		carryOut(b, s, t0, []Command{plan(1, tasks...)})
	}
	carryOut(b, s, t0, []Command{Dispatch{Roles: []signalbox.Role{signalbox.RoleCI}, Session: "ci",
		Actor: "ci", Lease: "L"}})
	carryOut(b, s, t0, []Command{ReportChecks{Session: "ci", Epoch: s.Seq()}})
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		id := fmt.Sprintf("s%d", i)
		at := t0.Add(time.Duration(i) * time.Millisecond)
		carryOut(b, s, at, []Command{Dispatch{Roles: DispatchRoles(), Session: id, Actor: "a",
			Lease: "L"}})
		granted := s.sessions[len(s.sessions)-1].Held[0]
		carryOut(b, s, at, []Command{Release{Work: granted.Work, Session: id, Epoch: granted.Epoch,
			Reason: "benchmark"}})
	}
}
