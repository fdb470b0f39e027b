package rules

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"signalbox"
	"signalbox/internal/testkit/must"
)

func TestUnknownSignalsInARow(t *testing.T) {
	b := deliver(t, policy(), todo("t1"))
	a := b.dispatch(signalbox.RoleDeveloper)
	for i, level := range []string{"warning", "error"} {
		d := b.say(a, "unknown")
		wantBody(t, d, UnknownSignalRecovery{i + 1, level, "said unknown", ""})
		if !d.Answer.Again {
			t.Errorf("answer %+v", d.Answer)
		}
	}
	d := b.say(a, "unknown")
	wantTypes(t, d, "AgentSignalFailure t1", "AgentFailed t1", "LeaseReleased t1")
	wantBody(t, d, AgentSignalFailure{"3_consecutive_unknown_signals"})
	context := "Agent produced 3 unrecognized signals. Re-dispatching with explicit format requirements."
	wantBody(t, d, AgentFailed{a.Lease.Epoch, "signals", signalbox.RoleDeveloper, 1, context})
	task := b.work("t1").Task
	if d.Answer.Again || task.Counts.Unknown != 0 || task.Timeouts[signalbox.RoleDeveloper] != 1 ||
		task.Context != context {
		t.Errorf("answer %+v, task %+v", d.Answer, task)
	}
	b.wantDispatch(signalbox.RoleDeveloper, "t1")
}

// An agent that sends no valid signal is a question after six turns: three under its lease, and
// three of another. Failures of other kinds in a row with them count, a lower limit holds.
func TestUnknownSignalsBecomeAQuestion(t *testing.T) {
	for name, c := range map[string]struct {
		timeouts, before, turns int
	}{
		"alone":                 {3, 0, 6},
		"after a crash":         {3, 1, 3},
		"many failures allowed": {9, 0, 6},
		"one failure allowed":   {1, 0, 3},
	} {
		p := policy()
		p.Limits.Timeouts = c.timeouts
		b := deliver(t, p, todo("t1"))
		for range c.before {
			b.do(by(b.wantDispatch(signalbox.RoleDeveloper, "t1"), ReportFailure{Cause: FailCrash}))
		}
		turns := 0
		for len(b.work("t1").Task.Questions) == 0 {
			a := b.wantDispatch(signalbox.RoleDeveloper, "t1")
			for range 3 {
				b.say(a, "unknown")
				turns++
			}
		}
		if turns != c.turns {
			t.Errorf("%s: asked after %d turns, want %d", name, turns, c.turns)
		}
	}
}

// The question whether a verdict stands costs no attempt, but is asked only once.
func TestReviewerIsAskedOnceToConfirm(t *testing.T) {
	confirm := func(r *ReportSignal) { r.Fields.Confirm = true }
	b := deliver(t, policy(), todo("t1"))
	a := b.dispatch(signalbox.RoleDeveloper)
	b.say(a, "unknown")
	for _, want := range []UnknownSignalRecovery{{1, "question", "said unknown", ""},
		{2, "error", "said unknown", ""}} {
		d := b.sayMore(a, "unknown", confirm)
		if wantBody(t, d, want); !d.Answer.Again {
			t.Errorf("answer %+v", d.Answer)
		}
	}
	wantTypes(t, b.sayMore(a, "unknown", confirm), "AgentSignalFailure t1", "AgentFailed t1",
		"LeaseReleased t1")
	if counts := b.work("t1").Task.Counts; counts.Confirms != 0 {
		t.Errorf("after the failure: %+v", counts)
	}
	a = b.dispatch(signalbox.RoleDeveloper)
	wantBody(t, b.sayMore(a, "unknown", confirm),
		UnknownSignalRecovery{0, "question", "said unknown", ""})
	b.say(a, "ready_for_review")
	if counts := b.work("t1").Task.Counts; counts.Confirms != 0 {
		t.Errorf("after a verdict: %+v", counts)
	}
}

func TestValidSignalResetsUnknown(t *testing.T) {
	b := deliver(t, policy(), todo("t1"))
	a := b.dispatch(signalbox.RoleDeveloper)
	b.say(a, "unknown")
	b.say(a, "checkpoint") // that it lives does not say what it did
	b.wants(a, "a.go")
	if got := b.work("t1").Task.Counts.Unknown; got != 1 {
		t.Errorf("after a checkpoint: %d", got)
	}
	b.do(by(a, Exit{Signal: exit(signalbox.PhaseImplementation, signalbox.ExitCompleted)}))
	b.wantPhase("t1", signalbox.PhaseCIPending)
	if got := b.work("t1").Task.Counts.Unknown; got != 0 {
		t.Errorf("after an exit signal: %d", got)
	}
}

func TestPreviewOfUnknownOutput(t *testing.T) {
	for _, text := range []string{strings.Repeat("€", 300), strings.Repeat("a", 199) + "😀😀",
		"\x1b[31m\xff", ""} {
		b := deliver(t, policy(), todo("t1"))
		d := b.sayMore(b.dispatch(signalbox.RoleDeveloper), "unknown",
			saying(text))
		preview := mustDecode(&d.Events[0]).(UnknownSignalRecovery).Preview
		if want := min(200, utf8.RuneCountInString(text)); utf8.RuneCountInString(
			preview) != want || !utf8.ValidString(preview) {
			t.Errorf("preview of %q: %q", text, preview)
		}
	}
}

