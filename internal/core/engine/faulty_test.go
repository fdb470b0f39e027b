package engine

import (
	"context"
	"errors"
	"iter"
	"sync"
	"sync/atomic"
	"testing"

	"signalbox"
	"signalbox/internal/core/journal"
)

// faulty stands between one engine and a journal, and does to its calls what the scripts say.
type faulty struct {
	journal.Journal
	appends, reads, heads, watches, loads, saves, deletes script
	// watching is how many watches are open.
	watching atomic.Int32
}

// step is what happens instead of a call. next is the call itself.
type step func(next func() error) error

// script has a step for each of the next calls. When they are used up, calls go through. It counts
// all of them.
type script struct {
	mu    sync.Mutex
	steps []step
	count int
}

func (s *script) then(steps ...step) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.steps = append(s.steps, steps...)
}

// clear lets all later calls through.
func (s *script) clear() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.steps = nil
}

func (s *script) calls() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.count
}

func (s *script) run(next func() error) error {
	s.mu.Lock()
	s.count++
	now := step(goesThrough)
	if len(s.steps) > 0 {
		now, s.steps = s.steps[0], s.steps[1:]
	}
	s.mu.Unlock()
	return now(next)
}

// errCut is the error of a call whose outcome is open.
var errCut = errors.New("the connection was cut")

func goesThrough(next func() error) error { return next() }

func fails(err error) step { return func(func() error) error { return err } }

// cutBefore fails without having done anything, and does not say so.
func cutBefore(func() error) error { return errCut }

// cutAfter fails although it is done.
func cutAfter(next func() error) error { return errors.Join(errCut, next()) }

// blocked waits for the gate before it does the call.
func blocked(gate <-chan struct{}) step {
	return func(next func() error) error {
		<-gate
		return next()
	}
}

// blockedAfter does the call and waits for the gate before it says so.
func blockedAfter(gate <-chan struct{}) step {
	return func(next func() error) error {
		err := next()
		<-gate
		return err
	}
}

// first does something before the call.
func first(do func()) step {
	return func(next func() error) error {
		do()
		return next()
	}
}

func repeat(n int, s step) []step {
	steps := make([]step, n)
	for i := range steps {
		steps[i] = s
	}
	return steps
}

func (f *faulty) Append(ctx context.Context, expected uint64, events []signalbox.Event) error {
	return f.appends.run(func() error { return f.Journal.Append(ctx, expected, events) })
}

func (f *faulty) Read(ctx context.Context, after uint64,
	limit int) (events []signalbox.Event, err error) {
	err = f.reads.run(func() error {
		events, err = f.Journal.Read(ctx, after, limit)
		return err
	})
	return events, err
}

func (f *faulty) Watch(ctx context.Context, after uint64) iter.Seq2[signalbox.Event, error] {
	return func(yield func(signalbox.Event, error) bool) {
		f.watching.Add(1)
		defer f.watching.Add(-1)
		for event, err := range f.Journal.Watch(ctx, after) {
			err = f.watches.run(func() error { return err })
			if !yield(event, err) || err != nil {
				return
			}
		}
	}
}

func (f *faulty) Head(ctx context.Context) (head uint64, err error) {
	err = f.heads.run(func() error {
		head, err = f.Journal.Head(ctx)
		return err
	})
	return head, err
}

func (f *faulty) LoadSnapshot(ctx context.Context) (s journal.Snapshot, err error) {
	err = f.loads.run(func() error {
		s, err = f.Journal.LoadSnapshot(ctx)
		return err
	})
	return s, err
}

func (f *faulty) SaveSnapshot(ctx context.Context, s journal.Snapshot) error {
	return f.saves.run(func() error { return f.Journal.SaveSnapshot(ctx, s) })
}

func (f *faulty) DeleteBlob(ctx context.Context, digest signalbox.Hash) error {
	return f.deletes.run(func() error { return f.Journal.DeleteBlob(ctx, digest) })
}

// faultyBox returns an engine on a new box, and its journal, which the test can let fail.
func faultyBox(t testing.TB, opts *Options) (*Engine, *faulty, *memory) {
	t.Helper()
	m := newMemory()
	f := &faulty{Journal: m}
	return openBox(t, f, opts), f, m
}
