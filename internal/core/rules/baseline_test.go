package rules

import (
	"strings"
	"testing"

	"signalbox"
	"signalbox/internal/testkit/must"
)

// checkBaseAt runs the baseline on a commit. The failing checks are "test", for a cause if it is
// not "", and those named.
func (b *box) checkBaseAt(commit, cause string, failing ...string) Decision {
	b.t.Helper()
	return b.checkAt(b.dispatch(signalbox.RoleCI), commit, commit, cause, failing...)
}

func (b *box) checkAt(a Answer, commit, base, cause string, failing ...string) Decision {
	b.t.Helper()
	c := by(a, ReportChecks{Commit: commit, Base: base, Body: signalbox.Hash{6}})
	for _, name := range []string{"lint", "test"} {
		row := CheckRow{Check: name, Environment: "local", Passed: true}
		for _, bad := range failing {
			if bad == name {
				row.Passed, row.Exit, row.Cause = false, 1, cause
			}
		}
		c.Rows = append(c.Rows, row)
	}
	return b.decide(c)
}

// redBase is a box with a plan whose baseline, on the commit base1, has found that a check fails.
func redBase(t failer, cause string) *box {
	t.Helper()
	b := planned(t, policy(), todo("t1"), todo("t2"), unspecified("t3"))
	b.checkBaseAt(sha("base1"), cause, "test")
	return b
}

const missing = "the program pytest was not found"

// Nothing is developed on a base whose checks fail: a remediation repairs it first, and the checks
// run on it again.
func TestRedBaseIsRepairedFirst(t *testing.T) {
	b := planned(t, policy(), todo("t1"), todo("t2"), unspecified("t3"))
	d := b.checkBaseAt(sha("base1"), "", "test")
	wantTypes(t, d, "ChecksRan B-1", "TaskPlanned R-1", "RemediationNeeded B-1", "PhaseChanged B-1",
		"LeaseReleased B-1")
	wantBody(t, d, RemediationNeeded{"R-1", "these checks fail on the base: test on local",
		signalbox.Hash{6}})
	others := []signalbox.Role{signalbox.RoleDeveloper, signalbox.RoleCritic, signalbox.RoleAuditor,
		signalbox.RoleBusinessAnalyst, signalbox.RoleMerger, signalbox.RoleCI}
	b.wantNothing(others...)
	if got := b.s.Reason(
		b.work("t1")); got != "t1 waits for a base that passes its checks: B-1 waits for remediation R-1" {
		t.Errorf("reason %q", got)
	}
	b.say(b.wantDispatch(signalbox.RoleRemediation, "R-1"), "remediation_complete")
	b.checkAt(b.wantDispatch(signalbox.RoleCI, "R-1"), sha("fix1"), sha("base1"), "")
	b.say(b.dispatch(signalbox.RoleHealthAuditor), "health_healthy")
	wantTypes(t, b.merged(b.dispatch(signalbox.RoleMerger)), "Merged R-1", "PhaseChanged R-1",
		"LeaseReleased R-1", "RemediationEnded B-1", "PhaseChanged B-1")
	b.wantNothing(signalbox.RoleDeveloper)
	wantTypes(t, b.checkBaseAt(sha("beef"), ""), "ChecksRan B-1", "PhaseChanged B-1",
		"LeaseReleased B-1")
	b.wantDispatch(signalbox.RoleDeveloper, "t1")
	b.wantDispatch(signalbox.RoleBusinessAnalyst, "t3")
}

