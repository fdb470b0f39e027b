package rules

import (
	"strings"
	"testing"

	"signalbox"
)

func TestSetupFailureIsAskedOnce(t *testing.T) {
	p := policy()
	p.Limits.Timeouts = 1 // a failure that counts would be asked about the task
	b := deliver(t, p, todo("t1"), todo("t2"), todo("t3"))
	one, two := b.dispatch(signalbox.RoleDeveloper), b.dispatch(signalbox.RoleDeveloper)
	wantTypes(t, b.setup(one, true), "SetupRan t1")
	wantTypes(t, b.setup(one, false), "SetupRan t1", "QuestionAsked ", "LeaseReleased t1")
	wantTypes(t, b.setup(two, false), "SetupRan t2", "LeaseReleased t2")
	q := b.question("", AskedSetup)
	if want := `setup 'modules' failed in a worktree of t1: exit status 1: no route to registry. Nothing starts before you answer`; !strings.HasPrefix(q.Text, want) || q.Body != (signalbox.Hash{7}) {
		t.Errorf("asked %q with %v", q.Text, q.Body)
	}
	for _, work := range []string{"t1", "t2"} {
		if w := b.work(work); w.Phase != signalbox.PhaseImplementation ||
			len(w.Task.Timeouts) > 0 || w.Task.Context != "" || len(w.Task.Questions) > 0 {
			t.Errorf("%s is in %s with failures %v, context %q and questions %v", work, w.Phase,
				w.Task.Timeouts, w.Task.Context, w.Task.Questions)
		}
	}
	if b.s.CanDispatch(DispatchRoles(), 2, b.now) {
		t.Error("something starts before the answer")
	}
	st := b.s.Status(b.now)
	if st.Standing != StandingAsking || !strings.Contains(strings.Join(st.Reasons, "; "),
		"the run waits for an answer to "+q.ID) {
		t.Errorf("standing %s because of %q", st.Standing, st.Reasons)
	}
	b.answer("", AskedSetup, "no") // any answer tries again
	b.wantDispatch(signalbox.RoleDeveloper, "t1")
}

// TestSetupStopsChecks checks that neither checks nor merges start, of planned work and of work
// opened by hand, because they need a worktree too.
func TestSetupStopsChecks(t *testing.T) {
	b := deliver(t, policy(), todo("t1"), todo("t2"))
	b.open("hand", signalbox.PhaseCIPending)
	b.ready("t1")
	b.setup(b.wantDispatch(signalbox.RoleDeveloper, "t2"), false)
	if b.s.CanDispatch([]signalbox.Role{signalbox.RoleCI}, 2, b.now) {
		t.Error("checks start before the answer")
	}
	b.answer("", AskedSetup, "again")
	b.wantDispatch(signalbox.RoleCI, "t1")
	a := b.checkByHand("hand")
	b.setup(a, true)
	b.setup(a, false)
	if w := b.work("hand"); w.Phase != signalbox.PhaseCIPending || w.Lease != nil {
		t.Errorf("work opened by hand is in %s with lease %v", w.Phase, w.Lease)
	}
}

// TestSetupQuestionIsWithdrawn checks that new settings and an order to retry try again without an
// answer.
func TestSetupQuestionIsWithdrawn(t *testing.T) {
	for name, command := range map[string]func() Command{
		"other checks": func() Command {
			p := policy()
			p.CheckSet = signalbox.Hash{9}
			return Configure{p, "op"}
		},
		"retry": func() Command { return orderOf(OrderRetry, "") },
	} {
		b := deliver(t, policy(), todo("t1"))
		b.setup(b.dispatch(signalbox.RoleDeveloper), false)
		b.do(command())
		if q := b.s.setupQuestion(); q != nil {
			t.Errorf("%s: %s is still open", name, q.ID)
		}
	}
}

// TestSetupAnswerGrantsNothing checks that an answer about a setup command does not extend the
// budget of the run.
func TestSetupAnswerGrantsNothing(t *testing.T) {
	p := policy()
	p.Run = Budget{Tokens: 1000}
	b := deliver(t, p, todo("t1"), todo("t2"))
	two := b.dispatch(signalbox.RoleDeveloper)
	b.sayMore(two, "ready_for_review",
		withTurn(Turn{Spent: Spent{Tokens: 900}}))
	one := b.dispatch(signalbox.RoleDeveloper)
	b.setup(one, false)
	b.answer("", AskedSetup, "again")
	one = b.dispatch(signalbox.RoleDeveloper)
	b.sayMore(one, "ready_for_review",
		withTurn(Turn{Spent: Spent{Tokens: 200}}))
	b.question("", AskedBudget)
}

// TestSetupFailureOfATask checks that a failure that a task causes causes no question and ends
// nothing: the task is reworked for it.
func TestSetupFailureOfATask(t *testing.T) {
	b := deliver(t, policy(), todo("t1"), todo("t2"))
	one := b.wantDispatch(signalbox.RoleDeveloper, "t1")
	wantTypes(t, b.setupFault(one), "SetupRan t1")
	b.say(one, "ready_for_review")
	ci := b.wantDispatch(signalbox.RoleCI, "t1")
	wantTypes(t, b.setupFault(ci), "SetupRan t1")
	if q := b.s.setupQuestion(); q != nil || b.work("t1").Lease == nil {
		t.Errorf("asked %+v, lease %v", q, b.work("t1").Lease)
	}
	b.do(by(ci, ReportChecks{Commit: sha("c1"),
		Rows: []CheckRow{{Check: "setup modules", Environment: "local", Exit: 1}}}))
	if w := b.work("t1"); w.Phase != signalbox.PhaseImplementation || w.Task.Counts.Checks != 1 {
		t.Errorf("it is in %s after %d failures", w.Phase, w.Task.Counts.Checks)
	}
	// A command that passed is not a failure of anybody.
	ran := ReportSetup{Session: b.wantDispatch(signalbox.RoleDeveloper, "t1").Session, OfTask: true, Ran: SetupRan{Command: "modules", Passed: true}}
	ran.Epoch = b.work("t1").Lease.Epoch
	d := b.try(ran)
	if d.Err != nil || strings.Contains(string(d.Events[0].Data), "of_task") {
		t.Errorf("%v: %s", d.Err, d.Events[0].Data)
	}
}
