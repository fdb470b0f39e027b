package main

import (
	"context"
	"crypto/tls"
	"fmt"
	"log/slog"
	"net/http"
	"path/filepath"

	"signalbox"
	"signalbox/internal/core/box"
	"signalbox/internal/run/show"
	"signalbox/internal/serve"
	"signalbox/internal/serve/access"
	"signalbox/internal/serve/api"
	"signalbox/internal/serve/certificate"
	"signalbox/internal/serve/mcpserver"
)

type serveCommand struct {
	boxFlag
	Listen  nonEmpty `placeholder:"ADDR" default:"127.0.0.1:7700" help:"The address, such as 127.0.0.1:7700. Without a host it is 127.0.0.1; port 0 means any free port."`
	Hosts   []string `name:"host" placeholder:"NAME" help:"A host name under which callers reach the server, besides those of the loopback. Can be repeated."`
	TLSCert nonEmpty `name:"tls-cert" placeholder:"FILE" help:"The certificate, with its chain, in PEM. Default: a self-signed one if other machines can reach the server."`
	TLSKey  nonEmpty `name:"tls-key" placeholder:"FILE" help:"The private key of the certificate, in PEM."`
}

func (serveCommand) Help() string {
	return `Serves the box over HTTP until you press Ctrl-C: a dashboard for people, and an API for programs at /api/v1, with its description at /api/v1/openapi.json and the events of the ledger as a stream at /api/v1/events. docs/dashboard.md and docs/api.md describe them. /metrics is for Prometheus, and /mcp serves the clients under mcp.clients in the configuration, if there are any.

Everything that changes something needs a login or a token, even on the loopback, because the shell of an agent can reach it. The link that is printed logs a browser in, once; signalbox token link prints another one, and signalbox token create makes a token for a program. Reading needs one too if other machines can reach the server. Then the connection is also encrypted: with your certificate, or with a self-signed one whose fingerprint is printed.

Examples:

    signalbox serve
    signalbox serve --listen 0.0.0.0:7700 --host box.example.com --tls-cert cert.pem --tls-key key.pem
    signalbox token link
    curl http://127.0.0.1:7700/api/v1/status`
}

func (c *serveCommand) Run(p *program) error {
	if err := p.operatorOnly("serve"); err != nil {
		return err
	}
	ctx, stop := untilInterrupted()
	defer stop()
	return p.withBox(ctx, c.boxFlag, func(b *box.Box) error { return c.serve(ctx, p, b) })
}

func (c *serveCommand) serve(ctx context.Context, p *program, b *box.Box) error {
	host, port, loopback, err := splitAddress(string(c.Listen))
	if err != nil {
		return err
	}
	secure, err := c.tls(p, b, host, loopback)
	if err != nil {
		return err
	}
	mcp, closeMCP, err := c.mcp(ctx, p)
	if err != nil {
		return err
	}
	defer closeMCP()
	hosts := c.Hosts
	if !loopback {
		hosts = append(hosts, host)
	}
	s, err := serve.New(b, serve.Options{
		API:     api.Options{Root: p.projectRoot(c.boxFlag, b.Dir), Version: currentBuild().Version, ExitFlag: p.getenv(signalbox.ExitFlag)},
		Project: p.projectName(c.boxFlag, b.Dir), Hosts: hosts, PublicReads: loopback, TLS: secure, MCP: mcp, Log: slog.New(warnings{p}),
	})
	if err != nil {
		return err
	}
	l, err := listenOn(ctx, string(c.Listen), host, port)
	if err != nil {
		return err
	}
	scheme := "http"
	if secure != nil {
		scheme = "https"
	}
	address := fmt.Sprintf("%s://%s", scheme, l.Addr())
	link, err := newLink(ctx, access.NewStore(b.Dir), address, access.Operate)
	if err != nil {
		return err
	}
	p.notef("serving the dashboard at %s and the API at %s%s; press Ctrl-C to stop", address, address, api.Prefix)
	p.notef("to log in, open %s (it works once, for %s)", link, show.Duration(access.LinkLife))
	return s.Serve(ctx, l)
}

// mcp returns the handler of MCP for the clients that the configuration names, nil if there are none.
func (c *serveCommand) mcp(ctx context.Context, p *program) (handler http.Handler, stop func(), err error) {
	clients, err := p.mcpClients(ctx, c.boxFlag, true)
	if err != nil || len(clients) == 0 {
		return nil, func() {}, err
	}
	server, err := mcpserver.New(func() (string, error) { return p.findBox(c.boxFlag) }, &mcpserver.Options{
		Version: currentBuild().Version, Box: p.workOptions(c.boxFlag), Client: mcpserver.Client{Name: p.actor("")}, Clients: clients,
		ExitFlag: p.getenv(signalbox.ExitFlag), Portfolio: p.desk(dataFlag{}, c.boxFlag), Hosts: c.Hosts, Log: slog.New(warnings{p}),
	})
	if err != nil {
		return nil, nil, err
	}
	stop = func() {
		if err := server.Close(); err != nil {
			p.warnf("stop MCP: %v", err)
		}
	}
	if handler, err = server.Handler(); err != nil {
		stop()
	}
	return handler, stop, err
}

// projectName returns the name of the folder of the project.
func (p *program) projectName(f boxFlag, boxDir string) string {
	root, err := filepath.Abs(p.projectRoot(f, boxDir))
	if err != nil {
		return "signalbox"
	}
	return filepath.Base(root)
}

// tls returns the configuration of TLS, nil on loopback unless a certificate is given.
func (c *serveCommand) tls(p *program, b *box.Box, host string, loopback bool) (*tls.Config, error) {
	if (c.TLSCert == "") != (c.TLSKey == "") {
		return nil, &signalbox.Error{Code: signalbox.CodeUsage, Err: fmt.Errorf("--tls-cert and --tls-key belong together"), Hint: "give both, or neither"}
	}
	if c.TLSCert != "" {
		pair, err := tls.LoadX509KeyPair(string(c.TLSCert), string(c.TLSKey))
		if err != nil {
			return nil, &signalbox.Error{Code: signalbox.CodeFailed, Err: fmt.Errorf("the certificate cannot be used: %w", err), Hint: "both files must be PEM and belong together"}
		}
		return &tls.Config{Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12}, nil
	}
	if loopback {
		return nil, nil
	}
	pair, err := certificate.SelfSigned(b.Dir, append([]string{host}, c.Hosts...))
	if err != nil {
		return nil, err
	}
	p.notef("the certificate is self-signed; its SHA-256 fingerprint is %s", certificate.Fingerprint(pair))
	return &tls.Config{Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12}, nil
}
