package rules

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"signalbox"
)

// checkCommit reports passed checks on a commit.
func (b *box) checkCommit(work, commit, base string) Decision {
	b.t.Helper()
	a := b.wantDispatch(signalbox.RoleCI, work)
	return b.decide(by(a, ReportChecks{Commit: commit, Base: base,
		Rows: []CheckRow{{Check: "test", Environment: "local", Passed: true}}}))
}

// based returns a box whose base is known to be at base1, and a plan.
func based(t *testing.T, p Policy, tasks ...PlanTask) *box {
	b := planned(t, p, tasks...)
	b.checkCommit("B-1", sha("base1"), sha("base1"))
	return b
}

// toMerge takes a task to its merge, with a commit.
func (b *box) toMerge(work, commit string) {
	b.t.Helper()
	b.ready(work)
	b.checkCommit(work, commit, b.s.Base())
	b.say(b.wantDispatch(signalbox.RoleCritic, work), "review_passed")
	d := b.say(b.wantDispatch(signalbox.RoleAuditor, work), "audit_passed")
	wantBody(b.t, d, MergeRequested{commit})
}

func TestBaseMoved(t *testing.T) {
	observed := func(b *box, known, commit string, start bool) Decision {
		return b.decide(ObserveBase{Known: known, Commit: commit, Added: []string{"abc x"},
			Start: start,
			Actor: "crew"})
	}
	b := based(t, policy(), todo("t1"), todo("t2"))
	for name, d := range map[string]Decision{"unmoved": observed(b, sha("base1"), sha("base1"),
		false), "out of date": observed(b, sha("base0"), sha("base2"), false)} {
		if len(d.Events) > 0 {
			t.Errorf("%s: recorded %v", name, d.Events[0].Type)
		}
	}
	b.toMerge("t1", sha("commit1"))
	d := observed(b, sha("base1"), sha("base2"), false)
	wantTypes(t, d, "BaseMoved ", "TaskPlanned B-2")
	wantBody(t, d, BaseMoved{From: sha("base1"), To: sha("base2"), Added: []string{"abc x"}})
	b.wantNothing(signalbox.RoleMerger, signalbox.RoleDeveloper) // until the checks ran on it
	ci := b.wantDispatch(signalbox.RoleCI, "B-2")
	// the checks that run are on the wrong commit
	wantTypes(t, observed(b, sha("base2"), sha("base3"), false), "BaseMoved ")
	d = b.try(by(ci, ReportChecks{Commit: sha("base2"), Base: sha("base2")}))
	wantTypes(t, d, "ChecksRan B-2", "LeaseReleased B-2")
	b.checkCommit("B-2", sha("base3"), sha("base3"))
	b.wantPhase("B-2", signalbox.PhaseCompleted)
	m := b.wantDispatch(signalbox.RoleMerger, "t1")
	if got := len(b.s.BaseMoves()); got != 2 {
		t.Errorf("%d moves are remembered", got)
	}

	// Our own merge is not a move once it is prepared, but a later move is.
	b.do(PrepareMerge{m.Session, m.Lease.Epoch, sha("merge1"), sha("base3")})
	if d := observed(b, sha("base3"), sha("merge1"), false); len(d.Events) > 0 {
		t.Errorf("our own merge is recorded as %s", d.Events[0].Type)
	}
	observed(b, sha("base3"), sha("on top"), false)
	b.do(by(m, ReportMerge{Commit: sha("merge1"), Before: sha("base3")}))
	if b.s.Base() != sha("on top") {
		t.Errorf("the base is known as %s", b.s.Base())
	}
	b.checkCommit("B-3", sha("on top"), sha("on top"))

	// Between two runs a person moves it.
	d = observed(b, sha("on top"), sha("base5"), true)
	wantTypes(t, d, "BaseMoved ", "TaskPlanned B-4")
	wantBody(t, d, BaseMoved{From: sha("on top"), To: sha("base5"), Added: []string{"abc x"},
		Between: true})
	if got := len(b.s.BaseMoves()); got != 3 {
		t.Errorf("%d moves are remembered", got)
	}
	b.checkCommit("B-4", sha("base5"), sha("base5"))
	b.wantDispatch(signalbox.RoleDeveloper, "t2")
	// somebody is at work
	wantBody(t, observed(b, sha("base5"), sha("base6"), true),
		BaseMoved{From: sha("base5"), To: sha("base6"), Added: []string{"abc x"}})
}