// A failure that no commit repairs is for the human at once, and nothing is spent.
func TestRedBaseAsks(t *testing.T) {
	b := redBase(t, missing)
	b.wantNothing(DispatchRoles()...)
	q := b.question("B-1", AskedBaseline)
	for _, want := range []string{"at " + sha("base1")[:7], "test on local (exit status 1): " +
		missing, `"again"`, `"repair"`, `"accept"`} {
		if !strings.Contains(q.Text, want) {
			t.Errorf("the question lacks %q: %s", want, q.Text)
		}
	}
	if q.Body != (signalbox.Hash{6}) {
		t.Error("the question does not show the output")
	}
	st := b.wantStanding(StandingAsking)
	if got := strings.Join(st.Reasons,
		"; "); got != "the checks do not pass on the base: B-1 waits for an answer to Q-1; t1, t2, t3 wait for that" {
		t.Errorf("reasons %q", got)
	}

	t.Run("again", func(t *testing.T) {
		b := redBase(t, missing)
		wantTypes(t, b.answer("B-1", AskedBaseline, "I installed it"), "QuestionAnswered B-1",
			"PhaseChanged B-1")
		b.checkBaseAt(sha("base1"), "", "test") // another failure: the human is there
		b.answer("B-1", AskedBaseline, "again")
		b.checkBaseAt(sha("base1"), "")
		b.wantDispatch(signalbox.RoleDeveloper, "t1")
	})
	t.Run("repair", func(t *testing.T) {
		b := redBase(t, missing)
		d := b.answer("B-1", AskedBaseline, "Repair: use unittest")
		wantTypes(t, d, "QuestionAnswered B-1", "TaskPlanned R-1", "RemediationNeeded B-1")
		wantBody(t, d, RemediationNeeded{"R-1",
			"these checks fail on the base: test on local; the human says: Repair: use unittest",
			signalbox.Hash{6}})
		b.wantNothing(signalbox.RoleDeveloper)
		b.wantDispatch(signalbox.RoleRemediation, "R-1")
	})
	t.Run("accept", func(t *testing.T) {
		b := redBase(t, missing)
		d := b.answer("B-1", AskedBaseline, "Accept, it is being installed")
		wantTypes(t, d, "QuestionAnswered B-1", "BaselineAccepted B-1", "PhaseChanged B-1")
		wantBody(t, d, BaselineAccepted{sha("base1"), []string{"test|local"}})
		b.wantDispatch(signalbox.RoleDeveloper, "t1")
	})
	t.Run("retry", func(t *testing.T) {
		b := redBase(t, missing)
		b.do(orderOf(OrderRetry, ""))
		b.checkBaseAt(sha("base1"), "")
		b.wantDispatch(signalbox.RoleDeveloper, "t1")
	})
}

// A base whose checks fail is neither hidden nor worked around by hand.
func TestRedBaseIsNotBypassed(t *testing.T) {
	b := redBase(t, missing)
	b.refuses(orderOf(OrderCancel, "B-1"), signalbox.CodeFailed)
	claim := Claim{Work: "t1", Role: signalbox.RoleDeveloper, Session: "hand", Actor: "ann",
		Lease: "L"}
	b.refuses(claim, signalbox.CodeFailed)
	b.answer("B-1", AskedBaseline, "again")
	b.refuses(orderOf(OrderCancel, "B-1"), signalbox.CodeFailed)
	b.checkBaseAt(sha("base1"), "")
	b.do(claim)
}

// A remediation is tried once. If the base is red after it, or the human ends it, the human
// decides.
func TestRedBaseAfterARemediation(t *testing.T) {
	for name, end := range map[string]func(*box){
		"cancelled": func(b *box) { b.do(orderOf(OrderCancel, "R-1")) },
		"declared healthy": func(b *box) {
			for range DefaultLimits().Remediations {
				b.say(b.remedied("test"), "health_healthy")
			}
			b.answer("R-1", AskedRemediation, "healthy")
		},
		"merged": func(b *box) {
			b.say(b.remedied(), "health_healthy")
			m := b.dispatch(signalbox.RoleMerger)
			b.do(by(m, ReportMerge{Unchanged: true}))
		},
	} {
		t.Run(name, func(t *testing.T) {
			b := redBase(t, "")
			end(b)
			b.wantNothing(signalbox.RoleDeveloper, signalbox.RoleRemediation)
			b.checkBaseAt(sha("base1"), "", "test")
			b.wantNothing(DispatchRoles()...)
			b.answer("B-1", AskedBaseline, "accept")
			b.wantDispatch(signalbox.RoleDeveloper, "t1")
		})
	}
}

