package rules

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"signalbox"
)

// TestHandlersAreThoseOfTheTable checks that the handlers are exactly those in the table of line
// signals.
func TestHandlersAreThoseOfTheTable(t *testing.T) {
	want := map[string]bool{signalbox.HandlerClarify: true}
	for _, row := range signalbox.LineSignals() {
		want[row.Handler] = true
	}
	got := map[string]bool{}
	for name := range handlers {
		got[name] = true
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("handlers (-table +map):\n%s", diff)
	}
	if len(got) != 18 {
		t.Errorf("there are %d handlers: %v", len(got), slices.Sorted(maps.Keys(got)))
	}
}

func heard(signal, handler string, epoch uint64) SignalHeard {
	return SignalHeard{Dialect: signalbox.DialectLine, Signal: signal, Epoch: epoch,
		Handler: handler}
}

// question returns the only open question about work, and checks its kind.
func (b *box) question(work string, kind QuestionKind) *Question {
	b.t.Helper()
	var open []*Question
	for _, q := range b.s.Questions() {
		if q.Open() && q.Work == work {
			open = append(open, q)
		}
	}
	if len(open) != 1 || open[0].Kind != kind {
		b.t.Fatalf("about %q is asked %+v, want one of kind %s", work, open, kind)
	}
	return open[0]
}

func (b *box) answer(work string, kind QuestionKind, answer string) Decision {
	b.t.Helper()
	return b.decide(AnswerQuestion{b.question(work, kind).ID, answer, "op"})
}

func TestHandlerDispatchCritic(t *testing.T) {
	b := deliver(t, policy(), todo("t1"))
	a := b.dispatch(signalbox.RoleDeveloper)
	d := b.sayMore(a, "ready_for_review", func(h *ReportSignal) { h.Body = signalbox.Hash{9} })
	wantTypes(t, d, "SignalHeard t1", "PhaseChanged t1", "LeaseReleased t1")
	want := heard("ready_for_review", "DISPATCH_CRITIC", a.Lease.Epoch)
	want.Body = signalbox.Hash{9}
	wantBody(t, d, want)
	wantAnswer(t, Answer{At: b.now, Seq: d.Events[0].Seq, Work: "t1",
		Phase: signalbox.PhaseCIPending, Session: a.Session}, d.Answer)
	if w := b.wantPhase("t1", signalbox.PhaseCIPending); w.Task.Claimed != (signalbox.Hash{9}) ||
		w.Lease != nil {
		t.Errorf("task %+v", w.Task)
	}
	b.wantNothing(signalbox.RoleCritic)
	d = b.checked(b.dispatch(signalbox.RoleCI))
	wantTypes(t, d, "ChecksRan t1", "PhaseChanged t1", "LeaseReleased t1")
	b.wantPhase("t1", signalbox.PhaseReadyForReview)
	b.wantDispatch(signalbox.RoleCritic, "t1")
	b.wantPhase("t1", signalbox.PhaseReview)
}

