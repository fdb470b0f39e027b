package signalbox

// AgentSessionCompleted is the event that records an accepted exit signal.
type AgentSessionCompleted struct {
	SessionID         string     `json:"session_id"`
	ActorID           string     `json:"actor_id"`
	WorkID            string     `json:"work_id"`
	LeaseEpoch        uint64     `json:"lease_epoch"`
	PhaseCompleted    Phase      `json:"phase_completed"`
	ExitReason        ExitReason `json:"exit_reason"`
	NextPhase         *Phase     `json:"next_phase"` // null if the phase does not change
	PRURL             *string    `json:"pr_url"`
	EvidenceBundleRef *string    `json:"evidence_bundle_ref"`
	Notes             *string    `json:"notes"`
	// NotesBlob is the blob with the notes, if they are long: Notes is only their beginning then.
	NotesBlob Hash `json:"notes_blob,omitzero"`
}

// SessionCompletedFrom returns the event for a valid signal. The caller sets WorkID and LeaseEpoch
// from the session's lease.
func SessionCompletedFrom(session, actor string, s *ExitSignal) AgentSessionCompleted {
	completed := AgentSessionCompleted{
		SessionID:         session,
		ActorID:           actor,
		PhaseCompleted:    s.PhaseCompleted,
		ExitReason:        s.ExitReason,
		PRURL:             s.PRURL,
		EvidenceBundleRef: s.EvidenceBundleRef,
		Notes:             s.Notes,
	}
	if next, ok := s.NextPhase(); ok {
		completed.NextPhase = &next
	}
	return completed
}
