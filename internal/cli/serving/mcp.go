package serving

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"io"
	"sync/atomic"

	"signalbox"
	"signalbox/internal/cli"
	"signalbox/internal/cli/web"
	"signalbox/internal/config"
	"signalbox/internal/run/agentsocket"
	"signalbox/internal/serve/mcpserver"
	"signalbox/internal/text"
)

// tokenVariable holds the token of the HTTP server. It is not a flag, because flags are visible in
// lists of processes.
const tokenVariable = "SIGNALBOX_MCP_TOKEN"

type MCPCommand struct {
	cli.BoxFlag
	Portfolio cli.NonEmpty     `name:"portfolio" placeholder:"DIR" help:"The folder of the portfolio. Default: SIGNALBOX_PORTFOLIO, or else the current folder or its subfolder portfolio, whichever has portfolio.yaml."`
	HTTP      cli.NonEmpty     `name:"http" placeholder:"ADDR" help:"Serve streamable HTTP on this address, such as 127.0.0.1:7700, instead of standard input and output. Without a host it is 127.0.0.1; port 0 means any free port."`
	Roles     []signalbox.Role `placeholder:"R,R" help:"The roles in which the client may claim work: business-analyst, developer, critic, auditor. Default: developer."`
	Actor     cli.NonEmpty     `placeholder:"A" help:"The name of the client on the ledger, which is its identity. Default: SIGNALBOX_ACTOR, or else your user name."`
	Hosts     []string         `name:"host" placeholder:"NAME" help:"A host name under which callers reach the server, besides those of the loopback. Can be repeated."`
}

func (MCPCommand) Help() string {
	return `Serves the tools of signalbox over the Model Context Protocol: status, work, leases, exit signals, line signals, questions, transcripts, the ledger, and the two portfolio tools. docs/how-to/mcp.md explains how to connect agents.

By default it uses standard input and output, for agents that start their servers themselves. If SIGNALBOX_SESSION is set, the server acts only for that session, with the secret in SIGNALBOX_SECRET. For an agent of a run, the run is the server: it shows the agent its own work only, and the flags have no effect.

The client claims work only in its --roles, and cannot review or audit work that it developed, even after it has reconnected: --actor is its identity. To connect a developer and a reviewer, start two servers with different names and roles. The roles ci and merger are signalbox itself and cannot be claimed here. A claim returns a secret, which renewals and signals need.

With --http it serves streamable HTTP at the path /mcp. Callers need a token, even on the loopback, because the shell of an agent can reach it. SIGNALBOX_MCP_TOKEN sets the token; otherwise one is generated and printed. Everyone who sends it is one client, with --actor and --roles. More clients, each with a token, a name and roles of its own, are in the configuration: mcp.clients. The connection is not encrypted: to serve other machines, put the server behind a proxy with TLS.

Examples:

    signalbox mcp
    signalbox mcp --actor reviewer --roles critic,auditor
    signalbox mcp --portfolio ~/money
    SIGNALBOX_MCP_TOKEN=$(cat token) signalbox mcp --http 127.0.0.1:7700`
}

func (c *MCPCommand) Run(p *cli.Program) error {
	ctx, stop := cli.UntilInterrupted()
	defer stop()
	if p.Socket() != "" {
		if c.HTTP != "" {
			return p.InsideSession("serve MCP over HTTP")
		}
		return bridgeMCP(ctx, p)
	}
	token := p.Getenv(tokenVariable)
	generated := c.HTTP != "" && token == ""
	if generated {
		random := make([]byte, 24)
		if _, err := rand.Read(random); err != nil {
			return err
		}
		token = hex.EncodeToString(random)
	}
	clients, err := web.MCPClients(ctx, p, c.BoxFlag, c.HTTP != "")
	if err != nil {
		return err
	}
	server, err := mcpserver.New(func() (string, error) { return p.FindBox(c.BoxFlag) },
		&mcpserver.Options{
			Version: p.Build().Version, Box: p.WorkOptions(c.BoxFlag),
			Session: p.Getenv(cli.SessionVariable), Secret: p.Getenv(cli.SecretVariable),
			Crew:      p.Getenv(cli.AttemptVariable) != "", // only set by a crew
			Client:    mcpserver.Client{Name: p.ActorOf(c.Actor), Roles: c.Roles, Token: token},
			Clients:   clients,
			ExitFlag:  p.Getenv(signalbox.ExitFlag),
			Portfolio: cli.Desk(p, cli.DataFlag{Data: c.Portfolio}, c.BoxFlag), Hosts: c.Hosts,
			Log: p.Log(),
		})
	if err != nil {
		return err
	}
	if c.HTTP == "" {
		if cli.IsTerminal(p.Stdin) {
			p.Notef("serving MCP on standard input and output; press Ctrl-D to stop")
		}
		err = server.ServeStdio(ctx, p.Stdin, text.NewJSONEscaper(p.Stdout))
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

func (c *MCPCommand) serveHTTP(ctx context.Context, p *cli.Program, server *mcpserver.Server,
	token string, generated bool) error {
	host, port, loopback, err := cli.SplitAddress(string(c.HTTP))
	if err != nil {
		return err
	}
	if _, err := server.Handler(); err != nil { // before it says that it serves
		return &signalbox.Error{Code: signalbox.CodeFailed, Err: err,
			Hint: "give each client a name and a token of its own: --actor, SIGNALBOX_MCP_TOKEN, and mcp.clients in " + config.FileName}
	}
	l, err := cli.Listen(ctx, p, string(c.HTTP), host, port, loopback)
	if err != nil {
		return err
	}
	p.Notef("serving MCP at http://%s/mcp; press Ctrl-C to stop", l.Addr())
	if generated {
		p.Notef("callers must send the header Authorization: Bearer %s", token)
	}
	return server.Serve(ctx, l)
}

// bridgeMCP connects standard input and output with the MCP server of the session, which the run
// serves over the socket.
func bridgeMCP(ctx context.Context, p *cli.Program) error {
	session := p.Getenv(cli.SessionVariable)
	conn, err := agentsocket.Connect(ctx, p.Socket(), p.SocketRequest(agentsocket.CallMCP, session,
		0))
	if err != nil {
		return err
	}
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { conn.Close() })()
	var ended atomic.Bool
	go func() {
		io.Copy(conn, p.Stdin)
		ended.Store(true)
		conn.CloseWrite() // the answers to the last calls still arrive
	}()
	_, err = io.Copy(text.NewJSONEscaper(p.Stdout), conn)
	switch {
	case ctx.Err() != nil || ended.Load():
		return nil
	case err != nil:
		return err
	}
	return agentsocket.Stale(session)
}
