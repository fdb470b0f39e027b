package rules

import (
	"slices"
	"testing"

	"signalbox"
)

const request = "https://forge.example/ann/shop/pull/7"

// deliverPolicy is a policy that delivers work in a way of its own.
func deliverPolicy(how string) Policy {
	p := policy()
	p.Deliver = how
	return p
}

// delivered brings a task to its delivery, and delivers it.
func (b *box) delivered(task, commit, url string) Decision {
	b.t.Helper()
	b.toMerge(task, commit)
	m := b.wantDispatch(signalbox.RoleMerger, task)
	return b.try(ReportDelivery{m.Session, m.Lease.Epoch,
		Delivery{Tip: commit, Commit: commit, Branch: "signalbox/" + task, Remote: "origin",
			Request: url}})
}

func TestDeliveredBranch(t *testing.T) {
	for _, how := range []string{DeliverBranch, DeliverPush} {
		b := deliver(t, deliverPolicy(how), todo("t1"), todo("t2", "t1"))
		wantTypes(t, b.delivered("t1", sha("c1"), ""), "Delivered t1", "PhaseChanged t1",
			"LeaseReleased t1")
		b.wantPhase("t1", signalbox.PhaseCompleted)
		b.wantDispatch(signalbox.RoleDeveloper, "t2")
	}
}

func TestDeliveredRequest(t *testing.T) {
	b := deliver(t, deliverPolicy(DeliverRequest), todo("t1"), todo("t2", "t1"))
	wantTypes(t, b.delivered("t1", sha("c1"), request), "Delivered t1", "LeaseReleased t1")
	b.wantPhase("t1", signalbox.PhaseReadyForMerge)
	b.wantNothing(DispatchRoles()...)
	if st := b.wantStanding(StandingWaiting); len(st.Reasons) == 0 ||
		st.Reasons[0] != "t1 waits until its pull request is merged: "+request {
		t.Errorf("reasons %q", st.Reasons)
	}
	report := ReportRequest{Work: "t1", Actor: "crew", Request: request, Commit: sha("c1")}
	if d := b.try(report); len(d.Events) > 0 || !d.Answer.Repeated {
		t.Errorf("nothing new: %+v", d)
	}
	report.Merged = sha("m1")
	d := b.try(report)
	wantTypes(t, d, "Merged t1", "PhaseChanged t1")
	wantBody(t, d, Merged{Commit: sha("m1"), Tip: sha("c1"), Unblocked: []string{"t2"}})
	b.wantPhase("t1", signalbox.PhaseCompleted)
	b.wantDispatch(signalbox.RoleDeveloper, "t2")
}

// Tasks can build on the pull requests of others before those are merged, but not on one that came
// back.
func TestStackedRequest(t *testing.T) {
	p := deliverPolicy(DeliverRequest)
	p.Stack = true
	b := deliver(t, p, todo("t1"), todo("t2", "t1"), todo("t3", "t1"))
	d := b.delivered("t1", sha("c1"), request)
	wantBody(t, d, Delivered{Epoch: b.work("t1").Past[len(b.work("t1").Past)-1].Epoch,
		Delivery:  Delivery{sha("c1"), sha("c1"), "signalbox/t1", "origin", request},
		Unblocked: []string{"t2", "t3"}})
	b.wantDispatch(signalbox.RoleDeveloper, "t2")
	b.do(ReportRequest{Work: "t1", Actor: "crew", Request: request, Commit: sha("c1"),
		Findings: []RequestFinding{{"check build", "build fails"}}})
	b.wantDispatch(signalbox.RoleDeveloper, "t1")
	b.wantNothing(signalbox.RoleDeveloper)
}

