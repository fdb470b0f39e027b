package modelserver

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"signalbox/internal/testkit/must"
)

// TestWrongKey checks that each protocol looks for the key where its clients put it.
func TestWrongKey(t *testing.T) {
	headers := map[string][]string{
		"chat":      {"Authorization", "Bearer right"},
		"responses": {"Authorization", "Bearer right"},
		"messages":  {"X-Api-Key", "right"},
		"gemini":    {"X-Goog-Api-Key", "right"},
	}
	kinds := map[string]string{"chat": "invalid_api_key", "responses": "invalid_api_key",
		"messages": "authentication_error", "gemini": "API_KEY_INVALID"}
	for _, protocol := range protocols {
		r := newRig(t, `{"api_key":"right","otherwise":{}}`)
		if got := r.ask(t, protocol, "x", true, headers[protocol]...); got.status != 200 {
			t.Errorf("%s: %+v", protocol, got)
		}
		wrong := strings.Replace(headers[protocol][1], "right", "wrong", 1)
		want := map[bool]int{false: 401, true: 400}[protocol == "gemini"]
		for _, header := range [][]string{nil, {headers[protocol][0], wrong}} {
			got := r.ask(t, protocol, "x", true, header...)
			if got.status != want || !strings.Contains(got.body, kinds[protocol]) ||
				strings.Contains(got.body, "right") {
				t.Errorf("%s %v: %+v", protocol, header, got)
			}
		}
		models := map[bool]string{false: "/v1/models", true: "/v1beta/models"}[protocol == "gemini"]
		if got := r.do(t, "GET", models, ""); got.status != want {
			t.Errorf("%s: models without a key: %+v", protocol, got)
		}
	}
	r := newRig(t, `{"api_key":"right","otherwise":{}}`)
	path, body := ask("gemini", "x", false)
	if got := r.do(t, "POST", path+"?key=right", body); got.status != 200 {
		t.Errorf("the key in the query: %+v", got)
	}
}

