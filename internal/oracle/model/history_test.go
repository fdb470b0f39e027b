package model

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"signalbox/internal/rehearsal/modelserver"
	"signalbox/internal/testkit/must"
)

// long returns a conversation with everything that can occur in one.
func long() Request {
	return Request{
		System: "Be brief.",
		Messages: []Message{
			{Role: User, Text: "Where is <main>?"},
			{Role: User, Text: " \n"},
			{Role: User, Text: "And why?"},
			{Role: Assistant},
			{Role: Assistant, Text: "Looking.",
				Calls: []Call{{"a", "search_code", `{"query": "main"}`},
					{"b", "read_file", `{"path": "unfinished`}, {"c", "list.files", ""}}},
			{Role: Tool, Results: []Result{{CallID: "b", Name: "read_file", Text: "no such file",
				Failed: true}}},
			{Role: Tool, Results: []Result{{CallID: "a", Name: "search_code",
				Text: "main.go:1 \xff"}}},
			{Role: User, Text: "Hurry."},
			{Role: Assistant, Calls: []Call{{"d", "search_code", `["no object"]`}}},
			{Role: Tool, Results: []Result{{CallID: "d", Text: ""}}},
		},
		Tools: []ToolSpec{{Name: "search_code", Description: "Search.",
			Schema: json.RawMessage(
				`{"type":"object","properties":{"z":{"type":"string"},"a":{"maximum":12345678901234567890}}}`)},
			{Name: "list-files"}},
	}
}

func TestRequestBody(t *testing.T) {
	want := map[Provider]string{
		OpenAI: `{"messages":[
			{"content":"Be brief.","role":"system"},
			{"content":"Where is <main>?\n\nAnd why?","role":"user"},
			{"content":"Looking.","role":"assistant","tool_calls":[
				{"id":"a","type":"function","function":{"name":"search_code","arguments":"{\"query\": \"main\"}"}},
				{"id":"b","type":"function","function":{"name":"read_file","arguments":"{\"path\": \"unfinished"}},
				{"id":"c","type":"function","function":{"name":"list_files","arguments":"{}"}}]},
			{"role":"tool","tool_call_id":"a","content":"main.go:1 �"},
			{"role":"tool","tool_call_id":"b","content":"no such file"},
			{"role":"tool","tool_call_id":"c","content":"there is no result: the call was interrupted"},
			{"role":"user","content":"Hurry."},
			{"role":"assistant","tool_calls":[{"id":"d","type":"function","function":{"name":"search_code","arguments":"[\"no object\"]"}}]},
			{"role":"tool","tool_call_id":"d","content":""}],
			"tools":[{"type":"function","function":{"name":"search_code","description":"Search.","parameters":{"type":"object","properties":{"z":{"type":"string"},"a":{"maximum":12345678901234567890}}}}},
				{"type":"function","function":{"name":"list-files","parameters":{"type":"object","properties":{}}}}],
			"model":"rehearsal","max_tokens":77,"stream":true,"stream_options":{"include_usage":true}}`,
		Anthropic: `{"system":[{"type":"text","text":"Be brief."}],"messages":[
			{"role":"user","content":[{"type":"text","text":"Where is <main>?\n\nAnd why?"}]},
			{"role":"assistant","content":[{"type":"text","text":"Looking."},
				{"type":"tool_use","id":"a","name":"search_code","input":{"query":"main"}},
				{"type":"tool_use","id":"b","name":"read_file","input":{"_raw":"{\"path\": \"unfinished"}},
				{"type":"tool_use","id":"c","name":"list_files","input":{}}]},
			{"role":"user","content":[
				{"type":"tool_result","tool_use_id":"a","content":[{"type":"text","text":"main.go:1 �"}]},
				{"type":"tool_result","tool_use_id":"b","content":[{"type":"text","text":"no such file"}],"is_error":true},
				{"type":"tool_result","tool_use_id":"c","content":[{"type":"text","text":"there is no result: the call was interrupted"}],"is_error":true},
				{"type":"text","text":"Hurry."}]},
			{"role":"assistant","content":[{"type":"tool_use","id":"d","name":"search_code","input":{"_raw":"[\"no object\"]"}}]},
			{"role":"user","content":[{"type":"tool_result","tool_use_id":"d"}]}],
			"tools":[{"name":"search_code","description":"Search.","input_schema":{"type":"object","properties":{"z":{"type":"string"},"a":{"maximum":12345678901234567890}}}},
				{"name":"list-files","input_schema":{"type":"object","properties":{}}}],
			"model":"rehearsal","max_tokens":77,"stream":true}`,
	}
	both(t, func(t *testing.T, p Provider) {
		s := newStage(t, p, play(say("Here.")), &Options{MaxTokens: 77})
		if r, _ := reply(t, s.client, long()); r.Text != "Here." {
			t.Errorf("%+v", r)
		}
		body := s.server.Requests()[0].Body
		if diff := cmp.Diff(parse(t, []byte(want[p])), parse(t, body)); diff != "" {
			t.Errorf("request (-want +got):\n%s", diff)
		}
		if want := `{"type":"object","properties":{"z":{"type":"string"},"a":{"maximum":12345678901234567890}}}`; !strings.Contains(string(body), want) {
			t.Errorf("the schema is not sent as it is:\n%s", body)
		}
	})
}

