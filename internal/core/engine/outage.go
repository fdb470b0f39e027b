package engine

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"signalbox"
	"signalbox/internal/core/journal"
	"signalbox/internal/core/rules"
)

// The journal may be in a database on another machine that cannot always be reached: its methods
// then return journal.ErrUnavailable. Do returns that error at once, because a caller waits for the
// answer. Long-running processes use DoPatiently, WhenAvailable, Watch and Follow, which wait until
// the journal can be reached again.

// IsReported reports whether an error is one that the engine logs, or with which Follow ends, so
// that a caller need not log it again.
func IsReported(err error) bool {
	return errors.Is(err, journal.ErrUnavailable) || errors.Is(err, rules.ErrMoved)
}

// Pauses before the journal is tried again. They grow, and are random, so that the processes of a
// box do not all come back at once.
const (
	firstPause = 100 * time.Millisecond
	lastPause  = 5 * time.Second
)

// pauses are growing pauses. The zero value starts with the shortest.
type pauses struct{ limit time.Duration }

func (p *pauses) next() time.Duration {
	p.limit = min(max(2*p.limit, firstPause), lastPause)
	return p.limit/2 + rand.N(p.limit/2)
}

// outage logs, once each, that the journal cannot be reached and that it can be reached again.
type outage struct {
	log   *slog.Logger
	since atomic.Pointer[time.Time] // nil if there is none, as far as is known
}

// begin returns since when the journal cannot be reached.
func (o *outage) begin(err error) time.Time {
	now := time.Now()
	if o.since.CompareAndSwap(nil, &now) {
		o.log.Warn("the ledger cannot be reached; trying again", "error", err)
	} else if since := o.since.Load(); since != nil {
		return *since
	}
	return now
}

func (o *outage) end() {
	if o.since.Load() == nil { // almost always
		return
	}
	if began := o.since.Swap(nil); began != nil {
		o.log.Warn("the ledger can be reached again", "after",
			time.Since(*began).Round(time.Second))
	}
}

// WhenAvailable calls f until it returns anything but journal.ErrUnavailable, with growing pauses,
// or until ctx is done or the engine is closed. It calls f at least once, and returns the last
// error of f. f must be safe to repeat.
func (e *Engine) WhenAvailable(ctx context.Context, f func() error) error {
	return e.outage.wait(ctx, nil, e.closing, f)
}

// WhenAvailable is Engine.WhenAvailable for a journal that has no engine yet. It logs outages to
// log.
func WhenAvailable(ctx context.Context, log *slog.Logger, f func() error) error {
	o := outage{log: log}
	return o.wait(ctx, nil, nil, f)
}

// wait implements WhenAvailable. It also ends when enough or closing is closed.
func (o *outage) wait(ctx context.Context, enough, closing <-chan struct{}, f func() error) error {
	for pause := (pauses{}); ; {
		err := f()
		// what failed works again; other calls may have worked all the time
		if err == nil && pause.limit > 0 {
			o.end()
		}
		if !errors.Is(err, journal.ErrUnavailable) || ctx.Err() != nil {
			return err
		}
		o.begin(err)
		select {
		case <-ctx.Done():
			return err
		case <-enough:
			return err
		case <-closing:
			return err
		case <-time.After(pause.next()):
		}
	}
}

// knownPatience is how long RefreshOrKnown and RefreshFinally wait.
const knownPatience = 2 * time.Second

// RefreshOrKnown is Refresh for callers that show the last known state if there is no newer one. If
// the journal is not available, or does not answer within two seconds, it returns since when, and
// no error. Otherwise the time is zero.
func (e *Engine) RefreshOrKnown(ctx context.Context) (since time.Time, err error) {
	limited, cancel := context.WithTimeout(ctx, knownPatience)
	defer cancel()
	err = e.Refresh(limited)
	switch {
	case err == nil:
		e.outage.end()
	case ctx.Err() == nil && (errors.Is(err, journal.ErrUnavailable) ||
		errors.Is(err, context.DeadlineExceeded)):
		return e.outage.begin(err), nil
	}
	return time.Time{}, err
}

// RefreshFinally is Refresh for a caller that is about to end, whose context may be done: what
// others appended before that may not have arrived yet. It gives up after two seconds, and the
// caller then does without.
func (e *Engine) RefreshFinally(ctx context.Context) {
	limited, cancel := context.WithTimeout(context.WithoutCancel(ctx), knownPatience)
	defer cancel()
	_ = e.Refresh(limited)
}

