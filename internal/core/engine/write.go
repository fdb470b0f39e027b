package engine

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"signalbox"
	"signalbox/internal/core/journal"
	"signalbox/internal/core/rules"
)

const (
	// maxBatch is the maximum number of commands decided together.
	maxBatch = 512
	// maxAttempts is the maximum number of attempts if appends fail with an unknown outcome.
	maxAttempts = 3
)

// request is a command and where to send its answer.
type request struct {
	ctx     context.Context
	command rules.Command
	answer  chan outcome // with a buffer of one
}

type outcome struct {
	answer rules.Answer
	err    error
}

// Do executes a command. When it returns, the events of the command are durable. A refusal is decided on the current log, never on
// an outdated state. If ctx is done while the command is executed, Do returns ctx's error, and the command may still be executed.
//
// If the command is refused, the error is a *signalbox.Error, and the answer is set as far as possible.
func (e *Engine) Do(ctx context.Context, c rules.Command) (rules.Answer, error) {
	r := &request{ctx, c, make(chan outcome, 1)}
	if err := ctx.Err(); err != nil {
		return rules.Answer{}, err
	}
	select {
	case <-e.closing:
		return rules.Answer{}, ErrClosed
	default:
	}
	select {
	case e.queue <- r:
	case <-ctx.Done():
		return rules.Answer{}, ctx.Err()
	case <-e.closing:
		return rules.Answer{}, ErrClosed
	}
	return e.await(r)
}

func (e *Engine) await(r *request) (rules.Answer, error) {
	select {
	case o := <-r.answer:
		return o.answer, o.err
	case <-r.ctx.Done():
		return rules.Answer{}, r.ctx.Err()
	case <-e.stopped:
		select {
		case o := <-r.answer:
			return o.answer, o.err
		default: // queued after the writer stopped
			return rules.Answer{}, ErrClosed
		}
	}
}

// write is the only writer: it executes all waiting requests together.
func (e *Engine) write() {
	defer close(e.stopped)
	for {
		var first *request
		select {
		case first = <-e.queue:
		case <-e.closing:
			select {
			case first = <-e.queue: // accepted before Close
			default:
				return
			}
		}
		e.execute(e.gather(first))
	}
}

func (e *Engine) gather(first *request) []*request {
	batch := []*request{first}
	for len(batch) < maxBatch {
		select {
		case r := <-e.queue:
			batch = append(batch, r)
		default:
			return batch
		}
	}
	return batch
}

// execute executes and answers every request of a batch.
func (e *Engine) execute(batch []*request) {
	for failed, conflicts := 0, 0; len(batch) > 0; {
		batch = dropCanceled(batch)
		outcomes, err := e.attempt(batch)
		switch {
		case err == nil:
			for i, o := range outcomes {
				batch[i].answer <- o
			}
			batch = batch[len(outcomes):]
			failed, conflicts = 0, 0
		case errors.Is(err, journal.ErrConflict):
			pause(conflicts)
			conflicts++
		default:
			failed++
			if !errors.Is(err, errAppendLost) || failed == maxAttempts {
				answerAll(batch, err)
				return
			}
		}
	}
}

func dropCanceled(batch []*request) []*request {
	kept := batch[:0:0]
	for _, r := range batch {
		if err := r.ctx.Err(); err != nil {
			r.answer <- outcome{err: err}
		} else {
			kept = append(kept, r)
		}
	}
	return kept
}

func answerAll(batch []*request, err error) {
	for _, r := range batch {
		r.answer <- outcome{err: err}
	}
}

// pause waits after repeated conflicts, for a random time that grows with their number.
func pause(conflicts int) {
	if conflicts > 0 {
		time.Sleep(rand.N(time.Millisecond << min(conflicts, 5)))
	}
}

// errAppendLost means that the outcome of an append was unknown and that its events turned out not to be in the log.
var errAppendLost = errors.New("the events were not stored")

// attempt decides as many requests as fit in one append, and appends their events. It returns the outcomes of these first requests
// of the batch. On an error nothing was stored, except for ErrUnknownOutcome.
func (e *Engine) attempt(batch []*request) ([]outcome, error) {
	if len(batch) == 0 {
		return nil, nil
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.broken != nil {
		return nil, e.broken
	}
	now, err := e.clock.read()
	if err != nil {
		return nil, err
	}
	before := e.tail
	e.state.Begin()
	outcomes, events := e.decide(now, batch)
	if err := e.store(before.Seq, events); err != nil {
		e.state.Rollback()
		e.tail = before
		return outcomes, e.afterFailure(err, events)
	}
	e.state.Commit()
	if len(events) > 0 {
		e.notify()
		if e.snapshotDue() {
			e.saveInBackground()
		}
	}
	return outcomes, nil
}

// decide decides requests in order, each on the state that results from the previous ones. The caller holds mu.
func (e *Engine) decide(now time.Time, batch []*request) ([]outcome, []signalbox.Event) {
	var outcomes []outcome
	var events []signalbox.Event
	for _, r := range batch {
		d := rules.Decide(e.state, now, r.command)
		if len(events)+len(d.Events) > journal.MaxAppend && len(events) > 0 {
			break
		}
		e.tail.Seal(d.Events)
		if err := e.state.ApplyDecision(&d); err != nil {
			panic(fmt.Sprintf("engine: the rules do not accept their own event: %v", err))
		}
		events = append(events, d.Events...)
		outcomes = append(outcomes, outcome{d.Answer, d.Err})
	}
	return outcomes, events
}

// store appends the events. If there are none, it checks that the decisions were based on the current log.
func (e *Engine) store(expected uint64, events []signalbox.Event) error {
	if len(events) > 0 {
		return e.journal.Append(context.Background(), expected, events)
	}
	head, err := e.journal.Head(context.Background())
	if err == nil && head != expected {
		err = journal.ErrConflict
	}
	return err
}

// afterFailure determines the outcome of a failed append. The caller holds mu and has rolled back the state.
func (e *Engine) afterFailure(err error, events []signalbox.Event) error {
	if errors.Is(err, journal.ErrConflict) {
		return e.afterConflict()
	}
	if errors.Is(err, journal.ErrNotStored) || len(events) == 0 {
		return err
	}
	last := events[len(events)-1] // its hash covers all of them; another writer may have stored an event equal to the first
	if readErr := e.catchUp(context.Background()); readErr != nil {
		return fmt.Errorf("%w: %w; then %w", ErrUnknownOutcome, err, readErr)
	}
	stored, readErr := e.journal.Read(context.Background(), last.Seq-1, 1)
	switch {
	case readErr != nil:
		return fmt.Errorf("%w: %w; then %w", ErrUnknownOutcome, err, readErr)
	case len(stored) == 1 && stored[0].Hash == last.Hash:
		return nil
	}
	return fmt.Errorf("%w: %w", errAppendLost, err)
}

// afterConflict reads the events of the faster process. It returns ErrConflict if the requests must be decided again.
func (e *Engine) afterConflict() error {
	seq := e.state.Seq()
	err := e.catchUp(context.Background())
	if err == nil && e.state.Seq() == seq {
		err = e.checkLength(context.Background())
	}
	if err != nil {
		return err
	}
	return journal.ErrConflict
}
