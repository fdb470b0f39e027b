// Package engine executes commands: it computes the state from the log, decides commands with the rules, appends the resulting
// events, and returns when they are durable. Any number of engines, in any number of processes, share one log without a
// coordinator. When another engine has appended first, an engine reads the new events and decides again.
//
// The engine implements group commit: commands that arrive during an append are decided together, each on the state that results
// from the ones before, and their events are stored in one append.
package engine

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"signalbox"
	"signalbox/internal/core/journal"
	"signalbox/internal/core/rules"
	"signalbox/ledger"
)

// ErrClosed means that the engine was closed before it executed the command.
var ErrClosed = errors.New("the engine is closed")

// ErrUnknownOutcome means that the command may or may not have been executed: read the log, or repeat the command. Repeated claims,
// renewals, releases and exits get the same answer.
var ErrUnknownOutcome = errors.New("it is unknown whether the command was executed")

// Options are options for Open.
type Options struct {
	// Now returns the time; nil means the system clock.
	Now func() time.Time
	// Elapsed returns the time since a fixed moment, unaffected by changes to the clock. If the clock jumps against it, the engine
	// stops writing. Nil means the system's monotonic clock if Now is nil; otherwise jumps are not detected.
	Elapsed func() time.Duration
	// Log receives diagnostics; nil discards them.
	Log *slog.Logger
}

// Engine executes commands. Its methods are safe for concurrent use.
type Engine struct {
	journal journal.Journal
	clock   *clock
	log     *slog.Logger

	queue   chan *request
	closing chan struct{} // closed by Close: no new requests
	stopped chan struct{} // closed by the writer when it has stopped

	// mu guards the fields below. The writer holds it from deciding until the append is done, so that no one sees a state that is
	// not durable.
	mu       sync.Mutex
	state    *rules.State
	tail     ledger.Tail
	broken   error         // why the log can no longer be followed
	advanced chan struct{} // closed and replaced when the state changes
	saved    uint64        // the sequence number of the last snapshot
	saving   sync.WaitGroup
	isSaving bool

	closeOnce sync.Once
}

// Open computes the state from the log and returns an engine. The caller closes the engine, then the journal.
func Open(ctx context.Context, j journal.Journal, opts *Options) (*Engine, error) {
	if opts == nil {
		opts = &Options{}
	}
	e := &Engine{
		journal:  j,
		clock:    newClock(opts),
		log:      opts.Log,
		queue:    make(chan *request, 1024),
		closing:  make(chan struct{}),
		stopped:  make(chan struct{}),
		state:    &rules.State{},
		advanced: make(chan struct{}),
	}
	if e.log == nil {
		e.log = slog.New(slog.DiscardHandler)
	}
	if err := e.loadSnapshot(ctx); err != nil {
		return nil, err
	}
	if err := e.readAll(ctx, nil); err != nil {
		return nil, err
	}
	go e.write()
	return e, nil
}

// Close executes the commands that are waiting, saves a snapshot if one is due, and stops. It does not close the journal.
func (e *Engine) Close() error {
	e.closeOnce.Do(func() {
		close(e.closing)
		<-e.stopped
		e.saving.Wait()
		e.mu.Lock()
		defer e.mu.Unlock()
		if e.snapshotDue() {
			e.save(e.snapshot())
		}
	})
	return nil
}

// View calls f with the state, which f must neither retain nor change. The state is durable; View waits for an append in progress.
func (e *Engine) View(f func(*rules.State)) {
	e.mu.Lock()
	defer e.mu.Unlock()
	f(e.state)
}

// Preview returns the answer to a command, and the digests of the blobs that its events would refer to, as far as this engine knows.
// Blobs that no event would refer to should not be stored: the command may be refused, and anybody can send one.
func (e *Engine) Preview(c rules.Command) (answer rules.Answer, blobs []signalbox.Hash, err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	decision := rules.Decide(e.state, e.clock.now(), c)
	for _, event := range decision.Events {
		found, err := rules.Blobs(&event)
		if err != nil {
			return rules.Answer{}, nil, err
		}
		blobs = append(blobs, found...)
	}
	return decision.Answer, blobs, nil
}

// Tail returns the tail of the log, as far as this engine knows.
func (e *Engine) Tail() ledger.Tail {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.tail
}

// Refresh reads the events that other processes have appended.
func (e *Engine) Refresh(ctx context.Context) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.catchUp(ctx)
}

// Wait blocks until the state is past the event after. It notices events of other processes only while Follow runs.
func (e *Engine) Wait(ctx context.Context, after uint64) error {
	for {
		e.mu.Lock()
		seq, advanced, broken := e.state.Seq(), e.advanced, e.broken
		e.mu.Unlock()
		if seq > after || broken != nil {
			return broken
		}
		select {
		case <-advanced:
		case <-ctx.Done():
			return ctx.Err()
		case <-e.closing:
			return ErrClosed
		}
	}
}

// notify wakes all callers of Wait. The caller holds mu.
func (e *Engine) notify() {
	close(e.advanced)
	e.advanced = make(chan struct{})
}

// apply applies one event of the log to the state. The caller holds mu.
func (e *Engine) apply(event *signalbox.Event) error {
	tail := e.tail
	if err := tail.Extend(event); err != nil {
		return changed(err)
	}
	if err := e.state.Apply(event); errors.Is(err, rules.ErrHistory) {
		return changed(err)
	} else if err != nil {
		return err
	}
	e.tail = tail
	return nil
}

func changed(err error) error {
	return &signalbox.Error{Code: signalbox.CodeUnverified, Err: fmt.Errorf("the ledger was changed: %w", err),
		Hint: "run signalbox ledger verify, and restore the ledger from a copy"}
}
