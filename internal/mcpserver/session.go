package mcpserver

import (
	"cmp"
	"slices"
	"time"

	"signalbox"
	"signalbox/internal/rules"
)

// operatorOnly refuses what an agent may not do. It is a guard-rail: docs/security.md says what it does not stop.
func (s *Server) operatorOnly(what string) error {
	if s.opts.Session == "" {
		return nil
	}
	return problemf("not_allowed", "ask the operator", "session '%s' may not %s", s.opts.Session, what)
}

// session is the one that a call acts for: the server's own and no other, or without one the one that the call names.
func (s *Server) session(named string) (string, error) {
	own := s.opts.Session
	switch {
	case own == "" && named == "":
		return "", problemf("session_needed", "name the session that claim_work answered with", "the call names no session")
	case own == "" || named == own:
		return named, nil
	case named == "":
		return own, nil
	}
	return "", problemf("not_allowed", "leave session out", "session '%s' may not act for session '%s'", own, named)
}

func (s *Server) actor(named string) string { return cmp.Or(named, s.opts.Actor) }

// held is the lease that a call is under.
type held struct {
	session string
	role    signalbox.Role
	epoch   uint64
	work    string
	planned bool // the work is of a plan
}

// leaseOf finds the lease that a session speaks under: the one that is named, else the only live one. The rules judge whether it is
// live; only who does not name one is told here that there is none.
func leaseOf(state *rules.State, id string, epoch uint64, now time.Time) (held, error) {
	session, known := state.Session(id)
	if !known {
		return held{}, unknownSession(id)
	}
	if epoch == 0 {
		live := slices.DeleteFunc(slices.Clone(session.Live), func(epoch uint64) bool {
			w, known := state.Work(workUnder(session, epoch))
			return !known || liveLease(w, now) == nil
		})
		switch len(live) {
		case 0: // perhaps it says again what it said last
			epoch = session.Held[len(session.Held)-1].Epoch
		case 1:
			epoch = live[0]
		default:
			return held{}, problemf("epoch_needed", "name the epoch of the one you mean", "session '%s' holds %d leases", id, len(live))
		}
	}
	h := held{session: id, role: session.Role, epoch: epoch, work: workUnder(session, epoch)}
	if w, known := state.Work(h.work); known {
		h.planned = w.Task != nil
	}
	return h, nil
}

func workUnder(session *rules.Session, epoch uint64) string {
	for _, h := range session.Held {
		if h.Epoch == epoch {
			return h.Work
		}
	}
	return ""
}

func unknownSession(session string) error {
	return problemf("unknown_session", "use the session that claim_work answered with", "there is no session '%s'", session)
}

// missing gives an error about something that is not there its flag, by looking what it is.
func missing(state *rules.State, err error, work, session string) error {
	if !is(err, signalbox.CodeNotFound) {
		return err
	}
	if _, known := state.Work(work); work != "" && !known {
		return unknownWork(work)
	}
	if _, known := state.Session(session); session != "" && !known {
		return unknownSession(session)
	}
	return err
}