// TestRefusals checks that invalid requests are refused with the messages of the real servers.
func TestRefusals(t *testing.T) {
	call := `{"role":"assistant","content":null,"tool_calls":[{"id":"c1","type":"function","function":{"name":"f","arguments":"{}"}}]}`
	use := `{"role":"assistant","content":[{"type":"tool_use","id":"c1","name":"f","input":{}}]}`
	user := `{"role":"user","content":"x"}`
	geminiUser := `{"role":"user","parts":[{"text":"x"}]}`
	geminiCall := `{"role":"model","parts":[{"functionCall":{"name":"f","args":{}}}]}`
	for _, test := range []struct {
		protocol, body string
		message        string
		param          string
	}{
		{"chat", `nonsense`, "We could not parse the JSON body", ""},
		{"chat", `{"messages":[` + user + `]}`, "you must provide a model parameter", ""},
		{"chat", `{"model":"m"}`, "Missing required parameter: 'messages'.", "messages"},
		{"chat", `{"model":"m","messages":[]}`, "Invalid 'messages': empty array", "messages"},
		{"chat", `{"model":"m","messages":[{"role":"robot","content":"x"}]}`,
			"Invalid value: 'robot'.", "messages[0].role"},
		{"chat", `{"model":"m","messages":[{"role":"user","content":7}]}`,
			"Invalid type for 'messages[0].content'", "messages[0].content"},
		{"chat", `{"model":"m","messages":[` + user +
			`,{"role":"tool","tool_call_id":"c1","content":"x"}]}`,
			"messages with role 'tool' must be a response", "messages.[1].role"},
		{"chat", `{"model":"m","messages":[` + user + `,` + call + `]}`,
			"did not have response messages: c1", "messages"},
		{"chat", `{"model":"m","messages":[` + user + `,` + call + `,` + user + `]}`,
			"did not have response messages: c1", "messages"},
		{"chat", `{"model":"m","messages":[` + user +
			`],"tools":[{"type":"function","function":{}}]}`, "'tools[0].function.name'",
			"tools[0].function.name"},
		{"responses", `{"input":"x"}`, "Missing required parameter: 'model'.", "model"},
		{"responses", `{"model":"m"}`, "Missing required parameter: 'input'.", "input"},
		{"responses", `{"model":"m","input":7}`, "Invalid type for 'input'", "input"},
		{"responses", `{"model":"m","input":"x","previous_response_id":"r1"}`,
			"Previous response with id 'r1' not found.", "previous_response_id"},
		{"responses", `{"model":"m","input":[{"role":"robot","content":"x"}]}`,
			"Invalid value: 'robot'.", "input[0]"},
		{"responses", `{"model":"m","input":[{"role":"user","content":{}}]}`,
			"Invalid type for 'input[0].content'", "input[0].content"},
		{"responses", `{"model":"m","input":[{"type":"function_call_output","call_id":"c1","output":"x"}]}`, "No tool call found for function call output with call_id c1.", "input"},
		{"responses", `{"model":"m","input":[{"type":"function_call","call_id":"c1","name":"f","arguments":"{}"}]}`, "No tool output found for function call c1.", "input"},
		{"responses", `{"model":"m","input":"x","tools":[{"type":"function"}]}`, "'tools[0].name'",
			"tools[0].name"},
		{"responses", `{"model":"m","input":"x","tools":[{}]}`, "'tools[0].type'", "tools[0].type"},
		{"messages", `nonsense`, "not valid JSON", ""},
		{"messages", `{"max_tokens":1,"messages":[` + user + `]}`, "model: Field required", ""},
		{"messages", `{"model":"m","messages":[` + user + `]}`, "max_tokens: Field required", ""},
		{"messages", `{"model":"m","max_tokens":0,"messages":[` + user + `]}`,
			"max_tokens: Input should be greater than or equal to 1", ""},
		{"messages", `{"model":"m","max_tokens":1}`, "messages: Field required", ""},
		{"messages", `{"model":"m","max_tokens":1,"messages":[]}`,
			"at least one message is required", ""},
		{"messages", `{"model":"m","max_tokens":1,"messages":[{"role":"robot","content":"x"}]}`,
			"messages.0.role: Input should be 'user' or 'assistant'", ""},
		{"messages", `{"model":"m","max_tokens":1,"messages":[{"role":"system","content":"x"}]}`,
			`Unexpected role "system"`, ""},
		{"messages", `{"model":"m","max_tokens":1,"messages":[{"role":"user"}]}`,
			"messages.0.content: Field required", ""},
		{"messages", `{"model":"m","max_tokens":1,"messages":[{"role":"user","content":7}]}`,
			"messages.0.content: Input should be a valid list", ""},
		{"messages", `{"model":"m","max_tokens":1,"messages":[{"role":"user","content":""}]}`,
			"text content blocks must be non-empty", ""},
		{"messages", `{"model":"m","max_tokens":1,"messages":[{"role":"user","content":[{}]}]}`,
			"messages.0.content.0.type: Field required", ""},
		{"messages", `{"model":"m","max_tokens":1,"messages":[{"role":"user","content":[{"type":"tool_result","tool_use_id":"c1","content":"x"}]}]}`,
			"messages.0.content.0: unexpected `tool_use_id` found in `tool_result` blocks: c1.",
			""},
		{"messages", `{"model":"m","max_tokens":1,"messages":[` + user + `,` + use + `,` + user +
			`]}`, "messages.1: `tool_use` ids were found without `tool_result` blocks immediately after: c1.", ""},
		{"messages", `{"model":"m","max_tokens":1,"messages":[` + user + `,` + use + `]}`,
			"messages.1: `tool_use` ids were found", ""},
		{"messages", `{"model":"m","max_tokens":1,"messages":[` +
			strings.Replace(use, "assistant", "user", 1) + `]}`,
			"can only be in `assistant` messages", ""},
		{"messages", `{"model":"m","max_tokens":1,"messages":[` + user +
			`],"tools":[{"input_schema":{}}]}`, "tools.0.name: Field required", ""},
		{"messages", `{"model":"m","max_tokens":1,"messages":[` + user +
			`],"tools":[{"name":"f"}]}`, "tools.0.input_schema: Field required", ""},
		{"gemini", `nonsense`, "Invalid JSON payload received.", ""},
		{"gemini", `{}`, "contents is not specified", ""},
		{"gemini", `{"contents":[{"role":"user","parts":[]}]}`, "contents[0].parts", ""},
		{"gemini", `{"contents":[{"role":"robot","parts":[{"text":"x"}]}]}`,
			"Please use a valid role: user, model.", ""},
		{"gemini", `{"contents":[{"role":"user","parts":[{"functionResponse":{"name":"f","response":{}}}]}]}`, "function response turn comes immediately after", ""},
		{"gemini", `{"contents":[` + geminiUser + `,` + geminiCall + `,` + geminiUser + `]}`,
			"number of function response parts", ""},
		{"gemini", `{"contents":[` + geminiUser + `,` + geminiCall + `]}`,
			"number of function response parts", ""},
		{"gemini", `{"contents":[` + geminiUser + `],"tools":[{"functionDeclarations":[{}]}]}`,
			"function_declarations[0].name", ""},
	} {
		r := newRig(t, `{"otherwise":{}}`)
		path, _ := ask(test.protocol, "", false)
		got := r.do(t, "POST", path, test.body)
		e := parseJSON(t, got.body).at("error")
		if got.status != 400 || !strings.Contains(e.at("message").str(), test.message) ||
			e.at("param").str() != test.param {
			t.Errorf("%s %s: %+v", test.protocol, test.body, got)
		}
		if req := r.Requests()[0]; req.Status != 400 ||
			!strings.HasPrefix(req.Outcome, "refused: ") {
			t.Errorf("recorded %d %q", req.Status, req.Outcome)
		}
	}
	got := newRig(t, `{"otherwise":{}}`).ask(t, "messages", "x", false, "Anthropic-Version", "")
	if got.status != 400 || !strings.Contains(got.body, "anthropic-version: header is required") {
		t.Errorf("%+v", got)
	}
}

