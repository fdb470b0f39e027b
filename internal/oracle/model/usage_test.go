package model

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
)

// TestUsageIsEstimated checks that budgets of tokens and money also work with a server that reports
// no usage.
func TestUsageIsEstimated(t *testing.T) {
	b := func(n int) string { return strings.Repeat("x", n) }
	req := Request{System: b(400), Tools: []ToolSpec{{Name: b(40), Description: b(200), Schema: json.RawMessage(`{"x":"` + b(152) + `"}`)}}}
	req.Messages = []Message{{Role: User, Text: b(4000)},
		{Role: Assistant, Text: b(40), Calls: []Call{{"a", b(4), b(36)}}},
		{Role: Tool, Results: []Result{{CallID: "a", Text: b(400)}}}}
	chat := data(`{"choices":[{"delta":{"reasoning":"`+b(80)+`"}}]}`,
		`{"choices":[{"delta":{"content":"`+b(120)+`"}}]}`,
		`{"choices":[{"delta":{"tool_calls":[{"index":0,"id":"b","function":{"name":"`+b(8)+
			`","arguments":"`+b(32)+`"}}]},"finish_reason":"stop"}]}`, "[DONE]")
	messages := data(`{"type":"message_start","message":{"model":"m"}}`,
		`{"type":"content_block_delta","index":0,"delta":{"type":"thinking_delta","thinking":"`+
			b(80)+`"}}`,
		`{"type":"content_block_delta","index":1,"delta":{"type":"text_delta","text":"`+b(120)+
			`"}}`,
		`{"type":"content_block_start","index":2,"content_block":{"type":"tool_use","id":"b","name":"`+b(8)+`","input":{}}}`,
		`{"type":"content_block_delta","index":2,"delta":{"type":"input_json_delta","partial_json":"`+b(32)+`"}}`, `{"type":"message_stop"}`)
	for p, events := range map[Provider][]string{OpenAI: chat, Anthropic: messages} {
		c, _ := serve(t, p, sse(events...),
			&Options{Price: Price{Input: 1000, Output: 10_000, Cached: 1000}})
		got, _ := reply(t, c, req)
		want := Usage{Input: (400 + 400 + 4000 + 40 + 40 + 400) / 4, Output: (80 + 120 + 40) / 4,
			Reasoning: 20}
		want.CostUSD = (1320*1000 + 60*10_000) / 1e6
		if got.Usage != want {
			t.Errorf("%s: usage %+v, want %+v", p, got.Usage, want)
		}
	}
}

