package crew

import (
	"cmp"
	"context"
	"errors"
	"time"

	"signalbox"
	"signalbox/internal/core/rules"
)

// agentRun runs the agent of a session, turn after turn.
type agentRun struct {
	*session
	names  []string // the ids by which the agent may call the work
	agent  string   // that it runs; "" if the policy names none
	secret string   // of the lease, for the programs of the agent

	wake chan struct{} // capacity 1: a parked session looks at the ledger again
	// spending wakes the supervisor because a cap is reached; capacity 1.
	spending chan struct{}
	// messages wakes the supervisor because there are messages of the human; capacity 1.
	messages chan struct{}

	// told are the messages that the agent of the running turn has got, in its prompt or while it
	// works.
	told    []uint64
	started bool // an agent was started
	// continued counts the turns that only reported progress.
	continued int
	// unreported is a turn that ended with processes left.
	unreported *rules.Turn
	socket     *socket // of the agent; open while takeTurns runs
}

// startedError is why a run failed after its agent was started. It is not tried again: an agent is
// not started twice.
type startedError struct {
	error
	// unreported is a turn that ended with processes left, nil if there is none.
	unreported *rules.Turn
}

func (e *startedError) Unwrap() error { return e.error }

func (a *agentRun) carryOut(ctx context.Context) error {
	err := a.takeTurns(ctx)
	if err != nil && a.started {
		return &startedError{err, a.unreported}
	}
	return err
}

// takeTurns runs the agent turn after turn, until a signal moves the work or the agent fails.
func (a *agentRun) takeTurns(ctx context.Context) (err error) {
	ws, err := opener{a.session, a.agentName()}.open(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, ws.close()) }()
	if a.socket, err = a.openSocket(); err != nil {
		return err
	}
	defer a.socket.close()
	remaining := a.crew.timeout(a.role, a.workItem().Task.Expert)
	last := lastTurn{cleanupNote: ws.cleanupNote}
	for {
		if reached := a.overspent(); reached != "" { // no turn starts
			a.release(ctx, reached.Reason())
			return nil
		}
		began := time.Now()
		turn := &turnRun{agentRun: a, ws: ws, remaining: remaining, last: last}
		answer, t, err := turn.do(ctx)
		remaining -= time.Since(began)
		switch {
		case errors.Is(err, errTold):
			last = lastTurn{cleanupNote: last.cleanupNote, told: true}
		case errors.Is(err, errNotResumed):
			last.noResume = true // what was wrong with the turn before is still to be said
		case err != nil:
			return err
		case answer.Parked:
			if err := a.waitUntilUnparked(ctx); err != nil {
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

// notice looks at what the ledger now has about the session: it wakes a parked one, ends an agent
// that reached a cap, and gives an agent that listens the messages of the human.
func (a *agentRun) notice(state *rules.State, w *rules.Work) {
	switch {
	case w.Task != nil && w.Task.Parked != nil:
		trySend(a.wake)
	case state.Overspent(a.work, a.role, time.Now()) != "":
		trySend(a.spending)
	case w.Task != nil && len(w.Task.Messages) > 0:
		trySend(a.messages)
	}
}

// mayContinue reports whether the agent may continue after a turn without a result in which it
// reported progress. An agent that does nothing else is treated like one without a valid signal.
func (a *agentRun) mayContinue() bool {
	a.continued++
	return a.continued <= a.crew.box.Config.Limits.Unknown
}

// waitUntilUnparked waits until the agent can get what it asked for and a slot is free.
func (a *agentRun) waitUntilUnparked(ctx context.Context) error {
	for {
		answer, err := a.crew.box.Engine.DoPatiently(ctx, nil,
			rules.ResumeSession{Session: a.id, Epoch: a.epoch})
		if !errors.Is(err, rules.ErrNothingToClaim) {
			a.agent = cmp.Or(answer.Agent, a.agent)
			return asLeaseLost(err)
		}
		var timer <-chan time.Time
		if parked := a.workItem().Task.Parked; parked != nil && time.Until(parked.Until) > 0 {
			timer = time.After(time.Until(parked.Until))
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-a.wake:
		case <-timer:
		}
	}
}

// agentName returns the agent that the session runs. A policy of an older version does not name it,
// and that of another process may name one that this process does not have.
func (a *agentRun) agentName() string {
	if c := a.crew.box.Config; a.agent == "" || !c.HasAgent(a.agent) {
		return c.AgentsFor(a.role, a.workItem().Task.Expert)[0]
	}
	return a.agent
}

func (c *Crew) timeout(role signalbox.Role, expert string) time.Duration {
	if e, known := c.box.Config.ExpertNamed(expert); known && role == signalbox.RoleExpert &&
		e.Timeout > 0 {
		return e.Timeout
	}
	return c.box.Config.RoleOf(role).Timeout
}

// allowance returns what the turn may still use, and after how much it must report that.
func (a *agentRun) allowance() (left, report rules.Budget) {
	a.crew.box.Engine.View(
		func(state *rules.State) { left, report = state.Allowance(a.work, a.role, time.Now()) })
	return left, report
}

// overspent returns the cap that ends the session, "" if it may continue.
func (a *agentRun) overspent() (limit rules.Cap) {
	a.crew.box.Engine.View(
		func(state *rules.State) { limit = state.Overspent(a.work, a.role, time.Now()) })
	return limit
}

// isLastChance reports whether the rules would end the lease after one more turn without a valid
// signal.
func (a *agentRun) isLastChance() bool {
	return a.workItem().Task.Counts.Unknown+1 >= a.crew.box.Config.Limits.Unknown
}
