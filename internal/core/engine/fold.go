package engine

import (
	"context"
	"errors"
	"fmt"

	"signalbox"
	"signalbox/internal/core/journal"
)

// readAtOnce is how many events are read in one go.
const readAtOnce = 2048

// fold reads the whole log from where the state is. It is for a start, when nobody else has the state: reading goes
// on while the batch before is folded. After each event it calls a function, if that is not nil.
func (e *Engine) fold(ctx context.Context, folded func() error) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	type batch struct {
		events []signalbox.Event
		err    error
	}
	batches := make(chan batch, 2)
	go func(after uint64) {
		defer close(batches)
		for {
			events, err := e.journal.Read(ctx, after, readAtOnce)
			select {
			case batches <- batch{events, err}:
			case <-ctx.Done():
				return
			}
			if err != nil || len(events) < readAtOnce {
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
			err := e.extend(&b.events[i])
			if err == nil && folded != nil {
				err = folded()
			}
			if err != nil {
				return err
			}
		}
	}
	return ctx.Err()
}

// catchUp folds what is new in the log. The caller holds mu.
func (e *Engine) catchUp(ctx context.Context) error {
	if e.broken != nil {
		return e.broken
	}
	for {
		events, err := e.journal.Read(ctx, e.state.Seq(), readAtOnce)
		if err != nil {
			return fmt.Errorf("read the ledger: %w", err)
		}
		for i := range events {
			if err := e.extend(&events[i]); err != nil {
				return e.breakDown(err)
			}
		}
		if len(events) > 0 {
			e.announce()
		}
		if len(events) < readAtOnce {
			return nil
		}
	}
}

// checkLength notices that the log lost its end. Such a log seems to have moved on, and never will. The caller holds mu.
func (e *Engine) checkLength(ctx context.Context) error {
	head, err := e.journal.Head(ctx)
	if err != nil {
		return fmt.Errorf("read the ledger: %w", err)
	}
	if seq := e.state.Seq(); head < seq {
		return e.breakDown(changed(fmt.Errorf("it ends at event %d and went on to event %d before", head, seq)))
	}
	return nil
}

// breakDown stops the engine from deciding on a fold that can no longer follow the log. The caller holds mu.
func (e *Engine) breakDown(err error) error {
	e.broken = err
	e.announce()
	return err
}

// loadSnapshot starts the fold from the journal's snapshot, if it is one of this very log.
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
		e.log.Warn("the snapshot is of another log; folding from the start", "snapshot", s.Seq)
		return nil
	}
	tail, state, err := decodeSnapshot(s, &events[0])
	if err != nil {
		e.log.Info("the snapshot is of another version; folding from the start", "reason", err)
		return nil
	}
	e.tail, e.state, e.saved = tail, state, s.Seq
	return nil
}
