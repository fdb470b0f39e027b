package rules

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"signalbox"
)

// byHand is a dispatch to role ci that includes work opened by hand.
func (b *box) byHand(atOnce int) Dispatch {
	c := b.dispatchOf(signalbox.RoleCI)
	c.ByHand = atOnce
	return c
}

// checkByHand dispatches, and wants work that was opened by hand.
func (b *box) checkByHand(work string) Answer {
	b.t.Helper()
	a := b.do(b.byHand(2))
	if a.Work != work || a.Phase != signalbox.PhaseCIPending || a.Lease == nil ||
		a.Lease.Role != signalbox.RoleCI {
		b.t.Fatalf("dispatched %+v, want %s", a, work)
	}
	return a
}

func (b *box) wantNothingByHand(atOnce int) {
	b.t.Helper()
	if b.s.CanDispatch([]signalbox.Role{signalbox.RoleCI}, atOnce, b.now) {
		b.t.Fatalf("something can be checked")
	}
	b.refuses(b.byHand(atOnce), signalbox.CodeNotFound)
}

func reportOf(a Answer, rows ...CheckRow) ReportChecks {
	return by(a, ReportChecks{Commit: sha("c1"), Base: sha("b1"), Rows: rows})
}

func row(check string, passed bool) CheckRow {
	r := CheckRow{Check: check, Environment: "local", Passed: passed, Millis: 7,
		Output: signalbox.Hash{9}}
	if !passed {
		r.Exit = 1
	}
	return r
}

func TestChecksByHandPass(t *testing.T) {
	b := newBox(t)
	b.do(OpenWork{Work: "w", Actor: "op", Phase: signalbox.PhaseCIPending, Ref: "topic"})
	a := b.checkByHand("w")
	r := reportOf(a, row("test", true))
	r.Ref = "topic"
	d := b.try(r)
	wantTypes(t, d, "ChecksRan w", "PhaseChanged w", "LeaseReleased w")
	wantBody(t, d, ChecksRan{Epoch: a.Lease.Epoch, Commit: sha("c1"), Base: sha("b1"), Rows: r.Rows,
		Ref: "topic"})
	w := b.wantPhase("w", signalbox.PhaseReadyForReview)
	want := &LastChecks{Seq: d.Events[0].Seq, Epoch: a.Lease.Epoch, Commit: sha("c1"),
		Base: sha("b1"), Ref: "topic", Passed: true}
	if diff := cmp.Diff(want, w.Checks); diff != "" || w.Lease != nil {
		t.Errorf("checks (-want +got):\n%s", diff)
	}
	b.wantNothingByHand(2)
}

// TestChecksByHandFail: whatever fails goes back to the developer with what is to be fixed, as
// often as it fails.
func TestChecksByHandFail(t *testing.T) {
	b := newBox(t)
	b.open("w", signalbox.PhaseCIPending)
	for i, tt := range []struct {
		change  func(*ReportChecks)
		summary string
	}{
		{func(r *ReportChecks) {
			r.Rows, r.Body = []CheckRow{row("lint", true), row("test", false)}, signalbox.Hash{5}
		}, "failing: test on local"},
		{func(r *ReportChecks) { r.Protected = []string{"ci.yaml"} },
			"protected files were edited: ci.yaml"},
		{func(r *ReportChecks) { r.Rows, r.Protected = []CheckRow{row("test", false)}, []string{"ci.yaml"} }, "failing: test on local; protected files were edited: ci.yaml"},
		{func(r *ReportChecks) { r.Rows, r.Problem = nil, "there is no branch \x1b'x'" },
			"there is no branch  'x'"},
	} {
		r := reportOf(b.checkByHand("w"), row("test", true))
		tt.change(&r)
		d := b.try(r)
		wantTypes(t, d, "ChecksRan w", "ReworkOrdered w", "PhaseChanged w", "LeaseReleased w")
		wantBody(t, d, ReworkOrdered{Cause: "checks", Count: i + 1, Summary: tt.summary,
			Body: r.Body})
		w := b.wantPhase("w", signalbox.PhaseImplementation)
		if w.Checks.Passed || w.Checks.Failures != i+1 || w.Checks.Finding == nil ||
			w.Checks.Finding.Summary != tt.summary {
			t.Errorf("%s: checks %+v", tt.summary, w.Checks)
		}
		session := fmt.Sprintf("dev-%d", i)
		b.claim("w", session)
		b.do(Exit{Session: session, Signal: exit(signalbox.PhaseImplementation,
			signalbox.ExitCompleted)})
	}
	b.do(reportOf(b.checkByHand("w"), row("test", true)))
	if w := b.wantPhase("w", signalbox.PhaseReadyForReview); w.Checks.Failures != 0 ||
		w.Checks.Finding != nil {
		t.Errorf("after they passed: %+v", w.Checks)
	}
}