// TestErrorShapes compares error bodies byte for byte.
func TestErrorShapes(t *testing.T) {
	want := map[string]string{
		"chat": `{"error":{"message":"The model ` + "`m`" +
			` does not exist or you do not have access to it.","type":"invalid_request_error","param":"model","code":"model_not_found"}}`,
		"responses": `{"error":{"message":"The model ` + "`m`" +
			` does not exist or you do not have access to it.","type":"invalid_request_error","param":"model","code":"model_not_found"}}`,
		"messages": `{"type":"error","error":{"type":"not_found_error","message":"model: m"},"request_id":"req_000001"}`,
		"gemini":   `{"error":{"code":404,"message":"models/m is not found for API version v1beta, or is not supported for generateContent.","status":"NOT_FOUND"}}`,
	}
	for _, protocol := range protocols {
		got := newRig(t, `{"models":["n"],"otherwise":{}}`).ask(t, protocol, "x", true)
		if diff := cmp.Diff(want[protocol], got.body); diff != "" || got.status != 404 {
			t.Errorf("%s: %d %s", protocol, got.status, diff)
		}
	}
}

// TestTooLong checks that a request that is too long is refused and its body not recorded.
func TestTooLong(t *testing.T) {
	r := newRig(t, `{"otherwise":{}}`)
	w := newRecorder()
	r.ServeHTTP(w, mustRequest("POST", "/v1/chat/completions", strings.Repeat(" ", maxBody+1)))
	if w.Code != 413 || r.Requests()[0].Body != nil {
		t.Errorf("%d %s", w.Code, w.Body)
	}
}

