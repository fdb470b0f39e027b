package crew

import (
	"cmp"
	"context"
	"errors"
	"time"

	"signalbox"
	"signalbox/internal/core/rules"
)

// runAgent runs the agent turn after turn, until a signal moves the work or the agent fails.
func (s *session) runAgent(ctx context.Context) (err error) {
	ws, err := s.openWorkspace(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, ws.close()) }()
	closeSocket, err := s.openSocket()
	if err != nil {
		return err
	}
	defer closeSocket()
	remaining := s.crew.timeout(s.role, s.workItem().Task.Expert)
	last := lastTurn{cleanupNote: ws.cleanupNote}
	for {
		if reached := s.overspent(); reached != "" { // no turn starts
			s.release(ctx, reached.Reason())
			return nil
		}
		began := time.Now()
		answer, t, err := s.runTurn(ctx, ws, remaining, last)
		remaining -= time.Since(began)
		switch {
		case errors.Is(err, errNotResumed):
			last = lastTurn{cleanupNote: last.cleanupNote, noResume: true}
		case err != nil:
			return err
		case answer.Parked:
			if err := s.waitUntilUnparked(ctx); err != nil {
				return err
			}
			last = lastTurn{parked: true}
		case answer.Again:
			last = lastTurn{advice: t.advice, output: t.tail, again: true, progressed: t.progressed}
		default:
			return nil
		}
	}
}

// mayContinue reports whether the agent may continue after a turn without a result in which it
// reported progress. An agent that does nothing else is treated like one without a valid signal.
func (s *session) mayContinue() bool {
	s.continued++
	return s.continued <= s.crew.box.Config.Limits.Unknown
}

// waitUntilUnparked waits until the agent can get what it asked for and a slot is free.
func (s *session) waitUntilUnparked(ctx context.Context) error {
	for {
		answer, err := s.crew.box.Engine.DoPatiently(ctx, nil,
			rules.ResumeSession{Session: s.id, Epoch: s.epoch})
		if !errors.Is(err, rules.ErrNothingToClaim) {
			s.agent = cmp.Or(answer.Agent, s.agent)
			return asLeaseLost(err)
		}
		var timer <-chan time.Time
		if parked := s.workItem().Task.Parked; parked != nil && time.Until(parked.Until) > 0 {
			timer = time.After(time.Until(parked.Until))
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-s.wake:
		case <-timer:
		}
	}
}

// agentName returns the agent that the session runs. A policy of an older version does not name it,
// and that of another process may name one that this process does not have.
func (s *session) agentName() string {
	if c := s.crew.box.Config; s.agent == "" || !c.HasAgent(s.agent) {
		return c.AgentsFor(s.role, s.workItem().Task.Expert)[0]
	}
	return s.agent
}

func (c *Crew) timeout(role signalbox.Role, expert string) time.Duration {
	if e, known := c.box.Config.ExpertNamed(expert); known && role == signalbox.RoleExpert &&
		e.Timeout > 0 {
		return e.Timeout
	}
	return c.box.Config.RoleOf(role).Timeout
}

// allowance returns what the turn may still use, and after how much it must report that.
func (s *session) allowance() (left, report rules.Budget) {
	s.crew.box.Engine.View(
		func(state *rules.State) { left, report = state.Allowance(s.work, s.role, time.Now()) })
	return left, report
}

// overspent returns the cap that ends the session, "" if it may continue.
func (s *session) overspent() (limit rules.Cap) {
	s.crew.box.Engine.View(
		func(state *rules.State) { limit = state.Overspent(s.work, s.role, time.Now()) })
	return limit
}

// isLastChance reports whether the rules would end the lease after one more turn without a valid
// signal.
func (s *session) isLastChance() bool {
	return s.workItem().Task.Counts.Unknown+1 >= s.crew.box.Config.Limits.Unknown
}
