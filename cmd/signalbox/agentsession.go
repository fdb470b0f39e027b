package main

import (
	"context"
	"errors"
	"io"
	"slices"

	"signalbox"
	"signalbox/internal/config"
	"signalbox/internal/core/box"
	"signalbox/internal/run/crew"
	"signalbox/internal/serve/mcpserver"
)

// serveAgent serves MCP to an agent of a run, as its session and with its role.
func (p *program) serveAgent(ctx context.Context, b *box.Box, agent crew.AgentSession, conn io.ReadWriter) error {
	roles := []signalbox.Role{}
	if slices.Contains(config.ClientRoles(), agent.Role) {
		roles = append(roles, agent.Role)
	}
	server, err := mcpserver.New(func() (string, error) { return b.Dir, nil }, &mcpserver.Options{
		Version: p.build().Version, Opened: b, Session: agent.ID, Secret: agent.Secret, Work: agent.Work, Crew: true,
		Client: mcpserver.Client{Name: agent.ID, Roles: roles}, ExitFlag: p.getenv(signalbox.ExitFlag), Log: p.boxOptions().Log,
	})
	if err != nil {
		return err
	}
	return errors.Join(server.ServeStdio(ctx, conn, conn), server.Close())
}
