package sandbox

import (
	"context"
	"fmt"
	"time"

	lua "github.com/yuin/gopher-lua"
)

// meter counts what a call uses. It is the context of the interpreter, which calls Done before each instruction:
// that is the only hook there is. Once a limit is hit the meter stays over until the call has ended, so nothing in
// Lua can catch it.
type meter struct {
	limits Limits
	steps  int64
	bytes  int64
	// next is the count of steps at which the clock and the outer context are looked at again.
	next   int64
	ends   time.Time
	outer  context.Context
	over   error
	closed chan struct{}
}

// lookEvery bounds how much can pass unseen: single instructions may take a millisecond (comparing large strings).
const lookEvery = 128

func newMeter(limits Limits) *meter {
	m := &meter{limits: limits, closed: make(chan struct{})}
	close(m.closed)
	m.reset()
	return m
}

func (m *meter) begin(ctx context.Context) {
	m.outer = ctx
	m.ends = time.Now().Add(m.limits.Time)
	if m.over == nil {
		m.check()
	}
}

// reset is done after a call and not before one: what its arguments took counts as part of it.
func (m *meter) reset() {
	m.steps, m.bytes, m.over, m.outer = 0, 0, nil, nil
	m.next = lookEvery
}

func (m *meter) spend(n int64) {
	m.steps += n
	if m.steps >= m.next {
		m.check()
	}
}

func (m *meter) charge(n int64) {
	m.bytes += n
	if m.bytes > m.limits.Memory && m.over == nil {
		m.end("memory limit of %d bytes reached", m.limits.Memory)
	}
}

func (m *meter) check() {
	if m.over != nil {
		return
	}
	switch {
	case m.steps > m.limits.Instructions:
		m.end("instruction limit of %d reached", m.limits.Instructions)
	case m.outer != nil && m.outer.Err() != nil:
		m.end("stopped: %v", m.outer.Err())
	case m.outer != nil && time.Now().After(m.ends):
		m.end("time limit of %v reached", m.limits.Time)
	default:
		m.next = min(m.steps+lookEvery, m.limits.Instructions+1)
	}
}

func (m *meter) end(format string, args ...any) {
	m.over = fmt.Errorf(format, args...)
	m.next = 0
}

// Done implements context.Context.
func (m *meter) Done() <-chan struct{} {
	m.steps++
	if m.steps < m.next {
		return nil
	}
	m.check()
	if m.over == nil {
		return nil
	}
	return m.closed
}

// Err implements context.Context.
func (m *meter) Err() error { return m.over }

// Deadline implements context.Context.
func (m *meter) Deadline() (time.Time, bool) { return time.Time{}, false }

// Value implements context.Context.
func (m *meter) Value(any) any { return nil }

// Spend counts n instructions for work that a Go function does for Lua code.
func (s *Sandbox) Spend(L *lua.LState, n int) {
	s.meter.spend(int64(n))
	s.stopIfOver(L)
}

// Look reads the clock at once, after work whose size is not known.
func (s *Sandbox) Look(L *lua.LState) {
	s.meter.check()
	s.stopIfOver(L)
}

// Allocate counts n bytes.
func (s *Sandbox) Allocate(L *lua.LState, n int) {
	s.meter.charge(int64(n))
	s.stopIfOver(L)
}

// fits refuses a string of n bytes that is too large, and counts one that is not.
func (s *Sandbox) fits(L *lua.LState, n int) {
	if n > s.limits.StringSize {
		s.meter.end("string larger than the limit of %d bytes", s.limits.StringSize)
	} else {
		s.meter.charge(int64(n) + 32)
		s.meter.spend(int64(n)/256 + 1)
	}
	s.stopIfOver(L)
}

func (s *Sandbox) stopIfOver(L *lua.LState) {
	if s.meter.over != nil {
		s.Raise(L, "%s", s.meter.over)
	}
}
