package rules

import (
	"strings"
	"time"

	"signalbox"
)

// scenarios are the histories to record; see recordHistories. Once recorded, a scenario serves only
// to show how, and is removed after the release that has its file.
var scenarios = []scenario{
	{"full-life", "Work goes from DRAFT to COMPLETED, each phase by a session of the role that may claim it.", fullLife},
	{"repaired", "Invalid events were removed. Then a clock was ten years ahead while work was claimed, and the time is set back.", repaired},
	{"merge-train", "Four tasks are merged together: two pass, one fails, one waits. Their leases are renewed by heartbeats, and those of the next train expire.", mergeTrain},
	{"delivery-light-path", "A task passes without an audit, one without a review and an audit, and one that changes what steers agents needs both.", lightPath},
	{"delivery-findings", "Findings of critics and an auditor are fixed, disputed, found again and noted. Twice the auditor decides: only notes are left, and a finding is disputed.", findingsOfReviews},
	{"delivery-added-tasks", "A task is added to a box without a plan, and one to the plan that is loaded then. The first is done before a third plan, of which the second becomes part.", addedTasks},
	{"delivery-independence", "Agents of three vendors develop, review and audit a task. The developer reports another model than the policy says, and works once without an end of its turn.", independentJudges},
}

type scenario struct {
	name, about string
	play        func(*box)
}

func (b *box) pass(d time.Duration) { b.now = b.now.Add(d) }

func fullLife(b *box) {
	b.do(OpenWork{Work: "task-1", Title: "Parse dates", Phase: signalbox.PhaseDraft, Actor: "op"})
	for i, phase := range inOrder[:6] {
		session := "S-" + string(rune('1'+i))
		b.pass(time.Minute)
		b.claim("task-1", session)
		b.pass(5 * time.Minute)
		signal := withNotes(exit(phase, signalbox.ExitCompleted), "done with "+
			strings.ToLower(string(phase)))
		if phase == signalbox.PhaseImplementation {
			url := "https://example.org/box/pull/7"
			signal.PRURL = &url
		}
		if phase == signalbox.PhaseReview {
			ref := "evidence/task-1/review.yaml"
			signal.EvidenceBundleRef = &ref
		}
		b.do(Exit{Session: session, Signal: signal, Blob: signalbox.Hash{byte(i + 1)},
			Offset: int64(100 * i)})
	}
}

func lightPath(b *box) {
	b.do(Configure{policy(), "op"})
	b.do(plan(1, withReview(todo("t1"), ReviewCritic), withReview(todo("t2"), ReviewChecks),
		withReview(todo("t3"), ReviewChecks)))
	b.checkCommit("B-1", sha("base1"), sha("base1"))
	b.pass(time.Minute)
	b.ready("t1")
	b.checkCommit("t1", sha("one"), sha("base1"))
	b.say(b.wantDispatch(signalbox.RoleCritic, "t1"), "review_passed")
	b.ready("t2")
	b.checkCommit("t2", sha("two"), sha("base1"))
	b.ready("t3")
	b.checkedAs(b.wantDispatch(signalbox.RoleCI, "t3"),
		func(c *ReportChecks) { c.Steering = []string{"AGENTS.md"} })
	b.say(b.wantDispatch(signalbox.RoleCritic, "t3"), "review_passed")
	b.say(b.wantDispatch(signalbox.RoleAuditor, "t3"), "audit_passed")
	b.do(plan(2, todo("t1"), withReview(todo("t2"), ReviewChecks), todo("t3")))
}

func addedTasks(b *box) {
	b.do(Configure{policy(), "op"})
	one := added("fix the typo in README")
	one.Task.Review = ReviewChecks
	b.do(one)
	b.checkCommit("B-1", sha("base1"), sha("base1"))
	b.pass(time.Minute)
	b.do(planOf("a.md", 1, todo("t1"), todo("t2")))
	two := added("say it in the manual too", "t1")
	two.Task.Files = []string{"manual.md"}
	b.do(two)
	b.do(planOf("a.md", 2, todo("t1")))
	for range 2 {
		a := b.dispatch(signalbox.RoleDeveloper)
		b.say(a, "ready_for_review")
		b.checkCommit(a.Work, sha(a.Work), sha("base1"))
	}
	b.merged(b.wantDispatch(signalbox.RoleMerger, "A-1"))
	b.judged("t1")
	b.merged(b.wantDispatch(signalbox.RoleMerger, "t1"))
	b.do(planOf("b.md", 3, todo("t1")))
	b.wantDispatch(signalbox.RoleDeveloper, "b.t1")
	b.wantDispatch(signalbox.RoleDeveloper, "A-2")
}

