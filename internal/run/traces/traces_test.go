package traces

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"signalbox"
	"signalbox/internal/config"
	"signalbox/internal/core/box"
	"signalbox/internal/core/rules"
	"signalbox/internal/run/agent"
	"signalbox/internal/testkit/must"
)

var noon = time.Date(2026, 11, 16, 12, 0, 0, 0, time.UTC)

func at(second int) time.Time { return noon.Add(time.Duration(second) * time.Second) }

// feed passes an event of a session about T1 to a recorder, and returns the spans that end.
func feed(t *testing.T, r *recorder, second int, kind string, body any) []span {
	t.Helper()
	return feedTask(t, r, "T1", second, kind, body)
}

func feedTask(t *testing.T, r *recorder, work string, second int, kind string, body any) []span {
	t.Helper()
	data, err := json.Marshal(body)
	must.Succeed(t, err)
	e := &signalbox.Event{Seq: uint64(second + 1), Time: at(second), Type: kind, Work: work,
		Session: "s", Data: data}
	return r.event(e, func(
		string) *rules.Work {
		return &rules.Work{ID: work, Opened: noon.Add(-time.Hour)}
	})
}

// describe returns the names, times and ids of spans.
func describe(spans []span) string {
	var lines []string
	for _, s := range spans {
		line := fmt.Sprintf("%s %d-%d", s.name, int(s.began.Sub(noon).Seconds()),
			int(s.ended.Sub(noon).Seconds()))
		if s.failed {
			line += " failed " + s.failure
		}
		lines = append(lines, strings.TrimSpace(line))
	}
	return strings.Join(lines, "; ")
}

func TestRecorder(t *testing.T) {
	r := newRecorder("box-1")
	feed(t, r, 0, rules.TypeLeaseGranted, rules.LeaseGranted{Role: signalbox.RoleDeveloper})
	feed(t, r, 1, rules.TypeAgentStarted,
		rules.AgentStarted{Agent: "codex", Format: signalbox.FormatCodex})
	use := func(second int, u agent.ToolUse) {
		u.Work, u.Session = "T1", "s"
		r.tool(u, at(second))
	}
	use(2, agent.ToolUse{Tool: "shell", Call: "a"})
	use(3, agent.ToolUse{Tool: "search", Call: "b"})
	use(4, agent.ToolUse{Call: "b", Result: true, Failed: true})
	use(6, agent.ToolUse{Call: "a", Result: true})
	use(6, agent.ToolUse{Tool: "unnamed"})
	use(7, agent.ToolUse{Tool: "second"})
	// of the first call without an id
	use(8, agent.ToolUse{Result: true})
	use(9, agent.ToolUse{Result: true, Took: 500 * time.Millisecond}) // the program measured it
	use(9, agent.ToolUse{Tool: "unfinished", Call: "c"})
	use(10, agent.ToolUse{Call: "unknown", Result: true})
	if ended := feed(t, r, 10, rules.TypeAgentTurnEnded,
		rules.AgentTurnEnded{InputTokens: 7}); len(ended) > 0 {
		t.Errorf("%s ended before it is known whether the turn failed", describe(ended))
	}
	feed(t, r, 10, rules.TypeAgentFailed, rules.AgentFailed{Cause: "timeout", Detail: "too long"})
	use(12, agent.ToolUse{Tool: "late", Call: "d"}) // before the event that begins its turn is read
	ended := feed(t, r, 11, rules.TypeAgentStarted, rules.AgentStarted{Agent: "codex"})
	if got, want := describe(ended),
		"execute_tool shell 2-6; execute_tool search 3-4 failed; execute_tool unnamed 6-8; execute_tool second 8-9; execute_tool unfinished 9-10; invoke_agent codex 1-10 failed"; got != want {
		t.Errorf("the first turn:\n%s, want\n%s", got, want)
	}
	feed(t, r, 13, rules.TypeAgentTurnEnded, rules.AgentTurnEnded{})
	if got, want := describe(feed(t, r, 14, rules.TypePhaseChanged,
		rules.PhaseChanged{To: signalbox.PhaseCompleted})), "task T1 -3600-14"; got != want {
		t.Errorf("the task: %s, want %s", got, want)
	}
	ended = append(ended, feed(t, r, 15, rules.TypeLeaseExpired, rules.LeaseExpired{})...)
	if got, want := describe(ended[6:]),
		"execute_tool late 12-13; invoke_agent codex 11-13; developer T1 0-15 failed the lease expired"; got != want {
		t.Errorf("the second turn:\n%s, want\n%s", got, want)
	}
	ids := map[string]bool{}
	for _, s := range ended {
		if ids[s.id] || len(s.id) != 16 || len(s.trace) != 32 || s.trace != ended[0].trace {
			t.Errorf("the span %s has the id %s in trace %s", s.name, s.id, s.trace)
		}
		ids[s.id] = true
	}
	if len(r.sessions)+len(r.tools) > 0 {
		t.Errorf("left: %v %v", r.sessions, r.tools)
	}
}

