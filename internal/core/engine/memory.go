package engine

import (
	"context"
	"errors"
	"fmt"
	"time"

	"signalbox"
	"signalbox/internal/core/applied"
	"signalbox/ledger"
)

// remembered returns the events that the processes of this machine applied, as far as they are
// remembered.
func (e *Engine) remembered() ([]applied.Event, error) {
	if e.memory == nil {
		return nil, nil
	}
	return e.memory.Events()
}

// checkRemembered returns an error if the log, which was read after the remembered events, lacks
// the last one of them. Otherwise it remembers the end of the log.
func (e *Engine) checkRemembered(ctx context.Context, remembered []applied.Event) error {
	if e.memory == nil || e.tail.Seq == 0 && len(remembered) == 0 {
		return nil
	}
	var last applied.Event
	if len(remembered) > 0 {
		last = remembered[len(remembered)-1]
	}
	if last.Seq == e.tail.Seq && last.Hash == e.tail.Hash {
		return nil
	}
	lost, err := applied.Compare(ctx, e.journal, remembered)
	if err != nil {
		return err
	}
	if lost != nil {
		return lost.AsError()
	}
	for after := max(last.Seq, e.tail.Seq-min(e.tail.Seq, applied.Size)); after < e.tail.Seq; {
		events, err := e.journal.Read(ctx, after, int(e.tail.Seq-after))
		if err != nil {
			return fmt.Errorf("read the ledger: %w", err)
		}
		if len(events) == 0 {
			return fmt.Errorf("read the ledger: event %d, which was there, cannot be read", after+1)
		}
		if err := e.remember(events); err != nil {
			return err
		}
		after = events[len(events)-1].Seq
	}
	return nil
}

// remember remembers events that were applied. It returns an error only if the log has two
// histories: what cannot be remembered is logged, because the events are durable in the log. The
// caller has the turn.
func (e *Engine) remember(events []signalbox.Event) error {
	if e.memory == nil || len(events) == 0 {
		return nil
	}
	err := e.memory.Add(events)
	if errors.Is(err, applied.ErrOtherEvent) {
		return e.fail(changed(err))
	}
	if err != nil {
		e.log.Warn("cannot remember the last events, so their loss would not be noticed", "error",
			err)
	}
	return nil
}

// checkNext returns an error if another process of this machine has applied events that the log no
// longer has. Appending to such a log would put others in their place. The caller has the turn.
func (e *Engine) checkNext(ctx context.Context) error {
	if e.memory == nil {
		return nil
	}
	next, ok := e.memory.Next(e.state.Seq())
	if !ok {
		return nil
	}
	for e.state.Seq() < next.Seq {
		if n, err := e.readNext(ctx); err != nil {
			return err
		} else if n == 0 {
			break
		}
	}
	if e.state.Seq() >= next.Seq {
		return nil
	}
	if err := e.state.Moved(); err != nil { // the event is in the place where the log continues
		return e.fail(err)
	}
	remembered, err := e.remembered()
	if err != nil {
		return err
	}
	lost, err := applied.Compare(ctx, e.journal, remembered)
	if err == nil && lost != nil {
		err = e.fail(lost.AsError())
	}
	return err
}

// explain returns an error with the events that the log has lost, if it has lost some, and
// otherwise the error that was found.
func (e *Engine) explain(found error) error {
	remembered, err := e.remembered()
	if err != nil {
		return found
	}
	ctx, cancel := context.WithTimeout(e.life, explainTimeout)
	defer cancel()
	if lost, err := applied.Compare(ctx, e.journal, remembered); err == nil && lost != nil {
		return lost.AsError()
	}
	return found
}

const (
	// explainTimeout is how long the engine may read the log to say what is wrong with it.
	explainTimeout = 10 * time.Second
	// checkPause is the time between two looks at the log by a process that only waits.
	checkPause = time.Minute
)

// checkRegularly checks from time to time that the log still has what was applied, until it does
// not, or ctx is done.
func (e *Engine) checkRegularly(ctx context.Context) {
	tick := time.NewTicker(checkPause)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		if e.checkTail(ctx) != nil {
			return
		}
	}
}

// checkTail returns an error if the log has lost the last event that was applied.
func (e *Engine) checkTail(ctx context.Context) error {
	if lost := e.lostTail(ctx, e.Tail()); lost != nil {
		return e.fail(lost.AsError())
	}
	return nil
}

// lostTail reports what the log has lost, as far as the last event that was applied shows, or nil.
// Errors of reading are left to those who need to read.
func (e *Engine) lostTail(ctx context.Context, tail ledger.Tail) *applied.Lost {
	if tail.Seq == 0 {
		return nil
	}
	lost, err := applied.Compare(ctx, e.journal,
		[]applied.Event{{Seq: tail.Seq, Time: tail.Time, Hash: tail.Hash}})
	if err != nil || lost == nil {
		return nil
	}
	lost.Known = nil // the memory knows more, if there is one
	return lost
}
