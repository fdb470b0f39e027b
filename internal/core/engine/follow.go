package engine

import (
	"context"
	"errors"
	"time"

	"signalbox"
	"signalbox/internal/core/rules"
)

// Follow applies the events that other processes append, and records expired leases, until ctx is done or the log cannot be
// followed. Without it an engine reads the events of others only when it executes a command or is refreshed.
func (e *Engine) Follow(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	failed := make(chan error, 1)
	go func() {
		defer cancel()
		failed <- e.watch(ctx)
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

// watch applies the events that the journal reports.
func (e *Engine) watch(ctx context.Context) error {
	for event, err := range e.journal.Watch(ctx, e.Tail().Seq) {
		if err != nil {
			return err
		}
		if err := e.applyWatched(&event); err != nil {
			return err
		}
	}
	return ctx.Err()
}

func (e *Engine) applyWatched(event *signalbox.Event) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	switch {
	case e.broken != nil:
		return e.broken
	case event.Seq <= e.state.Seq(): // already applied
		return nil
	}
	if err := e.apply(event); err != nil {
		return e.fail(err)
	}
	e.notify()
	return nil
}

// expireWhenDue waits until the first lease expires and records it, or until the state changes. It returns an error only if the
// engine is closed or the log cannot be followed.
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
		e.log.Warn("cannot record expired leases; trying again", "error", err)
		select { // do not retry without a pause
		case <-ctx.Done():
		case <-e.closing:
		case <-time.After(time.Second):
		}
	}
	return nil
}
