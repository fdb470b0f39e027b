package transcript

import (
	"strings"
	"testing"

	"signalbox"
)

func TestOriginAndUsage(t *testing.T) {
	for _, tt := range []struct {
		format         signalbox.Format
		lines          []string
		session, model string
		want           signalbox.Usage
	}{
		{signalbox.FormatClaude, []string{
			`{"type":"system","subtype":"init","session_id":"s-1","model":"claude-opus-5"}`,
			// A message is repeated for each part of its content.
			`{"type":"assistant","message":{"id":"m1","model":"claude-opus-5-5","content":[{"type":"text","text":"a"}],"usage":{"input_tokens":3,"cache_creation_input_tokens":100,"cache_read_input_tokens":50,"output_tokens":7}},"parent_tool_use_id":null,"session_id":"s-1"}`,
			`{"type":"assistant","message":{"id":"m1","model":"claude-opus-5-5","content":[{"type":"tool_use","name":"Bash"}],"usage":{"input_tokens":3,"cache_creation_input_tokens":100,"cache_read_input_tokens":50,"output_tokens":9}},"parent_tool_use_id":null,"session_id":"s-1"}`,
			`{"type":"assistant","message":{"id":"m2","model":"<synthetic>","content":[]},"parent_tool_use_id":null,"session_id":"s-1"}`,
		}, "s-1", "claude-opus-5-5", signalbox.Usage{InputTokens: 3, CacheWriteTokens: 100,
			CachedInputTokens: 50, OutputTokens: 9}},
		{signalbox.FormatCodex, []string{ // resumed twice
			`{"type":"thread.started","thread_id":"t-1"}`,
			`{"type":"turn.completed","usage":{"input_tokens":20,"cached_input_tokens":3,"output_tokens":10}}`,
			`{"type":"thread.started","thread_id":"t-1"}`,
			`{"type":"turn.completed","usage":{"input_tokens":50,"cached_input_tokens":13,"output_tokens":15}}`,
			`{"type":"thread.started","thread_id":"t-1"}`,
			`{"type":"turn.completed","usage":{"input_tokens":51,"cached_input_tokens":13,"output_tokens":16}}`,
		}, "t-1", "", signalbox.Usage{InputTokens: 51, CachedInputTokens: 13, OutputTokens: 16}},
		{signalbox.FormatGemini, []string{
			`{"type":"init","session_id":"g-1","model":"gemini-2.5-pro"}`,
			// 15 are thoughts
			`{"type":"result","status":"success","stats":{"total_tokens":45,"input_tokens":20,"output_tokens":10,"cached":0}}`,
		}, "g-1", "gemini-2.5-pro", signalbox.Usage{InputTokens: 20, OutputTokens: 25}},
		{signalbox.FormatOpencode, []string{
			`{"type":"step_finish","sessionID":"o-1","part":{"sessionID":"o-1","reason":"stop","tokens":{"input":10,"output":5,"cache":{"read":1,"write":4}},"cost":0.5}}`,
		}, "o-1", "", signalbox.Usage{InputTokens: 10, CachedInputTokens: 1, CacheWriteTokens: 4,
			OutputTokens: 5, CostUSD: 0.5}},
		{signalbox.FormatPlain, []string{"hello"}, "", "", signalbox.Usage{}},
	} {
		for _, format := range []signalbox.Format{tt.format, signalbox.FormatAuto} {
			s := NewScanner(&Options{Format: format})
			s.Push([]byte(strings.Join(tt.lines, "\n") + "\n"))
			if session, model := s.Origin(); session != tt.session || model != tt.model {
				t.Errorf("%s: session %q, model %q", tt.format, session, model)
			}
			if got := s.Report().Usage; got != tt.want {
				t.Errorf("%s: %+v, want %+v", tt.format, got, tt.want)
			}
		}
	}
	if session, model := NewScanner(nil).Origin(); session != "" || model != "" {
		t.Error("an empty stream has an origin")
	}
}
