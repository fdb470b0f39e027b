package crew

import (
	"fmt"
	"reflect"
	"slices"

	"signalbox"
	"signalbox/internal/core/rules"
	"signalbox/transcript"
)

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

// preferRequest makes the request to an expert decide a turn that did not end, because the program
// was stopped so that the agent can wait. The verdict beside the request cannot count. The caller
// holds mu.
func (l *listener) preferRequest(t *turn) {
	request := slices.IndexFunc(l.signals, func(sig signalbox.Signal) bool {
		return sig.Name == signalbox.NameExpertRequest && sig.Refused == signalbox.ReasonSuperseded
	})
	if request < 0 {
		return
	}
	for i := range l.signals {
		if sig := &l.signals[i]; sig.Taken() && sig.Name == t.signal.Name {
			sig.Refused = signalbox.ReasonSuperseded
		}
	}
	l.signals[request].Refused = ""
	t.signal, t.submitted = l.signals[request], nil
}

// refusals returns the signals that were refused, once for each name and reason. said decides the
// turn.
func (l *listener) refusals(said signalbox.Signal) []rules.RefusedSignal {
	var list []rules.RefusedSignal
	at := map[string]int{}
	if s := l.submitted; s != nil && !l.contradicted && said.Name != signalbox.NameUnknown &&
		!reflect.DeepEqual(said.Exit, s.Signal) {
		list = append(list, rules.RefusedSignal{
			Signal: signalbox.NameExit, Reason: signalbox.ReasonSuperseded, Times: 1,
			Detail: fmt.Sprintf("'%s' was submitted, and the agent's reply says otherwise",
				s.Signal.ExitReason),
		})
	}
	for _, sig := range l.signals {
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
