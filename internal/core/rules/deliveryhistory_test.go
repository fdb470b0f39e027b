package rules

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"signalbox"
)

// TestImpossibleDeliveryEvents: Decide never returns these events about planned work, so Apply must
// reject a log that contains one. In particular, no event skips a gate.
func TestImpossibleDeliveryEvents(t *testing.T) {
	// t1 is in IMPLEMENTATION and free, t2 is held by a developer, t3 waits for its checks after a
	// failed run, t4 is audited and waits for its merge, t5 is completed.
	b := deliver(t, policy(), todo("t5"), todo("t4"), todo("t3"), todo("t2"), todo("t1"))
	b.bring("t5", signalbox.PhaseCompleted)
	b.bring("t4", signalbox.PhaseReadyForMerge)
	b.say(b.wantDispatch(signalbox.RoleAuditor, "t4"), "audit_passed")
	b.ready("t3")
	b.checked(b.wantDispatch(signalbox.RoleCI, "t3"), "vet")
	b.ready("t3")
	holder := b.wantDispatch(signalbox.RoleDeveloper, "t2")
	dev, epoch := holder.Session, holder.Lease.Epoch
	const (
		implementation, pending, ready = signalbox.PhaseImplementation, signalbox.PhaseCIPending,
			signalbox.PhaseReadyForReview
		merge, done, blocked = signalbox.PhaseReadyForMerge, signalbox.PhaseCompleted,
			signalbox.PhaseBlocked
	)
	b.wantPhase("t3", pending)
	stored := StoredCommit{Commit: "c", Bundle: signalbox.Hash{1}, Size: 1}
	for _, tt := range []impossible{
		{"review with failing checks", b.event("t3", "", PhaseChanged{pending, ready}),
			"checks fail"},
		{"merge without checks", b.event("t2", dev, PhaseChanged{implementation, merge}),
			"READY_FOR_MERGE does not follow IMPLEMENTATION"},
		{"completed without a merge phase", b.event("t3", "", PhaseChanged{pending, done}),
			"COMPLETED does not follow CI_PENDING"},
		{"from another phase", b.event("t2", dev, PhaseChanged{pending, ready}),
			"the work is in IMPLEMENTATION"},
		{"completed again", b.event("t5", "", PhaseChanged{done, blocked}),
			"BLOCKED does not follow COMPLETED"},
		{"merge requested early", b.event("t2", dev, MergeRequested{}),
			"a merge is requested once, in READY_FOR_MERGE"},
		{"merge requested twice", b.event("t4", "", MergeRequested{}),
			"a merge is requested once, in READY_FOR_MERGE"},
		{"merged without a lease", b.event("t4", "", Merged{Epoch: 1}), notLive(1)},
		{"merged by the developer", b.event("t2", dev, Merged{Epoch: epoch}),
			"the developer must not report it"},
		{"checked by the developer", b.event("t2", dev, ChecksRan{Epoch: epoch}),
			"the developer must not report it"},
		{"started without a lease", b.event("t1", dev, AgentStarted{Epoch: epoch}),
			notLive(int(epoch))},
		{"resumed and not parked", b.event("t2", dev, SessionResumed{Epoch: epoch}),
			"the session is not parked"},
		{"a question out of order", b.event("t2", dev, QuestionAsked{Question: "Q-2"}),
			"the next question is Q-1"},
		{"an answer to no question", b.event("t2", "", QuestionAnswered{Question: "Q-1"}),
			"Q-1 is not an open question about it"},
		{"an answer about the run", b.event("", "", QuestionAnswered{Question: "Q-1"}),
			"Q-1 is not an open question about it"},
		{"no such remediation", b.event("t2", dev, RemediationNeeded{Remediation: "R-1"}),
			"there is no such remediation"},
		{"another remediation", b.event("t2", "", RemediationEnded{"R-1"}),
			"it does not wait for that remediation"},
		{"completed and replanned", b.event("t5", "", TaskReplanned{Title: "x"}),
			"only a task that is not completed can be replanned"},
		{"sent back when it is completed", b.event("t5", "", ReworkOrdered{Cause: FindingHuman}),
			"it is done, is being merged, or has no developer"},
		{"another commit is rejected",
			b.event("t4", "", ReworkOrdered{Cause: FindingHuman, Commit: "another"}),
			fmt.Sprintf("the commit that was checked is %q", sha("c0ffee"))},
		{"a message about completed work", b.event("t5", "", MessageSent{Text: "x"}), "it is done"},
		{"a message that was not sent", b.event("t2", dev, MessageDelivered{epoch, []uint64{1}}),
			"event 1 is not a message that waits for an agent"},
		{"delivered without a lease", b.event("t1", dev, MessageDelivered{epoch, nil}),
			notLive(int(epoch))},
		{"restarted in a later phase", b.event("t2", "", Retried{From: merge}),
			"it cannot restart in READY_FOR_MERGE"},
		{"a run restarted in a phase", b.event("", "", Retried{From: merge}), "a run has no phase"},
		{"planned twice", b.event("t2", "", TaskPlanned{Kind: KindTask, Phase: implementation}),
			"the work already exists"},
		{"planned in review",
			b.event("t9", "", TaskPlanned{Kind: KindTask, Phase: signalbox.PhaseReview}),
			"a task starts in DRAFT or IMPLEMENTATION and must not have a reserved id"},
		{"a reserved id", b.event("R-7", "", TaskPlanned{Kind: KindTask, Phase: implementation}),
			"a task starts in DRAFT or IMPLEMENTATION and must not have a reserved id"},
		{"a remediation out of order",
			b.event("R-2", "", TaskPlanned{Kind: KindRemediation, Phase: implementation}),
			"the next remediation is R-1 and starts in IMPLEMENTATION"},
		{"a request of no task",
			b.event("X-1", "", TaskPlanned{Kind: KindExpert, Phase: implementation}),
			"there is no task that asked for it"},
		{"no such kind", b.event("t9", "", TaskPlanned{Kind: "x", Phase: implementation}),
			`there is no kind "x"`},
		{"another plan is loaded", b.event("", "", PlanLoaded{signalbox.Hash{9}}),
			"that plan is not being loaded"},
		{"a limit for no role",
			b.event("", "", RoleLimited{Role: "x", Until: b.now.Add(time.Hour)}),
			`there is no role "x"`},
		{"a bundle of completed work", b.event("t5", "", CommitsStored{StoredCommit: stored}),
			"it is completed"},
		{"an empty bundle", b.event("t2", "",
			CommitsStored{StoredCommit: StoredCommit{Commit: "c"}}),
			"it has no commit or no content"},
		{"a bundle of a task that replaces others",
			b.event("t2", "", CommitsStored{stored, []string{"c"}}),
			"it replaces a commit that is not stored"},
		{"a bundle that replaces nothing", b.event("", "", CommitsStored{stored, []string{"d"}}),
			"it replaces a commit that is not stored"},
		{"a bundle on nothing",
			b.event("", "", CommitsStored{StoredCommit: StoredCommit{Commit: "c",
				Bundle: signalbox.Hash{1}, Size: 1, Needs: []string{"d"}}}),
			"it builds on a commit that is not stored"},
		{"a bundle of nothing", b.event("t9", "", CommitsStored{StoredCommit: stored}),
			`there is no work "t9"`},
		{"an invalid policy", b.event("", "", PolicySet{}), "slots and limits must be at least 1"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			wantUnchanged(t, b.s, func() {
				err := b.s.Apply(tt.event)
				if got := (*HistoryError)(nil); !errors.As(err, &got) || got.Fault != tt.fault {
					t.Errorf("got  %v\nwant %s", err, tt.fault)
				}
			})
		})
	}
}