func TestFailures(t *testing.T) {
	for _, cause := range []FailCause{FailTimeout, FailCrash, FailStall, FailStart, FailWorkspace} {
		b := deliver(t, policy(), todo("t1"), todo("t2", "t1"), todo("t3"))
		for i := 1; i <= 3; i++ {
			a := b.wantDispatch(signalbox.RoleDeveloper, "t1")
			if got := b.do(by(a, StartAgent{Agent: "claude"})); got.Attempt != i {
				t.Errorf("attempt %d, want %d", got.Attempt, i)
			}
			d := b.try(by(a, ReportFailure{Cause: cause, Detail: "exit status 7"}))
			wantBody(t, d, AgentFailed{a.Lease.Epoch, string(cause), signalbox.RoleDeveloper, i,
				"exit status 7"})
			if i < 3 {
				wantTypes(t, d, "AgentFailed t1", "LeaseReleased t1")
			} else {
				wantTypes(t, d, "AgentFailed t1", "QuestionAsked t1", "PhaseChanged t1",
					"LeaseReleased t1")
			}
		}
		b.question("t1", AskedTimeout)
		b.wantDispatch(signalbox.RoleDeveloper, "t3")
		b.answer("t1", AskedTimeout, "try once more")
		if task := b.work("t1").Task; task.Timeouts[signalbox.RoleDeveloper] != 0 {
			t.Errorf("task %+v", task)
		}
		b.wantDispatch(signalbox.RoleDeveloper, "t1")
	}
}

// The question about failures says what happened in words. What is said to the next agent about
// signals is not part of it.
func TestQuestionAboutFailures(t *testing.T) {
	const failed = "the developer on t1 failed %s in a row; the last time it "
	for cause, want := range map[FailCause]string{
		FailTimeout: fmt.Sprintf(failed, "3 times") + "timed out: why. What should happen next?",
		FailWorkspace: fmt.Sprintf(failed, "3 times") +
			"could not do its work: why. What should happen next?",
		FailSignals: fmt.Sprintf(failed, times(2)) +
			"sent no valid signal: why. What should happen next?",
	} {
		b := deliver(t, policy(), todo("t1"))
		for len(b.work("t1").Task.Questions) == 0 {
			a := b.wantDispatch(signalbox.RoleDeveloper, "t1")
			if cause != FailSignals {
				b.try(by(a, ReportFailure{Cause: cause, Detail: "why"}))
				continue
			}
			for range 3 {
				b.sayMore(a, "unknown", func(r *ReportSignal) { r.Fields.Advice = "why" })
			}
		}
		if q := b.question("t1", AskedTimeout); q.Text != want {
			t.Errorf("%s: question %q, want %q", cause, q.Text, want)
		}
	}
}

// Processes that are left need the human at once, however many failures are allowed: what they may
// change cannot be trusted.
func TestProcessesLeft(t *testing.T) {
	b := deliver(t, policy(), todo("t1"))
	a := b.wantDispatch(signalbox.RoleDeveloper, "t1")
	const detail = "processes that it started did not end: 4711 (chain)"
	d := b.try(by(a, ReportFailure{Cause: FailProcesses, Detail: detail}))
	wantTypes(t, d, "AgentFailed t1", "QuestionAsked t1", "PhaseChanged t1", "LeaseReleased t1")
	want := "the developer on t1 left processes behind: " + detail + ". What should happen next?"
	if q := b.question("t1", AskedTimeout); q.Text != want {
		t.Errorf("question %q, want %q", q.Text, want)
	}
	b.wantNothing(signalbox.RoleDeveloper)
	b.answer("t1", AskedTimeout, "try once more")
	b.wantDispatch(signalbox.RoleDeveloper, "t1")
}

// TestFailuresOfGates: critics and auditors have counters of their own, and none of their failures
// is a verdict.
func TestFailuresOfGates(t *testing.T) {
	b := deliver(t, policy(), todo("t1"))
	fail := func(role signalbox.Role) {
		t.Helper()
		a := b.dispatch(role)
		b.do(by(a, ReportFailure{Cause: FailTimeout}))
	}
	fail(signalbox.RoleDeveloper)
	fail(signalbox.RoleDeveloper)
	b.bring("t1", signalbox.PhaseReadyForReview)
	fail(signalbox.RoleCritic)
	fail(signalbox.RoleCritic)
	if w := b.wantPhase("t1", signalbox.PhaseReview); w.Task.Timeouts[signalbox.RoleCritic] != 2 ||
		w.Task.Timeouts[signalbox.RoleDeveloper] != 0 || w.Task.Reviewed {
		t.Errorf("task %+v", w.Task)
	}
	b.say(b.dispatch(signalbox.RoleCritic), "review_passed")
	fail(signalbox.RoleAuditor)
	fail(signalbox.RoleAuditor)
	b.wantPhase("t1", signalbox.PhaseReadyForMerge)
	fail(signalbox.RoleAuditor)
	if w := b.wantPhase("t1",
		signalbox.PhaseBlocked); w.BlockedFrom != signalbox.PhaseReadyForMerge || w.Task.Audited {
		t.Errorf("work %+v", w)
	}
	b.answer("t1", AskedTimeout, "continue")
	b.wantDispatch(signalbox.RoleAuditor, "t1")
}

