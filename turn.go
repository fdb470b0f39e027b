package signalbox

import "slices"

// Names of the turn signals, as in Signal.Name.
const (
	NameNeedTurn              = "need_turn"
	NameContextSufficient     = "context_sufficient"
	NameStuck                 = "stuck"
	NameNeedCapability        = "need_capability"
	NamePartialAnswer         = "partial_answer"
	NameDelegationRecommended = "delegation_recommended"
)

var turnTypes = [...]string{NameNeedTurn, NameContextSufficient, NameStuck, NameNeedCapability,
	NamePartialAnswer, NameDelegationRecommended}

// TurnTypes returns the names of the six turn signals. Package transcript defines the fields of
// each.
func TurnTypes() []string { return slices.Clone(turnTypes[:]) }

// IsTurnType reports whether name is the name of a turn signal.
func IsTurnType(name string) bool { return slices.Contains(turnTypes[:], name) }
