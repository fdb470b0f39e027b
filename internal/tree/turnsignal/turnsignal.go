// Package turnsignal contains the conditions and actions of behaviour trees that parse, count,
// publish and test the turn signals in the replies of a model.
//
// After each model call, a tree runs parse_response_signal, update_signal_state, log_signal and
// strip_signal_from_response, in this order. Each has an effect once per turn, however often it is
// ticked. The leaf that calls the model must call NewTurn, which starts a turn. Package transcript
// decides what a signal is. A reply is read as plain text, and signals other than turn signals are
// ignored.
//
// Conditions never answer Running. A condition fails without a reason if a value is absent or has
// the wrong type, and with a reason if an argument has the wrong type.
package turnsignal

import (
	"signalbox/internal/tree"
	"signalbox/internal/tree/blackboard"
)

// Topic is the topic under which LogSignal publishes.
const Topic = "turn_signal"

// Keys of the blackboard.
const (
	lastSignal    = blackboard.KeyLastSignal
	emitted       = blackboard.KeySignals
	sameReason    = blackboard.KeySameReason
	withoutSignal = blackboard.KeyTurnsWithoutSignal
	content       = blackboard.KeyContent
	// Parsed is true once the reply of the turn was parsed.
	Parsed = "_signal_parsed_this_turn"
	// counted and logged belong to the signal in last_signal. They are cleared when it changes, not
	// when a turn starts: a tree that does not parse a reply must not count the signal of an
	// earlier turn again.
	counted     = "_signal_counted_this_turn"
	logged      = "_signal_logged_this_turn"
	diagnostics = "_signal_diagnostics"
)

const (
	defaultThreshold = 0.5
	defaultCount     = 3
)

// Register adds the conditions and actions by their names.
func Register(r *tree.Registry) {
	add := func(kind tree.Kind, name string, do tree.Func, params ...tree.Param) {
		// Params must not be nil, which would allow any arguments.
		r.Add(kind, name, tree.Leaf{Do: do, Params: append([]tree.Param{}, params...)})
	}
	count := tree.Param{Name: "count", Type: tree.Int, Default: int64(defaultCount)}
	add(tree.Condition, "check_signal", CheckSignal)
	add(tree.Condition, "has_signal", HasSignal, tree.Param{Name: "signal_type", Type: tree.String})
	add(tree.Condition, "signal_type_is", SignalTypeIs,
		tree.Param{Name: "expected_type", Type: tree.String, Required: true})
	add(tree.Condition, "signal_confidence_above", SignalConfidenceAbove,
		tree.Param{Name: "threshold", Type: tree.Float, Default: defaultThreshold})
	add(tree.Condition, "consecutive_same_reason_gte", ConsecutiveSameReasonGTE, count)
	add(tree.Condition, "turns_without_signal_gte", TurnsWithoutSignalGTE, count)

	add(tree.Action, "parse_response_signal", ParseResponseSignal)
	add(tree.Action, "update_signal_state", UpdateSignalState)
	add(tree.Action, "log_signal", LogSignal)
	add(tree.Action, "strip_signal_from_response", StripSignalFromResponse)
	add(tree.Action, "reset_state", ResetState)
	add(tree.Action, "noop", Noop)
	r.Reserve(Topic)
}

// get returns the value of a key, or nil if it is absent or not declared.
func get(c *tree.Call, key string) any {
	v, _ := c.Get(key)
	return v
}

func isTrue(c *tree.Call, key string) bool {
	v, _ := get(c, key).(bool)
	return v
}
