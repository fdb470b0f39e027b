package rules

import (
	"slices"
	"strings"
	"testing"
	"time"

	"signalbox"
)

// TestRetryFromEveryPhase restarts a task, wherever it is, in every phase: one that it has reached
// is where its next agent starts, with the note and without the gates that it passed there and
// later; any other is refused and changes nothing.
func TestRetryFromEveryPhase(t *testing.T) {
	order := []signalbox.Phase{signalbox.PhaseImplementation, signalbox.PhaseCIPending,
		signalbox.PhaseReadyForReview, signalbox.PhaseReview, signalbox.PhaseReadyForMerge}
	number := func(phase signalbox.Phase) int { return slices.Index(order, phase) }
	for name, bring := range inPhases {
		for _, from := range signalbox.Phases() {
			t.Run(name+" from "+string(from), func(t *testing.T) {
				b := deliver(t, approving(), todo("t1"))
				holder := bring(b)
				b.pass(time.Minute)
				before := b.work("t1")
				reached := before.step()
				command := Order{What: OrderRetry, Work: "t1", Actor: "ann", From: from,
					Note: "look at the error paths"}
				if n := number(from); n < 0 || n > number(reached) &&
					retryStep(from) != retryStep(reached) {
					wantUnchanged(t, b.s, func() {
						d := b.try(command)
						wantRefusedAs(t, d, signalbox.CodeFailed)
						if !strings.Contains(d.Err.Error(), "cannot restart in "+string(from)) {
							t.Errorf("refused with %v", d.Err)
						}
					})
					return
				}
				a := b.do(command)
				w := b.work("t1")
				task := w.Task
				if got, want := retryStep(w.Phase), retryStep(from); got != want ||
					a.Phase != w.Phase || a.Approval {
					t.Errorf("it is in %s; answer %+v", w.Phase, a)
				}
				if w.Lease != nil || len(task.Questions) > 0 || task.Remedy != "" ||
					task.Counts != (Counts{}) || task.Audited || task.Approved {
					t.Errorf("work %+v, task %+v", w, task)
				}
				if checked, reviewed := number(from) > number(signalbox.PhaseCIPending),
					from == signalbox.PhaseReadyForMerge; task.Checked != checked ||
					task.Reviewed != reviewed {
					t.Errorf("checked %t, reviewed %t", task.Checked, task.Reviewed)
				}
				if from == signalbox.PhaseImplementation {
					if len(task.Messages) > 0 || len(task.Findings) != 1 ||
						task.Findings[0].Cause != FindingHuman ||
						task.Findings[0].Summary != "look at the error paths" ||
						task.Findings[0].Actor != "ann" {
						t.Errorf("findings %+v, messages %+v", task.Findings, task.Messages)
					}
				} else if len(task.Messages) != 1 ||
					task.Messages[0].Text != "look at the error paths" ||
					task.Messages[0].Actor != "ann" {
					t.Errorf("messages %+v", task.Messages)
				}
				if holder.Lease != nil { // whoever worked on it works in vain
					b.refuses(by(holder, EndTurn{}), signalbox.CodeConflict)
				}
				if name == "waiting for a remediation" {
					b.say(b.remedied(), "health_healthy")
					b.do(orderOf(OrderApprove, "R-1"))
					b.merged(b.wantDispatch(signalbox.RoleMerger, "R-1"))
					b.baseline()
				}
				b.pastGates("t1", retryStep(from))
				if !b.s.WaitsForApproval(b.work("t1")) {
					t.Error("an approval of the earlier work counts")
				}
			})
		}
	}
}

// pastGates brings work from a phase to the audit and past it, so that no gate is left out.
func (b *box) pastGates(work string, from signalbox.Phase) {
	b.t.Helper()
	switch from {
	case signalbox.PhaseImplementation:
		b.ready(work)
		fallthrough
	case signalbox.PhaseCIPending:
		b.checked(b.wantDispatch(signalbox.RoleCI, work))
		fallthrough
	case signalbox.PhaseReview:
		b.say(b.wantDispatch(signalbox.RoleCritic, work), "review_passed")
		fallthrough
	case signalbox.PhaseReadyForMerge:
		b.say(b.wantDispatch(signalbox.RoleAuditor, work), "audit_passed")
	}
}

// TestRetryOfCancelledTask undoes the cancellation, in an earlier phase.
func TestRetryOfCancelledTask(t *testing.T) {
	b := deliver(t, policy(), todo("t1"))
	b.bring("t1", signalbox.PhaseReadyForMerge)
	b.do(orderOf(OrderCancel, "t1"))
	b.do(Order{What: OrderRetry, Work: "t1", Actor: "op", From: signalbox.PhaseReview})
	b.wantDispatch(signalbox.RoleCritic, "t1")
}

