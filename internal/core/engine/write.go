package engine

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"time"

	"signalbox"
	"signalbox/internal/core/journal"
	"signalbox/internal/core/rules"
	"signalbox/ledger"
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
	earlier []*attempted
	stage   atomic.Int32
	answer  chan outcome // with a buffer of one
}

// Stages of a request, so that the writer and a caller whose context is done agree on whether the
// command may be executed.
const (
	stageWaiting   int32 = iota // nothing was stored yet
	stageAttempted              // it may be stored now, or may have been
	stageWithdrawn              // the caller has given up, and it is not executed
)

type outcome struct {
	answer rules.Answer
	err    error
}

// Do executes a command. When it returns, the events of the command are durable. A refusal is
// decided on the current log, never on an outdated state. If ctx is done, Do returns ctx's error at
// once. The error matches ErrUnknownOutcome too if the events of the command may have been stored,
// or may still be.
//
// If the command is refused, the error is a *signalbox.Error, and the answer is set as far as
// possible.
func (e *Engine) Do(ctx context.Context, c rules.Command) (rules.Answer, error) {
	return e.do(ctx, c, nil)
}

func (e *Engine) do(ctx context.Context, c rules.Command,
	earlier []*attempted) (rules.Answer, error) {
	r := &request{ctx: ctx, command: c, earlier: earlier, answer: make(chan outcome, 1)}
	r.endAttempt()
	if err := e.enqueue(r); err != nil {
		return rules.Answer{}, afterAttempts(earlier, err)
	}
	return e.await(r)
}

// enqueue gives a request to the writer. On an error the writer does not see it.
func (e *Engine) enqueue(r *request) error {
	if err := r.ctx.Err(); err != nil {
		return err
	}
	select {
	case <-e.closing:
		return ErrClosed
	default:
	}
	select {
	case e.queue <- r:
		return nil
	case <-r.ctx.Done():
		return r.ctx.Err()
	case <-e.closing:
		return ErrClosed
	}
}

func (e *Engine) await(r *request) (rules.Answer, error) {
	select {
	case o := <-r.answer:
		return o.answer, o.err
	case <-r.ctx.Done():
		return r.withdraw(r.ctx.Err())
	case <-e.stopped: // perhaps before it was queued
		return r.withdraw(ErrClosed)
	}
}

// withdraw gives up a request that may never be answered.
func (r *request) withdraw(reason error) (rules.Answer, error) {
	if !r.stage.CompareAndSwap(stageWaiting, stageWithdrawn) {
		reason = fmt.Errorf("%w: %w", ErrUnknownOutcome, reason)
	}
	select {
	case o := <-r.answer:
		return o.answer, o.err
	default:
		return rules.Answer{}, reason
	}
}

// beginAttempt reports whether the caller still waits. If so, the request can no longer be
// withdrawn.
func (r *request) beginAttempt() bool {
	return r.ctx.Err() == nil && (r.stage.CompareAndSwap(stageWaiting, stageAttempted) ||
		r.stage.Load() == stageAttempted)
}

