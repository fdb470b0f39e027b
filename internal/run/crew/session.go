package crew

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"syscall"
	"time"

	"signalbox"
	"signalbox/internal/core/rules"
	"signalbox/internal/text"
)

var (
	errLeaseLost   = errors.New("the lease is gone")
	errInterrupted = errors.New("the crew is told to stop")
)

// session is one lease of this crew, from its grant to its end.
type session struct {
	crew    *Crew
	work    string
	id      string
	role    signalbox.Role
	epoch   uint64
	expires time.Time
	cancel  context.CancelCauseFunc
	woken   chan struct{} // has room for one
	begun   bool          // an agent was started
}

// wake tells a parked session to look again.
func (s *session) wake() {
	select {
	case s.woken <- struct{}{}:
	default:
	}
}

// run does what the lease is for, and makes sure that the lease is not left behind.
func (s *session) run(ctx context.Context) {
	keeping, stop := context.WithCancel(context.WithoutCancel(ctx))
	kept := make(chan struct{})
	go func() {
		defer close(kept)
		s.keep(keeping)
	}()
	err := s.doPatiently(ctx)
	stop()
	<-kept
	switch {
	case err == nil, errors.Is(err, errLeaseLost), errors.Is(context.Cause(ctx), errLeaseLost):
		return
	case ctx.Err() != nil:
		s.letGo("the crew was told to stop")
	case errors.Is(err, rules.ErrNothingToClaim):
		s.letGo("")
	default:
		s.fail(rules.FailWorkspace, detail(err), nil)
	}
}

// doPatiently tries again a little later what failed because of the place: a full disk, a lock of another git. An agent that was
// started is not started twice.
func (s *session) doPatiently(ctx context.Context) error {
	lasting := func(err error) bool {
		classed := (*signalbox.Error)(nil)
		return s.begun || errors.Is(err, errLeaseLost) || errors.Is(err, rules.ErrNothingToClaim) ||
			errors.As(err, &classed) && (classed.Code == signalbox.CodeUsage || classed.Code == signalbox.CodeNotFound)
	}
	return s.persist(ctx, lasting, func() error { return s.alone(ctx, s.do) })
}

// persist does something again while it fails for no lasting reason, with pauses, and not when the session is over.
func (s *session) persist(ctx context.Context, lasting func(error) bool, do func() error) error {
	for _, pause := range s.crew.opts.pauses.place {
		err := do()
		if err == nil || ctx.Err() != nil || lasting(err) {
			return err
		}
		s.crew.log.Warn("trying again", "work", s.work, "role", s.role, "in", pause, "error", detail(err))
		select {
		case <-ctx.Done():
			return err
		case <-time.After(pause):
		}
	}
	return do()
}

const noSpace = "no space left on device"

// detail is an error for people, on one line, with what to do about it.
func detail(err error) string {
	msg := text.OneLine(err.Error())
	if full := errors.Is(err, syscall.ENOSPC) || strings.Contains(strings.ToLower(msg), noSpace); full && !strings.HasPrefix(msg, noSpace) {
		msg = noSpace + ": " + msg
	}
	if classed := (*signalbox.Error)(nil); errors.As(err, &classed) && classed.Hint != "" {
		msg += " (" + text.OneLine(classed.Hint) + ")"
	}
	return msg
}

func (s *session) do(ctx context.Context) error {
	switch s.role {
	case signalbox.RoleCI:
		return s.check(ctx)
	case signalbox.RoleMerger:
		return s.merge(ctx)
	}
	return s.deliver(ctx)
}

// order gives a command that must be carried out also when the session is being ended.
func (s *session) order(c rules.Command) (rules.Answer, error) {
	ctx, cancel := context.WithTimeout(context.Background(), orderTime)
	defer cancel()
	answer, err := s.crew.box.Engine.Do(ctx, c)
	for _, question := range answer.Questions {
		s.crew.notify(question)
	}
	return answer, err
}

// orderTime is how long a command may take when nobody waits for it any more.
const orderTime = time.Minute

func (s *session) letGo(reason string) {
	if _, err := s.order(rules.Release{Work: s.work, Session: s.id, Epoch: s.epoch, Reason: reason}); err != nil && !refused(err) {
		s.crew.log.Warn("cannot give work back; it comes free when its lease runs out", "work", s.work, "error", err)
	}
}

func (s *session) fail(cause rules.FailCause, detail string, turn *rules.Turn) {
	if _, err := s.order(rules.ReportFailure{Session: s.id, Epoch: s.epoch, Cause: cause, Detail: detail, Turn: turn}); err != nil && !refused(err) {
		s.crew.log.Warn("cannot record a failure; the work comes free when its lease runs out", "work", s.work, "error", err)
	}
}

// keep renews the lease at a third of its time. If that cannot be done in time the session ends: nobody writes beside a
// successor.
func (s *session) keep(ctx context.Context) {
	ttl := s.crew.box.Config.Lease.TTL
	margin := min(30*time.Second, ttl/6)
	next := time.NewTimer(ttl / 3)
	defer next.Stop()
	last := time.AfterFunc(time.Until(s.expires)-margin, func() { s.cancel(errLeaseLost) })
	defer last.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-next.C:
		}
		answer, err := s.crew.box.Engine.Do(ctx, rules.Renew{Work: s.work, Session: s.id, Epoch: s.epoch, TTL: ttl})
		switch {
		case err == nil:
			last.Reset(time.Until(answer.Lease.Expires) - margin)
			next.Reset(ttl / 3)
		case refused(err):
			s.cancel(errLeaseLost)
			return
		default:
			s.crew.log.Warn("cannot renew a lease; it is tried again", "work", s.work, "error", err)
			next.Reset(min(ttl/20, 5*time.Second))
		}
	}
}

// view returns the work and the task as they are now.
func (s *session) view() (w *rules.Work) {
	s.crew.box.Engine.View(func(state *rules.State) { w, _ = state.Work(s.work) })
	return w
}

// park waits until what the agent asked for is there and a slot is free.
func (s *session) park(ctx context.Context) error {
	for {
		_, err := s.crew.box.Engine.Do(ctx, rules.ResumeSession{Session: s.id, Epoch: s.epoch})
		if !errors.Is(err, rules.ErrNothingToClaim) {
			return lost(err)
		}
		var timer <-chan time.Time
		if park := s.view().Task.Parked; park != nil && time.Until(park.Until) > 0 {
			timer = time.After(time.Until(park.Until))
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-s.woken:
		case <-timer:
		}
	}
}

// lost makes an error of a command that was refused under this session's lease one that says so.
func lost(err error) error {
	if stale := (*rules.RefusedError)(nil); errors.As(err, &stale) {
		return fmt.Errorf("%w: %w", errLeaseLost, err)
	}
	return err
}
