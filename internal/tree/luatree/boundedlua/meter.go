package boundedlua

import (
	"context"
	"fmt"
	"math"
	"runtime"
	"runtime/metrics"
	"time"

	lua "github.com/yuin/gopher-lua"
)

// meter enforces the limits of one call. It is the context of the interpreter, which calls Done
// before each instruction; the interpreter has no other hook. Once a limit is exceeded, it stays
// exceeded until the call has ended, so Lua code cannot catch it with pcall.
type meter struct {
	limits Limits
	steps  int64
	// next is the number of steps at which the other limits are checked again.
	next     int64
	deadline time.Time
	parent   context.Context
	exceeded error
	closed   chan struct{}

	heap [1]metrics.Sample
	// baseHeap is the smallest size of the heap since the call started. It was larger at the start
	// if it contained garbage. collectAt is the size at which the garbage is collected, to find out
	// how much of the heap is in use.
	baseHeap, collectAt uint64
}

// checkEvery is the number of instructions between two checks. A single instruction may take a
// millisecond (comparing large strings) or allocate a megabyte (concatenating them).
const checkEvery = 128

func newMeter(limits Limits) *meter {
	m := &meter{limits: limits, closed: make(chan struct{})}
	close(m.closed)
	m.heap[0].Name = "/memory/classes/heap/objects:bytes"
	return m
}

// start begins a call.
func (m *meter) start(ctx context.Context) {
	m.steps, m.exceeded, m.parent = 0, nil, ctx
	m.deadline = time.Now().Add(m.limits.Time)
	m.baseHeap, m.collectAt = math.MaxUint64, 0
	m.check()
}

func (m *meter) stop() { m.parent, m.exceeded = nil, nil }

func (m *meter) spend(n int64) {
	m.steps += n
	if m.steps >= m.next {
		m.check()
	}
}

func (m *meter) check() {
	if m.exceeded != nil || m.parent == nil {
		return
	}
	m.next = min(m.steps+checkEvery, m.limits.Instructions+1)
	switch {
	case m.steps > m.limits.Instructions:
		m.exceed("instruction limit of %d reached", m.limits.Instructions)
	case m.parent.Err() != nil:
		m.exceed("stopped: %v", m.parent.Err())
	case time.Now().After(m.deadline):
		m.exceed("time limit of %v reached", m.limits.Time)
	case m.heapExceeded():
		m.exceed("memory limit of %d bytes reached", m.limits.Memory)
	}
}

func (m *meter) exceed(format string, args ...any) {
	m.exceeded = fmt.Errorf(format, args...)
	m.next = 0
}

// heapExceeded reports whether the heap has grown by more than the call may use. It measures the
// heap of the whole process, because Go offers nothing finer. Garbage does not count.
func (m *meter) heapExceeded() bool {
	limit := uint64(m.limits.Memory)
	size := m.heapSize()
	if size <= max(m.baseHeap+limit, m.collectAt) {
		return false
	}
	runtime.GC()
	size = m.heapSize()
	// Collecting again soon would be slow for a call that stays just below the limit.
	m.collectAt = size + limit/4
	return size > m.baseHeap+limit
}

// heapSize returns the size of the heap, including the garbage since the last collection.
func (m *meter) heapSize() uint64 {
	metrics.Read(m.heap[:])
	size := m.heap[0].Value.Uint64()
	m.baseHeap = min(m.baseHeap, size)
	return size
}

// Done implements context.Context.
func (m *meter) Done() <-chan struct{} {
	m.steps++
	if m.steps < m.next {
		return nil
	}
	m.check()
	if m.exceeded == nil {
		return nil
	}
	return m.closed
}

// Err implements context.Context.
func (m *meter) Err() error { return m.exceeded }

// Deadline implements context.Context.
func (m *meter) Deadline() (time.Time, bool) { return time.Time{}, false }

// Value implements context.Context.
func (m *meter) Value(any) any { return nil }

// Spend counts n instructions for work that a Go function does for Lua code. It raises an error in
// L if a limit is exceeded.
func (s *Runtime) Spend(L *lua.LState, n int) {
	s.meter.spend(int64(n))
	s.raiseIfExceeded(L)
}

// Check checks all limits now, after work that may have taken much time or memory. It raises an
// error in L if one is exceeded.
func (s *Runtime) Check(L *lua.LState) {
	s.meter.check()
	s.raiseIfExceeded(L)
}

// checkString raises an error in L if a string of n bytes is too large, and otherwise counts the
// work of making it.
func (s *Runtime) checkString(L *lua.LState, n int) {
	if n > s.limits.StringSize {
		s.meter.exceed("string larger than the limit of %d bytes", s.limits.StringSize)
	} else {
		s.meter.spend(int64(n)/256 + 1)
	}
	s.raiseIfExceeded(L)
}

func (s *Runtime) raiseIfExceeded(L *lua.LState) {
	if s.meter.exceeded != nil {
		s.Raise(L, "%s", s.meter.exceeded)
	}
}
