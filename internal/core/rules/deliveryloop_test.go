package rules

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"signalbox"
)

// Parked sessions continue one after the other if more advice arrives than slots are free.
func TestParkedSessionsResumeInTurn(t *testing.T) {
	p := policy()
	b := deliver(t, p, todo("t1"), todo("t2"), todo("t3"), todo("t4"), todo("t5"))
	var askers []Answer
	for range 4 {
		a := b.dispatch(signalbox.RoleDeveloper)
		b.sayMore(a, "expert_request",
			func(h *ReportSignal) { h.Fields.Expert = p.Experts[0].Name })
		askers = append(askers, a)
	}
	for range askers {
		b.say(b.dispatch(signalbox.RoleExpert), "expert_advice")
	}
	for _, a := range askers {
		b.do(by(a, ResumeSession{}))
		b.say(a, "ready_for_review") // which frees the slot for the next
	}
}

// Work that was checked on a broken base is checked again on the repaired one, and passes every
// gate again.
func TestAuditBlockedIsCheckedAgain(t *testing.T) {
	b := deliver(t, policy(), todo("t1"))
	b.bring("t1", signalbox.PhaseReadyForMerge)
	b.say(b.dispatch(signalbox.RoleAuditor), "audit_blocked")
	b.mend()
	b.wantPhase("t1", signalbox.PhaseCIPending)
	if task := b.work("t1").Task; task.Checked || task.Reviewed || task.Audited {
		t.Errorf("gates of the old base are still set: %+v", task)
	}
	b.checked(b.dispatch(signalbox.RoleCI))
	b.wantDispatch(signalbox.RoleCritic, "t1")
}

// mend completes the open remediation and the baseline after it.
func (b *box) mend() {
	b.t.Helper()
	b.say(b.dispatch(signalbox.RoleRemediation), "remediation_complete")
	b.checked(b.dispatch(signalbox.RoleCI))
	b.say(b.dispatch(signalbox.RoleHealthAuditor), "health_healthy")
	b.merged(b.dispatch(signalbox.RoleMerger))
	b.checked(b.dispatch(signalbox.RoleCI))
}

// The human is asked about a task that is blocked again after every remediation.
func TestRemediationsAreLimited(t *testing.T) {
	b := deliver(t, policy(), todo("t1"))
	for range 3 {
		b.say(b.dispatch(signalbox.RoleDeveloper), "infra_blocked")
		b.mend()
	}
	b.say(b.dispatch(signalbox.RoleDeveloper), "infra_blocked")
	if q := b.question("t1", AskedBlocked); !strings.Contains(q.Text, "after 3 remediations") {
		t.Errorf("asked %q", q.Text)
	}
	b.wantStanding(StandingAsking)
}

// A remediation that edits protected files, or what steers agents, is not healthy: no critic reads
// it.
func TestRemediationMayNotEditProtectedFiles(t *testing.T) {
	trusted := policy()
	trusted.TrustSteering = true
	for _, p := range []Policy{policy(), trusted} {
		for _, report := range []ReportChecks{{Protected: []string{"check.sh"}},
			{Steering: []string{"AGENTS.md"}}} {
			b := deliver(t, p, todo("t1"))
			b.say(b.dispatch(signalbox.RoleDeveloper), "infra_blocked")
			b.say(b.dispatch(signalbox.RoleRemediation), "remediation_complete")
			ci := b.dispatch(signalbox.RoleCI)
			report.Session, report.Epoch, report.Rows = ci.Session, ci.Lease.Epoch,
				[]CheckRow{{Check: "test", Passed: true}}
			b.do(report)
			b.say(b.dispatch(signalbox.RoleHealthAuditor), "health_healthy")
			b.wantPhase("R-1", signalbox.PhaseImplementation)
		}
	}
}

// Signals that are handled while an agent runs do not reset its failures.
func TestFileConflictsForgiveNothing(t *testing.T) {
	b := deliver(t, policy(), todo("t1"))
	for i := range policy().Limits.Timeouts {
		a := b.dispatch(signalbox.RoleDeveloper)
		b.wants(a, fmt.Sprintf("%d.go", i))
		b.do(by(a, ReportFailure{Cause: FailTimeout}))
	}
	b.question("t1", AskedTimeout)
}

