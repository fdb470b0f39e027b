package rules

import (
	"bytes"
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"signalbox"
	"signalbox/internal/testkit/property"
)

// company is a crew that does right and wrong things at random, on a plan that changes at random.
// After every step it checks what must always hold.
type company struct {
	t      *rapid.T
	s      *State
	now    time.Time
	log    []signalbox.Event
	tasks  []PlanTask
	plans  byte
	source string // of the plan
	n      int    // for ids
	// chance is seeded by rapid: its own draws prefer small numbers, and a company that mostly does
	// the first thing gets nowhere.
	chance *rand.Rand
	done   []Command
	calm   bool // what it does is not looked at so closely
}

func chooseOne[T any](c *company, from ...T) T { return from[c.chance.IntN(len(from))] }

func (c *company) oneIn(n int) bool { return c.chance.IntN(n) == 0 }

func (c *company) between(low, high int) int { return low + c.chance.IntN(high-low+1) }

// fatalf says what does not hold, and what led there.
func (c *company) fatalf(format string, args ...any) {
	c.t.Helper()
	for _, cmd := range c.done[max(0, len(c.done)-80):] {
		c.t.Logf("%#v", cmd)
	}
	c.t.Fatalf(format, args...)
}

// newCompany has a random policy and a random plan.
func newCompany(t *rapid.T) *company {
	c := &company{t: t, s: &State{}, now: t0,
		chance: rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"),
			rapid.Uint64().Draw(t, "seed")))}
	c.try(OpenBox{Box: "box-1", Actor: "op"})
	p := policy()
	p.Slots = c.between(1, 5)
	p.Checks = c.between(0, 2)
	p.Shared = c.oneIn(2)
	p.ApproveMerge, p.TrustSteering = c.oneIn(2), c.oneIn(4)
	if !p.Shared && c.oneIn(2) {
		p.Deliver = chooseOne(c, Deliveries()...)
		p.Stack = p.Deliver == DeliverRequest && c.oneIn(2)
	}
	for i := range p.Roles {
		p.Roles[i].Slots = c.between(1, 2)
	}
	if c.oneIn(2) {
		p = withCreator(p)
	}
	limit := func() int { return c.between(1, 3) }
	p.Limits = Limits{limit(), limit(), limit(), limit(), limit(), limit(), limit(), limit(), limit(), limit(), limit(), time.Minute}
	if c.oneIn(2) {
		p.Task, p.Run = Budget{Tokens: 300}, Budget{Tokens: 1500}
	}
	if c.oneIn(2) {
		p = withAgents(p)
		for i := range p.Agents {
			p.Agents[i].Agents = c.drawAgents()
		}
	}
	c.try(Configure{p, "op"})
	for i := range c.between(1, 12) {
		c.tasks = append(c.tasks, c.drawTask(fmt.Sprintf("t%d", i+1)))
	}
	c.load()
	return c
}

// drawTask draws a task that waits for tasks before it.
func (c *company) drawTask(id string) PlanTask {
	t := todo(id)
	for _, before := range c.tasks {
		if c.oneIn(4) {
			t.BlockedBy = append(t.BlockedBy, before.ID)
		}
	}
	for _, file := range []string{"a", "b", "c"} {
		if c.oneIn(5) {
			t.Files = append(t.Files, file)
		}
	}
	t.Draft = c.oneIn(5)
	t.Priority = chooseOne(c, 0, 0, 0, 1)
	t.Text = signalbox.Hash{1, byte(len(c.tasks))}
	return t
}

func (c *company) load() {
	c.plans++
	l := plan(c.plans, slices.Clone(c.tasks)...)
	l.Replace = true
	l.Source, l.ID, l.Finished = c.source, "plan", FinishedUpdate
	if c.oneIn(4) {
		l.Finished = FinishedRenew
	}
	for {
		if a := c.try(l); a.Answer.Plan.Loaded {
			return
		}
	}
}