// TestRetryOfRemediation restarts a remediation that waits for approval at its health auditor.
func TestRetryOfRemediation(t *testing.T) {
	b := deliver(t, approving(), todo("t1"))
	b.bring("t1", signalbox.PhaseReadyForMerge)
	b.say(b.wantDispatch(signalbox.RoleAuditor, "t1"), "audit_blocked")
	b.say(b.remedied(), "health_healthy")
	b.refuses(Order{What: OrderRetry, Work: "R-1", Actor: "op",
		From: signalbox.PhaseReadyForMerge}, signalbox.CodeFailed)
	b.do(Order{What: OrderRetry, Work: "R-1", Actor: "op", From: signalbox.PhaseReview})
	b.say(b.wantDispatch(signalbox.RoleHealthAuditor, "R-1"), "health_healthy")
	if !b.s.WaitsForApproval(b.work("R-1")) {
		t.Error("it does not wait for approval")
	}
	b.do(Order{What: OrderRetry, Work: "R-1", Actor: "op", From: signalbox.PhaseCIPending})
	b.checked(b.wantDispatch(signalbox.RoleCI, "R-1"))
	b.wantDispatch(signalbox.RoleHealthAuditor, "R-1")
}

func TestRetryRefusals(t *testing.T) {
	b := deliver(t, approving(), todo("merging"), todo("ready"),
		PlanTask{ID: "draft", Title: "draft", Text: signalbox.Hash{1}, Draft: true})
	b.toApproval("merging")
	b.do(orderOf(OrderApprove, "merging"))
	m := b.wantDispatch(signalbox.RoleMerger, "merging")
	b.do(by(m, PrepareMerge{Commit: sha("beef"), Before: b.s.Base()}))
	b.toApproval("ready")
	b.do(OpenWork{Work: "hand", Actor: "op"})
	for _, tt := range []struct {
		order Order
		want  refused
	}{
		{Order{Work: "ready", Note: "hurry"},
			refused{Code: signalbox.CodeFailed,
				Msg: "work 'ready' is ready to merge, so no agent would get the note"}},
		{Order{Work: "ready", From: "NOWHERE"},
			refused{Code: signalbox.CodeUsage, Msg: `there is no phase "NOWHERE"`}},
		{Order{Work: "ready", From: signalbox.PhaseBlocked},
			refused{Code: signalbox.CodeFailed,
				Msg: "work 'ready' cannot restart in BLOCKED: it is in READY_FOR_MERGE"}},
		{Order{Work: "draft", From: signalbox.PhaseImplementation},
			refused{Code: signalbox.CodeFailed,
				Msg: "work 'draft' cannot restart in IMPLEMENTATION: it is in DRAFT"}},
		{Order{Work: "merging", From: signalbox.PhaseImplementation},
			refused{Code: signalbox.CodeConflict, Msg: "work 'merging' is being merged"}},
		{Order{Work: "B-1", From: signalbox.PhaseCIPending},
			refused{Code: signalbox.CodeFailed, Msg: "work 'B-1' is completed"}},
		{Order{Work: "hand", From: signalbox.PhaseImplementation},
			refused{Code: signalbox.CodeFailed, Msg: "work 'hand' does not belong to a plan"}},
		{Order{From: signalbox.PhaseImplementation},
			refused{Code: signalbox.CodeUsage,
				Msg: "only the retry of a task has a phase and a note"}},
		{Order{Note: "hurry"},
			refused{Code: signalbox.CodeUsage,
				Msg: "only the retry of a task has a phase and a note"}},
		{Order{Work: "ready", What: OrderPause, Note: "hurry"},
			refused{Code: signalbox.CodeUsage,
				Msg: "only the retry of a task has a phase and a note"}},
		{Order{Work: "ready", From: signalbox.PhaseReview, Note: " "},
			refused{Code: signalbox.CodeUsage, Msg: "the text is empty"}},
		{Order{Work: "ready", From: signalbox.PhaseReview, Note: strings.Repeat("x", maxText+1)},
			refused{Code: signalbox.CodeUsage, Msg: "the blob is not that of the text"}},
	} {
		if tt.order.What == "" {
			tt.order.What = OrderRetry
		}
		tt.order.Actor = "op"
		wantUnchanged(t, b.s, func() { wantRefused(t, b.try(tt.order), tt.want) })
	}
	b.do(Order{What: OrderRetry, Work: "draft", Actor: "op", From: signalbox.PhaseDraft,
		Note: "ask the team first"})
}