func TestRateLimitParksTheRole(t *testing.T) {
	b := deliver(t, policy(), todo("t1"), todo("t2"))
	a := b.dispatch(signalbox.RoleDeveloper)
	until := b.now.Add(40 * time.Minute)
	d := b.try(by(a, ReportFailure{Cause: FailRateLimit, Until: until}))
	wantTypes(t, d, "RoleLimited ", "LeaseReleased t1")
	if b.work("t1").Task.Timeouts != nil {
		t.Error("it counts as a failure")
	}
	b.wantNothing(signalbox.RoleDeveloper)
	if st := b.wantStanding(StandingLimited); !st.Wake.Equal(until) {
		t.Errorf("status %+v", st)
	}
	b.now = until
	b.wantDispatch(signalbox.RoleDeveloper, "t1")

	two := b.dispatch(signalbox.RoleDeveloper)
	b.do(by(two, ReportFailure{Cause: FailRateLimit}))
	if got := b.s.Limited(signalbox.RoleDeveloper); !got.Equal(b.now.Add(defaultLimit)) {
		t.Errorf("without a time: %s", got)
	}
	b.do(orderOf(OrderRetry, ""))
	b.wantDispatch(signalbox.RoleDeveloper, "t2")
}

// A service can name a time that has passed or that cannot be right.
func TestRateLimitBounds(t *testing.T) {
	const month = 31 * 24 * time.Hour
	for wait, want := range map[time.Duration]time.Duration{
		-time.Hour:           time.Second,
		0:                    time.Second,
		time.Second - 1:      time.Second,
		2 * time.Second:      2 * time.Second,
		month:                month,
		month + time.Second:  5 * time.Minute,
		100 * 24 * time.Hour: 5 * time.Minute,
	} {
		b := deliver(t, policy(), todo("t1"))
		a := b.dispatch(signalbox.RoleDeveloper)
		b.do(by(a, ReportFailure{Cause: FailRateLimit, Until: b.now.Add(wait)}))
		if got := b.s.Limited(signalbox.RoleDeveloper).Sub(b.now); got != want {
			t.Errorf("a limit of %s: the role waits %s, want %s", wait, got, want)
		}
	}
}

func TestSignalsOutOfPlace(t *testing.T) {
	b := deliver(t, policy(), todo("t1"), todo("t2"))
	a := b.dispatch(signalbox.RoleDeveloper)
	for _, tt := range []struct {
		signal, named string
		reason        signalbox.Reason
	}{
		{"review_passed", "t1", signalbox.ReasonOutOfRole},
		{"health_healthy", "", signalbox.ReasonOutOfRole},
		{"ready_for_review", "t2", signalbox.ReasonWrongWork},
		{"checkpoint", "t2\xff", signalbox.ReasonWrongWork},
	} {
		h := hear(a, tt.signal)
		h.Named = tt.named
		d := b.try(h)
		if r := refusedBy(d.Err); r == nil || r.Reason != tt.reason || r.NoHint {
			t.Errorf("%s about %q: %v", tt.signal, tt.named, d.Err)
		}
		wantTypes(t, d, "SignalRefused t1")
		if again := b.try(h); len(again.Events) != 0 {
			t.Errorf("again: %d events", len(again.Events))
		}
	}
	b.wantPhase("t1", signalbox.PhaseImplementation)
	b.refuses(hear(a, "nonsense"), signalbox.CodeUsage)
	d := b.sayMore(a, "unknown", func(h *ReportSignal) {
		h.Refused = []RefusedSignal{{Signal: "READY_FOR_REVIEW t9",
			Reason: signalbox.ReasonWrongWork, Detail: "it names t9", Times: 2}}
	})
	wantTypes(t, d, "SignalRefused t1", "UnknownSignalRecovery t1")
}