// try decides, applies, and checks everything.
func (c *company) try(cmd Command) Decision {
	c.t.Helper()
	c.done = append(c.done, cmd)
	d := Decide(c.s, c.now, cmd)
	for i := range d.Events {
		e := &d.Events[i]
		e.Seq = c.s.Seq() + uint64(i) + 1
	}
	decided := c.decided(&d)
	for i := range d.Events {
		c.note(&d.Events[i])
		if err := c.s.Apply(&d.Events[i]); err != nil {
			c.fatalf("Apply does not accept what Decide(%#v) returned: %v", cmd, err)
		}
	}
	c.log = append(c.log, d.Events...)
	if c.s.run.Policy == nil {
		return d
	}
	if fault := cmp.Or(brokenLoop(c.s), brokenWork(c.s, c.log),
		brokenSession(c.s, c.log)); fault != "" {
		c.fatalf("after %#v: %s", cmd, fault)
	}
	if decided == nil {
		return d
	}
	if !bytes.Equal(decided.Snapshot(), c.s.Snapshot()) {
		c.fatalf("%#v leads elsewhere when it is read back", cmd)
	}
	if fault := brokenDeliveryIndex(c.s, decided); fault != "" {
		c.fatalf("after %#v: %s", cmd, fault)
	}
	return d
}

// decided applies a decision to another state, which was made from a snapshot of the company's.
func (c *company) decided(d *Decision) *State {
	if c.calm && !c.oneIn(10) {
		return nil
	}
	s, err := FromSnapshot(c.s.Snapshot())
	if err == nil {
		err = s.ApplyDecision(d)
	}
	if err != nil {
		c.fatalf("%v", err)
	}
	return s
}

// note checks an event against the state before it.
func (c *company) note(e *signalbox.Event) {
	if e.Type != TypeLeaseGranted {
		return
	}
	w, _ := c.s.Work(e.Work)
	if w.Lease != nil {
		c.fatalf("%s is given to a second holder", e.Work)
	}
	if w.Task == nil { // opened by hand
		return
	}
	for _, blocker := range w.Task.Blockers {
		b, known := c.s.Work(blocker)
		stacked := known && c.s.run.Policy.Stack && b.WaitsForRequest()
		if !known || b.Phase != signalbox.PhaseCompleted && b.Task.Cancelled != RemovedFromPlan &&
			!stacked {
			c.fatalf("%s is given away before %s is completed", e.Work, blocker)
		}
	}
	if len(w.Task.Questions) > 0 {
		c.fatalf("%s is given away with an open question", e.Work)
	}
	if red := c.s.RedBaseline(); red != nil && w.Task.Kind == KindTask {
		c.fatalf("%s is given away while checks fail on the base", e.Work)
	}
}

// held are the planned work items that have a lease.
func (c *company) held() []*Work { return c.heldWorks(func(w *Work) bool { return w.Task != nil }) }

// heldByHand are the work items opened by hand that a crew checks.
func (c *company) heldByHand() []*Work {
	return c.heldWorks(func(w *Work) bool { return w.Task == nil })
}

func (c *company) heldWorks(which func(*Work) bool) []*Work {
	var held []*Work
	for w := range c.s.Works() {
		if w.Lease != nil && which(w) {
			held = append(held, w)
		}
	}
	return held
}

func (c *company) dispatch() {
	roles := DispatchRoles()
	if c.oneIn(3) {
		roles = []signalbox.Role{chooseOne(c, DispatchRoles()...)}
	}
	byHand := c.between(0, 2)
	can := c.s.CanDispatch(roles, byHand, c.now)
	c.n++
	d := c.try(Dispatch{Roles: roles, Session: fmt.Sprintf("s%d", c.n), Actor: "a", Lease: "L",
		TTL: chooseOne(c, time.Minute, time.Hour), ByHand: byHand, Train: c.between(0, 4)})
	if can != (d.Err == nil || len(d.Events) > 0) {
		c.fatalf("CanDispatch says %t; Dispatch: %v", can, d.Err)
	}
}

var signalNames = []string{"ready_for_review", "task_incomplete", "infra_blocked", "review_passed",
	"review_failed", "audit_passed",
	"audit_failed", "audit_blocked", "expanded_spec", "remediation_complete", "health_healthy",
	"health_unhealthy", "divine_clarification",
	"expert_request", "expert_advice", "expert_unsuccessful", "expert_created", "file_conflict",
	"checkpoint", "unknown"}