func parse(t *testing.T, text []byte) any {
	t.Helper()
	var v any
	must.Succeed(t, json.Unmarshal(text, &v))
	return v
}

// TestTurns plays a complete conversation with tools, as an agent does.
func TestTurns(t *testing.T) {
	both(t, func(t *testing.T, p Provider) {
		s := newStage(t, p, play(
			modelserver.Turn{Parts: []modelserver.Part{{Text: "Looking."},
				call("", "search_code", `{"query":"main"}`), call("", "search_code", `"{broken"`)}},
			modelserver.Turn{Match: &modelserver.Match{Result: "^main.go:1$", Turn: 2},
				Parts: []modelserver.Part{{Text: "In main.go."}}},
		), nil)
		req := ask("Where is main?")
		req.Tools = []ToolSpec{{Name: "search_code"}}
		first, _ := reply(t, s.client, req)
		req.Messages = append(req.Messages, Message{Role: Assistant, Text: first.Text,
			Calls: first.Calls}, Message{Role: Tool, Results: []Result{
			{CallID: first.Calls[0].ID, Text: "main.go:1"},
			{CallID: first.Calls[1].ID, Text: "not JSON", Failed: true}}})
		req.Tools = nil // the last turn must answer
		if r, _ := reply(t, s.client, req); r.Text != "In main.go." {
			t.Errorf("%+v", r)
		}
		last := s.server.Requests()[1]
		if p == Anthropic &&
			(len(last.Tools) != 1 ||
				!strings.Contains(string(last.Body), `"tool_choice":{"type":"none"}`)) {
			t.Errorf("the tool that was called earlier is not declared, or not forbidden: %s",
				last.Body)
		}
		if p == OpenAI && len(last.Tools) > 0 {
			t.Errorf("tools %v", last.Tools)
		}
	})
}

func TestMaxCompletionTokens(t *testing.T) {
	c := newClient(t, OpenAI, &Options{Key: "k", MaxTokens: 5})
	h, err := newHistory(ask("hello"))
	must.Succeed(t, err)
	body, err := c.protocol.encode(c, h)
	if err != nil || !strings.Contains(string(body), `"max_completion_tokens":5`) ||
		strings.Contains(string(body), `"max_tokens"`) {
		t.Errorf("%s, %v", body, err)
	}
}

