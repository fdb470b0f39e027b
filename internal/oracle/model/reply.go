package model

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"time"

	"signalbox/internal/text"
)

// protocol is a wire protocol of model servers.
type protocol interface {
	// path returns the path of the endpoint under the base URL.
	path() string
	// setHeader sets the headers of a request that only this protocol has. key may be empty.
	setHeader(h http.Header, key string)
	// encode returns the body of a request.
	encode(*Client, *history) ([]byte, error)
	// decode adds one event of the response to b and reports whether it was the last. The data is
	// valid during the call only.
	decode(b *replyBuilder, name string, data []byte) (last bool, err error)
}

// encodeJSON is json.Marshal without the escapes for HTML: code is full of <, > and &.
func encodeJSON(v any) ([]byte, error) {
	var out bytes.Buffer
	e := json.NewEncoder(&out)
	e.SetEscapeHTML(false)
	err := e.Encode(v)
	return out.Bytes(), err
}

// decodeJSON decodes an event and reports whether it is a JSON object. A field of an unexpected
// type is left out: servers that extend a protocol do so in their own ways.
func decodeJSON(data []byte, v any) bool {
	err := json.Unmarshal(data, v)
	var mismatch *json.UnmarshalTypeError
	return err == nil || errors.As(err, &mismatch) && mismatch.Field != ""
}

// Reply requests a reply. It passes each event to on, if that is not nil, as soon as it arrives and
// in the goroutine of the caller; reading pauses while on runs. An error is an *Error.
func (c *Client) Reply(ctx context.Context, req Request, on func(Event)) (*Reply, error) {
	if on == nil {
		on = func(Event) {}
	}
	h, err := newHistory(req)
	if err != nil {
		return nil, &Error{Kind: ErrorRequest, Err: err}
	}
	body, err := c.protocol.encode(c, h)
	if err != nil {
		return nil, &Error{Kind: ErrorRequest, Err: err}
	}
	dirty := false // pieces of a reply were passed on
	onPiece := func(e Event) {
		dirty = true
		on(e)
	}
	for n := 1; ; n++ {
		b := &replyBuilder{on: onPiece, turn: len(req.Messages)}
		f := c.try(ctx, body, b)
		if f == nil {
			reply := b.reply()
			reply.Tries = n
			if !reply.Usage.plausible() {
				reply.Usage = estimate(h, reply)
			}
			// or the rest would have a negative cost
			reply.Usage.Cached = min(reply.Usage.Cached, reply.Usage.Input)
			reply.Usage.CostUSD = c.opts.Price.cost(reply.Usage)
			return reply, nil
		}
		if n >= f.maxTries(c.opts.Tries) {
			return nil, c.newError(f, n)
		}
		wait := c.backoff(n, f.retryAfter)
		on(Event{Kind: EventRetry, Text: f.err.Error(), Try: n, Wait: wait})
		if err := c.opts.Sleep(ctx, wait); err != nil {
			return nil, c.newError(cancelled(ctx, err), n)
		}
		if dirty {
			dirty = false
			on(Event{Kind: EventRestart})
		}
	}
}

// try makes one attempt.
func (c *Client) try(ctx context.Context, body []byte, b *replyBuilder) *failure {
	if err := ctx.Err(); err != nil {
		return cancelled(ctx, err)
	}
	a := newAttempt(ctx, c.opts.Timeout)
	defer a.close()
	events, err := a.post(c, body)
	if err != nil {
		return c.explain(ctx, a, err)
	}
	for {
		name, data, err := events.next()
		if ctx.Err() != nil { // what was read before the cancellation does not count
			return cancelled(ctx, ctx.Err())
		}
		if err != nil {
			if b.finished && ctx.Err() == nil {
				return nil // the stream ended, or broke, after the reply
			}
			return c.explain(ctx, a, err)
		}
		last, err := c.protocol.decode(b, name, data)
		if err != nil {
			return c.explain(ctx, a, err)
		}
		if b.size > maxReply {
			return c.explain(ctx, a, errTooBig)
		}
		if last {
			a.drain()
			return nil
		}
		if b.finished {
			// Only the usage may follow. Do not wait long for a server that forgets to end its
			// stream.
			a.timeout = min(a.timeout, endTimeout)
		}
	}
}

const (
	firstBackoff = 500 * time.Millisecond
	maxBackoff   = 30 * time.Second
)

// backoff returns the pause after the nth attempt. It is random, so that clients that were refused
// together do not retry together.
func (c *Client) backoff(n int, retryAfter time.Duration) time.Duration {
	d := min(firstBackoff<<min(n-1, 10), maxBackoff)
	d -= rand.N(d / 2)
	if retryAfter > 0 {
		d = retryAfter + rand.N(min(retryAfter/4, time.Second)+1)
	}
	return min(d, c.opts.MaxWait)
}

func (c *Client) newError(f *failure, tries int) *Error {
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
			return "set " + c.opts.KeyName + " to a key for " + c.base.Host
		}
		return "check " + c.opts.KeyName + ": " + c.base.Host +
			" does not accept this key, or not for this model"
	case ErrorNotFound:
		return fmt.Sprintf("check the model's name, %s, and the base URL, %s", c.model, where)
	case ErrorRequest:
		return fmt.Sprintf("check that %s is a chat model that supports tools, and that %s speaks the %s protocol", c.model, where, c.provider)
	case ErrorTooLong:
		return "start a new conversation, or choose a model with a larger context"
	case ErrorBusy:
		return "try again later, or run fewer conversations at a time"
	case ErrorServer:
		return "try again later; if it is your own server, see its log"
	case ErrorDropped:
		return "check the connection to " + c.base.Host
	case ErrorNoServer:
		return "is the server running? The base URL is " + where
	}
	return ""
}

// redact removes the key from a message of the server and puts it on one short line.
func (c *Client) redact(message string) string {
	if c.opts.Key != "" {
		message = strings.ReplaceAll(message, c.opts.Key, "…")
	}
	return text.Shorten(text.OneLine(message), 500)
}
