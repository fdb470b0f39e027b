package model

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"time"
)

// wire is a protocol.
type wire interface {
	// encode makes the body of a request.
	encode(*Client, *history) ([]byte, error)
	// post sends a body and returns the events of the answer.
	post(context.Context, []byte, middleware) (*events, error)
	// read takes one event of the answer and says whether it was the last.
	read(g *gather, kind string, data []byte) (last bool, err error)
}

// middleware is what both clients call around each request.
type middleware = func(*http.Request, func(*http.Request) (*http.Response, error)) (*http.Response, error)

// events is a stream of server-sent events; the clients' decoders differ in the type of an event only.
type events struct {
	next func() (kind string, data []byte, more bool)
	err  func() error
}

// Reply asks for a reply and hands its parts to on, if that is not nil, in the goroutine of the caller and as soon as they
// come. The server waits while on runs. An error is an *Error.
func (c *Client) Reply(ctx context.Context, req Request, on func(Event)) (*Reply, error) {
	if on == nil {
		on = func(Event) {}
	}
	h, err := newHistory(req)
	if err != nil {
		return nil, &Error{Kind: ErrorRequest, Err: err}
	}
	body, err := c.wire.encode(c, h)
	if err != nil {
		return nil, &Error{Kind: ErrorRequest, Err: err}
	}
	dirty := false
	tell := func(e Event) {
		dirty = true
		on(e)
	}
	for n := 1; ; n++ {
		g := &gather{on: tell, turn: len(req.Messages)}
		f := c.ask(ctx, body, g)
		if f == nil {
			reply := g.reply()
			reply.Tries = n
			if !reply.Usage.believable() {
				reply.Usage = estimate(h, reply)
			}
			reply.Usage.Cached = min(reply.Usage.Cached, reply.Usage.Input) // or what is not cached would cost less than nothing
			reply.Usage.CostUSD = c.opts.Price.cost(reply.Usage)
			return reply, nil
		}
		if n >= f.limit(c.opts.Tries) {
			return nil, c.failed(f, n)
		}
		wait := c.wait(n, f.after)
		on(Event{Kind: EventRetry, Text: f.err.Error(), Try: n, Wait: wait})
		if err := c.opts.Sleep(ctx, wait); err != nil {
			return nil, c.failed(c.cancelled(ctx, err), n)
		}
		if dirty {
			dirty = false
			on(Event{Kind: EventRestart})
		}
	}
}

// ask makes one try.
func (c *Client) ask(ctx context.Context, body []byte, g *gather) *failure {
	if err := ctx.Err(); err != nil {
		return c.cancelled(ctx, err)
	}
	t := newTry(ctx, c.opts.Timeout)
	defer t.close()
	stream, err := c.wire.post(t.ctx, body, t.middleware)
	if err != nil {
		return c.explain(ctx, t, err)
	}
	for {
		kind, data, more := stream.next()
		if !more {
			err = stream.err()
			break
		}
		last, err := c.wire.read(g, kind, data)
		if err != nil {
			return c.explain(ctx, t, err)
		}
		if g.size > mostReply {
			return c.explain(ctx, t, errTooBig)
		}
		if last {
			t.drain()
			return nil
		}
		if g.finished {
			// All is said. What may follow is the usage, and a server that forgets to end its stream is not waited for.
			t.silence = min(t.silence, afterwards)
		}
	}
	if g.finished && ctx.Err() == nil {
		return nil
	}
	if err == nil {
		err = errCut
	}
	return c.explain(ctx, t, err)
}

const (
	firstWait = 500 * time.Millisecond
	longWait  = 30 * time.Second
)

// wait is how long to wait after the nth try. It is never exactly what others wait: whoever was turned away together should
// not come back together.
func (c *Client) wait(n int, after time.Duration) time.Duration {
	d := min(firstWait<<min(n-1, 10), longWait)
	d -= rand.N(d / 2)
	if after > 0 {
		d = after + rand.N(min(after/4, time.Second)+1)
	}
	return min(d, c.opts.MaxWait)
}

func (c *Client) failed(f *failure, tries int) *Error {
	err := fmt.Errorf("model %s at %s: %w", c.model, c.base.Host, f.err)
	if tries > 1 {
		err = fmt.Errorf("%w (tried %d times)", err, tries)
	}
	return &Error{Kind: f.kind, Status: f.status, Tries: tries, Err: err, Hint: c.hint(f)}
}

func (c *Client) hint(f *failure) string {
	if f.hint != "" {
		return f.hint
	}
	where := c.base.Redacted()
	switch f.kind {
	case ErrorKey:
		if c.opts.Key == "" {
			return "set " + c.opts.KeyName + " to a key that " + c.base.Host + " takes"
		}
		return "check " + c.opts.KeyName + ": " + c.base.Host + " does not take this key, or not for this model"
	case ErrorNotFound:
		return fmt.Sprintf("check the model's name, %s, and the base URL, %s", c.model, where)
	case ErrorRequest:
		return fmt.Sprintf("check that %s is a model for conversations with tools, and that %s speaks the protocol of %s", c.model, where, c.provider)
	case ErrorTooLong:
		return "begin a new conversation, or choose a model that can read more"
	case ErrorBusy:
		return "try again later, or with fewer conversations at a time"
	case ErrorServer:
		return "try again later; if it is your own server, its log says why"
	case ErrorDropped:
		return "check the connection to " + c.base.Host
	case ErrorNoServer:
		return "is the server running? The base URL is " + where
	}
	return ""
}

// hide takes the key out of what a server says, and puts it on one short line.
func (c *Client) hide(text string) string {
	if c.opts.Key != "" {
		text = strings.ReplaceAll(text, c.opts.Key, "…")
	}
	text = strings.ToValidUTF8(strings.Join(strings.Fields(text), " "), "�")
	const most = 500
	if len(text) > most {
		text = strings.ToValidUTF8(text[:most], "") + "…"
	}
	return text
}
