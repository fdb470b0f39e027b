package signalbox

import "slices"

var turnTypes = [...]string{"need_turn", "context_sufficient", "stuck", "need_capability", "partial_answer", "delegation_recommended"}

// TurnTypes returns the names of the six turn signals. Package transcript has what each of them says.
func TurnTypes() []string { return slices.Clone(turnTypes[:]) }

// IsTurnType tells whether there is a turn signal of that name.
func IsTurnType(name string) bool { return slices.Contains(turnTypes[:], name) }
