package rules

import (
	"slices"

	"signalbox"
)

// nextPhases returns the phases that work opened by hand can move to.
func nextPhases(w *Work) []signalbox.Phase {
	if w.Phase == signalbox.PhaseBlocked {
		return []signalbox.Phase{w.BlockedFrom}
	}
	if w.checksFailed() {
		return []signalbox.Phase{signalbox.PhaseImplementation}
	}
	completed := signalbox.ExitSignal{PhaseCompleted: w.Phase, ExitReason: signalbox.ExitCompleted}
	next, ok := completed.NextPhase()
	if !ok {
		return nil
	}
	return []signalbox.Phase{next, signalbox.PhaseBlocked}
}

// plannedNext returns the phases that planned work can move to.
func plannedNext(w *Work) []signalbox.Phase {
	const (
		draft, implementation = signalbox.PhaseDraft, signalbox.PhaseImplementation
		pending, ready        = signalbox.PhaseCIPending, signalbox.PhaseReadyForReview
		review, merge         = signalbox.PhaseReview, signalbox.PhaseReadyForMerge
		done, blocked         = signalbox.PhaseCompleted, signalbox.PhaseBlocked
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
	case ready: // a claim by hand does not change the phase to REVIEW first
		return []signalbox.Phase{review, merge, implementation, pending, blocked}
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
		// the human may send it back instead of opening another pull request
		if w.BlockedFrom == merge {
			return []signalbox.Phase{merge, implementation, afterRemediation(merge)}
		}
		// the human does not allow its large files
		if kind == KindTask && w.BlockedFrom == pending {
			return []signalbox.Phase{pending, implementation}
		}
		return []signalbox.Phase{w.BlockedFrom, afterRemediation(w.BlockedFrom)}
	}
	return nil
}

// enter moves the work to a phase.
func (w *Work) enter(phase signalbox.Phase) {
	if w.Task != nil {
		task := *w.Task
		w.Task = &task
		task.enter(w.Phase, phase)
	}
	if w.Checks != nil && phase == signalbox.PhaseReadyForReview {
		passed := *w.Checks
		passed.Failures, passed.Finding = 0, nil
		w.Checks = &passed
	}
	if phase == signalbox.PhaseBlocked {
		w.BlockedFrom = w.Phase
	} else {
		w.BlockedFrom, w.Notes, w.NotesBlob = "", "", signalbox.Hash{}
	}
	w.Phase = phase
}

// enter updates a task that changes its phase: a new implementation has not passed any gate, and
// one that passes the checks has no findings left.
func (t *Task) enter(from, to signalbox.Phase) {
	if to == signalbox.PhaseCompleted {
		t.endFindings(FindingSuperseded)
		t.Locks = nil
		t.dropStored()
	}
	again := to == signalbox.PhaseImplementation || to == signalbox.PhaseCIPending
	if to == signalbox.PhaseBlocked || from == signalbox.PhaseBlocked && !again {
		return
	}
	if to == signalbox.PhaseCIPending {
		t.Unchanged = false
	}
	switch to {
	case signalbox.PhaseImplementation, signalbox.PhaseCIPending:
		t.Gates, t.Merge = Gates{}, nil
	case signalbox.PhaseReadyForReview:
		t.Gates = Gates{Checked: true} // the review may be done again
		t.Findings, t.Context = nil, ""
	case signalbox.PhaseReview:
		if t.Kind == KindRemediation { // which is not READY_FOR_REVIEW before
			t.dropFindings(FindingHuman)
		}
	case signalbox.PhaseReadyForMerge:
		t.Reviewed, t.Context = t.Judgement != JudgeAudit, ""
	}
}

// recordNextPhase stores the new phase with the signal that caused it, for the answer if the signal
// is sent again.
func (s *register) recordNextPhase(lease *signalbox.Lease, to signalbox.Phase) {
	session, _ := s.Session(lease.Session)
	if n := len(session.Exits); n == 0 || session.Exits[n-1].Epoch != lease.Epoch {
		return
	}
	s.changeSession(lease.Session, func(session *Session) {
		session.Exits = slices.Clone(session.Exits)
		session.Exits[len(session.Exits)-1].Next = to
	})
}
