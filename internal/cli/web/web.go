// Package web serves a box over HTTP for the commands that do that: serve alone, run and demo
// beside their work. It says where, and how to log in.
package web

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/charmbracelet/x/term"

	"signalbox"
	"signalbox/internal/cli"
	"signalbox/internal/config"
	"signalbox/internal/core/box"
	"signalbox/internal/core/rules"
	"signalbox/internal/durable"
	"signalbox/internal/portfolio"
	"signalbox/internal/run/publish"
	"signalbox/internal/serve"
	"signalbox/internal/serve/access"
	"signalbox/internal/serve/api"
	"signalbox/internal/serve/ask"
	"signalbox/internal/serve/certificate"
	"signalbox/internal/text"
)

// AddressFile is the file in the folder of a box with the address at which browsers log in, while
// the box is served.
const AddressFile = "serve.address"

// DefaultPort is the port of an address that has none.
const DefaultPort = "7700"

// AccessFlags are the flags for who can reach the server.
type AccessFlags struct {
	AnonymousRead bool `name:"anonymous-read" help:"Let everyone on this machine read the box without a login: other users, and agents too. Only on the loopback, and without --host."`

	Hosts   []string     `name:"host" placeholder:"NAME" help:"A host name under which callers reach the server, besides those of the loopback. Can be repeated; the link to log in has the first one."`
	TLSCert cli.NonEmpty `name:"tls-cert" placeholder:"FILE" help:"The certificate, with its chain, in PEM. Default: a self-signed one if other machines can reach the server."`
	TLSKey  cli.NonEmpty `name:"tls-key" placeholder:"FILE" help:"The private key of the certificate, in PEM."`
}

// Serve serves the box that the user named on an address, until an interrupt. If the ledger moves
// away, it waits until it is back.
func Serve(p *cli.Program, named cli.BoxFlag, listen string, flags AccessFlags) error {
	ctx, stop := cli.UntilInterrupted()
	defer stop()
	dir, err := p.FindBox(named)
	if err != nil {
		return err
	}
	f := cli.BoxFlag{Box: cli.NonEmpty(dir)}
	b, err := openHosted(ctx, p, f)
	if err != nil {
		return err
	}
	defer b.Close()
	for address := listen; ; {
		w, err := open(ctx, p, b, address, p.ProjectRoot(named, dir), named, f, flags)
		if err != nil && address != listen { // another program has taken the port meanwhile
			address = listen
			continue
		}
		if err != nil {
			return err
		}
		address = withPort(address, w.listener.Addr())
		p.Notef("press Ctrl-C to stop")
		err = errors.Join(w.server.Serve(ctx, w.listener), w.close())
		if !errors.Is(err, rules.ErrMoved) {
			return err
		}
		if err := b.Resume(ctx, err); err != nil {
			return err
		}
	}
}

// withDefaultPort returns an address to listen on, with a port.
func withDefaultPort(address string) string {
	if address == "localhost" || net.ParseIP(address) != nil {
		return net.JoinHostPort(address, DefaultPort)
	}
	return address
}

// withPort returns an address to listen on with the port of one that was listened on, so that a
// server that is started again has the same one.
func withPort(address string, listened net.Addr) string {
	host, _, err := net.SplitHostPort(withDefaultPort(address))
	_, port, listenedErr := net.SplitHostPort(listened.String())
	if err != nil || listenedErr != nil {
		return address
	}
	return net.JoinHostPort(host, port)
}

// openHosted opens the box in the folder that f names, for a process that runs for long.
func openHosted(ctx context.Context, p *cli.Program, f cli.BoxFlag) (*box.Box, error) {
	options := p.WorkOptions(f)
	options.Host = true
	b, err := box.Open(ctx, string(f.Box), options)
	return b, cli.ExplainOpening(ctx, err)
}

// service serves a box over HTTP.
type service struct {
	server   *serve.Server
	listener net.Listener
	close    func() error
}

