// Package turnsignal is how a behaviour tree hears what a model says of its own turn: the conditions and actions that
// read, keep and judge turn signals on the blackboard.
//
// After each model call a tree does parse_response_signal, update_signal_state, log_signal and
// strip_signal_from_response, in this order. Each does its work once a turn, however often it is ticked: NewTurn, which
// the leaf that calls the model must use, begins a turn, and parsing makes its signal the one to be counted and
// published. What counts as a signal is decided by package transcript; the reply is read as plain text, whatever it
// looks like, and only turn signals matter here.
//
// Conditions never answer Running. Whatever is absent or not of the right type is a failure without a reason; an
// argument of the wrong type is one with a reason.
package turnsignal

import "signalbox/internal/tree"

// Topic is what LogSignal publishes under.
const Topic = "turn_signal"

// The keys of the blackboard. The hidden ones are those that begin with "_".
const (
	lastSignal    = "last_signal"
	emitted       = "signals_emitted"
	sameReason    = "consecutive_same_reason"
	withoutSignal = "turns_without_signal"
	content       = "accumulated_content"
	// Parsed is true from when a reply was parsed until the next one comes.
	Parsed = "_signal_parsed_this_turn"
	// counted and logged are about the signal in last_signal, so they change with it and not with the turn: a tree
	// that skips parsing must not count the signal of an earlier turn again.
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
		// Not nil, which would let any arguments pass.
		r.Add(kind, name, tree.Leaf{Do: do, Params: append([]tree.Param{}, params...)})
	}
	count := tree.Param{Name: "count", Type: tree.Int, Default: int64(defaultCount)}
	add(tree.Condition, "check_signal", CheckSignal)
	add(tree.Condition, "has_signal", HasSignal, tree.Param{Name: "signal_type", Type: tree.String})
	add(tree.Condition, "signal_type_is", SignalTypeIs, tree.Param{Name: "expected_type", Type: tree.String, Required: true})
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

// get returns the value of a key; one that is not declared is absent.
func get(c *tree.Call, key string) any {
	v, _ := c.Get(key)
	return v
}

func isTrue(c *tree.Call, key string) bool {
	v, _ := get(c, key).(bool)
	return v
}
