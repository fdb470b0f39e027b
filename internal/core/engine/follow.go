package engine

import (
	"context"
	"errors"
	"time"

	"signalbox"
	"signalbox/internal/core/rules"
)

// Follow keeps the fold up with what other processes append, and records leases that run out, until ctx ends or the
// log cannot be followed. Without it an engine learns of others only when it gives a command or is refreshed.
func (e *Engine) Follow(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	failed := make(chan error, 1)
	go func() {
		defer cancel()
		failed <- e.hear(ctx)
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

// hear folds events as the journal tells them.
func (e *Engine) hear(ctx context.Context) error {
	for event, err := range e.journal.Watch(ctx, e.Tail().Seq) {
		if err != nil {
			return err
		}
		if err := e.take(&event); err != nil {
			return err
		}
	}
	return ctx.Err()
}

func (e *Engine) take(event *signalbox.Event) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	switch {
	case e.broken != nil:
		return e.broken
	case event.Seq <= e.state.Seq(): // one of our own, or read since
		return nil
	}
	if err := e.extend(event); err != nil {
		return e.breakDown(err)
	}
	e.announce()
	return nil
}

// expireWhenDue waits until the first lease runs out and records it, or until the state moves. It fails only when
// the engine is closed or the log is broken.
func (e *Engine) expireWhenDue(ctx context.Context) error {
	e.mu.Lock()
	moved, broken := e.moved, e.broken
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
	case <-moved:
		return nil
	case <-timer:
	}
	_, err := e.Do(ctx, rules.Expire{})
	if errors.Is(err, ErrClosed) {
		return err
	}
	if err != nil && ctx.Err() == nil {
		e.log.Warn("cannot record that leases ran out; trying again", "error", err)
		select { // whatever is wrong, do not ask a hundred times a second
		case <-ctx.Done():
		case <-e.closing:
		case <-time.After(time.Second):
		}
	}
	return nil
}