func findingsOfReviews(b *box) {
	b.do(Configure{policy(), "op"})
	b.do(plan(1, todo("t1")))
	b.checkCommit("B-1", sha("base1"), sha("base1"))
	b.ready("t1")
	b.checked(b.wantDispatch(signalbox.RoleCI, "t1"), "test")
	b.again(1)
	b.critic("it panics", "use tabs")
	b.pass(time.Minute)
	b.again(2, "F2 fixed", "F3 disputed")
	b.critic("F2", "F3", "note: a nit")
	b.again(3, "F2 fixed", "F3 disputed")
	b.critic("F3")
	b.auditor("F3", "criterion 1 is not met")
	b.answer("t1", AskedDispute, "tabs it is")
	b.again(4, "F3 fixed", "F5 fixed")
	b.critic("a new nit")
	b.critic("a nit again")
	b.say(b.wantDispatch(signalbox.RoleAuditor, "t1"), "audit_passed")
	b.merged(b.wantDispatch(signalbox.RoleMerger, "t1"))
}

func repaired(b *box) {
	b.do(OpenWork{Work: "task-1", Phase: signalbox.PhaseImplementation, Actor: "op"})
	b.do(RepairLedger{First: 3, Last: 4,
		Fault: "event 3 was changed: its hash is not that of its content",
		Kept:  signalbox.Hash{7}, Host: "desk", Actor: "op"})
	b.pass(87600 * time.Hour)
	b.claim("task-1", "S-1")
	b.now = t0.Add(time.Minute)
	b.do(CorrectClock{To: b.now, Reason: "desk had no time service", Actor: "op"})
	b.pass(20 * time.Minute)
	b.do(Expire{})
}

func mergeTrain(b *box) {
	b.do(Configure{policy(), "op"})
	b.do(plan(1, todo("t1"), todo("t2"), todo("t3"), todo("t4")))
	b.checkCommit("B-1", sha("base1"), sha("base1"))
	for _, work := range []string{"t1", "t2", "t3", "t4"} {
		b.toMerge(work, sha("commit "+work))
	}
	a, _, merges := b.couple(10)
	b.pass(time.Minute)
	beat := Heartbeat{Actor: "crew"}
	for _, m := range merges {
		beat.Epochs = append(beat.Epochs, m.Epoch)
	}
	b.do(beat)
	b.do(PrepareTrain{a.Session, sha("tree"), merges[:2]})
	b.do(ReportTrain{Session: a.Session, Merges: merges[:2], Moves: true,
		Rows:   []CheckRow{{Check: "test", Environment: "local", Passed: true, Millis: 10}},
		Failed: merges[2].Epoch, Refusal: "merged into the base it fails: test in local",
		Body: signalbox.Hash{9}, Waiting: []uint64{merges[3].Epoch}})
	b.toMerge("t3", sha("another commit"))
	a, _, merges = b.couple(10)
	b.do(PrepareTrain{a.Session, sha("another tree"), merges})
	b.pass(signalbox.DefaultLeaseTTL)
	b.do(Expire{})
}

func independentJudges(b *box) {
	b.do(Configure{vendors(IndependenceVendor, "claude", "codex", "gemini"), "op"})
	b.do(plan(1, todo("t1")))
	b.checkCommit("B-1", sha("base1"), sha("base1"))
	a := b.wantAgent(signalbox.RoleDeveloper, "claude")
	b.do(by(a, StartAgent{Agent: "claude"}))
	b.do(by(a, Release{Work: "t1"}))
	b.pass(time.Minute)
	b.ends(b.wantAgent(signalbox.RoleDeveloper, "claude"), "ready_for_review", "opus-2")
	b.checkCommit("t1", sha("one"), sha("base1"))
	b.ends(b.wantAgent(signalbox.RoleCritic, "codex"), "review_passed", "")
	b.ends(b.wantAgent(signalbox.RoleAuditor, "gemini"), "audit_passed", "")
}