// TestImpossibleUsage checks that impossible counts are replaced by estimates, wherever they occur.
func TestImpossibleUsage(t *testing.T) {
	chat := func(in, out, cached, thought string) []string {
		return data(`{"choices":[{"delta":{"content":"Yes."},"finish_reason":"stop"}]}`,
			fmt.Sprintf(`{"choices":[],"usage":{"prompt_tokens":%s,"completion_tokens":%s,`+
				`"prompt_tokens_details":{"cached_tokens":%s},"completion_tokens_details":{"reasoning_tokens":%s}}}`, in, out, cached, thought), "[DONE]")
	}
	messages := func(in, created, cached, out string) []string {
		const text = `{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"Yes."}}`
		return data(fmt.Sprintf(
			`{"type":"message_start","message":{"usage":{"input_tokens":%s,"cache_creation_input_tokens":%s,"cache_read_input_tokens":%s,"output_tokens":1}}}`,
			in, created, cached), text,
			fmt.Sprintf(`{"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"output_tokens":%s}}`, out), `{"type":"message_stop"}`)
	}
	const huge = "9223372036854775807"
	estimated := Usage{Input: 2, Output: 1, CostUSD: 3}
	for name, tt := range map[string]struct {
		provider Provider
		events   []string
		want     Usage
	}{
		"negative input":      {OpenAI, chat("-900", "5", "0", "0"), estimated},
		"negative output":     {OpenAI, chat("900", "-5", "0", "0"), estimated},
		"negative cached":     {OpenAI, chat("900", "5", "-9", "0"), estimated},
		"negative reasoning":  {OpenAI, chat("900", "5", "0", "-1"), estimated},
		"huge input":          {OpenAI, chat(huge, "5", "0", "0"), estimated},
		"huge output":         {OpenAI, chat("900", huge, "0", "0"), estimated},
		"no input":            {OpenAI, chat("0", "0", "0", "0"), estimated},
		"no input but output": {OpenAI, chat("0", "5", "0", "0"), estimated},
		"more cached": {OpenAI, chat("900", "5", "1000", "0"),
			Usage{Known: true, Input: 900, Output: 5, Cached: 900, CostUSD: 905}},
		"hidden in a sum":     {Anthropic, messages("1000", "-900", "0", "5"), estimated},
		"sum that overflows":  {Anthropic, messages(huge, huge, "900", "5"), estimated},
		"negative at the end": {Anthropic, messages("900", "0", "0", "-5"), estimated},
		"right": {Anthropic, messages("800", "50", "50", "5"),
			Usage{Known: true, Input: 900, Output: 5, Cached: 50, CostUSD: 905}},
	} {
		t.Run(name, func(t *testing.T) {
			c, _ := serve(t, tt.provider, sse(tt.events...),
				&Options{Price: Price{Input: 1e6, Output: 1e6, Cached: 1e6}})
			if got, _ := reply(t, c, ask("hello")); got.Usage != tt.want {
				t.Errorf("usage %+v, want %+v", got.Usage, tt.want)
			}
		})
	}
}

// TestReasoningUsage checks that a message_delta without a count of reasoning keeps that of
// message_start, and one with a count corrects it.
func TestReasoningUsage(t *testing.T) {
	for details, want := range map[string]int64{"": 3,
		`,"output_tokens_details":{"thinking_tokens":7}`: 7} {
		c, _ := serve(t, Anthropic, sse(data(
			`{"type":"message_start","message":{"usage":{"input_tokens":9,"output_tokens":1,"output_tokens_details":{"thinking_tokens":3}}}}`,
			`{"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"output_tokens":8`+
				details+`}}`, `{"type":"message_stop"}`)...), nil)
		got, _ := reply(t, c, ask("hello"))
		if want := (Usage{Known: true, Input: 9, Output: 8, Reasoning: want}); got.Usage != want {
			t.Errorf("usage %+v, want %+v", got.Usage, want)
		}
	}
}

// TestLongReply checks that an endless reply is abandoned long before its body reaches the limit,
// whichever part is endless.
func TestLongReply(t *testing.T) {
	long := strings.Repeat("x", 1<<20)
	for name, event := range map[string]string{
		"text":      `{"choices":[{"delta":{"content":"` + long + `"}}]}`,
		"reasoning": `{"choices":[{"delta":{"reasoning":"` + long + `"}}]}`,
		"name": `{"choices":[{"delta":{"tool_calls":[{"index":0,"function":{"name":"` + long +
			`"}}]}}]}`,
		"arguments": `{"choices":[{"delta":{"tool_calls":[{"index":0,"id":"a","function":{"name":"f","arguments":"` + long + `"}}]}}]}`,
	} {
		t.Run(name, func(t *testing.T) {
			var sent atomic.Int64
			c, _ := serve(t, OpenAI, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Content-Type", "text/event-stream")
				for r.Context().Err() == nil {
					n, err := w.Write([]byte("data: " + event + "\n\n"))
					if sent.Add(int64(n)); err != nil {
						return
					}
				}
			}), nil)
			e := failed(t, c, ask("hello"))
			if e.Kind != ErrorServer || e.Tries != 1 || !errors.Is(e, errTooBig) ||
				sent.Load() > maxBody/2 {
				t.Errorf("%+v after %d bytes", e, sent.Load())
			}
		})
	}
}
