package tree

import (
	"fmt"
	"time"

	"signalbox/internal/tree/blackboard"
)

// Call is passed to the function of a leaf. It gives access to the arguments, to the keys that the
// leaf sees, and to the time of the tick. It is valid until the function returns.
type Call struct {
	run   *Run
	board *Board
	node  int32
	scope blackboard.Scope
	args  map[string]any
	now   int64
	wake  int64
	err   string
}

// NewCall returns a call without a run. If board is nil, every key is absent and cannot be set.
func NewCall(board *Board, args map[string]any, now time.Time) *Call {
	return &Call{board: board, args: args, now: now.UnixNano(), node: -1}
}

// Now returns the time of the tick.
func (c *Call) Now() time.Time { return time.Unix(0, c.now).UTC() }

// Arg returns an argument, or nil if it is absent. Each Ref in it is replaced by the value of its
// key.
func (c *Call) Arg(name string) any { return c.resolve(c.args[name]) }

// Args returns a copy of all arguments. Each Ref in them is replaced by the value of its key.
func (c *Call) Args() map[string]any {
	args := make(map[string]any, len(c.args))
	for name := range c.args {
		args[name] = c.resolve(c.args[name])
	}
	return args
}

// resolve replaces each Ref in a value by the value of its key.
func (c *Call) resolve(v any) any {
	switch v := v.(type) {
	case Ref:
		value, _ := c.Get(v.Key)
		return value
	case []any:
		list := make([]any, len(v))
		for i := range v {
			list[i] = c.resolve(v[i])
		}
		return list
	case map[string]any:
		fields := make(map[string]any, len(v))
		for key := range v {
			fields[key] = c.resolve(v[key])
		}
		return fields
	}
	return v
}

// Get returns the value of a key, or nil if it is absent. The error wraps ErrUndeclared.
func (c *Call) Get(key string) (any, error) {
	if c.board == nil {
		return nil, nil
	}
	return c.board.GetIn(c.scope, key)
}

// Set sets a key. A nil value makes it absent. The error wraps ErrUndeclared or ErrMistyped and
// names the key.
func (c *Call) Set(key string, v any) error {
	if c.board == nil {
		return fmt.Errorf("%w '%s': there is no blackboard", ErrUndeclared, key)
	}
	if c.run != nil && c.run.written > maxTick {
		return fmt.Errorf("%w for key '%s': %w", ErrMistyped, key, errTick)
	}
	var before any
	if c.run != nil && c.run.record {
		before, _ = c.board.GetIn(c.scope, key)
	}
	kept, err := c.board.SetIn(c.scope, key, v)
	if err == nil && c.run != nil {
		c.run.recordWrite(c.node, key, before, kept)
	}
	return err
}

// Emit publishes a value to the observers of the run, who receive it once the tick is recorded.
func (c *Call) Emit(topic string, v any) error {
	kept, err := Any.Check(v)
	if err != nil {
		return fmt.Errorf("the value for '%s' cannot be published: %w", topic, err)
	}
	if c.run == nil {
		return nil
	}
	if c.run.written += blackboard.Size(kept) + len(topic); c.run.written > maxTick {
		return fmt.Errorf("the value for '%s' cannot be published: %w", topic, errTick)
	}
	if c.run.topics[topic] == 0 && len(c.run.topics) == maxTopics {
		return fmt.Errorf("the value for '%s' cannot be published: there are %d topics already",
			topic, maxTopics)
	}
	c.run.emit(c.node, topic, kept)
	return nil
}

const maxTopics = 1000

// maxTick is the number of bytes that the leaves may write and publish in one tick. It bounds the
// size of a record.
const maxTick = 2 * MaxBoard

var errTick = fmt.Errorf("one tick writes more than %d bytes", maxTick)

// WakeAfter requests a tick after d, for a function that answers Running.
func (c *Call) WakeAfter(d time.Duration) { c.wake = addSaturating(c.now, int64(max(d, 0))) }

// Fail records the reason of a failure and returns Failure.
func (c *Call) Fail(format string, args ...any) Status {
	c.err = fmt.Sprintf(format, args...)
	return Failure
}

// Err returns the reason that Fail recorded.
func (c *Call) Err() string { return c.err }
