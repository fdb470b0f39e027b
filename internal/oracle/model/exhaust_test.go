package model

import (
	"context"
	"fmt"
	"runtime"
	"strings"
	"testing"
)

// manyCalls returns the events of a reply with n tool calls, in every way in which servers send
// them.
func manyCalls(n int) map[string]struct {
	provider Provider
	events   []string
} {
	var separate, repeated, blocks []string
	var together strings.Builder
	for i := range n {
		separate = append(separate,
			fmt.Sprintf(`{"choices":[{"delta":{"tool_calls":[{"index":%d,"id":"c%d","function":{"name":"look","arguments":"{\"n\":"}}]}}]}`, i, i),
			fmt.Sprintf(`{"choices":[{"delta":{"tool_calls":[{"index":%d,"function":{"arguments":"%d}"}}]}}]}`, i, i))
		repeated = append(repeated,
			fmt.Sprintf(`{"choices":[{"delta":{"tool_calls":[{"index":0,"id":"c%d","function":{"name":"look","arguments":"{\"n\":"}}]}}]}`, i),
			fmt.Sprintf(`{"choices":[{"delta":{"tool_calls":[{"index":0,"function":{"arguments":"%d}"}}]}}]}`, i))
		// negative indexes too
		fmt.Fprintf(&together,
			`,{"index":%d,"id":"c%d","function":{"name":"look","arguments":"{\"n\":%d}"}}`, i-n/2,
			i, i)
		blocks = append(blocks,
			fmt.Sprintf(`{"type":"content_block_start","index":%d,"content_block":{"type":"tool_use","id":"c%d","name":"look","input":{}}}`, i, i),
			fmt.Sprintf(`{"type":"content_block_delta","index":%d,"delta":{"partial_json":"{\"n\":%d}"}}`, i, i))
	}
	const done = "[DONE]"
	return map[string]struct {
		provider Provider
		events   []string
	}{
		"one by one":    {OpenAI, append(separate, done)},
		"without index": {OpenAI, append(repeated, done)},
		"in one event": {OpenAI, []string{`{"choices":[{"delta":{"tool_calls":[` +
			together.String()[1:] + `]}}]}`, done}},
		"messages": {Anthropic, append(blocks, `{"type":"message_stop"}`)},
	}
}

// A reply with more calls than a working model makes is cut, and takes time in proportion to its
// length.
func TestTooManyCalls(t *testing.T) {
	const n = 3_000
	for name, c := range manyCalls(n) {
		t.Run(name, func(t *testing.T) {
			client, _ := serve(t, c.provider, sse(data(c.events...)...), nil)
			r, _ := reply(t, client, ask("hello"))
			if len(r.Calls) != MaxCalls || r.Dropped != n-MaxCalls || r.Stop != StopCalls {
				t.Fatalf("%d calls, %d dropped, stop %s", len(r.Calls), r.Dropped, r.Stop)
			}
			for i, call := range r.Calls {
				if call.ID != fmt.Sprint("c", i) || call.Name != "look" ||
					call.Arguments != fmt.Sprintf(`{"n":%d}`, i) {
					t.Fatalf("call %d is %+v", i, call)
				}
			}
		})
	}
}

// The memory for a reply grows with its length, even if names and arguments come in tiny pieces.
func TestTinyFragments(t *testing.T) {
	allocated := func(n int) uint64 {
		b := &replyBuilder{on: func(Event) {}}
		fragment := []byte(`{"choices":[{"delta":{"tool_calls":[{"index":7,"function":{"name":"n","arguments":" "}}]}}]}`)
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		for range n {
			if _, err := (chat{}).decode(b, "", fragment); err != nil {
				t.Fatal(err)
			}
		}
		runtime.ReadMemStats(&after)
		if r := b.reply(); len(r.Calls) != 1 || len(r.Calls[0].Name) != n ||
			len(r.Calls[0].Arguments) != n {
			t.Fatalf("%d calls", len(r.Calls))
		}
		return after.TotalAlloc - before.TotalAlloc
	}
	small, large := allocated(10_000), allocated(40_000)
	if large > 6*small {
		t.Errorf("%d bytes for 10,000 fragments, %d for 40,000", small, large)
	}
}

// After the time limit nothing more of a reply is handled, not even what has already arrived.
func TestCancelledWhileReading(t *testing.T) {
	var events []string
	for range 20 { // in one packet
		events = append(events, `{"choices":[{"delta":{"content":"x"}}]}`)
	}
	client, _ := serve(t, OpenAI, sse(data(append(events, "[DONE]")...)...), nil)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	handled := 0
	r, err := client.Reply(ctx, ask("hello"), func(Event) {
		handled++
		cancel()
	})
	if asError(t, r, err).Kind != ErrorCancelled || handled != 1 {
		t.Errorf("%d pieces were handled, %v", handled, err)
	}
}

// Neither numbers nor nesting of a hostile server break the reader.
func TestOddCalls(t *testing.T) {
	for name, event := range map[string]string{
		"huge index": `{"choices":[{"delta":{"tool_calls":[{"index":9223372036854775807,"id":"a","function":{"name":"look","arguments":"{}"}}]}}]}`,
		"no index":   `{"choices":[{"delta":{"tool_calls":[{"index":1e300,"id":"a","function":{"name":"look","arguments":"{}"}}]}}]}`,
	} {
		client, _ := serve(t, OpenAI, sse(data(event, "[DONE]")...), nil)
		if r, _ := reply(t, client, ask("hello")); len(r.Calls) != 1 || r.Calls[0].Name != "look" {
			t.Errorf("%s: %+v", name, r)
		}
	}
	deep := `{"choices":` + strings.Repeat("[", 1<<20) + strings.Repeat("]", 1<<20) + `}`
	client, _ := serve(t, OpenAI, sse(data(deep, "[DONE]")...), &Options{Tries: 1})
	if err := failed(t, client, ask("hello")); err.Kind != ErrorServer && err.Kind != ErrorDropped {
		t.Errorf("deep nesting: %v", err)
	}
}
