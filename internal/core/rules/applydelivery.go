package rules

import (
	"crypto/sha256"
	"slices"

	"signalbox"
)

// applyDelivery folds an event of the delivery loop. Texts that it composes are part of the state and must never
// change: the same history must always give the same state.
func (s *State) applyDelivery(e *signalbox.Event, body body) {
	switch b := body.(type) {
	case PolicySet, PlanOpened, PlanLoaded, TaskPlanned, TaskReplanned:
		s.applyPlan(e, body)
	case QuestionAsked, QuestionAnswered:
		s.applyQuestion(e, body)
	case ExpertRequested, ExpertAdvised, ExpertRegistered, SessionParked, SessionResumed:
		s.applyExpert(e, body)
	case FilesLocked, LocksYielded, FileWaited, OverlapNoted:
		s.applyFiles(e, body)
	case Paused, Resumed, Cancelled, Retried, MergeApproved:
		s.applyOrder(e, body)
	case RoleLimited:
		limited := slices.DeleteFunc(slices.Clone(s.delivery.Limited), func(l RoleLimit) bool { return l.Role == b.Role })
		s.delivery.Limited = append(limited, RoleLimit{b.Role, b.Until.UTC()})
	case AgentUnavailable, AgentRestored:
		s.applyAgent(e, body)
	case UnknownSignalRecovery:
		s.changeTask(e.Work, func(_ *Work, t *Task) {
			t.Counts.Unknown = b.Attempt
			if b.Level == LevelQuestion {
				t.Counts.Confirms++
			}
		})
		w, _ := s.Work(e.Work)
		s.noteAgentWorks(w)
	case AgentFailed:
		s.changeTask(e.Work, func(w *Work, t *Task) { t.apply(e, body, w) })
		if w, _ := s.Work(e.Work); FailCause(b.Cause) == FailCrash {
			s.changeAgent(w.Task.Agent, func(a *AgentState) { a.changeRole(b.Role, func(r *AgentCrashes) { r.Crashes++ }) })
		}
	case AgentSpent:
		s.applySpent(e, b.Spent.estimated(b.Estimated))
	case AgentStarted:
		s.openWindow(e.Time)
		s.changeTask(e.Work, func(w *Work, t *Task) {
			t.Starts, t.Running = incremented(t.Starts, w.Lease.Role), Spent{}
			if t.Agent != "" {
				t.Agent = b.Agent
			}
			if b.Resumes == "" {
				t.Conversation = nil
			}
		})
	case AgentTurnEnded:
		s.applySpent(e, b.Spent.estimated(b.Estimated))
		s.changeTask(e.Work, func(w *Work, t *Task) {
			t.Running, t.Output = Spent{}, b.Output
			t.endConversationTurn(b)
			if b.Thread != nil {
				t.Thread = b.Thread
			}
			if b.Interrupted && w.Lease != nil && w.Lease.Role.IsAuthor() {
				t.Context = interruptedContext
			}
			if b.Commit != "" {
				t.Saved = &SavedWork{b.Commit, b.Epoch}
			}
		})
	case BaseMoved:
		s.applyBase(e, b)
	case CommitsStored:
		s.applyStored(e, b)
	case BundleRejected:
		s.delivery.Rejected = append(slices.Clip(s.delivery.Rejected), RejectedBundle{BundleRejected: b})
	case ChecksRan:
		s.applyChecks(e, b)
	case BaselineAccepted:
		s.applyAccepted(e, b)
	case RemediationNeeded:
		s.changeTask(e.Work, func(_ *Work, t *Task) { t.Remedy, t.Counts.Remedies = b.Remediation, t.Counts.Remedies+1 })
		s.changeTask(b.Remediation, func(_ *Work, t *Task) {
			t.Issues = append(slices.Clip(t.Issues), Finding{Cause: "blocked", Summary: b.Issue, Body: b.Body, Work: e.Work, Seq: e.Seq})
		})
	case Merged:
		if s.delivery.Base != "" && s.delivery.Base == b.Before {
			if a := s.delivery.Accepted; a != nil && a.Commit == b.Before {
				s.delivery.Accepted = &AcceptedBase{b.Commit, a.Failing}
			}
			s.delivery.Base = b.Commit
		}
		s.changeTask(e.Work, func(_ *Work, t *Task) { t.Audited, t.Merge = true, nil })
	default:
		s.changeTask(e.Work, func(w *Work, t *Task) { t.apply(e, body, w) })
	}
}

