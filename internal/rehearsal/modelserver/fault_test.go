package modelserver

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestFaultStatus checks that each status comes Times times, in the form of the protocol, then the
// answer, then the next turn.
func TestFaultStatus(t *testing.T) {
	script := turns(`{"parts":[{"text":"answer"}],"faults":[
		{"kind":"status","status":429,"retry_after":"1500ms","times":2},
		{"kind":"status","status":500,"message":"own words"},{"kind":"status","status":503},{"kind":"status","status":529}]}`,
		`{"parts":[{"text":"next"}]}`)
	kinds := map[string][]string{
		"chat":      {"requests", "requests", "server_error", "server_error", "server_error"},
		"responses": {"requests", "requests", "server_error", "server_error", "server_error"},
		"messages": {"rate_limit_error", "rate_limit_error", "api_error", "api_error",
			"overloaded_error"},
		"gemini": {"RESOURCE_EXHAUSTED", "RESOURCE_EXHAUSTED", "INTERNAL", "UNAVAILABLE",
			"INTERNAL"},
	}
	for _, protocol := range protocols {
		r := newRig(t, script)
		for i, status := range []int{429, 429, 500, 503, 529} {
			got := r.ask(t, protocol, "x", i%2 == 0)
			e := parseJSON(t, got.body).at("error")
			kind := e.at("type").str() + e.at("status").str()
			if got.status != status || kind != kinds[protocol][i] ||
				got.header.Get("X-Should-Retry") != "" {
				t.Errorf("%s %d: %+v", protocol, i, got)
			}
			if want := map[bool]string{true: "2"}[status == 429]; got.header.Get(
				"Retry-After") != want {
				t.Errorf("%s %d: retry after %q", protocol, i, got.header.Get("Retry-After"))
			}
			if message := e.at("message").str(); message != "own words" &&
				(status == 500 || !strings.Contains(message, "test.yaml")) {
				t.Errorf("%s: %q", protocol, message)
			}
			if req := r.Requests()[i]; req.Status != status ||
				req.Outcome != "conversations[0].turns[0]: fault status" {
				t.Errorf("%s: recorded %d %q", protocol, req.Status, req.Outcome)
			}
		}
		for _, want := range []string{"answer", "next"} {
			if got := readWhole(t, protocol,
				r.ask(t, protocol, "x", false).body); got.Text != want {
				t.Errorf("%s: %+v", protocol, got)
			}
		}
	}
}

// TestFaultAlways checks that a fault with negative times never ends.
func TestFaultAlways(t *testing.T) {
	r := newRig(t, turns(
		`{"parts":[{"text":"never"}],"faults":[{"kind":"status","status":500,"times":-1}]}`))
	for range 20 {
		if got := r.ask(t, "chat", "x", true); got.status != 500 {
			t.Fatalf("%+v", got)
		}
	}
}

// TestFaultCut checks that the connection is closed at the scripted place, and that the next answer
// is complete.
func TestFaultCut(t *testing.T) {
	for _, protocol := range protocols {
		whole := newRig(t, turns(`{"parts":[{"pieces":["one","two","three"]}]}`)).ask(t, protocol,
			"x", true).body
		for _, test := range []struct {
			fault        string
			has, hasNone string
		}{
			{`"after_pieces":1`, `"one"`, `"two"`},
			{`"after_pieces":2`, `"two"`, `"three"`},
			{`"after_pieces":99`, `"three"`, "DONE"},
			{`"after_bytes":17`, ": ", `"one"`},
			{`"after_bytes":999999`, `"three"`, "DONE"},
		} {
			r := newRig(t, turns(
				`{"parts":[{"pieces":["one","two","three"]}],"faults":[{"kind":"cut",`+test.fault+
					`}]}`))
			got := r.ask(t, protocol, "x", true)
			if got.err == nil || !strings.HasPrefix(whole, got.body) ||
				!strings.Contains(got.body, test.has) || strings.Contains(got.body, test.hasNone) ||
				len(got.body) >= len(whole) {
				t.Errorf("%s %s: %v %q", protocol, test.fault, got.err, got.body)
			}
			if test.fault == `"after_bytes":17` && len(got.body) != 17 {
				t.Errorf("%s: %d bytes", protocol, len(got.body))
			}
			if again := readStream(t, protocol,
				r.ask(t, protocol, "x", true).body); again.Text != "onetwothree" {
				t.Errorf("%s: then %+v", protocol, again)
			}
			r = newRig(t, turns(`{"parts":[{"text":"one"}],"faults":[{"kind":"cut",`+test.fault+
				`}]}`))
			if got := r.ask(t, protocol, "x", false); got.err == nil || got.body == "" ||
				json.Valid([]byte(got.body)) {
				t.Errorf("%s %s, not streamed: %+v", protocol, test.fault, got)
			}
		}
		r := newRig(t, turns(`{"parts":[{"text":"one"}],"faults":[{"kind":"cut"}]}`))
		path, body := ask(protocol, "x", true)
		if got, err := r.try("POST", path, body); err == nil {
			t.Errorf("%s: cut at once: %+v", protocol, got)
		}
	}
}