func TestFileConflictsDoNotFlood(t *testing.T) {
	b := deliver(t, policy(), todo("t1"))
	a := b.dispatch(signalbox.RoleDeveloper)
	before := len(b.log)
	for range 3 {
		for i := range 500 {
			b.try(by(a, ReportSignal{Signal: "file_conflict", Named: "x",
				Fields: SignalFields{File: fmt.Sprintf("%d.go", i)}, Offset: int64(i)}))
		}
	}
	if n := len(b.log) - before; n > 2*maxFileRequests+3 {
		t.Errorf("%d events", n)
	}
}

// Work that was audited under another text is not merged.
func TestReplannedWorkBeginsAnew(t *testing.T) {
	p := policy()
	p.ApproveMerge = true
	changed := todo("t1")
	changed.Text = signalbox.Hash{99}

	b := deliver(t, p, todo("t1"))
	b.bring("t1", signalbox.PhaseReadyForMerge)
	b.say(b.dispatch(signalbox.RoleAuditor), "audit_passed")
	b.do(plan(2, changed))
	b.wantPhase("t1", signalbox.PhaseImplementation)
	b.wantDispatch(signalbox.RoleDeveloper, "t1")

	b = deliver(t, p, todo("t1"))
	b.bring("t1", signalbox.PhaseReadyForReview)
	b.say(b.dispatch(signalbox.RoleCritic), "divine_clarification")
	b.do(plan(2, changed))
	b.wantPhase("t1", signalbox.PhaseBlocked)
	if w := b.work("t1"); w.BlockedFrom != signalbox.PhaseImplementation ||
		len(w.Task.Findings) == 0 {
		t.Errorf("it continues in %s with %v", w.BlockedFrom, w.Task.Findings)
	}
}

