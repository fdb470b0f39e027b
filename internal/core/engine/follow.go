package engine

import (
	"cmp"
	"context"
	"errors"
	"sync"
	"time"

	"signalbox"
	"signalbox/internal/core/journal"
	"signalbox/internal/core/rules"
)

// Follow applies the events that other processes append, and records expired leases, until ctx is
// done or the log cannot be followed. It waits while the journal is not available. Without it an
// engine reads the events of others only when it executes a command or is refreshed.
func (e *Engine) Follow(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	failed := make(chan error, 1)
	go func() {
		defer cancel()
		failed <- e.Observe(ctx)
	}()
	for ctx.Err() == nil {
		if err := e.expireWhenDue(ctx); err != nil {
			cancel()
			<-failed
			return err
		}
	}
	return <-failed
}

// Observe applies the events that other processes append, until ctx is done or the log cannot be
// followed. Unlike Follow it records nothing, so expired leases stay until another process records
// them. A journal does not report that it has lost events, and a watch would wait at its end for
// ever, so Observe also looks at the log from time to time.
func (e *Engine) Observe(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	var checking sync.WaitGroup
	defer checking.Wait()
	defer cancel()
	checking.Go(func() {
		e.checkRegularly(ctx)
		cancel()
	})
	err := e.applyReported(ctx)
	if ctx.Err() == nil {
		return err
	}
	return cmp.Or(e.failure(), err)
}

// applyReported applies the events that the journal reports.
func (e *Engine) applyReported(ctx context.Context) error {
	if err := e.inTurn(ctx, e.checkMoved); err != nil {
		return err
	}
	for event, err := range e.Watch(ctx, e.Tail().Seq) {
		if err == nil {
			err = e.inTurn(ctx, func(context.Context) error { return e.applyWatched(&event) })
		}
		if err == nil {
			err = e.inTurn(ctx, e.checkMoved)
		}
		if err != nil {
			return err
		}
	}
	return ctx.Err()
}

// applyWatched applies an event unless it is applied already. The caller has the turn.
func (e *Engine) applyWatched(event *signalbox.Event) error {
	if err := e.failure(); err != nil || event.Seq <= e.state.Seq() {
		return err
	}
	_, err := e.applyNext([]signalbox.Event{*event})
	return err
}

// checkMoved stops the engine for good if the log was moved away: what happens elsewhere never
// arrives here, so no one may wait for it or rely on this state any more. The rules refuse commands
// in any case. The caller has the turn.
func (e *Engine) checkMoved(ctx context.Context) error {
	if e.state.Moved() == nil {
		return nil
	}
	// the move may be long ago, and the log continue after it
	if err := e.catchUp(ctx); err != nil {
		return err
	}
	if err := e.state.Moved(); err != nil {
		return e.fail(err)
	}
	return nil
}

// expireWhenDue waits until the first lease expires and records it, or until the state changes. It
// returns an error only if the engine is closed or the log cannot be followed.
func (e *Engine) expireWhenDue(ctx context.Context) error {
	e.mu.Lock()
	advanced, broken := e.advanced, e.broken
	due, any := e.state.NextExpiry()
	now := e.clock.now()
	e.mu.Unlock()
	if broken != nil {
		return broken
	}
	var timer <-chan time.Time
	if any {
		t := time.NewTimer(due.Sub(now))
		defer t.Stop()
		timer = t.C
	}
	select {
	case <-ctx.Done():
		return nil
	case <-e.closing:
		return ErrClosed
	case <-advanced:
		return nil
	case <-timer:
	}
	_, err := e.Do(ctx, rules.Expire{})
	if errors.Is(err, ErrClosed) {
		return err
	}
	if err != nil && ctx.Err() == nil {
		if errors.Is(err, journal.ErrUnavailable) {
			e.outage.begin(err)
		} else {
			e.log.Warn("cannot record expired leases; trying again", "error", err)
		}
		select { // do not retry without a pause
		case <-ctx.Done():
		case <-e.closing:
		case <-time.After(time.Second):
		}
	}
	return nil
}
