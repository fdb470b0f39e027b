package rules

import (
	"fmt"
	"slices"
	"strings"

	"signalbox"
)

// A baseline, B-1, B-2, …, runs the checks on the base. While it is open no task starts. If checks
// fail, the base is red, and the baseline waits in BLOCKED for a remediation or for the human. Then
// it runs again, unless the human accepts the failures.

// AcceptedBase is a base whose failing checks the human accepted. Merges of signalbox's own move
// the commit, because they do not add failures.
type AcceptedBase struct {
	Commit  string   `json:"commit,omitempty"`
	Failing []string `json:"failing"`
}

// AcceptedFailures returns the checks, as "check|environment", that may fail because the human
// accepted that they fail on the base.
func (s *delivery) AcceptedFailures() []string {
	if a := s.run.Accepted; a != nil && a.Commit == s.run.Base {
		return a.Failing
	}
	return nil
}

// unaccepted returns the failing checks that the human has not accepted.
func (s *delivery) unaccepted(failing []string) []string {
	accepted := s.AcceptedFailures()
	return slices.DeleteFunc(slices.Clone(failing),
		func(name string) bool { return slices.Contains(accepted, name) })
}

// Baseline returns the open baseline, nil if there is none.
func (s *State) Baseline() *Work {
	if s.open[KindBaseline] == 0 {
		return nil
	}
	for n := s.run.Baselines; n > 0; n-- {
		if w, known := s.Work(fmt.Sprintf("B-%d", n)); known && !w.Done() {
			return w
		}
	}
	return nil
}

// RedBaseline returns the baseline that waits because checks fail on the base, nil if there is
// none.
func (s *State) RedBaseline() *Work {
	if b := s.Baseline(); b != nil && b.Phase == signalbox.PhaseBlocked {
		return b
	}
	return nil
}

// openBaseline adds a work item that runs the checks on the base.
func (d *decider) openBaseline(actor string) {
	d.baselines++
	n := d.s.run.Baselines + d.baselines
	d.record(fmt.Sprintf("B-%d", n), "", actor,
		TaskPlanned{Kind: KindBaseline, Title: "checks on the base",
			Phase: signalbox.PhaseCIPending, Order: n})
}

// checkBase makes sure that the checks run on the base as it is now: in a new baseline, or again in
// one that waits because they failed.
func (d *decider) checkBase(actor string) {
	b := d.s.Baseline()
	if b == nil {
		d.openBaseline(actor)
		return
	}
	if b.Phase != signalbox.PhaseBlocked {
		return
	}
	d.withdrawQuestions(b, actor, "")
	if b.Task.Remedy != "" {
		d.record(b.ID, "", actor, RemediationEnded{b.Task.Remedy})
	}
	d.record(b.ID, "", actor, PhaseChanged{b.Phase, b.BlockedFrom})
}

// checkRedBase runs the checks on the base again if some failed when they last ran, that was not
// accepted, and no baseline is open. It reports whether they run. Older rules left such a base, and
// so does a baseline that no task waits for.
func (d *decider) checkRedBase(actor string) bool {
	if d.s.open[KindBaseline] > 0 || len(d.s.unaccepted(d.s.run.Failing)) == 0 {
		return false
	}
	d.openBaseline(actor)
	return true
}

// judgeBase decides what follows from the results of a baseline. If checks fail, nothing is
// developed until a remediation has repaired the base, or the human has repaired or accepted it. A
// remediation is tried once. A failure that no commit repairs is for the human, and so is one that
// is left after a remediation or an answer.
func (c ReportChecks) judgeBase(h report) {
	if known := h.s.run.Base; known != "" && c.Commit != known {
		return // the base moved meanwhile: run them again
	}
	failing := h.s.unaccepted(failing(c.Rows))
	switch {
	case len(failing) == 0:
		h.move(signalbox.PhaseCompleted)
		h.endNeedlessRemediation(h.actor, "the checks pass on the base")
	case h.s.open[KindTask] == 0: // nothing is developed
		h.move(signalbox.PhaseCompleted)
	case c.hasCause(failing) || h.s.remediation() == "" && !h.s.triesRemediation(h.w):
		h.askBaseline(c)
		h.endNeedlessRemediation(h.actor, "the human is asked instead")
	default:
		h.Body = c.Body
		h.requestRemediation("these checks fail on the base: " +
			strings.Join(ChecksInWords(failing), ", "))
	}
}

