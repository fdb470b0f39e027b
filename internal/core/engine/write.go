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
	// maxBatch is how many commands are decided together at most.
	maxBatch = 512
	// maxAttempts is how often an append is tried again after an error that does not say what happened.
	maxAttempts = 3
)

// request is a command that waits for its answer.
type request struct {
	ctx     context.Context
	command rules.Command
	answer  chan outcome // has room for one
}

type outcome struct {
	answer rules.Answer
	err    error
}

// Do carries out a command. What it answers is durable; also an error is the present log's: it is never the
// result of having missed what others appended. When ctx ends while the command is being carried out, Do returns
// ctx's error, and the command may still be carried out.
//
// The error is a *signalbox.Error if the command is refused. The answer is set beside it as far as it applies.
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
		default: // it came after the writer's last look
			return rules.Answer{}, ErrClosed
		}
	}
}

// write is the one writer: it takes all requests that wait, and carries them out together.
func (e *Engine) write() {
	defer close(e.stopped)
	for {
		var first *request
		select {
		case first = <-e.queue:
		case <-e.closing:
			select {
			case first = <-e.queue: // accepted before Close: still carried out
			default:
				return
			}
		}
		e.carryOut(e.gather(first))
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

// carryOut answers every request of a batch.
func (e *Engine) carryOut(batch []*request) {
	for failed, conflicts := 0, 0; len(batch) > 0; {
		batch = dropGivenUp(batch)
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
			if !errors.Is(err, errNotThere) || failed == maxAttempts {
				answerAll(batch, err)
				return
			}
		}
	}
}

func dropGivenUp(batch []*request) []*request {
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

// pause waits a little after a lost race, longer the more were lost, so that writers do not keep colliding.
func pause(conflicts int) {
	if conflicts > 0 {
		time.Sleep(rand.N(time.Millisecond << min(conflicts, 5)))
	}
}

// errNotThere means that an append failed and that its events are not in the log, though they might have been.
var errNotThere = errors.New("the events were not stored")

// attempt decides as much of a batch as one append holds, and appends it. It returns the outcomes of the first
// requests of the batch; or an error, and then nothing was stored, but for ErrUnknownOutcome.
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
		e.announce()
		if e.worthSaving() {
			e.saveInBackground()
		}
	}
	return outcomes, nil
}

// decide decides requests in turn, each on what the ones before it lead to. The caller holds mu.
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
			panic(fmt.Sprintf("engine: the rules made an event that they do not accept: %v", err))
		}
		events = append(events, d.Events...)
		outcomes = append(outcomes, outcome{d.Answer, d.Err})
	}
	return outcomes, events
}

// store appends the events. If there are none, it makes sure that what was decided was decided on the present log.
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

// afterFailure learns what a failed append means. The caller holds mu, and the fold is back where it was.
func (e *Engine) afterFailure(err error, events []signalbox.Event) error {
	if errors.Is(err, journal.ErrConflict) {
		return e.afterConflict()
	}
	if errors.Is(err, journal.ErrNotStored) || len(events) == 0 {
		return err
	}
	last := events[len(events)-1] // its hash is over all of them; the first may be another writer's, and the same
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
	return fmt.Errorf("%w: %w", errNotThere, err)
}

// afterConflict catches up with who was faster. It returns ErrConflict when there is something to decide anew.
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
