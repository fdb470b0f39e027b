package rules

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"signalbox"
)

// The types of events about leases.
const (
	TypeLeaseGranted  = "LeaseGranted"
	TypeLeaseRenewed  = "LeaseRenewed"
	TypeLeasesRenewed = "LeasesRenewed"
	TypeLeaseReleased = "LeaseReleased"
	TypeLeaseExpired  = "LeaseExpired"
)

// LeaseGranted gives the work to a session. The sequence of the event is the epoch of the lease.
type LeaseGranted struct {
	Lease   string         `json:"lease"`
	Role    signalbox.Role `json:"role"`
	Expires time.Time      `json:"expires"`
	// Secret is the SHA-256 of the secret that the claim returned. A caller needs the secret to use
	// the lease.
	Secret signalbox.Hash `json:"secret_hash,omitzero" blob:"-"`
	// Identity is the MCP client that claimed the work.
	Identity string `json:"identity,omitempty"`
	// Crew is true if a crew runs the checks of work that was opened by hand.
	Crew bool `json:"crew,omitempty"`
	// Agent is the agent that the crew is to start.
	Agent string `json:"agent,omitempty"`
	// Machine is the name of the machine on which a crew works, if several share the ledger.
	Machine string `json:"machine,omitempty"`
}

func (b LeaseGranted) fault(s *State, e *signalbox.Event) string {
	return s.workFault(e, func(w *Work) string {
		session, known := s.Session(e.Session)
		switch {
		case w.Lease != nil:
			return fmt.Sprintf("lease %d is live", w.Lease.Epoch)
		case b.Role == "" || b.Role != w.claimableBy():
			return fmt.Sprintf("role %q may not claim %s", b.Role, w.Phase)
		case known && (session.Role != b.Role || session.Actor != e.Actor):
			return "the session has another role or actor"
		}
		ids := idFault(e.Session, e.Actor, b.Lease, cmp.Or(b.Identity, e.Actor))
		return cmp.Or(ids, ttlFault(e, b.Expires))
	})
}