// speak has a holder say something, mostly something that it may say.
func (c *company) speak() {
	held := c.held()
	if len(held) == 0 {
		c.dispatch()
		return
	}
	w := chooseOne(c, held...)
	if c.oneIn(15) {
		c.conflict(w)
		return
	}
	switch w.Lease.Role {
	case signalbox.RoleCI:
		c.check(w, c.oneIn(3))
		return
	case signalbox.RoleMerger:
		c.merge(w, c.oneIn(3))
		return
	}
	may := slices.DeleteFunc(slices.Clone(signalNames),
		func(name string) bool { return name != "unknown" && !w.Lease.Role.MaySend(name) })
	signal := chooseOne(c, may...)
	named := w.ID
	if c.oneIn(20) {
		signal, named = chooseOne(c, signalNames...), chooseOne(c, "t1", w.ID)
	}
	h := ReportSignal{Session: w.Lease.Session, Epoch: w.Lease.Epoch, Signal: signal, Named: named, Fields: c.drawSaid()}
	if c.oneIn(2) {
		h.Turn = &Turn{Spent: Spent{Tokens: int64(c.between(0, 200))}}
		for _, m := range w.Task.Messages {
			h.Turn.Messages = append(h.Turn.Messages, m.Seq)
		}
	}
	if c.oneIn(5) {
		h.Exit = &Exit{Signal: exit(chooseOne(c, w.Phase, signalbox.PhaseReview),
			chooseOne(c, signalbox.ExitCompleted, signalbox.ExitBlocked))}
	}
	if c.oneIn(30) {
		h.Epoch--
	}
	c.try(h)
	if c.oneIn(5) {
		c.try(h)
	}
	if c.oneIn(8) {
		c.try(EndTurn{Session: h.Session, Epoch: h.Epoch, Turn: Turn{Spent: Spent{Tokens: 10}}})
	}
}

func (c *company) drawSaid() SignalFields {
	said := SignalFields{Summary: "because \xff", Cause: chooseOne(c, CauseInformation, CauseScope,
		CauseInfrastructure, CauseWaiting, CauseOther),
		Confidence: chooseOne(c, "HIGH", "medium", "LOW"),
		Expert:     chooseOne(c, "sql", "missing", "new one"),
		File:       chooseOne(c, "a", "b", "./c", "d\xff"), Percent: 50}
	for _, t := range c.tasks {
		if c.oneIn(6) {
			said.BlockedBy = append(said.BlockedBy, t.ID)
		}
	}
	for range c.between(0, 3) {
		said.Findings = append(said.Findings, SaidFinding{
			ID: chooseOne(c, "", "", "F1", "F2", "F3", "F9"), Place: chooseOne(c, "", "a.go:1"),
			Text:  chooseOne(c, "it panics", "use tabs", "\xff"),
			Says:  chooseOne(c, SaidFound, SaidFound, SaidFixed, SaidDisputed, SaidNote),
			Basis: chooseOne(c, "", BasisShown)})
	}
	for i := range c.between(0, 2) {
		c.n++
		sub := withFiles(PlanTask{ID: chooseOne(c, fmt.Sprintf("n%d", c.n), "a", "t1")}, "a")
		if i > 0 {
			sub.BlockedBy = []string{said.SubTasks[0].ID}
		}
		said.SubTasks = append(said.SubTasks, sub)
	}
	return said
}

func (c *company) check(w *Work, fails bool) {
	rows := []CheckRow{{Check: "test", Environment: "e", Passed: !fails},
		{Check: "lint", Environment: "e", Passed: true}}
	c.n++
	r := ReportChecks{Session: w.Lease.Session, Epoch: w.Lease.Epoch, Rows: rows,
		Commit: sha(fmt.Sprintf("c%d", c.n)), Base: c.s.Base(), Unchanged: !c.calm && c.oneIn(20)}
	if w.Task.Kind == KindTask && c.oneIn(4) {
		r.Steering = []string{"AGENTS.md"}
	}
	if w.Task.Kind == KindBaseline {
		if fails && c.oneIn(2) {
			rows[0].Cause = "no program"
		}
		if r.Commit = cmp.Or(c.s.Base(), r.Commit); c.oneIn(20) {
			r.Commit = "another" // the base moved meanwhile
		}
		r.Base = r.Commit
	}
	if !c.calm && c.oneIn(10) {
		r.Large = []string{"out.bin (600.0 MB)"}
	}
	c.try(r)
}

