package rules

import "signalbox"

// The types of events of the operator.
const (
	TypePaused           = "Paused"
	TypeResumed          = "Resumed"
	TypeCancelled        = "Cancelled"
	TypeRetried          = "Retried"
	TypeMessageSent      = "MessageSent"
	TypeMessageDelivered = "MessageDelivered"
)

// Paused stops the dispatch of a task, or of the whole run if the event names no work.
type Paused struct {
	Reason string `json:"reason,omitempty"`
	// Budget means that the human refused to extend a budget. A higher budget in the configuration or the plan ends the pause.
	Budget bool `json:"budget,omitempty"`
	// Role is the role that is paused, if only that is.
	Role signalbox.Role `json:"role,omitempty"`
}

func (Paused) eventType() string { return TypePaused }

// Resumed ends a pause.
type Resumed struct {
	Role signalbox.Role `json:"role,omitempty"`
}

func (Resumed) eventType() string { return TypeResumed }

// Cancelled ends the work on a task, or on the whole run if the event names no work. Retried undoes it.
type Cancelled struct {
	Reason string `json:"reason"`
}

func (Cancelled) eventType() string { return TypeCancelled }

// Retried restarts a task, or continues a cancelled run: earlier failures no longer count.
type Retried struct {
	Note string `json:"note,omitempty"`
	// From is the phase in which a task restarts, if the operator named one. What it passed in that phase and after it counts no more.
	From signalbox.Phase `json:"from,omitempty"`
}

func (Retried) eventType() string { return TypeRetried }

// MessageSent records words of the human for the agent whose turn on the work is next, or for the one at work if it listens.
type MessageSent struct {
	Text string `json:"text"`
	// Body is the blob with the text if it is long. Text is only its beginning then.
	Body signalbox.Hash `json:"body,omitzero"`
}

func (MessageSent) eventType() string { return TypeMessageSent }

// MessageDelivered records that an agent has got words of the human, while it worked or in the prompt of the turn that ends.
type MessageDelivered struct {
	Epoch uint64 `json:"epoch"`
	// Messages is the list of sequences of the MessageSent events.
	Messages []uint64 `json:"messages"`
}

func (MessageDelivered) eventType() string { return TypeMessageDelivered }
