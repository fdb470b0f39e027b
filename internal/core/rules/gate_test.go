package rules

import (
	"slices"
	"testing"

	"signalbox"
)

func withReview(t PlanTask, review Review) PlanTask {
	t.Review = review
	return t
}

// skippedIn returns the gates that a decision skips.
func skippedIn(t *testing.T, d Decision) (gates []string) {
	t.Helper()
	for _, e := range d.Events {
		if e.Type != TypeGateSkipped {
			continue
		}
		b, err := decode(&e)
		if err != nil {
			t.Fatal(err)
		}
		gates = append(gates, b.(GateSkipped).Gate)
	}
	return gates
}

// A plan decides which gates a task needs besides its checks.
func TestLightPath(t *testing.T) {
	b := deliver(t, policy(), withReview(todo("t1"), ReviewChecks))
	b.ready("t1")
	d := b.checked(b.wantDispatch(signalbox.RoleCI, "t1"))
	if got := skippedIn(t, d); !slices.Equal(got, []string{GateReview, GateAudit}) {
		t.Errorf("checks: skipped %v", got)
	}
	if w := b.work("t1"); w.Phase != signalbox.PhaseReadyForMerge || !w.Task.Audited || w.Lease != nil {
		t.Errorf("checks: %s, %+v", w.Phase, w.Task.Gates)
	}

	b = deliver(t, policy(), withReview(todo("t1"), ReviewCritic))
	b.ready("t1")
	if got := skippedIn(t, b.checked(b.wantDispatch(signalbox.RoleCI, "t1"))); got != nil {
		t.Errorf("critic: skipped %v after the checks", got)
	}
	d = b.say(b.wantDispatch(signalbox.RoleCritic, "t1"), "review_passed")
	if got := skippedIn(t, d); !slices.Equal(got, []string{GateAudit}) {
		t.Errorf("critic: skipped %v", got)
	}
	if w := b.work("t1"); w.Phase != signalbox.PhaseReadyForMerge || !w.Task.Audited || w.Lease != nil {
		t.Errorf("critic: %s, %+v", w.Phase, w.Task.Gates)
	}
}

// Checks that fail stop a task whatever its review is, and its next attempt has passed nothing.
func TestLightPathChecks(t *testing.T) {
	b := deliver(t, policy(), withReview(todo("t1"), ReviewChecks))
	b.ready("t1")
	if got := skippedIn(t, b.checked(b.wantDispatch(signalbox.RoleCI, "t1"), "test")); got != nil {
		t.Errorf("skipped %v although a check failed", got)
	}
	b.wantPhase("t1", signalbox.PhaseImplementation)
	b.ready("t1")
	b.checkedAs(b.wantDispatch(signalbox.RoleCI, "t1"), func(c *ReportChecks) {
		c.Protected = []string{"Makefile"}
	})
	b.wantPhase("t1", signalbox.PhaseImplementation)
	b.ready("t1")
	b.checked(b.wantDispatch(signalbox.RoleCI, "t1"))
	b.do(Rework{Work: "t1", Text: "use tabs", Actor: "ann"})
	if g := b.work("t1").Task.Gates; g.Audited || len(g.Skipped) > 0 {
		t.Errorf("after it was sent back: %+v", g)
	}
}

// Work that changes what steers agents, or a plan, needs every gate, and so does work in a shared
// folder, where it is not known what it changes.
func TestLightPathIsNotForAll(t *testing.T) {
	for name, change := range map[string]func(*ReportChecks){
		"steering": func(c *ReportChecks) { c.Steering = []string{"AGENTS.md"} },
		"plan":     func(c *ReportChecks) { c.EditsPlan = true },
		"shared":   func(c *ReportChecks) { c.Commit = "" },
	} {
		for _, review := range []Review{ReviewCritic, ReviewChecks} {
			p := policy()
			p.Shared = name == "shared"
			b := deliver(t, p, withReview(todo("t1"), review))
			b.ready("t1")
			d := b.checkedAs(b.wantDispatch(signalbox.RoleCI, "t1"), change)
			if got := skippedIn(t, d); got != nil {
				t.Errorf("%s, %s: skipped %v", name, review, got)
			}
			d = b.say(b.wantDispatch(signalbox.RoleCritic, "t1"), "review_passed")
			if got := skippedIn(t, d); got != nil {
				t.Errorf("%s, %s: skipped %v after the review", name, review, got)
			}
			b.say(b.wantDispatch(signalbox.RoleAuditor, "t1"), "audit_passed")
		}
	}
}

// Sub-tasks of an agent need a full review, also if they ask for less.
func TestLightPathIsNotForSubTasks(t *testing.T) {
	b := deliver(t, policy(), withReview(unspecified("t1"), ReviewChecks))
	b.sayMore(b.wantDispatch(signalbox.RoleBusinessAnalyst, "t1"), signalbox.NameExpandedSpec,
		func(r *ReportSignal) {
			r.Fields.Confidence = "HIGH"
			r.Fields.SubTasks = []PlanTask{withReview(todo("t2"), ReviewChecks)}
		})
	if w := b.work("t2"); w.Task.Review != ReviewFull {
		t.Errorf("the sub-task needs only %s", w.Task.Review)
	}
}

// A plan that asks for more sends work back that has passed without it.
func TestLightPathIsWithdrawn(t *testing.T) {
	b := deliver(t, policy(), withReview(todo("t1"), ReviewChecks))
	b.ready("t1")
	b.checked(b.wantDispatch(signalbox.RoleCI, "t1"))
	b.do(plan(2, todo("t1")))
	if w := b.work("t1"); w.Phase != signalbox.PhaseImplementation || w.Task.Review != ReviewFull ||
		len(w.Task.Skipped) > 0 {
		t.Errorf("%s, %q, %+v", w.Phase, w.Task.Review, w.Task.Gates)
	}
}

// A log in which a gate was skipped that the plan asks for is not valid.
func TestGateSkippedFaults(t *testing.T) {
	b := deliver(t, policy(), withReview(todo("t1"), ReviewCritic))
	b.ready("t1")
	a := b.wantDispatch(signalbox.RoleCI, "t1")
	for _, gate := range []string{GateReview, GateAudit, "other"} {
		e := b.event("t1", a.Session, GateSkipped{Gate: gate, Reason: "x"})
		if fault := (GateSkipped{Gate: gate}).fault(b.s, e); fault == "" {
			t.Errorf("the gate %s can be skipped", gate)
		}
	}
}