// workByHand opens work by hand that waits for its checks, or reports about such work.
func (c *company) workByHand() {
	held := c.heldByHand()
	if len(held) == 0 {
		c.n++
		c.try(OpenWork{Work: fmt.Sprintf("h%d", c.n), Phase: signalbox.PhaseCIPending, Actor: "op",
			Ref: chooseOne(c, "", "a-branch")})
		return
	}
	w := chooseOne(c, held...)
	r := ReportChecks{Session: w.Lease.Session, Epoch: w.Lease.Epoch, Commit: sha("c"),
		OnBase: w.Ref == ""}
	switch row := (CheckRow{Check: "test", Environment: "e"}); c.between(0, 3) {
	case 0:
		c.try(ReportFailure{Session: r.Session, Epoch: r.Epoch, Cause: FailWorkspace, Detail: "d"})
		return
	case 1:
		r.Problem = "it is gone"
	case 2:
		r.Rows = append(r.Rows, row)
	default:
		row.Passed = true
		r.Rows = append(r.Rows, row)
	}
	c.try(r)
}

// conflict says that the work conflicts with the base.
func (c *company) conflict(w *Work) {
	found := Conflict{Commit: sha("c"), Base: cmp.Or(c.s.Base(), sha("b")),
		Files: []string{"a", "b \xff"}}
	if w.Lease.Role.IsAuthor() {
		found.Draft = sha("d")
	}
	if !c.calm && c.oneIn(4) {
		found.Submodules = []string{chooseOne(c, "a", "b")}
	}
	if c.oneIn(3) {
		found.Unresolved = []string{"a"}
	}
	c.try(ReportConflict{w.Lease.Session, w.Lease.Epoch, found})
}

func (c *company) merge(w *Work, conflict bool) {
	m := ReportMerge{Session: w.Lease.Session, Epoch: w.Lease.Epoch}
	if conflict && c.oneIn(2) {
		c.conflict(w)
		return
	}
	if conflict {
		m.Refusal = "conflict"
		c.try(m)
		return
	}
	if !c.calm && c.oneIn(20) {
		m.Unchanged = true
		c.try(m)
		return
	}
	c.n++
	if how := c.s.run.Policy.Deliver; how != DeliverMerge {
		d := Delivery{Tip: w.Task.Commit, Commit: sha(fmt.Sprintf("d%d", c.n)), Branch: "b"}
		if how == DeliverRequest {
			d.Request = fmt.Sprintf("https://forge/%d", c.n)
		}
		c.try(ReportDelivery{m.Session, m.Epoch, d})
		return
	}
	if session, _ := c.s.Session(m.Session); len(session.Live) > 1 && c.oneIn(2) {
		c.mergeTrain(session)
		return
	}
	m.Commit, m.Before = sha(fmt.Sprintf("m%d", c.n)), c.s.Base()
	c.try(PrepareMerge{Session: m.Session, Epoch: m.Epoch, Commit: m.Commit, Before: m.Before})
	if !c.calm && c.oneIn(5) {
		c.moveBase(m.Commit) // it is ours
	}
	c.try(m)
}

// mergeTrain merges some of the tasks that a session holds together. Of the others one fails, or
// all wait.
func (c *company) mergeTrain(session *Session) {
	report := ReportTrain{Session: session.ID, Moves: c.oneIn(2)}
	good, base := c.between(1, len(session.Live)), c.s.Base()
	for i, epoch := range session.Live[:good] {
		commit := sha(fmt.Sprintf("m%d-%d", c.n, i))
		report.Merges = append(report.Merges, TrainMerge{epoch, commit, base})
		base = commit
	}
	if report.Waiting = session.Live[good:]; len(report.Waiting) > 0 && !c.calm && c.oneIn(2) {
		report.Failed, report.Waiting = report.Waiting[0], report.Waiting[1:]
		report.Refusal = "it fails"
	}
	c.try(PrepareTrain{session.ID, sha("tree"), report.Merges})
	if !c.calm && c.oneIn(5) {
		c.moveBase(base) // it is ours
	}
	c.try(report)
}

