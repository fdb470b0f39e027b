// Package stdio is the transport of a process's streams: one message on each line. It is patient and forgiving where callers need it. A
// caller that writes its calls and closes its end at once, as a pipe in a shell does, still gets its answers: the end of the input is told
// only when all that was asked is answered. And a line that is no message is answered with an error, and the next one is read.
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
	in  *lines
	out *voice
}

// New returns a transport that reads lines of at most maxLine bytes. It closes neither stream: they are the process's.
func New(in io.Reader, out io.Writer, maxLine int) mcp.Transport {
	v := &voice{out: out}
	return &transport{newLines(in, v, maxLine), v}
}

// Connect makes the connection.
func (t *transport) Connect(ctx context.Context) (mcp.Connection, error) {
	// The lines have their limit already.
	inner, err := (&mcp.IOTransport{Reader: io.NopCloser(t.in), Writer: t.out, MaxLineLength: -1}).Connect(ctx)
	if err != nil {
		return nil, err
	}
	return &patient{Connection: inner, out: t.out, asked: map[jsonrpc.ID]bool{}, answered: make(chan struct{}, 1), closed: make(chan struct{})}, nil
}

// patient is a connection whose input does not end before its calls are answered.
type patient struct {
	mcp.Connection
	out *voice

	mu       sync.Mutex          // guards asked
	asked    map[jsonrpc.ID]bool // calls that are not answered yet
	answered chan struct{}       // has room for one: a call was answered

	closeOnce sync.Once
	closed    chan struct{}
}

// Read returns the next message. What the connection does not take, such as a batch with the id of another that is not answered yet, is
// refused, and reading goes on.
func (p *patient) Read(ctx context.Context) (jsonrpc.Message, error) {
	for {
		message, err := p.Connection.Read(ctx)
		if err == io.EOF {
			p.wait(ctx)
		}
		if broken := (*streamError)(nil); err == nil || err == io.EOF || ctx.Err() != nil || errors.As(err, &broken) {
			p.ask(message)
			return message, err
		}
		if err := p.out.refuse(jsonrpc.CodeInvalidRequest, nil, err.Error()); err != nil {
			return nil, err
		}
	}
}

// ask notes a call.
func (p *patient) ask(message jsonrpc.Message) {
	if request, ok := message.(*jsonrpc.Request); ok && request.IsCall() {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.asked[request.ID] = true
	}
}

// wait returns when all calls are answered, or nobody wants the answers any more.
func (p *patient) wait(ctx context.Context) {
	for {
		p.mu.Lock()
		left := len(p.asked)
		p.mu.Unlock()
		if left == 0 {
			return
		}
		select {
		case <-p.answered:
		case <-p.closed:
			return
		case <-ctx.Done():
			return
		}
	}
}

// Write sends a message.
func (p *patient) Write(ctx context.Context, message jsonrpc.Message) error {
	err := p.Connection.Write(ctx, message)
	if response, ok := message.(*jsonrpc.Response); ok {
		p.mu.Lock()
		delete(p.asked, response.ID)
		p.mu.Unlock()
		select {
		case p.answered <- struct{}{}:
		default:
		}
	}
	return err
}

// Close ends the connection.
func (p *patient) Close() error {
	p.closeOnce.Do(func() { close(p.closed) })
	return p.Connection.Close()
}