// open listens for the box of the project in the folder root, and prints where. The caller closes
// the box. named is how the user named the box; f has its folder.
func open(ctx context.Context, p *cli.Program, b *box.Box, address, root string, named,
	f cli.BoxFlag, flags AccessFlags) (w *service, err error) {
	host, port, loopback, err := cli.SplitAddress(withDefaultPort(address))
	if err == nil {
		err = flags.check(loopback)
	}
	if err != nil {
		return nil, err
	}
	opened := &service{close: func() error { return nil }}
	defer func() {
		if err != nil {
			opened.close()
		}
	}()
	secure, err := flags.tls(p, b, host, loopback)
	if err != nil {
		return nil, err
	}
	hosts := flags.Hosts
	if !loopback {
		hosts = append(slices.Clone(hosts), host)
	}
	mcp, closeMCP, err := configuredMCP(ctx, p, f, hosts)
	if err != nil {
		return nil, err
	}
	oracle := ask.New(b, ask.Options{Lookup: os.LookupEnv, Version: p.Build().Version,
		Config: func(ctx context.Context) (*config.Config, error) {
			c, _, err := p.RunSettings(ctx, named, root, b.Dir)
			return c, err
		}})
	opened.close = func() error {
		oracle.Close()
		return closeMCP()
	}
	publisher, err := publish.New(b, publish.Options{Getenv: p.Getenv, Log: p.Log()})
	if err != nil {
		return nil, err
	}
	opened.server, err = serve.New(b, serve.Options{
		Publish: publisher.Run,
		API: api.Options{Root: root, Version: p.Build().Version,
			ExitFlag:  p.Getenv(signalbox.ExitFlag),
			Portfolio: func() *portfolio.Desk { return cli.Desk(p, cli.DataFlag{}, f) }},
		Oracle:  oracle,
		Project: projectName(root), Hosts: hosts, AnonymousReads: flags.AnonymousRead, TLS: secure,
		MCP: mcp, Log: p.Log(),
	})
	if err != nil {
		return nil, err
	}
	if opened.listener, err = cli.ListenOn(ctx, address, host, port); err != nil {
		return nil, err
	}
	if err := announce(ctx, p, b, opened.listener.Addr(), host, flags, secure != nil); err != nil {
		return nil, errors.Join(err, opened.listener.Close())
	}
	closeAll := opened.close
	opened.close = func() error {
		return errors.Join(os.Remove(filepath.Join(b.Dir, AddressFile)), closeAll())
	}
	return opened, nil
}

// check refuses flags that do not fit each other.
func (c *AccessFlags) check(loopback bool) error {
	for _, name := range c.Hosts {
		if net.ParseIP(name) == nil && (name == "" || strings.ContainsAny(name, ":/[]@?# ")) {
			return signalbox.CodeUsage.Errorf(
				"write the name or the address alone, without https:// and without a port",
				"--host %s is not a host name", name)
		}
	}
	// Callers under another name than a loopback one come through a proxy, from other machines.
	if c.AnonymousRead && (!loopback || len(c.Hosts) > 0) {
		return signalbox.CodeUsage.Errorf(
			"leave it out, and give readers a token: signalbox token create NAME --scope read",
			"--anonymous-read is only for a server that other machines cannot reach")
	}
	return nil
}

// announce says where a box is served, and how to log in. host is the one that the server was told
// to listen on.
func announce(ctx context.Context, p *cli.Program, b *box.Box, listens net.Addr, host string,
	flags AccessFlags, secure bool) error {
	store := access.NewStore(b.Dir)
	_, port, err := net.SplitHostPort(listens.String())
	if err != nil {
		return err
	}
	ip := net.ParseIP(host)
	serves, login := listens.String(), ""
	switch {
	case host == "localhost" || ip != nil && ip.IsLoopback():
	case len(flags.Hosts) > 0:
		serves = net.JoinHostPort(flags.Hosts[0], port)
		login = serves
	case ip == nil || !ip.IsUnspecified():
		serves = net.JoinHostPort(host, port)
		login = serves
	}
	if login == "" { // browsers on this machine have a name of their own
		name, err := store.LoginHost(ctx)
		if err != nil {
			return err
		}
		login = net.JoinHostPort(name, port)
	}
	scheme := "http://"
	if secure {
		scheme = "https://"
	}
	// signalbox token link reads it. If several servers serve the box, the last one counts.
	file := filepath.Join(b.Dir, AddressFile)
	if err := durable.Replace(file, []byte(scheme+login+"\n"), 0o600); err != nil {
		return err
	}
	serves = scheme + serves
	p.Notef("serving the dashboard at %s, and the API at %s%s", serves, serves, api.Prefix)
	if flags.AnonymousRead {
		p.Notef("everyone on this machine can read the box without a login")
	}
	return announceLogin(ctx, p, b, store, scheme+login)
}