func TestHandlerLogAndFillSlots(t *testing.T) {
	tests := []struct {
		cause    Cause
		blockers []string
		phase    signalbox.Phase
		question QuestionKind
		events   string
	}{
		{CauseInformation, nil, signalbox.PhaseBlocked, AskedIncomplete,
			"SignalHeard IncompleteLogged QuestionAsked PhaseChanged LeaseReleased"},
		{CauseScope, nil, signalbox.PhaseBlocked, AskedIncomplete,
			"SignalHeard IncompleteLogged QuestionAsked PhaseChanged LeaseReleased"},
		{CauseInfrastructure, nil, signalbox.PhaseBlocked, "",
			"SignalHeard IncompleteLogged TaskPlanned RemediationNeeded PhaseChanged LeaseReleased"},
		{CauseWaiting, []string{"t2"}, signalbox.PhaseImplementation, "",
			"SignalHeard IncompleteLogged BlockerAdded LeaseReleased"},
		{CauseWaiting, []string{"t3"}, signalbox.PhaseBlocked, AskedWait,
			"SignalHeard IncompleteLogged QuestionAsked PhaseChanged LeaseReleased"},
		{CauseWaiting, []string{"none"}, signalbox.PhaseBlocked, AskedWait,
			"SignalHeard IncompleteLogged QuestionAsked PhaseChanged LeaseReleased"},
		{CauseOther, nil, signalbox.PhaseImplementation, "",
			"SignalHeard IncompleteLogged LeaseReleased"},
		{"", nil, signalbox.PhaseImplementation, "", "SignalHeard IncompleteLogged LeaseReleased"},
	}
	for _, tt := range tests {
		t.Run(fmt.Sprint(tt.cause, tt.blockers), func(t *testing.T) {
			b := deliver(t, policy(), todo("t1"), todo("t2"), todo("t3", "t1"))
			a := b.wantDispatch(signalbox.RoleDeveloper, "t1")
			d := b.sayMore(a, "task_incomplete",
				func(h *ReportSignal) { h.Fields.Cause, h.Fields.BlockedBy = tt.cause, tt.blockers })
			var types []string
			for _, e := range d.Events {
				types = append(types, e.Type)
			}
			if got := strings.Join(types, " "); got != tt.events {
				t.Errorf("events %s, want %s", got, tt.events)
			}
			wantBody(t, d, heard("task_incomplete", "LOG_AND_FILL_SLOTS", a.Lease.Epoch))
			w := b.wantPhase("t1", tt.phase)
			if w.Task.Counts.Incompletes != 1 || w.Lease != nil || d.Answer.Phase != tt.phase ||
				!strings.Contains(w.Task.Context, "said task_incomplete") {
				t.Errorf("task %+v, answer %+v", w.Task, d.Answer)
			}
			if tt.question != "" {
				b.question("t1", tt.question)
			}
			if tt.cause == CauseInfrastructure {
				b.wantNothing(signalbox.RoleDeveloper)
				return
			}
			b.wantDispatch(signalbox.RoleDeveloper,
				map[bool]string{true: "t1",
					false: "t2"}[tt.phase == signalbox.PhaseImplementation &&
					tt.cause != CauseWaiting])
		})
	}
	t.Run("the third wait", func(t *testing.T) {
		b := deliver(t, policy(), todo("t1"), todo("t2"), todo("t3"), todo("t4"))
		for i, blocker := range []string{"t2", "t3"} {
			d := b.sayMore(b.wantDispatch(signalbox.RoleDeveloper, "t1"), "task_incomplete",
				waitsOn(blocker))
			wantBody(t, d, BlockerAdded{[]string{blocker}, i + 1})
			b.bring(blocker, signalbox.PhaseCompleted)
		}
		b.sayMore(b.wantDispatch(signalbox.RoleDeveloper, "t1"), "task_incomplete",
			waitsOn("t4"))
		b.question("t1", AskedWait)
		b.wantPhase("t1", signalbox.PhaseBlocked)
	})
	t.Run("too often", func(t *testing.T) {
		b := deliver(t, policy(), todo("t1"))
		for range DefaultLimits().Incompletes {
			b.say(b.dispatch(signalbox.RoleDeveloper), "task_incomplete")
		}
		b.question("t1", AskedIncomplete)
		b.answer("t1", AskedIncomplete, "leave out the second half")
		if w := b.wantPhase("t1", signalbox.PhaseImplementation); w.Task.Counts != (Counts{}) ||
			!slices.Equal(w.Task.Answers, []string{"Q-1"}) {
			t.Errorf("task %+v", w.Task)
		}
	})
}

