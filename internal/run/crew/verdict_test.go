package crew

import (
	"strings"
	"testing"

	"signalbox"
	"signalbox/internal/core/rules"
)

// agentFormats are the formats that scripted agents write.
func agentFormats() []signalbox.Format {
	return []signalbox.Format{signalbox.FormatPlain, signalbox.FormatClaude, signalbox.FormatCodex, signalbox.FormatGemini, signalbox.FormatOpencode}
}

// A turn that failed has no passing verdict, whatever was said in it.
func TestNoPassingVerdictOfAFailedTurn(t *testing.T) {
	for _, test := range []struct {
		name, steps, detail string
		skip                signalbox.Format // "" means none
	}{
		{"status", "exit-code 1", "exit status 1 after REVIEW_PASSED", ""},
		{"status after the end of the turn", "end\n    crash 9", "exit status 9 after REVIEW_PASSED", ""},
		{"killed", "end\n    signal-kill", "ended by SIGKILL after REVIEW_PASSED", ""},
		// A plain stream has no end of turn besides its own end.
		{"no end of the turn", "crash 0", "did not report the end of its turn after REVIEW_PASSED", signalbox.FormatPlain},
	} {
		for _, format := range agentFormats() {
			if format == test.skip {
				continue
			}
			t.Run(test.name+"/"+string(format), func(t *testing.T) {
				s := set(t, scene{
					plan:     task("T1"),
					settings: "roles: {critic: {agent: as-" + string(format) + "}}\n",
					script:   "on critic T1 attempt 1:\n    signal REVIEW_PASSED: {task}\n    " + test.steps + "\n",
				})
				s.run()
				s.wantCompleted("T1")
				if failed := only[rules.AgentFailed](s, "T1").Body; failed.Cause != string(rules.FailCrash) || failed.Detail != test.detail {
					t.Errorf("failed: %+v", failed)
				}
				if n := len(s.prompts("T1", "critic")); n != 2 {
					t.Errorf("%d critics, want two", n)
				}
			})
		}
	}
}

// A turn whose failure the program reports has no passing verdict, although its exit status is 0.
func TestNoPassingVerdictWithAReportedFailure(t *testing.T) {
	for format, lines := range map[signalbox.Format][]string{
		signalbox.FormatClaude: {
			`{"type":"assistant","message":{"content":[{"type":"text","text":"REVIEW_PASSED: T1"}]},"parent_tool_use_id":null,"session_id":"s-1"}`,
			`{"type":"result","subtype":"success","is_error":true,"result":"out of credit","session_id":"s-1"}`,
		},
		signalbox.FormatCodex: {
			`{"type":"item.completed","item":{"id":"item_1","type":"agent_message","text":"REVIEW_PASSED: T1"}}`,
			`{"type":"turn.failed","error":{"message":"out of credit"}}`,
		},
		signalbox.FormatGemini: {
			`{"type":"message","role":"assistant","content":"REVIEW_PASSED: T1"}`,
			`{"type":"result","status":"error","error":{"message":"out of credit"},"stats":{}}`,
		},
		signalbox.FormatOpencode: {
			`{"type":"text","sessionID":"s-1","part":{"text":"REVIEW_PASSED: T1"}}`,
			`{"type":"error","sessionID":"s-1","error":{"name":"APIError","data":{"message":"out of credit"}}}`,
		},
	} {
		t.Run(string(format), func(t *testing.T) {
			s := set(t, scene{
				plan:     task("T1"),
				settings: "roles: {critic: {agent: as-auto}}\n",
				script:   "on critic T1 attempt 1:\n    raw " + strings.Join(lines, "\n    raw ") + "\n    crash 0\n",
			})
			s.run()
			s.wantCompleted("T1")
			if failed := only[rules.AgentFailed](s, "T1").Body; failed.Detail != "reported a failure after REVIEW_PASSED: out of credit" {
				t.Errorf("failed: %+v", failed)
			}
			if n := len(s.prompts("T1", "critic")); n != 2 {
				t.Errorf("%d critics, want two", n)
			}
		})
	}
}

// An output that changes its format has no passing verdict. The agent is asked again, and told why.
func TestNoPassingVerdictInAMixedOutput(t *testing.T) {
	s := set(t, scene{
		plan:     task("T1"),
		settings: "roles: {critic: {agent: as-auto}}\n",
		script: `
on critic T1 attempt 1:
    raw {"type":"system","subtype":"init","session_id":"s-1"}
    raw {"type":"assistant","message":{"content":[{"type":"text","text":"REVIEW_PASSED: T1"}]},"parent_tool_use_id":null,"session_id":"s-1"}
    say Goodbye.
    raw {"type":"result","subtype":"success","is_error":false,"result":"REVIEW_PASSED: T1","session_id":"s-1"}
on critic T1 attempt 2:
    expect "detected as claude, but its line 3 is not JSON"
    signal REVIEW_PASSED: {task}
`})
	s.run()
	s.wantCompleted("T1")
	if recovery := only[rules.UnknownSignalRecovery](s, "T1").Body; !strings.Contains(recovery.Advice, "its line 3 is not JSON") {
		t.Errorf("recovery: %+v", recovery)
	}
}
