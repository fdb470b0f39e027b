package mcpclient

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"path/filepath"
	"strings"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"signalbox/internal/oracle/toolbox"
)

// session is a connection to a server, from one start to its end.
type session struct {
	client   *mcp.ClientSession
	program  *program       // nil over HTTP
	http     *httpTransport // nil for a program
	changed  chan struct{}  // holds a value when the list of tools must be read again
	stopping chan struct{}  // closed when this side wants to stop the session
	broken   chan struct{}  // closed when the connection is unusable
	stopped  chan struct{}  // closed when the program has exited and everything is cleaned up

	stopOnce, brokenOnce sync.Once
	cause                error // why the connection ended; read it only after stopped is closed
}

// preferredVersion is the protocol version that servers are asked for first. Nearly all support it,
// and some do not answer newer versions at all. A server that supports only newer ones returns an
// error.
const preferredVersion = "2025-11-25"

// connect starts the server and requests its tools.
func (c *Client) connect(ctx context.Context) (*session, []toolbox.Tool, []string, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, c.opts.StartTimeout, errStartTimeout)
	defer cancel()
	defer cancelOnClose(c.closing, cancel)()
	s, err := c.open(ctx, preferredVersion)
	if serverError(err) != nil && ctx.Err() == nil {
		s, err = c.open(ctx, "")
	}
	if err != nil {
		return nil, nil, nil, err
	}
	listed, notes, err := c.list(ctx, s.client)
	if err != nil {
		s.discard(c)
		return nil, nil, nil, c.startError(ctx, s, fmt.Errorf("it did not list its tools: %w", err))
	}
	tools, notes := c.makeTools(listed, notes)
	return s, tools, notes, nil
}

// open starts the server and initializes a session. An empty version means the newest.
func (c *Client) open(ctx context.Context, version string) (*session, error) {
	s := &session{changed: make(chan struct{}, 1), stopping: make(chan struct{}),
		broken: make(chan struct{}), stopped: make(chan struct{})}
	var transport mcp.Transport
	if c.server.URL != "" {
		transport, s.http = c.server.dial()
		s.http.timeout = c.opts.streamTimeout
	} else {
		p, err := c.server.run(c.opts.Grace)
		if err != nil {
			return nil, c.startError(ctx, s, err)
		}
		transport, s.program = p, p
	}
	var err error
	s.client, err = c.newClient(s).Connect(ctx, transport,
		&mcp.ClientSessionOptions{ProtocolVersion: version})
	if err != nil {
		s.discard(c)
		return nil, c.startError(ctx, s, err)
	}
	return s, nil
}

// newClient returns a client that offers servers nothing but a root, if there is one.
func (c *Client) newClient(s *session) *mcp.Client {
	capabilities := &mcp.ClientCapabilities{}
	var root string
	if c.server.Dir != "" {
		if dir, err := filepath.Abs(c.server.Dir); err == nil {
			root = filepath.ToSlash(dir)
			//lint:ignore SA1019 see below
			capabilities.RootsV2 = &mcp.RootCapabilities{}
		}
	}
	client := mcp.NewClient(&mcp.Implementation{Name: "signalbox", Version: c.opts.Version},
		&mcp.ClientOptions{
			Capabilities: capabilities,
			ToolListChangedHandler: func(context.Context, *mcp.ToolListChangedRequest) {
				select {
				case s.changed <- struct{}{}:
				default: // it will be read anyway
				}
			},
		})
	if root != "" {
		address := &url.URL{Scheme: "file", Path: "/" + strings.TrimPrefix(root, "/")}
		//lint:ignore SA1019 roots are deprecated, but current servers ask for them
		client.AddRoots(&mcp.Root{URI: address.String(), Name: filepath.Base(c.server.Dir)})
	}
	return client
}

// watch reads the tools again when they change, and cleans up when the connection ends.
func (c *Client) watch(s *session) {
	go func() {
		err := s.client.Wait()
		s.markBroken()
		s.close(c)
		s.cause = err
		close(s.stopped)
	}()
	for {
		select {
		case <-s.broken:
			return
		case <-s.stopping:
			// Close waits for running calls, which are cancelled by stopping too.
			s.client.Close()
			return
		case <-s.changed:
			c.refresh(s)
		}
	}
}

// refresh reads the tools again. If that fails, the known tools stay.
func (c *Client) refresh(s *session) {
	ctx, cancel := context.WithTimeout(context.Background(), c.opts.StartTimeout)
	defer cancel()
	defer cancelOnClose(s.stopping, cancel)()
	listed, notes, err := c.list(ctx, s.client)
	if err != nil {
		return
	}
	tools, notes := c.makeTools(listed, notes)
	c.mu.Lock()
	current := c.session == s
	if current {
		c.tools, c.notes = tools, notes
	}
	c.mu.Unlock()
	if current && c.opts.Changed != nil {
		c.opts.Changed()
	}
}

// stop begins to stop the session. It does not wait.
func (s *session) stop() { s.stopOnce.Do(func() { close(s.stopping) }) }

