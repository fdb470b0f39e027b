// Package mcpclient makes the tools of MCP servers that others wrote tools of the oracle.
//
// A server is a program that speaks the protocol on its standard input and output, or an address that speaks streamable
// HTTP. Whatever a server does is a result or an error that says which server it was and what to do: one that hangs is
// given up after a time, one that dies is named with what it printed last, one that prints other things between its
// messages is read past them, and messages that are too long end the connection. No call is made twice: a server that died
// in the middle of one may have done it.
//
// A program runs in a process group of its own and is ended with all that it started. It sees few variables of the
// environment (see Server.Env), since keys of models are no business of others.
//
// Servers cannot ask for a model's answer or a person's input: that is declined. They are told of one folder, if there is one.
package mcpclient

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"regexp"
	"slices"
	"sync"
	"time"

	"signalbox"
	"signalbox/internal/oracle/toolbox"
	"signalbox/internal/process"
)

// Server is an MCP server: either a command or a URL.
type Server struct {
	// Name begins the names of its tools: one to 32 letters, digits, dashes and underscores.
	Name string
	// Command is a program and its arguments, found as process.Find does.
	Command []string
	// Env is added to the few variables that the program gets from this process: where it finds programs, files of the
	// user, the language, and its way to the network. process.SessionVariable cannot be set: it names the session of the
	// program, within that of this process, and what carries it is ended with the program.
	Env map[string]string
	// Dir is where the program runs, and the root that the server is told if it asks for one. Empty: the folder of this
	// process, and no root.
	Dir string
	// URL is the address of a server that speaks streamable HTTP.
	URL string
	// Headers are sent with each request to the URL, and nowhere else.
	Headers map[string]string
	// Tools are the names, as the server has them, of those that may be called. Nil: all.
	Tools []string
	// Timeout is how long a call may take. Zero: toolbox.DefaultTimeout.
	Timeout time.Duration
	// Stderr takes what the program writes to its standard error. Nil: nobody, but its end is in errors. If it blocks, so
	// may the program.
	Stderr io.Writer
}

// Options are what most callers need not say.
type Options struct {
	// StartTimeout is how long the server may take until it has told its tools. Zero: one minute.
	StartTimeout time.Duration
	// Grace is how long a program has to end after its input was closed, and again after TERM. Zero: two seconds.
	Grace time.Duration
	// Now is the clock by which a server is not started again too often. Nil: time.Now.
	Now func() time.Time
	// Version is what the server is told of this program's version. Empty: dev.
	Version string
	// Calls is a folder in which each call that may change something, and has a key, has a file while it is under way. By it
	// the End of a tool finds the program that a process left behind which was killed. It is made when it is needed. Empty:
	// there is none, and what was left behind goes on as long as it wants.
	Calls string

	// Changed is called each time that Tools was read anew because the server said so. Nil: nobody is told.
	Changed func()
}

const (
	defaultStartTimeout = time.Minute
	defaultGrace        = 2 * time.Second
	// againAfter is how long a server that was started again is left alone when it dies once more.
	againAfter = time.Minute
)

// Client is a server in use. Its methods may be called by several at once.
type Client struct {
	server Server
	opts   Options

	starting chan struct{} // holds one value while somebody starts the server again
	closing  chan struct{} // closed by Close
	closed   chan struct{} // closed when Close has ended everything

	mu      sync.Mutex // guards what follows
	isOver  bool
	session *session  // never nil; it may have ended
	again   time.Time // when it was last started again
	failed  error     // why that failed
	tools   []toolbox.Tool
	notes   []string
}

// Start starts the server or connects to it, and asks for its tools. ctx is for that only: the server stays until Close.
// An error is a *signalbox.Error.
func Start(ctx context.Context, server Server, options *Options) (*Client, error) {
	c := &Client{server: server, starting: make(chan struct{}, 1), closing: make(chan struct{}), closed: make(chan struct{})}
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
	if err := server.check(); err != nil {
		return nil, &signalbox.Error{Code: signalbox.CodeUsage, Err: fmt.Errorf("mcp server %q: %w", server.Name, err),
			Hint: "correct the server's configuration"}
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
	go c.mind(s)
	return c, nil
}

var serverName = regexp.MustCompile(`^[a-zA-Z0-9_-]{1,32}$`)

func (s *Server) check() error {
	switch _, session := s.Env[process.SessionVariable]; {
	case !serverName.MatchString(s.Name):
		return errors.New("its name must have 1 to 32 letters, digits, dashes and underscores")
	case len(s.Command) == 0 && s.URL == "":
		return errors.New("it needs a command or a url")
	case len(s.Command) > 0 && s.URL != "":
		return errors.New("it has a command and a url; leave out one of them")
	case session:
		return errors.New(process.SessionVariable + " cannot be in its env: all that carries it would be ended with the server; set it in the command")
	case s.URL == "":
		return nil
	}
	address, err := url.Parse(s.URL)
	if err != nil || address.Host == "" || address.Scheme != "http" && address.Scheme != "https" {
		return errors.New("its url must begin with http:// or https:// and name a host")
	}
	return nil
}

// Tools are the tools that the server has now and that may be called.
func (c *Client) Tools() []toolbox.Tool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.tools)
}

// Notes say, for people, which tools are missing and why.
func (c *Client) Notes() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.notes)
}

// Close ends the server with all that it started, and all calls. It may be called again.
func (c *Client) Close() error {
	c.mu.Lock()
	first := !c.isOver
	c.isOver = true
	if first {
		close(c.closing)
	}
	c.mu.Unlock()
	if !first {
		<-c.closed
		return nil
	}
	defer close(c.closed)
	c.starting <- struct{}{} // whoever starts the server sees closing and gives up
	c.mu.Lock()
	s := c.session
	c.mu.Unlock()
	s.end()
	<-s.ended
	return nil
}