// TestScriptRefused checks that invalid scripts are refused with the place of the error.
func TestScriptRefused(t *testing.T) {
	for _, test := range []struct{ script, want string }{
		{`{"conversatoins":[]}`, `unknown field "conversatoins"`},
		{`{}`, "s.yaml: conversations: the list is empty"},
		{`{"conversations":[{"match":{},"turns":[]}]}`, "conversations[0].match: it is empty"},
		{`{"conversations":[{"match":{"user":"("},"turns":[]}]}`,
			"conversations[0].match.user: error parsing regexp"},
		{`{"conversations":[{"times":-1,"turns":[]}]}`, "conversations[0].times: -1 is negative"},
		{turns(`{"match":{"turn":-1}}`), "conversations[0].turns[0].match.turn: -1"},
		{turns(`{}`, `{"times":-1}`), "conversations[0].turns[1].times: -1"},
		{turns(`{"finish":"tired"}`), `finish: "tired" is not`},
		{turns(`{"delay":"-1s"}`), `"-1s" is not a duration`},
		{turns(`{"delay":5}`), `"5" is not a duration`},
		{turns(`{"drip":{"bytes":0,"every":"1s"}}`), "drip.bytes: 0 is less"},
		{turns(`{"parts":[{"text":"a","reasoning":"b"}]}`), "parts[0]: 2 of text"},
		{turns(`{"parts":[{"text":"a","cut":"often"}]}`), `cut: write "every byte"`},
		{turns(`{"parts":[{"text":"a","cut":{"in":[1]}}]}`), `cut: write "every byte"`},
		{turns(`{"parts":[{"text":"abc","cut":{"at":[2,1]}}]}`), "cut.at: 1 is out of order"},
		{turns(`{"parts":[{"text":"abc","cut":{"at":[4]}}]}`), "outside the 3 bytes"},
		{turns(`{"parts":[{"pieces":["a"],"cut":"every byte"}]}`), "pieces are cut already"},
		{turns(`{"parts":[{"call":{}}]}`), "call: name is missing"},
		{turns(`{"parts":[{"call":{"name":"f","arguments":[1]}}]}`),
			"neither an object nor a string"},
		{turns(`{"faults":[{"kind":"flood"}]}`), `faults[0].kind: "flood"`},
		{turns(`{"faults":[{"kind":"status"}]}`), "status: 0 is not between"},
		{turns(`{"faults":[{"kind":"status","status":500,"after_pieces":1}]}`),
			"a status precedes the answer"},
		{turns(`{"faults":[{"kind":"cut","status":500}]}`), "does not fit a fault of kind cut"},
		{turns(`{"faults":[{"kind":"cut","after_pieces":-1}]}`), "must not be negative"},
		{turns(`{"faults":[{"kind":"hang","after_bytes":1}]}`),
			"after_bytes is only for kind: cut"},
		{`{"otherwise":{"times":1}}`, "otherwise: it answers every request"},
	} {
		if _, err := ParseScript("s.yaml", []byte(test.script)); err == nil ||
			!strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: %v", test.script, err)
		}
	}
	if _, err := New(&Script{Otherwise: &Turn{Parts: []Part{{Text: "\xff"}}}}, nil); err == nil ||
		!strings.Contains(err.Error(), "not UTF-8") {
		t.Errorf("%v", err)
	}
}

// FuzzScript checks that a valid script survives encoding and decoding, and that errors are on one
// line.
func FuzzScript(f *testing.F) {
	f.Add([]byte(turns(`{"match":{"user":"a"},"delay":"1s","parts":[{"text":"abc","cut":{"at":[1]}},{"call":{"name":"f","arguments":"x"}}],"faults":[{"kind":"cut","after_bytes":3}]}`)))
	f.Add([]byte("otherwise: &o {times: 0, drip: {bytes: 3, every: 1s}}\nname: |\n  a\n"))
	f.Add([]byte(`{"otherwise":{"drip":{"bytes":1,"every":"1ms"},"parts":[{"reasoning":"r","cut":"every byte"}]}}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		one, err := ParseScript("s", data)
		if err != nil {
			if wrong := (*ScriptError)(nil); !errors.As(err, &wrong) ||
				strings.ContainsAny(err.Error(), "\r\n") {
				t.Fatalf("%T with several lines, or not a *ScriptError: %q", err, err)
			}
			return
		}
		written, err := json.Marshal(one)
		must.Succeed(t, err)
		two, err := ParseScript("s", written)
		if err != nil {
			t.Fatalf("%v: %s", err, written)
		}
		again, err := json.Marshal(two)
		if err != nil || string(again) != string(written) {
			t.Fatalf("%v: %s became %s", err, written, again)
		}
	})
}

// FuzzRequest checks that any request gets a JSON response: the answer or a 4xx error.
func FuzzRequest(f *testing.F) {
	for i, protocol := range protocols {
		_, body := ask(protocol, "x", false)
		f.Add(uint8(i), []byte(body))
	}
	f.Add(uint8(0), []byte(`{"model":"m","messages":[{"role":"tool","tool_call_id":"c"}]}`))
	f.Add(uint8(3), []byte(`{"contents":[{"parts":[{"functionResponse":{}}]}]}`))
	script, err := ParseScript("s", []byte(`{"otherwise":{"parts":[{"text":"a"}]}}`))
	must.Succeed(f, err)
	f.Fuzz(func(t *testing.T, which uint8, body []byte) {
		s, err := New(script, nil)
		must.Succeed(t, err)
		protocol := protocols[int(which)%len(protocols)]
		path, _ := ask(protocol, "", false)
		w := newRecorder()
		s.ServeHTTP(w, mustHeader(mustRequest("POST", path, string(body))))
		if s.Requests()[0].Stream {
			return
		}
		if !json.Valid(w.Body.Bytes()) || w.Code != 200 && w.Code != 400 {
			t.Fatalf("%d %s", w.Code, w.Body)
		}
	})
}