func TestHandlerEnterRemediation(t *testing.T) {
	b := deliver(t, policy(), todo("t1"), todo("t2"), todo("t3"))
	b.bring("t1", signalbox.PhaseReadyForMerge)
	dev := b.wantDispatch(signalbox.RoleDeveloper, "t2")
	a := b.wantDispatch(signalbox.RoleAuditor, "t1")
	d := b.say(a, "audit_blocked")
	wantTypes(t, d, "SignalHeard t1", "TaskPlanned R-1", "RemediationNeeded t1", "PhaseChanged t1",
		"LeaseReleased t1")
	wantBody(t, d, heard("audit_blocked", "ENTER_REMEDIATION", a.Lease.Epoch))
	wantBody(t, d, RemediationNeeded{Remediation: "R-1", Issue: "said audit_blocked"})
	if w := b.wantPhase("t1",
		signalbox.PhaseBlocked); w.BlockedFrom != signalbox.PhaseReadyForMerge ||
		w.Task.Remedy != "R-1" {
		t.Errorf("work %+v", w)
	}
	b.wantNothing(signalbox.RoleDeveloper, signalbox.RoleCritic, signalbox.RoleAuditor)
	wantTypes(t, b.say(dev, "infra_blocked"), "SignalHeard t2", "RemediationNeeded t2",
		"PhaseChanged t2", "LeaseReleased t2")
	r := b.work("R-1").Task
	if len(r.Issues) != 2 || r.Issues[0].Work != "t1" || r.Issues[1].Work != "t2" {
		t.Errorf("issues %+v", r.Issues)
	}
	if got := b.s.Reason(b.work("t3")); got != "t3 waits for remediation R-1" {
		t.Errorf("reason %q", got)
	}
	b.wantDispatch(signalbox.RoleRemediation, "R-1")
}

func TestHandlerDispatchAuditor(t *testing.T) {
	b := deliver(t, policy(), todo("t1"))
	b.bring("t1", signalbox.PhaseReadyForReview)
	a := b.dispatch(signalbox.RoleCritic)
	d := b.say(a, "review_passed")
	wantTypes(t, d, "SignalHeard t1", "PhaseChanged t1", "LeaseReleased t1")
	wantBody(t, d, heard("review_passed", "DISPATCH_AUDITOR", a.Lease.Epoch))
	wantBody(t, d, PhaseChanged{signalbox.PhaseReview, signalbox.PhaseReadyForMerge})
	if task := b.work("t1").Task; !task.Reviewed || task.Audited {
		t.Errorf("task %+v", task)
	}
	b.wantNothing(signalbox.RoleMerger)
	b.wantDispatch(signalbox.RoleAuditor, "t1")
}

func TestHandlerDispatchDeveloperRework(t *testing.T) {
	for _, tt := range []struct {
		signal, cause string
		role          signalbox.Role
		asked         QuestionKind
		count         func(Counts) int
	}{
		{"review_failed", "review", signalbox.RoleCritic, AskedReview,
			func(c Counts) int { return c.Reviews }},
		{"audit_failed", "audit", signalbox.RoleAuditor, AskedAudit,
			func(c Counts) int { return c.Audits }},
	} {
		t.Run(tt.cause, func(t *testing.T) {
			b := deliver(t, policy(), todo("t1"), todo("t2", "t1"), todo("t3"))
			for i := 1; i <= 3; i++ {
				b.bring("t1", map[signalbox.Role]signalbox.Phase{signalbox.RoleCritic: signalbox.PhaseReadyForReview, signalbox.RoleAuditor: signalbox.PhaseReadyForMerge}[tt.role])
				a := b.wantDispatch(tt.role, "t1")
				d := b.sayMore(a, tt.signal,
					func(h *ReportSignal) { h.Body = signalbox.Hash{byte(i)} })
				wantBody(t, d, ReworkOrdered{Cause: tt.cause, Count: i, Summary: "said " +
					tt.signal, Body: signalbox.Hash{byte(i)}})
				task := b.work("t1").Task
				if task.Checked || task.Reviewed || tt.count(task.Counts) != i ||
					len(task.Findings) != 1 || task.Findings[0].Body != (signalbox.Hash{byte(i)}) {
					t.Errorf("task %+v", task)
				}
				if i < 3 {
					wantTypes(t, d, "SignalHeard t1", "FindingsRecorded t1", "ReworkOrdered t1", "PhaseChanged t1",
						"LeaseReleased t1")
					b.wantPhase("t1", signalbox.PhaseImplementation)
				} else {
					wantTypes(t, d, "SignalHeard t1", "FindingsRecorded t1", "ReworkOrdered t1", "PhaseChanged t1",
						"QuestionAsked t1", "PhaseChanged t1", "LeaseReleased t1")
					b.wantPhase("t1", signalbox.PhaseBlocked)
				}
			}
			b.question("t1", tt.asked)
			b.wantDispatch(signalbox.RoleDeveloper, "t3")
			b.wantNothing(signalbox.RoleDeveloper)
			b.answer("t1", tt.asked, "use the other library")
			if w := b.wantPhase("t1",
				signalbox.PhaseImplementation); tt.count(w.Task.Counts) != 0 ||
				len(w.Task.Findings) != 1 {
				t.Errorf("task %+v", w.Task)
			}
			b.wantDispatch(signalbox.RoleDeveloper, "t1")
		})
	}
}

