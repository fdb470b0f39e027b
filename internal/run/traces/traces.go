// Package traces sends traces of what agents do to an OpenTelemetry collector, as OTLP over HTTP in
// JSON.
//
// Each task is a trace, and each session of a role one of its spans, with the turns of agents in
// it, and their tool calls in those. Attributes follow the conventions for generative AI. Words of
// agents, prompts and arguments of tools are not sent.
package traces

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"signalbox"
	"signalbox/internal/core/box"
	"signalbox/internal/core/rules"
	"signalbox/internal/run/agent"
	"signalbox/internal/run/outbound"
)

// Options configure a Tracer.
type Options struct {
	// Project is the name of the project, and Version that of the program.
	Project, Version string
	// Getenv returns the variable that has headers.
	Getenv func(string) string
	// Log receives diagnostics; nil discards them. They contain no secrets.
	Log *slog.Logger

	delays *delays // nil means defaultDelays
}

// delays are how long a Tracer waits.
type delays struct {
	collect time.Duration // for more spans
	retry   time.Duration // after the first failure; it doubles with each further one
	most    time.Duration // after many failures
	send    time.Duration // for one request
	drain   time.Duration // for the remaining spans at the end
}

func defaultDelays() *delays {
	return &delays{collect: time.Second, retry: time.Second, most: 30 * time.Second,
		send: 10 * time.Second, drain: 5 * time.Second}
}

const (
	// maxSpans is how many spans are kept while the collector does not accept them. Then the oldest
	// are dropped.
	maxSpans = 4096
	// maxRequest is how many spans are sent at once.
	maxRequest = 512
)

// Tracer sends the traces of a crew.
type Tracer struct {
	box     *box.Box
	opts    Options
	address string
	header  http.Header
	client  *http.Client
	after   uint64 // the last event before the crew began

	wake chan struct{} // capacity 1: there are spans to send

	mu       sync.Mutex // guards the fields below
	recorder *recorder
	spans    []span
	dropped  int
}

// New returns a Tracer for an open box, nil if its configuration names no collector.
func New(b *box.Box, o Options) (*Tracer, error) {
	c := b.Config.Traces
	if c.Endpoint == "" {
		return nil, nil
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.delays == nil {
		o.delays = defaultDelays()
	}
	header, err := headers(c.HeadersEnv, o.Getenv)
	if err != nil {
		return nil, err
	}
	return &Tracer{box: b, opts: o, address: address(c.Endpoint), header: header,
		client: outbound.NewClient(), after: b.Engine.Tail().Seq,
		wake: make(chan struct{}, 1), recorder: newRecorder(b.ID())}, nil
}

// address returns where traces are sent for the address of a collector.
func address(endpoint string) string {
	if endpoint = strings.TrimRight(endpoint, "/"); strings.HasSuffix(endpoint, "/v1/traces") {
		return endpoint
	}
	return endpoint + "/v1/traces"
}

// headers returns the headers that an environment variable lists: NAME=VALUE, separated by commas,
// percent-encoded.
func headers(variable string, getenv func(string) string) (http.Header, error) {
	header := http.Header{"Content-Type": {"application/json"}}
	if variable == "" {
		return header, nil
	}
	list := getenv(variable)
	if strings.TrimSpace(list) == "" {
		return nil, errors.New("traces: the environment variable " + variable + " is not set")
	}
	for item := range strings.SplitSeq(list, ",") {
		name, value, ok := strings.Cut(item, "=")
		value, err := url.PathUnescape(strings.TrimSpace(value))
		name = strings.TrimSpace(name)
		if !ok || err != nil || !isToken(name) || strings.ContainsAny(value, "\r\n\x00") {
			return nil, errors.New("traces: the environment variable " + variable +
				" is not a list of NAME=VALUE, separated by commas")
		}
		header.Set(name, value)
	}
	return header, nil
}

// isToken reports whether a name is valid for a header.
func isToken(name string) bool {
	return name != "" && !strings.ContainsFunc(name, func(r rune) bool {
		return r <= ' ' || r > '~' || strings.ContainsRune(`"(),/:;<=>?@[\]{}`, r)
	})
}

// Tools records a tool call or its result. It is for the options of a crew.
func (t *Tracer) Tools(u agent.ToolUse) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.recorder.tool(u, time.Now())
}