// beat sends the heartbeat of all leases.
func (c *company) beat() {
	beat := Heartbeat{TTL: chooseOne(c, time.Minute, time.Hour), Actor: "a"}
	for _, w := range c.held() {
		beat.Epochs = append(beat.Epochs, w.Lease.Epoch)
	}
	c.try(beat)
}

// observeRequest reports what became of a pull request, and whether there is one.
func (c *company) observeRequest(good bool) bool {
	waiting := c.s.Requests()
	if len(waiting) == 0 {
		return false
	}
	w := chooseOne(c, waiting...)
	r := ReportRequest{Work: w.ID, Actor: "a", Request: w.Task.Delivered.Request, Commit: w.Task.Delivered.Commit}
	switch {
	case good || c.oneIn(3):
		r.Merged = sha("m")
	case c.oneIn(4):
		r.Closed = true
	case c.oneIn(4):
		r.Commit = "earlier"
	default:
		r.Findings = []RequestFinding{{fmt.Sprint("comment ", c.between(0, 5)), "s \xff"}}
	}
	c.try(r)
	return true
}

// moveBase says that the base is elsewhere.
func (c *company) moveBase(to string) {
	c.n++
	c.try(ObserveBase{Known: chooseOne(c, c.s.Base(), c.s.Base(), "another"),
		Commit: cmp.Or(to, sha(fmt.Sprintf("x%d", c.n))), Added: []string{"x \xff"},
		Start: c.oneIn(3), Actor: "op"})
}

// store says that a bundle is in the blobs.
func (c *company) store() {
	c.n++
	work := ""
	if works := c.s.works; len(works) > 0 && c.oneIn(2) {
		work = chooseOne(c, works...).ID
	}
	s := StoreCommits{Work: work, StoredCommit: StoredCommit{Commit: sha(fmt.Sprintf("x%d", c.n)), Bundle: signalbox.Hash{1}, Size: 1}, Actor: "op"}
	if work == "" {
		s.Branch = "main"
	}
	if known := append(slices.Clone(c.s.StoredCommits("")),
		c.s.StoredCommits(work)...); len(known) > 0 {
		s.Needs = []string{chooseOne(c, known...).Commit}
		if work == "" && c.oneIn(2) {
			s.Replaces = s.Needs
		}
	}
	if c.oneIn(8) {
		s.Needs = []string{sha("unknown")}
	}
	if known := c.s.StoredCommits(work); len(known) > 0 && c.oneIn(4) {
		rejected := chooseOne(c, known...)
		c.try(RejectBundle{Work: work, Commit: rejected.Commit, Bundle: rejected.Bundle,
			Fault: "it is not a bundle \xff", Actor: "op"})
		if c.oneIn(2) {
			s.Commit, s.Replaces = rejected.Commit, []string{rejected.Commit}
		}
	}
	c.try(s)
}

func (c *company) fail() {
	held := c.held()
	if len(held) == 0 {
		return
	}
	w := chooseOne(c, held...)
	c.try(StartAgent{Session: w.Lease.Session, Epoch: w.Lease.Epoch,
		Agent: cmp.Or(w.Task.Agent, "agent")})
	c.try(ReportConversation{Session: w.Lease.Session, Epoch: w.Lease.Epoch, ID: "c-1"})
	cause := chooseOne(c, FailTimeout, FailCrash, FailStall, FailStart, FailWorkspace,
		FailRateLimit, FailLogin, FailServer, FailProgram)
	c.try(ReportFailure{Session: w.Lease.Session, Epoch: w.Lease.Epoch, Cause: cause, Detail: "d",
		Until: c.now.Add(time.Minute)})
}

func (c *company) unpark() {
	for _, w := range c.held() {
		if w.Task.Parked != nil {
			c.try(ResumeSession{Session: w.Lease.Session, Epoch: w.Lease.Epoch})
		}
	}
}

