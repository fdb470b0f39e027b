package rules

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"signalbox"
)

// fault returns why an event cannot be the next one, or "". Decide never returns such an event, so these rules did not
// write the log, and folding it would give a state that never existed.
func (s *State) fault(e *signalbox.Event, body body) string {
	switch {
	case e.Seq != s.seq+1:
		return fmt.Sprintf("it follows event %d", s.seq)
	case e.Time.Before(s.time):
		return "it is earlier than the event before it"
	case timeFault(e.Time) != "":
		return timeFault(e.Time)
	}
	if _, opens := body.(BoxOpened); opens != (s.seq == 0) {
		return "a log has BoxOpened once, as its first event"
	}
	if fault := s.moveFault(body); fault != "" {
		return fault
	}
	switch b := body.(type) {
	case LedgerMoved, LedgerContinued:
		return ""
	case LossAccepted:
		if b.First == 0 || b.Last < b.First {
			return fmt.Sprintf("there are no events from %d to %d", b.First, b.Last)
		}
		return ""
	case BoxOpened:
		if b.Rules < 1 {
			return fmt.Sprintf("there are no rules of version %d", b.Rules)
		}
		return idFault(b.Box)
	case RulesUpgraded:
		if b.From != s.rules || b.To <= b.From {
			return fmt.Sprintf("it upgrades rules version %d to %d, and the log follows version %d", b.From, b.To, s.rules)
		}
		return ""
	case BlobRedacted:
		if _, done := s.Redaction(b.Blob); done {
			return "the blob is redacted already"
		}
		return ""
	case TurnSignalHeard:
		return s.turnFault(b)
	case WorkOpened:
		return s.openFault(e, b)
	case TaskPlanned:
		return s.planFault(e, b)
	case PolicySet, PlanOpened, PlanLoaded, RoleLimited, AgentUnavailable, AgentRestored, BaseMoved:
		return s.runFault(b)
	case Paused, Resumed, Cancelled, Retried, QuestionAsked, QuestionAnswered, CommitsStored, BundleRejected:
		if e.Work == "" {
			return s.runFault(b)
		}
	case SignalRefused:
		if _, known := s.Session(e.Session); !known || b.Count < 1 {
			return "there is no such session, or the count is not positive"
		}
		return ""
	}
	w, ok := s.Work(e.Work)
	if !ok {
		return fmt.Sprintf("there is no work %q", e.Work)
	}
	return s.workFault(e, body, w)
}

func (s *State) openFault(e *signalbox.Event, b WorkOpened) string {
	if _, exists := s.Work(e.Work); exists {
		return "the work already exists"
	}
	if b.Phase.ClaimableBy() == "" {
		return fmt.Sprintf("work cannot start in phase %q", b.Phase)
	}
	return idFault(e.Work)
}

func idFault(ids ...string) string {
	for _, id := range ids {
		if err := signalbox.CheckID(id); err != nil {
			return err.Error()
		}
	}
	return ""
}

// lastSecond is in the year 2242. Nanoseconds since 1970 fit in 64 bits until then, and a lease can still expire.
const lastSecond = 1 << 33

// timeFault returns why t cannot be the time of an event, or "".
func timeFault(t time.Time) string {
	if t.Unix() < 0 || t.Unix() >= lastSecond {
		return fmt.Sprintf("%s is not between 1970 and 2242", t.Format(time.DateOnly))
	}
	return ""
}

// workFault validates an event about existing work.
func (s *State) workFault(e *signalbox.Event, body body, w *Work) string {
	switch b := body.(type) {
	case LeaseGranted:
		return s.grantFault(e, b, w)
	case LeaseRenewed:
		if w.Lease != nil && !b.Expires.After(w.Lease.Expires) {
			return "it does not extend the lease"
		}
		return cmp.Or(liveFault(e, w, b.Epoch), ttlFault(e, b.Expires))
	case LeaseReleased:
		return liveFault(e, w, b.Epoch)
	case LeaseExpired:
		if w.Lease != nil && e.Time.Before(w.Lease.Expires) {
			return "the lease has not expired"
		}
		return leaseFault(e, w, b.Epoch)
	case SignalHeard:
		return liveFault(e, w, b.Epoch)
	case AgentSessionCompleted:
		return cmp.Or(liveFault(e, w, b.LeaseEpoch), s.completedFault(e, b.AgentSessionCompleted, w))
	case PhaseChanged:
		return phaseFault(e, w, b)
	case WorkUnblocked:
		if w.Phase != signalbox.PhaseBlocked {
			return "the work is not blocked"
		}
	default:
		if w.Task == nil {
			return byHandFault(e, body, w)
		}
		return s.taskFault(e, body, w)
	}
	return ""
}

