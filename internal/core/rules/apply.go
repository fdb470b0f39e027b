package rules

import (
	"errors"
	"fmt"

	"signalbox"
)

// ErrHistory means that an event cannot follow the history before it. No version of signalbox
// writes such a log: it was changed, or the event belongs to another log. The error is a
// *HistoryError.
var ErrHistory = errors.New("the history contradicts itself")

// HistoryError describes an event that cannot follow the history before it.
type HistoryError struct {
	Seq   uint64
	Type  string
	Fault string
}

func (e *HistoryError) Error() string {
	return fmt.Sprintf("%v: event %d, %s: %s", ErrHistory, e.Seq, e.Type, e.Fault)
}

func (e *HistoryError) Unwrap() error { return ErrHistory }

// Apply folds the next event into the state. If it returns an error, the state is unchanged. The
// error matches ErrNewer or ErrHistory.
func (s *State) Apply(e *signalbox.Event) error {
	body, err := decode(e)
	if err != nil {
		return err
	}
	return s.applyBody(e, body)
}

// ApplyDecision folds the events of a decision into the state that it was made on. The log must
// have set their Seq. It does the same as Apply for each event, but without decoding them again.
func (s *State) ApplyDecision(d *Decision) error {
	for i := range d.Events {
		if err := s.applyBody(&d.Events[i], d.bodies[i]); err != nil {
			return err
		}
	}
	return nil
}

func (s *State) applyBody(e *signalbox.Event, body body) error {
	if fault := s.fault(e, body); fault != "" {
		return &HistoryError{e.Seq, e.Type, fault}
	}
	switch b := body.(type) {
	case BoxOpened:
		if b.Rules > Version {
			return newerRules(b.Rules)
		}
	case RulesUpgraded:
		if b.To > Version {
			return newerRules(b.To)
		}
	}
	s.seq, s.time = e.Seq, e.Time
	body.apply(s, e)
	return nil
}
