// Package engine carries out commands: it decides them by the rules on its own fold of the log, appends what follows,
// and answers when that is durable. Any number of engines, in any number of processes, share one log; nobody is the
// coordinator. An engine that finds that another got there first catches up and decides again.
//
// Group commit is here: all commands that wait while an append is under way are decided together, each on the
// state that the ones before it lead to, and appended as one.
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

// ErrClosed means that the engine is closed, or was while the command waited.
var ErrClosed = errors.New("the engine is closed")

// ErrUnknownOutcome means that it could not be learnt whether a command was carried out: read the log, or give
// the command again; claims, renewals, releases and exits that were carried out before are answered as they were then.
var ErrUnknownOutcome = errors.New("it is not known whether the command was carried out")

// Options says how an engine works. The zero value is for use.
type Options struct {
	// Now is the clock; nil is the system's.
	Now func() time.Time
	// Elapsed is the time since some moment, whatever happens to the clock; a jump of the clock that it does not
	// explain stops the engine from writing. Nil is the system's if Now is nil too; otherwise the clock is trusted.
	Elapsed func() time.Duration
	// Log hears what is not an answer to anybody; nil drops it.
	Log *slog.Logger
}

// Engine carries out commands. Its methods are safe for concurrent use.
type Engine struct {
	journal journal.Journal
	clock   *clock
	log     *slog.Logger

	queue   chan *request
	closing chan struct{} // closed by Close: no new requests
	stopped chan struct{} // closed by the writer: no more answers

	// mu guards what follows. The writer holds it from deciding until the append is done, so that nobody sees
	// what is not durable.
	mu       sync.Mutex
	state    *rules.State
	tail     ledger.Tail
	broken   error         // why the log cannot be followed any more
	moved    chan struct{} // closed, and made anew, when the state moves
	saved    uint64        // the sequence of the last snapshot
	saving   sync.WaitGroup
	isSaving bool

	closeOnce sync.Once
}

// Open folds the log and returns an engine on it. The caller closes the engine, then the journal.
func Open(ctx context.Context, j journal.Journal, opts *Options) (*Engine, error) {
	if opts == nil {
		opts = &Options{}
	}
	e := &Engine{
		journal: j,
		clock:   newClock(opts),
		log:     opts.Log,
		queue:   make(chan *request, 1024),
		closing: make(chan struct{}),
		stopped: make(chan struct{}),
		state:   &rules.State{},
		moved:   make(chan struct{}),
	}
	if e.log == nil {
		e.log = slog.New(slog.DiscardHandler)
	}
	if err := e.loadSnapshot(ctx); err != nil {
		return nil, err
	}
	if err := e.fold(ctx, nil); err != nil {
		return nil, err
	}
	go e.write()
	return e, nil
}

// Close carries out the commands that wait, saves a snapshot if that is worth it, and stops. It does not close the
// journal.
func (e *Engine) Close() error {
	e.closeOnce.Do(func() {
		close(e.closing)
		<-e.stopped
		e.saving.Wait()
		e.mu.Lock()
		defer e.mu.Unlock()
		if e.worthSaving() {
			e.save(e.snapshot())
		}
	})
	return nil
}

// View shows the state to f, which must neither keep nor change it. What f sees is durable. It waits for an append that
// is under way.
func (e *Engine) View(f func(*rules.State)) {
	e.mu.Lock()
	defer e.mu.Unlock()
	f(e.state)
}

// WouldRecord says whether a command would leave anything in the log, as far as this engine knows. Bytes that only
// an event names need not be kept if it would not.
func (e *Engine) WouldRecord(c rules.Command) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return len(rules.Decide(e.state, e.clock.now(), c).Events) > 0
}

// Tail returns where the log ends, as far as this engine knows.
func (e *Engine) Tail() ledger.Tail {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.tail
}

// Refresh catches up with what other processes appended.
func (e *Engine) Refresh(ctx context.Context) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.catchUp(ctx)
}

// Wait blocks until the state has moved past an event. Only with Follow running does it hear of other processes.
func (e *Engine) Wait(ctx context.Context, after uint64) error {
	for {
		e.mu.Lock()
		seq, moved, broken := e.state.Seq(), e.moved, e.broken
		e.mu.Unlock()
		if seq > after || broken != nil {
			return broken
		}
		select {
		case <-moved:
		case <-ctx.Done():
			return ctx.Err()
		case <-e.closing:
			return ErrClosed
		}
	}
}

// announce wakes those who wait for the state to move. The caller holds mu.
func (e *Engine) announce() {
	close(e.moved)
	e.moved = make(chan struct{})
}

// extend folds one event that is in the log. The caller holds mu.
func (e *Engine) extend(event *signalbox.Event) error {
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