func TestDuplicateSignals(t *testing.T) {
	b := deliver(t, policy(), todo("t1"))
	a := b.dispatch(signalbox.RoleDeveloper)
	h := hear(a, "ready_for_review")
	h.Blob, h.Offset = signalbox.Hash{3}, 17
	first := b.do(h)
	b.checked(b.dispatch(signalbox.RoleCI))
	d := b.try(h)
	if d.Err != nil || len(d.Events) != 0 || !d.Answer.Repeated || d.Answer.Seq != first.Seq ||
		d.Answer.Phase != first.Phase {
		t.Errorf("again: %+v, at first %+v", d, first)
	}
	h.Offset++ // another signal under a lease that is over
	d = b.try(h)
	if r := refusedBy(d.Err); r == nil || r.Reason != signalbox.ReasonStaleLease {
		t.Errorf("stale: %v", d.Err)
	}
	wantTypes(t, d, "SignalRefused t1")
	for _, c := range []Command{by(a, ReportFailure{Cause: FailCrash}), by(a, ReportChecks{}),
		by(a, ReportMerge{}),
		by(a, ResumeSession{}),
		by(a, StartAgent{}),
		by(a, EndTurn{}),
		ReportSignal{Session: a.Session, Epoch: 9999, Signal: "checkpoint"}} {
		if r := refusedBy(b.try(c).Err); r == nil || r.Reason != signalbox.ReasonStaleLease {
			t.Errorf("%#v: %+v", c, r)
		}
	}
	b.wantPhase("t1", signalbox.PhaseReadyForReview)
}

func TestOnlySystemPrincipalsCheckAndMerge(t *testing.T) {
	b := deliver(t, policy(), todo("t1"))
	a := b.dispatch(signalbox.RoleDeveloper)
	b.refuses(by(a, ReportChecks{}), signalbox.CodeFailed)
	b.refuses(by(a, ReportMerge{}), signalbox.CodeFailed)
	b.say(a, "ready_for_review")
	b.refuses(ReportMerge{Session: b.dispatch(signalbox.RoleCI).Session,
		Epoch: b.s.Seq()}, signalbox.CodeFailed)
}

func TestBaseline(t *testing.T) {
	b := planned(t, policy(), todo("t1"), todo("t2"))
	b.baseline("lint")
	b.do(orderOf(OrderCancel, "R-1"))
	b.baseline("lint")
	b.answer("B-1", AskedBaseline, "accept")
	b.ready("t1")
	d := b.checked(b.dispatch(signalbox.RoleCI), "lint", "vet")
	wantTypes(t, d, "ChecksRan t1", "FindingsRecorded t1", "ReworkOrdered t1", "PhaseChanged t1", "LeaseReleased t1")
	wantBody(t, d, ReworkOrdered{Cause: "checks", Count: 1, Summary: "failing: vet on local"})
	b.ready("t1")
	d = b.checked(b.dispatch(signalbox.RoleCI), "lint")
	wantTypes(t, d, "ChecksRan t1", "FindingsRecorded t1", "PhaseChanged t1", "LeaseReleased t1")
	b.wantPhase("t1", signalbox.PhaseReadyForReview)
}

// The confirmation of an answer says what was understood, because every other text counts as
// "again".
func TestBaselineAnswersAreUnderstood(t *testing.T) {
	for answer, want := range map[string]string{
		"again": "running the checks again", "I do not know": "running the checks again",
		"Accept it":      "continuing although they fail",
		"repair, please": "starting a remediation",
	} {
		b := planned(t, policy(), todo("t1"))
		b.baseline("lint")
		b.do(orderOf(OrderCancel, "R-1"))
		b.baseline("lint")
		if got := b.do(AnswerQuestion{Question: b.work("B-1").Task.Questions[0], Answer: answer,
			Actor: "op"}).Understood; got != want {
			t.Errorf("%q is understood as %q, want %q", answer, got, want)
		}
	}
}

func TestChecksFailTooOften(t *testing.T) {
	b := deliver(t, policy(), todo("t1"))
	for range DefaultLimits().Checks {
		b.ready("")
		b.checked(b.dispatch(signalbox.RoleCI), "test")
	}
	b.question("t1", AskedChecks)
}

func TestProtectedFilesAreAFinding(t *testing.T) {
	b := deliver(t, policy(), todo("t1"))
	b.ready("")
	ci := b.dispatch(signalbox.RoleCI)
	d := b.try(by(ci, ReportChecks{Rows: []CheckRow{{Check: "test", Environment: "local",
		Passed: true}}, Protected: []string{".github/ci.yml", "b\xff"}}))
	wantBody(t, d, ReworkOrdered{Cause: "checks", Count: 1,
		Summary: "protected files were edited: .github/ci.yml, b\ufffd"})
	b.wantPhase("t1", signalbox.PhaseImplementation)
}

func TestMergeConflictIsRework(t *testing.T) {
	b := deliver(t, policy(), todo("t1"))
	for i := range 3 {
		b.bring("t1", signalbox.PhaseReadyForMerge)
		b.say(b.dispatch(signalbox.RoleAuditor), "audit_passed")
		m := b.dispatch(signalbox.RoleMerger)
		d := b.try(by(m, ReportMerge{Refusal: "conflict in a.go", Body: signalbox.Hash{2}}))
		wantBody(t, d, ReworkOrdered{Cause: "merge", Count: i + 1, Summary: "conflict in a.go",
			Body: signalbox.Hash{2}})
		if task := b.work("t1").Task; task.Checked || task.Reviewed || task.Audited {
			t.Errorf("task %+v", task)
		}
	}
	b.question("t1", AskedMerge)
	b.answer("t1", AskedMerge, "rebase it")
	b.bring("t1", signalbox.PhaseCompleted)
}