func (s *State) grantFault(e *signalbox.Event, b LeaseGranted, w *Work) string {
	session, known := s.Session(e.Session)
	switch {
	case w.Lease != nil:
		return fmt.Sprintf("lease %d is live", w.Lease.Epoch)
	case b.Role == "" || b.Role != w.claimableBy():
		return fmt.Sprintf("role %q may not claim %s", b.Role, w.Phase)
	case known && (session.Role != b.Role || session.Actor != e.Actor):
		return "the session has another role or actor"
	}
	return cmp.Or(idFault(e.Session, e.Actor, b.Lease, cmp.Or(b.Identity, e.Actor)), ttlFault(e, b.Expires))
}

func ttlFault(e *signalbox.Event, expires time.Time) string {
	if ttl := expires.Sub(e.Time); ttl < signalbox.MinLeaseTTL || ttl > signalbox.MaxLeaseTTL {
		return fmt.Sprintf("the lease would last %s", ttl)
	}
	return ""
}

// completedFault validates the next phase too. Before rules version 3, the one of planned work was always that of the exit protocol,
// even if the work stayed elsewhere.
func (s *State) completedFault(e *signalbox.Event, b signalbox.AgentSessionCompleted, w *Work) string {
	signal := signalbox.ExitSignal{PhaseCompleted: w.Phase, ExitReason: b.ExitReason}
	next, moves := signal.NextPhase()
	agrees := b.WorkID == e.Work && b.SessionID == e.Session && b.ActorID == e.Actor && b.PhaseCompleted == w.Phase
	if !agrees || !moves || b.NextPhase == nil || *b.NextPhase != next &&
		(w.Task == nil || w.Lease == nil || *b.NextPhase != s.phaseAfterExit(w, w.Lease.Role, b.ExitReason)) {
		return "its fields do not agree with the work"
	}
	return ""
}

func leaseFault(e *signalbox.Event, w *Work, epoch uint64) string {
	if w.Lease == nil || w.Lease.Epoch != epoch || w.Lease.Session != e.Session {
		return fmt.Sprintf("lease %d is not live, or not the session's", epoch)
	}
	return ""
}

// liveFault validates an event that only the holder of a live lease can cause, or an operator on its behalf.
func liveFault(e *signalbox.Event, w *Work, epoch uint64) string {
	if w.Lease != nil && !e.Time.Before(w.Lease.Expires) {
		return "the lease has expired"
	}
	return leaseFault(e, w, epoch)
}

func phaseFault(e *signalbox.Event, w *Work, b PhaseChanged) string {
	switch {
	case w.Task != nil:
		return plannedPhaseFault(w, b)
	case w.Phase != signalbox.PhaseBlocked && (w.Lease == nil || w.Lease.Session != e.Session):
		return "the session does not hold the work"
	case b.From != w.Phase:
		return fmt.Sprintf("the work is in %s", w.Phase)
	case !slices.Contains(nextPhases(w), b.To):
		return fmt.Sprintf("%s does not follow %s", b.To, b.From)
	}
	return ""
}

// nextPhases returns the phases that work opened by hand can move to.
func nextPhases(w *Work) []signalbox.Phase {
	if w.Phase == signalbox.PhaseBlocked {
		return []signalbox.Phase{w.BlockedFrom}
	}
	if w.checksFailed() {
		return []signalbox.Phase{signalbox.PhaseImplementation}
	}
	completed := signalbox.ExitSignal{PhaseCompleted: w.Phase, ExitReason: signalbox.ExitCompleted}
	next, ok := completed.NextPhase()
	if !ok {
		return nil
	}
	return []signalbox.Phase{next, signalbox.PhaseBlocked}
}