func (c *company) answer() {
	for _, q := range c.s.Questions() {
		if q.Open() {
			c.try(AnswerQuestion{q.ID, chooseOne(c, "continue", "healthy", "halt", "retry", "done",
				"accept", "repair", "again"), "op"})
			return
		}
	}
}

func (c *company) order() {
	works := []string{""}
	for w := range c.s.Works() {
		works = append(works, w.ID)
	}
	if work := chooseOne(c, works...); work != "" && c.oneIn(3) {
		c.steer(work)
		return
	}
	what := chooseOne(c, OrderPause, OrderResume, OrderResume, OrderCancel, OrderRetry, OrderRetry,
		OrderApprove, OrderApprove)
	order := orderOf(what, chooseOne(c, works...))
	if what == OrderRetry && order.Work != "" && c.oneIn(2) {
		order.From = chooseOne(c, signalbox.Phases()...)
	}
	w, _ := c.s.Work(order.Work)
	d := c.try(order)
	if order.From == "" || d.Err != nil {
		return
	}
	if now, _ := c.s.Work(order.Work); !slices.Contains(w.RetryPhases(), retryStep(order.From)) ||
		now.Lease != nil || retryStep(now.Phase) != retryStep(order.From) || now.Task.Audited ||
		now.Task.Counts != (Counts{}) {
		c.fatalf("%s was restarted in %s and is %+v, %+v", order.Work, order.From, now, now.Task)
	}
}

// steer sends work back with words, or tells its agents something.
func (c *company) steer(work string) {
	c.n++
	text := fmt.Sprintf("as I said %d times", c.n)
	if c.oneIn(2) {
		c.try(Tell{Work: work, Text: text, Actor: "op"})
		return
	}
	d := c.try(Rework{Work: work, Text: text, Actor: "op", Reject: c.oneIn(3)})
	if w, _ := c.s.Work(work); d.Err == nil &&
		(w.Lease != nil || w.Phase != signalbox.PhaseImplementation &&
			w.Phase != signalbox.PhaseDraft ||
			w.Task.Findings[len(w.Task.Findings)-1].Summary != text || w.Task.Checked ||
			w.Task.Counts != (Counts{})) {
		c.fatalf("%s was sent back and is %+v, %+v", work, w, w.Task)
	}
}

func (c *company) exit() {
	held := c.held()
	if len(held) == 0 {
		return
	}
	w := chooseOne(c, held...)
	c.try(Exit{Session: w.Lease.Session, Epoch: w.Lease.Epoch,
		Signal: exit(w.Phase, chooseOne(c, signalbox.ExitCompleted, signalbox.ExitBlocked)),
		Turn:   &Turn{Spent: Spent{Tokens: 20}}})
}

func (c *company) passTime() {
	c.now = c.now.Add(chooseOne(c, time.Second, time.Minute, time.Hour))
	c.try(Expire{})
}

// drawAgents draws the agents of a role.
func (c *company) drawAgents() []string {
	agents := []string{"claude", "codex", "gemini"}
	c.chance.Shuffle(len(agents), func(i, j int) { agents[i], agents[j] = agents[j], agents[i] })
	return agents[:c.between(1, 3)]
}

// reconfigure changes which agents work in a role, or the settings of one.
func (c *company) reconfigure() {
	p := *c.s.run.Policy
	if len(p.Agents) == 0 {
		return
	}
	p.Agents = slices.Clone(p.Agents)
	i := c.between(0, len(p.Agents)-1)
	p.Agents[i].Agents = c.drawAgents()
	for _, a := range c.s.Agents() {
		if a.Down != "" && c.oneIn(2) { // no other agent is left
			p.Agents[i].Agents = []string{a.Agent}
		}
	}
	if c.oneIn(3) {
		p.AgentSettings = slices.Clone(p.AgentSettings)
		c.n++
		p.AgentSettings[c.between(0, len(p.AgentSettings)-1)].Settings = signalbox.Hash{9,
			byte(c.n)}
	}
	c.try(Configure{p, "op"})
}