// triesRemediation reports whether a remediation starts without asking the human if checks fail in
// the baseline. What stays on a branch does not repair the base.
func (s *delivery) triesRemediation(b *Work) bool {
	if how := s.run.Policy.Deliver; how == DeliverBranch || how == DeliverPush {
		return false
	}
	return b.Task.Counts.Remedies == 0 && len(b.Task.Answers) == 0 &&
		s.run.Policy.slots(signalbox.RoleRemediation) > 0
}

// hasCause reports whether one of the checks failed for a cause that no commit repairs.
func (c ReportChecks) hasCause(failing []string) bool {
	return slices.ContainsFunc(c.Rows,
		func(r CheckRow) bool { return r.Cause != "" && slices.Contains(failing, r.Name()) })
}

// askBaseline asks the human what to do about a base whose checks fail.
func (h report) askBaseline(c ReportChecks) {
	var failed []string
	for _, r := range c.Rows {
		if r.Passed {
			continue
		}
		text := fmt.Sprintf("%s on %s (exit status %d)", r.Check, r.Environment, r.Exit)
		if r.Cause != "" {
			text += ": " + r.Cause
		}
		failed = append(failed, text)
	}
	at := ""
	if c.Commit != "" {
		at = fmt.Sprintf(" at %.7s", c.Commit)
	}
	h.block(AskedBaseline, c.Body,
		"checks fail on the base%s, so no task starts: %s. Fix the cause and answer \"again\" to run the checks again; "+
			"answer \"repair\" to start a remediation; or answer \"accept\" to continue although they fail, which holds for this commit and these checks only",
		at, strings.TrimRight(joinSome(failed), ". "))
}

// answerBaseline carries out the human's decision about a red base. Everything but "accept" and
// "repair" runs the checks again, which costs nothing.
func (d *decider) answerBaseline(w *Work, q *Question, c AnswerQuestion) {
	if w.Phase != signalbox.PhaseBlocked {
		return
	}
	switch firstWord(c.Answer) {
	case "accept":
		d.withdrawQuestions(w, c.Actor, q.ID)
		d.record(w.ID, "", c.Actor, BaselineAccepted{d.s.run.Base, w.Task.Failing})
		d.record(w.ID, "", c.Actor, PhaseChanged{w.Phase, signalbox.PhaseCompleted})
		d.answer.Phase, d.answer.Understood = signalbox.PhaseCompleted,
			"continuing although they fail"
		d.endNeedlessRemediation(c.Actor, "the failures are accepted")
	case "repair":
		d.answer.Understood = "starting a remediation"
		issue := "these checks fail on the base: " + strings.Join(ChecksInWords(w.Task.Failing),
			", ") + "; the human says: " + c.Answer
		d.record(w.ID, "", c.Actor, RemediationNeeded{d.openRemediation("", c.Actor),
			sanitize(issue, maxText), q.Body})
	default:
		d.answer.Understood = "running the checks again"
		d.unblock(w, c.Actor, q.ID)
	}
}

// endNeedlessRemediation cancels a remediation that only baselines asked for, and that nothing
// waits for any more. One that is about to be merged needs no more agents, and is merged.
func (d *decider) endNeedlessRemediation(actor, reason string) {
	r, open := d.s.Work(d.s.remediation())
	if !open || r.Phase == signalbox.PhaseReadyForMerge || len(r.Task.Issues) == 0 {
		return
	}
	for _, issue := range r.Task.Issues {
		if w, known := d.s.Work(issue.Work); !known || w.Task == nil ||
			w.Task.Kind != KindBaseline {
			return
		}
	}
	for w := range d.s.Works() {
		if w.Task != nil && w.Task.Remedy == r.ID {
			return
		}
	}
	d.cancel(r, actor, reason)
}
