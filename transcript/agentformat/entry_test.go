package agentformat_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	. "signalbox/transcript/agentformat"
)

func TestParseEntries(t *testing.T) {
	for line, want := range map[string][]Entry{
		// claude
		`{"type":"assistant","message":{"content":[{"type":"thinking","thinking":"Hm."},{"type":"text","text":"I look.\nTwice."},{"type":"tool_use","id":"toolu_1","name":"Read","input":{"file_path":"auth.go"}}]},"parent_tool_use_id":null}`: {
			{Kind: EntryThinking, Text: "Hm."}, {Kind: EntryText, Text: "I look.\nTwice."},
			{Kind: EntryToolCall, Text: "Read auth.go", Tool: "Read", Call: "toolu_1"}},
		`{"type":"assistant","message":{"content":[{"type":"text","text":"below"}]},"parent_tool_use_id":"toolu_1"}`: {{Kind: EntryText, Text: "below", Nested: true}},
		`{"type":"user","message":{"content":[{"type":"tool_result","tool_use_id":"toolu_1","content":"12 files"},{"type":"tool_result","is_error":true,"content":[{"type":"text","text":"no"},{"type":"text","text":"file"}]}]}}`: {
			{Kind: EntryToolResult, Text: "12 files", Call: "toolu_1"},
			{Kind: EntryToolResult, Text: "no\nfile", Failed: true}},
		`{"type":"user","message":{"content":"the prompt"}}`:                                        nil,
		`{"type":"result","subtype":"success","is_error":false,"result":"said before"}`:             nil,
		`{"type":"result","subtype":"error_during_execution","is_error":true,"result":"no credit"}`: {{Kind: EntryError, Text: "no credit"}},
		`{"type":"system","subtype":"init","tools":["Bash"]}`:                                       nil,
		`{"type":"stream_event","event":{"delta":{"text":"I lo"}}}`:                                 nil,
		// codex
		`{"type":"item.started","item":{"id":"item_1","type":"command_execution","command":"go test","aggregated_output":"","exit_code":null,"status":"in_progress"}}`: {{Kind: EntryToolCall, Text: "go test", Tool: "command_execution", Call: "item_1"}},
		`{"type":"item.completed","item":{"id":"item_1","type":"command_execution","command":"go test","aggregated_output":"FAIL\n","exit_code":1,"status":"failed"}}`: {{Kind: EntryToolResult, Text: "FAIL\n", Call: "item_1", Failed: true}},
		`{"type":"item.completed","item":{"type":"command_execution","command":"go vet","aggregated_output":"ok","exit_code":0,"status":"completed"}}`:                 {{Kind: EntryToolResult, Text: "ok"}},
		`{"type":"item.completed","item":{"type":"agent_message","text":"Done."}}`:                                                                                     {{Kind: EntryText, Text: "Done."}},
		`{"type":"item.started","item":{"type":"agent_message","text":"Do"}}`:                                                                                          nil,
		`{"type":"item.completed","item":{"type":"reasoning","text":"Hm."}}`:                                                                                           {{Kind: EntryThinking, Text: "Hm."}},
		`{"type":"item.completed","item":{"type":"file_change","changes":[{"path":"a.go","kind":"add"},{"path":"b.go"}]}}`:                                             {{Kind: EntryToolCall, Text: "edit a.go, b.go", Tool: "file_change"}},
		`{"type":"item.completed","item":{"type":"mcp_tool_call","tool":"get_status","result":{"content":[{"type":"text","text":"ok"}]},"status":"done"}}`:             {{Kind: EntryToolResult, Text: "ok"}},
		`{"type":"item.completed","item":{"type":"error","message":"no metadata"}}`:                                                                                    {{Kind: EntryError, Text: "no metadata"}},
		`{"type":"error","message":"Reconnecting"}`:                                                                                                                    {{Kind: EntryError, Text: "Reconnecting"}},
		`{"type":"turn.failed","error":{"message":"unauthorized"}}`:                                                                                                    {{Kind: EntryError, Text: "unauthorized"}},
		`{"type":"turn.completed","usage":{"input_tokens":20}}`:                                                                                                        nil,
		// gemini
		`{"type":"message","role":"user","content":"Do it"}`:                                                  nil,
		`{"type":"message","role":"assistant","content":"Let me","delta":true}`:                               {{Kind: EntryText, Text: "Let me", Partial: true}},
		`{"type":"tool_use","tool_name":"run_shell_command","tool_id":"1","parameters":{"command":"cat a"}}`:  {{Kind: EntryToolCall, Text: "run_shell_command cat a", Tool: "run_shell_command", Call: "1"}},
		`{"type":"tool_result","tool_id":"1","status":"success","output":"notes"}`:                            {{Kind: EntryToolResult, Text: "notes", Call: "1"}},
		`{"type":"tool_result","tool_id":"1","status":"error","error":{"type":"x","message":"no such file"}}`: {{Kind: EntryToolResult, Text: "no such file", Call: "1", Failed: true}},
		`{"type":"result","status":"success","stats":{"total_tokens":30}}`:                                    nil,
		`{"type":"result","status":"error","error":{"type":"unknown","message":"[API Error]"}}`:               {{Kind: EntryError, Text: "[API Error]"}},
		// opencode
		`{"type":"text","part":{"type":"text","text":"Look"}}`: {{Kind: EntryText, Text: "Look"}},
		`{"type":"tool_use","part":{"type":"tool","tool":"bash","callID":"call_1","state":{"status":"completed","input":{"command":"cat a"},"output":"notes\n","title":"cat a","time":{"start":1794703022653,"end":1794703022866}}}}`: {
			{Kind: EntryToolCall, Text: "bash cat a", Tool: "bash", Call: "call_1"},
			{Kind: EntryToolResult, Text: "notes\n", Call: "call_1",
				Took: 213 * time.Millisecond}},
		`{"type":"tool_use","part":{"type":"tool","tool":"bash","state":{"status":"error","input":{"command":"cat a"},"error":"denied"}}}`: {
			{Kind: EntryToolCall, Text: "bash cat a", Tool: "bash"},
			{Kind: EntryToolResult, Text: "denied", Failed: true}},
		`{"type":"reasoning","part":{"text":"Hm."}}`:                                         {{Kind: EntryThinking, Text: "Hm."}},
		`{"type":"error","error":{"name":"APIError","data":{"message":"scripted failure"}}}`: {{Kind: EntryError, Text: "scripted failure"}},
		`{"type":"step_finish","part":{"reason":"stop","tokens":{"total":15}}}`:              nil,
		// oracle
		`{"type":"content","turn":1,"text":"It "}`:                                           {{Kind: EntryText, Text: "It ", Partial: true, Turn: 1}},
		`{"type":"reasoning","turn":1,"text":"Hm."}`:                                         {{Kind: EntryThinking, Text: "Hm.", Partial: true, Turn: 1}},
		`{"type":"tool_call","turn":1,"id":"c","name":"read_file","arguments":{"path":"a"}}`: {{Kind: EntryToolCall, Text: "read_file a", Tool: "read_file", Call: "c"}},
		`{"type":"tool_result","turn":1,"id":"c","name":"n","ok":false,"text":"no such"}`:    {{Kind: EntryToolResult, Text: "no such", Call: "c", Failed: true}},
		`{"type":"system","turn":1,"name":"reply_restarted"}`:                                {{Kind: EntryText, Withdrawn: true}},
		// unknown shapes show nothing
		`{"type":"assistant","message":"text"}`:              nil,
		`{"type":"item.completed","item":{"type":"todo"}}`:   nil,
		`{"type":"news","is_error":[1],"ok":{},"status":[]}`: nil,
	} {
		got, ok := ParseEntries([]byte(line))
		if diff := cmp.Diff(want, got); !ok || diff != "" {
			t.Errorf("%s: %v (-want +got):\n%s", line, ok, diff)
		}
	}
	for _, line := range []string{`{`, `null`, `[]`, `{"kind":"x"}`, `text`} {
		if entries, ok := ParseEntries([]byte(line)); ok {
			t.Errorf("%s is an event with %v", line, entries)
		}
	}
}
