package rules

import (
	"slices"
	"strings"
	"testing"
	"time"

	"signalbox"
)

// askExpert has the holder of a task ask an expert.
func (b *box) askExpert(a Answer, expert string) Decision {
	b.t.Helper()
	return b.sayMore(a, "expert_request", func(h *ReportSignal) {
		h.Fields.Expert, h.Fields.Request, h.Fields.Summary, h.Body = expert, "review",
			"is it right?", signalbox.Hash{6}
	})
}

func TestHandlerDispatchExpert(t *testing.T) {
	p := policy()
	p.Slots = 1
	b := deliver(t, p, todo("t1"), todo("t2"))
	a := b.dispatch(signalbox.RoleDeveloper)
	d := b.askExpert(a, "sql")
	wantTypes(t, d, "SignalHeard t1", "TaskPlanned X-1", "ExpertRequested t1", "SessionParked t1")
	wantBody(t, d, ExpertRequested{"X-1", "sql", "review", 1, signalbox.Hash{6}})
	wantBody(t, d, SessionParked{Epoch: a.Lease.Epoch, For: "X-1"})
	if !d.Answer.Parked || d.Answer.Lease == nil || b.work("t1").Lease == nil {
		t.Errorf("answer %+v", d.Answer)
	}
	b.refuses(by(a, ResumeSession{}), signalbox.CodeNotFound)
	again := b.try(hear(a, "expert_request"))
	if r := refusedBy(again.Err); r == nil || r.Reason != signalbox.ReasonDuplicate {
		t.Errorf("asking while it waits: %v", again.Err)
	}
	b.wantDispatch(signalbox.RoleExpert, "X-1") // in the slot that the asker left
	b.wantNothing(signalbox.RoleDeveloper)

	t.Run("two at a time", func(t *testing.T) {
		b := deliver(t, policy(), todo("t1"), todo("t2"), todo("t3"))
		for range 3 {
			b.askExpert(b.dispatch(signalbox.RoleDeveloper), "sql")
		}
		b.wantDispatch(signalbox.RoleExpert, "X-1")
		b.wantDispatch(signalbox.RoleExpert, "X-2")
		b.wantNothing(signalbox.RoleExpert)
	})
	t.Run("three requests a task", func(t *testing.T) {
		b := deliver(t, policy(), todo("t1"))
		a := b.dispatch(signalbox.RoleDeveloper)
		for range 3 {
			b.askExpert(a, "sql")
			b.say(b.dispatch(signalbox.RoleExpert), "expert_advice")
			b.do(by(a, ResumeSession{}))
		}
		wantTypes(t, b.askExpert(a, "sql"), "SignalHeard t1", "QuestionAsked t1", "PhaseChanged t1",
			"LeaseReleased t1")
		b.question("t1", AskedExpert)
		b.wantPhase("t1", signalbox.PhaseBlocked)
	})
	t.Run("no expert of that name", func(t *testing.T) {
		b := deliver(t, policy(), todo("t1"))
		wantTypes(t, b.askExpert(b.dispatch(signalbox.RoleDeveloper), "css"), "SignalHeard t1",
			"QuestionAsked t1", "PhaseChanged t1", "LeaseReleased t1")
		if q := b.question("t1", AskedExpert); !strings.Contains(q.Text, "'css'") {
			t.Errorf("question %q", q.Text)
		}
	})
	t.Run("one is made", func(t *testing.T) {
		b := deliver(t, withCreator(policy()), todo("t1"))
		wantTypes(t, b.askExpert(b.dispatch(signalbox.RoleDeveloper), "css"), "SignalHeard t1",
			"TaskPlanned X-1", "ExpertRequested t1", "SessionParked t1")
		b.wantNothing(signalbox.RoleExpert)
		b.wantDispatch(signalbox.RoleExpertCreator, "X-1")
	})
	t.Run("the request is cancelled", func(t *testing.T) {
		b := deliver(t, policy(), todo("t1"))
		a := b.dispatch(signalbox.RoleDeveloper)
		b.askExpert(a, "sql")
		b.do(orderOf(OrderCancel, "X-1"))
		b.do(by(a, ResumeSession{}))
	})
}

