package model

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"signalbox/internal/rehearsal/modelserver"
	"signalbox/internal/testkit/must"
)

// failer is the common part of *testing.T and *rapid.T.
type failer interface {
	Helper()
	Fatalf(string, ...any)
}

// both runs a test with each protocol.
func both(t *testing.T, test func(*testing.T, Provider)) {
	t.Helper()
	for _, p := range []Provider{OpenAI, Anthropic} {
		t.Run(string(p), func(t *testing.T) { test(t, p) })
	}
}

// sleeper provides a Sleep that records the pauses and does not wait.
type sleeper struct {
	mu    sync.Mutex
	waits []time.Duration
}

func (n *sleeper) sleep(ctx context.Context, d time.Duration) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.waits = append(n.waits, d)
	return ctx.Err()
}

// stage is a client and its scripted server.
type stage struct {
	client  *Client
	server  *modelserver.Server
	sleeper *sleeper
}

// play returns a script that answers with these turns, in order.
func play(turns ...modelserver.Turn) *modelserver.Script {
	return &modelserver.Script{Conversations: []modelserver.Conversation{{Turns: turns}}}
}

func say(text string, faults ...modelserver.Fault) modelserver.Turn {
	return modelserver.Turn{Parts: []modelserver.Part{{Text: text}}, Faults: faults}
}

func newStage(t *testing.T, p Provider, script *modelserver.Script, opts *Options) *stage {
	t.Helper()
	server := newServer(t, script)
	s := &stage{server: server}
	s.client, s.sleeper = serve(t, p, server, opts)
	return s
}

func newServer(t failer, script *modelserver.Script) *modelserver.Server {
	t.Helper()
	server, err := modelserver.New(script, nil)
	if err != nil {
		t.Fatalf("%v", err)
	}
	return server
}

// serve returns a client for a handler on loopback. It does not wait between attempts.
func serve(t *testing.T, p Provider, h http.Handler, opts *Options) (*Client, *sleeper) {
	t.Helper()
	server := httptest.NewServer(h)
	t.Cleanup(server.Close)
	n := &sleeper{}
	o := Options{}
	if opts != nil {
		o = *opts
	}
	o.BaseURL = server.URL
	if o.Sleep == nil {
		o.Sleep = n.sleep
	}
	c := newClient(t, p, &o)
	t.Cleanup(c.Close)
	return c, n
}

func newClient(t failer, p Provider, opts *Options) *Client {
	t.Helper()
	c, err := New(p, "rehearsal", opts)
	if err != nil {
		t.Fatalf("%v", err)
	}
	return c
}

func ask(text string) Request { return Request{Messages: []Message{{Role: User, Text: text}}} }

// recorder collects events. Its text and reasoning are those since the last restart.
type recorder struct {
	text, reasoning strings.Builder
	kinds           []EventKind // consecutive pieces count once
	retries         []Event
	restarts        int
}

func (l *recorder) record(e Event) {
	if n := len(l.kinds); n == 0 || l.kinds[n-1] != e.Kind {
		l.kinds = append(l.kinds, e.Kind)
	}
	switch e.Kind {
	case EventText:
		l.text.WriteString(e.Text)
	case EventReasoning:
		l.reasoning.WriteString(e.Text)
	case EventRetry:
		l.retries = append(l.retries, e)
	case EventRestart:
		l.restarts++
		l.text.Reset()
		l.reasoning.Reset()
	}
}

// reply requests a reply and checks that its events agree with it.
func reply(t failer, c *Client, req Request) (*Reply, *recorder) {
	t.Helper()
	l := &recorder{}
	r, err := c.Reply(context.Background(), req, l.record)
	if err != nil {
		t.Fatalf("%v", err)
	}
	if r.Text != l.text.String() || r.Reasoning != l.reasoning.String() {
		t.Fatalf("the events have %q and %q, but the reply is %q and %q", l.text.String(),
			l.reasoning.String(), r.Text, r.Reasoning)
	}
	if r.Tries != len(l.retries)+1 {
		t.Fatalf("%d tries, but %d retry events", r.Tries, len(l.retries))
	}
	return r, l
}

// failed requests a reply that must fail.
func failed(t *testing.T, c *Client, req Request) *Error {
	t.Helper()
	r, err := c.Reply(t.Context(), req, nil)
	return asError(t, r, err)
}

func asError(t *testing.T, r *Reply, err error) *Error {
	t.Helper()
	var e *Error
	if !errors.As(err, &e) {
		t.Fatalf("got %+v and %v, want an *Error", r, err)
	}
	if r != nil {
		t.Fatalf("a reply with an error: %+v", r)
	}
	return e
}

func jsonText(t *testing.T, v any) string {
	t.Helper()
	data, err := json.Marshal(v)
	must.Succeed(t, err)
	return string(data)
}

// sse returns a handler that answers with these events.
func sse(events ...string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		for _, e := range events {
			_, _ = w.Write([]byte(e + "\n\n"))
		}
	})
}

// data returns events without names.
func data(events ...string) []string {
	var out []string
	for _, e := range events {
		out = append(out, "data: "+e)
	}
	return out
}
