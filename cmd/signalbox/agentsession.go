package main

import (
	"context"
	"errors"
	"io"
	"slices"
	"strconv"
	"sync/atomic"

	"signalbox"
	"signalbox/internal/config"
	"signalbox/internal/core/box"
	"signalbox/internal/run/agentsocket"
	"signalbox/internal/run/crew"
	"signalbox/internal/serve/mcpserver"
	"signalbox/internal/text"
	"signalbox/internal/tree/turnlog"
)

// An agent of a run may not open the box. In its processes SIGNALBOX_SOCKET names the socket that the run serves for its session, and the
// commands that an agent may use go through it: work exit, work show and mcp.

// epochVariable is the epoch of the session's lease.
const epochVariable = "SIGNALBOX_EPOCH"

// socket returns the path of the socket of an agent's session, or "" outside a run.
func (p *program) socket() string { return p.getenv(agentsocket.Variable) }

// request returns a request for a call over the socket. Zero epoch means that of the environment.
func (p *program) request(call agentsocket.Call, session string, epoch uint64) agentsocket.Request {
	if epoch == 0 {
		epoch, _ = strconv.ParseUint(p.getenv(epochVariable), 10, 64) // the session has only one lease
	}
	return agentsocket.Request{Session: session, Epoch: epoch, Secret: p.getenv(secretVariable), Call: call}
}

// reportTurn reports a turn signal of an agent that is a tree.
func (p *program) reportTurn(ctx context.Context, s turnlog.Signal) error {
	report, err := turnlog.NewReport(s)
	if err != nil {
		return err
	}
	request := p.request(agentsocket.CallTurn, p.getenv(sessionVariable), 0)
	request.Turn = &report
	return agentsocket.Invoke(ctx, p.socket(), request, nil)
}

// bridgeMCP connects standard input and output with the MCP server of the session, which the run serves over the socket.
func (p *program) bridgeMCP(ctx context.Context) error {
	session := p.getenv(sessionVariable)
	conn, err := agentsocket.Connect(ctx, p.socket(), p.request(agentsocket.CallMCP, session, 0))
	if err != nil {
		return err
	}
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { conn.Close() })()
	var ended atomic.Bool
	go func() {
		io.Copy(conn, p.stdin)
		ended.Store(true)
		conn.CloseWrite() // the answers to the last calls still arrive
	}()
	_, err = io.Copy(text.NewJSONEscaper(p.stdout), conn)
	switch {
	case ctx.Err() != nil || ended.Load():
		return nil
	case err != nil:
		return err
	}
	return agentsocket.Stale(session)
}

// serveAgent serves MCP to an agent of a run, as its session and with its role.
func (p *program) serveAgent(ctx context.Context, b *box.Box, agent crew.AgentSession, conn io.ReadWriter) error {
	roles := []signalbox.Role{}
	if slices.Contains(config.ClientRoles(), agent.Role) {
		roles = append(roles, agent.Role)
	}
	server, err := mcpserver.New(func() (string, error) { return b.Dir, nil }, &mcpserver.Options{
		Version: currentBuild().Version, Opened: b, Session: agent.ID, Secret: agent.Secret, Work: agent.Work, Crew: true,
		Client: mcpserver.Client{Name: agent.ID, Roles: roles}, ExitFlag: p.getenv(signalbox.ExitFlag), Log: p.boxOptions().Log,
	})
	if err != nil {
		return err
	}
	return errors.Join(server.ServeStdio(ctx, conn, conn), server.Close())
}
