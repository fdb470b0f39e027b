package turnsignal

import (
	"math"

	"signalbox/internal/tree"
)

func last(c *tree.Call) (Heard, bool) { return ParseHeard(get(c, lastSignal)) }

func holds(ok bool) tree.Status {
	if ok {
		return tree.Success
	}
	return tree.Failure
}

// CheckSignal holds if a signal was parsed in the current turn.
func CheckSignal(c *tree.Call) tree.Status {
	_, ok := last(c)
	return holds(ok)
}

// HasSignal holds if there is a signal, of type signal_type if that is given.
func HasSignal(c *tree.Call) tree.Status {
	if c.Arg("signal_type") == nil {
		return CheckSignal(c)
	}
	return typeIs(c, "has_signal", "signal_type")
}

// SignalTypeIs holds if the signal is of type expected_type.
func SignalTypeIs(c *tree.Call) tree.Status { return typeIs(c, "signal_type_is", "expected_type") }

func typeIs(c *tree.Call, fn, arg string) tree.Status {
	v := c.Arg(arg)
	if v == nil {
		return c.Fail("%s: argument %s is missing: give it the type of a signal", fn, arg)
	}
	want, ok := v.(string)
	if !ok {
		return c.Fail("%s: argument %s takes a string, not a value of type %T", fn, arg, v)
	}
	h, ok := last(c)
	return holds(ok && h.Type == want)
}

// SignalConfidenceAbove holds if the signal's confidence is threshold (0.5) or more.
func SignalConfidenceAbove(c *tree.Call) tree.Status {
	threshold := defaultThreshold
	if v := c.Arg("threshold"); v != nil {
		var ok bool
		if threshold, ok = number(v); !ok {
			return c.Fail("signal_confidence_above: argument threshold takes a float, not a value of type %T", v)
		}
	}
	if _, ok := last(c); !ok {
		return tree.Failure
	}
	// Not Heard.Confidence, which is 0 also when there is none.
	fields, _ := get(c, lastSignal).(map[string]any)
	confidence, ok := number(fields["confidence"])
	return holds(ok && confidence >= threshold)
}

// ConsecutiveSameReasonGTE holds if the model asked for another turn with the same reason count (3) times in a row, or
// more often.
func ConsecutiveSameReasonGTE(c *tree.Call) tree.Status {
	return atLeast(c, "consecutive_same_reason_gte", sameReason)
}

// TurnsWithoutSignalGTE holds if the last count (3) turns, or more, had no signal.
func TurnsWithoutSignalGTE(c *tree.Call) tree.Status {
	return atLeast(c, "turns_without_signal_gte", withoutSignal)
}

func atLeast(c *tree.Call, fn, key string) tree.Status {
	count := int64(defaultCount)
	if v := c.Arg("count"); v != nil {
		var ok bool
		if count, ok = integer(v); !ok {
			return c.Fail("%s: argument count takes an int, not %.100s", fn, tree.FormatValue(v))
		}
	}
	n, ok := get(c, key).(int64)
	return holds(ok && n >= count)
}

// number reads a number of any type: whoever writes 1 in Lua or Go may mean the float.
func number(v any) (float64, bool) {
	switch v := v.(type) {
	case float64:
		return v, true
	case int64:
		return float64(v), true
	case int:
		return float64(v), true
	}
	return 0, false
}

// integer reads a whole number of any type, within what a float64 can tell apart.
func integer(v any) (int64, bool) {
	switch v := v.(type) {
	case int64:
		return v, true
	case int:
		return int64(v), true
	case float64:
		return int64(v), v == math.Trunc(v) && math.Abs(v) <= 1<<53
	}
	return 0, false
}
