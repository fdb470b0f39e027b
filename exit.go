package signalbox

// ExitProtocol is the value of "protocol" that identifies a JSON object as an exit signal.
const ExitProtocol = "apm2_agent_exit"

// ExitVersion is the version of the protocol that new exit signals have.
const ExitVersion = "1.0.0"

// ExitFlag is the environment variable that enables exit signals; see transcript.ExitEnabled.
const ExitFlag = "AGENT_EXIT_PROTOCOL_ENABLED"

// Phase is the stage that a work item is in.
type Phase string

const (
	PhaseDraft          Phase = "DRAFT"
	PhaseImplementation Phase = "IMPLEMENTATION"
	PhaseCIPending      Phase = "CI_PENDING"
	PhaseReadyForReview Phase = "READY_FOR_REVIEW"
	PhaseReview         Phase = "REVIEW"
	PhaseReadyForMerge  Phase = "READY_FOR_MERGE"
	PhaseCompleted      Phase = "COMPLETED"
	PhaseBlocked        Phase = "BLOCKED"
)

// Phases returns all phases in the order in which work passes through them, BLOCKED last.
func Phases() []Phase {
	return []Phase{PhaseDraft, PhaseImplementation, PhaseCIPending, PhaseReadyForReview,
		PhaseReview,
		PhaseReadyForMerge, PhaseCompleted, PhaseBlocked}
}

// ExitReason is why a session ends.
type ExitReason string

const (
	ExitCompleted ExitReason = "completed"
	ExitBlocked   ExitReason = "blocked"
	ExitError     ExitReason = "error"
)

// ExitReasons returns all exit reasons.
func ExitReasons() []ExitReason { return []ExitReason{ExitCompleted, ExitBlocked, ExitError} }

// ExitSignal is the JSON object with which an agent ends a work phase. Optional fields are nil when
// absent.
type ExitSignal struct {
	Protocol          string     `json:"protocol"`
	Version           string     `json:"version"`
	PhaseCompleted    Phase      `json:"phase_completed"`
	ExitReason        ExitReason `json:"exit_reason"`
	PRURL             *string    `json:"pr_url,omitempty"`
	EvidenceBundleRef *string    `json:"evidence_bundle_ref,omitempty"`
	Notes             *string    `json:"notes,omitempty"`
}

// NewExit returns an exit signal without optional fields. Validate checks those that you set.
func NewExit(phase Phase, reason ExitReason) *ExitSignal {
	return &ExitSignal{Protocol: ExitProtocol, Version: ExitVersion, PhaseCompleted: phase,
		ExitReason: reason}
}

// NextPhase returns the phase that the work enters when the signal is accepted. It returns false
// for the reason "completed" in the phases COMPLETED and BLOCKED: such a signal is valid but
// changes nothing.
func (s *ExitSignal) NextPhase() (Phase, bool) {
	if s.ExitReason == ExitBlocked || s.ExitReason == ExitError {
		return PhaseBlocked, true
	}
	if s.ExitReason != ExitCompleted {
		return "", false
	}
	switch s.PhaseCompleted {
	case PhaseDraft:
		return PhaseImplementation, true
	case PhaseImplementation:
		return PhaseCIPending, true
	case PhaseCIPending:
		return PhaseReadyForReview, true
	case PhaseReadyForReview:
		return PhaseReview, true
	case PhaseReview:
		return PhaseReadyForMerge, true
	case PhaseReadyForMerge:
		return PhaseCompleted, true
	}
	return "", false
}