// TestMergeIsOfTheCheckedCommit: a merge names the checked commit, needs its approval, and is
// prepared for the known base.
func TestMergeIsOfTheCheckedCommit(t *testing.T) {
	p := policy()
	p.ApproveMerge = true
	b := based(t, p, todo("t1"))
	b.toMerge("t1", sha("commit1"))
	b.refuses(Order{What: OrderApprove, Work: "t1", Actor: "op",
		Commit: sha("commit0")}, signalbox.CodeConflict)
	d := b.try(Order{What: OrderApprove, Work: "t1", Actor: "op", Commit: sha("commit1")})
	wantBody(t, d, MergeApproved{sha("commit1")})
	if d.Answer.Commit != sha("commit1") {
		t.Errorf("approved %s", d.Answer.Commit)
	}
	m := b.wantDispatch(signalbox.RoleMerger, "t1")
	report := by(m, ReportMerge{Commit: sha("merge1"), Before: sha("base1")})
	b.refuses(report, signalbox.CodeUsage)
	b.refuses(PrepareMerge{m.Session, m.Lease.Epoch, sha("merge1"), sha("base0")},
		signalbox.CodeConflict)
	b.refuses(PrepareMerge{m.Session, m.Lease.Epoch, "", sha("base1")}, signalbox.CodeUsage)
	b.do(orderOf(OrderRetry, "t1"))
	m = b.wantDispatch(signalbox.RoleMerger, "t1")
	wantBody(t, b.try(PrepareMerge{m.Session, m.Lease.Epoch, sha("merge1"), sha("base1")}),
		MergePrepared{m.Lease.Epoch, sha("merge1"), sha("base1"), sha("commit1"), nil})
	report.Session, report.Epoch, report.Commit = m.Session, m.Lease.Epoch, sha("merge2")
	b.refuses(report, signalbox.CodeUsage)
	report.Commit = sha("merge1")
	wantBody(t, b.try(report), Merged{Epoch: m.Lease.Epoch, Commit: sha("merge1"),
		Before: sha("base1"), Tip: sha("commit1")})
	if b.s.Base() != sha("merge1") || b.work("t1").Task.Merge != nil {
		t.Errorf("the base is known as %s, the task is %+v", b.s.Base(), b.work("t1").Task)
	}
}

// TestApprovalEndsWithTheCommit: after the work has changed, an approval of an earlier commit does
// not count, and neither does a merge that was prepared.
func TestApprovalEndsWithTheCommit(t *testing.T) {
	p := policy()
	p.ApproveMerge = true
	b := based(t, p, todo("t1"))
	b.toMerge("t1", sha("commit1"))
	b.do(orderOf(OrderApprove, "t1"))
	m := b.wantDispatch(signalbox.RoleMerger, "t1")
	b.do(PrepareMerge{m.Session, m.Lease.Epoch, sha("merge1"), sha("base1")})
	b.do(by(m, ReportMerge{Refusal: "conflict"}))
	if d := b.try(ObserveBase{Known: sha("base1"), Commit: sha("merge1"), Actor: "crew"}); len(
		d.Events) == 0 {
		t.Error("a merge that was given up is taken for ours")
	}
	b.checkCommit("B-2", sha("merge1"), sha("merge1"))
	b.toMerge("t1", sha("commit2"))
	b.wantNothing(signalbox.RoleMerger)
	if !slices.Equal(b.s.Approvals(), []string{"t1"}) {
		t.Errorf("approvals %v", b.s.Approvals())
	}
}

// TestSavedWork: the commit that the author's last turn saved is what is checked, unless somebody
// else says that the work is ready.
func TestSavedWork(t *testing.T) {
	b := based(t, policy(), todo("t1"))
	turn := func(a Answer, signal, commit string) {
		b.sayMore(a, signal, withTurn(Turn{Commit: commit}))
	}
	a := b.dispatch(signalbox.RoleDeveloper)
	turn(a, "unknown", sha("saved1"))
	turn(a, "ready_for_review", sha("saved2"))
	if got := b.work("t1").Task.Saved; got == nil || got.Commit != sha("saved2") {
		t.Errorf("saved %+v", got)
	}
	b.checkCommit("t1", sha("commit1"), sha("base1"))
	critic := b.dispatch(signalbox.RoleCritic)
	turn(critic, "review_failed", "")
	if got := b.work("t1").Task.Saved; got == nil || got.Commit != sha("saved2") {
		t.Errorf("saved %+v", got)
	}
	b.ready("") // by hand
	if got := b.work("t1").Task.Saved; got != nil {
		t.Errorf("saved %+v, by somebody else", got)
	}
}

