package mcpserver

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"signalbox"
	"signalbox/internal/core/rules"
	"signalbox/internal/serve/mcpserver/schema"
)

// operatorOnly returns an error if the server acts for an agent. It prevents mistakes, not attacks:
// see docs/explanation/security.md.
func (s *Server) operatorOnly(what string) error {
	if s.opts.Session == "" {
		return nil
	}
	return problemf("not_allowed", "ask the operator", "session '%s' may not %s", s.opts.Session,
		what)
}

// shows reports whether the server shows a work item to its client.
func (s *Server) shows(w *rules.Work) bool { return s.opts.Work == "" || w.ID == s.opts.Work }

// findWork returns the work item that a call names, with its plan or without.
func (s *Server) findWork(state *rules.State, name string) (*rules.Work, error) {
	w, err := state.Find(name)
	switch {
	case s.opts.Work != "" && (err != nil || !s.shows(w)): // whether or not there is such work
		return nil, s.onlyOwnWork()
	case signalbox.CodeOf(err) == signalbox.CodeNotFound:
		return nil, unknownWork(name)
	case err != nil:
		return nil, &problem{"ambiguous_work", err, signalbox.HintOf(err)}
	}
	return w, nil
}

func (s *Server) onlyOwnWork() error {
	return problemf("not_allowed", "leave other work alone",
		"session '%s' may only see its own work, '%s'", s.opts.Session, s.opts.Work)
}

// checkLedger returns an error if the client may not see the ledger, which has the events of all
// work.
func (s *Server) checkLedger() error {
	if s.opts.Work == "" {
		return nil
	}
	return s.operatorOnly("see the ledger")
}

// session returns the session that a call acts for: the server's own, or else the one that the call
// names.
func (s *Server) session(named string) (string, error) {
	own := s.opts.Session
	switch {
	case own == "" && named == "":
		return "", problemf("session_needed", "pass the session that claim_work returned",
			"session is required")
	case own == "" || named == own:
		return named, nil
	case named == "":
		return own, nil
	}
	return "", problemf("not_allowed", "leave out session",
		"session '%s' may not act for session '%s'", own, named)
}

// connectionKey is the context key of the connection of a call.
type connectionKey struct{}

func withConnection(ctx context.Context, connection *mcp.ServerSession) context.Context {
	return context.WithValue(ctx, connectionKey{}, connection)
}

// rememberClaim records that a session was claimed over the connection of a call, and forgets
// connections that have ended.
func (s *Server) rememberClaim(ctx context.Context, session string) {
	connection, _ := ctx.Value(connectionKey{}).(*mcp.ServerSession)
	if connection == nil {
		return
	}
	live := slices.Collect(s.mcp.Sessions())
	s.mu.Lock()
	defer s.mu.Unlock()
	maps.DeleteFunc(s.claims,
		func(c *mcp.ServerSession, _ map[string]bool) bool { return !slices.Contains(live, c) })
	if s.claims[connection] == nil {
		s.claims[connection] = map[string]bool{}
	}
	s.claims[connection][session] = true
}

// callerSessions are the sessions of the caller of a tool.
type callerSessions struct {
	named    string // the server's own session or the one that the call names; "" if there is none
	sessions map[string]bool
}

func (c callerSessions) owns(session string) bool { return c.sessions[session] }

// check returns an error if the session is unknown. The server's own session may not have claimed
// anything yet.
func (c callerSessions) check(s *Server, state *rules.State) error {
	if _, known := state.Session(c.named); c.named != s.opts.Session && !known {
		return unknownSession(c.named)
	}
	return nil
}

// callerSessions returns the server's own session, or the one that the call names, or those that
// were claimed over its connection.
func (s *Server) callerSessions(ctx context.Context, named string) (callerSessions, error) {
	if s.opts.Session != "" || named != "" {
		session, err := s.session(named)
		return callerSessions{session, map[string]bool{session: true}}, err
	}
	connection, _ := ctx.Value(connectionKey{}).(*mcp.ServerSession)
	s.mu.Lock()
	defer s.mu.Unlock()
	return callerSessions{sessions: maps.Clone(s.claims[connection])}, nil
}

// callerSessionArgument is the session argument of read-only tools.
func callerSessionArgument() schema.Property {
	return schema.ID("session", "Your session. Default: the sessions claimed over this connection.")
}

// heldLease is the lease under which a call acts.
type heldLease struct {
	session string
	role    signalbox.Role
	epoch   uint64
	work    string
	planned bool // the work belongs to a plan
}

// leaseOf returns the lease of a session: that of the given epoch, or if epoch is 0 the only live
// one. The rules check whether the lease is live.
func leaseOf(state *rules.State, id string, epoch uint64, now time.Time) (heldLease, error) {
	session, known := state.Session(id)
	if !known {
		return heldLease{}, unknownSession(id)
	}
	if epoch == 0 {
		live := slices.DeleteFunc(slices.Clone(session.Live), func(epoch uint64) bool {
			w, known := state.Work(workUnder(session, epoch))
			return !known || w.LiveLease(now) == nil
		})
		switch len(live) {
		case 0: // it may repeat its last signal
			epoch = session.Held[len(session.Held)-1].Epoch
		case 1:
			epoch = live[0]
		default:
			return heldLease{}, problemf("epoch_needed", "pass the epoch of one of them",
				"session '%s' holds %d leases", id, len(live))
		}
	}
	h := heldLease{session: id, role: session.Role, epoch: epoch, work: workUnder(session, epoch)}
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
	return problemf("unknown_session", "use the session that claim_work returned",
		"unknown session '%s'", session)
}

// withNotFoundFlag adds the flag to a not-found error, depending on what does not exist.
func withNotFoundFlag(state *rules.State, err error, work, session string) error {
	if signalbox.CodeOf(err) != signalbox.CodeNotFound {
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
