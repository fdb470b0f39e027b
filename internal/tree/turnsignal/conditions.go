package turnsignal

import (
	"math"

	"signalbox/internal/tree"
)

func last(c *tree.Call) (Signal, bool) { return ParseSignal(get(c, lastSignal)) }

func statusOf(ok bool) tree.Status {
	if ok {
		return tree.Success
	}
	return tree.Failure
}

// CheckSignal succeeds if a signal was parsed in the current turn.
func CheckSignal(c *tree.Call) tree.Status {
	_, ok := last(c)
	return statusOf(ok)
}

// HasSignal succeeds if there is a signal. If signal_type is given, the signal must have that type.
func HasSignal(c *tree.Call) tree.Status {
	if c.Arg("signal_type") == nil {
		return CheckSignal(c)
	}
	return typeIs(c, "has_signal", "signal_type")
}

// SignalTypeIs succeeds if the signal has the type expected_type.
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
	signal, ok := last(c)
	return statusOf(ok && signal.Type == want)
}

// SignalConfidenceAbove succeeds if the confidence of the signal is at least threshold (default
// 0.5).
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
	// Signal.Confidence would be 0 for a signal without a confidence.
	fields, _ := get(c, lastSignal).(map[string]any)
	confidence, ok := number(fields["confidence"])
	return statusOf(ok && confidence >= threshold)
}

// ConsecutiveSameReasonGTE succeeds if the model requested another turn with the same reason at
// least count (default 3) times in a row.
func ConsecutiveSameReasonGTE(c *tree.Call) tree.Status {
	return atLeast(c, "consecutive_same_reason_gte", sameReason)
}

// TurnsWithoutSignalGTE succeeds if at least the last count (default 3) turns had no signal.
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
	return statusOf(ok && n >= count)
}

// number converts a number of any type to a float64.
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

// integer converts a whole number of any type to an int64. A float64 must be in the range of exact
// integers.
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