// TestChecksByHandNeedChecks: without a result nothing passes.
func TestChecksByHandNeedChecks(t *testing.T) {
	b := newBox(t)
	b.open("w", signalbox.PhaseCIPending)
	b.wantNothingByHand(0)
	a := b.checkByHand("w")
	d := b.try(reportOf(a))
	wantRefusedAs(t, d, signalbox.CodeUsage)
	wantTypes(t, d)
	b.wantPhase("w", signalbox.PhaseCIPending)
}

// TestChecksByHandAreFenced: only the holder of the live lease, as ci, reports.
func TestChecksByHandAreFenced(t *testing.T) {
	b := newBox(t)
	b.open("w", signalbox.PhaseCIPending)
	b.open("other", signalbox.PhaseImplementation)
	first := b.checkByHand("w")
	b.wantNothingByHand(2)
	b.pass(signalbox.DefaultLeaseTTL)
	b.do(Expire{})
	b.checkByHand("w")
	for _, c := range []Command{reportOf(first, row("test", true)),
		by(first, ReportFailure{Cause: FailWorkspace})} {
		if r := refusedBy(b.try(c).Err); r == nil || r.Reason != signalbox.ReasonStaleLease {
			t.Errorf("%#v: %+v", c, r)
		}
	}
	b.wantPhase("w", signalbox.PhaseCIPending)
	epoch := b.claim("other", "dev")
	b.refuses(ReportChecks{Session: "dev", Epoch: epoch,
		Rows: []CheckRow{row("test", true)}}, signalbox.CodeFailed)
	for _, c := range []Command{ReportFailure{Session: "dev", Epoch: epoch, Cause: FailCrash},
		StartAgent{Session: "dev", Epoch: epoch},
		EndTurn{Session: "dev", Epoch: epoch}, ReportMerge{Session: "dev", Epoch: epoch},
		ReportBranch{Session: "dev", Epoch: epoch}} {
		b.refuses(c, signalbox.CodeUsage)
	}
	b.wantPhase("other", signalbox.PhaseImplementation)
}

// TestChecksByHandCannotRun: the work is blocked, because dispatching it again at once would not
// help.
func TestChecksByHandCannotRun(t *testing.T) {
	b := newBox(t)
	b.open("w", signalbox.PhaseCIPending)
	a := b.checkByHand("w")
	d := b.try(by(a, ReportFailure{Cause: FailWorkspace, Detail: "the disk is full"}))
	wantTypes(t, d, "AgentFailed w", "PhaseChanged w", "LeaseReleased w")
	if w := b.wantPhase("w", signalbox.PhaseBlocked); w.BlockedFrom != signalbox.PhaseCIPending ||
		w.Notes != "the disk is full" {
		t.Errorf("work %+v", w)
	}
	b.wantNothingByHand(2)
	b.do(Unblock{Work: "w", Note: "removed old builds", Actor: "op"})
	b.checkByHand("w")
}

