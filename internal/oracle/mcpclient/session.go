package mcpclient

import (
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

// session is one life of a server.
type session struct {
	client  *mcp.ClientSession
	program *program      // nil over HTTP
	web     *web          // nil for a program
	changed chan struct{} // holds a value when the list of tools is old
	ending  chan struct{} // closed when this side wants it to end
	gone    chan struct{} // closed when the connection is of no use any more
	ended   chan struct{} // closed when all is ended

	endOnce, goneOnce sync.Once
	broke             error // why the connection broke, if it did; to be read after ended
}

// stable is the protocol that servers are asked for first: nearly all speak it, and some do not answer at all to newer
// ways to begin. One that speaks only newer ones says so.
const stable = "2025-11-25"

// connect starts the server and asks for its tools.
func (c *Client) connect(ctx context.Context) (*session, []toolbox.Tool, []string, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, c.opts.StartTimeout, errStartTimeout)
	defer cancel()
	defer whenClosed(c.closing, cancel)()
	s, err := c.open(ctx, stable)
	if refusal(err) != nil && ctx.Err() == nil {
		s, err = c.open(ctx, "")
	}
	if err != nil {
		return nil, nil, nil, err
	}
	listed, notes, err := list(ctx, s.client)
	if err != nil {
		s.abandon(c)
		return nil, nil, nil, c.startFault(ctx, s, fmt.Errorf("it does not tell its tools: %w", err))
	}
	tools, notes := c.offer(listed, notes)
	return s, tools, notes, nil
}

// open starts the server and begins a conversation. An empty version is the newest.
func (c *Client) open(ctx context.Context, version string) (*session, error) {
	s := &session{changed: make(chan struct{}, 1), ending: make(chan struct{}), gone: make(chan struct{}), ended: make(chan struct{})}
	var transport mcp.Transport
	if c.server.URL != "" {
		transport, s.web = c.server.dial()
	} else {
		p, err := c.server.run(c.opts.Grace)
		if err != nil {
			return nil, c.startFault(ctx, s, err)
		}
		transport, s.program = p, p
	}
	var err error
	s.client, err = c.newClient(s).Connect(ctx, transport, &mcp.ClientSessionOptions{ProtocolVersion: version})
	if err != nil {
		s.abandon(c)
		return nil, c.startFault(ctx, s, err)
	}
	return s, nil
}

// newClient says what this side can do: nothing that a server could ask for, but a root if there is one.
func (c *Client) newClient(s *session) *mcp.Client {
	capabilities := &mcp.ClientCapabilities{}
	var root string
	if c.server.Dir != "" {
		if dir, err := filepath.Abs(c.server.Dir); err == nil {
			root = filepath.ToSlash(dir)
			//lint:ignore SA1019 as below
			capabilities.RootsV2 = &mcp.RootCapabilities{}
		}
	}
	client := mcp.NewClient(&mcp.Implementation{Name: "signalbox", Version: c.opts.Version}, &mcp.ClientOptions{
		Capabilities: capabilities,
		ToolListChangedHandler: func(context.Context, *mcp.ToolListChangedRequest) {
			select {
			case s.changed <- struct{}{}:
			default: // the list will be read anyway
			}
		},
	})
	if root != "" {
		address := &url.URL{Scheme: "file", Path: "/" + strings.TrimPrefix(root, "/")}
		//lint:ignore SA1019 the protocol means to give roots up, but servers of today ask for them
		client.AddRoots(&mcp.Root{URI: address.String(), Name: filepath.Base(c.server.Dir)})
	}
	return client
}

// mind sees to a session: reads the tools again when they changed, and ends all that is left when the connection ends.
func (c *Client) mind(s *session) {
	go func() {
		err := s.client.Wait()
		s.lost()
		s.close(c)
		s.broke = err
		close(s.ended)
	}()
	for {
		select {
		case <-s.gone:
			return
		case <-s.ending:
			// The connection closes only after what is under way; the calls see ending too.
			s.client.Close()
			return
		case <-s.changed:
			c.refresh(s)
		}
	}
}

