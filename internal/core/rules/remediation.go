package rules

import (
	"fmt"
	"strings"

	"signalbox"
)

// maxRemediations is how many remediations a task can request before the human is asked.
const maxRemediations = 3

func (d *decider) enterRemediation(h report) {
	d.requestRemediation(h, h.Fields.Summary)
	d.release(h, h.Signal)
}

// requestRemediation blocks a task or a baseline until a remediation is over: the one in progress,
// or a new one.
func (d *decider) requestRemediation(h report, issue string) {
	if n := h.w.Task.Counts.Remedies; n >= maxRemediations {
		d.block(h, AskedBlocked, h.Body, "%s is blocked again after %d remediations: %s", h.w.ID, n,
			inWords(issue))
		return
	}
	// a remediation, and a request to an expert, cannot wait for a remediation
	if h.w.Task.Kind != KindTask && h.w.Task.Kind != KindBaseline {
		d.block(h, AskedBlocked, h.Body, "%s is blocked: %s", h.w.ID, inWords(issue))
		return
	}
	d.recordFor(h, RemediationNeeded{d.openRemediation(h.session, h.actor),
		sanitize(issue, maxText), h.Body})
	d.move(h, signalbox.PhaseBlocked)
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
func (d *decider) dispatchHealthAuditor(h report) {
	d.move(h, signalbox.PhaseCIPending)
	d.release(h, h.Signal)
}

func (d *decider) exitRemediation(h report) {
	if len(h.w.Task.Failing) > 0 {
		d.failRemediation(h, HealthAudited{Healthy: true, Contradiction: true,
			Reason: "the checks fail: " + joinSome(ChecksInWords(h.w.Task.Failing))})
		return
	}
	d.recordFor(h, HealthAudited{Healthy: true})
	d.move(h, signalbox.PhaseReadyForMerge)
	if d.s.run.Policy.Shared {
		h.w = withPhase(h.w, signalbox.PhaseReadyForMerge)
		d.complete(h)
		d.endRemediation(h.w, h.actor)
		return
	}
	d.recordFor(h, MergeRequested{h.w.Task.Commit})
	d.release(h, h.Signal)
}

// withPhase returns a copy of w in another phase, for the rest of a decision that has moved it.
func withPhase(w *Work, phase signalbox.Phase) *Work {
	changed := *w
	changed.Phase = phase
	return &changed
}

func (d *decider) retryRemediation(h report) {
	d.failRemediation(h, HealthAudited{Reason: sanitize(h.Fields.Summary, 1000)})
}

// failRemediation starts another attempt of a remediation, and asks the human when the limit is
// reached.
func (d *decider) failRemediation(h report, audited HealthAudited) {
	d.recordFor(h, audited)
	attempt := h.w.Task.Attempts + 1
	d.recordFor(h, RemediationRetried{attempt, audited.Reason})
	d.move(h, signalbox.PhaseImplementation)
	if limit := d.s.run.Policy.Limits.Remediations; attempt >= limit {
		h.w = withPhase(h.w, signalbox.PhaseImplementation)
		d.block(h, AskedRemediation, h.Body,
			"remediation %s has failed %s, last: %s. Retry with guidance, declare healthy, or halt?",
			h.w.ID, times(attempt), strings.TrimRight(inWords(audited.Reason), ". \n"))
	}
	d.release(h, "health audit")
}

// closeRemediation ends a remediation because the human declared the base healthy.
func (d *decider) closeRemediation(w *Work, actor, question string) {
	for _, other := range remove(w.Task.Questions, question) {
		d.record(w.ID, "", actor, QuestionAnswered{Question: other, Withdrawn: true})
	}
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