func TestOneMergeAtATime(t *testing.T) {
	b := deliver(t, policy(), todo("t1"), todo("t2"))
	for _, task := range []string{"t1", "t2"} {
		b.bring(task, signalbox.PhaseReadyForMerge)
		b.say(b.dispatch(signalbox.RoleAuditor), "audit_passed")
	}
	m := b.wantDispatch(signalbox.RoleMerger, "t1")
	b.wantNothing(signalbox.RoleMerger)
	b.merged(m)
	b.wantDispatch(signalbox.RoleMerger, "t2")
}

func TestApproveMerge(t *testing.T) {
	p := policy()
	p.ApproveMerge = true
	b := deliver(t, p, todo("t1"))
	b.refuses(orderOf(OrderApprove, "t1"), signalbox.CodeFailed)
	b.bring("t1", signalbox.PhaseReadyForMerge)
	b.say(b.dispatch(signalbox.RoleAuditor), "audit_passed")
	b.wantNothing(DispatchRoles()...)
	if st := b.wantStanding(StandingAsking); !slices.Equal(st.Approvals, []string{"t1"}) ||
		!slices.Equal(st.Reasons, []string{"t1 needs your approval"}) {
		t.Errorf("status %+v", st)
	}
	for _, before := range []OrderKind{"", OrderCancel, OrderPause} {
		if before != "" {
			b.do(orderOf(before, "t1"))
		}
		if !b.do(orderOf(OrderRetry, "t1")).Approval {
			t.Errorf("after %q retry does not say that the task needs approval", before)
		}
	}
	looked := b.work("t1").Task.Commit
	b.refuses(Order{What: OrderApprove, Work: "t1", Actor: "op", Commit: looked +
		"0"}, signalbox.CodeConflict)
	b.do(Order{What: OrderApprove, Work: "t1", Actor: "op", Commit: looked})
	b.refuses(Order{What: OrderApprove, Work: "t1", Actor: "op", Commit: looked +
		"0"}, signalbox.CodeConflict)
	if !b.do(orderOf(OrderApprove, "t1")).Repeated {
		t.Error("approved twice")
	}
	m := b.dispatch(signalbox.RoleMerger)
	b.try(by(m, ReportMerge{Refusal: "conflict"}))
	if b.work("t1").Task.Approved {
		t.Error("another implementation is approved")
	}
	b.refuses(orderOf(OrderApprove, ""), signalbox.CodeUsage)
}

// A task that changes what steers agents needs approval, unless the policy trusts that. With
// approval of every merge nothing more is asked.
func TestApproveSteering(t *testing.T) {
	every, trusted := policy(), policy()
	every.ApproveMerge, trusted.TrustSteering = true, true
	for name, test := range map[string]struct {
		policy   Policy
		steering []string
		waits    bool
	}{
		"nothing": {policy: policy()}, "settings": {policy(), []string{".claude/settings.json"},
			true}, "trusted": {trusted, []string{"CLAUDE.md"}, false},
		"every merge": {every, []string{"CLAUDE.md"}, true},
	} {
		t.Run(name, func(t *testing.T) {
			b := deliver(t, test.policy, todo("t1"))
			b.bring("t1", signalbox.PhaseCIPending)
			ci := b.dispatch(signalbox.RoleCI)
			rows := []CheckRow{{Check: "test", Environment: "local", Passed: true}}
			b.do(by(ci, ReportChecks{Commit: sha("c"), Base: sha("b"), Rows: rows,
				Steering: test.steering}))
			b.judged("")
			if got := len(b.s.Approvals()) > 0; got != test.waits ||
				!slices.Equal(b.work("t1").Task.Steering, test.steering) {
				t.Fatalf("it waits: %t, for %q", got, b.work("t1").Task.Steering)
			}
			if test.waits {
				b.wantNothing(DispatchRoles()...)
				b.do(orderOf(OrderApprove, "t1"))
			}
			m := b.dispatch(signalbox.RoleMerger)
			// The next implementation is another one, which needs its own approval, or none.
			b.try(by(m, ReportMerge{Refusal: "conflict"}))
			b.bring("t1", signalbox.PhaseCIPending)
			ci = b.dispatch(signalbox.RoleCI)
			b.do(by(ci, ReportChecks{Commit: sha("d"), Base: sha("b"), Rows: rows}))
			b.judged("")
			if got := len(b.s.Approvals()) > 0; got != test.policy.ApproveMerge {
				t.Errorf("without such a change it waits: %t", got)
			}
		})
	}
}

