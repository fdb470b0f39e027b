package rules

import (
	"cmp"
	"fmt"
	"slices"

	"signalbox"
)

// planFault validates an event that adds planned work.
func (s *State) planFault(e *signalbox.Event, b TaskPlanned) string {
	if _, exists := s.Work(e.Work); exists {
		return "the work already exists"
	}
	number := func(letter string, n int) string { return fmt.Sprintf("%s-%d", letter, n+1) }
	want := map[Kind]string{KindRemediation: number("R", s.delivery.Remediations), KindExpert: number("X", s.delivery.Requests),
		KindBaseline: number("B", s.delivery.Baselines)}
	first := map[Kind]signalbox.Phase{KindRemediation: signalbox.PhaseImplementation, KindExpert: signalbox.PhaseImplementation,
		KindBaseline: signalbox.PhaseCIPending}
	switch b.Kind {
	case KindTask:
		if b.Phase != signalbox.PhaseDraft && b.Phase != signalbox.PhaseImplementation || isReservedID(e.Work) {
			return "a task starts in DRAFT or IMPLEMENTATION and must not have a reserved id"
		}
		if b.Plan != s.delivery.PlanID && b.Parent == "" {
			return fmt.Sprintf("plan %q is not being loaded", b.Plan)
		}
	case KindRemediation, KindExpert, KindBaseline:
		if e.Work != want[b.Kind] || b.Phase != first[b.Kind] {
			return fmt.Sprintf("the next %s is %s and starts in %s", b.Kind, want[b.Kind], first[b.Kind])
		}
		if asker, known := s.Work(b.Asker); b.Kind == KindExpert && (!known || asker.Task == nil) {
			return "there is no task that asked for it"
		}
	default:
		return fmt.Sprintf("there is no kind %q", b.Kind)
	}
	if s.delivery.Policy == nil {
		return "the box has no policy"
	}
	return idFault(e.Work)
}

// runFault validates an event about the whole run.
func (s *State) runFault(body body) string {
	switch b := body.(type) {
	case PolicySet:
		return policyFault(&b.Policy)
	case PlanOpened:
		switch {
		case s.delivery.Policy == nil:
			return "the box has no policy"
		case b.ID == "" && (b.Source != "" || b.Adopts || s.delivery.PlanID != ""):
			return "the plan has no id"
		case b.ID != "":
			return idFault(b.ID)
		}
	case PlanLoaded:
		if b.Plan != s.delivery.Plan || !s.delivery.Loading {
			return "that plan is not being loaded"
		}
	case QuestionAsked:
		return s.askFault(b)
	case QuestionAnswered:
		return s.answerFault(b, "")
	case Retried:
		if b.From != "" {
			return "a run has no phase"
		}
	case RoleLimited:
		if roleNumber(b.Role) < 0 {
			return fmt.Sprintf("there is no role %q", b.Role)
		}
	case AgentUnavailable:
		if b.Agent == "" || b.Role != "" && b.Until.IsZero() {
			return "an agent without a name, or one that a role has to do without for ever"
		}
	case AgentRestored:
		if b.Agent == "" {
			return "the agent has no name"
		}
	case BaseMoved:
		if b.From != s.delivery.Base || b.To == "" || b.To == b.From {
			return fmt.Sprintf("the base is at %q", s.delivery.Base)
		}
	case CommitsStored:
		return s.storedFault("", b)
	case BundleRejected:
		return s.rejectedFault("", b)
	}
	return ""
}

func (s *State) askFault(b QuestionAsked) string {
	if want := fmt.Sprintf("Q-%d", len(s.delivery.Questions)+1); b.Question != want {
		return "the next question is " + want
	}
	return ""
}

func (s *State) answerFault(b QuestionAnswered, work string) string {
	q, known := s.Question(b.Question)
	if !known || !q.Open() || q.Work != work {
		return fmt.Sprintf("%s is not an open question about it", b.Question)
	}
	return ""
}

