package engine

import (
	"context"
	"errors"
	"fmt"

	"signalbox"
	"signalbox/internal/core/applied"
	"signalbox/internal/core/journal"
)

// readAtOnce is the number of events read at a time.
const readAtOnce = 2048

// readAll applies the whole log after the current state. It is for starting, when no one else uses
// the state: it reads the next batch while it applies the previous one. After each event it calls
// applied, if that is not nil.
func (e *Engine) readAll(ctx context.Context, applied func() error) error {
	type batch struct {
		events []signalbox.Event
		err    error
	}
	ctx, cancel := context.WithCancel(ctx)
	batches := make(chan batch, 2)
	defer func() { // stop reading the journal: the caller may close it
		cancel()
		for range batches {
		}
	}()
	go func(after uint64) {
		defer close(batches)
		for {
			events, err := e.journal.Read(ctx, after, readAtOnce)
			select {
			case batches <- batch{events, err}:
			case <-ctx.Done():
				return
			}
			if err != nil || len(events) == 0 {
				return
			}
			after = events[len(events)-1].Seq
		}
	}(e.state.Seq())
	for b := range batches {
		if b.err != nil {
			return fmt.Errorf("read the ledger: %w", b.err)
		}
		for i := range b.events {
			err := e.apply(&b.events[i])
			if err == nil && applied != nil {
				err = applied()
			}
			if err != nil {
				return err
			}
		}
	}
	return ctx.Err()
}

// catchUp applies the new events of the log, to its end. The caller has the turn.
func (e *Engine) catchUp(ctx context.Context) error {
	for {
		if n, err := e.readNext(ctx); err != nil || n == 0 {
			return err
		}
	}
}

// readNext reads the log once and applies the events. It returns how many there were: none only at
// the end of the log. The caller has the turn.
func (e *Engine) readNext(ctx context.Context) (int, error) {
	if err := e.failure(); err != nil {
		return 0, err
	}
	events, err := e.journal.Read(ctx, e.state.Seq(), readAtOnce)
	if err != nil {
		return 0, fmt.Errorf("read the ledger: %w", err)
	}
	if len(events) == 0 {
		return 0, nil
	}
	return e.applyNext(events)
}

// applyNext applies events that follow the state, and remembers them. It returns how many were
// applied. The caller has the turn.
func (e *Engine) applyNext(events []signalbox.Event) (int, error) {
	applied, err := e.applyAll(events)
	if err := e.remember(events[:applied]); err != nil {
		return applied, err
	}
	if err != nil {
		return applied, e.fail(err)
	}
	e.notify()
	return applied, nil
}

// applyAll applies events of the log, and returns how many were applied. The caller has the turn.
func (e *Engine) applyAll(events []signalbox.Event) (int, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for i := range events {
		if err := e.apply(&events[i]); err != nil {
			return i, err
		}
	}
	return len(events), nil
}

// checkLength returns an error if the log has lost events, which would look like a conflict
// forever. The caller has the turn.
func (e *Engine) checkLength(ctx context.Context) error {
	head, err := e.journal.Head(ctx)
	if err != nil {
		return fmt.Errorf("read the ledger: %w", err)
	}
	if seq := e.state.Seq(); head < seq {
		return e.fail((&applied.Lost{First: head + 1, Last: seq, Head: head}).AsError())
	}
	return nil
}

// fail stops the engine for good, because its state no longer matches the log. If the log has lost
// events, the error lists them. Every later call returns the first error. The caller does not hold
// mu.
func (e *Engine) fail(err error) error {
	if signalbox.CodeOf(err) == signalbox.CodeUnverified {
		err = e.explain(err)
	}
	e.mu.Lock()
	if e.broken == nil {
		e.broken = err
	}
	err = e.broken
	e.mu.Unlock()
	e.notify()
	return err
}

// Stop makes the engine refuse every later command with err, which says what is wrong with the log.
// Commands that are being executed may still be.
func (e *Engine) Stop(err error) {
	if e.failure() == nil {
		e.fail(err)
	}
}

// loadSnapshot loads the state from the journal's snapshot, if that belongs to this log.
func (e *Engine) loadSnapshot(ctx context.Context) error {
	s, err := e.journal.LoadSnapshot(ctx)
	if errors.Is(err, journal.ErrNoSnapshot) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("load the snapshot: %w", err)
	}
	events, err := e.journal.Read(ctx, s.Seq-1, 1)
	if err != nil {
		return fmt.Errorf("read the ledger: %w", err)
	}
	if len(events) == 0 || events[0].Hash != s.Hash {
		e.log.Warn("the snapshot belongs to another log; reading all events", "snapshot", s.Seq)
		return nil
	}
	tail, state, err := decodeSnapshot(s, &events[0])
	if err != nil {
		e.log.Info("the snapshot has another version; reading all events", "reason", err)
		return nil
	}
	e.tail, e.state, e.saved = tail, state, s.Seq
	return nil
}