func TestBudgetOfATask(t *testing.T) {
	p := policy()
	p.Task = Budget{Tokens: 100}
	b := deliver(t, p, todo("t1"), todo("t2"))
	spend := func(a Answer, signal string, tokens int64) Decision {
		t.Helper()
		return b.sayMore(a, signal,
			withTurn(Turn{Spent: Spent{Tokens: tokens}, Output: signalbox.Hash{1}}))
	}
	wantTypes(t, spend(b.dispatch(signalbox.RoleDeveloper), "ready_for_review", 99),
		"AgentTurnEnded t1", "SignalHeard t1", "PhaseChanged t1", "LeaseReleased t1")
	b.checked(b.dispatch(signalbox.RoleCI))
	wantTypes(t, spend(b.dispatch(signalbox.RoleCritic), "review_passed", 1), "AgentTurnEnded t1",
		"SignalHeard t1", "PhaseChanged t1", "LeaseReleased t1", "QuestionAsked t1")
	b.wantNothing(signalbox.RoleAuditor)
	b.wantDispatch(signalbox.RoleDeveloper, "t2")
	b.answer("t1", AskedBudget, "yes")
	a := b.wantDispatch(signalbox.RoleAuditor, "t1")
	d := spend(a, "divine_clarification", 500) // one question is enough
	wantTypes(t, d, "AgentTurnEnded t1", "SignalHeard t1", "QuestionAsked t1", "PhaseChanged t1",
		"LeaseReleased t1")
	if b.s.Spent() != (Spent{Tokens: 600}) {
		t.Errorf("spent %+v", b.s.Spent())
	}

	t.Run("its own", func(t *testing.T) {
		cheap := todo("t1")
		cheap.Budget = Budget{CostMicros: 10}
		b := deliver(t, p, cheap)
		a := b.dispatch(signalbox.RoleDeveloper)
		b.do(by(a, EndTurn{Turn: Turn{Spent: Spent{CostMicros: 10}}}))
		if q := b.question("t1", AskedBudget); !strings.Contains(q.Text, "cost") {
			t.Errorf("question %q", q.Text)
		}
	})
	t.Run("completed work asks nothing", func(t *testing.T) {
		b := deliver(t, shared(p), todo("t1"))
		b.bring("t1", signalbox.PhaseReadyForMerge)
		b.sayMore(b.dispatch(signalbox.RoleAuditor), "audit_passed",
			withTurn(Turn{Spent: Spent{Tokens: 500}}))
		b.wantStanding(StandingComplete)
		if len(b.s.Questions()) != 0 {
			t.Errorf("questions %+v", b.s.Questions())
		}
	})
}

func TestBudgetOfTheRun(t *testing.T) {
	p := policy()
	p.Run = Budget{Time: time.Hour}
	b := deliver(t, p, todo("t1"), todo("t2"), todo("t3"))
	one, two := b.dispatch(signalbox.RoleDeveloper), b.dispatch(signalbox.RoleDeveloper)
	d := b.try(by(one, ReportFailure{Cause: FailTimeout,
		Turn: &Turn{Spent: Spent{Time: time.Hour}}}))
	wantTypes(t, d, "AgentTurnEnded t1", "AgentFailed t1", "LeaseReleased t1", "QuestionAsked ")
	b.wantNothing(signalbox.RoleDeveloper)
	b.sayMore(two, "ready_for_review",
		withTurn(Turn{Spent: Spent{Time: time.Hour}}))
	b.checked(b.dispatch(signalbox.RoleCI))
	b.wantNothing(signalbox.RoleCritic)
	if st := b.wantStanding(StandingAsking); st.Reasons[0] != "the run waits for an answer to Q-1" {
		t.Errorf("status %+v", st)
	}
	b.answer("", AskedBudget, "yes")
	b.dispatch(signalbox.RoleCritic)
	if b.s.Spent() != (Spent{Time: 2 * time.Hour}) {
		t.Errorf("spent %+v", b.s.Spent())
	}
}

func TestOrdersAboutATask(t *testing.T) {
	b := deliver(t, policy(), todo("t1"), todo("t2", "t1"))
	order := func(what OrderKind) Decision {
		return b.try(Order{What: what, Work: "t1", Actor: "op", Reason: "because"})
	}
	wantTypes(t, order(OrderPause), "Paused t1")
	if !order(OrderPause).Answer.Repeated {
		t.Error("paused twice")
	}
	b.wantNothing(signalbox.RoleDeveloper)
	b.wantStanding(StandingPaused)
	wantTypes(t, order(OrderResume), "Resumed t1")
	a := b.wantDispatch(signalbox.RoleDeveloper, "t1")
	wantTypes(t, order(OrderCancel), "Cancelled t1", "LeaseReleased t1")
	b.refuses(hear(a, "ready_for_review"), signalbox.CodeConflict)
	if st := b.wantStanding(StandingStuck); !slices.Equal(st.Reasons,
		[]string{"t2 waits for t1; t1 is cancelled (because)"}) {
		t.Errorf("reasons %q", st.Reasons)
	}
	wantTypes(t, order(OrderRetry), "Retried t1")
	a = b.wantDispatch(signalbox.RoleDeveloper, "t1")
	b.say(a, "divine_clarification")
	wantTypes(t, order(OrderRetry), "QuestionAnswered t1", "Retried t1", "PhaseChanged t1")
	if q, _ := b.s.Question("Q-1"); !q.Withdrawn || len(b.work("t1").Task.Answers) != 0 {
		t.Errorf("question %+v", q)
	}
	b.wantDispatch(signalbox.RoleDeveloper, "t1")
	wantTypes(t, order(OrderRetry), "Retried t1", "LeaseReleased t1")
	b.bring("t1", signalbox.PhaseCompleted)
	wantRefusedAs(t, order(OrderCancel), signalbox.CodeFailed)
	b.refuses(orderOf("dance", "t2"), signalbox.CodeUsage)
	b.refuses(orderOf("dance", ""), signalbox.CodeUsage)
	b.open("by-hand", signalbox.PhaseImplementation)
	b.refuses(orderOf(OrderPause, "by-hand"), signalbox.CodeFailed)
}