func TestBudgetAnswers(t *testing.T) {
	p := policy()
	p.Task = Budget{Tokens: 100}
	spend := func(b *box, signal string, tokens int64) {
		b.sayMore(b.dispatch(signalbox.RoleDeveloper), signal,
			withTurn(Turn{Spent: Spent{Tokens: tokens}}))
	}
	t.Run("no", func(t *testing.T) {
		b := deliver(t, p, todo("t1"))
		spend(b, "task_incomplete", 150)
		if q := b.question("t1", AskedBudget); !strings.Contains(q.Text,
			"150 of 100 tokens (budget.task in signalbox.yaml)") {
			t.Errorf("the question is %q", q.Text)
		}
		if d := b.answer("t1", AskedBudget, "No, stop."); !d.Answer.Paused {
			t.Error("the answer does not say that the task is paused")
		}
		b.wantStanding(StandingPaused)
		// Neither resume nor retry grants anything.
		for _, what := range []OrderKind{OrderResume, OrderRetry} {
			b.do(orderOf(what, "t1"))
			b.wantNothing(signalbox.RoleDeveloper)
			b.question("t1", AskedBudget)
			b.wantStanding(StandingAsking)
		}
		b.answer("t1", AskedBudget, "yes")
		b.wantDispatch(signalbox.RoleDeveloper, "t1")
	})
	t.Run("other words for no", func(t *testing.T) {
		for _, no := range []string{"n", "N", "No\nit costs too much", "no-one pays for it", "nope",
			"don\u2019t", "do not", "\"no\"", "cancel it", "Not now"} {
			b := deliver(t, p, todo("t1"))
			spend(b, "task_incomplete", 150)
			if d := b.answer("t1", AskedBudget, no); !d.Answer.Paused {
				t.Errorf("%q grants the budget", no)
			}
		}
		for _, yes := range []string{"y", "yes", "do", "do it", "go on",
			"none of this is wasted: continue", "\U0001F44D"} {
			b := deliver(t, p, todo("t1"))
			spend(b, "task_incomplete", 150)
			if d := b.answer("t1", AskedBudget, yes); d.Answer.Paused {
				t.Errorf("%q does not grant the budget", yes)
			}
		}
	})
	t.Run("no for the run", func(t *testing.T) {
		p := policy()
		p.Run = Budget{CostMicros: 2_500_000}
		b := deliver(t, p, todo("t1"))
		b.sayMore(b.dispatch(signalbox.RoleDeveloper), "task_incomplete",
			withTurn(Turn{Spent: Spent{CostMicros: 3_000_000}}))
		if q := b.question("", AskedBudget); !strings.Contains(q.Text,
			"cost $3.00 of $2.50 (budget.run in signalbox.yaml)") {
			t.Errorf("the question is %q", q.Text)
		}
		b.answer("", AskedBudget, "no")
		b.wantStanding(StandingPaused)
		for _, what := range []OrderKind{OrderResume, OrderRetry} {
			b.do(orderOf(what, ""))
			b.wantNothing(signalbox.RoleDeveloper)
			b.wantStanding(StandingAsking)
		}
		b.answer("", AskedBudget, "no")
		// A higher budget in the configuration is enough.
		p.Run.CostMicros = 4_000_000
		b.do(Configure{p, "op"})
		b.sayMore(b.wantDispatch(signalbox.RoleDeveloper, "t1"), "task_incomplete",
			withTurn(Turn{Spent: Spent{CostMicros: 1_000_000}}))
		b.question("", AskedBudget)
		// Also as the answer to the open question.
		p.Run.CostMicros = 4_100_000
		b.do(Configure{p, "op"})
		b.wantDispatch(signalbox.RoleDeveloper, "t1")
		b.wantStanding(StandingWorking)
	})
	t.Run("raised", func(t *testing.T) {
		for name, raise := range map[string]func(*box){
			"in the configuration": func(b *box) {
				b.do(Configure{Policy: func() Policy { p := p; p.Task.Tokens = 200; return p }(),
					Actor: "op"})
			},
			"in the plan": func(b *box) {
				richer := todo("t1")
				richer.Budget = Budget{Tokens: 200}
				b.do(plan(2, richer))
			},
		} {
			for _, answer := range []string{"", "no"} {
				t.Run(name+" after "+answer, func(t *testing.T) {
					b := deliver(t, p, todo("t1"))
					spend(b, "task_incomplete", 150)
					if answer != "" {
						b.answer("t1", AskedBudget, answer)
					}
					raise(b)
					spend(b, "task_incomplete", 49)
					b.wantStanding(StandingWorking)
					spend(b, "task_incomplete", 1)
					b.question("t1", AskedBudget)
				})
			}
		}
	})
	t.Run("as much again from here", func(t *testing.T) {
		b := deliver(t, p, todo("t1"))
		spend(b, "task_incomplete", 150)
		b.answer("t1", AskedBudget, "yes")
		spend(b, "task_incomplete", 99)
		spend(b, "task_incomplete", 1)
		b.question("t1", AskedBudget)
		if got := b.work("t1").Task.Spent.Tokens; got != 250 {
			t.Errorf("spent %d", got)
		}
	})
	t.Run("another answer does not extend the budget", func(t *testing.T) {
		b := deliver(t, p, todo("t1"))
		spend(b, "divine_clarification", 90)
		b.answer("t1", AskedClarification, "two")
		spend(b, "task_incomplete", 10)
		b.question("t1", AskedBudget)
	})
}

// A rate limit ends by itself, so a run that waits for one does not wait for the human.
func TestLimitedBeforeAsking(t *testing.T) {
	b := deliver(t, policy(), todo("t1"), todo("t2"))
	b.say(b.dispatch(signalbox.RoleDeveloper), "divine_clarification")
	a := b.dispatch(signalbox.RoleDeveloper)
	b.do(by(a, ReportFailure{Cause: FailRateLimit, Until: b.now.Add(time.Hour)}))
	if st := b.wantStanding(StandingLimited); !st.Wake.Equal(b.now.Add(time.Hour)) {
		t.Errorf("wakes at %s", st.Wake)
	}
}