func TestHandlerDeliverToRequestingAgent(t *testing.T) {
	p := policy()
	p.Slots = 1
	b := deliver(t, p, todo("t1"), todo("t2"))
	a := b.dispatch(signalbox.RoleDeveloper)
	b.askExpert(a, "sql")
	x := b.dispatch(signalbox.RoleExpert)
	d := b.sayMore(x, "expert_advice",
		func(h *ReportSignal) { h.Body, h.Blob = signalbox.Hash{8}, signalbox.Hash{9} })
	wantTypes(t, d, "SignalHeard X-1", "ExpertAdvised t1", "PhaseChanged X-1", "LeaseReleased X-1")
	wantBody(t, d, ExpertAdvised{"X-1", "sql", signalbox.Hash{8}, signalbox.Hash{9}})
	b.wantPhase("X-1", signalbox.PhaseCompleted)
	b.wantNothing(signalbox.RoleDeveloper) // the asker goes before others
	wantTypes(t, b.try(by(a, ResumeSession{})), "SessionResumed t1")
	if got := b.do(by(a, ResumeSession{})); !got.Repeated {
		t.Errorf("again: %+v", got)
	}
	task := b.work("t1").Task
	if task.Parked != nil || len(task.Advice) != 1 ||
		task.Advice[0] != (Advice{"sql", "X-1", signalbox.Hash{8}, signalbox.Hash{9}}) {
		t.Errorf("task %+v", task)
	}
	b.say(a, "ready_for_review")

	t.Run("the asker is gone", func(t *testing.T) {
		b := deliver(t, policy(), todo("t1"))
		a := b.dispatch(signalbox.RoleDeveloper)
		b.askExpert(a, "sql")
		b.do(by(a, ReportFailure{Cause: FailCrash}))
		b.say(b.dispatch(signalbox.RoleExpert), "expert_advice")
		b.wantDispatch(signalbox.RoleDeveloper, "t1")
		if got := b.work("t1").Task.Advice; len(got) != 1 {
			t.Errorf("advice %+v", got)
		}
	})
}

// An expert may name the task that asks, by each of its ids: the advice is for that task.
func TestExpertMayNameTheAsker(t *testing.T) {
	b := finished(t)
	b.do(planOf("b.md", 2, todo("T1"), todo("T2")))
	a := b.wantDispatch(signalbox.RoleDeveloper, "b.T1")
	for _, named := range []string{"b.T1", "T1", "X-3"} {
		b.askExpert(a, "sql")
		x := b.dispatch(signalbox.RoleExpert)
		other := hear(x, "expert_advice")
		other.Named = "b.T2"
		if r := refusedBy(b.try(other).Err); r == nil || r.Reason != signalbox.ReasonWrongWork {
			t.Errorf("advice for another task: %v", r)
		}
		b.sayMore(x, "expert_advice", func(h *ReportSignal) { h.Named = named })
		b.do(by(a, ResumeSession{}))
	}
	if got := b.work("b.T1").Task.Advice; len(got) != 3 {
		t.Errorf("advice %+v", got)
	}
}

func TestHandlerEscalateToDivine(t *testing.T) {
	b := deliver(t, policy(), todo("t1"))
	a := b.dispatch(signalbox.RoleDeveloper)
	b.askExpert(a, "sql")
	x := b.dispatch(signalbox.RoleExpert)
	d := b.say(x, "expert_unsuccessful")
	wantTypes(t, d, "SignalHeard X-1", "PhaseChanged X-1", "LeaseReleased X-1", "QuestionAsked t1",
		"PhaseChanged t1", "LeaseReleased t1")
	wantBody(t, d, heard("expert_unsuccessful", "ESCALATE_TO_DIVINE", x.Lease.Epoch))
	b.wantPhase("X-1", signalbox.PhaseCompleted)
	if w := b.wantPhase("t1",
		signalbox.PhaseBlocked); w.BlockedFrom != signalbox.PhaseImplementation || w.Lease != nil {
		t.Errorf("work %+v", w)
	}
	b.answer("t1", AskedExpert, "it is right")
	b.wantDispatch(signalbox.RoleDeveloper, "t1")

	t.Run("another has the task by then", func(t *testing.T) {
		b := deliver(t, policy(), todo("t1"))
		a := b.dispatch(signalbox.RoleDeveloper)
		b.askExpert(a, "sql")
		b.do(by(a, ReportFailure{Cause: FailCrash}))
		other := b.dispatch(signalbox.RoleDeveloper)
		wantTypes(t, b.say(b.dispatch(signalbox.RoleExpert), "expert_unsuccessful"),
			"SignalHeard X-1", "PhaseChanged X-1", "LeaseReleased X-1", "QuestionAsked t1")
		b.say(other, "ready_for_review")
		b.wantNothing(signalbox.RoleCI)
		b.answer("t1", AskedExpert, "continue")
		b.wantDispatch(signalbox.RoleCI, "t1")
	})
	t.Run("the expert fails three times", func(t *testing.T) {
		b := deliver(t, policy(), todo("t1"))
		b.askExpert(b.dispatch(signalbox.RoleDeveloper), "sql")
		for range 3 {
			x := b.dispatch(signalbox.RoleExpert)
			b.do(by(x, ReportFailure{Cause: FailTimeout}))
		}
		b.question("t1", AskedExpert)
		b.wantPhase("X-1", signalbox.PhaseCompleted)
	})
}