func TestHandlerMarkComplete(t *testing.T) {
	b := deliver(t, policy(), todo("t1"), todo("t2", "t1"), todo("t3", "t1", "t2"))
	b.bring("t1", signalbox.PhaseReadyForMerge)
	a := b.dispatch(signalbox.RoleAuditor)
	d := b.say(a, "audit_passed")
	wantTypes(t, d, "SignalHeard t1", "MergeRequested t1", "LeaseReleased t1")
	wantBody(t, d, heard("audit_passed", "MARK_COMPLETE", a.Lease.Epoch))
	b.wantPhase("t1", signalbox.PhaseReadyForMerge)
	b.wantNothing(signalbox.RoleAuditor, signalbox.RoleDeveloper)
	m := b.dispatch(signalbox.RoleMerger)
	d = b.merged(m)
	wantTypes(t, d, "Merged t1", "PhaseChanged t1", "LeaseReleased t1")
	wantBody(t, d, Merged{Epoch: m.Lease.Epoch, Commit: sha("beef"), Unblocked: []string{"t2"},
		Tip: sha("c0ffee")})
	b.wantPhase("t1", signalbox.PhaseCompleted)
	b.wantDispatch(signalbox.RoleDeveloper, "t2")

	t.Run("shared", func(t *testing.T) {
		b := deliver(t, shared(policy()), withFiles(todo("t1"), "a.go"),
			withFiles(todo("t2"), "a.go"))
		b.bring("t1", signalbox.PhaseReadyForMerge)
		b.wantNothing(signalbox.RoleDeveloper)
		d := b.say(b.dispatch(signalbox.RoleAuditor), "audit_passed")
		wantTypes(t, d, "SignalHeard t1", "Merged t1", "PhaseChanged t1", "LeaseReleased t1")
		if w := b.wantPhase("t1", signalbox.PhaseCompleted); w.Task.Locks != nil {
			t.Errorf("it has %v", w.Task.Locks)
		}
		b.wantDispatch(signalbox.RoleDeveloper, "t2")
	})
}