// A request to an expert does not outlive who asked.
func TestCancelledAskerCancelsItsRequest(t *testing.T) {
	p := policy()
	b := deliver(t, p, todo("t1"))
	b.sayMore(b.dispatch(signalbox.RoleDeveloper), "expert_request",
		func(h *ReportSignal) { h.Fields.Expert = p.Experts[0].Name })
	b.do(orderOf(OrderCancel, "t1"))
	b.wantNothing(signalbox.RoleExpert)
}

// Other checks mean another baseline.
func TestOtherChecksAreABaseline(t *testing.T) {
	b := deliver(t, policy(), todo("t1"))
	p := policy()
	p.CheckSet = signalbox.Hash{7}
	b.do(Configure{Policy: p, Actor: "op"})
	b.wantNothing(signalbox.RoleDeveloper)
	b.checked(b.wantDispatch(signalbox.RoleCI, "B-2"))
	b.wantDispatch(signalbox.RoleDeveloper, "t1")
}

// Orders that cannot have an effect are refused.
func TestResumeOfWhatIsCancelled(t *testing.T) {
	b := deliver(t, policy(), todo("t1"))
	b.do(orderOf(OrderCancel, "t1"))
	if d := b.try(orderOf(OrderResume, "t1")); d.Err == nil {
		t.Error("a cancelled task was resumed")
	}
	b.do(orderOf(OrderCancel, ""))
	if d := b.try(orderOf(OrderResume, "")); d.Err == nil {
		t.Error("a cancelled run was resumed")
	}
}

// A task that waits for a remediation stays BLOCKED when it is retried: otherwise it would continue
// with the checks and the review of the broken base.
func TestRetryDoesNotSkipTheRemediation(t *testing.T) {
	b := deliver(t, policy(), todo("t1"))
	b.bring("t1", signalbox.PhaseReadyForMerge)
	b.say(b.dispatch(signalbox.RoleAuditor), "audit_blocked")
	b.do(orderOf(OrderRetry, "t1"))
	b.wantPhase("t1", signalbox.PhaseBlocked)
	b.mend()
	b.wantPhase("t1", signalbox.PhaseCIPending)
}

// During a remediation no task starts, but drafts can be specified: they do not depend on the base.
func TestDraftsStartDuringRemediation(t *testing.T) {
	b := deliver(t, policy(), todo("t1"), todo("t2"), unspecified("t3"))
	b.say(b.wantDispatch(signalbox.RoleDeveloper, "t1"), "infra_blocked")
	b.wantNothing(signalbox.RoleDeveloper)
	b.wantDispatch(signalbox.RoleBusinessAnalyst, "t3")
}

func TestCheckpointsAreFiveSecondsApart(t *testing.T) {
	b := deliver(t, policy(), todo("t1"))
	a := b.dispatch(signalbox.RoleDeveloper)
	for _, step := range []struct {
		after    time.Duration
		recorded bool
	}{{time.Second, true}, {5*time.Second - 1, false}, {1, true}} {
		b.now = b.now.Add(step.after)
		if d := b.say(a, "checkpoint"); (len(d.Events) > 0) != step.recorded {
			t.Errorf("at %s: %d events", b.now, len(d.Events))
		}
	}
}

// Changed checks run on the base once, and the run is not complete while they do.
func TestChangedChecksRunOnTheBase(t *testing.T) {
	p := policy()
	b := deliver(t, p, todo("t1"))
	b.bring("t1", signalbox.PhaseCompleted)
	b.wantStanding(StandingComplete)
	for i := range 2 {
		p.CheckSet = signalbox.Hash{byte(i + 1)}
		b.do(Configure{p, "op"})
	}
	if _, known := b.s.Work("B-3"); known {
		t.Error("a second baseline is open")
	}
	ci := b.wantDispatch(signalbox.RoleCI, "B-2")
	b.wantStanding(StandingWorking)
	b.checked(ci)
	b.wantStanding(StandingComplete)
}
