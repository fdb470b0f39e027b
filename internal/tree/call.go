package tree

import (
	"fmt"
	"time"

	"signalbox/internal/tree/blackboard"
)

// Call is what a function of a leaf sees: its arguments, the blackboard as its place in the tree sees it, and the
// time of the tick. It is valid until the function returns.
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

// NewCall returns a call outside of any run. A nil board: there is none, every key is absent and cannot be set.
func NewCall(board *Board, args map[string]any, now time.Time) *Call {
	return &Call{board: board, args: args, now: now.UnixNano(), node: -1}
}

// Now is the time of the tick.
func (c *Call) Now() time.Time { return time.Unix(0, c.now).UTC() }

// Arg returns an argument, nil if it is absent. The value of a Ref, also of one within it, is that of its key.
func (c *Call) Arg(name string) any { return c.deep(c.args[name]) }

// Args returns all arguments as values, in a map of their own.
func (c *Call) Args() map[string]any {
	args := make(map[string]any, len(c.args))
	for name := range c.args {
		args[name] = c.deep(c.args[name])
	}
	return args
}

// deep replaces the references within a value.
func (c *Call) deep(v any) any {
	switch v := v.(type) {
	case Ref:
		value, _ := c.Get(v.Key)
		return value
	case []any:
		list := make([]any, len(v))
		for i := range v {
			list[i] = c.deep(v[i])
		}
		return list
	case map[string]any:
		fields := make(map[string]any, len(v))
		for key := range v {
			fields[key] = c.deep(v[key])
		}
		return fields
	}
	return v
}

// Get returns the value of a key, nil if it is absent. The error is ErrUndeclared.
func (c *Call) Get(key string) (any, error) {
	if c.board == nil {
		return nil, nil
	}
	return c.board.GetIn(c.scope, key)
}

// Set sets a key; nil makes it absent. The error, ErrUndeclared or ErrMistyped, names the key.
func (c *Call) Set(key string, v any) error {
	if c.board == nil {
		return fmt.Errorf("%w '%s': there is no blackboard", ErrUndeclared, key)
	}
	if c.run != nil && c.run.spent > maxTick {
		return fmt.Errorf("%w for key '%s': %w", ErrMistyped, key, errTick)
	}
	var before any
	if c.run != nil && c.run.record {
		before, _ = c.board.GetIn(c.scope, key)
	}
	kept, err := c.board.SetIn(c.scope, key, v)
	if err == nil && c.run != nil {
		c.run.wrote(c.node, key, before, kept)
	}
	return err
}

// Emit publishes a value: observers of the run get it, once the tick is recorded.
func (c *Call) Emit(topic string, v any) error {
	kept, err := Any.Check(v)
	if err != nil {
		return fmt.Errorf("the value for '%s' cannot be published: %w", topic, err)
	}
	if c.run == nil {
		return nil
	}
	if c.run.spent += blackboard.Size(kept) + len(topic); c.run.spent > maxTick {
		return fmt.Errorf("the value for '%s' cannot be published: %w", topic, errTick)
	}
	if c.run.topics[topic] == 0 && len(c.run.topics) == maxTopics {
		return fmt.Errorf("the value for '%s' cannot be published: there are %d topics already", topic, maxTopics)
	}
	c.run.emit(c.node, topic, kept)
	return nil
}

const maxTopics = 1000

// maxTick is how much the leaves of one tick may write and publish, so that its record can be kept and read.
const maxTick = 2 * MaxBoard

var errTick = fmt.Errorf("one tick writes more than %d bytes", maxTick)

// WakeAfter asks for a tick after that long, for a function that answers Running.
func (c *Call) WakeAfter(d time.Duration) { c.wake = later(c.now, int64(max(d, 0))) }

// Fail records why the leaf fails, and returns Failure.
func (c *Call) Fail(format string, args ...any) Status {
	c.err = fmt.Sprintf(format, args...)
	return Failure
}

// Err is what Fail recorded.
func (c *Call) Err() string { return c.err }