// What was accepted holds for the commit and the checks that were accepted, and for what signalbox
// merges into it.
func TestAcceptedBase(t *testing.T) {
	accepted := func(t *testing.T) *box {
		b := redBase(t, missing)
		b.answer("B-1", AskedBaseline, "accept")
		return b
	}
	deliverOne := func(b *box, task, base string, failing ...string) {
		b.ready(task)
		b.checkAt(b.wantDispatch(signalbox.RoleCI, task), sha(task+"-commit"), base, "", failing...)
	}
	t.Run("does not stop tasks", func(t *testing.T) {
		b := accepted(t)
		deliverOne(b, "t1", sha("base1"), "test")
		b.say(b.wantDispatch(signalbox.RoleCritic, "t1"), "review_passed")
		b.say(b.dispatch(signalbox.RoleAuditor), "audit_passed")
		b.merged(b.dispatch(signalbox.RoleMerger))
		deliverOne(b, "t2", sha("beef"), "test") // the base is the merge now
		b.wantPhase("t2", signalbox.PhaseReadyForReview)
	})
	t.Run("another check", func(t *testing.T) {
		b := accepted(t)
		deliverOne(b, "t1", sha("base1"), "test", "lint")
		b.wantPhase("t1", signalbox.PhaseImplementation)
		if f := b.work("t1").Task.Findings; len(f) != 1 ||
			f[0].Summary != "failing: lint on local" {
			t.Errorf("findings %+v", f)
		}
	})
	t.Run("another commit", func(t *testing.T) {
		b := accepted(t)
		b.do(ObserveBase{Known: sha("base1"), Commit: sha("base2"), Actor: "crew"})
		b.checkBaseAt(sha("base2"), missing, "test")
		b.question("B-2", AskedBaseline)
		b.wantNothing(signalbox.RoleDeveloper)
		b.do(ObserveBase{Known: sha("base2"), Commit: sha("base1"), Actor: "crew"})
		b.checkBaseAt(sha("base1"), missing, "test") // the accepted one again
		b.wantDispatch(signalbox.RoleDeveloper, "t1")
	})
	t.Run("other checks of the same name", func(t *testing.T) {
		b := accepted(t)
		p := policy()
		p.CheckSet = signalbox.Hash{7}
		b.do(Configure{p, "op"})
		b.checkBaseAt(sha("base1"), missing, "test")
		b.question("B-2", AskedBaseline)
	})
	t.Run("more failures on the same commit", func(t *testing.T) {
		b := accepted(t)
		b.say(b.dispatch(signalbox.RoleDeveloper), "infra_blocked")
		b.do(orderOf(OrderCancel, "R-1"))
		b.checkBaseAt(sha("base1"), missing, "lint", "test")
		wantBody(t, b.answer("B-2", AskedBaseline, "accept"),
			BaselineAccepted{sha("base1"), []string{"lint|local", "test|local"}})
	})
	t.Run("a remediation for something else", func(t *testing.T) {
		b := accepted(t)
		b.say(b.dispatch(signalbox.RoleDeveloper), "infra_blocked")
		b.say(b.remedied("test"), "health_healthy")
		b.wantPhase("R-1", signalbox.PhaseReadyForMerge)
	})
}

// The base turns red while tasks are at work: they can finish their turn, and nothing else starts.
// When somebody repairs it, the remediation is not needed any more.
func TestBaseTurnsRed(t *testing.T) {
	b := planned(t, policy(), todo("t1"), todo("t2"))
	b.checkBaseAt(sha("base1"), "")
	dev := b.wantDispatch(signalbox.RoleDeveloper, "t1")
	b.do(ObserveBase{Known: sha("base1"), Commit: sha("base2"), Actor: "crew"})
	b.checkBaseAt(sha("base2"), "", "test")
	b.say(dev, "ready_for_review")
	b.wantNothing(signalbox.RoleCI, signalbox.RoleDeveloper)
	b.dispatch(signalbox.RoleRemediation)
	wantTypes(t, b.try(ObserveBase{Known: sha("base2"), Commit: sha("base3"), Actor: "crew"}),
		"BaseMoved ", "RemediationEnded B-2", "PhaseChanged B-2")
	wantTypes(t, b.checkBaseAt(sha("base3"), ""), "ChecksRan B-2", "PhaseChanged B-2",
		"Cancelled R-1", "LeaseReleased R-1", "LeaseReleased B-2")
	b.wantDispatch(signalbox.RoleCI, "t1")
	b.wantDispatch(signalbox.RoleDeveloper, "t2")

	t.Run("still red", func(t *testing.T) {
		b := redBase(t, "")
		b.do(ObserveBase{Known: sha("base1"), Commit: sha("base2"), Actor: "crew"})
		b.checkBaseAt(sha("base2"), "", "test")
		b.wantDispatch(signalbox.RoleRemediation, "R-1")
		b.do(ObserveBase{Known: sha("base2"), Commit: sha("base3"), Actor: "crew"})
		wantTypes(t, b.checkBaseAt(sha("base3"), missing, "test"), "ChecksRan B-1",
			"QuestionAsked B-1", "PhaseChanged B-1", "Cancelled R-1", "LeaseReleased R-1",
			"LeaseReleased B-1")
		b.answer("B-1", AskedBaseline, "accept")
		b.wantDispatch(signalbox.RoleDeveloper, "t1")
	})
	t.Run("a question is withdrawn", func(t *testing.T) {
		b := redBase(t, missing)
		wantTypes(t, b.try(ObserveBase{Known: sha("base1"), Commit: sha("base2"), Start: true,
			Actor: "crew"}), "BaseMoved ", "QuestionAnswered B-1", "PhaseChanged B-1")
		b.checkBaseAt(sha("base2"), "")
		b.wantDispatch(signalbox.RoleDeveloper, "t1")
	})
	t.Run("the remediation of a task continues", func(t *testing.T) {
		b := deliver(t, policy(), todo("t1"), todo("t2"))
		b.say(b.dispatch(signalbox.RoleDeveloper), "infra_blocked")
		b.do(ObserveBase{Commit: sha("base2"), Actor: "crew"})
		b.checkBaseAt(sha("base2"), "")
		b.wantDispatch(signalbox.RoleRemediation, "R-1")
	})
	t.Run("nothing is left to develop", func(t *testing.T) {
		b := deliver(t, policy(), todo("t1"))
		b.bring("t1", signalbox.PhaseCompleted)
		b.do(ObserveBase{Commit: sha("base2"), Actor: "crew"})
		b.checkBaseAt(sha("base2"), "", "test")
		b.wantStanding(StandingComplete)
		b.wantNothing(DispatchRoles()...)
		b.do(plan(2, todo("t1"), todo("t2"))) // now there is
		b.checkBaseAt(sha("base2"), "", "test")
		b.wantNothing(signalbox.RoleDeveloper)
	})
}