// Run sends the traces of the sessions for which owns returns true, until ctx is done, and then the
// remaining ones for a short time. The engine of the box must be following the ledger until ctx is
// done.
func (t *Tracer) Run(ctx context.Context, owns func(session string) bool) {
	defer t.client.CloseIdleConnections()
	sending, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	defer context.AfterFunc(ctx, func() { time.AfterFunc(t.opts.delays.drain, stop) })()
	followed := make(chan struct{})
	go func() {
		defer close(followed)
		t.follow(ctx, owns)
	}()
	t.send(sending, followed)
	<-followed
}

// follow turns events into spans until ctx is done.
func (t *Tracer) follow(ctx context.Context, owns func(session string) bool) {
	err := t.box.Follow(ctx, t.after, func(events []signalbox.Event) error {
		t.mu.Lock()
		defer t.mu.Unlock()
		for i := range events {
			if e := &events[i]; e.Session != "" && owns(e.Session) {
				t.add(t.recorder.event(e, t.find))
			}
		}
		return nil
	})
	if err != nil {
		t.opts.Log.Warn("cannot read the ledger for traces", "error", err)
	}
}

func (t *Tracer) find(id string) (w *rules.Work) {
	t.box.Engine.View(func(s *rules.State) { w, _ = s.Work(id) })
	return w
}

// add adds spans to send. The caller holds mu.
func (t *Tracer) add(spans []span) {
	if len(spans) == 0 {
		return
	}
	t.spans = append(t.spans, spans...)
	if over := len(t.spans) - maxSpans; over > 0 {
		t.spans = append([]span(nil), t.spans[over:]...)
		t.dropped += over
	}
	select {
	case t.wake <- struct{}{}:
	default: // it is awake already
	}
}

// send sends spans until followed is closed and none are left, or ctx is done.
func (t *Tracer) send(ctx context.Context, followed <-chan struct{}) {
	for {
		over := false
		select {
		case <-followed:
			over = true
		case <-t.wake:
			wait(ctx, followed, t.opts.delays.collect)
		}
		for batch := t.take(); len(batch) > 0; batch = t.take() {
			if !t.deliver(ctx, followed, batch) {
				return
			}
		}
		if over {
			return
		}
	}
}

// take removes the oldest spans from those that are to be sent, and returns them.
func (t *Tracer) take() []span {
	t.mu.Lock()
	defer t.mu.Unlock()
	n := min(len(t.spans), maxRequest)
	batch := t.spans[:n:n]
	t.spans = t.spans[n:]
	if t.dropped > 0 {
		t.opts.Log.Warn("the collector did not accept traces in time, so some were dropped",
			"spans", t.dropped)
		t.dropped = 0
	}
	return batch
}

// deliver sends spans until the collector accepts them, or refuses their content. It returns false
// if ctx is done before. When followed is closed, little time is left: then it does not wait longer
// than after the first failure.
func (t *Tracer) deliver(ctx context.Context, followed <-chan struct{}, batch []span) bool {
	resource := []attribute{{"service.name", "signalbox"}, {"service.version", t.opts.Version},
		{"signalbox.project", t.opts.Project}}
	last := ""
	for failures := 0; ; failures++ {
		err := t.post(ctx, request(resource, t.opts.Version, batch))
		if err == nil {
			return true
		}
		if errors.Is(err, outbound.ErrContent) {
			t.opts.Log.Warn("the collector refuses traces, which are dropped", "spans", len(batch),
				"error", err)
			return true
		}
		if ctx.Err() == nil && err.Error() != last {
			last = err.Error()
			t.opts.Log.Warn("cannot send traces; trying again", "error", err)
		}
		wait(ctx, nil, t.opts.delays.retry)
		wait(ctx, followed, min(t.opts.delays.retry<<min(failures, 10),
			t.opts.delays.most)-t.opts.delays.retry)
		if ctx.Err() != nil {
			return false
		}
	}
}

func (t *Tracer) post(ctx context.Context, r jsonRequest) error {
	ctx, cancel := context.WithTimeout(ctx, t.opts.delays.send)
	defer cancel()
	body, err := json.Marshal(r)
	if err != nil {
		return err
	}
	return outbound.Post(ctx, t.client, t.address, t.header.Clone(), body)
}

// wait waits until the time is over, followed is closed or ctx is done.
func wait(ctx context.Context, followed <-chan struct{}, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-followed:
	case <-timer.C:
	}
}
