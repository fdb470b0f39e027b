package transcript

import "signalbox/transcript/internal/payload"

// TurnKind tells what a turn signal does to the conversation.
type TurnKind = payload.TurnKind

const (
	// TurnContinue asks for more: another turn, a capability, a helper.
	TurnContinue = payload.TurnContinue
	// TurnFinal ends the conversation: the reply is the answer.
	TurnFinal = payload.TurnFinal
)

// TurnForm is the form of a field's value.
type TurnForm = payload.TurnForm

const (
	TurnText  = payload.TurnText  // Min and Max count characters
	TurnCount = payload.TurnCount // a whole number within Min and Max
	TurnList  = payload.TurnList  // a JSON list; Min and Max count its elements
)

// TurnField is a field of a turn signal and its limits.
type TurnField = payload.TurnField

// TurnType is a row of the table of turn signals.
type TurnType = payload.TurnType

// TurnKindOf returns the kind of the turn signal of that name, and whether there is such a signal.
func TurnKindOf(name string) (TurnKind, bool) { return payload.TurnKindOf(name) }
