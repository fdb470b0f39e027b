// Package rules is the state machine of the box: which work exists, which phase it is in, who holds
// it, and what may happen next. Decide takes a state and a command and returns the events that the
// command causes; Apply folds an event into a state. The package has no clock, no randomness and no
// I/O: time and ids arrive with commands.
//
// Tests check these invariants:
//   - the same history gives the same state, byte for byte, whether folded from the start or from a
//     snapshot;
//   - Apply accepts every event that Decide returns;
//   - a work item has at most one live lease, and epochs only grow;
//   - a session that does not hold the live lease cannot move the work.
package rules

import (
	"fmt"
	"time"

	"signalbox"
)

// Version is the version of these rules. A log that follows a newer version is not written to,
// because two programs must not fold one log differently. A log that was opened under an older
// version follows this one from the first event that this program writes: a RulesUpgraded before it
// says so, and stops older programs. Adding an event type does not need a new version: a program
// that does not know the type stops there with ErrNewer.
const Version = 3

// secretsVersion is the version of the rules from which leases have secrets.
const secretsVersion = 3

// Decision is the result of a command. Events are drafts: the log sets Seq, Prev and Hash. If Err
// is set, the command is refused, but there can still be events, because refusals and expired
// leases are recorded. Callers must not act on the decision before its events are durable.
type Decision struct {
	Events []signalbox.Event
	Answer Answer
	Err    error

	bodies []body // of the events
}

// Answer is what a command returns to its caller. Fields that do not apply are zero.
type Answer struct {
	// At is the time of the decision: the later of the clock and the last event.
	At time.Time
	// Seq is the event that carries the decision. For a repeated command it is the event of the
	// first time.
	Seq  uint64
	Work string
	// Names are the ids by which the agent of dispatched work may call it, Work among them.
	Names []string
	// Phase is the phase of the work after the command.
	Phase   signalbox.Phase
	Session string
	Lease   *signalbox.Lease
	// Completed is the accepted exit signal.
	Completed *signalbox.AgentSessionCompleted
	// Repeated means that the command changed nothing because it was carried out before.
	Repeated bool

	// Plan is what loading a plan changed.
	Plan *PlanChange
	// Agent is the agent that a dispatched or resumed session is to start, "" if the policy names
	// none.
	Agent string
	// Attempt counts the agents of this role that were started for the work, from 1.
	Attempt int
	// Again means that the agent should be prompted again under the same lease, or the order given
	// again.
	Again bool
	// Paused means that the answer paused the task or the run.
	Paused bool
	// Role is the role that an answered question is about, if it is about one, or that words are for.
	Role signalbox.Role
	// Now means that the agent at work is interrupted to read words.
	Now bool
	// Parked means that the agent must wait for an expert or a file.
	Parked bool
	// Cap is the limit of spending that the turn has reached; its agent must end.
	Cap Cap
	// Commit is the commit whose merge was approved.
	Commit string
	// Questions are the ids of the questions that were asked.
	Questions []string
	// Understood says what happens because of an answer to a question, if the question offered a
	// choice.
	Understood string
	// Approval means that the task still waits for the approval of its merge.
	Approval bool
	// Train has the leases of the tasks to merge together with Work, in order.
	Train []Granted
}

// Decide returns the result of a command in state s at time now. It does not change the state.
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

// decider collects the result of a command.
type decider struct {
	s      *State
	at     time.Time
	events []signalbox.Event
	bodies []body
	answer Answer

	questions, baselines int // how many this decision has asked and opened
}

// checkLog refuses commands before BoxOpened, on a log that a newer version of the rules wrote, and
// on one that was moved away.
func (d *decider) checkLog(c Command) error {
	_, opens := c.(OpenBox)
	_, continues := c.(ContinueLedger)
	switch {
	case d.s.rules > Version:
		return newerRules(d.s.rules)
	case timeFault(d.at) != "":
		return refusef(signalbox.CodeFailed, "set the system clock",
			"the system clock is wrong: %s", timeFault(d.at))
	case d.s.box == "" && !opens:
		return signalbox.CodeFailed.Errorf("run signalbox init",
			"the log is empty: the box was never opened")
	case !continues:
		return d.s.Moved()
	}
	return nil
}

// record adds an event and returns its sequence number. In a log of older rules, the first event of
// the decision is RulesUpgraded.
func (d *decider) record(work, session, actor string, body body) uint64 {
	if len(d.events) == 0 && d.s.box != "" && d.s.rules < Version {
		d.add("", "", actor, RulesUpgraded{d.s.rules, Version})
	}
	return d.add(work, session, actor, body)
}

func (d *decider) add(work, session, actor string, body body) uint64 {
	d.events = append(d.events, signalbox.Event{
		Time: d.at, Type: typeOf(body), Work: work, Session: session, Actor: actor,
		Data: encode(body),
	})
	d.bodies = append(d.bodies, body)
	return d.s.seq + uint64(len(d.events))
}

func refusef(code signalbox.Code, hint, format string, args ...any) error {
	return &signalbox.Error{Code: code, Err: fmt.Errorf(format, args...), Hint: hint}
}