func TestInvalidRequests(t *testing.T) {
	user := Message{Role: User, Text: "hello"}
	calls := Message{Role: Assistant, Calls: []Call{{ID: "a", Name: "f"}}}
	result := Message{Role: Tool, Results: []Result{{CallID: "a"}}}
	tools := func(names ...string) (out []ToolSpec) {
		for _, n := range names {
			out = append(out, ToolSpec{Name: n})
		}
		return out
	}
	for _, tt := range []struct {
		req  Request
		want string
	}{
		{Request{}, "the conversation is empty"},
		{Request{Messages: []Message{{Role: User, Text: " "}}}, "the conversation is empty"},
		{Request{Messages: []Message{{Role: Assistant, Text: "x"}, user}},
			"does not begin with a user message"},
		{Request{Messages: []Message{user, {Role: Assistant, Text: "x"}}},
			"ends with an assistant message"},
		{Request{Messages: []Message{user, result}},
			`message 2 of the conversation: result for call "a"`},
		{Request{Messages: []Message{user, calls, user, result}},
			`message 4 of the conversation: result for call "a"`},
		{Request{Messages: []Message{user, calls, result, result}},
			`message 4 of the conversation: a second result for call "a"`},
		{Request{Messages: []Message{user, {Role: Assistant, Calls: []Call{{Name: "f"}}}}},
			"is empty or taken"},
		{Request{Messages: []Message{user, {Role: Assistant, Calls: []Call{{ID: "a"}, {ID: "a"}}}}},
			"is empty or taken"},
		{Request{Messages: []Message{{Role: User, Text: "x", Calls: calls.Calls}}}, "cannot have"},
		{Request{Messages: []Message{user, calls, {Role: Tool, Text: "x"}}},
			"can only have results"},
		{Request{Messages: []Message{{Role: "system", Text: "x"}}}, `unknown role "system"`},
		{Request{Messages: []Message{user}, Tools: tools("a.b")}, `tool name "a.b" is not valid`},
		{Request{Messages: []Message{user}, Tools: tools("")}, `tool name "" is not valid`},
		{Request{Messages: []Message{user}, Tools: tools(strings.Repeat("x", 65))}, "is not valid"},
		{Request{Messages: []Message{user}, Tools: tools("a", "a")}, "two tools have the name a"},
		{Request{Messages: []Message{user},
			Tools: []ToolSpec{{Name: "a", Schema: json.RawMessage(`[]`)}}}, "the schema of tool a"},
	} {
		both(t, func(t *testing.T, p Provider) {
			s := newStage(t, p, play(say("x")), nil)
			e := failed(t, s.client, tt.req)
			if e.Kind != ErrorRequest || !strings.Contains(e.Error(), tt.want) ||
				len(s.server.Requests()) > 0 {
				t.Errorf("%v, want %s", e, tt.want)
			}
		})
	}
}

// TestInterruptedCall checks that a conversation that was killed in the middle of a turn can
// continue.
func TestInterruptedCall(t *testing.T) {
	both(t, func(t *testing.T, p Provider) {
		s := newStage(t, p, play(say("Yes.")), nil)
		req := Request{Messages: []Message{{Role: User, Text: "hello"},
			{Role: Assistant, Calls: []Call{{"a", "f", "{}"}}}}}
		reply(t, s.client, req)
		got := s.server.Requests()[0].Messages
		if r := got[len(got)-1].Results; len(r) != 1 || r[0].Text != noResult ||
			r[0].Error != (p == Anthropic) {
			t.Errorf("results %+v", r)
		}
		if len(req.Messages[1].Calls) != 1 || req.Messages[1].Calls[0].Arguments != "{}" ||
			len(req.Messages) != 2 {
			t.Errorf("the caller's request was changed: %s", jsonText(t, req.Messages))
		}
	})
}

// TestCallIDsOfAnotherServer checks that a conversation can move from a server with long or
// repeated call ids to a strict one. Ids that every server accepts are kept.
func TestCallIDsOfAnotherServer(t *testing.T) {
	ids := [][]string{{"call_1", "functions.f:0", "ümlaut"},
		{"call_1", strings.Repeat("x", 41), "call_3_1"}, {"toolu_01-A", "call_10_1"},
		{"call_3_0", "call_1"}}
	var req Request
	for _, turn := range ids {
		calls, results := Message{Role: Assistant}, Message{Role: Tool}
		for _, id := range turn {
			calls.Calls = append(calls.Calls, Call{id, "f", "{}"})
			results.Results = append([]Result{{CallID: id, Text: "of " + id}}, results.Results...)
		}
		req.Messages = append(req.Messages, Message{Role: User, Text: "continue"}, calls, results)
	}
	both(t, func(t *testing.T, p Provider) {
		s := newStage(t, p, play(say("Yes.")), nil)
		reply(t, s.client, req)
		var got [][]string
		seen := map[string]bool{}
		for _, m := range s.server.Requests()[0].Messages {
			var turn []string
			for i, c := range m.Calls {
				if turn = append(turn, c.ID); seen[c.ID] {
					t.Errorf("two calls have the id %s", c.ID)
				}
				seen[c.ID] = true
				if len(ids[len(got)]) <= i {
					t.Fatalf("calls %+v", m.Calls)
				}
			}
			if len(turn) > 0 {
				got = append(got, turn)
			}
			for _, r := range m.Results {
				if n := slices.Index(got[len(got)-1], r.ID); n < 0 || r.Text != "of "+
					ids[len(got)-1][n] {
					t.Errorf("result %+v for the calls %v", r, ids[len(got)-1])
				}
			}
		}
		want := [][]string{{"call_1", "call_1_1", "call_1_2"}, {"call_4_0", "call_4_1", "call_3_1"},
			{"toolu_01-A", "call_10_1"}, {"call_3_0", "call_10_1_1"}}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("ids (-want +got):\n%s", diff)
		}
	})
}
