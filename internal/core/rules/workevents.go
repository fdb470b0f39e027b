package rules

import (
	"fmt"
	"slices"

	"signalbox"
)

// The types of events about work, planned or opened by hand.
const (
	TypeWorkOpened    = "WorkOpened"
	TypePhaseChanged  = "PhaseChanged"
	TypeWorkUnblocked = "WorkUnblocked"
)

// WorkOpened adds a work item.
type WorkOpened struct {
	Title string          `json:"title,omitempty"`
	Phase signalbox.Phase `json:"phase"`
	// Ref is the branch, tag or commit that has the work, absent if it is not known yet.
	Ref string `json:"ref,omitempty"`
}

func (b WorkOpened) fault(s *State, e *signalbox.Event) string {
	if _, exists := s.Work(e.Work); exists {
		return "the work already exists"
	}
	if b.Phase.ClaimableBy() == "" {
		return fmt.Sprintf("work cannot start in phase %q", b.Phase)
	}
	return idFault(e.Work)
}

func (b WorkOpened) apply(s *State, e *signalbox.Event) {
	s.addWork(&Work{ID: e.Work, Title: b.Title, Phase: b.Phase, Opened: e.Time, Ref: b.Ref})
}

// PhaseChanged moves the work to another phase.
type PhaseChanged struct {
	From signalbox.Phase `json:"from"`
	To   signalbox.Phase `json:"to"`
}

func (b PhaseChanged) fault(s *State, e *signalbox.Event) string {
	return s.workFault(e, func(w *Work) string {
		switch {
		case w.Task != nil:
			return b.plannedFault(w)
		case w.Phase != signalbox.PhaseBlocked && (w.Lease == nil || w.Lease.Session != e.Session):
			return "the session does not hold the work"
		case b.From != w.Phase:
			return fmt.Sprintf("the work is in %s", w.Phase)
		case !slices.Contains(nextPhases(w), b.To):
			return fmt.Sprintf("%s does not follow %s", b.To, b.From)
		}
		return ""
	})
}

// plannedFault enforces the gates: no task completes without passing its checks, its review and its
// audit, except one that changes nothing and that the human declares done.
func (b PhaseChanged) plannedFault(w *Work) string {
	t := w.Task
	declared := t.Unchanged && w.Phase == signalbox.PhaseBlocked
	switch {
	case b.From != w.Phase:
		return fmt.Sprintf("the work is in %s", w.Phase)
	case !slices.Contains(plannedNext(w), b.To):
		return fmt.Sprintf("%s does not follow %s", b.To, b.From)
	case b.To == signalbox.PhaseReadyForReview && len(t.Failing) > 0:
		return "checks fail"
	case b.To == signalbox.PhaseReadyForMerge && t.Kind == KindTask && !t.Checked:
		return "the checks did not pass"
	case b.To == signalbox.PhaseCompleted && t.Kind == KindTask && !declared &&
		!(t.Checked && t.reviewed() && t.Audited):
		return "it did not pass its checks, its review and its audit"
	case b.To == signalbox.PhaseCompleted && t.Kind == KindBaseline &&
		w.Phase == signalbox.PhaseBlocked && len(t.Failing) > 0:
		return "the failing checks were not accepted"
	}
	return ""
}

// apply moves the work. Completed work releases its files to the tasks that wait for them.
func (b PhaseChanged) apply(s *State, e *signalbox.Event) {
	w, _ := s.Work(e.Work)
	s.changeWork(e.Work, func(w *Work) { w.enter(b.To) })
	if w.Task == nil {
		return
	}
	if w.Lease != nil {
		s.recordNextPhase(w.Lease, b.To)
	}
	submitted := b.From == signalbox.PhaseImplementation && b.To == signalbox.PhaseCIPending
	if t := w.Task; submitted && t.Saved != nil &&
		(w.Lease == nil || w.Lease.Epoch != t.Saved.Epoch) {
		// Somebody else than the author who saved that says that the work is ready, such as a
		// person who worked on it by hand.
		s.changeTask(e.Work, func(_ *Work, t *Task) { t.Saved = nil })
	}
	if b.To == signalbox.PhaseCompleted {
		s.grantFiles(w.Task.Locks)
	}
}

// WorkUnblocked records why blocked work can continue.
type WorkUnblocked struct {
	Note string `json:"note"`
}

func (WorkUnblocked) fault(s *State, e *signalbox.Event) string {
	return s.workFault(e, func(w *Work) string {
		if w.Phase != signalbox.PhaseBlocked {
			return "the work is not blocked"
		}
		return ""
	})
}

// apply changes nothing: the PhaseChanged after it moves the work.
func (WorkUnblocked) apply(*State, *signalbox.Event) {}