func TestHandlerProcessExpansion(t *testing.T) {
	for _, confidence := range []string{"HIGH", "Medium"} {
		b := deliver(t, policy(), unspecified("t1"), todo("t2", "t1"))
		a := b.wantDispatch(signalbox.RoleBusinessAnalyst, "t1")
		d := b.sayMore(a, "expanded_spec",
			func(h *ReportSignal) { h.Fields.Confidence, h.Body = confidence, signalbox.Hash{5} })
		wantTypes(t, d, "SignalHeard t1", "TaskExpanded t1", "PhaseChanged t1", "LeaseReleased t1")
		wantBody(t, d, TaskExpanded{strings.ToUpper(confidence), signalbox.Hash{5}, nil})
		if w := b.wantPhase("t1",
			signalbox.PhaseImplementation); w.Task.Specification != (signalbox.Hash{5}) {
			t.Errorf("task %+v", w.Task)
		}
		b.wantDispatch(signalbox.RoleDeveloper, "t1")
	}
	for name, tt := range map[string]struct {
		confidence string
		subs       []PlanTask
	}{
		"LOW":            {"LOW", nil},
		"no confidence":  {"", nil},
		"circle":         {"HIGH", []PlanTask{todo("a", "b"), todo("b", "a")}},
		"waits for t1":   {"HIGH", []PlanTask{todo("a", "t1")}},
		"waits for t2":   {"HIGH", []PlanTask{todo("a", "t2")}},
		"unknown":        {"HIGH", []PlanTask{todo("a", "missing")}},
		"bad id":         {"HIGH", []PlanTask{todo("a b")}},
		"twice":          {"HIGH", []PlanTask{todo("a"), todo("a")}},
		"twice as":       {"HIGH", []PlanTask{todo("t1.t2"), todo("t2")}},
		"a request":      {"HIGH", []PlanTask{todo("a", "B-1")}},
		"too many tasks": {"HIGH", make([]PlanTask, maxLoaded+1)},
	} {
		t.Run(name, func(t *testing.T) {
			b := deliver(t, policy(), unspecified("t1"), todo("t2", "t1"))
			d := b.sayMore(b.dispatch(signalbox.RoleBusinessAnalyst), "expanded_spec",
				expands(tt.confidence, tt.subs...))
			wantTypes(t, d, "SignalHeard t1", "QuestionAsked t1", "PhaseChanged t1",
				"LeaseReleased t1")
			if w := b.wantPhase("t1",
				signalbox.PhaseBlocked); w.BlockedFrom != signalbox.PhaseDraft {
				t.Errorf("blocked from %s", w.BlockedFrom)
			}
			b.answer("t1", AskedExpansion, "it is about dates")
			b.wantDispatch(signalbox.RoleBusinessAnalyst, "t1")
		})
	}
	t.Run("sub-tasks", func(t *testing.T) {
		b := deliver(t, policy(), unspecified("t1"), todo("t2", "t1"), todo("t3"))
		d := b.sayMore(b.dispatch(signalbox.RoleBusinessAnalyst), "expanded_spec",
			expands("HIGH", withFiles(todo("a"), "./x.go"), todo("t3", "a")))
		wantTypes(t, d, "SignalHeard t1", "TaskPlanned a", "TaskPlanned t1.t3", "TaskExpanded t1",
			"PhaseChanged t1", "LeaseReleased t1")
		a, sub := b.work("a").Task, b.work("t1.t3").Task
		if a.Parent != "t1" || !slices.Equal(a.Files, []string{"x.go"}) ||
			!slices.Equal(sub.Blockers, []string{"a"}) ||
			!slices.Equal(b.work("t1").Task.Waits, []string{"a", "t1.t3"}) {
			t.Errorf("sub-tasks %+v, %+v", a, sub)
		}
		b.bring("a", signalbox.PhaseCompleted)
		b.bring("t1.t3", signalbox.PhaseCompleted)
		b.bring("t1", signalbox.PhaseCompleted)
		b.bring("t2", signalbox.PhaseCompleted)
	})
}

// ill is a box in a remediation that one task waits for.
func ill(t failer, p Policy) *box {
	b := deliver(t, p, todo("t1"), todo("t2", "t1"), todo("t3"))
	b.say(b.wantDispatch(signalbox.RoleDeveloper, "t1"), "infra_blocked")
	return b
}