// apply folds an event that changes only the task.
func (t *Task) apply(e *signalbox.Event, body body, w *Work) {
	switch b := body.(type) {
	case ProgressReported:
		t.Progress = &Progress{b.Activity, b.Percent, e.Time}
	case ReworkOrdered:
		t.rework(e, b, w)
	case IncompleteLogged:
		t.Counts.Incompletes = b.Count
		t.Context = "The developer before you could not finish: " + b.Summary
	case BlockerAdded:
		t.Counts.Waits = b.Count
		for _, id := range b.On {
			t.Waits = appendUnique(t.Waits, id)
		}
	case TaskExpanded:
		t.Specification = b.Body
		for _, id := range b.SubTasks {
			t.Waits = appendUnique(t.Waits, id)
		}
	case MergeRequested:
		t.Audited = true
	case RemediationEnded:
		t.Remedy = ""
	case RemediationRetried:
		t.Attempts = b.Attempt
		t.Findings = append(slices.Clip(t.Findings), Finding{Cause: findingHealth, Summary: b.Reason, Seq: e.Seq})
	case AgentSignalFailure:
		t.Counts.Unknown, t.Counts.Confirms = 0, 0
	case AgentFailed:
		t.Timeouts = incremented(t.Timeouts, b.Role)
		t.Context = b.Detail
	case ConversationOpened:
		t.Conversation = &Conversation{Agent: t.Agent, ID: b.ID, Role: w.Lease.Role, Epoch: b.Epoch}
	case ConflictFound:
		t.applyConflict(e, b)
	case MergePrepared:
		t.Merge = &PreparedMerge{b.Commit, b.Before}
	case Delivered:
		t.applyDelivered(b)
	case MessageSent, MessageDelivered:
		t.applyMessage(e, b)
	}
}

// interruptedContext is what the author after an interrupted one is told.
const interruptedContext = "An earlier agent was interrupted; its changes are in your working copy. Look at them first, and continue from there."

func (t *Task) rework(e *signalbox.Event, b ReworkOrdered, w *Work) {
	found := Finding{Cause: b.Cause, Summary: b.Summary, Body: b.Body, Seq: e.Seq}
	switch b.Cause {
	case ReworkReview:
		t.Counts.Reviews = b.Count
	case ReworkAudit:
		t.Counts.Audits = b.Count
	case ReworkChecks:
		t.Counts.Checks = b.Count
	case ReworkMerge:
		t.Counts.Merges = b.Count
	case ReworkUnchanged:
		t.Counts.Unchanged, t.Unchanged = b.Count, true
	case ReworkFileSize:
		t.Counts.Large = b.Count
		t.dropFindings(ReworkFileSize) // this one names all files
	case ReworkRequest:
		t.applySeen(b)
	case FindingHuman:
		found.Actor = e.Actor
		t.Corrections = append(slices.Clip(t.Corrections), found)
		t.Remedy = "" // it waits for a remediation in progress like all tasks
		t.resetCounts()
		if w.Lease != nil && w.Lease.Role.IsAuthor() {
			t.Context = interruptedContext
		}
	}
	t.Findings = append(slices.Clip(t.Findings), found)
	t.Conversation = nil
}

// enter updates a task that changes its phase: a new implementation has not passed any gate, and one that passes the
// checks has no findings left.
func (t *Task) enter(from, to signalbox.Phase) {
	if to == signalbox.PhaseCompleted {
		t.Locks = nil
		t.dropStored()
	}
	if to == signalbox.PhaseBlocked || from == signalbox.PhaseBlocked && to != signalbox.PhaseImplementation && to != signalbox.PhaseCIPending {
		return
	}
	if to == signalbox.PhaseCIPending {
		t.Unchanged = false
	}
	switch to {
	case signalbox.PhaseImplementation, signalbox.PhaseCIPending:
		t.Checked, t.Reviewed, t.Audited, t.Approved, t.Merge = false, false, false, false, nil
	case signalbox.PhaseReadyForReview:
		t.Checked, t.Findings, t.Context = true, nil, ""
		t.Reviewed, t.Audited, t.Approved = false, false, false // of a review that is done again
	case signalbox.PhaseReview:
		if t.Kind == KindRemediation { // which is not READY_FOR_REVIEW before
			t.dropFindings(FindingHuman)
		}
	case signalbox.PhaseReadyForMerge:
		t.Reviewed, t.Context = true, ""
	}
}

