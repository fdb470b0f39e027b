package rules

import (
	"slices"
	"strings"

	"signalbox"
)

// retrySteps are the phases in which a task or a remediation can be restarted, in their order.
// REVIEW stands for READY_FOR_REVIEW too: the same role works in both.
var retrySteps = []signalbox.Phase{signalbox.PhaseDraft, signalbox.PhaseImplementation,
	signalbox.PhaseCIPending, signalbox.PhaseReview, signalbox.PhaseReadyForMerge}

// RetryPhases returns the phases in which an order can restart the work: the one that it has
// reached, and those before it. There are none for work that has only one phase, was opened by
// hand, is completed, or is being merged. A task that has been specified is not drafted again, and
// a remediation has no auditor.
func (w *Work) RetryPhases() (phases []signalbox.Phase) {
	t := w.Task
	if t == nil || t.Kind != KindTask && t.Kind != KindRemediation ||
		w.Phase == signalbox.PhaseCompleted || t.Merge != nil {
		return nil
	}
	reached := slices.Index(retrySteps, retryStep(w.step()))
	for i, phase := range retrySteps {
		switch {
		case i > reached, phase == signalbox.PhaseDraft && i < reached,
			phase == signalbox.PhaseReadyForMerge && t.Kind == KindRemediation:
		default:
			phases = append(phases, phase)
		}
	}
	return phases
}

// step returns the phase of work, or the one in which it continues if it is blocked.
func (w *Work) step() signalbox.Phase {
	if w.Phase == signalbox.PhaseBlocked {
		return w.BlockedFrom
	}
	return w.Phase
}

func retryStep(phase signalbox.Phase) signalbox.Phase {
	if phase == signalbox.PhaseReadyForReview {
		return signalbox.PhaseReview
	}
	return phase
}

// retryTarget returns the phase that work moves to if it is restarted in a phase. Dispatching moves
// a task from READY_FOR_REVIEW to REVIEW.
func (w *Work) retryTarget(from signalbox.Phase) signalbox.Phase {
	switch step := w.step(); {
	case retryStep(from) == retryStep(step):
		return step
	case retryStep(from) == signalbox.PhaseReview && w.Task.Kind == KindTask:
		return signalbox.PhaseReadyForReview
	}
	return from
}

// checkRetry refuses a phase or a note for an order that does not restart a task.
func (c Order) checkRetry() error {
	if c.From == "" && c.Note == "" {
		return nil
	}
	if c.What != OrderRetry || c.Work == "" {
		return refusef(signalbox.CodeUsage, "name the task to restart: signalbox retry TASK",
			"only the retry of a task has a phase and a note")
	}
	if c.Note == "" {
		return nil
	}
	return checkLongText(c.Note, c.Body)
}

// checkFrom refuses a phase in which the work cannot be restarted, and a note that no agent would
// get.
func (c Order) checkFrom(w *Work) error {
	if c.From != "" && !slices.Contains(w.RetryPhases(), retryStep(c.From)) {
		return c.refuseFrom(w)
	}
	switch {
	case c.Note == "":
	case w.Task.Kind == KindBaseline:
		return refusef(signalbox.CodeFailed, "retry it without a note",
			"'%s' runs the checks on the base, and no agent works on it", w.ID)
	case w.Task.Audited && c.From == "":
		return refusef(signalbox.CodeFailed,
			"name the phase in which an agent starts: signalbox retry "+w.ID+" --from "+
				string(signalbox.PhaseReadyForMerge),
			"work '%s' is ready to merge, so no agent would get the note", w.ID)
	}
	return nil
}

// recordNote gives the note to the next agent: to an author as a finding of the human, which is the
// first in its prompt until work with it passes its checks, and to others as a message.
func (c Order) recordNote(d *decider, w *Work) {
	switch {
	case c.Note == "":
	case d.answer.Phase == signalbox.PhaseImplementation && w.Task.Kind != KindExpert:
		d.record(w.ID, "", c.Actor,
			ReworkOrdered{Cause: FindingHuman, Count: len(w.Task.Corrections) + 1,
				Summary: shortenText(c.Note), Body: c.Body})
		report{decider: d, w: w, holder: holder{actor: c.Actor}}.raise(FindingHuman, w.Task.Commit,
			shortenText(c.Note))
	default:
		d.record(w.ID, "", c.Actor, MessageSent{Text: shortenText(c.Note),
			Body: c.Body})
	}
}

func (c Order) refuseFrom(w *Work) error {
	switch t := w.Task; {
	case t.Merge != nil: // the base may have it already
		return refusef(signalbox.CodeConflict,
			"wait until a run has recorded the result; if it is merged, add a new task to the plan",
			"work '%s' is being merged", w.ID)
	case t.Kind == KindBaseline || t.Kind == KindExpert:
		return refusef(signalbox.CodeFailed, "retry it without a phase",
			"'%s' is a %s, which has only one phase", w.ID, t.Kind)
	case !slices.Contains(signalbox.Phases(), c.From):
		return refusef(signalbox.CodeUsage, "use "+phaseList(w), "there is no phase %q",
			sanitize(string(c.From), 100))
	}
	return refusef(signalbox.CodeFailed, "use "+phaseList(w),
		"work '%s' cannot restart in %s: it is in %s", w.ID, c.From, w.step())
}

// phaseList returns the phases in which work can be restarted, for people.
func phaseList(w *Work) string {
	var names []string
	for _, phase := range w.RetryPhases() {
		names = append(names, string(phase))
	}
	return strings.Join(names, " or ")
}