// replan adds, removes or changes a task.
func (c *company) replan() {
	what := chooseOne(c, "add", "remove", "change", "plan", "by hand")
	switch i := c.between(0, len(c.tasks)-1); what {
	case "by hand":
		c.n++
		add := added(fmt.Sprintf("added %d", c.n))
		if blocker, known := c.s.Work(c.tasks[i].ID); known && c.oneIn(2) {
			add.Task.BlockedBy = []string{blocker.ID}
		}
		add.Task.Review = chooseOne(c, ReviewFull, ReviewChecks)
		c.try(add)
		return
	case "plan":
		c.source = chooseOne(c, "plan.md", "other.md")
	case "add":
		c.n++
		c.tasks = append(c.tasks, c.drawTask(fmt.Sprintf("p%d", c.n)))
	case "remove":
		if len(c.tasks) == 1 {
			return
		}
		gone := c.tasks[i].ID
		c.tasks = slices.Delete(slices.Clone(c.tasks), i, i+1)
		for j := range c.tasks {
			c.tasks[j].BlockedBy = remove(c.tasks[j].BlockedBy, gone)
		}
	case "change":
		all := c.tasks
		c.tasks = all[:i]
		changed := c.drawTask(all[i].ID)
		changed.Text = signalbox.Hash{byte(c.plans)}
		c.tasks = slices.Clone(all)
		c.tasks[i] = changed
	}
	c.load()
}

// batch does several things and takes them back.
func (c *company) batch() {
	before, log, tasks, now := c.s.Snapshot(), len(c.log), c.tasks, c.now
	c.s.Begin()
	for range c.between(1, 4) {
		c.step()
	}
	if c.oneIn(3) {
		c.s.Commit()
		return
	}
	c.s.Rollback()
	c.log, c.tasks, c.now = slices.Clip(c.log[:log]), tasks, now
	if !bytes.Equal(before, c.s.Snapshot()) {
		c.fatalf("after Rollback the state is not what it was")
	}
	if fault := brokenDelivery(c.s, nil); fault != "" {
		c.fatalf("after Rollback: %s", fault)
	}
}

func (c *company) step() {
	switch c.between(0, 39) {
	default:
		c.doGood()
	case 0, 1, 2, 3, 4:
		c.dispatch()
	case 20, 21, 22, 23, 24:
		c.speak()
	case 25, 26, 27:
		c.answer()
	case 28, 29:
		c.unpark()
	case 5, 6, 7, 8, 9, 10, 11:
		c.speak()
	case 12:
		c.fail()
	case 13:
		c.passTime()
	case 14, 15:
		c.answer()
	case 16:
		c.order()
	case 17:
		c.unpark()
	case 18:
		c.exit()
	case 19:
		c.replan()
	case 37, 38:
		c.workByHand()
	case 39:
		c.beat()
	case 36:
		if c.oneIn(3) {
			c.store()
		} else if c.oneIn(2) || !c.observeRequest(false) {
			c.moveBase("")
		}
	case 33:
		c.fail()
	case 34, 35:
		c.reconfigure()
	}
}

// TestCompany lets a company do random things, and folds the log again in the end.
func TestCompany(t *testing.T) {
	property.Check(t, func(t *rapid.T) {
		c := newCompany(t)
		for range c.between(10, 120) {
			if c.oneIn(12) {
				c.batch()
			} else {
				c.step()
			}
		}
		c.refold()
	})
}

func (c *company) refold() {
	whole, resumed := &State{}, &State{}
	at := c.between(0, len(c.log)-1)
	for i := range c.log {
		if i == at {
			read, err := FromSnapshot(resumed.Snapshot())
			if err != nil {
				c.fatalf("%v", err)
			}
			resumed = read
		}
		for _, s := range []*State{whole, resumed} {
			if err := s.Apply(&c.log[i]); err != nil {
				c.fatalf("%v", err)
			}
		}
	}
	if want := c.s.Snapshot(); !bytes.Equal(want, whole.Snapshot()) ||
		!bytes.Equal(want, resumed.Snapshot()) {
		c.fatalf("a fold from the start, or from a snapshot at %d, gives another state", at)
	}
}

// good says what moves the work on, for every role.
var good = map[signalbox.Role]string{signalbox.RoleDeveloper: "ready_for_review",
	signalbox.RoleCritic:  "review_passed",
	signalbox.RoleAuditor: "audit_passed", signalbox.RoleBusinessAnalyst: "expanded_spec",
	signalbox.RoleRemediation:   "remediation_complete",
	signalbox.RoleHealthAuditor: "health_healthy", signalbox.RoleExpert: "expert_advice",
	signalbox.RoleExpertCreator: "expert_created"}