func TestHandlerRegisterExpert(t *testing.T) {
	b := deliver(t, withCreator(policy()), todo("t1"))
	b.askExpert(b.dispatch(signalbox.RoleDeveloper), "css")
	maker := b.dispatch(signalbox.RoleExpertCreator)
	d := b.sayMore(maker, "expert_created", func(h *ReportSignal) {
		h.Named, h.Fields.Expert, h.Fields.Gap, h.Fields.Keywords = "stylist", "stylist", "layout",
			[]string{"flex", "grid\x00"}
	})
	wantTypes(t, d, "SignalHeard X-1", "ExpertRegistered X-1", "LeaseReleased X-1")
	wantBody(t, d, ExpertRegistered{Expert{Name: "stylist", Gap: "layout",
		Keywords: []string{"flex", "grid "}}})
	if got := b.s.Experts(); len(got) != 2 || got[1].Name != "stylist" {
		t.Errorf("experts %+v", got)
	}
	b.wantNothing(signalbox.RoleExpertCreator)
	b.wantDispatch(signalbox.RoleExpert, "X-1")

	t.Run("a name that cannot be used", func(t *testing.T) {
		b := deliver(t, withCreator(policy()), todo("t1"))
		b.askExpert(b.dispatch(signalbox.RoleDeveloper), "css")
		b.sayMore(b.dispatch(signalbox.RoleExpertCreator), "expert_created",
			func(h *ReportSignal) { h.Fields.Expert = "../../x" })
		b.question("t1", AskedExpert)
	})
}

// wants has the holder of a task want a file.
func (b *box) wants(a Answer, file string) Decision {
	b.t.Helper()
	return b.sayMore(a, "file_conflict",
		func(h *ReportSignal) { h.Named, h.Fields.File = file, file })
}