// TestFaultMalformed checks that one invalid event is sent and the stream ends without the closing
// events.
func TestFaultMalformed(t *testing.T) {
	for _, protocol := range protocols {
		r := newRig(t, turns(
			`{"parts":[{"pieces":["one","two"]}],"faults":[{"kind":"malformed","after_pieces":1,"times":2}]}`))
		got := r.ask(t, protocol, "x", true)
		events := parseSSE(t, got.body)
		for i, e := range events {
			if json.Valid([]byte(e.data)) != (i < len(events)-1) {
				t.Errorf("%s: event %d of %d: %s", protocol, i, len(events), e.data)
			}
		}
		if got.err != nil || !strings.Contains(got.body, `"one"`) ||
			strings.Contains(got.body, `"two"`) {
			t.Errorf("%s: %+v", protocol, got)
		}
		if got := r.ask(t, protocol, "x", false); got.err != nil || got.status != 200 ||
			got.body == "" || json.Valid([]byte(got.body)) {
			t.Errorf("%s, not streamed: %+v", protocol, got)
		}
		if again := readStream(t, protocol,
			r.ask(t, protocol, "x", true).body); again.Text != "onetwo" {
			t.Errorf("%s: then %+v", protocol, again)
		}
	}
}

// TestFaultError checks the protocol's error event in the middle of a stream.
func TestFaultError(t *testing.T) {
	last := map[string]string{
		"chat":      `{"error":{"message":"sorry","type":"server_error","param":null,"code":null}}`,
		"messages":  `{"type":"error","error":{"type":"overloaded_error","message":"sorry"}}`,
		"gemini":    `{"error":{"code":529,"message":"sorry","status":"INTERNAL"}}`,
		"responses": `{"code":"server_error","message":"sorry"}`,
	}
	for _, protocol := range protocols {
		r := newRig(t, turns(
			`{"parts":[{"pieces":["one","two"]}],"faults":[{"kind":"error","status":529,"message":"sorry","after_pieces":1,"times":2}]}`))
		got := r.ask(t, protocol, "x", true)
		events := parseSSE(t, got.body)
		e := events[len(events)-1]
		data := e.data
		if protocol == "responses" {
			if e.name != "response.failed" {
				t.Errorf("the last event is %s", e.name)
			}
			data = string(marshal(parseJSON(t, e.data).at("response", "error").v))
		}
		if diff := cmp.Diff(last[protocol], data); diff != "" || got.status != 200 ||
			!strings.Contains(got.body, `"one"`) {
			t.Errorf("%s: %s", protocol, diff)
		}
		if got := r.ask(t, protocol, "x", false); got.status != 529 {
			t.Errorf("%s, not streamed: %+v", protocol, got)
		}
	}
}

// TestClientLeaves checks that an answer is repeated if the client disconnected before its end, and
// only then.
func TestClientLeaves(t *testing.T) {
	for _, protocol := range protocols {
		r := newRig(t, turns(`{"every":"1s","parts":[{"pieces":["one","two"]}]}`,
			`{"parts":[{"text":"next"}]}`))
		ctx, cancel := context.WithCancel(t.Context())
		path, body := ask(protocol, "x", true)
		req := mustHeader(mustRequest("POST", path, body).WithContext(ctx))
		w := newRecorder()
		r.ServeHTTP(leaver{w, `"one"`, cancel}, req)
		if got := w.Body.String(); !strings.Contains(got, `"one"`) ||
			strings.Contains(got, `"two"`) {
			t.Errorf("%s: %q", protocol, got)
		}
		if got := readStream(t, protocol, serve(r.Server, protocol, true)).Text; got != "onetwo" {
			t.Errorf("%s: the answer is not given again, but %q", protocol, got)
		}
		// A client that disconnects after the last event has the answer.
		end := map[string]string{"chat": "[DONE]", "responses": "response.completed", "messages": "message_stop", "gemini": `"STOP"`}[protocol]
		ctx, cancel = context.WithCancel(t.Context())
		r.ServeHTTP(leaver{newRecorder(), end, cancel},
			mustHeader(mustRequest("POST", path, body).WithContext(ctx)))
		if got := serve(r.Server, protocol, true); !strings.Contains(got, "is used up") {
			t.Errorf("%s: an answer that was given is given again: %s", protocol, got)
		}
	}
}

// leaver is a response writer whose client disconnects after a given text.
type leaver struct {
	http.ResponseWriter
	seen  string
	leave func()
}

func (l leaver) Write(p []byte) (int, error) {
	if strings.Contains(string(p), l.seen) {
		l.leave()
	}
	return l.ResponseWriter.Write(p)
}

func (l leaver) Unwrap() http.ResponseWriter { return l.ResponseWriter }

// TestBrokenArguments checks that invalid arguments are sent verbatim where the protocol allows it,
// and are an error elsewhere.
func TestBrokenArguments(t *testing.T) {
	script := turns(`{"times":9,"parts":[{"call":{"name":"f","arguments":"{\"a\":"}}]}`)
	for _, protocol := range protocols {
		r := newRig(t, script)
		if got := r.ask(t, protocol, "x", true).body; protocol == "gemini" {
			if !strings.Contains(got, "turns[0]: the arguments of the call of f") {
				t.Errorf("%s", got)
			}
		} else if c := readStream(t, protocol, got); c.Calls[0].Arguments != `{"a":` {
			t.Errorf("%s: %+v", protocol, c)
		}
		got := r.ask(t, protocol, "x", false)
		if protocol == "gemini" || protocol == "messages" {
			if got.status != 500 {
				t.Errorf("%s: %+v", protocol, got)
			}
		} else if c := readWhole(t, protocol, got.body); c.Calls[0].Arguments != `{"a":` {
			t.Errorf("%s: %+v", protocol, c)
		}
	}
}