// refresh reads the tools again. If that fails those that were known stay.
func (c *Client) refresh(s *session) {
	ctx, cancel := context.WithTimeout(context.Background(), c.opts.StartTimeout)
	defer cancel()
	defer whenClosed(s.ending, cancel)()
	listed, notes, err := list(ctx, s.client)
	if err != nil {
		return
	}
	tools, notes := c.offer(listed, notes)
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

// end makes the session end. It does not wait.
func (s *session) end() { s.endOnce.Do(func() { close(s.ending) }) }

// lost notes that the connection is of no use any more.
func (s *session) lost() { s.goneOnce.Do(func() { close(s.gone) }) }

func (s *session) alive() bool {
	select {
	case <-s.gone:
		return false
	case <-s.ending:
		return false
	default:
		return true
	}
}

// abandon ends a session that nobody minds yet.
func (s *session) abandon(c *Client) {
	s.end()
	if s.client != nil {
		s.client.Close()
	}
	s.close(c)
}

// close ends the program, or closes connections.
func (s *session) close(c *Client) {
	if s.program != nil {
		s.program.stop(c.opts.Grace)
	}
	if s.web != nil {
		s.web.idle()
	}
}

// whenClosed calls cancel when the channel is closed, until what it returns is called.
func whenClosed(closed <-chan struct{}, cancel func()) (stop func()) {
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

// live returns a session to call tools in. A server that died is started again, but not too often; restarted says so.
func (c *Client) live(ctx context.Context) (s *session, restarted bool, err error) {
	if s, err := c.current(); err != nil || s.alive() {
		return s, false, err
	}
	select {
	case c.starting <- struct{}{}:
		defer func() { <-c.starting }()
	case <-c.closing:
		return nil, false, c.closedFault()
	case <-ctx.Done():
		return nil, false, context.Cause(ctx)
	}
	old, err := c.current()
	if err != nil || old.alive() {
		return old, false, err
	}
	select {
	case <-old.ended:
	case <-ctx.Done():
		return nil, false, context.Cause(ctx)
	}
	now := c.opts.Now()
	c.mu.Lock()
	before, failed := c.again, c.failed
	wait := againAfter - now.Sub(before)
	if before.IsZero() || wait <= 0 {
		c.again = now
	}
	c.mu.Unlock()
	if !before.IsZero() && wait > 0 {
		return nil, false, c.deadFault(old, failed, wait)
	}
	s, tools, notes, err := c.connect(ctx)
	c.mu.Lock()
	defer c.mu.Unlock()
	if err != nil {
		c.failed = err
		if ctx.Err() != nil && !errors.Is(context.Cause(ctx), errCallTimeout) {
			c.again, c.failed = before, failed // whoever gave up says nothing about the server
		}
		return nil, false, fmt.Errorf("it had ended, and starting it again failed: %w", err)
	}
	c.session, c.tools, c.notes, c.failed = s, tools, notes, nil
	go c.mind(s)
	return s, true, nil
}

func (c *Client) current() (*session, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.isOver {
		return nil, c.closedFault()
	}
	return c.session, nil
}

// call calls a tool, once.
func (c *Client) call(ctx context.Context, tool, full string, call toolbox.Call) (toolbox.Result, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, c.server.Timeout, errCallTimeout)
	defer cancel()
	params := &mcp.CallToolParams{Name: tool}
	if len(call.Arguments) > 0 {
		params.Arguments = call.Arguments
	}
	result, restarted, err := c.send(ctx, call.Key, params)
	if err != nil {
		return toolbox.Result{}, c.named(err)
	}
	text, sources := render(result, full)
	if result.IsError {
		return toolbox.Result{}, errors.New(firstOf(text, "the tool failed and did not say why"))
	}
	if restarted {
		text = fmt.Sprintf("[MCP server %s had ended and was started again: what it kept in memory is gone]\n", c.server.Name) + text
	}
	return toolbox.Result{Text: text, Sources: sources}, nil
}

// send makes the call in a session that lives.
func (c *Client) send(ctx context.Context, key string, params *mcp.CallToolParams) (*mcp.CallToolResult, bool, error) {
	for {
		s, restarted, err := c.live(ctx)
		if err != nil {
			return nil, false, err
		}
		unmark, err := c.mark(key, s)
		if err != nil {
			return nil, false, err
		}
		result, err := s.call(ctx, params)
		unmark()
		if err == nil {
			return result, restarted, nil
		}
		if errors.Is(err, mcp.ErrConnectionClosed) && ctx.Err() == nil {
			// It was not sent: the connection had ended before. Now it is known to have, so this goes on only as often as
			// a server may be started again.
			s.lost()
			continue
		}
		return nil, false, c.callFault(ctx, s, err)
	}
}

func (s *session) call(ctx context.Context, params *mcp.CallToolParams) (*mcp.CallToolResult, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer whenClosed(s.ending, func() { cancel(errEnding) })()
	result, err := s.client.CallTool(ctx, params)
	if errors.Is(err, context.Canceled) && errors.Is(context.Cause(ctx), errEnding) {
		return nil, errEnding
	}
	if err == nil && result == nil {
		return nil, io.ErrUnexpectedEOF
	}
	return result, err
}
