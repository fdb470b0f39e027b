package model

import (
	"context"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"time"
)

const (
	// afterwards is how long to wait for the usage, and the end, of a reply that is finished.
	afterwards = 5 * time.Second
	// draining is how long to wait for the end of the body, without which the connection is lost.
	draining = 50 * time.Millisecond
	// mostBody bounds what a server can make us read for one reply, most of which is not the reply.
	mostBody = 64 << 20
	// mostReply is how long text, thoughts and calls of a reply may be together. No model says so much.
	mostReply = 4 << 20
	// mostError is how much of an error is read.
	mostError = 64 << 10
)

var (
	errSilent = errors.New("the server fell silent")
	errCut    = errors.New("the connection was cut before the reply ended")
	errEvent  = errors.New("an event of the reply is not JSON")
	errTooBig = errors.New("the reply is longer than 4 MiB, or 64 MiB with all that the server sends around it")
)

// try is one request. Its timer runs only while something is awaited from the server: what the caller takes for an event does not
// count as silence.
type try struct {
	ctx     context.Context
	cancel  context.CancelCauseFunc
	silence time.Duration
	timer   *time.Timer
	body    io.ReadCloser // of the answer, if there is one
	read    int64
}

func newTry(ctx context.Context, silence time.Duration) *try {
	t := &try{silence: silence}
	t.ctx, t.cancel = context.WithCancelCause(ctx)
	t.timer = time.AfterFunc(silence, func() { t.cancel(errSilent) })
	return t
}

// middleware looks at the answer before the client does. The clients read errors in their own ways and without bounds, follow
// a server that is none into its HTML, and cannot be told how long silence is.
func (t *try) middleware(req *http.Request, next func(*http.Request) (*http.Response, error)) (*http.Response, error) {
	res, err := next(req)
	t.timer.Stop()
	if err != nil {
		return nil, err
	}
	t.body = res.Body
	res.Body = t
	kind, _, _ := mime.ParseMediaType(res.Header.Get("Content-Type"))
	if res.StatusCode == http.StatusOK && kind != "text/html" && kind != "application/json" {
		return res, nil
	}
	text, err := io.ReadAll(io.LimitReader(t, mostError))
	if err != nil && res.StatusCode < 400 {
		return nil, err
	}
	return nil, &answerError{status: res.StatusCode, header: res.Header, kind: kind, body: text}
}

// Read is of the answer's body.
func (t *try) Read(p []byte) (int, error) {
	t.timer.Reset(t.silence)
	n, err := t.body.Read(p)
	t.timer.Stop()
	t.read += int64(n)
	if t.read > mostBody {
		return 0, errTooBig
	}
	return n, err
}

// Close does nothing, since the try ends when it is closed.
func (t *try) Close() error { return nil }

// drain reads the end of a body that has nothing more to say, so that its connection can be used again.
func (t *try) drain() {
	t.silence = draining
	_, _ = io.CopyN(io.Discard, t, 16<<10) // an error means that the connection is not used again
}

func (t *try) close() {
	t.timer.Stop()
	if t.body != nil {
		_ = t.body.Close()
	}
	t.cancel(nil)
}

// answerError is an answer that is no stream.
type answerError struct {
	status int
	header http.Header
	kind   string // of the content
	body   []byte
}

func (e *answerError) Error() string { return fmt.Sprintf("status %d", e.status) }