func TestHandlerQueueOrCoordinate(t *testing.T) {
	// in hand are t1 with a.go and t2 with b.go
	inHand := func(t failer) (b *box, one, two Answer) {
		b = deliver(t, shared(policy()), withFiles(todo("t1"), "a.go"),
			withFiles(todo("t2"), "b.go"), todo("t3"))
		return b, b.wantDispatch(signalbox.RoleDeveloper, "t1"),
			b.wantDispatch(signalbox.RoleDeveloper, "t2")
	}
	t.Run("granted", func(t *testing.T) {
		b, one, _ := inHand(t)
		wantTypes(t, b.wants(one, "./c.go"), "SignalHeard t1", "FilesLocked t1")
		wantTypes(t, b.wants(one, "c.go")) // it has it
		if got := b.work("t1").Task.Locks; !slices.Equal(got, []string{"a.go", "c.go"}) {
			t.Errorf("locks %v", got)
		}
	})
	t.Run("parked", func(t *testing.T) {
		b, one, two := inHand(t)
		three := b.wantDispatch(signalbox.RoleDeveloper, "t3")
		d := b.wants(two, "a.go")
		wantTypes(t, d, "SignalHeard t2", "FileWaited t2", "SessionParked t2")
		wantBody(t, d, FileWaited{"a.go", "t1", 1})
		wantBody(t, d, SessionParked{Epoch: two.Lease.Epoch, For: "a.go", File: true,
			Until: b.now.Add(30 * time.Minute)})
		if !d.Answer.Parked {
			t.Errorf("answer %+v", d.Answer)
		}
		b.wants(three, "a.go")
		b.do(orderOf(OrderCancel, "t1")) // a.go goes to who came first
		if locks := b.work("t2").Task.Locks; !slices.Equal(locks, []string{"a.go", "b.go"}) ||
			!b.work("t2").Task.Parked.Ready || b.work("t3").Task.Parked.Ready {
			t.Errorf("locks %v", locks)
		}
		b.do(by(two, ResumeSession{}))
		b.refuses(by(three, ResumeSession{}), signalbox.CodeNotFound)
		b.refuses(hear(one, "ready_for_review"), signalbox.CodeConflict)
	})
	t.Run("at most 30 minutes", func(t *testing.T) {
		b, _, two := inHand(t)
		b.wants(two, "a.go")
		b.pass(10 * time.Minute)
		b.do(by(two, Renew{Work: "t2", TTL: time.Hour}))
		b.pass(20 * time.Minute)
		wantTypes(t, b.try(by(two, ResumeSession{})), "SessionResumed t2")
	})
	t.Run("the third time", func(t *testing.T) {
		b, one, two := inHand(t)
		for range 2 {
			b.wants(two, "a.go")
			for range 3 {
				b.pass(10 * time.Minute)
				b.do(by(one, Renew{Work: "t1", TTL: time.Hour}))
				b.do(by(two, Renew{Work: "t2", TTL: time.Hour}))
			}
			b.do(by(two, ResumeSession{}))
		}
		wantTypes(t, b.wants(two, "a.go"), "SignalHeard t2", "FileWaited t2", "QuestionAsked t2",
			"PhaseChanged t2", "LeaseReleased t2")
		b.question("t2", AskedFile)
	})
	t.Run("a circle, the asker is the younger", func(t *testing.T) {
		b, one, two := inHand(t)
		b.wants(one, "b.go")
		wantTypes(t, b.wants(two, "a.go"), "SignalHeard t2", "LocksYielded t2", "LeaseReleased t2")
		if locks := b.work("t1").Task.Locks; !slices.Equal(locks, []string{"a.go", "b.go"}) ||
			!b.work("t1").Task.Parked.Ready {
			t.Errorf("locks %v", locks)
		}
		b.do(by(one, ResumeSession{}))
		b.wantDispatch(signalbox.RoleDeveloper, "t3") // t2 needs b.go
		if got := b.s.Reason(b.work("t2")); got != "t2 waits for files that t1 has" {
			t.Errorf("reason %q", got)
		}
	})
	t.Run("a circle, the asker is the older", func(t *testing.T) {
		b, one, two := inHand(t)
		b.wants(two, "a.go")
		wantTypes(t, b.wants(one, "b.go"), "SignalHeard t1", "LeaseReleased t2", "LocksYielded t2",
			"FilesLocked t1")
		if b.work("t2").Lease != nil || !strings.Contains(b.work("t2").Task.Context, "deadlock") {
			t.Errorf("work %+v", b.work("t2"))
		}
		b.say(one, "ready_for_review")
		b.refuses(hear(two, "ready_for_review"), signalbox.CodeConflict)
	})
	t.Run("worktrees", func(t *testing.T) {
		b := deliver(t, policy(), withFiles(todo("t1"), "a.go"), withFiles(todo("t2"), "a.go"))
		one, _ := b.dispatch(signalbox.RoleDeveloper), b.dispatch(signalbox.RoleDeveloper)
		d := b.wants(one, "a.go")
		wantTypes(t, d, "SignalHeard t1", "OverlapNoted t1", "OverlapNoted t2")
		wantBody(t, d, OverlapNoted{"a.go", "t2"})
		if got := b.work("t2").Task.Overlaps; !slices.Equal(got, []string{"a.go (also t1)"}) {
			t.Errorf("overlaps %q", got)
		}
		wantTypes(t, b.wants(one, "lonely.go"), "SignalHeard t1", "OverlapNoted t1")
	})
	t.Run("worktrees, files that no task declared", func(t *testing.T) {
		b := deliver(t, policy(), todo("t1"), todo("t2"), withFiles(todo("t3"), "a.go"))
		one, two := b.dispatch(signalbox.RoleDeveloper), b.dispatch(signalbox.RoleDeveloper)
		wantTypes(t, b.wants(one, "a.go"), "SignalHeard t1", "OverlapNoted t1")
		d := b.wants(two, "./a.go")
		wantTypes(t, d, "SignalHeard t2", "OverlapNoted t2", "OverlapNoted t1")
		wantBody(t, d, OverlapNoted{"a.go", "t1"})
		if got := b.work("t1").Task.Overlaps; !slices.Equal(got,
			[]string{"a.go", "a.go (also t2)"}) {
			t.Errorf("overlaps %q", got)
		}
		for _, a := range []Answer{one, two} {
			if d := b.wants(a, "a.go"); !d.Answer.Repeated || len(d.Events) != 0 {
				t.Errorf("again: %+v", d)
			}
		}
		// A task that announced the file changes it, also between two agents; a third task tells
		// all of them.
		b.do(by(one, ReportFailure{Cause: FailCrash}))
		b.do(orderOf(OrderPause, "t1"))
		three := b.wantDispatch(signalbox.RoleDeveloper, "t3")
		wantTypes(t, b.wants(three, "a.go"), "SignalHeard t3", "OverlapNoted t3", "OverlapNoted t1",
			"OverlapNoted t3", "OverlapNoted t2")
		b.say(two, "ready_for_review")
	})
	t.Run("worktrees, announced before the other task starts", func(t *testing.T) {
		b := deliver(t, policy(), todo("t1"), withFiles(todo("t2"), "a.go"))
		one := b.dispatch(signalbox.RoleDeveloper)
		wantTypes(t, b.wants(one, "a.go"), "SignalHeard t1", "OverlapNoted t1")
		b.wantDispatch(signalbox.RoleDeveloper, "t2")
		wantTypes(t, b.wants(one, "a.go"), "SignalHeard t1", "OverlapNoted t1", "OverlapNoted t2")
	})
	t.Run("worktrees, a task that is done", func(t *testing.T) {
		b := deliver(t, policy(), todo("t1"), todo("t2"))
		b.wants(b.dispatch(signalbox.RoleDeveloper), "a.go")
		b.do(orderOf(OrderCancel, "t1"))
		wantTypes(t, b.wants(b.wantDispatch(signalbox.RoleDeveloper, "t2"), "a.go"),
			"SignalHeard t2", "OverlapNoted t2")
	})
	t.Run("who waits for a task gives its files to it", func(t *testing.T) {
		b := deliver(t, shared(policy()), withFiles(todo("t1"), "a.go"),
			withFiles(todo("t2"), "a.go"))
		b.sayMore(b.wantDispatch(signalbox.RoleDeveloper, "t1"), "task_incomplete",
			waitsOn("t2"))
		d := b.try(b.dispatchOf(signalbox.RoleDeveloper))
		wantTypes(t, d, "LeaseGranted t2", "LocksYielded t1", "FilesLocked t2")
	})
}

