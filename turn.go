package signalbox

import "slices"

// The names of the turn signals, as in Signal.Name.
const (
	NameNeedTurn              = "need_turn"
	NameContextSufficient     = "context_sufficient"
	NameStuck                 = "stuck"
	NameNeedCapability        = "need_capability"
	NamePartialAnswer         = "partial_answer"
	NameDelegationRecommended = "delegation_recommended"
)

var turnTypes = [...]string{NameNeedTurn, NameContextSufficient, NameStuck, NameNeedCapability, NamePartialAnswer, NameDelegationRecommended}

// TurnTypes returns the names of the six turn signals. Package transcript has what each of them says.
func TurnTypes() []string { return slices.Clone(turnTypes[:]) }

// IsTurnType tells whether there is a turn signal of that name.
func IsTurnType(name string) bool { return slices.Contains(turnTypes[:], name) }
