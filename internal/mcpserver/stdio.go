package mcpserver

import (
	"context"
	"io"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// stdio is the transport of a process's streams. A caller that writes its calls and closes its end at once, as a pipe in a shell does,
// still gets its answers: the end of the input is told only when all that was asked is answered.
type stdio struct{ mcp.IOTransport }

func newStdio(in io.Reader, out io.Writer) *stdio {
	return &stdio{mcp.IOTransport{Reader: io.NopCloser(in), Writer: unclosed{out}, MaxLineLength: maxMessage}}
}

// unclosed is a writer that its user does not close: it is the process's.
type unclosed struct{ io.Writer }

func (unclosed) Close() error { return nil }

func (t *stdio) Connect(ctx context.Context) (mcp.Connection, error) {
	inner, err := t.IOTransport.Connect(ctx)
	if err != nil {
		return nil, err
	}
	return &patient{Connection: inner, asked: map[jsonrpc.ID]bool{}, answered: make(chan struct{}, 1), closed: make(chan struct{})}, nil
}

// patient is a connection whose input does not end before its calls are answered.
type patient struct {
	mcp.Connection

	mu       sync.Mutex          // guards asked
	asked    map[jsonrpc.ID]bool // calls that are not answered yet
	answered chan struct{}       // has room for one: a call was answered

	closeOnce sync.Once
	closed    chan struct{}
}

func (p *patient) Read(ctx context.Context) (jsonrpc.Message, error) {
	message, err := p.Connection.Read(ctx)
	if request, ok := message.(*jsonrpc.Request); ok && request.IsCall() {
		p.mu.Lock()
		p.asked[request.ID] = true
		p.mu.Unlock()
	}
	if err == io.EOF {
		p.wait(ctx)
	}
	return message, err
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

func (p *patient) Close() error {
	p.closeOnce.Do(func() { close(p.closed) })
	return p.Connection.Close()
}
