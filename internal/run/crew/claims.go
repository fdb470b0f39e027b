package crew

import (
	"fmt"
	"reflect"
	"slices"

	"signalbox"
	"signalbox/internal/core/rules"
	"signalbox/internal/run/exitsignal"
	"signalbox/transcript"
)

// claims are the signals of a turn so far, and what they come to. While the program runs, the
// listener's mu guards them.
type claims struct {
	role signalbox.Role
	work string

	signals []signalbox.Signal
	// the first exit signal that was submitted over the socket; nil if there is none
	submitted    *exitsignal.Submitted
	contradicted bool // another one followed that is not the same
	// the first verdict of an earlier turn that does not let the work advance
	objection *signalbox.Signal
}

// add keeps a signal, unless there are too many.
func (c *claims) add(sig signalbox.Signal) {
	if len(c.signals) < 2*transcript.MaxSignals {
		c.signals = append(c.signals, sig)
	}
}

// endTurn notes the verdict of a turn. A program may continue after its turn, but so may a process
// that it left behind and that shares its output. Therefore signals after a turn that ended with an
// objection do not advance the work.
func (c *claims) endTurn() {
	said := c.soFar()
	if c.objection == nil && said.Name != signalbox.NameUnknown && !said.Passing() {
		c.objection = &said
	}
}

// soFar returns the signal that decides the turn if the agent sends no other one, without what was
// submitted.
func (c *claims) soFar() signalbox.Signal {
	return resolve(slices.Clone(c.signals), c.role, c.work)
}

// submit keeps an exit signal, and returns the first one of the turn if that is not the same. Both
// the agent and the code that it runs can submit one, and no one can tell whose is whose. So
// signals that differ in anything, also in the words for the next reader, contradict each other,
// and none of them counts.
func (c *claims) submit(signal *signalbox.ExitSignal, data []byte) (first *exitsignal.Submitted) {
	switch {
	case c.submitted == nil:
		c.submitted = &exitsignal.Submitted{Signal: signal, Data: data}
	case !reflect.DeepEqual(c.submitted.Signal, signal):
		c.contradicted = true
		return c.submitted
	}
	return nil
}

// resolve picks the signal that decides the turn. Checkpoints and requests for files have acted
// while the agent ran, and are not a result.
func resolve(signals []signalbox.Signal, role signalbox.Role, work string) signalbox.Signal {
	decisive := transcript.Resolve(signals, role, work)
	switch {
	case decisive.Dialect == signalbox.DialectTurn, isProgress(decisive):
		decisive = signalbox.Signal{Name: signalbox.NameUnknown, Handler: signalbox.HandlerClarify}
	}
	if decisive.Name == signalbox.NameUnknown && decisive.Refused == "" {
		decisive.Detail = adviceFor(signals, role, work)
	}
	return decisive
}

// resolve picks the signal that decides the turn. What the agent itself wrote counts more than what
// was submitted: the code that an agent tests has the agent's environment, and could submit
// something, too. A submitted exit signal that agrees with the agent's verdict is part of the
// result.
func (c *claims) resolve(signals []signalbox.Signal) (said signalbox.Signal, submitted []byte) {
	said = resolve(signals, c.role, c.work)
	if c.submitted == nil {
		return said, nil
	}
	exit := signalbox.Signal{Dialect: signalbox.DialectExit, Name: signalbox.NameExit,
		Exit: c.submitted.Signal}
	switch {
	case said.Exit != nil, said.Refused != "", c.contradicted && said.Name != signalbox.NameUnknown:
		return said, nil
	case said.Name != signalbox.NameUnknown:
		both := transcript.Resolve([]signalbox.Signal{said, exit}, c.role, c.work)
		if both.Name != said.Name {
			return said, nil
		}
		return both, c.submitted.Data
	case c.contradicted:
		return signalbox.Signal{Name: signalbox.NameUnknown, Handler: signalbox.HandlerClarify,
			Refused: signalbox.ReasonAmbiguous,
			Detail:  "Several exit signals were submitted in your turn, and they differ. Write your verdict yourself, at the end of your reply."}, nil
	}
	return exit, c.submitted.Data
}

// preferRequest makes the request to an expert decide a turn that did not end, because the program
// was stopped so that the agent can wait. The verdict beside the request cannot count.
func (c *claims) preferRequest(t *turn) {
	request := slices.IndexFunc(c.signals, func(sig signalbox.Signal) bool {
		return sig.Name == signalbox.NameExpertRequest && sig.Refused == signalbox.ReasonSuperseded
	})
	if request < 0 {
		return
	}
	for i := range c.signals {
		if sig := &c.signals[i]; sig.Taken() && sig.Name == t.signal.Name {
			sig.Refused = signalbox.ReasonSuperseded
		}
	}
	c.signals[request].Refused = ""
	t.signal, t.submitted = c.signals[request], nil
}

// refusals returns the signals that were refused, once for each name and reason. said decides the
// turn.
func (c *claims) refusals(said signalbox.Signal) []rules.RefusedSignal {
	var list []rules.RefusedSignal
	at := map[string]int{}
	if s := c.submitted; s != nil && !c.contradicted && said.Name != signalbox.NameUnknown &&
		!reflect.DeepEqual(said.Exit, s.Signal) {
		list = append(list, rules.RefusedSignal{
			Signal: signalbox.NameExit, Reason: signalbox.ReasonSuperseded, Times: 1,
			Detail: fmt.Sprintf("'%s' was submitted, and the agent's reply says otherwise",
				s.Signal.ExitReason),
		})
	}
	for _, sig := range c.signals {
		// These act when they are heard.
		acts := sig.Name == signalbox.NameCheckpoint || sig.Name == signalbox.NameFileConflict
		switch sig.Refused {
		case "", signalbox.ReasonDrift, signalbox.ReasonRateLimited, signalbox.ReasonInvalidField,
			signalbox.ReasonDuplicate:
			continue
		case signalbox.ReasonAmbiguous, signalbox.ReasonMixedFormats:
			if acts {
				continue
			}
		case signalbox.ReasonSuperseded: // of verdicts, that is how agents correct themselves
			const request = signalbox.NameExpertRequest
			if acts || (sig.Name == request) == (said.Name == request) {
				continue
			}
			sig.Detail = "another signal of the turn counts"
		}
		name := sig.Name
		if name == "" {
			name = "signal"
		}
		key := name + "\x00" + string(sig.Refused)
		if i, known := at[key]; known {
			list[i].Times++
			continue
		}
		at[key] = len(list)
		detail := sig.Detail
		if sig.TaskID != "" && detail == "" {
			detail = "about " + sig.TaskID
		}
		list = append(list, rules.RefusedSignal{Signal: name, Reason: sig.Refused, Detail: detail,
			Times: 1})
	}
	return list[:min(len(list), 50)]
}
