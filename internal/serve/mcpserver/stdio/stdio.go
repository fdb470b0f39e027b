// Package stdio is an MCP transport over standard input and output, with one message per line.
// Unlike the SDK's transport it answers every call before it reports the end of the input, so that
// a shell pipe that writes its calls and closes gets its answers, and it answers a line that is not
// a message with an error and continues with the next line.
package stdio

import (
	"context"
	"errors"
	"io"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

type transport struct {
	in  *lineReader
	out *syncWriter
}

// New returns a transport that reads lines of at most maxLine bytes. It does not close the streams.
func New(in io.Reader, out io.Writer, maxLine int) mcp.Transport {
	w := &syncWriter{out: out}
	return &transport{newLineReader(in, w, maxLine), w}
}

// Connect implements [mcp.Transport].
func (t *transport) Connect(ctx context.Context) (mcp.Connection, error) {
	// lineReader limits the length of lines.
	inner, err := (&mcp.IOTransport{Reader: io.NopCloser(t.in), Writer: t.out,
		MaxLineLength: -1}).Connect(ctx)
	if err != nil {
		return nil, err
	}
	return &connection{Connection: inner, out: t.out, pending: map[jsonrpc.ID]bool{},
		answered: make(chan struct{}, 1), closed: make(chan struct{})}, nil
}

// connection delays the end of its input until all calls are answered.
type connection struct {
	mcp.Connection
	out *syncWriter

	mu       sync.Mutex          // guards pending
	pending  map[jsonrpc.ID]bool // calls that are not answered yet
	answered chan struct{}       // holds a value after a call was answered

	closeOnce sync.Once
	closed    chan struct{}
}

// Read returns the next message. It answers messages that the SDK rejects, such as a batch that
// reuses the id of a pending call, with an error, and continues.
func (c *connection) Read(ctx context.Context) (jsonrpc.Message, error) {
	for {
		c.wait(ctx, maxPending-1)
		message, err := c.Connection.Read(ctx)
		if err == io.EOF {
			c.wait(ctx, 0)
		}
		if broken := (*streamError)(nil); err == nil || err == io.EOF || ctx.Err() != nil ||
			errors.As(err, &broken) {
			c.addPending(message)
			return message, err
		}
		if err := c.out.writeError(jsonrpc.CodeInvalidRequest, nil, err.Error()); err != nil {
			return nil, err
		}
	}
}

// addPending records a call.
func (c *connection) addPending(message jsonrpc.Message) {
	if request, ok := message.(*jsonrpc.Request); ok && request.IsCall() {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.pending[request.ID] = true
	}
}

// maxPending is how many calls are answered at the same time. Others wait in the stream, so that a
// client cannot use up the memory.
const maxPending = 16

// wait returns when at most the given number of calls are not answered, the connection is closed,
// or ctx is done.
func (c *connection) wait(ctx context.Context, most int) {
	for {
		c.mu.Lock()
		left := len(c.pending)
		c.mu.Unlock()
		if left <= most {
			return
		}
		select {
		case <-c.answered:
		case <-c.closed:
			return
		case <-ctx.Done():
			return
		}
	}
}

// Write implements [mcp.Connection].
func (c *connection) Write(ctx context.Context, message jsonrpc.Message) error {
	err := c.Connection.Write(ctx, message)
	if response, ok := message.(*jsonrpc.Response); ok {
		c.mu.Lock()
		delete(c.pending, response.ID)
		c.mu.Unlock()
		select {
		case c.answered <- struct{}{}:
		default:
		}
	}
	return err
}

// Close implements [mcp.Connection].
func (c *connection) Close() error {
	c.closeOnce.Do(func() { close(c.closed) })
	return c.Connection.Close()
}