func TestUnchanged(t *testing.T) {
	unchanged := func(b *box) Decision {
		b.ready("t1")
		ci := b.wantDispatch(signalbox.RoleCI, "t1")
		return b.try(by(ci, ReportChecks{Commit: sha("base1"), Base: sha("base1"),
			Unchanged: true}))
	}
	twice := func(t *testing.T) *box {
		b := based(t, policy(), todo("t1"), todo("t2", "t1"))
		wantTypes(t, unchanged(b), "ChecksRan t1", "ReworkOrdered t1", "PhaseChanged t1",
			"LeaseReleased t1")
		if w := b.wantPhase("t1", signalbox.PhaseImplementation); len(w.Task.Findings) != 1 ||
			w.Task.Findings[0].Cause != "unchanged" {
			t.Errorf("findings %+v", w.Task.Findings)
		}
		wantTypes(t, unchanged(b), "ChecksRan t1", "ReworkOrdered t1", "PhaseChanged t1",
			"QuestionAsked t1", "PhaseChanged t1", "LeaseReleased t1")
		b.wantPhase("t1", signalbox.PhaseBlocked)
		b.question("t1", AskedUnchanged)
		return b
	}
	t.Run("done", func(t *testing.T) {
		b := twice(t)
		d := b.answer("t1", AskedUnchanged, "Done, it was only to be verified")
		wantTypes(t, d, "QuestionAnswered t1", "Merged t1", "PhaseChanged t1")
		wantBody(t, d, Merged{Unblocked: []string{"t2"}})
		b.wantPhase("t1", signalbox.PhaseCompleted)
		b.wantDispatch(signalbox.RoleDeveloper, "t2")
	})
	t.Run("again", func(t *testing.T) {
		b := twice(t)
		wantTypes(t, b.answer("t1", AskedUnchanged, "do it again"), "QuestionAnswered t1",
			"PhaseChanged t1")
		b.toMerge("t1", sha("commit1"))
	})
	t.Run("when merged", func(t *testing.T) {
		b := based(t, policy(), todo("t1"))
		b.toMerge("t1", sha("commit1"))
		m := b.wantDispatch(signalbox.RoleMerger, "t1")
		d := b.try(by(m, ReportMerge{Unchanged: true}))
		wantTypes(t, d, "ReworkOrdered t1", "PhaseChanged t1", "LeaseReleased t1")
		b.wantPhase("t1", signalbox.PhaseImplementation)
	})
	t.Run("remediation", func(t *testing.T) { // it may have repaired the machine
		b := ill(t, policy())
		b.say(b.remedied(), "health_healthy")
		m := b.wantDispatch(signalbox.RoleMerger, "R-1")
		d := b.try(by(m, ReportMerge{Unchanged: true}))
		wantTypes(t, d, "Merged R-1", "PhaseChanged R-1", "LeaseReleased R-1", "TaskPlanned B-2",
			"RemediationEnded t1", "PhaseChanged t1")
		wantBody(t, d, Merged{Epoch: m.Lease.Epoch})
	})
}