// doGood does one thing right, and reports whether any work was possible that needs no human.
func (c *company) doGood() bool {
	if len(c.heldByHand()) > 0 {
		c.workByHand()
		return true
	}
	for _, w := range c.held() {
		park := w.Task.Parked
		switch {
		case park != nil && (park.Ready || !park.Until.IsZero()):
			if !park.Ready {
				c.now = park.Until
			}
			if d := c.try(ResumeSession{Session: w.Lease.Session,
				Epoch: w.Lease.Epoch}); d.Err != nil {
				continue // no slot is free
			}
		case park != nil:
			continue
		case w.Lease.Role == signalbox.RoleCI:
			c.check(w, false)
		case w.Lease.Role == signalbox.RoleMerger:
			c.merge(w, false)
		default:
			c.try(ReportSignal{Session: w.Lease.Session, Epoch: w.Lease.Epoch,
				Signal: good[w.Lease.Role], Named: w.ID,
				Fields: SignalFields{Confidence: "HIGH",
					Expert: fmt.Sprintf("expert-%d", c.s.Seq())}})
		}
		return true
	}
	if !c.s.CanDispatch(DispatchRoles(), 0, c.now) {
		return c.observeRequest(true)
	}
	c.n++
	c.try(Dispatch{Roles: DispatchRoles(), Session: fmt.Sprintf("s%d", c.n), Actor: "a", Lease: "L",
		TTL: time.Hour, Train: 3})
	return true
}

// goodHuman does one thing that only a human can do, and reports whether there was any.
func (c *company) goodHuman() bool {
	for _, q := range c.s.Questions() {
		if q.Open() {
			c.try(AnswerQuestion{q.ID, "continue", "op"})
			return true
		}
	}
	st := c.s.Status(c.now)
	if len(st.Approvals) > 0 {
		c.try(orderOf(OrderApprove, st.Approvals[0]))
		return true
	}
	if c.s.Paused() || c.s.Cancelled() != "" {
		c.try(orderOf(OrderRetry, ""))
		return true
	}
	for w := range c.s.Works() {
		if w.Task != nil && w.Task.Paused && !w.Done() || w.Task != nil &&
			w.Task.Kind == KindTask && w.Task.Cancelled != "" &&
			w.Task.Cancelled != RemovedFromPlan {
			c.try(orderOf(OrderRetry, w.ID))
			return true
		}
	}
	return false
}

// TestEveryRunEnds lets a company do random things. From there, a crew that does everything right
// reaches a point where only the human or time can help, and the status says so; with a human's
// help it delivers the whole plan.
func TestEveryRunEnds(t *testing.T) {
	property.Check(t, func(t *rapid.T) {
		c := newCompany(t)
		for range c.between(10, 100) {
			c.step()
		}
		c.calm = true
		for helped := 0; ; helped++ {
			steps := 0
			for c.doGood() {
				if steps++; steps > 2000 {
					c.fatalf("the crew does not come to an end: %+v", c.s.Status(c.now))
				}
			}
			st := c.s.Status(c.now)
			switch st.Standing {
			case StandingComplete:
				return
			case StandingAsking, StandingPaused, StandingStuck, StandingWorking, StandingLimited:
			default:
				c.fatalf("the run ends as %+v", st)
			}
			if st.Standing == StandingLimited {
				c.now = st.Wake
				continue
			}
			if wake, limited := c.s.NextWake(c.now); limited {
				c.now = wake
				continue
			}
			if helped > 300 || !c.goodHuman() && !c.giveUpWaiting() {
				c.fatalf("the run is stuck, and no one can help: %+v\n%v", st, c.s.reasons())
			}
		}
	}, 10089141714792231877)
}

// giveUpWaiting expires the next lease, and reports whether there was one.
func (c *company) giveUpWaiting() bool {
	at, any := c.s.NextExpiry()
	if any {
		c.now = at
		c.try(Expire{})
	}
	return any
}
