package rules

import "signalbox"

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

func (WorkOpened) eventType() string { return TypeWorkOpened }

// PhaseChanged moves the work to another phase.
type PhaseChanged struct {
	From signalbox.Phase `json:"from"`
	To   signalbox.Phase `json:"to"`
}

func (PhaseChanged) eventType() string { return TypePhaseChanged }

// WorkUnblocked records why blocked work can continue.
type WorkUnblocked struct {
	Note string `json:"note"`
}

func (WorkUnblocked) eventType() string { return TypeWorkUnblocked }
