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

// TurnKindOf returns the kind of the turn signal of that name, and whether there is such a signal.
func TurnKindOf(name string) (TurnKind, bool) { return payload.TurnKindOf(name) }
