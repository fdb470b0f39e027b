// Package driver has what the drivers of journals share: it validates appends, counts calls in
// progress, and wakes watches.
package driver

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"sync"
	"time"

	"signalbox"
	"signalbox/internal/core/journal"
)

// ErrClosed means that a journal was closed.
var ErrClosed = errors.New("the journal is closed")

// Validate returns an error unless the events follow expected and each other and are within the
// limits of package journal.
func Validate(expected uint64, events []signalbox.Event) error {
	if len(events) > journal.MaxAppend {
		return UsageError("%d events at once, limit %d", len(events), journal.MaxAppend)
	}
	for i := range events {
		e := &events[i]
		size := EventBytes(e)
		switch {
		case e.Seq != expected+1+uint64(i):
			return UsageError("event %d is in the place of event %d", e.Seq, expected+1+uint64(i))
		case i > 0 && e.Prev != events[i-1].Hash:
			return UsageError("event %d does not continue the previous event", e.Seq)
		case size > journal.MaxEventBytes:
			return UsageError("event %d has %d bytes, limit %d", e.Seq, size, journal.MaxEventBytes)
		case !time.Unix(0, e.Time.UnixNano()).Equal(e.Time):
			return UsageError("event %d has the year %d, which is out of range", e.Seq,
				e.Time.Year())
		}
	}
	return nil
}

// CheckNext returns an error unless the events continue a log that ends with the event seq, whose
// hash is hash.
func CheckNext(seq uint64, hash signalbox.Hash, expected uint64, events []signalbox.Event) error {
	switch {
	case seq != expected:
		return fmt.Errorf("%w: it ends at event %d", journal.ErrConflict, seq)
	case len(events) > 0 && events[0].Prev != hash:
		return UsageError("event %d continues %v, but event %d has hash %v", events[0].Seq,
			events[0].Prev, seq, hash)
	}
	return nil
}

// EventBytes returns the size of an event that journal.MaxEventBytes limits.
func EventBytes(e *signalbox.Event) int {
	return len(e.Type) + len(e.Work) + len(e.Session) + len(e.Actor) + len(e.Data)
}

// ErrTooLarge is why an event that is larger than journal.MaxEventBytes is not read.
var ErrTooLarge = fmt.Errorf("it has more than %d bytes, the maximum size of an event",
	journal.MaxEventBytes)

// UsageError returns an error of the caller.
func UsageError(format string, args ...any) error {
	return &signalbox.Error{Code: signalbox.CodeUsage, Err: fmt.Errorf(format, args...)}
}

// Calls counts the calls of a journal in progress, so that Close can wait for them. Its zero value
// is not ready: use NewCalls.
type Calls struct {
	// Closing is closed when Close is called.
	Closing <-chan struct{}

	closing context.Context // Closing is its channel
	close   context.CancelFunc

	mu     sync.Mutex // guards closed, and calls.Add against calls.Wait
	closed bool
	calls  sync.WaitGroup
}

// NewCalls returns a Calls of an open journal.
func NewCalls() *Calls {
	c := &Calls{}
	c.closing, c.close = context.WithCancel(context.Background())
	c.Closing = c.closing.Done()
	return c
}

// Enter registers a call, unless the journal is closed or ctx is done. The caller calls Leave at
// its end.
func (c *Calls) Enter(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return ErrClosed
	}
	c.calls.Add(1)
	return nil
}

// Begin registers a call, as Enter does, and returns a context that is also done when the journal
// is closed; ErrClosed is then its cause. The caller calls leave at its end.
func (c *Calls) Begin(ctx context.Context) (inner context.Context, leave func(), err error) {
	if err := c.Enter(ctx); err != nil {
		return nil, nil, err
	}
	inner, cancel := context.WithCancelCause(ctx)
	stop := context.AfterFunc(c.closing, func() { cancel(ErrClosed) })
	return inner, func() {
		stop()
		cancel(nil)
		c.Leave()
	}, nil
}

// Leave ends a call.
func (c *Calls) Leave() { c.calls.Done() }

// Close refuses further calls and waits for those in progress. It must be called only once.
func (c *Calls) Close() {
	c.mu.Lock()
	c.closed = true
	c.close()
	c.mu.Unlock()
	c.calls.Wait()
}

// Await receives a value from a channel, or returns an error if ctx is done or the journal is
// closed.
func Await[T any](ctx context.Context, c *Calls, from <-chan T) (value T, err error) {
	select {
	case value = <-from:
		return value, nil
	case <-ctx.Done():
		return value, ctx.Err()
	case <-c.Closing:
		return value, ErrClosed
	}
}

// Head notifies the watches of a journal of a new head. Its zero value is not ready: use NewHead.
type Head struct {
	mu      sync.Mutex
	head    uint64        // guarded by mu
	changed chan struct{} // closed and replaced to wake the watches; guarded by mu
}

// NewHead returns a Head of a log whose end is not known.
func NewHead() *Head { return &Head{changed: make(chan struct{})} }

// Next returns a channel that is closed when watches are woken next.
func (h *Head) Next() <-chan struct{} {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.changed
}

// Set wakes all watches if head has changed.
func (h *Head) Set(head uint64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if head != h.head {
		h.head = head
		h.wake()
	}
}

// Wake wakes all watches when the head cannot be learned: they read the log, or find out why that
// is not possible.
func (h *Head) Wake() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.wake()
}

func (h *Head) wake() {
	close(h.changed)
	h.changed = make(chan struct{})
}

// Limits on what a watch reads at a time.
const (
	watchEvents = 256
	watchBytes  = 1 << 20
)

// Watch yields the events that follow the event after, and waits for more when read has reached the
// end of the log. Callers that append, or notice an append, call Set.
func (h *Head) Watch(ctx context.Context, c *Calls, after uint64,
	read func(ctx context.Context, after uint64, limit, bytes int) (events []signalbox.Event,
		end bool, err error)) iter.Seq2[signalbox.Event, error] {
	return func(yield func(signalbox.Event, error) bool) {
		for {
			next := h.Next() // before it reads, so that no append is missed
			events, end, err := read(ctx, after, watchEvents, watchBytes)
			for _, e := range events {
				after = e.Seq
				if !yield(e, nil) {
					return
				}
			}
			if err == nil && end {
				_, err = Await(ctx, c, next)
			}
			if ctx.Err() != nil {
				err = ctx.Err()
			}
			if err != nil {
				yield(signalbox.Event{}, err)
				return
			}
		}
	}
}
