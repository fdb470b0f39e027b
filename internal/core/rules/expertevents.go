package rules

import "signalbox"

// The types of events about experts.
const (
	TypeExpertRequested  = "ExpertRequested"
	TypeExpertAdvised    = "ExpertAdvised"
	TypeExpertRegistered = "ExpertRegistered"
)

// ExpertRequested records that the holder of a task asked an expert.
type ExpertRequested struct {
	Request string         `json:"request"`
	Expert  string         `json:"expert"`
	Type    string         `json:"type,omitempty"`
	Count   int            `json:"count"`
	Body    signalbox.Hash `json:"body,omitzero"`
}

func (ExpertRequested) eventType() string { return TypeExpertRequested }

// ExpertAdvised gives an expert's advice to the task that asked.
type ExpertAdvised struct {
	Request string         `json:"request"`
	Expert  string         `json:"expert"`
	Body    signalbox.Hash `json:"body,omitzero"`
	Blob    signalbox.Hash `json:"blob,omitzero"`
}

func (ExpertAdvised) eventType() string { return TypeExpertAdvised }

// ExpertRegistered adds an expert to the configured ones.
type ExpertRegistered struct {
	Expert Expert `json:"expert"`
}

func (ExpertRegistered) eventType() string { return TypeExpertRegistered }