// taskFault validates an event about planned work.
func (s *State) taskFault(e *signalbox.Event, body body, w *Work) string {
	switch b := body.(type) {
	case QuestionAsked:
		return s.askFault(b)
	case QuestionAnswered:
		return s.answerFault(b, w.ID)
	case MergeRequested:
		if w.Phase != signalbox.PhaseReadyForMerge || w.Task.Audited {
			return "a merge is requested once, in READY_FOR_MERGE"
		}
		return cmp.Or(commitFault(w, b.Commit), holderFault(w, signalbox.RoleAuditor, signalbox.RoleHealthAuditor))
	case MergeApproved:
		return commitFault(w, b.Commit)
	case MergePrepared:
		return cmp.Or(commitFault(w, b.Tip), liveFault(e, w, b.Epoch), roleFault(w, signalbox.RoleMerger))
	case ConflictFound:
		return conflictFault(e, w, b)
	case CommitsStored:
		if w.Phase == signalbox.PhaseCompleted && s.storedCommit(w.ID, b.Commit) == nil {
			return "it is completed"
		}
		return s.storedFault(w.ID, b)
	case BundleRejected:
		return s.rejectedFault(w.ID, b)
	case Delivered:
		return s.deliveryFault(e, w, b)
	case Merged:
		return s.mergedFault(e, b, w)
	case BaselineAccepted:
		return s.acceptedFault(b, w)
	case RemediationNeeded:
		if r, known := s.Work(b.Remediation); !known || r.Task == nil || r.Task.Kind != KindRemediation || r.Done() {
			return "there is no such remediation"
		}
	case RemediationEnded:
		if w.Task.Remedy != b.Remediation {
			return "it does not wait for that remediation"
		}
	case ReworkOrdered:
		if b.Cause == FindingHuman && (w.Done() || w.Task.Merge != nil || w.Task.Kind != KindTask && w.Task.Kind != KindRemediation) {
			return "it is done, is being merged, or has no developer"
		}
		return commitFault(w, b.Commit)
	case Retried:
		if b.From != "" && !slices.Contains(w.RetryPhases(), retryStep(b.From)) {
			return fmt.Sprintf("it cannot restart in %s", b.From)
		}
	case MessageSent:
		if w.Done() {
			return "it is done"
		}
	case MessageDelivered:
		return deliveredFault(e, w, b)
	case TaskReplanned:
		if w.Task.Kind != KindTask || w.Phase == signalbox.PhaseCompleted {
			return "only a task that is not completed can be replanned"
		}
	case FilesLocked:
		for _, file := range b.Files {
			if owner, held := s.locks[file]; held && owner != w.ID {
				return fmt.Sprintf("%s has %q", owner, file)
			}
		}
	default:
		return holderEventFault(e, body, w)
	}
	return ""
}

// holderEventFault validates an event that only the holder of planned work can cause.
func holderEventFault(e *signalbox.Event, body body, w *Work) string {
	switch b := body.(type) {
	case AgentStarted:
		return liveFault(e, w, b.Epoch)
	case AgentTurnEnded:
		return liveFault(e, w, b.Epoch)
	case AgentSpent:
		return liveFault(e, w, b.Epoch)
	case AgentFailed:
		return liveFault(e, w, b.Epoch)
	case ProgressReported:
		return liveFault(e, w, b.Epoch)
	case SetupRan:
		return liveFault(e, w, b.Epoch)
	case BranchMoved:
		return liveFault(e, w, b.Epoch)
	case ChecksRan:
		return cmp.Or(liveFault(e, w, b.Epoch), roleFault(w, signalbox.RoleCI))
	case ConversationOpened:
		if !IsConversation(b.ID) {
			return "no agent program gives such an id"
		}
		return liveFault(e, w, b.Epoch)
	case SessionParked:
		return liveFault(e, w, b.Epoch)
	case SessionResumed:
		if w.Task.Parked == nil {
			return "the session is not parked"
		}
		return liveFault(e, w, b.Epoch)
	}
	return ""
}

// roleFault validates the role of the holder. A missing lease is for liveFault to report.
func roleFault(w *Work, role signalbox.Role) string {
	if w.Lease != nil && w.Lease.Role != role {
		return fmt.Sprintf("the %s must not report it", w.Lease.Role)
	}
	return ""
}

// commitFault validates the commit that an event names. Older events name none.
func commitFault(w *Work, commit string) string {
	if commit != "" && commit != w.Task.Commit {
		return fmt.Sprintf("the commit that was checked is %q", w.Task.Commit)
	}
	return ""
}

