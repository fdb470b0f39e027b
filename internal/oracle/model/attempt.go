package model

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"time"
)

const (
	// endTimeout is how long to wait for the usage and the end of the stream after the model has
	// finished its reply.
	endTimeout = 5 * time.Second
	// drainTimeout is how long to wait for the end of the body. Without reading it the connection
	// cannot be reused.
	drainTimeout = 50 * time.Millisecond
	// maxBody bounds what is read from the server for one reply, including the overhead of the
	// protocol.
	maxBody = 64 << 20
	// maxReply bounds the text, reasoning and tool calls of a reply together.
	maxReply = 4 << 20
	// maxErrorBody bounds what is read of an error response.
	maxErrorBody = 64 << 10
)

var (
	errSilent = errors.New("the server sent nothing")
	errCut    = errors.New("the connection was cut before the reply ended")
	errEvent  = errors.New("an event of the reply is not JSON")
	errTooBig = errors.New(
		"the reply is too long: more than 4 MiB, or 64 MiB with everything that the server sends around it")
)

// attempt is one request and its response. Its timer runs only while it waits for the server, so
// the time that the caller takes to handle an event does not count as silence.
type attempt struct {
	ctx     context.Context
	cancel  context.CancelCauseFunc
	timeout time.Duration
	timer   *time.Timer
	body    io.ReadCloser // of the response; nil before there is one
	read    int64
}

func newAttempt(ctx context.Context, timeout time.Duration) *attempt {
	a := &attempt{timeout: timeout}
	a.ctx, a.cancel = context.WithCancelCause(ctx)
	a.timer = time.AfterFunc(timeout, func() { a.cancel(errSilent) })
	return a
}

// post sends the request and returns the events of the response. A response that is not a stream is
// a *responseError.
func (a *attempt) post(c *Client, body []byte) (*eventReader, error) {
	req, err := http.NewRequestWithContext(a.ctx, http.MethodPost,
		c.base.JoinPath(c.protocol.path()).String(), bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "text/event-stream")
	req.Header.Set("User-Agent", "signalbox")
	c.protocol.setHeader(req.Header, c.opts.Key)
	res, err := c.http.Do(req)
	a.timer.Stop()
	if err != nil {
		return nil, err
	}
	a.body = res.Body
	// a stream without a valid one is read all the same
	mediaType, _, _ := mime.ParseMediaType(res.Header.Get("Content-Type"))
	if res.StatusCode == http.StatusOK && mediaType != "text/html" &&
		mediaType != "application/json" {
		return newEventReader(a), nil
	}
	text, err := io.ReadAll(io.LimitReader(a, maxErrorBody))
	if err != nil && res.StatusCode < 400 {
		return nil, err
	}
	return nil, &responseError{status: res.StatusCode, header: res.Header, mediaType: mediaType,
		body: text}
}

// Read reads from the body of the response.
func (a *attempt) Read(p []byte) (int, error) {
	a.timer.Reset(a.timeout)
	n, err := a.body.Read(p)
	a.timer.Stop()
	a.read += int64(n)
	if a.read > maxBody {
		return 0, errTooBig
	}
	return n, err
}

// drain reads the rest of a body after the last event, so that the connection can be reused.
func (a *attempt) drain() {
	a.timeout = drainTimeout
	_, _ = io.CopyN(io.Discard, a, 16<<10) // after an error the connection is closed
}

func (a *attempt) close() {
	a.timer.Stop()
	if a.body != nil {
		_ = a.body.Close()
	}
	a.cancel(nil)
}

// responseError is a response that is not a stream.
type responseError struct {
	status    int
	header    http.Header
	mediaType string
	body      []byte
}

func (e *responseError) Error() string { return fmt.Sprintf("status %d", e.status) }
