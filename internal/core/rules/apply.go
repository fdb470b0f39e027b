package rules

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"

	"signalbox"
)

// ErrHistory means that an event cannot follow the history before it. No version of signalbox writes such a log: it was
// changed, or the event belongs to another log. The error is a *HistoryError.
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

// Apply folds the next event into the state. If it returns an error, the state is unchanged. The error matches ErrNewer
// or ErrHistory.
func (s *State) Apply(e *signalbox.Event) error {
	body, err := decode(e)
	if err != nil {
		return err
	}
	return s.applyBody(e, body)
}

// ApplyDecision folds the events of a decision into the state that it was made on. The log must have set their Seq. It
// does the same as Apply for each event, but without decoding them again.
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
	s.apply(e, body)
	s.seq, s.time = e.Seq, e.Time
	return nil
}

func (s *State) apply(e *signalbox.Event, body body) {
	switch b := body.(type) {
	case BoxOpened:
		s.box, s.rules = b.Box, b.Rules
	case RulesUpgraded:
		s.rules = b.To
		if b.From < secretsVersion {
			s.upgraded = e.Seq
		}
	case WorkOpened:
		s.addWork(&Work{ID: e.Work, Title: b.Title, Phase: b.Phase, Opened: e.Time, Ref: b.Ref})
	case LeaseGranted:
		s.grant(e, b)
	case LeaseRenewed:
		s.changeWork(e.Work, func(w *Work) {
			lease := *w.Lease
			lease.Expires = b.Expires.UTC()
			w.Lease = &lease
		})
	case LeaseReleased:
		s.endLease(e, EndedReleased)
	case LeaseExpired:
		s.endLease(e, EndedExpired)
	case AgentSessionCompleted:
		s.complete(e, b.AgentSessionCompleted)
	case SignalRefused:
		s.changeSession(e.Session, func(session *Session) {
			refused := slices.DeleteFunc(slices.Clone(session.Refused), func(r RefusalRecord) bool { return r.Reason == b.Reason && r.Said == b.Said })
			session.Refused = append(refused, RefusalRecord{b.Reason, b.Said, e.Seq, b.Count})
		})
	case PhaseChanged:
		s.changePhase(e, b)
	case BlobRedacted:
		s.addRedaction(Redaction{b.Blob, b.Reason, e.Actor, e.Time, e.Seq})
	case SignalHeard:
		s.applySignal(e, b)
	case TurnSignalHeard:
		s.applyTurnSignal(e, b)
	case LedgerMoved:
		s.moved = Move{Journal: b.Journal, Host: b.Host, ID: b.Move, Actor: e.Actor, At: e.Time, Seq: e.Seq}
	case LedgerContinued:
		s.moved = Move{}
	case LossAccepted: // only for the record
	case WorkUnblocked: // only for the record; the PhaseChanged after it moves the work
	default:
		if w, known := s.Work(e.Work); known && w.Task == nil {
			s.applyByHand(e, body)
			return
		}
		s.applyDelivery(e, body)
	}
}

func (w *Work) enter(phase signalbox.Phase) {
	if w.Task != nil {
		task := *w.Task
		w.Task = &task
		task.enter(w.Phase, phase)
	}
	if w.Checks != nil && phase == signalbox.PhaseReadyForReview {
		passed := *w.Checks
		passed.Failures, passed.Finding = 0, nil
		w.Checks = &passed
	}
	if phase == signalbox.PhaseBlocked {
		w.BlockedFrom = w.Phase
	} else {
		w.BlockedFrom, w.Notes, w.NotesBlob = "", "", signalbox.Hash{}
	}
	w.Phase = phase
}

func (s *State) grant(e *signalbox.Event, b LeaseGranted) {
	s.changeWork(e.Work, func(w *Work) {
		w.Lease = &signalbox.Lease{ID: b.Lease, Epoch: e.Seq, Session: e.Session, Actor: e.Actor, Role: b.Role, Expires: b.Expires.UTC()}
		w.Present = &Tenure{Epoch: e.Seq, Session: e.Session, Actor: e.Actor, Role: b.Role, Phase: w.Phase, From: e.Time,
			Secret: b.Secret, Identity: b.Identity, Crew: b.Crew}
		if w.Task != nil && b.Agent != "" {
			task := *w.Task
			task.Agent = b.Agent
			w.Task = &task
		}
	})
	s.changeSession(e.Session, func(session *Session) {
		session.Actor, session.Role = e.Actor, b.Role
		session.Held = append(session.Held, LeaseRef{e.Seq, e.Work})
		session.Live = append(slices.Clone(session.Live), e.Seq)
	})
}

// endLease removes the lease from the work. If an exit signal ended the tenure, Ended is already set and stays.
func (s *State) endLease(e *signalbox.Event, how Ending) {
	var ended *signalbox.Lease
	s.changeWork(e.Work, func(w *Work) {
		past := *w.Present
		past.To, past.End = e.Time, e.Seq
		if past.Ended == "" {
			past.Ended = how
		}
		ended, w.Lease, w.Present = w.Lease, nil, nil
		w.Past = append(w.Past, past)
		if w.Task != nil && (w.Task.Parked != nil || w.Task.Progress != nil || w.Task.Agent != "" || w.Task.Conversation != nil) {
			task := *w.Task
			task.endConversationLease(ended.Role)
			task.Parked, task.Progress, task.Agent = nil, nil, ""
			w.Task = &task
		}
	})
	s.changeSession(ended.Session, func(session *Session) {
		session.Live = slices.DeleteFunc(slices.Clone(session.Live), func(epoch uint64) bool { return epoch == ended.Epoch })
	})
}

func (s *State) complete(e *signalbox.Event, completed signalbox.AgentSessionCompleted) {
	s.changeWork(e.Work, func(w *Work) {
		if completed.ExitReason != signalbox.ExitCompleted && completed.Notes != nil {
			w.Notes, w.NotesBlob = *completed.Notes, completed.NotesBlob
		}
		present := *w.Present
		present.Ended = Ending(completed.ExitReason)
		w.Present = &present
	})
	s.changeSession(e.Session, func(session *Session) {
		session.Exits = append(session.Exits, ExitRecord{
			Epoch: completed.LeaseEpoch, Digest: sha256.Sum256(e.Data), Seq: e.Seq, Next: *completed.NextPhase,
		})
	})
}
