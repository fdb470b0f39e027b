package main

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"net"

	"signalbox"
	"signalbox/internal/serve/mcpserver"
)

// tokenVariable has the token of a server over HTTP, so that it stands in no list of processes.
const tokenVariable = "SIGNALBOX_MCP_TOKEN"

type mcpCommand struct {
	boxFlag
	Portfolio given    `name:"portfolio" placeholder:"DIR" help:"The portfolio's folder; else SIGNALBOX_PORTFOLIO, else the current folder or portfolio in it, whichever has portfolio.yaml."`
	HTTP      given    `name:"http" placeholder:"ADDR" help:"Listen here for streamable HTTP instead of speaking on standard input and output, as in 127.0.0.1:7700; without a host it is the loopback, and port 0 is any that is free."`
	Hosts     []string `name:"host" placeholder:"NAME" help:"A name by which callers reach the server, beside those of the loopback. Repeat it for more."`
}

func (mcpCommand) Help() string {
	return `Serves the tools of signalbox to agents that speak the Model Context Protocol: status, work, leases, exit signals, line signals, questions, transcripts, the ledger, and the two portfolio tools. docs/mcp.md says how to connect the usual agents.

On standard input and output by default, for agents that start their servers themselves. If SIGNALBOX_SESSION is set, the server acts for that session alone.

With --http it listens for streamable HTTP at the path /mcp. Callers need a token, also on the loopback, because an agent's own shell can reach it: SIGNALBOX_MCP_TOKEN sets it, else one is made and shown. Nothing is encrypted: beyond the loopback put it behind something that speaks TLS.

Examples:

    signalbox mcp
    signalbox mcp --portfolio ~/money
    SIGNALBOX_MCP_TOKEN=$(cat token) signalbox mcp --http 127.0.0.1:7700`
}

func (c *mcpCommand) Run(p *program) error {
	ctx, stop := untilInterrupted()
	defer stop()
	token := p.getenv(tokenVariable)
	made := c.HTTP != "" && token == ""
	if made {
		random := make([]byte, 24)
		if _, err := rand.Read(random); err != nil {
			return err
		}
		token = hex.EncodeToString(random)
	}
	server, err := mcpserver.New(func() (string, error) { return p.findBox(c.boxFlag) }, &mcpserver.Options{
		Version: currentBuild().Version, Box: p.boxOptions(), Session: p.getenv(sessionVariable),
		Crew:  p.getenv(attemptVariable) != "", // only a crew sets it
		Actor: p.actor(""), ExitFlag: p.getenv(signalbox.ExitFlag), Portfolio: p.desk(dataFlag{Data: c.Portfolio}, c.boxFlag), Token: token, Hosts: c.Hosts,
		Log: slog.New(warnings{p}),
	})
	if err != nil {
		return err
	}
	if c.HTTP == "" {
		if isTerminal(p.stdin) {
			p.notef("speaking MCP on standard input and output; Ctrl-D ends it")
		}
		err = server.ServeStdio(ctx, p.stdin, p.stdout)
	} else {
		err = c.listen(ctx, p, server, token, made)
	}
	return errors.Join(interruption(err), server.Close())
}

// interruption is nil for an interrupt: that is how a server ends.
func interruption(err error) error {
	if errors.Is(err, context.Canceled) {
		return nil
	}
	return err
}

func (c *mcpCommand) listen(ctx context.Context, p *program, server *mcpserver.Server, token string, made bool) error {
	host, port, err := net.SplitHostPort(string(c.HTTP))
	if err != nil {
		return &signalbox.Error{Code: signalbox.CodeUsage, Err: fmt.Errorf("%s is no address: %w", c.HTTP, err), Hint: "write host and port, such as 127.0.0.1:7700"}
	}
	if host == "" {
		host = "127.0.0.1"
	}
	l, err := net.Listen("tcp", net.JoinHostPort(host, port))
	if err != nil {
		return &signalbox.Error{Code: signalbox.CodeFailed, Err: fmt.Errorf("cannot listen on %s: %w", c.HTTP, cause(err)), Hint: "choose another port; port 0 is any that is free"}
	}
	p.notef("serving MCP at http://%s/mcp; Ctrl-C ends it", l.Addr())
	if made {
		p.notef("callers send the header Authorization: Bearer %s", token)
	}
	if ip := net.ParseIP(host); host != "localhost" && (ip == nil || !ip.IsLoopback()) {
		p.warnf("%s is not the loopback: others can reach it, and nothing is encrypted", host)
	}
	return server.Serve(ctx, l)
}