// TestChecksByHandAtOnce: a crew's checks of planned work and of work opened by hand share the
// places; a claim by hand takes none.
func TestChecksByHandAtOnce(t *testing.T) {
	p := policy()
	p.Checks = 2
	b := deliver(t, p, todo("t1"), todo("t2"))
	for i := range 4 {
		b.open(fmt.Sprintf("w%d", i+1), signalbox.PhaseCIPending)
	}
	b.claim("w1", "by-hand")
	b.ready("")
	if a := b.do(b.byHand(2)); a.Work != "t1" {
		t.Fatalf("dispatched %s before planned work", a.Work)
	}
	two := b.checkByHand("w2")
	b.wantNothingByHand(2)
	b.ready("")
	b.wantNothingByHand(2) // t2 waits too
	if d := Decide(b.s, b.now, b.dispatchOf(signalbox.RoleDeveloper)); d.Err == nil {
		t.Error("something else can start")
	}
	b.do(reportOf(two, row("test", true)))
	b.wantDispatch(signalbox.RoleCI, "t2")
}

// TestChecksByHandDelayARun: a run whose tasks wait for the checks of work opened by hand is not
// stuck.
func TestChecksByHandDelayARun(t *testing.T) {
	b := deliver(t, policy(), todo("t1"))
	b.open("w", signalbox.PhaseCIPending)
	b.ready("")
	a := b.dispatch(signalbox.RoleCI)
	b.do(by(a, Release{Work: "t1"}))
	b.do(orderOf(OrderPause, "t1"))
	w := b.checkByHand("w")
	b.do(orderOf(OrderResume, "t1"))
	b.wantNothing(signalbox.RoleCI)
	b.wantStanding(StandingWorking)
	b.do(reportOf(w, row("test", true)))
	b.wantDispatch(signalbox.RoleCI, "t1")
}

// TestChecksByHandAndOrders: a pause stops them too; what becomes of the plan does not.
func TestChecksByHandAndOrders(t *testing.T) {
	b := deliver(t, policy(), todo("t1"))
	b.open("w", signalbox.PhaseCIPending)
	b.do(orderOf(OrderPause, ""))
	b.wantNothingByHand(1)
	b.do(orderOf(OrderResume, ""))
	b.do(orderOf(OrderCancel, ""))
	if st := b.s.Status(b.now); st.Standing != StandingStuck {
		t.Errorf("standing %s", st.Standing)
	}
	b.checkByHand("w")
}

func TestRefs(t *testing.T) {
	for ref, valid := range map[string]bool{"": true, "main": true, "feature/x-1": true,
		"v1.0": true, "origin/topic": true, "refs/heads/a": true, "7a1f9c0": true, "ä": true,
		"a b": false, "-x": false, "--upload-pack=x": false, "a..b": false, "main~1": false,
		"main^": false, "HEAD@{1}": false, "a:b": false, "a\x00": false, "\x1b[2J": false,
		"a\nb": false, "a*": false, "\xff": false, strings.Repeat("a", 255): true,
		strings.Repeat("a", 256): false} {
		b := newBox(t)
		d := b.try(OpenWork{Work: "w", Ref: ref, Actor: "op"})
		if valid != (d.Err == nil) || valid && b.work("w").Ref != ref {
			t.Errorf("open with ref %q: %v", ref, d.Err)
		}
		if !valid {
			wantRefusedAs(t, d, signalbox.CodeUsage)
			b.open("w", signalbox.PhaseImplementation)
		}
		b.claim("w", "S")
		d = b.try(Exit{Session: "S", Signal: exit(signalbox.PhaseImplementation,
			signalbox.ExitCompleted), Ref: ref})
		if valid != (d.Err == nil) || valid && b.work("w").Ref != ref {
			t.Errorf("exit with ref %q: %v", ref, d.Err)
		}
	}
}