// announceLogin prints a link to log in if standard error is a terminal. A link is a password: it
// must not get into a file or a system log, which others can read.
func announceLogin(ctx context.Context, p *cli.Program, b *box.Box, store *access.Store,
	address string) error {
	if p.Quiet || !showsOnTerminal(p.Stderr) {
		p.Notef("to log in, run this on a terminal: signalbox token link --box %s", b.Dir)
		return nil
	}
	link, err := NewLink(ctx, store, address, access.Operate)
	if err != nil {
		return err
	}
	p.Notef("to log in, open %s (it works once, for %s)", link, text.Duration(access.LinkLife))
	return nil
}

// showsOnTerminal reports whether only the user of a terminal sees what is written to a stream.
// IsTerminal is not enough: the log of the kernel is a character device too.
func showsOnTerminal(stream any) bool {
	f, ok := stream.(*os.File)
	return ok && term.IsTerminal(f.Fd())
}

// ServeBeside serves a box while something else works on it. The caller must call the function that
// it returns, which stops the server.
func ServeBeside(p *cli.Program, address, root string, f cli.BoxFlag,
	flags AccessFlags) (stop func(), err error) {
	ctx, cancel := context.WithCancel(context.Background())
	b, err := openHosted(ctx, p, f)
	if err != nil {
		cancel()
		return nil, err
	}
	w, err := open(ctx, p, b, address, root, f, f, flags)
	if err != nil {
		b.Close()
		cancel()
		return nil, err
	}
	ended := make(chan error, 1)
	go func() { ended <- w.server.Serve(ctx, w.listener) }()
	return func() {
		cancel()
		if err := errors.Join(<-ended, w.close(), b.Close()); err != nil {
			p.Warnf("the dashboard: %v", err)
		}
	}, nil
}

// projectName returns the name of a folder.
func projectName(root string) string {
	absolute, err := filepath.Abs(root)
	if err != nil {
		return "signalbox"
	}
	return filepath.Base(absolute)
}

// tls returns the configuration of TLS, nil on loopback unless a certificate is given.
func (c *AccessFlags) tls(p *cli.Program, b *box.Box, host string,
	loopback bool) (*tls.Config, error) {
	if (c.TLSCert == "") != (c.TLSKey == "") {
		return nil, signalbox.CodeUsage.Errorf("give both, or neither",
			"--tls-cert and --tls-key belong together")
	}
	if c.TLSCert != "" {
		pair, err := tls.LoadX509KeyPair(string(c.TLSCert), string(c.TLSKey))
		if err != nil {
			return nil, signalbox.CodeFailed.Errorf("both files must be PEM and belong together",
				"the certificate cannot be used: %w", err)
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
	p.Notef("the certificate is self-signed; its SHA-256 fingerprint is %s",
		certificate.Fingerprint(pair))
	return &tls.Config{Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12}, nil
}

// NewLink creates a link that logs a browser in at a server.
func NewLink(ctx context.Context, store *access.Store, address string,
	scope access.Scope) (string, error) {
	secret, err := store.NewLink(ctx, box.NewID("browser"), scope,
		time.Now().UTC().Truncate(time.Second))
	return address + "/login?link=" + url.QueryEscape(secret), err
}
