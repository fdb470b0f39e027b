// Package mcpclient lets the oracle use the tools of MCP servers.
//
// A server is a program that speaks MCP on its standard input and output, or a URL that serves it
// over streamable HTTP. Servers may be faulty. A call to one that hangs times out; the error about
// one that dies quotes what it printed last; lines that are not messages are skipped; and a message
// that is too long ends the connection. Every error names the server. No call is ever repeated,
// because a server that died during a call may have executed it.
//
// A program runs in its own process group and is stopped with everything it started. It gets only a
// few environment variables (see Server.Env), so that it does not see the API keys of models.
//
// Requests of a server for sampling or for user input are declined. A server may ask for its root,
// if it has one.
package mcpclient

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"slices"
	"sync"
	"time"

	"signalbox"
	"signalbox/internal/lazy"
	"signalbox/internal/oracle/toolbox"
	"signalbox/internal/process"
)

// Server is an MCP server: either a command or a URL.
type Server struct {
	// Name is the prefix of the names of its tools: 1 to 32 letters, digits, dashes and
	// underscores.
	Name string
	// Command is a program and its arguments. The program is found by process.Find.
	Command []string
	// Env is added to the few variables that the program inherits: those for finding programs and
	// user files, for language and time zone, and for network proxies. It must not set
	// process.SessionVariable: every process with that variable is stopped with the program.
	Env map[string]string
	// Dir is the working directory of the program, and the root that the server gets. Empty means
	// the directory of this process, and no root.
	Dir string
	// URL is the address of a server that uses streamable HTTP.
	URL string
	// Headers are sent with each request to the URL, and nowhere else.
	Headers map[string]string
	// Tools lists the tools that may be called, by the server's own names. Nil means all.
	Tools []string
	// Limits bound what the tools add to every request to a model.
	Limits Limits
	// Timeout is how long a call may take. Zero means toolbox.DefaultTimeout.
	Timeout time.Duration
	// Stderr receives the standard error of the program. Nil discards it; errors quote its end in
	// either case. If Stderr blocks, the program may block too.
	Stderr io.Writer
}

// Options configures a Client.
type Options struct {
	// StartTimeout is how long the server may take to start and list its tools. Zero means one
	// minute.
	StartTimeout time.Duration
	// Grace is how long a program may take to exit after its input is closed, and again after
	// SIGTERM. Zero means two seconds.
	Grace time.Duration
	// Now is the clock that limits restarts. Nil means time.Now.
	Now func() time.Time
	// Version is the version of signalbox that the server is told. Empty means "dev".
	Version string
	// CallDir is a directory with a file for each running call that has a key and may change
	// something. The End function of a tool uses it to find programs that a killed process left
	// running. It is created when needed. Empty means that such programs are not stopped.
	CallDir string

	// Changed is called when Tools has changed because the server announced it. It may be nil.
	Changed func()

	streamTimeout time.Duration // zero means streamTimeout
}

const (
	defaultStartTimeout = time.Minute
	defaultGrace        = 2 * time.Second
	// restartInterval is the minimum time between two restarts of a server.
	restartInterval = time.Minute
)

// Client is a running server. Its methods may be called concurrently.
type Client struct {
	server Server
	opts   Options

	starting chan struct{} // holds a value while a goroutine restarts the server
	closing  chan struct{} // closed by Close
	closed   chan struct{} // closed when Close has finished

	mu          sync.Mutex // guards the fields below
	isClosed    bool
	session     *session // never nil; it may have ended
	lastRestart time.Time
	restartErr  error // of the last restart
	tools       []toolbox.Tool
	notes       []string
}

// Start starts the server or connects to it, and requests its tools. ctx applies only to that: the
// server runs until Close. The error is a *signalbox.Error.
func Start(ctx context.Context, server Server, options *Options) (*Client, error) {
	c := &Client{server: server, starting: make(chan struct{}, 1), closing: make(chan struct{}),
		closed: make(chan struct{})}
	if options != nil {
		c.opts = *options
	}
	if c.opts.StartTimeout <= 0 {
		c.opts.StartTimeout = defaultStartTimeout
	}
	if c.opts.Grace <= 0 {
		c.opts.Grace = defaultGrace
	}
	if c.opts.Now == nil {
		c.opts.Now = time.Now
	}
	if c.opts.Version == "" {
		c.opts.Version = "dev"
	}
	if c.server.Timeout <= 0 {
		c.server.Timeout = toolbox.DefaultTimeout
	}
	c.server.Limits = server.Limits.withDefaults()
	if err := server.validate(); err != nil {
		return nil, signalbox.CodeUsage.Errorf("correct the server's configuration",
			"mcp server %q: %w", server.Name, err)
	}
	s, tools, notes, err := c.connect(ctx)
	if err != nil {
		e := &signalbox.Error{Code: signalbox.CodeFailed}
		if known := (*signalbox.Error)(nil); errors.As(err, &known) {
			*e = *known
		}
		e.Err = fmt.Errorf("mcp server %s: %w", server.Name, err)
		return nil, e
	}
	c.session, c.tools, c.notes = s, tools, notes
	go c.watch(s)
	return c, nil
}

var serverName = lazy.Regexp(`^[a-zA-Z0-9_-]{1,32}$`)

func (s *Server) validate() error {
	switch _, session := s.Env[process.SessionVariable]; {
	case !serverName().MatchString(s.Name):
		return errors.New("its name must have 1 to 32 letters, digits, dashes and underscores")
	case len(s.Command) == 0 && s.URL == "":
		return errors.New("it needs a command or a url")
	case len(s.Command) > 0 && s.URL != "":
		return errors.New("it has both a command and a url: remove one of them")
	case session:
		return errors.New(process.SessionVariable +
			" must not be in its env, because every process with that variable is stopped with the server; set it in the command")
	case s.URL == "":
		return nil
	}
	address, err := url.Parse(s.URL)
	if err != nil || address.Host == "" || address.Scheme != "http" && address.Scheme != "https" {
		return errors.New("its url must begin with http:// or https:// and name a host")
	}
	return nil
}

// Tools returns the current tools of the server that may be called.
func (c *Client) Tools() []toolbox.Tool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.tools)
}

// Notes returns messages for people about tools that are left out or cut, and why.
func (c *Client) Notes() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.notes)
}

// Close cancels all calls and stops the server with everything it started. It may be called more
// than once.
func (c *Client) Close() error {
	c.mu.Lock()
	first := !c.isClosed
	c.isClosed = true
	if first {
		close(c.closing)
	}
	c.mu.Unlock()
	if !first {
		<-c.closed
		return nil
	}
	defer close(c.closed)
	c.starting <- struct{}{} // a restart in progress sees closing and gives up
	c.mu.Lock()
	s := c.session
	c.mu.Unlock()
	s.stop()
	<-s.stopped
	return nil
}