// What comes back about a pull request goes to the developer once.
func TestRequestComesBack(t *testing.T) {
	b := deliver(t, deliverPolicy(DeliverRequest), todo("t1"))
	b.delivered("t1", sha("c1"), request)
	report := ReportRequest{Work: "t1", Actor: "crew", Request: request, Commit: sha("c1"),
		Body: signalbox.Hash{9},
		Findings: []RequestFinding{{"check build", "build\x1b fails"}, {"comment 12", "use a map"},
			{"comment 12", "use a map"}}}
	d := b.try(report)
	wantTypes(t, d, "ReworkOrdered t1", "FindingsRecorded t1", "PhaseChanged t1")
	wantBody(t, d, ReworkOrdered{Cause: ReworkRequest, Count: 1, Summary: "build  fails; use a map",
		Body: signalbox.Hash{9}, Seen: []string{"check build", "comment 12"}})
	if w := b.wantPhase("t1", signalbox.PhaseImplementation); len(w.Task.Findings) != 1 ||
		w.Task.Findings[0].Cause != ReworkRequest || w.Task.Reviewed {
		t.Errorf("task %+v", w.Task)
	}
	if d := b.try(report); len(d.Events) > 0 {
		t.Errorf("while it is developed: %+v", d.Events)
	}
	b.delivered("t1", sha("c2"), request)
	report.Commit = sha("c1")
	if d := b.try(report); len(d.Events) > 0 {
		t.Errorf("about an earlier commit: %+v", d.Events)
	}
	report.Commit = sha("c2")
	if d := b.try(report); len(d.Events) > 0 || !d.Answer.Repeated {
		t.Errorf("again: %+v", d)
	}
	report.Findings = append(report.Findings, RequestFinding{"comment 13", "and test it"})
	wantBody(t, b.try(report), ReworkOrdered{Cause: ReworkRequest, Count: 2, Summary: "and test it",
		Body: signalbox.Hash{9}, Seen: []string{"comment 13"}})
	b.delivered("t1", sha("c3"), request)
	report.Commit, report.Findings = sha("c3"), []RequestFinding{{"comment 14", "once more"}}
	wantTypes(t, b.try(report), "ReworkOrdered t1", "FindingsRecorded t1", "PhaseChanged t1", "QuestionAsked t1",
		"PhaseChanged t1")
	b.answer("t1", AskedRequest, "do as they say")
	b.wantDispatch(signalbox.RoleDeveloper, "t1")
}

func TestRequestIsClosed(t *testing.T) {
	for answer, want := range map[string]signalbox.Phase{"again": signalbox.PhaseReadyForMerge,
		"make it smaller": signalbox.PhaseImplementation} {
		b := deliver(t, deliverPolicy(DeliverRequest), todo("t1"))
		b.delivered("t1", sha("c0"), request)
		b.do(ReportRequest{Work: "t1", Actor: "crew", Request: request, Commit: sha("c0"),
			Findings: []RequestFinding{{"comment 1", "use a map"}}})
		b.delivered("t1", sha("c1"), request)
		wantTypes(t, b.try(ReportRequest{Work: "t1", Actor: "crew", Request: request,
			Commit: sha("c1"), Closed: true}), "QuestionAsked t1", "PhaseChanged t1")
		b.wantStanding(StandingAsking)
		b.answer("t1", AskedRequest, answer)
		w := b.wantPhase("t1", want)
		if w.WaitsForRequest() {
			t.Errorf("%s: it waits for the closed request", answer)
		}
		if w.Task.Delivered == nil || w.Task.Delivered.Commit != sha("c1") {
			t.Errorf("%s: what was pushed is forgotten: %+v", answer, w.Task.Delivered)
		}
		if answer == "again" {
			m := b.wantDispatch(signalbox.RoleMerger, "t1")
			b.do(ReportDelivery{m.Session, m.Lease.Epoch,
				Delivery{sha("c1"), sha("c1"), "signalbox/t1", "origin", request + "1"}})
			if w := b.work("t1"); !w.WaitsForRequest() {
				t.Errorf("it does not wait for the new request: %+v", w.Task.Delivered)
			}
		}
	}
}

// wantRemembered checks that a task knows what was pushed last, and the finding "comment 1" that came back.
func wantRemembered(t *testing.T, w *Work, commit string) {
	t.Helper()
	if d := w.Task.Delivered; d == nil || d.Commit != commit ||
		!slices.Contains(d.Seen, "comment 1") {
		t.Errorf("%s was delivered: %+v", w.ID, d)
	}
}