func (b LeaseGranted) apply(s *State, e *signalbox.Event) {
	s.changeWork(e.Work, func(w *Work) {
		w.Lease = &signalbox.Lease{ID: b.Lease, Epoch: e.Seq, Session: e.Session, Actor: e.Actor,
			Role: b.Role, Expires: b.Expires.UTC()}
		w.Present = &Tenure{Epoch: e.Seq, Session: e.Session, Actor: e.Actor, Role: b.Role,
			Phase: w.Phase, From: e.Time, Secret: b.Secret, Identity: b.Identity, Crew: b.Crew}
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

// LeaseRenewed extends the lease.
type LeaseRenewed struct {
	Epoch   uint64    `json:"epoch"`
	Expires time.Time `json:"expires"`
}

func (b LeaseRenewed) fault(s *State, e *signalbox.Event) string {
	return s.workFault(e, func(w *Work) string {
		if w.Lease != nil && !b.Expires.After(w.Lease.Expires) {
			return "it does not extend the lease"
		}
		return cmp.Or(liveFault(e, w, b.Epoch), ttlFault(e, b.Expires))
	})
}

func (b LeaseRenewed) apply(s *State, e *signalbox.Event) { s.extendLease(e.Work, b.Expires) }

// LeasesRenewed extends leases of checks and merges, all to the same time. It is the heartbeat of
// the machine that holds them: one event, however many there are.
type LeasesRenewed struct {
	Epochs  []uint64  `json:"epochs"`
	Expires time.Time `json:"expires"`
}

func (b LeasesRenewed) fault(s *State, e *signalbox.Event) string {
	if len(b.Epochs) == 0 {
		return "it renews no lease"
	}
	for _, epoch := range b.Epochs {
		switch lease := s.Lease(epoch); {
		case lease == nil:
			return fmt.Sprintf("lease %d is not live", epoch)
		case isAgent(lease.Role):
			return fmt.Sprintf("lease %d belongs to the %s", epoch, lease.Role)
		case !e.Time.Before(lease.Expires):
			return fmt.Sprintf("lease %d has expired", epoch)
		case !b.Expires.After(lease.Expires):
			return fmt.Sprintf("it does not extend lease %d", epoch)
		}
	}
	return ttlFault(e, b.Expires)
}

func (b LeasesRenewed) apply(s *State, _ *signalbox.Event) {
	for _, epoch := range b.Epochs {
		s.extendLease(s.works[s.leased[epoch]].ID, b.Expires)
	}
}

// extendLease sets when the lease of a work item expires.
func (s *State) extendLease(work string, expires time.Time) {
	s.changeWork(work, func(w *Work) {
		lease := *w.Lease
		lease.Expires = expires.UTC()
		w.Lease = &lease
	})
}

// LeaseReleased ends a lease because its holder is done or gave up, or because an operator revoked
// it.
type LeaseReleased struct {
	Epoch  uint64 `json:"epoch"`
	Reason string `json:"reason,omitempty"`
}

func (b LeaseReleased) fault(s *State, e *signalbox.Event) string {
	return s.workFault(e, func(w *Work) string { return liveFault(e, w, b.Epoch) })
}

func (LeaseReleased) apply(s *State, e *signalbox.Event) { s.endLease(e, EndedReleased) }

func (b LeaseReleased) describe(d *Describer, e *signalbox.Event) (text, detail string) {
	if b.isRoutine() {
		return "", ""
	}
	return d.role(e) + " stopped", b.Reason
}

// isRoutine reports whether another event already explains why the lease ended.
func (b LeaseReleased) isRoutine() bool {
	switch b.Reason {
	case "", "checks", "merge", ReleasedTrain, "delivered", "conflict", "health audit", "exit",
		ReleasedLimit, ReleasedUnavailable, "retry", "setup", ReleasedForRework, "the run is cancelled",
		"the human is asked instead", signalbox.NameExit, signalbox.NameUnknown:
		return true
	}
	switch FailCause(b.Reason) {
	case FailTimeout, FailCrash, FailStall, FailStart, FailWorkspace, FailSignals, FailProcesses:
		return true
	}
	_, signal := signalbox.LineSignalNamed(b.Reason)
	return signal
}

// LeaseExpired ends a lease that was not renewed in time.
type LeaseExpired struct {
	Epoch uint64 `json:"epoch"`
}

func (b LeaseExpired) fault(s *State, e *signalbox.Event) string {
	return s.workFault(e, func(w *Work) string {
		if w.Lease != nil && e.Time.Before(w.Lease.Expires) {
			return "the lease has not expired"
		}
		return leaseFault(e, w, b.Epoch)
	})
}

func (LeaseExpired) apply(s *State, e *signalbox.Event) { s.endLease(e, EndedExpired) }

func (LeaseExpired) describe(d *Describer, e *signalbox.Event) (text, detail string) {
	return d.role(e) + " lost its lease: it expired", ""
}

// endLease removes the lease from the work. If an exit signal ended the tenure, Ended is already
// set and stays.
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
		if t := w.Task; t != nil &&
			(t.Parked != nil || t.Progress != nil || t.Agent != "" || t.Conversation != nil) {
			task := *t
			task.endConversationLease(ended.Role)
			task.Parked, task.Progress, task.Agent = nil, nil, ""
			w.Task = &task
		}
	})
	s.changeSession(ended.Session, func(session *Session) {
		isEnded := func(epoch uint64) bool { return epoch == ended.Epoch }
		session.Live = slices.DeleteFunc(slices.Clone(session.Live), isEnded)
	})
}

func ttlFault(e *signalbox.Event, expires time.Time) string {
	if ttl := expires.Sub(e.Time); ttl < signalbox.MinLeaseTTL || ttl > signalbox.MaxLeaseTTL {
		return fmt.Sprintf("the lease would last %s", ttl)
	}
	return ""
}