// remedied takes a remediation to its health auditor; the checks named fail.
func (b *box) remedied(failing ...string) Answer {
	b.t.Helper()
	b.say(b.wantDispatch(signalbox.RoleRemediation, "R-1"), "remediation_complete")
	b.checked(b.wantDispatch(signalbox.RoleCI, "R-1"), failing...)
	return b.wantDispatch(signalbox.RoleHealthAuditor, "R-1")
}

func TestHandlerDispatchHealthAuditor(t *testing.T) {
	b := ill(t, policy())
	a := b.dispatch(signalbox.RoleRemediation)
	d := b.say(a, "remediation_complete")
	wantTypes(t, d, "SignalHeard R-1", "PhaseChanged R-1", "LeaseReleased R-1")
	wantBody(t, d, heard("remediation_complete", "DISPATCH_HEALTH_AUDITOR", a.Lease.Epoch))
	b.wantNothing(signalbox.RoleHealthAuditor)
	wantTypes(t, b.checked(b.dispatch(signalbox.RoleCI), "test"), "ChecksRan R-1",
		"PhaseChanged R-1", "LeaseReleased R-1")
	b.wantPhase("R-1", signalbox.PhaseReview)
	b.wantDispatch(signalbox.RoleHealthAuditor, "R-1")
}

func TestHandlerExitRemediation(t *testing.T) {
	t.Run("merged", func(t *testing.T) {
		b := ill(t, policy())
		a := b.remedied()
		d := b.say(a, "health_healthy")
		wantTypes(t, d, "SignalHeard R-1", "HealthAudited R-1", "PhaseChanged R-1",
			"MergeRequested R-1", "LeaseReleased R-1")
		wantBody(t, d, heard("health_healthy", "EXIT_REMEDIATION", a.Lease.Epoch))
		b.wantNothing(signalbox.RoleDeveloper)
		d = b.merged(b.wantDispatch(signalbox.RoleMerger, "R-1"))
		wantTypes(t, d, "Merged R-1", "PhaseChanged R-1", "LeaseReleased R-1", "TaskPlanned B-2",
			"RemediationEnded t1", "PhaseChanged t1")
		b.wantPhase("t1", signalbox.PhaseImplementation)
		b.wantNothing(signalbox.RoleDeveloper)
		b.baseline()
		b.wantDispatch(signalbox.RoleDeveloper, "t1")
	})
	t.Run("shared", func(t *testing.T) {
		b := ill(t, shared(policy()))
		d := b.say(b.remedied(), "health_healthy")
		wantTypes(t, d, "SignalHeard R-1", "HealthAudited R-1", "PhaseChanged R-1", "Merged R-1",
			"PhaseChanged R-1", "LeaseReleased R-1",
			"TaskPlanned B-2", "RemediationEnded t1", "PhaseChanged t1")
		b.wantPhase("R-1", signalbox.PhaseCompleted)
	})
	t.Run("contradiction", func(t *testing.T) {
		b := ill(t, policy())
		d := b.say(b.remedied("vet"), "health_healthy")
		wantTypes(t, d, "SignalHeard R-1", "HealthAudited R-1", "RemediationRetried R-1",
			"PhaseChanged R-1", "LeaseReleased R-1")
		wantBody(t, d, HealthAudited{true, true, "the checks fail: vet on local"})
		b.wantPhase("R-1", signalbox.PhaseImplementation)
		b.wantDispatch(signalbox.RoleRemediation, "R-1")
	})
	t.Run("the merge is refused", func(t *testing.T) {
		b := ill(t, policy())
		b.say(b.remedied(), "health_healthy")
		m := b.dispatch(signalbox.RoleMerger)
		d := b.try(by(m, ReportMerge{Refusal: "conflict in go.mod"}))
		wantTypes(t, d, "HealthAudited R-1", "RemediationRetried R-1", "PhaseChanged R-1",
			"LeaseReleased R-1")
		b.say(b.remedied(), "health_healthy")
		b.merged(b.dispatch(signalbox.RoleMerger))
		b.wantPhase("R-1", signalbox.PhaseCompleted)
	})
}

