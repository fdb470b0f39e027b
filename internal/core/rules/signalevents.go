package rules

import "signalbox"

// The types of events about signals, accepted and refused.
const (
	TypeSignalHeard           = "SignalHeard"
	TypeSignalRefused         = "SignalRefused"
	TypeAgentSessionCompleted = "AgentSessionCompleted"
	TypeTurnSignalHeard       = "TurnSignalHeard"
	TypeUnknownSignalRecovery = "UnknownSignalRecovery"
	TypeAgentSignalFailure    = "AgentSignalFailure"
)

// SignalHeard records an accepted signal, and where it was read.
type SignalHeard struct {
	Dialect signalbox.Dialect `json:"dialect"`
	Signal  string            `json:"signal"`
	Epoch   uint64            `json:"epoch"`
	Blob    signalbox.Hash    `json:"blob,omitzero"`
	Offset  int64             `json:"offset"`
	// Handler is the coordinator's action for a line signal.
	Handler string `json:"handler,omitempty"`
	// Body is the blob with the signal's fields.
	Body signalbox.Hash `json:"body,omitzero"`
	// Ref is the branch, tag or commit that has the work, if it was named with the signal.
	Ref string `json:"ref,omitempty"`
}

func (SignalHeard) eventType() string { return TypeSignalHeard }

// SignalRefused records a signal that was refused: once for each session, reason and signal, and again only when it was
// sent ten times as often.
type SignalRefused struct {
	// Said is the name of the signal, or "renew" or "release".
	Said   string           `json:"said"`
	Reason signalbox.Reason `json:"reason"`
	Detail string           `json:"detail"`
	// Epoch is the epoch it was sent under, 0 if it named none.
	Epoch uint64         `json:"epoch"`
	Count int            `json:"count"`
	Blob  signalbox.Hash `json:"blob,omitzero"`
}

func (SignalRefused) eventType() string { return TypeSignalRefused }

// AgentSessionCompleted records an accepted exit signal.
type AgentSessionCompleted struct {
	signalbox.AgentSessionCompleted
}

func (AgentSessionCompleted) eventType() string { return TypeAgentSessionCompleted }

// TurnSignalHeard records a turn signal in a model's reply to a behaviour tree. It belongs to no work item and no session.
type TurnSignalHeard struct {
	Run  string `json:"run"`
	Tree string `json:"tree"`
	Node string `json:"node"`
	// Turn is the number of the signal within the run, from 1.
	Turn       uint64  `json:"turn"`
	Signal     string  `json:"signal"`
	Confidence float64 `json:"confidence"`
	// Reason is the explanation in the signal.
	Reason string `json:"reason,omitempty"`
	// Body is the blob with all fields and the block as the model wrote it.
	Body signalbox.Hash `json:"body,omitzero"`
}

func (TurnSignalHeard) eventType() string { return TypeTurnSignalHeard }

// UnknownSignalRecovery records that an agent's turn contained no valid signal, and that the agent is prompted again. Its level is
// question if a reviewer wrote more after a verdict and is asked whether that is its verdict; this counts as no attempt.
type UnknownSignalRecovery struct {
	Attempt int    `json:"attempt"`
	Level   string `json:"level"`
	Preview string `json:"output_preview"`
	Advice  string `json:"advice,omitempty"`
}

func (UnknownSignalRecovery) eventType() string { return TypeUnknownSignalRecovery }

// AgentSignalFailure records that an agent failed to send a valid signal too often.
type AgentSignalFailure struct {
	Reason string `json:"reason"`
}

func (AgentSignalFailure) eventType() string { return TypeAgentSignalFailure }
