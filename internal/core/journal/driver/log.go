package driver

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"math"
	"sync"

	"signalbox"
	"signalbox/internal/core/journal"
)

// ErrClosed means that a journal was closed.
var ErrClosed = errors.New("the journal is closed")

// Methods are what a driver does itself. Log calls them with a context that is also done when the
// journal is closed, explains their errors, and adds what was done. Otherwise the contract of each
// is that of the method of journal.Log.
type Methods struct {
	// Append stores events, which are valid. After an error, unknown reports whether they may
	// nevertheless be stored, now or later.
	Append func(ctx context.Context, expected uint64, events []signalbox.Event) (unknown bool,
		err error)
	// Read stops when the events have at least a number of bytes. It also reports whether there
	// were no more. With ErrDamaged it returns the events before the one that is damaged.
	Read func(ctx context.Context, after uint64, limit, bytes int) (events []signalbox.Event,
		end bool, err error)
	Head       func(ctx context.Context) (uint64, error)
	PutBlob    func(ctx context.Context, r io.Reader) (signalbox.Hash, error)
	GetBlob    func(ctx context.Context, digest signalbox.Hash) (io.ReadCloser, error)
	OpenBlob   func(ctx context.Context, digest signalbox.Hash) (journal.Blob, error)
	DeleteBlob func(ctx context.Context, digest signalbox.Hash) error
	// Follow starts, with Go, what calls Set or Wake when other processes append. It is called
	// once, by the first watch.
	Follow func()
	// Explain converts errors that a user can fix to a *signalbox.Error with a hint.
	Explain func(error) error
	// Release releases all resources. It is called once, when no other method runs.
	Release func() error
}

// Log is a journal.Log out of the Methods of a driver. Its zero value is not ready: use New.
type Log struct {
	methods Methods
	closing context.Context
	cancel  context.CancelFunc
	close   func() error
	follow  func()

	mu      sync.Mutex // guards closed, and calls.Add against calls.Wait; and also head and changed
	closed  bool
	calls   sync.WaitGroup // in progress
	head    uint64
	changed chan struct{} // closed and replaced to wake the watches
}

var _ journal.Log = (*Log)(nil)

// New returns a Log that is open.
func New(m Methods) *Log {
	l := &Log{methods: m, follow: sync.OnceFunc(m.Follow), changed: make(chan struct{})}
	l.closing, l.cancel = context.WithCancel(context.Background())
	l.close = sync.OnceValue(l.closeOnce)
	return l
}

// begin registers a call, unless the journal is closed or ctx is done. The result is also done when
// the journal is closed; ErrClosed is then its cause. The caller calls leave at its end.
func (l *Log) begin(ctx context.Context) (inner context.Context, leave func(), err error) {
	if err := ctx.Err(); err != nil {
		return nil, nil, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return nil, nil, ErrClosed
	}
	l.calls.Add(1)
	inner, cancel := context.WithCancelCause(ctx)
	stop := context.AfterFunc(l.closing, func() { cancel(ErrClosed) })
	return inner, func() {
		stop()
		cancel(nil)
		l.calls.Done()
	}, nil
}

// Do calls f as Log calls its methods. The format and its arguments say what f does.
func (l *Log) Do(ctx context.Context, f func(context.Context) error, format string,
	args ...any) error {
	inner, leave, err := l.begin(ctx)
	if err == nil {
		err = l.explain(inner, f(inner))
		leave()
	}
	if err != nil {
		return fmt.Errorf(format+": %w", append(args, err)...)
	}
	return nil
}

// explain explains an error of a call, and names the end of the journal if that has caused it.
func (l *Log) explain(ctx context.Context, err error) error {
	if err != nil && errors.Is(context.Cause(ctx), ErrClosed) {
		err = fmt.Errorf("%w: %w", ErrClosed, err)
	}
	return l.methods.Explain(err)
}

// Go runs f with a context that is done when the journal is closed, and reports whether it does: not
// if the journal is closed already. Close waits for f.
func (l *Log) Go(f func(context.Context)) bool {
	ctx, leave, err := l.begin(context.Background())
	if err != nil {
		return false
	}
	go func() {
		defer leave()
		f(ctx)
	}()
	return true
}

// Close ends all watches, waits for calls in progress, and releases all resources. Closing again
// does nothing.
func (l *Log) Close() error { return l.close() }

func (l *Log) closeOnce() error {
	l.mu.Lock()
	l.closed = true
	l.cancel()
	l.mu.Unlock()
	l.calls.Wait()
	return l.methods.Release()
}