// A task that adds large files goes back once; then the human is asked, and may allow them.
func TestLargeFiles(t *testing.T) {
	check := func(b *box, failing ...CheckRow) Decision {
		ci := b.wantDispatch(signalbox.RoleCI, "t1")
		return b.try(by(ci, ReportChecks{Commit: sha("c1"), Base: sha("base1"),
			Large: []string{"out.bin (600.0 MB)"}, Rows: failing}))
	}
	large := func(b *box, failing ...CheckRow) Decision {
		b.ready("t1")
		return check(b, failing...)
	}
	failure := CheckRow{Check: "test", Environment: "local", Exit: 1}
	twice := func(t *testing.T) *box {
		b := based(t, policy(), todo("t1"))
		wantTypes(t, large(b, failure), "ChecksRan t1", "ReworkOrdered t1", "PhaseChanged t1",
			"LeaseReleased t1")
		w := b.wantPhase("t1", signalbox.PhaseImplementation)
		if len(w.Task.Findings) != 1 || w.Task.Findings[0].Cause != "file size" ||
			!strings.Contains(w.Task.Findings[0].Summary, "out.bin (600.0 MB)") ||
			!strings.Contains(w.Task.Findings[0].Summary, "failing: test on local") {
			t.Errorf("findings %+v", w.Task.Findings)
		}
		wantTypes(t, large(b), "ChecksRan t1", "ReworkOrdered t1", "QuestionAsked t1",
			"PhaseChanged t1", "LeaseReleased t1")
		b.wantPhase("t1", signalbox.PhaseBlocked)
		return b
	}
	t.Run("keep", func(t *testing.T) { // no other turn of a developer is needed
		b := twice(t)
		wantTypes(t, b.answer("t1", AskedFileSize, "Keep it."), "QuestionAnswered t1",
			"PhaseChanged t1")
		if w := b.wantPhase("t1", signalbox.PhaseCIPending); len(w.Task.Findings) > 0 {
			t.Errorf("findings %+v", w.Task.Findings)
		}
		check(b)
		b.wantPhase("t1", signalbox.PhaseReadyForReview)
	})
	t.Run("keep, but checks fail", func(t *testing.T) {
		b := twice(t)
		b.answer("t1", AskedFileSize, "keep")
		check(b, failure)
		if w := b.wantPhase("t1", signalbox.PhaseImplementation); len(w.Task.Findings) != 1 ||
			w.Task.Findings[0].Cause != "checks" {
			t.Errorf("findings %+v", w.Task.Findings)
		}
		large(b)
		b.wantPhase("t1", signalbox.PhaseReadyForReview)
	})
	t.Run("again", func(t *testing.T) {
		b := twice(t)
		wantTypes(t, b.answer("t1", AskedFileSize, "do not keep it"), "QuestionAnswered t1",
			"PhaseChanged t1")
		if w := b.wantPhase("t1", signalbox.PhaseImplementation); len(w.Task.Findings) != 1 {
			t.Errorf("findings %+v", w.Task.Findings)
		}
		large(b)
		b.wantPhase("t1", signalbox.PhaseImplementation)
		large(b)
		b.wantPhase("t1", signalbox.PhaseBlocked)
	})
	t.Run("remediation", func(t *testing.T) {
		b := ill(t, policy())
		b.say(b.wantDispatch(signalbox.RoleRemediation, "R-1"), "remediation_complete")
		ci := b.wantDispatch(signalbox.RoleCI, "R-1")
		b.do(by(ci, ReportChecks{Commit: sha("c1"), Base: sha("base1"),
			Large: []string{"out.bin"}}))
		if got := b.work("R-1").Task.Failing; len(got) != 1 ||
			!strings.Contains(got[0], "out.bin") {
			t.Errorf("failing %q", got)
		}
	})
}

// TestImpossibleCommits: a log in which an approval, a request or a merge names another commit than
// the checked one is not ours.
func TestImpossibleCommits(t *testing.T) {
	b := based(t, policy(), todo("t1"))
	b.toMerge("t1", sha("commit1"))
	m := b.wantDispatch(signalbox.RoleMerger, "t1")
	for _, body := range []body{MergeApproved{"x"},
		MergePrepared{m.Lease.Epoch, sha("m"), sha("base1"), "x", nil},
		Merged{Epoch: m.Lease.Epoch, Commit: sha("m"), Before: sha("base1"), Tip: "x"}} {
		err := b.s.Apply(b.event("t1", m.Session, body))
		if err == nil {
			t.Errorf("%T of another commit is accepted", body)
		}
	}
	for _, moved := range []BaseMoved{{From: "x", To: "y"}, {From: sha("base1")},
		{From: sha("base1"), To: sha("base1")}} {
		if err := b.s.Apply(b.event("", "", moved)); err == nil {
			t.Errorf("accepted %+v", moved)
		}
	}
	if diff := cmp.Diff(sha("base1"), b.s.Base()); diff != "" {
		t.Error(diff)
	}
}
