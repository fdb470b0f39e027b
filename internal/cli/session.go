package cli

import (
	"strconv"

	"signalbox"
	"signalbox/internal/run/agentsocket"
)

// An agent of a run may not open the box. In its processes SIGNALBOX_SOCKET names the socket that
// the run serves for its session, and the commands that an agent may use go through it: work exit,
// work show and mcp.

// Socket returns the path of the socket of an agent's session, or "" outside a run.
func (p *Program) Socket() string { return p.Getenv(agentsocket.Variable) }

// SocketRequest returns a request for a call over the socket. Zero epoch means that of the
// environment.
func (p *Program) SocketRequest(call agentsocket.Call, session string,
	epoch uint64) agentsocket.Request {
	if epoch == 0 {
		// the session has only one lease
		epoch, _ = strconv.ParseUint(p.Getenv(epochVariable), 10, 64)
	}
	return agentsocket.Request{Session: session, Epoch: epoch, Secret: p.Getenv(SecretVariable),
		Call: call}
}

// OperatorOnly returns an error in an agent's process. It is a guard rail against accidents;
// docs/explanation/security.md explains what it does not stop.
func (p *Program) OperatorOnly(what string) error {
	if p.Getenv(SessionVariable) != "" || p.Socket() != "" {
		return p.InsideSession(what)
	}
	return nil
}

// InsideSession returns the error for a command that an agent's process may not use.
func (p *Program) InsideSession(what string) error {
	hint := SessionVariable +
		" is set, so this is an agent's process: it may only renew, release and exit its own session; ask your operator for anything else"
	if p.Socket() != "" {
		hint = agentsocket.Variable +
			" is set, so this is an agent of a run: of the commands that use the box it has only work exit, work show of its own work, and mcp; ask your operator for anything else"
	}
	return signalbox.CodeFailed.Errorf(hint, "session '%s' may not %s", p.Getenv(SessionVariable),
		what)
}