func TestHandlerRetryRemediation(t *testing.T) {
	tired := func(t *testing.T) *box {
		b := ill(t, policy())
		for i := 1; i <= 10; i++ {
			a := b.remedied()
			d := b.say(a, "health_unhealthy")
			wantBody(t, d, heard("health_unhealthy", "RETRY_REMEDIATION", a.Lease.Epoch))
			wantBody(t, d, RemediationRetried{i, "said health_unhealthy"})
			if i < 10 {
				b.wantPhase("R-1", signalbox.PhaseImplementation)
			}
		}
		b.wantPhase("R-1", signalbox.PhaseBlocked)
		b.question("R-1", AskedRemediation)
		b.wantNothing(DispatchRoles()...)
		b.wantStanding(StandingAsking)
		return b
	}
	t.Run("retry", func(t *testing.T) {
		b := tired(t)
		wantTypes(t, b.answer("R-1", AskedRemediation, "Retry: use the mirror"),
			"QuestionAnswered R-1", "PhaseChanged R-1")
		if w := b.wantPhase("R-1", signalbox.PhaseImplementation); w.Task.Attempts != 0 ||
			!slices.Equal(w.Task.Answers, []string{"Q-1"}) {
			t.Errorf("task %+v", w.Task)
		}
		b.wantDispatch(signalbox.RoleRemediation, "R-1")
	})
	t.Run("healthy", func(t *testing.T) {
		b := tired(t)
		wantTypes(t, b.answer("R-1", AskedRemediation, "Declare healthy, I fixed it"),
			"QuestionAnswered R-1", "Merged R-1", "PhaseChanged R-1",
			"TaskPlanned B-2", "RemediationEnded t1", "PhaseChanged t1")
		b.wantPhase("R-1", signalbox.PhaseCompleted)
		b.baseline()
		b.wantDispatch(signalbox.RoleDeveloper, "t1")
	})
	t.Run("halt", func(t *testing.T) {
		b := tired(t)
		wantTypes(t, b.answer("R-1", AskedRemediation, "halt"), "QuestionAnswered R-1",
			"PhaseChanged R-1", "Paused ")
		b.wantStanding(StandingPaused)
		b.do(orderOf(OrderResume, ""))
		b.wantDispatch(signalbox.RoleRemediation, "R-1")
	})
}