func holderFault(w *Work, roles ...signalbox.Role) string {
	if w.Lease == nil || !slices.Contains(roles, w.Lease.Role) {
		return fmt.Sprintf("no %s holds the work", roles[0])
	}
	return ""
}

func (s *State) mergedFault(e *signalbox.Event, b Merged, w *Work) string {
	switch {
	case w.Task.Kind == KindRemediation && w.Phase == signalbox.PhaseBlocked && b.Epoch == 0: // declared healthy
		return ""
	case w.Task.Unchanged && w.Phase == signalbox.PhaseBlocked && b.Epoch == 0 && b.Commit == "": // declared done
		return ""
	case b.Epoch == 0 && w.WaitsForRequest(): // merged elsewhere
		return commitFault(w, b.Tip)
	case b.Epoch == 0 && s.delivery.Policy.Shared:
		return holderFault(w, signalbox.RoleAuditor, signalbox.RoleHealthAuditor)
	}
	return cmp.Or(commitFault(w, b.Tip), liveFault(e, w, b.Epoch), roleFault(w, signalbox.RoleMerger))
}

// plannedPhaseFault enforces the gates: no task completes without passing its checks, its review and its audit, except one that
// changes nothing and that the human declares done.
func plannedPhaseFault(w *Work, b PhaseChanged) string {
	t := w.Task
	switch {
	case b.From != w.Phase:
		return fmt.Sprintf("the work is in %s", w.Phase)
	case !slices.Contains(plannedNext(w), b.To):
		return fmt.Sprintf("%s does not follow %s", b.To, b.From)
	case b.To == signalbox.PhaseReadyForReview && len(t.Failing) > 0:
		return "checks fail"
	case b.To == signalbox.PhaseReadyForMerge && t.Kind == KindTask && !t.Checked:
		return "the checks did not pass"
	case b.To == signalbox.PhaseCompleted && t.Kind == KindTask && !(t.Unchanged && w.Phase == signalbox.PhaseBlocked) && !(t.Checked && t.Reviewed && t.Audited):
		return "it did not pass its checks, its review and its audit"
	case b.To == signalbox.PhaseCompleted && t.Kind == KindBaseline && w.Phase == signalbox.PhaseBlocked && len(t.Failing) > 0:
		return "the failing checks were not accepted"
	}
	return ""
}

// plannedNext returns the phases that planned work can move to.
func plannedNext(w *Work) []signalbox.Phase {
	const (
		draft, implementation, pending, ready = signalbox.PhaseDraft, signalbox.PhaseImplementation, signalbox.PhaseCIPending, signalbox.PhaseReadyForReview
		review, merge, done, blocked          = signalbox.PhaseReview, signalbox.PhaseReadyForMerge, signalbox.PhaseCompleted, signalbox.PhaseBlocked
	)
	kind := w.Task.Kind
	switch w.Phase {
	case draft:
		return []signalbox.Phase{implementation, blocked}
	case implementation:
		if kind == KindExpert {
			return []signalbox.Phase{done, blocked}
		}
		return []signalbox.Phase{pending, blocked}
	case pending:
		switch kind {
		case KindBaseline:
			return []signalbox.Phase{done, blocked}
		case KindRemediation:
			return []signalbox.Phase{review, implementation, blocked}
		}
		return []signalbox.Phase{ready, implementation, blocked}
	case ready:
		return []signalbox.Phase{review, merge, implementation, pending, blocked} // a claim by hand does not change the phase to REVIEW first
	case review:
		return []signalbox.Phase{merge, implementation, pending, blocked}
	case merge: // a retry goes back to the checks, or to the review
		if kind == KindRemediation {
			return []signalbox.Phase{done, implementation, pending, review, blocked}
		}
		return []signalbox.Phase{done, implementation, pending, ready, blocked}
	case blocked:
		if kind == KindRemediation || kind == KindBaseline || w.Task.Unchanged {
			return []signalbox.Phase{w.BlockedFrom, done}
		}
		if w.BlockedFrom == merge { // the human may send it back instead of opening another pull request
			return []signalbox.Phase{merge, implementation, afterRemediation(merge)}
		}
		if kind == KindTask && w.BlockedFrom == pending { // the human does not allow its large files
			return []signalbox.Phase{pending, implementation}
		}
		return []signalbox.Phase{w.BlockedFrom, afterRemediation(w.BlockedFrom)}
	}
	return nil
}
