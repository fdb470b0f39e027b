// Package rules is the state machine of the box: which work there is, which phase it is in, who holds it, and what
// may happen next. It is a pure function of the history. Decide looks at a state and a command and returns the
// events that the command causes; Apply folds an event into a state. There is no clock, no randomness and no I/O
// here: time and ids arrive with commands.
//
// What must hold, and tests hold it:
//   - the same history gives the same state, byte for byte, whether folded from the start or from a snapshot;
//   - whatever Decide returns, Apply accepts;
//   - at most one live lease for each work item, with epochs that only grow;
//   - a session that does not hold the live lease moves nothing.
package rules

import (
	"fmt"
	"time"

	"signalbox"
)

// Version is the version of these rules. A log that was opened under a newer version is not written to: two
// programs must not fold one log differently. A new type of event alone is no new version: who does not know it stops
// there with ErrNewer.
const Version = 2

// Decision is what a command leads to. Events are drafts: Seq, Prev and Hash are for the log to set. If Err is
// set the command is refused; there may still be events then, because refusals and expired leases are recorded.
// Nobody may be answered before the events are durable.
type Decision struct {
	Events []signalbox.Event
	Answer Answer
	Err    error

	bodies []body // of the events
}

// Answer tells whoever gave a command what came of it. Fields that do not apply are zero.
type Answer struct {
	// At is the time the decision was made at: the later of the clock and the last event.
	At time.Time
	// Seq is the event that carries the decision. For a command that was carried out before it is the event
	// of that time.
	Seq  uint64
	Work string
	// Phase is the one the work is in afterwards.
	Phase   signalbox.Phase
	Session string
	Lease   *signalbox.Lease
	// Completed is the accepted exit signal.
	Completed *signalbox.AgentSessionCompleted
	// Repeated means that the command changed nothing because it had been carried out before.
	Repeated bool

	// Plan is what loading a plan changed.
	Plan *PlanChange
	// Attempt is the how-many-eth agent of its role is about to be started for the work.
	Attempt int
	// Again means that the agent is to be asked again under the same lease, and Parked that it has to wait.
	Again, Parked bool
	// Questions are what the human was asked.
	Questions []string
}

// Decide returns what a command leads to in a state, at a time. It does not change the state.
func Decide(s *State, now time.Time, c Command) Decision {
	d := decider{s: s, at: now.UTC().Round(0)}
	if d.at.Before(s.time) {
		d.at = s.time
	}
	d.answer.At = d.at
	err := d.checkLog(c)
	if err == nil {
		err = c.decide(&d)
	}
	return Decision{d.events, d.answer, err, d.bodies}
}

// decider collects what a command leads to.
type decider struct {
	s      *State
	at     time.Time
	events []signalbox.Event
	bodies []body
	answer Answer

	questions, baselines int // asked and opened in this decision
}

// begin holds that a log begins with BoxOpened and is written to only by those who understand it.
func (d *decider) checkLog(c Command) error {
	_, opens := c.(OpenBox)
	switch {
	case d.s.rules > Version:
		return newerRules(d.s.rules)
	case timeFault(d.at) != "":
		return refusef(signalbox.CodeFailed, "set the clock right", "the clock cannot be right: %s", timeFault(d.at))
	case d.s.box == "" && !opens:
		return &signalbox.Error{Code: signalbox.CodeFailed, Err: fmt.Errorf("the log is empty: the box was never opened"),
			Hint: "run signalbox init"}
	}
	return nil
}

// record adds an event and returns the sequence it will have.
func (d *decider) record(work, session, actor string, body body) uint64 {
	d.events = append(d.events, signalbox.Event{
		Time: d.at, Type: body.eventType(), Work: work, Session: session, Actor: actor, Data: encode(body),
	})
	d.bodies = append(d.bodies, body)
	return d.s.seq + uint64(len(d.events))
}

func refusef(code signalbox.Code, hint, format string, args ...any) error {
	return &signalbox.Error{Code: code, Err: fmt.Errorf(format, args...), Hint: hint}
}
