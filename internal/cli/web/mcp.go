package web

import (
	"context"
	"errors"
	"maps"
	"net/http"
	"slices"

	"signalbox"
	"signalbox/internal/cli"
	"signalbox/internal/config"
	"signalbox/internal/serve/mcpserver"
)

// MCPClients returns the clients that the configuration of the box names, with their tokens.
// Without a box, and without HTTP, there are none. It fails if the configuration may not be used;
// without HTTP, calls report what is wrong with it.
func MCPClients(ctx context.Context, p *cli.Program, f cli.BoxFlag,
	http bool) ([]mcpserver.Client, error) {
	dir, err := p.FindBox(f)
	if signalbox.CodeOf(err) == signalbox.CodeNotFound {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	conf, err := p.WorkOptions(f).Load(ctx, dir)
	if !http && (err == nil || signalbox.CodeOf(err) == signalbox.CodeUsage) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var clients []mcpserver.Client
	for _, name := range slices.Sorted(maps.Keys(conf.MCP.Clients)) {
		configured := conf.MCP.Clients[name]
		token := p.Getenv(configured.TokenEnv)
		if token == "" {
			return nil, signalbox.CodeFailed.Errorf(
				"set the variable to a long random text that only this client knows, or remove the client from mcp.clients in "+config.FileName, "the token of the MCP client '%s' is missing: %s is not set", name, configured.TokenEnv)
		}
		clients = append(clients, mcpserver.Client{Name: name, Roles: configured.Roles,
			Token: token})
	}
	return clients, nil
}

// configuredMCP returns the handler of MCP for the clients that the configuration names, nil if
// there are none.
func configuredMCP(ctx context.Context, p *cli.Program, f cli.BoxFlag,
	hosts []string) (handler http.Handler, stop func() error, err error) {
	clients, err := MCPClients(ctx, p, f, true)
	if err != nil || len(clients) == 0 {
		return nil, func() error { return nil }, err
	}
	server, err := mcpserver.New(func() (string, error) { return p.FindBox(f) }, &mcpserver.Options{
		Version: p.Build().Version, Box: p.WorkOptions(f),
		Client: mcpserver.Client{Name: p.ActorOf("")}, Clients: clients,
		ExitFlag: p.Getenv(signalbox.ExitFlag), Portfolio: cli.Desk(p, cli.DataFlag{}, f),
		Hosts: hosts, Log: p.Log(),
	})
	if err != nil {
		return nil, nil, err
	}
	if handler, err = server.Handler(); err != nil {
		return nil, nil, errors.Join(err, server.Close())
	}
	return handler, server.Close, nil
}