func TestHandlerProcessCheckpoint(t *testing.T) {
	b := deliver(t, policy(), todo("t1"))
	a := b.dispatch(signalbox.RoleDeveloper)
	b.pass(time.Minute)
	d := b.sayMore(a, "checkpoint",
		func(h *ReportSignal) { h.Fields.Summary, h.Fields.Percent = "writing tests", 140 })
	wantTypes(t, d, "SignalHeard t1", "ProgressReported t1")
	wantBody(t, d, ProgressReported{a.Lease.Epoch, "writing tests", 100})
	if p := b.work("t1").Task.Progress; p == nil || *p != (Progress{"writing tests", 100, b.now}) ||
		b.work("t1").Lease == nil {
		t.Errorf("progress %+v", p)
	}
	b.pass(minBetweenCheckpoints - 1)
	if d := b.say(a, "checkpoint"); !d.Answer.Repeated || len(d.Events) != 0 {
		t.Errorf("at once again: %+v", d)
	}
	b.pass(1)
	wantTypes(t, b.say(a, "checkpoint"), "SignalHeard t1", "ProgressReported t1")
	b.say(a, "ready_for_review")
	if p := b.work("t1").Task.Progress; p != nil {
		t.Errorf("afterwards: %+v", p)
	}
}

func TestHandlerRequestClarification(t *testing.T) {
	b := deliver(t, policy(), todo("t1"))
	a := b.dispatch(signalbox.RoleDeveloper)
	d := b.sayMore(a, "unknown", func(h *ReportSignal) {
		h.Fields.Summary, h.Fields.Advice = "**READY_FOR_REVIEW: t1**", "send the line bare"
	})
	wantTypes(t, d, "UnknownSignalRecovery t1")
	wantBody(t, d, UnknownSignalRecovery{1, "warning", "**READY_FOR_REVIEW: t1**",
		"send the line bare"})
	wantAnswer(t, Answer{At: b.now, Seq: d.Events[0].Seq, Work: "t1",
		Phase: signalbox.PhaseImplementation, Session: a.Session,
		Lease: b.work("t1").Lease, Again: true}, d.Answer)
	b.say(a, "ready_for_review")
}
