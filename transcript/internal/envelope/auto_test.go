package envelope

import (
	"testing"

	"signalbox"
)

// Formats share the names of types, so each is identified by its members.
func TestRecognize(t *testing.T) {
	for format, lines := range map[signalbox.Format][]string{
		signalbox.FormatClaude: {
			`{"type":"system","subtype":"init","session_id":"s","name":"n","text":"t"}`,
			`{"type":"assistant","message":{}}`, `{"type":"user","message":{}}`,
			`{"type":"result","is_error":false,"result":"r"}`,
			`{"type":"stream_event","event":{}}`,
			`{"type":"rate_limit_event","rate_limit_info":{}}`,
		},
		signalbox.FormatCodex: {
			`{"type":"thread.started","thread_id":"x"}`, `{"type":"turn.started"}`,
			`{"type":"turn.completed","usage":{}}`,
			`{"type":"turn.failed","error":{}}`, `{"type":"item.completed","item":{}}`,
		},
		signalbox.FormatGemini: {
			`{"type":"init","session_id":"s","model":"m"}`,
			`{"type":"message","role":"user","content":"c"}`,
			`{"type":"tool_use","tool_name":"n","tool_id":"i","parameters":{}}`,
			`{"type":"tool_result","tool_id":"i","status":"success","output":"o"}`,
			`{"type":"result","status":"success","stats":{}}`,
		},
		signalbox.FormatOpencode: {
			`{"type":"step_start","sessionID":"s","part":{}}`,
			`{"type":"text","sessionID":"s","part":{}}`,
			`{"type":"reasoning","sessionID":"s","part":{}}`,
			`{"type":"tool_use","sessionID":"s","part":{}}`,
			`{"type":"error","sessionID":"s","error":{},"name":"n","text":"t"}`,
		},
		signalbox.FormatOracle: {
			`{"type":"content","turn":1,"text":"t"}`, `{"type":"reasoning","turn":1,"text":"t"}`,
			`{"type":"tool_call","turn":1,"id":"i","name":"n","arguments":null}`,
			`{"type":"tool_result","turn":1,"id":"i","name":"n","ok":false,"text":"t"}`,
			`{"type":"sources","sources":[]}`,
			`{"type":"signal","turn":1,"signal":"stuck","confidence":0.5,"fields":null,"raw_xml":""}`,
			`{"type":"system","name":"resumed","text":"t"}`,
			`{"type":"system","name":"n","level":"warning","text":"t"}`,
			`{"type":"error","name":"no_access","text":"t"}`,
			`{"type":"done","reason":"answered","turns":1,"tokens":0,"cost_usd":0}`,
		},
		"": {
			`{"type":"error","message":"m"}`,
			`{"type":"error","severity":"error","message":"m","timestamp":"t"}`,
			`{"type":"content","text":"t"}`,
			`{"type":"content","turn":1}`, `{"type":"reasoning","text":"t"}`,
			`{"type":"tool_call","name":"n","arguments":{}}`,
			`{"type":"tool_result","text":"t"}`, `{"type":"sources"}`,
			`{"type":"signal","signal":"HUP"}`, `{"type":"system","text":"t"}`,
			`{"type":"done","reason":"r"}`, `{"turn":1,"text":"t"}`,
			`{"type":"content","turn":1,"text":"t"} `[:20], `[]`, `{}`,
		},
	} {
		for _, line := range lines {
			got := signalbox.Format("")
			if candidates, _ := recognize([]byte(line)); len(candidates) > 0 {
				got = candidates[0]
			}
			if got != format {
				t.Errorf("%s: %q, want %q", line, got, format)
			}
		}
	}
}
