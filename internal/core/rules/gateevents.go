package rules

import (
	"fmt"
	"slices"

	"signalbox"
)

// TypeGateSkipped is the type of the event about a gate that the plan does without.
const TypeGateSkipped = "GateSkipped"

// Review is which gates the plan asks for besides the checks of the project, which always run.
// Only a human sets it, in a plan file or with AddTask: sub-tasks of agents, remediations and work
// by hand have the zero value.
type Review string

const (
	ReviewFull   Review = ""       // critic and auditor
	ReviewCritic Review = "critic" // the critic, without the auditor
	ReviewChecks Review = "checks" // neither
)

// ParseReview returns the review that a plan names.
func ParseReview(name string) (Review, bool) {
	switch r := Review(name); {
	case name == "full":
		return ReviewFull, true
	case r == ReviewCritic, r == ReviewChecks:
		return r, true
	}
	return "", false
}

// The gates that can be skipped.
const (
	GateReview = "review"
	GateAudit  = "audit"
)

// maySkip reports whether the work needs no verdict of the critic or the auditor. Work that changes
// what steers agents, or a plan, always needs both: it decides what the next agents do, and who
// reviews that. So does work without a commit, because its changes are not known. Protected files
// need no condition, because work that edits one does not get past the checks.
func (w *Work) maySkip(gate string) bool {
	t := w.Task
	return t != nil && t.Kind == KindTask && t.Commit != "" && len(t.Steering) == 0 && !t.EditsPlan &&
		t.Judgement == "" &&
		(t.Review == ReviewChecks || t.Review == ReviewCritic && gate == GateAudit)
}

// GateSkipped records that work passes a gate without the verdict of an agent. It changes no phase:
// the PhaseChanged or the MergeRequested after it does.
type GateSkipped struct {
	Gate   string `json:"gate"` // review or audit
	Reason string `json:"reason"`
}

func (b GateSkipped) fault(s *State, e *signalbox.Event) string {
	return s.taskFault(e, func(w *Work) string {
		at := map[string]signalbox.Phase{GateReview: signalbox.PhaseReadyForReview,
			GateAudit: signalbox.PhaseReadyForMerge}[b.Gate]
		switch {
		case w.Phase != at:
			return fmt.Sprintf("the gate %q is not skipped in %s", b.Gate, w.Phase)
		case !w.maySkip(b.Gate):
			return "the work needs its " + b.Gate
		case w.Lease == nil || w.Lease.Session != e.Session:
			return "the session does not hold the work"
		}
		return ""
	})
}

func (b GateSkipped) apply(s *State, e *signalbox.Event) {
	s.changeTask(e.Work, func(_ *Work, t *Task) {
		t.Skipped = append(slices.Clip(t.Skipped), b.Gate)
	})
}

func (b GateSkipped) describe(*Describer, *signalbox.Event) (text, detail string) {
	return b.Gate + " skipped: " + b.Reason, ""
}

// skipGates moves work that has just passed its checks or its review past the gates that its plan
// does without. h.w is the work as it is then.
func (h report) skipGates() {
	reason := fmt.Sprintf("the plan asks for %s only", h.w.Task.Review)
	if h.w.Phase == signalbox.PhaseReadyForReview && h.w.maySkip(GateReview) {
		h.note(GateSkipped{GateReview, reason})
		h.move(signalbox.PhaseReadyForMerge)
		h.w = withPhase(h.w, signalbox.PhaseReadyForMerge)
	}
	if h.w.Phase != signalbox.PhaseReadyForMerge || !h.w.maySkip(GateAudit) {
		return
	}
	h = h.resolve(ReworkChecks, ReworkReview, ReworkAudit, ReworkRequest, FindingHuman)
	h.note(GateSkipped{GateAudit, reason})
	h.note(MergeRequested{h.w.Task.Commit})
}