// DoPatiently is Do, but while the journal is not available it tries again, until ctx is done or
// enough is closed; nil means that only ctx ends it. The command is executed once, also if the
// journal became unavailable while its events were appended.
func (e *Engine) DoPatiently(ctx context.Context, enough <-chan struct{},
	c rules.Command) (answer rules.Answer, err error) {
	var earlier []*attempted
	err = e.outage.wait(ctx, enough, e.closing, func() (err error) {
		answer, err = e.do(ctx, c, earlier)
		if unknown := (*unknownOutcome)(nil); errors.As(err, &unknown) {
			earlier = unknown.attempts
		}
		return err
	})
	return answer, err
}

// attempted is an append with an unknown outcome: if its last event is in the log, or appears there
// later, outcome is that of the request.
type attempted struct {
	last signalbox.Event
	outcome
}

// unknownOutcome is ErrUnknownOutcome for one request.
type unknownOutcome struct {
	attempts []*attempted
	cause    error
}

func (e *unknownOutcome) Error() string { return e.cause.Error() }
func (e *unknownOutcome) Unwrap() error { return e.cause }

// afterAttempts returns the error of a request that fails now, for whatever reason, after attempts
// whose outcome is unknown. An attempt that is not in the log may still arrive there.
func afterAttempts(attempts []*attempted, err error) error {
	if len(attempts) == 0 {
		return err
	}
	if !errors.Is(err, ErrUnknownOutcome) {
		err = fmt.Errorf("%w: %w", ErrUnknownOutcome, err)
	}
	return &unknownOutcome{attempts, err}
}

// settle answers the requests whose earlier attempt did reach the log, and returns the others. An
// attempt whose place in the log is still free may yet be stored, for example by a database that
// was paused. Then the next attempt conflicts with it, and settle finds it.
func (e *Engine) settle(batch []*request) []*request {
	kept := batch[:0:0]
	for _, r := range batch {
		if stored, err := e.storedAttempt(r); err != nil {
			r.answer <- outcome{err: afterAttempts(r.earlier, err)}
		} else if stored != nil {
			r.answer <- stored.outcome
		} else {
			kept = append(kept, r)
		}
	}
	return kept
}

// storedAttempt returns the attempt of a request that is in the log, nil if there is none.
func (e *Engine) storedAttempt(r *request) (*attempted, error) {
	for _, a := range r.earlier {
		if e.Tail().Seq < a.last.Seq {
			continue
		}
		stored, err := e.journal.Read(e.life, a.last.Seq-1, 1)
		if err != nil {
			return nil, err
		}
		// its hash covers those before it; another writer may have stored an equal first event
		if len(stored) == 1 && stored[0].Hash == a.last.Hash {
			return a, nil
		}
	}
	return nil, nil
}

// Watch is the journal's Watch, but it does not end while the journal is not available.
func (e *Engine) Watch(ctx context.Context, after uint64) iter.Seq2[signalbox.Event, error] {
	return func(yield func(signalbox.Event, error) bool) {
		for pause := (pauses{}); ; {
			var failed error
			for event, err := range e.journal.Watch(ctx, after) {
				if err != nil {
					failed = err
					break
				}
				after, pause = event.Seq, pauses{}
				if !yield(event, nil) {
					return
				}
			}
			if errors.Is(failed, journal.ErrUnavailable) && ctx.Err() == nil {
				failed = e.waitUntilAvailable(ctx, &pause, failed)
			}
			if ctx.Err() != nil {
				failed = ctx.Err()
			}
			if failed != nil {
				yield(signalbox.Event{}, failed)
				return
			}
		}
	}
}

// waitUntilAvailable waits, but at least for a pause, until the journal can be read again. It may
// have lost events in the outage.
func (e *Engine) waitUntilAvailable(ctx context.Context, pause *pauses, err error) error {
	e.outage.begin(err)
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-e.closing:
		return ErrClosed
	case <-time.After(pause.next()):
	}
	if err := e.WhenAvailable(ctx,
		func() error { _, err := e.journal.Head(ctx); return err }); err != nil {
		return err
	}
	e.outage.end()
	return e.checkTail(ctx)
}