// A closed request is reopened by the operator's retry too.
func TestRetryDeliversAgain(t *testing.T) {
	b := deliver(t, deliverPolicy(DeliverRequest), todo("t1"))
	b.delivered("t1", sha("c0"), request)
	b.do(ReportRequest{Work: "t1", Actor: "crew", Request: request, Commit: sha("c0"),
		Findings: []RequestFinding{{"comment 1", "use a map"}}})
	b.delivered("t1", sha("c1"), request)
	b.do(orderOf(OrderRetry, "t1"))
	wantRemembered(t, b.work("t1"), sha("c1"))
	b.wantDispatch(signalbox.RoleMerger, "t1")
}

// An answer about a pull request that is open does not forget it.
func TestAnswerKeepsRequest(t *testing.T) {
	p := deliverPolicy(DeliverRequest)
	p.Limits.Reviews = 1
	b := deliver(t, p, todo("t1"))
	b.delivered("t1", sha("c1"), request)
	b.do(ReportRequest{Work: "t1", Actor: "crew", Request: request, Commit: sha("c1"),
		Findings: []RequestFinding{{"comment 1", "use a map"}}})
	b.answer("t1", AskedRequest, "do as they say")
	w := b.wantPhase("t1", signalbox.PhaseImplementation)
	wantRemembered(t, w, sha("c1"))
	if w.Task.Delivered.Reopen || w.Task.Delivered.Request != request {
		t.Errorf("delivered %+v", w.Task.Delivered)
	}
}

func TestDeliveryIsRefused(t *testing.T) {
	b := deliver(t, deliverPolicy(DeliverRequest), todo("t1"))
	b.toMerge("t1", sha("c1"))
	m := b.wantDispatch(signalbox.RoleMerger, "t1")
	complete := Delivery{sha("c1"), sha("c1"), "signalbox/t1", "origin", request}
	for name, change := range map[string]func(*Delivery){
		"another commit": func(d *Delivery) { d.Tip = sha("c2") },
		"no branch":      func(d *Delivery) { d.Branch = "" },
		"no commit":      func(d *Delivery) { d.Commit = "" },
		"no request":     func(d *Delivery) { d.Request = "" },
	} {
		wrong := complete
		change(&wrong)
		if d := b.try(ReportDelivery{m.Session, m.Lease.Epoch, wrong}); d.Err == nil ||
			len(d.Events) > 0 {
			t.Errorf("%s: %+v", name, d)
		}
	}
	if d := b.try(PrepareMerge{m.Session, m.Lease.Epoch, sha("m1"), ""}); d.Err == nil {
		t.Error("it is merged although the policy delivers it")
	}
	b.do(ReportDelivery{m.Session, m.Lease.Epoch, complete})
}

func TestDeliverPolicies(t *testing.T) {
	for name, p := range map[string]Policy{
		"an unknown way":     {Deliver: "mail"},
		"a shared workspace": {Deliver: DeliverPush, Shared: true},
		"stacked branches":   {Deliver: DeliverBranch, Stack: true},
	} {
		valid := policy()
		valid.Deliver, valid.Shared, valid.Stack = p.Deliver, p.Shared, p.Stack
		if policyFault(&valid) == "" {
			t.Errorf("%s is valid", name)
		}
	}
}

// The base that was fetched because a pull request was merged is checked, without a warning.
func TestFetchedBase(t *testing.T) {
	b := deliver(t, deliverPolicy(DeliverRequest), todo("t1"))
	d := b.try(ObserveBase{Known: b.s.Base(), Commit: sha("fetched"), Fetched: true, Actor: "crew"})
	wantBody(t, d, BaseMoved{To: sha("fetched"), Fetched: true})
	if moves := b.s.BaseMoves(); len(moves) > 0 || b.s.Base() != sha("fetched") {
		t.Errorf("base %s, moves %+v", b.s.Base(), moves)
	}
}

// Work that stays on a branch does not repair the base, so the human is asked at once.
func TestRedBaseOfBranches(t *testing.T) {
	for how, want := range map[string]Standing{DeliverBranch: StandingAsking,
		DeliverPush: StandingAsking, DeliverRequest: StandingWorking} {
		b := planned(t, deliverPolicy(how), todo("t1"))
		b.baseline("test")
		b.wantStanding(want)
	}
}