// A question has a reason in words, also if the agent gave none, or only a full stop.
func TestQuestionsHaveAReason(t *testing.T) {
	p := policy()
	p.Limits.Incompletes, p.Limits.Remediations, p.Limits.Waits, p.Limits.ExpertRequests = 1, 1, 1,
		1
	for _, test := range []struct {
		name string
		ask  func(b *box, summary string)
	}{
		{"expert_unsuccessful", func(b *box, summary string) {
			b.askExpert(b.dispatch(signalbox.RoleDeveloper), "sql")
			b.sayMore(b.dispatch(signalbox.RoleExpert), "expert_unsuccessful",
				saying(summary))
		}},
		{"no such expert", func(b *box, summary string) {
			b.sayMore(b.dispatch(signalbox.RoleDeveloper), "expert_request",
				func(h *ReportSignal) { h.Fields.Expert, h.Fields.Summary = "css", summary })
		}},
		{"health_unhealthy", func(b *box, summary string) {
			b.say(b.dispatch(signalbox.RoleDeveloper), "infra_blocked")
			b.sayMore(b.remedied(), "health_unhealthy",
				saying(summary))
		}},
		{"another remediation", func(b *box, summary string) {
			b.say(b.dispatch(signalbox.RoleDeveloper), "infra_blocked")
			b.sayMore(b.remedied(), "divine_clarification",
				saying(summary))
		}},
		{"task_incomplete", func(b *box, summary string) {
			b.sayMore(b.dispatch(signalbox.RoleDeveloper), "task_incomplete",
				saying(summary))
		}},
		{"missing information", func(b *box, summary string) {
			b.sayMore(b.dispatch(signalbox.RoleDeveloper), "task_incomplete",
				func(h *ReportSignal) { h.Fields.Cause, h.Fields.Summary = CauseInformation, summary })
		}},
		{"waiting for nothing", func(b *box, summary string) {
			b.sayMore(b.dispatch(signalbox.RoleDeveloper), "task_incomplete",
				func(h *ReportSignal) { h.Fields.Cause, h.Fields.Summary = CauseWaiting, summary })
		}},
		{"waiting too often", func(b *box, summary string) {
			b.sayMore(b.dispatch(signalbox.RoleDeveloper), "task_incomplete",
				func(h *ReportSignal) {
					h.Fields.Cause, h.Fields.BlockedBy, h.Fields.Summary = CauseWaiting,
						[]string{"t2"},
						summary
				})
		}},
		{"divine_clarification", func(b *box, summary string) {
			b.sayMore(b.dispatch(signalbox.RoleDeveloper), "divine_clarification",
				saying(summary))
		}},
	} {
		for _, summary := range []string{"", " \n", ".", "It broke."} {
			b := deliver(t, p, todo("t1"), todo("t2"))
			test.ask(b, summary)
			text := b.s.Questions()[0].Text
			given := strings.Contains(text, "no reason given")
			if given != (summary != "It broke.") || !given && !strings.Contains(text, "It broke") ||
				strings.Contains(text, "..") ||
				strings.Contains(text, ": .") || strings.Contains(text, " , ") ||
				strings.HasSuffix(strings.TrimSpace(text), ":") {
				t.Errorf("%s with %q: %q", test.name, summary, text)
			}
		}
	}
}

func TestHandlerAwaitDivineResponse(t *testing.T) {
	b := deliver(t, policy(), todo("t1"), todo("t2", "t1"), todo("t3"))
	b.bring("t1", signalbox.PhaseReadyForReview)
	a := b.dispatch(signalbox.RoleCritic)
	d := b.sayMore(a, "divine_clarification",
		func(h *ReportSignal) { h.Fields.Summary, h.Body = "Which calendar?", signalbox.Hash{4} })
	wantTypes(t, d, "SignalHeard t1", "QuestionAsked t1", "PhaseChanged t1", "LeaseReleased t1")
	wantBody(t, d, QuestionAsked{Question: "Q-1", Kind: AskedClarification, Text: "Which calendar?",
		Body: signalbox.Hash{4}})
	wantAnswer(t, Answer{At: b.now, Seq: d.Events[0].Seq, Work: "t1", Phase: signalbox.PhaseBlocked,
		Session: a.Session, Questions: []string{"Q-1"}}, d.Answer)
	b.wantDispatch(signalbox.RoleDeveloper, "t3")
	b.wantNothing(signalbox.RoleCritic, signalbox.RoleDeveloper)
	b.pass(100 * 24 * time.Hour)
	b.do(Expire{})
	d = b.answer("t1", AskedClarification, "The Julian one")
	wantTypes(t, d, "QuestionAnswered t1", "PhaseChanged t1")
	wantAnswer(t, Answer{At: b.now, Seq: d.Events[0].Seq, Work: "t1", Phase: signalbox.PhaseReview},
		d.Answer)
	b.refuses(AnswerQuestion{"Q-1", "The Gregorian one", "op"}, signalbox.CodeConflict)
	b.refuses(AnswerQuestion{"Q-9", "What?", "op"}, signalbox.CodeNotFound)
	b.refuses(AnswerQuestion{"Q-1", " ", "op"}, signalbox.CodeUsage)
	b.wantDispatch(signalbox.RoleCritic, "t1")
}