// markBroken records that the connection is unusable.
func (s *session) markBroken() { s.brokenOnce.Do(func() { close(s.broken) }) }

func (s *session) alive() bool {
	select {
	case <-s.broken:
		return false
	case <-s.stopping:
		return false
	default:
		return true
	}
}

// discard stops a session that watch does not watch yet.
func (s *session) discard(c *Client) {
	s.stop()
	if s.client != nil {
		s.client.Close()
	}
	s.close(c)
}

// close stops the program, or closes the HTTP connections.
func (s *session) close(c *Client) {
	if s.program != nil {
		s.program.stop(c.opts.Grace)
	}
	if s.http != nil {
		s.http.closeIdle()
	}
}

// cancelOnClose calls cancel when the channel is closed, until stop is called.
func cancelOnClose(closed <-chan struct{}, cancel func()) (stop func()) {
	done := make(chan struct{})
	go func() {
		select {
		case <-closed:
			cancel()
		case <-done:
		}
	}()
	return func() { close(done) }
}

// liveSession returns a usable session. A server that died is restarted, but at most once per
// restartInterval.
func (c *Client) liveSession(ctx context.Context) (s *session, restarted bool, err error) {
	if s, err := c.current(); err != nil || s.alive() {
		return s, false, err
	}
	select {
	case c.starting <- struct{}{}:
		defer func() { <-c.starting }()
	case <-c.closing:
		return nil, false, errClosed
	case <-ctx.Done():
		return nil, false, context.Cause(ctx)
	}
	old, err := c.current()
	if err != nil || old.alive() {
		return old, false, err
	}
	select {
	case <-old.stopped:
	case <-ctx.Done():
		return nil, false, context.Cause(ctx)
	}
	now := c.opts.Now()
	c.mu.Lock()
	before, restartErr := c.lastRestart, c.restartErr
	wait := restartInterval - now.Sub(before)
	if before.IsZero() || wait <= 0 {
		c.lastRestart = now
	}
	c.mu.Unlock()
	if !before.IsZero() && wait > 0 {
		return nil, false, c.restartTooSoon(old, restartErr, wait)
	}
	s, tools, notes, err := c.connect(ctx)
	c.mu.Lock()
	defer c.mu.Unlock()
	if err != nil {
		c.restartErr = err
		if ctx.Err() != nil && !errors.Is(context.Cause(ctx), errCallTimeout) {
			// the caller cancelled; the server may be fine
			c.lastRestart, c.restartErr = before, restartErr
		}
		return nil, false, fmt.Errorf("it had stopped, and restarting it failed: %w", err)
	}
	c.session, c.tools, c.notes, c.restartErr = s, tools, notes, nil
	go c.watch(s)
	return s, true, nil
}

func (c *Client) current() (*session, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.isClosed {
		return nil, errClosed
	}
	return c.session, nil
}

// call calls a tool. It never repeats a call.
func (c *Client) call(ctx context.Context, tool, full string,
	call toolbox.Call) (toolbox.Result, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, c.server.Timeout, errCallTimeout)
	defer cancel()
	params := &mcp.CallToolParams{Name: tool}
	if len(call.Arguments) > 0 {
		params.Arguments = call.Arguments
	}
	result, restarted, err := c.send(ctx, call.Key, params)
	if err != nil {
		return toolbox.Result{}, fmt.Errorf("MCP server %s: %w", c.server.Name, err)
	}
	output, sources := render(result, full)
	if result.IsError {
		return toolbox.Result{},
			errors.New(cmp.Or(output, "the tool failed without an error message"))
	}
	if restarted {
		output = fmt.Sprintf(
			"[MCP server %s had stopped and was restarted: its state in memory is lost]\n",
			c.server.Name) + output
	}
	return toolbox.Result{Text: output, Sources: sources}, nil
}

// send sends the call in a usable session.
func (c *Client) send(ctx context.Context, key string,
	params *mcp.CallToolParams) (*mcp.CallToolResult, bool, error) {
	for {
		s, restarted, err := c.liveSession(ctx)
		if err != nil {
			return nil, false, err
		}
		remove, err := c.recordCall(key, s)
		if err != nil {
			return nil, false, err
		}
		result, err := s.call(ctx, params)
		remove()
		if err == nil {
			return result, restarted, nil
		}
		if errors.Is(err, mcp.ErrConnectionClosed) && ctx.Err() == nil {
			// The call was not sent, because the connection had already ended. The loop is bounded:
			// the session is now marked as broken, and the server is restarted at most once per
			// restartInterval.
			s.markBroken()
			continue
		}
		return nil, false, c.callError(ctx, s, err)
	}
}

func (s *session) call(ctx context.Context,
	params *mcp.CallToolParams) (*mcp.CallToolResult, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer cancelOnClose(s.stopping, func() { cancel(errStopped) })()
	result, err := s.client.CallTool(ctx, params)
	if errors.Is(err, context.Canceled) && errors.Is(context.Cause(ctx), errStopped) {
		return nil, errStopped
	}
	if err == nil && result == nil {
		return nil, io.ErrUnexpectedEOF
	}
	return result, err
}