func TestOrdersAboutTheRun(t *testing.T) {
	b := deliver(t, policy(), todo("t1"), todo("t2"), todo("t3"))
	b.say(b.dispatch(signalbox.RoleDeveloper), "divine_clarification")
	a := b.dispatch(signalbox.RoleDeveloper)
	b.do(orderOf(OrderPause, ""))
	b.wantNothing(DispatchRoles()...)
	b.say(a, "ready_for_review") // what runs may finish
	b.do(orderOf(OrderResume, ""))
	b.dispatch(signalbox.RoleCI)
	old := b.dispatch(signalbox.RoleDeveloper)
	b.pass(time.Hour)
	wantTypes(t, b.try(Order{What: OrderCancel, Actor: "op", Reason: "enough"}), "Cancelled ",
		"LeaseExpired t2", "LeaseExpired t3")
	b.refuses(hear(old, "ready_for_review"), signalbox.CodeConflict)
	if st := b.wantStanding(StandingStuck); st.Reasons[0] != "the run is cancelled (enough)" ||
		b.s.Cancelled() != "enough" {
		t.Errorf("status %+v", st)
	}
	wantTypes(t, b.try(orderOf(OrderRetry, "")), "Retried ", "QuestionAnswered t1",
		"Retried t1", "PhaseChanged t1")
	b.wantDispatch(signalbox.RoleDeveloper, "t1")
}

func TestCancelledRemediation(t *testing.T) {
	b := ill(t, policy())
	wantTypes(t, b.try(orderOf(OrderCancel, "R-1")), "Cancelled R-1",
		"TaskPlanned B-2", "RemediationEnded t1", "PhaseChanged t1")
	b.refuses(orderOf(OrderRetry, "R-1"), signalbox.CodeFailed)
	b.baseline()
	b.say(b.wantDispatch(signalbox.RoleDeveloper, "t1"), "infra_blocked")
	b.wantDispatch(signalbox.RoleRemediation, "R-2")
}

func TestChangedPlan(t *testing.T) {
	b := deliver(t, policy(), todo("t1"), todo("t2", "t1"), todo("t3"), todo("t4"))
	if a := b.do(plan(1, todo("t1"), todo("t2", "t1"), todo("t3"), todo("t4"))); !a.Repeated ||
		!a.Plan.Loaded {
		t.Errorf("the same plan: %+v", a)
	}
	b.bring("t1", signalbox.PhaseCompleted)
	three := b.dispatch(signalbox.RoleDeveloper)
	if three.Work != "t2" {
		t.Fatalf("dispatched %s", three.Work)
	}
	b.say(b.wantDispatch(signalbox.RoleDeveloper, "t3"), "divine_clarification")
	other := todo("t1")
	other.Text = signalbox.Hash{99}
	a := b.do(plan(2, other, todo("t4", "t2"), todo("t2", "t1"), todo("t5")))
	want := PlanChange{Loaded: true, Added: []string{"t5"}, Changed: []string{"t4"},
		Removed: []string{"t3"}, Stale: []string{"t1"}}
	if got := *a.Plan; fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("changed %+v, want %+v", got, want)
	}
	b.wantPhase("t1", signalbox.PhaseCompleted)
	if q, _ := b.s.Question("Q-1"); !q.Withdrawn {
		t.Errorf("question %+v", q)
	}
	b.wantDispatch(signalbox.RoleDeveloper, "t5")
	b.wantNothing(signalbox.RoleDeveloper)

	b.do(plan(3, other, todo("t4", "t2"), todo("t2", "t1"), todo("t5"), todo("t3")))
	b.wantDispatch(signalbox.RoleDeveloper, "t3") // though it was BLOCKED when it was removed
	b.refuses(plan(4, todo("z")), signalbox.CodeConflict)
	b.refuses(plan(4, todo("t1"), todo("t1")), signalbox.CodeUsage)
	b.refuses(plan(4, todo("R-7")), signalbox.CodeUsage)
	replace := plan(4, todo("z"))
	replace.Replace = true
	b.do(replace)
	b.wantDispatch(signalbox.RoleDeveloper, "z")
}

func TestCompletedTaskIsNotRemoved(t *testing.T) {
	b := deliver(t, policy(), todo("t1"), todo("t2"))
	b.bring("t1", signalbox.PhaseCompleted)
	if a := b.do(plan(2, todo("t2"))); len(a.Plan.Removed) != 0 {
		t.Errorf("removed %v", a.Plan.Removed)
	}
	if w := b.wantPhase("t1", signalbox.PhaseCompleted); w.Task.Cancelled != "" {
		t.Errorf("it is cancelled: %s", w.Task.Cancelled)
	}
}

