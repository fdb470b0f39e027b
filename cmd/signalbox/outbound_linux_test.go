package main

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"signalbox/internal/testkit/must"
)

// collector is a server that gets traces and events.
type collector struct {
	*httptest.Server

	mu     sync.Mutex
	bodies map[string][]string // by path
	header http.Header         // of the last traces
}

func newCollector(t *testing.T) *collector {
	c := &collector{bodies: map[string][]string{}}
	c.Server = httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		c.mu.Lock()
		defer c.mu.Unlock()
		c.bodies[r.URL.Path] = append(c.bodies[r.URL.Path], string(body))
		if r.URL.Path == "/v1/traces" {
			c.header = r.Header
		}
	}))
	t.Cleanup(c.Close)
	return c
}

// tracedSpan is a span as a collector reads it.
type tracedSpan struct {
	TraceID, SpanID, ParentSpanID, Name string
	Start                               string `json:"startTimeUnixNano"`
	End                                 string `json:"endTimeUnixNano"`
	Attributes                          []struct {
		Key   string
		Value struct {
			StringValue string
			IntValue    string
			DoubleValue float64
		}
	}
	Events []struct{ Name string }
	Status struct{ Code int }
}

func (s *tracedSpan) attribute(name string) string {
	for _, a := range s.Attributes {
		if a.Key == name {
			return a.Value.StringValue + a.Value.IntValue
		}
	}
	return ""
}

// spans returns the spans that the collector got, by name.
func (c *collector) spans(t *testing.T) map[string][]tracedSpan {
	t.Helper()
	spans := map[string][]tracedSpan{}
	for _, body := range c.bodies["/v1/traces"] {
		var request struct {
			ResourceSpans []struct {
				ScopeSpans []struct{ Spans []tracedSpan }
			}
		}
		must.Succeed(t, json.Unmarshal([]byte(body), &request))
		for _, resource := range request.ResourceSpans {
			for _, scope := range resource.ScopeSpans {
				for _, s := range scope.Spans {
					spans[s.Name] = append(spans[s.Name], s)
				}
			}
		}
	}
	return spans
}

// A run sends traces of its tasks, agents and tools, and its events to a webhook.
func TestRunReportsElsewhere(t *testing.T) {
	c := newCollector(t)
	dir := t.TempDir()
	runProgram(t, dir, "init")
	for name, content := range map[string]string{
		"plan.md": "# A plan\n\n#### Task T1: Say something\n\n**Work**: do\n\n**Acceptance Criteria**:\n\n- [ ] done\n",
		"agents.script": `
on developer T1 attempt 1:
    say a word that stays here
    usage 1000 200 0.25
    run echo hello
    run exit 3
    signal READY_FOR_REVIEW: {task}
on critic T1 attempt 1:
    crash
on critic *:
    signal REVIEW_PASSED: {task}
on auditor *:
    signal AUDIT_PASSED: {task}
`,
		".signalbox/signalbox.yaml": `
agent: scripted
agents: {scripted: {command: [signalbox, rehearse, agent, --format, claude, agents.script], format: claude}}
workspace: shared
sandbox: off
webhooks: [{url: ` + c.URL + `/events, types: [PhaseChanged]}]
traces: {endpoint: ` + c.URL + `, headers_env: TRACE_HEADERS}
`} {
		must.Succeed(t, os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600))
	}
	runProgram(t, dir, "run", "plan.md", "--no-wait")

	spans := c.spans(t)
	one := func(name string) *tracedSpan {
		t.Helper()
		if len(spans[name]) != 1 {
			t.Fatalf("%d spans are called %s: %v", len(spans[name]), name, spans)
		}
		return &spans[name][0]
	}
	task, session := one("task T1"), one("developer T1")
	var turn *tracedSpan
	for i, s := range spans["invoke_agent scripted"] {
		if s.ParentSpanID == session.SpanID {
			turn = &spans["invoke_agent scripted"][i]
		}
		if s.attribute("signalbox.role") == "critic" &&
			s.attribute("signalbox.attempt") == "1" != (s.Status.Code == 2) {
			t.Errorf("the turn %v", s)
		}
	}
	if turn == nil || session.ParentSpanID != task.SpanID || task.ParentSpanID != "" {
		t.Fatalf("spans: %v", spans)
	}
	for name, want := range map[string]string{"gen_ai.operation.name": "invoke_agent",
		"gen_ai.agent.name": "scripted", "gen_ai.provider.name": "anthropic",
		"gen_ai.usage.input_tokens": "1000", "gen_ai.usage.output_tokens": "200",
		"signalbox.role": "developer", "signalbox.work": "T1"} {
		if got := turn.attribute(name); got != want {
			t.Errorf("%s is %q, want %q", name, got, want)
		}
	}
	if len(turn.Events) != 1 || turn.Events[0].Name != "signal" {
		t.Errorf("events of the turn: %v", turn.Events)
	}
	tools := spans["execute_tool Bash"]
	if len(tools) != 2 || tools[0].Status.Code == 2 || tools[1].Status.Code != 2 {
		t.Fatalf("tools: %v", spans)
	}
	for _, s := range append(tools, *turn, *session, *task) {
		if s.TraceID != task.TraceID || s.Start > s.End || s.Start < task.Start ||
			s.End > task.End {
			t.Errorf("the span %v is not in the time of its task %v", s, task)
		}
	}
	for _, s := range tools {
		if s.ParentSpanID != turn.SpanID || s.attribute("gen_ai.tool.name") != "Bash" ||
			s.attribute("gen_ai.operation.name") != "execute_tool" ||
			s.attribute("gen_ai.tool.call.id") == "" {
			t.Errorf("the tool %v", s)
		}
	}
	if c.header.Get("Authorization") != "Bearer abc" {
		t.Errorf("headers: %v", c.header)
	}
	all := strings.Join(c.bodies["/v1/traces"], "\n")
	for _, secret := range []string{"stays here", "echo hello", "Bearer"} {
		if strings.Contains(all, secret) {
			t.Errorf("the traces contain %q", secret)
		}
	}
	events := strings.Join(c.bodies["/events"], "\n")
	if n := len(c.bodies["/events"]); n < 4 || !strings.Contains(c.bodies["/events"][n-1],
		`"to":"COMPLETED"`) || strings.Count(events, `"type":"signalbox.PhaseChanged"`) != n {
		t.Errorf("events:\n%s", events)
	}
}

// runProgram runs the program in a folder, which must succeed.
func runProgram(t *testing.T, dir string, args ...string) {
	t.Helper()
	cmd := exec.Command("signalbox", args...)
	cmd.Dir, cmd.Env = dir, append(os.Environ(), "HOME="+dir, "XDG_CONFIG_HOME="+dir,
		"TRACE_HEADERS=Authorization=Bearer%20abc")
	if output, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("signalbox %v: %v\n%s", args, err, output)
	}
}

// A server sends the events of work that is done by hand to webhooks.
func TestServePublishes(t *testing.T) {
	c := newCollector(t)
	b := newTestBox(t)
	must.Succeed(t, os.WriteFile(filepath.Join(b.dir, "signalbox.yaml"),
		[]byte("webhooks: ["+c.URL+"/events]\n"), 0o600))
	_, _, stop := b.serving("--listen", "127.0.0.1:0")
	b.must("work", "open", "t1")
	if status := stop(); status != 0 {
		t.Errorf("status %d", status)
	}
	if len(c.bodies["/events"]) == 0 || !strings.Contains(c.bodies["/events"][0],
		`"type":"signalbox.WorkOpened"`) {
		t.Errorf("events: %v", c.bodies["/events"])
	}
}