// Append stores the events. See journal.Log.
func (l *Log) Append(ctx context.Context, expected uint64, events []signalbox.Event) error {
	err := validate(expected, events)
	var inner context.Context
	var leave func()
	if err == nil {
		inner, leave, err = l.begin(ctx)
	}
	if err != nil {
		return fmt.Errorf("append after %d: %w: %w", expected, journal.ErrNotStored, err)
	}
	defer leave()
	unknown, err := l.methods.Append(inner, expected, events)
	if err != nil && !unknown && !errors.Is(err, journal.ErrConflict) {
		err = fmt.Errorf("%w: %w", journal.ErrNotStored, err)
	}
	if err != nil {
		return fmt.Errorf("append after %d: %w", expected, l.explain(inner, err))
	}
	if n := len(events); n > 0 {
		l.Set(events[n-1].Seq)
	}
	return nil
}

// readBytes is the size at which Read ends early. A read returns at most this much and one event.
const readBytes = 8 << 20

// Read returns at most limit events that follow the event after; none if limit is 0 or less.
func (l *Log) Read(ctx context.Context, after uint64, limit int) ([]signalbox.Event, error) {
	events, _, err := l.read(ctx, after, limit, readBytes)
	return events, err
}

func (l *Log) read(ctx context.Context, after uint64, limit, bytes int) (events []signalbox.Event,
	end bool, err error) {
	err = l.Do(ctx, func(ctx context.Context) (err error) {
		if end = limit <= 0 || after >= math.MaxInt64; !end {
			events, end, err = l.methods.Read(ctx, after, limit, bytes)
		}
		return err
	}, "read after %d", after)
	switch {
	case err == nil:
		return events, end, nil
	case errors.Is(err, journal.ErrDamaged) && len(events) > 0:
		return events, false, nil
	}
	return nil, false, err
}

// Head returns the sequence number of the last event.
func (l *Log) Head(ctx context.Context) (uint64, error) {
	return result(ctx, l, l.methods.Head, "read the head")
}

// result is Do for a call with a result.
func result[T any](ctx context.Context, l *Log, f func(context.Context) (T, error), format string,
	args ...any) (T, error) {
	var got, none T
	err := l.Do(ctx, func(ctx context.Context) (err error) {
		got, err = f(ctx)
		return err
	}, format, args...)
	if err != nil {
		return none, err
	}
	return got, nil
}

// PutBlob stores the bytes of r, and returns their digest.
func (l *Log) PutBlob(ctx context.Context, r io.Reader) (signalbox.Hash, error) {
	return result(ctx, l, func(ctx context.Context) (signalbox.Hash, error) {
		return l.methods.PutBlob(ctx, contextReader{ctx, r})
	}, "put a blob")
}

// contextReader ends when its context does.
type contextReader struct {
	ctx context.Context
	r   io.Reader
}

func (r contextReader) Read(p []byte) (int, error) {
	if err := r.ctx.Err(); err != nil {
		return 0, err
	}
	return r.r.Read(p)
}

// GetBlob verifies a blob, and returns its bytes from the start.
func (l *Log) GetBlob(ctx context.Context, digest signalbox.Hash) (io.ReadCloser, error) {
	return result(ctx, l, func(ctx context.Context) (io.ReadCloser, error) {
		return l.methods.GetBlob(ctx, digest)
	}, "get blob %v", digest)
}

// OpenBlob opens a blob for reading parts of it.
func (l *Log) OpenBlob(ctx context.Context, digest signalbox.Hash) (journal.Blob, error) {
	return result(ctx, l, func(ctx context.Context) (journal.Blob, error) {
		return l.methods.OpenBlob(ctx, digest)
	}, "open blob %v", digest)
}

// DeleteBlob destroys the bytes of a blob.
func (l *Log) DeleteBlob(ctx context.Context, digest signalbox.Hash) error {
	return l.Do(ctx, func(ctx context.Context) error { return l.methods.DeleteBlob(ctx, digest) },
		"delete blob %v", digest)
}

// Set wakes all watches if head, the last event of the log, has changed.
func (l *Log) Set(head uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if head != l.head {
		l.head = head
		l.wake()
	}
}

// Wake wakes all watches when the head cannot be learned: they read the log, or find out why that
// is not possible.
func (l *Log) Wake() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.wake()
}

func (l *Log) wake() {
	close(l.changed)
	l.changed = make(chan struct{})
}

// next returns a channel that is closed when watches are woken next.
func (l *Log) next() <-chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.changed
}

// Limits on what a watch reads at a time.
const (
	watchEvents = 256
	watchBytes  = 1 << 20
)

// Watch yields the events that follow the event after, and waits for more.
func (l *Log) Watch(ctx context.Context, after uint64) iter.Seq2[signalbox.Event, error] {
	return func(yield func(signalbox.Event, error) bool) {
		l.follow()
		for {
			next := l.next() // before it reads, so that no append is missed
			events, end, err := l.read(ctx, after, watchEvents, watchBytes)
			for _, e := range events {
				after = e.Seq
				if !yield(e, nil) {
					return
				}
			}
			if err == nil && end {
				select {
				case <-next:
				case <-ctx.Done():
				case <-l.closing.Done():
					err = ErrClosed
				}
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