func TestRemovedTaskTakesItsSubTasksAlong(t *testing.T) {
	b := deliver(t, policy(), unspecified("t1"), todo("t2"))
	b.sayMore(b.dispatch(signalbox.RoleBusinessAnalyst), "expanded_spec",
		expands("HIGH", todo("a")))
	if a := b.do(plan(2, todo("t2"))); !slices.Equal(a.Plan.Removed, []string{"t1", "a"}) {
		t.Errorf("removed %v", a.Plan.Removed)
	}
	if a := b.do(plan(3, unspecified("t1"), todo("t2"))); !slices.Equal(a.Plan.Changed,
		[]string{"t1", "a"}) {
		t.Errorf("changed %v", a.Plan.Changed)
	}
	b.wantDispatch(signalbox.RoleDeveloper, "a")
}

// A task must not wait for one that a plan update removed: nothing in the plan would ever complete
// it.
func TestRemovedTaskBlocksNothing(t *testing.T) {
	t.Run("a task that is retried though it was removed first", func(t *testing.T) {
		b := deliver(t, policy(), todo("t1"), todo("t2"), todo("t3", "t2"))
		b.do(plan(2, todo("t1"), todo("t2")))
		b.do(plan(3, todo("t1")))
		b.bring("t1", signalbox.PhaseCompleted)
		b.do(orderOf(OrderRetry, "t3"))
		b.wantDispatch(signalbox.RoleDeveloper, "t3")
	})
	t.Run("a sub-task of a task that is still in the plan", func(t *testing.T) {
		b := deliver(t, policy(), unspecified("t1"), todo("t2"))
		b.sayMore(b.dispatch(signalbox.RoleBusinessAnalyst), "expanded_spec",
			expands("HIGH", todo("a", "t2")))
		b.do(plan(2, unspecified("t1")))
		b.wantDispatch(signalbox.RoleDeveloper, "a")
	})
	t.Run("but one that comes back does, and so does one that the operator cancelled",
		func(t *testing.T) {
			b := deliver(t, policy(), unspecified("t1"), todo("t2"))
			b.sayMore(b.dispatch(signalbox.RoleBusinessAnalyst), "expanded_spec",
				expands("HIGH", todo("a", "t2")))
			b.do(plan(2, unspecified("t1")))
			b.do(plan(3, unspecified("t1"), todo("t2")))
			b.do(orderOf(OrderCancel, "t2"))
			b.wantNothing(signalbox.RoleDeveloper)
			b.do(orderOf(OrderRetry, "t2"))
			b.wantDispatch(signalbox.RoleDeveloper, "t2")
			b.wantNothing(signalbox.RoleDeveloper)
		})
}

func TestPlanBeatsWhatAgentsWaitFor(t *testing.T) {
	b := deliver(t, policy(), todo("t1"), todo("t2"), todo("t3"))
	b.sayMore(b.wantDispatch(signalbox.RoleDeveloper, "t1"), "task_incomplete",
		waitsOn("t2"))
	b.do(plan(2, todo("t1"), todo("t2", "t1"), todo("t3")))
	b.wantDispatch(signalbox.RoleDeveloper, "t1")
	b.do(plan(3, todo("t1"), todo("t2", "t1"), todo("t3", "t2")))

	b = deliver(t, policy(), todo("t1"), todo("t2"))
	b.sayMore(b.wantDispatch(signalbox.RoleDeveloper, "t1"), "task_incomplete",
		waitsOn("t2"))
	b.do(plan(2, todo("t1")))
	b.wantDispatch(signalbox.RoleDeveloper, "t1") // what it waited for is not in the plan any more
}

func TestLargePlanIsLoadedInParts(t *testing.T) {
	var tasks []PlanTask
	for i := range 2*maxLoaded + 100 {
		tasks = append(tasks, todo(fmt.Sprintf("t%d", i)))
	}
	s := &State{}
	carryOut(t, s, t0, []Command{OpenBox{Box: "box-1", Actor: "op"}, Configure{policy(), "op"}})
	for part, want := range []int{maxLoaded, maxLoaded, 100} {
		d := Decide(s, t0, plan(1, tasks...))
		if d.Err != nil || len(d.Answer.Plan.Added) != want ||
			d.Answer.Plan.Loaded != (part == 2) || len(d.Events) > 1000 {
			t.Fatalf("part %d: %d events, %v", part, len(d.Events), d.Err)
		}
		if part > 0 && s.CanDispatch(DispatchRoles(), 0, t0) {
			t.Error("something of half a plan can be dispatched")
		}
		for i := range d.Events {
			d.Events[i].Seq = s.Seq() + uint64(i) + 1
		}
		must.Succeed(t, s.ApplyDecision(&d))
	}
	if st := s.Status(t0); st.Tasks != len(tasks) || st.Standing != StandingWorking {
		t.Errorf("status %+v", st)
	}
}
