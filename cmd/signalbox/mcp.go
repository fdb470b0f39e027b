package main

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"io"
	"sync/atomic"

	"signalbox"
	"signalbox/internal/config"
	"signalbox/internal/run/agentsocket"
	"signalbox/internal/serve/mcpserver"
	"signalbox/internal/text"
)

// tokenVariable holds the token of the HTTP server. It is not a flag, because flags are visible in lists of processes.
const tokenVariable = "SIGNALBOX_MCP_TOKEN"

type mcpCommand struct {
	boxFlag
	Portfolio nonEmpty         `name:"portfolio" placeholder:"DIR" help:"The folder of the portfolio. Default: SIGNALBOX_PORTFOLIO, or else the current folder or its subfolder portfolio, whichever has portfolio.yaml."`
	HTTP      nonEmpty         `name:"http" placeholder:"ADDR" help:"Serve streamable HTTP on this address, such as 127.0.0.1:7700, instead of standard input and output. Without a host it is 127.0.0.1; port 0 means any free port."`
	Roles     []signalbox.Role `placeholder:"R,R" help:"The roles in which the client may claim work: business-analyst, developer, critic, auditor. Default: developer."`
	Actor     nonEmpty         `placeholder:"A" help:"The name of the client on the ledger, which is its identity. Default: SIGNALBOX_ACTOR, or else your user name."`
	Hosts     []string         `name:"host" placeholder:"NAME" help:"A host name under which callers reach the server, besides those of the loopback. Can be repeated."`
}

func (mcpCommand) Help() string {
	return `Serves the tools of signalbox over the Model Context Protocol: status, work, leases, exit signals, line signals, questions, transcripts, the ledger, and the two portfolio tools. docs/mcp.md explains how to connect agents.

By default it uses standard input and output, for agents that start their servers themselves. If SIGNALBOX_SESSION is set, the server acts only for that session, with the secret in SIGNALBOX_SECRET. For an agent of a run, the run is the server: it shows the agent its own work only, and the flags have no effect.

The client claims work only in its --roles, and cannot review or audit work that it developed, even after it has reconnected: --actor is its identity. To connect a developer and a reviewer, start two servers with different names and roles. The roles ci and merger are signalbox itself and cannot be claimed here. A claim returns a secret, which renewals and signals need.

With --http it serves streamable HTTP at the path /mcp. Callers need a token, even on the loopback, because the shell of an agent can reach it. SIGNALBOX_MCP_TOKEN sets the token; otherwise one is generated and printed. Everyone who sends it is one client, with --actor and --roles. More clients, each with a token, a name and roles of its own, are in the configuration: mcp.clients. The connection is not encrypted: to serve other machines, put the server behind a proxy with TLS.

Examples:

    signalbox mcp
    signalbox mcp --actor reviewer --roles critic,auditor
    signalbox mcp --portfolio ~/money
    SIGNALBOX_MCP_TOKEN=$(cat token) signalbox mcp --http 127.0.0.1:7700`
}

func (c *mcpCommand) Run(p *program) error {
	ctx, stop := untilInterrupted()
	defer stop()
	if p.socket() != "" {
		if c.HTTP != "" {
			return p.insideSession("serve MCP over HTTP")
		}
		return p.bridgeMCP(ctx)
	}
	token := p.getenv(tokenVariable)
	generated := c.HTTP != "" && token == ""
	if generated {
		random := make([]byte, 24)
		if _, err := rand.Read(random); err != nil {
			return err
		}
		token = hex.EncodeToString(random)
	}
	clients, err := p.mcpClients(ctx, c.boxFlag, c.HTTP != "")
	if err != nil {
		return err
	}
	server, err := mcpserver.New(func() (string, error) { return p.findBox(c.boxFlag) }, &mcpserver.Options{
		Version: p.build().Version, Box: p.workOptions(c.boxFlag), Session: p.getenv(sessionVariable), Secret: p.getenv(secretVariable),
		Crew:   p.getenv(attemptVariable) != "", // only set by a crew
		Client: mcpserver.Client{Name: p.actor(c.Actor), Roles: c.Roles, Token: token}, Clients: clients,
		ExitFlag: p.getenv(signalbox.ExitFlag), Portfolio: p.desk(dataFlag{Data: c.Portfolio}, c.boxFlag), Hosts: c.Hosts,
		Log: p.log(),
	})
	if err != nil {
		return err
	}
	if c.HTTP == "" {
		if isTerminal(p.stdin) {
			p.notef("serving MCP on standard input and output; press Ctrl-D to stop")
		}
		err = server.ServeStdio(ctx, p.stdin, text.NewJSONEscaper(p.stdout))
	} else {
		err = c.serveHTTP(ctx, p, server, token, generated)
	}
	return errors.Join(ignoreInterrupt(err), server.Close())
}

// ignoreInterrupt returns nil for an interrupt, which is how a server is stopped.
func ignoreInterrupt(err error) error {
	if errors.Is(err, context.Canceled) {
		return nil
	}
	return err
}

func (c *mcpCommand) serveHTTP(ctx context.Context, p *program, server *mcpserver.Server, token string, generated bool) error {
	host, port, loopback, err := splitAddress(string(c.HTTP))
	if err != nil {
		return err
	}
	if _, err := server.Handler(); err != nil { // before it says that it serves
		return &signalbox.Error{Code: signalbox.CodeFailed, Err: err, Hint: "give each client a name and a token of its own: --actor, SIGNALBOX_MCP_TOKEN, and mcp.clients in " + config.FileName}
	}
	l, err := p.listen(ctx, string(c.HTTP), host, port, loopback)
	if err != nil {
		return err
	}
	p.notef("serving MCP at http://%s/mcp; press Ctrl-C to stop", l.Addr())
	if generated {
		p.notef("callers must send the header Authorization: Bearer %s", token)
	}
	return server.Serve(ctx, l)
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