// Boxes of earlier versions have baselines that are completed although checks failed. The next run
// checks the base again.
func TestRedBaseOfEarlierRules(t *testing.T) {
	b := planned(t, policy(), todo("t1"))
	ci := b.dispatch(signalbox.RoleCI)
	rows := []CheckRow{{Check: "test", Environment: "local", Exit: 1}}
	for _, body := range []body{ChecksRan{Epoch: ci.Lease.Epoch, Commit: sha("base1"), Rows: rows,
		Base: sha("base1")}, PhaseChanged{signalbox.PhaseCIPending, signalbox.PhaseCompleted},
		LeaseReleased{ci.Lease.Epoch, "checks"}} {
		e := b.event("B-1", ci.Session, body)
		must.Succeed(t, b.s.Apply(e))
		b.log = append(b.log, *e)
	}
	if a := b.do(plan(1, todo("t1"))); a.Repeated {
		t.Error("nothing was recorded")
	}
	b.wantNothing(signalbox.RoleDeveloper)
	b.checkBaseAt(sha("base1"), "", "test")
	b.wantNothing(signalbox.RoleDeveloper)
}

// Without a remediation agent the human is asked.
func TestRedBaseWithoutRemediation(t *testing.T) {
	p := policy()
	p.Roles = []RoleSlots{{signalbox.RoleDeveloper, 1}}
	b := planned(t, p, todo("t1"))
	b.checkBaseAt(sha("base1"), "", "test")
	b.question("B-1", AskedBaseline)
}

// Apply does not accept a baseline that is completed or accepted without the human.
func TestImpossibleAcceptance(t *testing.T) {
	b := redBase(t, missing)
	for _, tt := range []impossible{
		{"completed", b.event("B-1", "",
			PhaseChanged{signalbox.PhaseBlocked, signalbox.PhaseCompleted}),
			"the failing checks were not accepted"},
		{"another commit", b.event("B-1", "",
			BaselineAccepted{sha("base2"), []string{"test|local"}}),
			"these are not the checks that fail on the base"},
		{"another check", b.event("B-1", "",
			BaselineAccepted{sha("base1"), []string{"lint|local"}}),
			"these are not the checks that fail on the base"},
		{"nothing", b.event("B-1", "", BaselineAccepted{sha("base1"), nil}),
			"these are not the checks that fail on the base"},
		{"of a task", b.event("t1", "", BaselineAccepted{sha("base1"), []string{"test|local"}}),
			"it is not a baseline that waits"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			wantUnchanged(t, b.s, func() {
				if err := b.s.Apply(tt.event); err == nil ||
					!strings.Contains(err.Error(), tt.fault) {
					t.Errorf("got  %v\nwant %s", err, tt.fault)
				}
			})
		})
	}
}
