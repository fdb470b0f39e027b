package modelserver

import (
	"encoding/json"
	"flag"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/goccy/go-yaml"
	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"signalbox/internal/testkit/must"
	"signalbox/internal/testkit/property"
)

var update = flag.Bool("update", false, "write the golden files")

// TestGoldenStreams compares an answer with all features byte for byte, in each protocol, streamed
// and not.
func TestGoldenStreams(t *testing.T) {
	script := turns(`{"times":9,"parts":[
		{"reasoning":"Hm, <so>.","cut":{"at":[4]}},
		{"pieces":["Grüß ","Gott"]},
		{"call":{"id":"call_a","name":"look","arguments":{"q": "a & b"}},"cut":{"at":[5,9]}},
		{"text":" & more"},
		{"call":{"name":"look"}}],
		"usage":{"input":11,"output":22,"cached":3,"reasoning":4}}`)
	for _, protocol := range protocols {
		for _, stream := range []bool{true, false} {
			name := protocol + ".json"
			if stream {
				name = protocol + ".sse"
			}
			t.Run(name, func(t *testing.T) {
				path, body := ask(protocol, "hello", stream)
				body = strings.Replace(body, `"stream":true`,
					`"stream":true,"stream_options":{"include_usage":true}`, 1)
				got := newRig(t, script).do(t, "POST", path, body)
				if got.status != 200 || got.err != nil {
					t.Fatalf("%+v", got)
				}
				wantType := "application/json"
				if stream {
					wantType = "text/event-stream; charset=utf-8"
				}
				if ct := got.header.Get("Content-Type"); ct != wantType {
					t.Errorf("content type %q", ct)
				}
				golden(t, name, got.body)
			})
		}
	}
}