// TestRefOfExit: the last one that was named counts. Only the developer of work opened by hand
// names one.
func TestRefOfExit(t *testing.T) {
	b := newBox(t)
	b.do(OpenWork{Work: "w", Ref: "one", Actor: "op"})
	for i, ref := range []string{"", "two"} {
		session := fmt.Sprintf("S-%d", i)
		b.claim("w", session)
		b.do(Exit{Session: session, Signal: exit(signalbox.PhaseImplementation,
			signalbox.ExitCompleted), Ref: ref})
		if got, want := b.work("w").Ref, []string{"one", "two"}[i]; got != want {
			t.Errorf("ref %q, want %q", got, want)
		}
		r := reportOf(b.checkByHand("w"), row("test", i == 1))
		b.do(r)
	}
	b.claim("w", "critic")
	b.refuses(Exit{Session: "critic", Signal: exit(signalbox.PhaseReadyForReview,
		signalbox.ExitCompleted), Ref: "three"}, signalbox.CodeUsage)
	if w := b.wantPhase("w", signalbox.PhaseReadyForReview); w.Ref != "two" {
		t.Errorf("ref %q", w.Ref)
	}
	p := deliver(t, policy(), todo("t1"))
	a := p.dispatch(signalbox.RoleDeveloper)
	p.refuses(Exit{Session: a.Session, Signal: exit(signalbox.PhaseImplementation,
		signalbox.ExitCompleted), Ref: "x"}, signalbox.CodeUsage)
}

// TestImpossibleChecksByHand: a log with such an event was not written by these rules.
func TestImpossibleChecksByHand(t *testing.T) {
	b := newBox(t)
	b.open("w", signalbox.PhaseCIPending)
	b.open("dev", signalbox.PhaseImplementation)
	a, dev := b.checkByHand("w"), b.claim("dev", "S")
	epoch := a.Lease.Epoch
	apply := func(bodies ...body) error {
		s, err := FromSnapshot(b.s.Snapshot())
		for _, body := range bodies {
			e := b.event("w", a.Session, body)
			e.Seq, e.Actor = s.Seq()+1, a.Lease.Actor
			if err == nil {
				err = s.Apply(e)
			}
		}
		return err
	}
	failed := ChecksRan{Epoch: epoch, Rows: []CheckRow{row("test", false)}}
	passed := ChecksRan{Epoch: epoch, Rows: []CheckRow{row("test", true)}}
	back, on := PhaseChanged{signalbox.PhaseCIPending, signalbox.PhaseImplementation},
		PhaseChanged{signalbox.PhaseCIPending, signalbox.PhaseReadyForReview}
	rework := ReworkOrdered{Cause: "checks", Count: 1}
	for name, bodies := range map[string][]body{
		"passed and back":     {passed, back},
		"failed and on":       {failed, on},
		"nothing ran, and on": {ChecksRan{Epoch: epoch}, on},
		"protected, and on": {ChecksRan{Epoch: epoch, Rows: passed.Rows,
			Protected: []string{"x"}}, on},
		"back without checks":        {back},
		"rework without checks":      {rework},
		"rework after they passed":   {passed, rework},
		"rework for another reason":  {failed, ReworkOrdered{Cause: "review", Count: 1}},
		"checks under another lease": {ChecksRan{Epoch: epoch - 1, Rows: passed.Rows}},
		"a merge":                    {Merged{Epoch: epoch}},
	} {
		if apply(bodies...) == nil {
			t.Errorf("%s: accepted", name)
		}
	}
	for name, bodies := range map[string][]body{"passed": {passed, on},
		"failed": {failed, rework, back}} {
		if err := apply(bodies...); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, body := range []body{ChecksRan{Epoch: dev, Rows: passed.Rows}, AgentFailed{Epoch: dev}} {
		if e := b.event("dev", "S", body); b.s.Apply(e) == nil {
			t.Errorf("%T of a developer: accepted", body)
		}
	}
}
