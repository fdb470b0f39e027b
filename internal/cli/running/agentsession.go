package running

import (
	"context"
	"errors"
	"io"
	"slices"

	"signalbox"
	"signalbox/internal/cli"
	"signalbox/internal/config"
	"signalbox/internal/core/box"
	"signalbox/internal/run/crew"
	"signalbox/internal/serve/mcpserver"
)

// serveAgent serves MCP to an agent of a run, as its session and with its role.
func serveAgent(ctx context.Context, p *cli.Program, b *box.Box, agent crew.AgentSession,
	conn io.ReadWriter) error {
	roles := []signalbox.Role{}
	if slices.Contains(config.ClientRoles(), agent.Role) {
		roles = append(roles, agent.Role)
	}
	server, err := mcpserver.New(func() (string, error) { return b.Dir, nil }, &mcpserver.Options{
		Version: p.Build().Version, Opened: b, Session: agent.ID, Secret: agent.Secret,
		Work: agent.Work, Crew: true,
		Client:   mcpserver.Client{Name: agent.ID, Roles: roles},
		ExitFlag: p.Getenv(signalbox.ExitFlag), Log: p.BoxOptions().Log,
	})
	if err != nil {
		return err
	}
	return errors.Join(server.ServeStdio(ctx, conn, conn), server.Close())
}