func golden(t *testing.T, name, got string) {
	t.Helper()
	file := filepath.Join("testdata", name)
	if *update {
		must.Succeed(t, os.WriteFile(file, []byte(got), 0o644))
	}
	want, err := os.ReadFile(file)
	must.Succeed(t, err)
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

// TestStreamIsWhole checks that an answer has the same content streamed and not streamed, however
// it is cut.
func TestStreamIsWhole(t *testing.T) {
	property.Check(t, func(rt *rapid.T) {
		turn := Turn{Times: 99, Parts: rapid.SliceOfN(rapid.Custom(drawPart), 0, 5).Draw(rt,
			"parts"),
			Finish: rapid.SampledFrom([]string{"", "stop", "length", "tool_calls",
				"content_filter"}).Draw(rt, "finish")}
		script, err := ParseScript("drawn",
			marshal(Script{Conversations: []Conversation{{Turns: []Turn{turn}}}}))
		if err != nil {
			rt.Fatal(err)
		}
		want := wanted(turn)
		for _, protocol := range protocols {
			server, err := New(script, nil)
			if err != nil {
				rt.Fatal(err)
			}
			whole := readWhole(rt, protocol, serve(server, protocol, false))
			stream := readStream(rt, protocol, serve(server, protocol, true))
			for i := range stream.Calls { // derived from the number of the request
				if strings.HasPrefix(stream.Calls[i].ID, "call_000002_") {
					stream.Calls[i].ID = strings.Replace(stream.Calls[i].ID, "2", "1", 1)
				}
			}
			if diff := cmp.Diff(whole, stream); diff != "" {
				rt.Fatalf("%s: -whole +stream:\n%s", protocol, diff)
			}
			for i := range whole.Calls {
				whole.Calls[i].ID = ""
			}
			got := content{Text: whole.Text, Reasoning: whole.Reasoning, Calls: whole.Calls}
			if diff := cmp.Diff(want, got); diff != "" {
				rt.Fatalf("%s: -script +client:\n%s", protocol, diff)
			}
		}
	})
}

func drawPart(t *rapid.T) Part {
	text := rapid.StringN(1, 12, -1).Draw(t, "text")
	p := Part{Text: text}
	cuttable := text
	switch rapid.IntRange(0, 3).Draw(t, "kind") {
	case 1:
		p = Part{Reasoning: text}
	case 2:
		return Part{Pieces: rapid.SliceOfN(rapid.String(), 1, 4).Draw(t, "pieces")}
	case 3:
		arguments := string(marshal(map[string]string{"a": text}))
		p, cuttable = Part{Call: &Call{Name: "tool", Arguments: json.RawMessage(arguments)}},
			arguments
	}
	switch rapid.IntRange(0, 2).Draw(t, "cut") {
	case 1:
		p.Cut.EveryByte = true
	case 2:
		at := rapid.SliceOfDistinct(rapid.IntRange(0, len(cuttable)), rapid.ID[int]).Draw(t, "at")
		slices.Sort(at)
		p.Cut.At = at
	}
	return p
}

func wanted(turn Turn) content {
	var c content
	for _, p := range turn.Parts {
		c.Text += p.Text + strings.Join(p.Pieces, "")
		c.Reasoning += p.Reasoning
		if p.Call != nil {
			c.Calls = append(c.Calls,
				MadeCall{Name: p.Call.Name, Arguments: string(p.Call.Arguments)})
		}
	}
	return c
}

// TestCuts checks that pieces are cut at the scripted places, but never inside a character.
func TestCuts(t *testing.T) {
	for _, test := range []struct {
		cut  string
		want []string
	}{
		{`"every byte"`, []string{"a", "ü", "b", "c"}},
		{`{"at":[1]}`, []string{"a", "übc"}},
		{`{"at":[2]}`, []string{"aü", "bc"}}, // in the ü
		{`{"at":[0,2,3,5]}`, []string{"aü", "bc"}},
		{`{"at":[]}`, []string{"aübc"}},
	} {
		var c Cut
		must.Succeed(t, yaml.Unmarshal([]byte(test.cut), &c))
		got, err := c.apply("aübc")
		if diff := cmp.Diff(test.want, got); err != nil || diff != "" {
			t.Errorf("%s: %v %s", test.cut, err, diff)
		}
	}
}

// TestTurnsInOrderAndByRule checks that turns without a rule come once each in order, and those
// with a rule whenever they match.
func TestTurnsInOrderAndByRule(t *testing.T) {
	r := newRig(t, `{"key_header":"X-Talk","conversations":[
		{"name":"second model","match":{"model":"^other$"},"turns":[{"times":2,"parts":[{"text":"other"}]}]},
		{"match":{"user":"^once"},"times":1,"turns":[{"times":9,"parts":[{"text":"only one talk"}]}]},
		{"turns":[
			{"match":{"user":"^time"},"parts":[{"text":"noon"}]},
			{"match":{"tool":"^gr.p$","system":"careful"},"times":1,"parts":[{"text":"ruled"}]},
			{"parts":[{"text":"one"}]},
			{"parts":[{"text":"two"}]},
			{"match":{"result":"^42$","turn":2},"parts":[{"text":"result"}]}]}]}`)
	say := func(talk, body string) string {
		got := r.do(t, "POST", "/v1/chat/completions", body, "X-Talk", talk)
		if got.status != 200 {
			return parseJSON(t, got.body).at("error", "message").str()
		}
		return readWhole(t, "chat", got.body).Text
	}
	user := func(text string) string { _, body := ask("chat", text, false); return body }
	ruled := `{"model":"m","messages":[{"role":"system","content":"be careful"},{"role":"user","content":"x"}],` +
		`"tools":[{"type":"function","function":{"name":"grep"}}]}`
	result := `{"model":"m","messages":[{"role":"user","content":"x"},{"role":"assistant","content":null,"tool_calls":[{"id":"c","type":"function",` +
		`"function":{"name":"f","arguments":"{}"}}]},{"role":"tool","tool_call_id":"c","content":"42"}]}`
	for i, step := range []struct{ talk, body, want string }{
		{"a", user("x"), "one"},
		{"b", user("x"), "one"},
		{"a", user("time?"), "noon"},
		{"a", ruled, "ruled"},
		{"a", ruled, "two"},
		{"a", result, "result"},
		{"a", user("time?"), "noon"},
		{"c", strings.Replace(user("x"), `"m"`, `"other"`, 1), "other"},
		{"d", user("once"), "only one talk"},
		{"e", user("once"), "one"},
		{"d", user("once"), "only one talk"},
	} {
		if got := say(step.talk, step.body); got != step.want {
			t.Errorf("step %d: %q, not %q", i, got, step.want)
		}
	}
	got := say("a", user("x"))
	for _, part := range []string{"test.yaml", `last user text "x"`,
		`turns[0]: the last user text does not match "^time"`,
		"turns[1] is used up", "turns[2] is used up", "turns[4]: turn is 1, not 2"} {
		if !strings.Contains(got, part) {
			t.Errorf("%q does not say %q", got, part)
		}
	}
}

// TestUnmatched checks that unmatched requests are refused in the form of the protocol, unless the
// script has otherwise.
func TestUnmatched(t *testing.T) {
	rule := `"conversations":[{"match":{"user":"^never$"},"turns":[]}]`
	for _, protocol := range protocols {
		r := newRig(t, "{"+rule+"}")
		for _, stream := range []bool{false, true} {
			got := r.ask(t, protocol, "hello", stream)
			message := parseJSON(t, got.body).at("error", "message").str()
			if got.status != 400 || !strings.Contains(message, `test.yaml: nothing`) ||
				!strings.Contains(message, `does not match "^never$"`) ||
				got.header.Get("X-Should-Retry") != "false" {
				t.Errorf("%s: %+v", protocol, got)
			}
		}
		r = newRig(t, "{"+rule+`,"otherwise":{"parts":[{"text":"well"}]}}`)
		for range 2 {
			if got := readWhole(t, protocol,
				r.ask(t, protocol, "hello", false).body); got.Text != "well" {
				t.Errorf("%s: %+v", protocol, got)
			}
		}
	}
}

// TestConversationsApart checks that a thousand concurrent conversations each have their own
// position in the script.
func TestConversationsApart(t *testing.T) {
	r := newRig(t, turns(`{"parts":[{"text":"one"}]}`,
		`{"faults":[{"kind":"status","status":503}],"parts":[{"text":"two"}]}`,
		`{"parts":[{"text":"three"}]}`))
	var wg sync.WaitGroup
	errs := make(chan string, 1000)
	for i := range 1000 {
		wg.Go(func() {
			protocol := protocols[i%len(protocols)]
			var got []string
			for range 4 {
				body := serveQuestion(r.Server, protocol, fmt.Sprint("talk ", i), false)
				if strings.Contains(body, `"error":{`) {
					got = append(got, "503")
					continue
				}
				got = append(got, readWhole(t, protocol, body).Text)
			}
			if !slices.Equal(got, []string{"one", "503", "two", "three"}) {
				errs <- fmt.Sprint(i, got)
			}
		})
	}
	wg.Wait()
	close(errs)
	for e := range errs {
		t.Error(e)
	}
	seen := map[int]bool{}
	for _, req := range r.Requests() {
		seen[req.Number] = true
	}
	if len(seen) != 4000 {
		t.Errorf("%d requests are recorded", len(seen))
	}
}

// TestOpeningIdentifiesConversations checks that conversations with the same preamble are distinct,
// and that a later question does not start a new one.
func TestOpeningIdentifiesConversations(t *testing.T) {
	r := newRig(t, turns(`{"parts":[{"text":"one"}]}`, `{"parts":[{"text":"two"}]}`))
	body := func(rest string) string {
		return `{"model":"m","input":[{"role":"user","content":"preamble"},{"role":"user","content":"` + rest + `]}`
	}
	for _, step := range []struct{ body, want string }{
		{body(`a"}`), "one"},
		{body(`b"}`), "one"},
		{body(`a"},{"role":"assistant","content":"one"},{"role":"user","content":"more"}`), "two"},
	} {
		if got := readWhole(t, "responses",
			r.do(t, "POST", "/v1/responses", step.body).body); got.Text != step.want {
			t.Errorf("%s: %q", step.body, got.Text)
		}
	}
}

// TestRecord checks that requests are recorded in order, parsed and without secrets.
func TestRecord(t *testing.T) {
	history := map[string]string{
		"chat": `{"model":"m","messages":[{"role":"system","content":"sys"},{"role":"user","content":[{"type":"text","text":"hi"}]},{"role":"assistant","content":"so",` +
			`"tool_calls":[{"id":"c1","type":"function","function":{"name":"look","arguments":"{\"a\":1}"}}]},{"role":"tool","tool_call_id":"c1","content":"found"}],` +
			`"tools":[{"type":"function","function":{"name":"look","description":"d","parameters":{"type":"object"}}}]}`,
		"responses": `{"model":"m","instructions":"sys","input":[{"type":"message","role":"user","content":[{"type":"input_text","text":"hi"}]},{"type":"reasoning","summary":[]},` +
			`{"role":"assistant","content":"so"},{"type":"function_call","call_id":"c1","name":"look","arguments":"{\"a\":1}"},` +
			`{"type":"function_call_output","call_id":"c1","output":"found"}],"tools":[{"type":"function","name":"look","description":"d","parameters":{"type":"object"}}]}`,
		"messages": `{"model":"m","max_tokens":5,"system":[{"type":"text","text":"sys"}],"messages":[{"role":"user","content":"hi"},{"role":"assistant","content":[{"type":"text","text":"so"},` +
			`{"type":"tool_use","id":"c1","name":"look","input":{"a":1}}]},{"role":"user","content":[{"type":"tool_result","tool_use_id":"c1","content":"found"}]}],` +
			`"tools":[{"name":"look","description":"d","input_schema":{"type":"object"}}]}`,
		"gemini": `{"systemInstruction":{"parts":[{"text":"sys"}]},"contents":[{"role":"user","parts":[{"text":"hi"}]},{"role":"model","parts":[{"text":"so"},` +
			`{"functionCall":{"id":"c1","name":"look","args":{"a":1}}}]},{"role":"user","parts":[{"functionResponse":{"id":"c1","name":"look","response":{"output":"found"}}}]}],` +
			`"tools":[{"functionDeclarations":[{"name":"look","description":"d","parameters":{"type":"object"}}]}]}`,
	}
	for _, protocol := range protocols {
		r := newRig(t, turns(`{"match":{"result":"found"},"parts":[{"text":"x"}]}`))
		path, _ := ask(protocol, "", false)
		got := r.do(t, "POST", path+"?key=s3cret&x=1", history[protocol], "Authorization",
			"Bearer s3cret", "X-Api-Key", "s3cret",
			"X-Goog-Api-Key", "s3cret", "Cookie", "a=s3cret", "X-Plain", "seen")
		if got.status != 200 {
			t.Fatalf("%s: %+v", protocol, got)
		}
		req := r.Requests()[0]
		if all := fmt.Sprintf("%+v", req); strings.Contains(all, "s3cret") ||
			req.Header.Get("X-Plain") != "seen" || !strings.Contains(req.Path, "x=1") {
			t.Errorf("%s: %s", protocol, all)
		}
		result, input := Result{ID: "c1", Text: "found"}, 12 // 45 bytes
		if protocol == "gemini" {
			result, input = Result{ID: "c1", Name: "look", Text: `{"output":"found"}`}, 15
		}
		want := Request{Number: 1, Protocol: protocol, Method: "POST", Model: "m", System: "sys", Conversation: "1",
			Outcome: "conversations[0].turns[0]", Status: 200, Usage: Usage{Input: input, Output: 1},
			Messages: []Message{{Role: RoleUser, Text: "hi"},
				{Role: RoleAssistant, Text: "so", Calls: []MadeCall{{"c1", "look", `{"a":1}`}}},
				{Role: RoleTool, Results: []Result{result}}},
			Tools: []Tool{{"look", "d", json.RawMessage(`{"type":"object"}`)}}}
		req.Header, req.Body, req.Path = nil, nil, ""
		if diff := cmp.Diff(want, req,
			cmp.FilterPath(func(p cmp.Path) bool { return p.Last().String() == ".usageAsked" },
				cmp.Ignore())); diff != "" {
			t.Errorf("%s: -want +got:\n%s", protocol, diff)
		}
	}
}

func TestRecordForgetsTheOldest(t *testing.T) {
	s, err := New(&Script{Otherwise: &Turn{}}, &Options{Keep: 2})
	must.Succeed(t, err)
	for range 5 {
		serve(s, "chat", false)
	}
	var numbers []int
	for _, req := range s.Requests() {
		numbers = append(numbers, req.Number)
	}
	if !slices.Equal(numbers, []int{4, 5}) {
		t.Errorf("%v", numbers)
	}
}

// TestModelsAndCounts checks the requests other than those for answers.
func TestModelsAndCounts(t *testing.T) {
	r := newRig(t, `{"models":["m","n"],"otherwise":{}}`)
	for _, test := range []struct {
		method, path, body, version string
		status                      int
		want                        []any
		value                       string
	}{
		{"GET", "/v1/models", "", "", 200, []any{"data", 1, "id"}, "n"},
		{"GET", "/v1/models/n", "", "", 200, []any{"id"}, "n"},
		{"GET", "/v1/models/z", "", "", 404, []any{"error", "code"}, "model_not_found"},
		{"GET", "/v1/models", "", "1", 200, []any{"last_id"}, "n"},
		{"GET", "/v1beta/models", "", "", 200, []any{"models", 0, "name"}, "models/m"},
		{"GET", "/v1beta/models/z", "", "", 404, []any{"error", "status"}, "NOT_FOUND"},
		{"POST", "/v1beta/models/m:embedContent", "{}", "", 404, []any{"error", "status"},
			"NOT_FOUND"},
		{"POST", "/v1/nothing", "{}", "", 404, []any{"error", "message"},
			"test.yaml: there is nothing at POST /v1/nothing"},
		{"GET", "/v1/messages", "", "1", 404, []any{"error", "type"}, "not_found_error"},
	} {
		header := []string{}
		if test.version != "" {
			header = []string{"Anthropic-Version", test.version}
		}
		got := r.do(t, test.method, test.path, test.body, header...)
		if value := parseJSON(t, got.body).at(test.want...).str(); got.status != test.status ||
			value != test.value {
			t.Errorf("%s %s: %+v", test.method, test.path, got)
		}
	}
	got := r.do(t, "POST", "/v1/messages/count_tokens",
		`{"model":"m","messages":[{"role":"user","content":"12345678"}]}`)
	if n := parseJSON(t, got.body).at("input_tokens").num(); n != 2 {
		t.Errorf("%+v", got)
	}
	got = r.do(t, "POST", "/v1beta/models/m:countTokens",
		`{"generateContentRequest":{"contents":[{"parts":[{"text":"123456789"}]}]}}`)
	if n := parseJSON(t, got.body).at("totalTokens").num(); n != 3 {
		t.Errorf("%+v", got)
	}
	if n := len(r.Requests()); n != 11 {
		t.Errorf("%d requests are recorded", n)
	}
}

// TestDelays checks that the server sleeps exactly as scripted.
func TestDelays(t *testing.T) {
	const ms = time.Millisecond
	script := turns(`{"delay":"5ms","every":"2ms","parts":[{"pieces":["a","b","c"]}]}`)
	for _, stream := range []bool{true, false} {
		r := newRig(t, script)
		r.ask(t, "chat", "x", stream)
		want := []time.Duration{5 * ms, 2 * ms, 2 * ms}
		if !stream {
			want = []time.Duration{5 * ms, 4 * ms}
		}
		if !slices.Equal(r.slept, want) {
			t.Errorf("stream %t: %v", stream, r.slept)
		}
	}
	r := newRig(t, turns(`{"drip":{"bytes":7,"every":"1ms"},"parts":[{"text":"ü"}]}`))
	got := r.ask(t, "messages", "x", true)
	if text := readStream(t, "messages", got.body).Text; text != "ü" {
		t.Errorf("%q", text)
	}
	if low := len(got.body)/7 - 1; len(r.slept) < low || r.slept[0] != ms {
		t.Errorf("%d waits for %d bytes", len(r.slept), len(got.body))
	}
}

func serve(s *Server, protocol string, stream bool) string {
	return serveQuestion(s, protocol, "x", stream)
}

func serveQuestion(s *Server, protocol, question string, stream bool) string {
	path, body := ask(protocol, question, stream)
	if protocol == "chat" && stream {
		body = strings.Replace(body, `"stream":true`,
			`"stream":true,"stream_options":{"include_usage":true}`, 1)
	}
	w := newRecorder()
	req := mustRequest("POST", path, body)
	req.Header.Set("Anthropic-Version", "1")
	s.ServeHTTP(w, req)
	return w.Body.String()
}

var _ http.Handler = (*Server)(nil)