// TestRecorderOfATrain: a merger that holds several tasks has a span for each.
func TestRecorderOfATrain(t *testing.T) {
	r := newRecorder("box-1")
	var ended []span
	for i, work := range []string{"T1", "T2"} {
		feedTask(t, r, work, i, rules.TypeLeaseGranted,
			rules.LeaseGranted{Role: signalbox.RoleMerger})
	}
	for i, work := range []string{"T1", "T2"} {
		ended = append(ended, feedTask(t, r, work, i+2, rules.TypePhaseChanged,
			rules.PhaseChanged{To: signalbox.PhaseCompleted})...)
		ended = append(ended, feedTask(t, r, work, i+4, rules.TypeLeaseReleased,
			rules.LeaseReleased{})...)
	}
	if got, want := describe(ended),
		"task T1 -3600-2; merger T1 0-4; task T2 -3600-3; merger T2 1-5"; got != want {
		t.Errorf("spans:\n%s, want\n%s", got, want)
	}
}

func TestHeaders(t *testing.T) {
	getenv := func(value string) func(string) string { return func(string) string { return value } }
	for value, want := range map[string]string{"a=b": "b", " A = b%20c ,x=y": "b c",
		"a=b=c": "b=c"} {
		header, err := headers("H", getenv(value))
		if err != nil || header.Get("A") != want ||
			header.Get("Content-Type") != "application/json" {
			t.Errorf("%q: %v, %v", value, header, err)
		}
	}
	for _, value := range []string{"", " ", "a", "=b", "a b=c", "a=%", "a=%0a", "a=b,"} {
		if _, err := headers("H", getenv(value)); err == nil ||
			!strings.Contains(err.Error(), "variable H is not") {
			t.Errorf("%q: %v", value, err)
		}
	}
	for endpoint, want := range map[string]string{"http://a:4318": "http://a:4318/v1/traces",
		"http://a/x/": "http://a/x/v1/traces", "http://a/v1/traces": "http://a/v1/traces"} {
		if got := address(endpoint); got != want {
			t.Errorf("%s: %s", endpoint, got)
		}
	}
}

// newTracer returns a tracer that sends to a handler.
func newTracer(t *testing.T, handle http.HandlerFunc) *Tracer {
	t.Helper()
	server := httptest.NewServer(handle)
	t.Cleanup(server.Close)
	dir := filepath.Join(t.TempDir(), box.FolderName)
	options := &box.Options{KeyFile: filepath.Join(t.TempDir(), "box.key")}
	if _, err := box.Init(t.Context(), dir, "ann", options); err != nil {
		t.Fatal(err)
	}
	b, err := box.Open(t.Context(), dir, options)
	must.Succeed(t, err)
	t.Cleanup(func() { b.Close() })
	b.Config.Traces = config.Traces{Endpoint: server.URL}
	tracer, err := New(b,
		Options{delays: &delays{collect: time.Millisecond, retry: time.Millisecond,
			most: time.Millisecond, send: time.Minute, drain: time.Minute}})
	must.Succeed(t, err)
	return tracer
}

// count returns how many spans a request has.
func count(t *testing.T, r *http.Request) int64 {
	var request jsonRequest
	if err := json.NewDecoder(r.Body).Decode(&request); err != nil {
		t.Error(err)
		return 0
	}
	return int64(len(request.ResourceSpans[0].ScopeSpans[0].Spans))
}

// Spans that the collector does not accept are sent again, in requests of limited size.
func TestTracesAreSentAgain(t *testing.T) {
	var requests, got atomic.Int64
	tracer := newTracer(t, func(w http.ResponseWriter, r *http.Request) {
		if requests.Add(1) <= 3 {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		n := count(t, r)
		if n > maxRequest {
			t.Errorf("a request with %d spans", n)
		}
		got.Add(n)
	})
	tracer.mu.Lock()
	tracer.add(make([]span, 3*maxRequest+1))
	tracer.mu.Unlock()
	followed := make(chan struct{})
	close(followed)
	tracer.send(t.Context(), followed)
	if got.Load() != 3*maxRequest+1 || requests.Load() != 7 {
		t.Errorf("%d spans in %d requests", got.Load(), requests.Load())
	}
}

// While the collector accepts nothing, only the newest spans are kept.
func TestOldTracesAreDropped(t *testing.T) {
	tracer := newTracer(t, func(http.ResponseWriter, *http.Request) {})
	tracer.mu.Lock()
	defer tracer.mu.Unlock()
	for i := range maxSpans + 10 {
		tracer.add([]span{{name: fmt.Sprint(i)}})
	}
	if len(tracer.spans) != maxSpans || tracer.spans[0].name != "10" || tracer.dropped != 10 {
		t.Errorf("%d spans from %s, %d dropped", len(tracer.spans), tracer.spans[0].name,
			tracer.dropped)
	}
}

func TestNoTraces(t *testing.T) {
	b := &box.Box{Config: config.Default()}
	if tracer, err := New(b, Options{}); tracer != nil || err != nil {
		t.Errorf("%v, %v", tracer, err)
	}
}
