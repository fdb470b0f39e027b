package rules

import (
	"fmt"
	"strings"

	"signalbox"
)

// maxRemediations is how many remediations a task can request before the human is asked.
const maxRemediations = 3

func (h report) enterRemediation() {
	h.requestRemediation(h.Fields.Summary)
	h.release(h.Signal)
}

// requestRemediation blocks a task or a baseline until a remediation is over: the one in progress,
// or a new one.
func (h report) requestRemediation(issue string) {
	if n := h.w.Task.Counts.Remedies; n >= maxRemediations {
		h.block(AskedBlocked, h.Body, "%s is blocked again after %d remediations: %s", h.w.ID, n,
			inWords(issue))
		return
	}
	// a remediation, and a request to an expert, cannot wait for a remediation
	if h.w.Task.Kind != KindTask && h.w.Task.Kind != KindBaseline {
		h.block(AskedBlocked, h.Body, "%s is blocked: %s", h.w.ID, inWords(issue))
		return
	}
	h.note(RemediationNeeded{h.openRemediation(h.session, h.actor),
		sanitize(issue, maxText), h.Body})
	h.move(signalbox.PhaseBlocked)
}

// openRemediation returns the id of the remediation in progress, or of a new one if there is none.
func (d *decider) openRemediation(session, actor string) string {
	id := d.s.remediation()
	if id == "" {
		id = fmt.Sprintf("R-%d", d.s.run.Remediations+1)
		d.record(id, session, actor, TaskPlanned{Kind: KindRemediation, Title: "repair the base",
			Phase: signalbox.PhaseImplementation, Order: d.s.run.Orders})
	}
	return id
}

// remediation returns the id of the remediation in progress, "" if there is none.
func (s *delivery) remediation() string {
	if s.open[KindRemediation] == 0 {
		return ""
	}
	return fmt.Sprintf("R-%d", s.run.Remediations)
}

// dispatchHealthAuditor moves a remediation to the checks. The health auditor comes after them.
func (h report) dispatchHealthAuditor() {
	h.move(signalbox.PhaseCIPending)
	h.release(h.Signal)
}

func (h report) exitRemediation() {
	if len(h.w.Task.Failing) > 0 {
		h.failRemediation(HealthAudited{Healthy: true, Contradiction: true,
			Reason: "the checks fail: " + joinSome(ChecksInWords(h.w.Task.Failing))})
		return
	}
	h.note(HealthAudited{Healthy: true})
	h.move(signalbox.PhaseReadyForMerge)
	if h.s.run.Policy.Shared {
		h.w = withPhase(h.w, signalbox.PhaseReadyForMerge)
		h.complete()
		h.endRemediation(h.w, h.actor)
		return
	}
	h.note(MergeRequested{h.w.Task.Commit})
	h.release(h.Signal)
}

// withPhase returns a copy of w in another phase, for the rest of a decision that has moved it.
func withPhase(w *Work, phase signalbox.Phase) *Work {
	changed := *w
	changed.Phase = phase
	return &changed
}

func (h report) retryRemediation() {
	h.failRemediation(HealthAudited{Reason: sanitize(h.Fields.Summary, 1000)})
}

// failRemediation starts another attempt of a remediation, and asks the human when the limit is
// reached.
func (h report) failRemediation(audited HealthAudited) {
	h.note(audited)
	attempt := h.w.Task.Attempts + 1
	h.note(RemediationRetried{attempt, audited.Reason})
	h.move(signalbox.PhaseImplementation)
	if limit := h.s.run.Policy.Limits.Remediations; attempt >= limit {
		h.w = withPhase(h.w, signalbox.PhaseImplementation)
		h.block(AskedRemediation, h.Body,
			"remediation %s has failed %s, last: %s. Retry with guidance, declare healthy, or halt?",
			h.w.ID, times(attempt), strings.TrimRight(inWords(audited.Reason), ". \n"))
	}
	h.release("health audit")
}

// closeRemediation ends a remediation because the human declared the base healthy.
func (d *decider) closeRemediation(w *Work, actor, question string) {
	d.withdrawQuestions(w, actor, question)
	d.record(w.ID, "", actor, Merged{})
	d.record(w.ID, "", actor, PhaseChanged{w.Phase, signalbox.PhaseCompleted})
	d.answer.Phase = signalbox.PhaseCompleted
	d.endRemediation(w, actor)
}

// endRemediation runs the checks on the base again, and continues the tasks that waited for the
// remediation.
func (d *decider) endRemediation(r *Work, actor string) {
	d.checkBase(actor)
	for w := range d.s.Works() {
		if w.Task == nil || w.Task.Remedy != r.ID || w.Task.Kind == KindBaseline {
			continue
		}
		d.record(w.ID, "", actor, RemediationEnded{r.ID})
		if w.Phase == signalbox.PhaseBlocked && len(w.Task.Questions) == 0 {
			d.record(w.ID, "", actor, PhaseChanged{w.Phase, afterRemediation(w.BlockedFrom)})
		}
	}
}

// afterRemediation returns the phase in which work continues that was blocked in the given phase.
// Work that had passed its checks is checked again with the new base, and then reviewed and
// audited.
func afterRemediation(from signalbox.Phase) signalbox.Phase {
	switch from {
	case signalbox.PhaseReadyForReview, signalbox.PhaseReview, signalbox.PhaseReadyForMerge:
		return signalbox.PhaseCIPending
	}
	return from
}