// endAttempt lets the caller withdraw the request again, if nothing of it can have been stored.
func (r *request) endAttempt() {
	if len(r.earlier) > 0 {
		r.stage.Store(stageAttempted)
	} else {
		r.stage.CompareAndSwap(stageAttempted, stageWaiting)
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
	var (
		outdated uint64            // the last event that was known to an append that conflicted
		missed   []signalbox.Event // that the journal returned with the conflict
	)
	for failed, conflicts := 0, 0; len(batch) > 0; {
		if missed == nil {
			pause(conflicts)
		}
		if err := e.take(context.Background()); err != nil {
			answerAll(batch, err)
			return
		}
		var outcomes []outcome
		var err error
		if conflicts > 0 {
			err = e.afterConflict(outdated, missed)
		}
		if err == nil {
			batch = e.settle(beginAttempts(batch))
			outcomes, err = e.attempt(batch)
		}
		outdated = e.state.Seq()
		e.release()
		switch {
		case err == nil:
			for i, o := range outcomes {
				batch[i].answer <- o
			}
			batch = batch[len(outcomes):]
			failed, conflicts = 0, 0
		case errors.Is(err, journal.ErrConflict):
			conflicts++
			missed = nil
			if m := (*journal.Missed)(nil); errors.As(err, &m) {
				missed = m.Events
			}
		default:
			failed++
			if unclear := (*unclearAppend)(nil); errors.As(err, &unclear) {
				for i, o := range outcomes {
					batch[i].earlier = append(slices.Clip(batch[i].earlier),
						&attempted{unclear.last, o})
				}
			}
			if all := len(batch); e.failure() == nil {
				if batch = e.settle(batch); len(batch) < all {
					failed = 0
				}
			}
			if e.life.Err() != nil {
				err = fmt.Errorf("%w: %w", ErrClosed, err)
			}
			if !errors.Is(err, errAppendLost) || failed == maxAttempts || e.life.Err() != nil {
				answerAll(batch, err)
				return
			}
		}
		for _, r := range batch {
			r.endAttempt()
		}
	}
}

// beginAttempts returns the requests that are still wanted.
func beginAttempts(batch []*request) []*request {
	kept := batch[:0:0]
	for _, r := range batch {
		if r.beginAttempt() {
			kept = append(kept, r)
		}
	}
	return kept
}

func answerAll(batch []*request, err error) {
	for _, r := range batch {
		r.answer <- outcome{err: afterAttempts(r.earlier, err)}
	}
}

// pause waits after repeated conflicts, for a random time that grows with their number. The log
// must be read after it and not before: others append in the meantime, and a process that decides
// on what it knew before the pause loses again, for seconds if there are eight of them.
func pause(conflicts int) {
	if conflicts > 1 {
		time.Sleep(rand.N(time.Millisecond << min(conflicts-1, 6)))
	}
}

// errAppendLost means that the outcome of an append was unknown. If settle does not find its events
// in the log, they are not there yet.
var errAppendLost = errors.New("the events are not in the log")

// attempt decides as many requests as fit in one append, and appends their events. It returns the
// outcomes of these first requests of the batch. On an error nothing was stored, except for
// ErrUnknownOutcome. The caller has the turn.
func (e *Engine) attempt(batch []*request) ([]outcome, error) {
	if len(batch) == 0 {
		return nil, nil
	}
	if err := e.failure(); err != nil {
		return nil, err
	}
	now, err := e.clock.read()
	if err != nil {
		return nil, err
	}
	if err := e.checkNext(e.life); err != nil {
		return nil, err
	}
	d := e.decide(now, batch)
	if err := e.store(e.tail.Seq, d.events); err != nil {
		return d.outcomes, e.afterFailure(err, d.events)
	}
	e.outage.end()
	if len(d.events) > 0 {
		e.applyDecided(d)
		if err := e.remember(d.events); err != nil { // they are stored, in one of two histories
			return d.outcomes, &unclearAppend{d.events[len(d.events)-1], err}
		}
		e.notify()
		e.saveIfDue()
	}
	return d.outcomes, nil
}

// decided is what was decided on the first requests of a batch.
type decided struct {
	decisions []rules.Decision
	outcomes  []outcome
	events    []signalbox.Event
	tail      ledger.Tail // with the events
}

// decide decides requests in order, each on the state that results from the previous ones. It
// leaves the state as it is, because the events are not stored yet.
func (e *Engine) decide(now time.Time, batch []*request) *decided {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.state.Begin()
	defer e.state.Rollback()
	all := &decided{tail: e.tail}
	if last := e.state.Time(); now.Before(last) {
		now = last.Add(1 + rand.N(maxApart))
	}
	for _, r := range batch {
		d := rules.Decide(e.state, now, r.command)
		if len(all.events)+len(d.Events) > journal.MaxAppend && len(all.events) > 0 {
			break
		}
		all.tail.Seal(d.Events)
		e.applyDecision(&d)
		all.decisions = append(all.decisions, d)
		all.events = append(all.events, d.Events...)
		all.outcomes = append(all.outcomes, outcome{d.Answer, d.Err})
	}
	return all
}

// maxApart is by how much the time of an event is after that of the one before it, at most, if the
// clock is behind the log. Without a distance, two processes whose clocks are behind could write the
// same event at the same place, and both would take it for their own after a lost answer.
const maxApart = 100 * time.Microsecond

// applyDecided applies decisions whose events are stored.
func (e *Engine) applyDecided(all *decided) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for i := range all.decisions {
		e.applyDecision(&all.decisions[i])
	}
	e.tail = all.tail
}

func (e *Engine) applyDecision(d *rules.Decision) {
	if err := e.state.ApplyDecision(d); err != nil {
		panic(fmt.Sprintf("engine: the rules do not accept their own event: %v", err))
	}
}

// store appends the events. If there are none, it checks that the decisions were based on the
// current log.
func (e *Engine) store(expected uint64, events []signalbox.Event) error {
	if len(events) > 0 {
		return e.journal.Append(e.life, expected, events)
	}
	head, err := e.journal.Head(e.life)
	if err == nil && head != expected {
		err = journal.ErrConflict
	}
	return err
}

// afterFailure returns what is known about a failed append. If its events may have been stored, it
// reads the log, so that settle finds them. The caller has the turn.
func (e *Engine) afterFailure(err error, events []signalbox.Event) error {
	if errors.Is(err, journal.ErrConflict) {
		return err
	}
	if errors.Is(err, journal.ErrNotStored) || len(events) == 0 {
		// A journal does not store events that continue another history than its own.
		if errors.Is(err, journal.ErrUnavailable) {
			return err
		}
		if lost := e.lostTail(e.life, e.tail); lost != nil {
			return e.fail(lost.AsError())
		}
		return err
	}
	cause := fmt.Errorf("%w: %w", errAppendLost, err)
	if readErr := e.catchUp(e.life); readErr != nil {
		cause = fmt.Errorf("%w: %w; then %w", ErrUnknownOutcome, err, readErr)
	}
	return &unclearAppend{events[len(events)-1], cause}
}

// unclearAppend is the error of an append that may have been stored, or may yet be.
type unclearAppend struct {
	last signalbox.Event
	err  error
}

func (e *unclearAppend) Error() string { return e.err.Error() }
func (e *unclearAppend) Unwrap() error { return e.err }

// afterConflict applies the events that other processes have appended after the event outdated. If
// the journal has not returned them, it reads them, but only once: a log that others append to all
// the time has no end. The caller has the turn.
func (e *Engine) afterConflict(outdated uint64, missed []signalbox.Event) error {
	// Follow may have applied some of them, which it read meanwhile.
	if known := e.state.Seq() - outdated; len(missed) > 0 && known <= uint64(len(missed)) {
		_, err := e.applyNext(missed[known:])
		return err
	}
	_, err := e.readNext(e.life)
	if err == nil && e.state.Seq() == outdated {
		err = e.checkLength(e.life)
	}
	return err
}
