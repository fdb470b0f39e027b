package mcpserver

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"signalbox"
	"signalbox/internal/core/rules"
	"signalbox/internal/serve/mcpserver/schema"
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

// connectionKey is that of the connection over which a call came.
type connectionKey struct{}

func withConnection(ctx context.Context, connection *mcp.ServerSession) context.Context {
	return context.WithValue(ctx, connectionKey{}, connection)
}

// keepClaim notes that a session was claimed over the connection of a call: it is the caller's own. Connections that ended are forgotten.
func (s *Server) keepClaim(ctx context.Context, session string) {
	connection, _ := ctx.Value(connectionKey{}).(*mcp.ServerSession)
	if connection == nil {
		return
	}
	live := slices.Collect(s.mcp.Sessions())
	s.mu.Lock()
	defer s.mu.Unlock()
	maps.DeleteFunc(s.claims, func(c *mcp.ServerSession, _ map[string]bool) bool { return !slices.Contains(live, c) })
	if s.claims[connection] == nil {
		s.claims[connection] = map[string]bool{}
	}
	s.claims[connection][session] = true
}

// whose says which sessions are those of the caller.
type whose struct {
	named    string // the server's own or the one that the call names; "" if there is none
	sessions map[string]bool
}

func (w whose) owns(session string) bool { return w.sessions[session] }

// check refuses a session that nobody knows. That of the environment may have claimed nothing yet.
func (w whose) check(s *Server, state *rules.State) error {
	if _, known := state.Session(w.named); w.named != s.opts.Session && !known {
		return unknownSession(w.named)
	}
	return nil
}

// whose finds out who asks: the server's own session, the one that the call names, else those that were claimed over its connection.
func (s *Server) whose(ctx context.Context, named string) (whose, error) {
	if s.opts.Session != "" || named != "" {
		session, err := s.session(named)
		return whose{session, map[string]bool{session: true}}, err
	}
	connection, _ := ctx.Value(connectionKey{}).(*mcp.ServerSession)
	s.mu.Lock()
	defer s.mu.Unlock()
	return whose{sessions: maps.Clone(s.claims[connection])}, nil
}

// askingSession is the argument of calls that only look.
func askingSession() schema.Property {
	return schema.ID("session", "Whose work is yours; else what was claimed over this connection.")
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
			return !known || w.LiveLease(now) == nil
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