// applySignal folds an accepted signal. It resets the counts of turns without a signal and of failures, and remembers the
// signal, so that a repeated one is recognized.
func (s *State) applySignal(e *signalbox.Event, b SignalHeard) {
	if b.Ref != "" {
		s.changeWork(e.Work, func(w *Work) { w.Ref = b.Ref })
	}
	w, _ := s.Work(e.Work)
	s.noteAgentWorks(w)
	row, _ := signalbox.LineSignalNamed(b.Signal)
	if w.Task == nil || row.Urgent { // the result of the turn is still open
		return
	}
	s.changeTask(e.Work, func(_ *Work, t *Task) {
		t.Counts.Unknown, t.Counts.Confirms = 0, 0
		if b.Signal == signalbox.NameReadyForReview {
			t.Claimed = b.Body
		}
		if t.Timeouts[w.Lease.Role] > 0 {
			t.Timeouts = cloneCounts(t.Timeouts)
			delete(t.Timeouts, w.Lease.Role)
		}
	})
	if b.Dialect != signalbox.DialectLine { // exit signals are remembered by AgentSessionCompleted
		return
	}
	s.changeSession(e.Session, func(session *Session) {
		session.Exits = append(session.Exits, ExitRecord{Epoch: b.Epoch, Digest: sha256.Sum256(e.Data), Seq: e.Seq, Next: w.Phase})
	})
}

func (s *State) applyChecks(e *signalbox.Event, b ChecksRan) {
	w, _ := s.Work(e.Work)
	failed := failing(b.Rows)
	if w.Task.Kind == KindBaseline {
		s.delivery.Failing = failed
		if s.delivery.Base == "" {
			s.delivery.Base = b.Base
		}
	} else {
		failed = s.unaccepted(failed)
	}
	if w.Task.Kind == KindRemediation && len(b.Protected) > 0 { // it is not reviewed, so it must not change its own checks
		failed = append(failed, "protected files: "+joinSome(b.Protected))
	}
	if w.Task.Kind == KindRemediation && len(b.Steering) > 0 {
		failed = append(failed, "files that steer agents: "+joinSome(b.Steering))
	}
	if w.Task.Kind == KindRemediation && len(b.Large) > 0 {
		failed = append(failed, "large files: "+joinSome(b.Large))
	}
	s.changeTask(e.Work, func(_ *Work, t *Task) {
		t.Checks, t.Commit, t.Base, t.Failing, t.Differs, t.Steering = e.Seq, b.Commit, b.Base, failed, b.Differs, b.Steering
		if t.Conflict != nil {
			t.endConflict()
		}
	})
}

// changePhase moves work. Completed work releases its files to the tasks that wait for them.
func (s *State) changePhase(e *signalbox.Event, b PhaseChanged) {
	w, _ := s.Work(e.Work)
	s.changeWork(e.Work, func(w *Work) { w.enter(b.To) })
	if w.Task == nil {
		return
	}
	if w.Lease != nil {
		s.recordNextPhase(w.Lease, b.To)
	}
	if t := w.Task; b.From == signalbox.PhaseImplementation && b.To == signalbox.PhaseCIPending && t.Saved != nil && (w.Lease == nil || w.Lease.Epoch != t.Saved.Epoch) {
		// Somebody else than the author who saved that says that the work is ready, such as a person who worked on it by hand.
		s.changeTask(e.Work, func(_ *Work, t *Task) { t.Saved = nil })
	}
	if b.To == signalbox.PhaseCompleted {
		s.grantFiles(w.Task.Locks)
	}
}

// recordNextPhase stores the new phase with the signal that caused it, for the answer if the signal is sent again.
func (s *State) recordNextPhase(lease *signalbox.Lease, to signalbox.Phase) {
	session, _ := s.Session(lease.Session)
	if n := len(session.Exits); n == 0 || session.Exits[n-1].Epoch != lease.Epoch {
		return
	}
	s.changeSession(lease.Session, func(session *Session) {
		session.Exits = slices.Clone(session.Exits)
		session.Exits[len(session.Exits)-1].Next = to
	})
}
