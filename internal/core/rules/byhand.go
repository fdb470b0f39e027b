package rules

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"signalbox"
)

// The checks of work that was opened by hand. A crew claims it in CI_PENDING and reports as it does
// for a task. Work that passes moves to READY_FOR_REVIEW. Work that fails returns to
// IMPLEMENTATION. If the checks could not run, the work is blocked until an operator unblocks it:
// it has no task about which a question could be asked.

// LastChecks is what the checks of work opened by hand last found.
type LastChecks struct {
	// Seq is the sequence of ChecksRan, and Epoch the lease under which they ran.
	Seq   uint64 `json:"seq"`
	Epoch uint64 `json:"epoch"`
	// Commit, Base, Ref and OnBase are those of ChecksRan.
	Commit string `json:"commit,omitempty"`
	Base   string `json:"base,omitempty"`
	Ref    string `json:"ref,omitempty"`
	OnBase bool   `json:"on_base,omitempty"`
	Passed bool   `json:"passed"`
	// Failing lists the checks that failed. Work can fail without them, for example because it
	// edits protected files.
	Failing []string `json:"failing,omitempty"`
	// Failures counts how often in a row the work was sent back, and Finding is what must be fixed,
	// nil if there is nothing.
	Failures int      `json:"failures,omitempty"`
	Finding  *Finding `json:"finding,omitempty"`
}

// maxRef is the longest name of a branch, tag or commit, in bytes.
const maxRef = 255

// checkRef refuses what cannot be the name of a branch, a tag or a commit. Expressions such as
// main~1 are refused too, because they can mean something else by the time of the checks.
func checkRef(ref string) error {
	bad := func(r rune) bool {
		return unicode.IsSpace(r) || !unicode.IsPrint(r) || strings.ContainsRune(`~^:?*[\`, r)
	}
	if len(ref) <= maxRef && utf8.ValidString(ref) && !strings.ContainsFunc(ref, bad) &&
		!strings.HasPrefix(ref, "-") && !strings.Contains(ref, "..") &&
		!strings.Contains(ref, "@{") {
		return nil
	}
	return refusef(signalbox.CodeUsage, "name a branch, a tag or a commit", "invalid ref '%s'",
		sanitize(ref, 100))
}

// checkRef refuses a ref where it has no meaning: only a developer knows where the work is, and a
// task has a branch of its own.
func (c Exit) checkRef(w *Work) error {
	switch {
	case c.Ref == "":
		return nil
	case w.Task != nil:
		return refusef(signalbox.CodeUsage, "leave it out: the task has a branch of its own",
			"work '%s' belongs to a plan and cannot name a ref", w.ID)
	case w.Phase != signalbox.PhaseImplementation:
		return refusef(signalbox.CodeUsage, "leave it out",
			"work '%s' is in %s: only %s names a ref", w.ID, w.Phase, signalbox.PhaseImplementation)
	}
	return checkRef(c.Ref)
}

// judgeByHand records the results of the checks of work opened by hand, and moves it.
func (c ReportChecks) judgeByHand(h report) error {
	if len(c.Rows) == 0 && c.Problem == "" {
		return refusef(signalbox.CodeUsage, "configure checks in signalbox.yaml",
			"no checks ran on work '%s'", h.w.ID)
	}
	ran := ChecksRan{Epoch: c.Epoch, Commit: c.Commit, Rows: c.Rows, Protected: c.Protected, Base: c.Base,
		Ref: c.Ref, OnBase: c.OnBase, Problem: sanitize(c.Problem, 1000)}
	h.answer.Seq = h.note(ran)
	if ran.passed() {
		h.move(signalbox.PhaseReadyForReview)
	} else {
		summary := ran.Problem
		if summary == "" {
			summary = c.summary(failing(c.Rows))
		}
		h.note(ReworkOrdered{Cause: ReworkChecks, Count: h.w.checkFailures() + 1,
			Summary: sanitize(summary, maxText), Body: c.Body})
		h.move(signalbox.PhaseImplementation)
	}
	h.release("checks")
	return nil
}

// byHand blocks work opened by hand whose checks could not run, so that it is not dispatched again
// and again.
func (c ReportFailure) byHand(h report) error {
	if h.role != signalbox.RoleCI {
		return notPlanned(h.w)
	}
	h.answer.Seq = h.note(AgentFailed{h.epoch, string(c.Cause), h.role, 1,
		sanitize(c.Detail, 1000)})
	h.move(signalbox.PhaseBlocked)
	h.release(string(c.Cause))
	return nil
}

func (w *Work) checkFailures() int {
	if w.Checks == nil {
		return 0
	}
	return w.Checks.Failures
}

// checksFailed reports whether the checks failed under the live lease.
func (w *Work) checksFailed() bool {
	return w.Checks != nil && w.Lease != nil && w.Checks.Epoch == w.Lease.Epoch && !w.Checks.Passed
}

// WaitingForChecks returns the work items opened by hand that no session holds and that wait for
// their checks.
func (s *register) WaitingForChecks() []string {
	var waiting []string
	for i := range s.free[phaseNumber(signalbox.PhaseCIPending)].all() {
		waiting = append(waiting, s.works[i].ID)
	}
	return waiting
}

// delaysChecks reports whether tasks wait for their checks only because the checks of work opened
// by hand are running.
func (s *State) delaysChecks() bool {
	n := roleNumber(signalbox.RoleCI)
	if s.run.Paused || s.run.Policy == nil || s.ready[n].first() < 0 {
		return false
	}
	for _, i := range s.leased {
		if s.works[i].Present.Crew {
			return true
		}
	}
	return false
}
