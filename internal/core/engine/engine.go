// Package engine executes commands: it computes the state from the log, decides commands with the
// rules, appends the resulting events, and returns when they are durable. Any number of engines, in
// any number of processes, share one log without a coordinator. When another engine has appended
// first, an engine reads the new events and decides again.
//
// The engine implements group commit: commands that arrive during an append are decided together,
// each on the state that results from the ones before, and their events are stored in one append.
package engine

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"signalbox"
	"signalbox/internal/core/applied"
	"signalbox/internal/core/journal"
	"signalbox/internal/core/rules"
	"signalbox/ledger"
)

// ErrClosed means that the engine was closed before it executed the command.
var ErrClosed = errors.New("the engine is closed")

// ErrUnknownOutcome means that the command may or may not have been executed: read the log, or
// repeat the command. Repeated claims, renewals, releases and exits get the same answer.
var ErrUnknownOutcome = errors.New("it is unknown whether the command was executed")

// Options are options for Open.
type Options struct {
	// Now returns the time; nil means the system clock.
	Now func() time.Time
	// Elapsed returns the time since a fixed moment, unaffected by changes to the clock. If the
	// clock jumps against it, the engine stops writing. Nil means the system's monotonic clock if
	// Now is nil; otherwise jumps are not detected.
	Elapsed func() time.Duration
	// Memory remembers the events that the processes of this machine applied, so that the engine
	// refuses to write to a log that has lost some of them. Nil means that only what this engine
	// applied itself is known. The caller closes it after the engine.
	Memory *applied.Memory
	// Log receives diagnostics; nil discards them.
	Log *slog.Logger
}

// Engine executes commands. Its methods are safe for concurrent use.
type Engine struct {
	journal journal.Journal
	clock   *clock
	memory  *applied.Memory // may be nil
	log     *slog.Logger
	outage  outage

	queue   chan *request
	closing chan struct{}   // closed by Close: no new requests
	stopped chan struct{}   // closed by the writer when it has stopped
	life    context.Context // done when Close no longer waits for the journal
	cancel  context.CancelFunc

	// turn holds a value while a goroutine decides commands or applies events. The writer holds it
	// from deciding until the outcome of the append is known and applied. The journal may take long
	// meanwhile, so callers wait for the turn with their context.
	turn chan struct{}

	// mu guards the fields below. It is never held while waiting for the journal or for turn, so
	// the last known state can be read at any time. State and tail change only with both turn and
	// mu held, and only to what is durable: the goroutine that has the turn may read them without
	// mu.
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

// Open computes the state from the log and returns an engine. The caller closes the engine, then
// the journal. If the log lacks events that are remembered, the error is an *applied.Lost.
func Open(ctx context.Context, j journal.Journal, opts *Options) (*Engine, error) {
	if opts == nil {
		opts = &Options{}
	}
	e := &Engine{
		journal:  j,
		clock:    newClock(opts),
		memory:   opts.Memory,
		log:      opts.Log,
		queue:    make(chan *request, 1024),
		closing:  make(chan struct{}),
		stopped:  make(chan struct{}),
		turn:     make(chan struct{}, 1),
		state:    &rules.State{},
		advanced: make(chan struct{}),
	}
	if e.log == nil {
		e.log = slog.New(slog.DiscardHandler)
	}
	e.outage.log = e.log
	e.life, e.cancel = context.WithCancel(context.Background())
	remembered, err := e.remembered() // first, because other processes may append meanwhile
	if err != nil {
		return nil, err
	}
	if err := e.loadSnapshot(ctx); err != nil {
		return nil, err
	}
	if err := e.readAll(ctx, nil); err != nil {
		return nil, err
	}
	if err := e.checkRemembered(ctx, remembered); err != nil {
		return nil, err
	}
	go e.write()
	return e, nil
}

// closeGrace is how long Close waits for the log.
const closeGrace = time.Second

// Close executes the commands that are waiting, saves a snapshot if one is due, and stops. It does
// not close the journal. If the log does not answer, Close cancels what is in progress after a
// second. The commands then fail, with ErrUnknownOutcome if they may be stored.
func (e *Engine) Close() error {
	e.closeOnce.Do(func() {
		close(e.closing)
		defer e.cancel()
		defer time.AfterFunc(closeGrace, e.cancel).Stop()
		<-e.stopped
		e.turn <- struct{}{} // forever: nothing is applied any more
		e.saving.Wait()
		e.saveIfDue()
		e.saving.Wait()
	})
	return nil
}

// take waits for the turn.
func (e *Engine) take(ctx context.Context) error {
	if e.life.Err() != nil { // a choice between two ready channels must not let it through
		return ErrClosed
	}
	select {
	case e.turn <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-e.life.Done():
		return ErrClosed
	}
}

func (e *Engine) release() { <-e.turn }

// inTurn calls f when it has the turn, with a context that is also done when Close no longer waits
// for f.
func (e *Engine) inTurn(ctx context.Context, f func(context.Context) error) error {
	if err := e.take(ctx); err != nil {
		return err
	}
	defer e.release()
	inner, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(e.life, cancel)()
	err := f(inner)
	if err != nil && inner.Err() != nil && ctx.Err() == nil {
		err = fmt.Errorf("%w: %w", ErrClosed, err)
	}
	return err
}

// View calls f with the state, which f must neither retain nor change. The state is durable, and
// includes every command that was answered. View does not wait for the journal: what others have
// appended may be missing, above all while the journal is not available.
func (e *Engine) View(f func(*rules.State)) {
	e.mu.Lock()
	defer e.mu.Unlock()
	f(e.state)
}

// Preview returns the answer to a command, and the digests of the blobs that its events would refer
// to, as far as this engine knows. Blobs that no event would refer to should not be stored: the
// command may be refused, and anybody can send one.
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
	return e.inTurn(ctx, e.catchUp)
}

// failure returns why the log can no longer be followed, nil if it can.
func (e *Engine) failure() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.broken
}

// Wait blocks until the state is past the event after. It notices events of other processes only
// while Follow runs.
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

// notify wakes all callers of Wait.
func (e *Engine) notify() {
	e.mu.Lock()
	defer e.mu.Unlock()
	close(e.advanced)
	e.advanced = make(chan struct{})
}

// apply applies one event of the log to the state. The caller holds turn and mu, or is alone.
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
	return signalbox.CodeUnverified.Errorf(
		"run signalbox ledger verify, and restore the ledger from a copy; if only its last events are not valid, signalbox ledger repair removes them",
		"the ledger was changed: %w", err)
}
