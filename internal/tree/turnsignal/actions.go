package turnsignal

import (
	"errors"
	"math"
	"slices"
	"strings"

	"signalbox"
	"signalbox/internal/tree"
	"signalbox/transcript"
)

// maxEmitted is the number of signals that signals_emitted keeps.
const maxEmitted = 1000

// NewTurn starts a turn, so that the next reply is parsed. The leaf that calls the model must call
// it. last_signal stays until then, so that conditions can still test why the turn was started.
func NewTurn(c *tree.Call) error {
	return errors.Join(c.Set(Parsed, false), clearKeys(c, diagnostics))
}

// ParseResponseSignal sets last_signal to the signal in accumulated_content, or makes it absent,
// and counts the turns without a signal. It does so once per turn.
func ParseResponseSignal(c *tree.Call) tree.Status {
	if isTrue(c, Parsed) {
		return tree.Success
	}
	text, _ := get(c, content).(string)
	sig, remarks := read(text)
	var value any
	turns := int64(0)
	if sig != nil {
		value = signalValue(sig, c.Now())
	} else {
		turns = nextCount(c, withoutSignal)
	}
	if err := c.Set(lastSignal, value); err != nil {
		// The signal of an earlier turn must not be taken for that of this turn.
		return failed(c, errors.Join(err, c.Set(lastSignal, nil)))
	}
	errs := []error{c.Set(withoutSignal, turns), clearKeys(c, counted, logged, diagnostics)}
	if len(remarks) > 0 {
		errs = append(errs, c.Set(diagnostics, remarks))
	}
	return failed(c, append(errs, c.Set(Parsed, true))...)
}

// UpdateSignalState appends last_signal to signals_emitted, and counts consecutive requests for
// another turn with the same reason. A turn without a signal sets the count to 0.
func UpdateSignalState(c *tree.Call) tree.Status {
	signal, ok := last(c)
	switch {
	case isTrue(c, counted):
		return tree.Success
	case !ok && (get(c, sameReason) == nil || get(c, sameReason) == int64(0)):
		return tree.Success
	case !ok:
		return failed(c, c.Set(sameReason, int64(0)))
	}
	list, _ := get(c, emitted).([]any)
	consecutive := int64(1)
	if len(list) > 0 {
		if before, ok := ParseSignal(list[len(list)-1]); ok && signal.repeats(before) {
			consecutive = nextCount(c, sameReason)
		}
	}
	if err := appendEmitted(c, list, get(c, lastSignal)); err != nil {
		return failed(c, err)
	}
	return failed(c, c.Set(sameReason, consecutive), c.Set(counted, true))
}

// appendEmitted appends a signal, and removes the oldest ones if there is no room. Each attempt
// costs time proportional to the list, so it removes more signals each time: up to a quarter more
// than necessary.
func appendEmitted(c *tree.Call, list []any, newest any) error {
	list = slices.Concat(list, []any{newest})
	list = list[max(0, len(list)-maxEmitted):]
	for dropped := 0; ; {
		err := c.Set(emitted, list)
		if err == nil || len(list) == 1 {
			return err
		}
		step := min(1+dropped/4, len(list)-1)
		list, dropped = list[step:], dropped+step
	}
}

// LogSignal publishes last_signal under Topic, once.
func LogSignal(c *tree.Call) tree.Status {
	signal, ok := last(c)
	if !ok || isTrue(c, logged) {
		return tree.Success
	}
	// A function of the tree may have written anything there, and the ledger accepts signals only.
	if !signalbox.IsTurnType(signal.Type) || signal.Confidence < 0 || signal.Confidence > 1 {
		return c.Fail("last_signal is not a turn signal: type %q, confidence %v", signal.Type,
			signal.Confidence)
	}
	if err := c.Emit(Topic, get(c, lastSignal)); err != nil {
		return failed(c, err)
	}
	return failed(c, c.Set(logged, true))
}

// StripSignalFromResponse removes signals from accumulated_content: see transcript.Content.
func StripSignalFromResponse(c *tree.Call) tree.Status {
	text, _ := get(c, content).(string)
	if shown := transcript.Content(text); shown != text {
		return failed(c, c.Set(content, shown))
	}
	return tree.Success
}

// ResetState removes all signals and counts, for a new conversation.
func ResetState(c *tree.Call) tree.Status {
	return failed(c, c.Set(lastSignal, nil), c.Set(emitted, []any{}), c.Set(sameReason, 0),
		c.Set(withoutSignal, 0),
		c.Set(Parsed, false), clearKeys(c, counted, logged, diagnostics))
}

// Noop does nothing.
func Noop(*tree.Call) tree.Status { return tree.Success }

// nextCount returns the next value of a counter.
func nextCount(c *tree.Call, key string) int64 {
	n, _ := get(c, key).(int64)
	if n == math.MaxInt64 {
		return n
	}
	return n + 1
}

// clearKeys makes keys absent. It does not write keys that are absent already.
func clearKeys(c *tree.Call, keys ...string) error {
	for _, key := range keys {
		if get(c, key) == nil {
			continue
		}
		if err := c.Set(key, nil); err != nil {
			return err
		}
	}
	return nil
}

// failed returns Failure with the errors, or Success if there are none.
func failed(c *tree.Call, errs ...error) tree.Status {
	if err := errors.Join(errs...); err != nil {
		return c.Fail("%s", strings.ReplaceAll(err.Error(), "\n", "; "))
	}
	return tree.Success
}
