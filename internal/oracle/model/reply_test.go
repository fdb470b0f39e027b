package model

import (
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"signalbox/internal/rehearsal/modelserver"
	"signalbox/internal/testkit/property"
)

func call(id, name, arguments string) modelserver.Part {
	return modelserver.Part{Call: &modelserver.Call{ID: id, Name: name,
		Arguments: json.RawMessage(arguments)}, Cut: modelserver.Cut{EveryByte: true}}
}

func TestReply(t *testing.T) {
	everyByte := modelserver.Cut{EveryByte: true}
	usage := &modelserver.Usage{Input: 100, Output: 20, Cached: 40}
	for _, tt := range []struct {
		name string
		turn modelserver.Turn
		want Reply
	}{
		{"text", modelserver.Turn{Parts: []modelserver.Part{{Text: "Hello, <b>wörld</b> 🚂.\n"}}},
			Reply{Text: "Hello, <b>wörld</b> 🚂.\n", Stop: StopEnd}},
		{"text cut at every byte",
			modelserver.Turn{Parts: []modelserver.Part{{Text: "Hello, <signal>wörld</signal> 🚂.",
				Cut: everyByte}}},
			Reply{Text: "Hello, <signal>wörld</signal> 🚂.", Stop: StopEnd}},
		{"bytes dripping", modelserver.Turn{Parts: []modelserver.Part{{Text: "wörld 🚂"}},
			Drip: &modelserver.Drip{Bytes: 1}},
			Reply{Text: "wörld 🚂", Stop: StopEnd}},
		{"reasoning", modelserver.Turn{Parts: []modelserver.Part{{Reasoning: "Let me see…",
			Cut: everyByte}, {Text: "Yes."}}},
			Reply{Text: "Yes.", Reasoning: "Let me see…", Stop: StopEnd}},
		{"nothing", modelserver.Turn{}, Reply{Stop: StopEnd}},
		{"parallel calls", modelserver.Turn{Parts: []modelserver.Part{{Text: "Looking."},
			call("call_a", "search_code", `{"query":"wörld <b>"}`),
			call("call_b", "read_file", `{"path":"a.go"}`), call("call_c", "list", `{}`)}},
			Reply{Text: "Looking.", Stop: StopCalls,
				Calls: []Call{{"call_a", "search_code", `{"query":"wörld <b>"}`},
					{"call_b", "read_file", `{"path":"a.go"}`}, {"call_c", "list", `{}`}}}},
		{"broken arguments",
			modelserver.Turn{Parts: []modelserver.Part{call("call_a", "search_code",
				`"{\"query\": \"unfinished"`)}},
			Reply{Stop: StopCalls,
				Calls: []Call{{"call_a", "search_code", `{"query": "unfinished`}}}},
		{"too long", modelserver.Turn{Parts: []modelserver.Part{{Text: "And so"}},
			Finish: "length"}, Reply{Text: "And so", Stop: StopLength}},
		{"refused", modelserver.Turn{Parts: []modelserver.Part{{Text: "I"}},
			Finish: "content_filter"}, Reply{Text: "I", Stop: StopRefusal}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			both(t, func(t *testing.T, p Provider) {
				tt.turn.Usage = usage
				s := newStage(t, p, play(tt.turn),
					&Options{Price: Price{Input: 3, Output: 15, Cached: 0.3}})
				want := tt.want
				want.Tries, want.Model = 1, "rehearsal"
				want.Usage = Usage{Input: 100, Output: 20, Cached: 40, Known: true,
					CostUSD: (60*3 + 40*0.3 + 20*15) / 1e6}
				got, _ := reply(t, s.client, ask("hello"))
				if diff := cmp.Diff(&want, got); diff != "" {
					t.Errorf("reply (-want +got):\n%s", diff)
				}
			})
		})
	}
}

func TestReasoningTokens(t *testing.T) {
	turn := say("x")
	turn.Usage = &modelserver.Usage{Input: 10, Output: 8, Reasoning: 5}
	got, _ := reply(t, newStage(t, OpenAI, play(turn), nil).client, ask("hello"))
	if want := (Usage{Input: 10, Output: 8, Reasoning: 5, Known: true}); got.Usage != want {
		t.Errorf("usage %+v, want %+v", got.Usage, want)
	}
}

func TestCostOfCachedInput(t *testing.T) {
	for cached, want := range map[float64]float64{2: 3, 0.5: 2.25, 0: 2} {
		got := Price{Input: 2, Output: 10, Cached: cached}.cost(Usage{Input: 1_000_000,
			Cached: 500_000, Output: 100_000})
		if got != want {
			t.Errorf("with cached input for %v: cost %v, want %v", cached, got, want)
		}
	}
}

// TestPiecesAreNotHeldBack checks that no piece waits for the next: the server sends one only when
// the one before has arrived.
func TestPiecesAreNotHeldBack(t *testing.T) {
	both(t, func(t *testing.T, p Provider) {
		received := make(chan struct{}, 1)
		n := 0
		wait := func(event string) http.Handler {
			return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Content-Type", "text/event-stream")
				for ; n < 3; n++ {
					_, _ = w.Write([]byte(event))
					w.(http.Flusher).Flush()
					select {
					case <-received:
					case <-r.Context().Done():
						return
					}
				}
				_, _ = w.Write([]byte("data: {\"type\":\"message_stop\"}\n\ndata: [DONE]\n\n"))
			})
		}
		event := "data: {\"choices\":[{\"delta\":{\"content\":\"x\"}}]}\n\n"
		if p == Anthropic {
			event = "data: {\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":\"text_delta\",\"text\":\"x\"}}\n\n"
		}
		c, _ := serve(t, p, wait(event), nil)
		r, err := c.Reply(t.Context(), ask("hello"), func(Event) { received <- struct{}{} })
		if err != nil || r.Text != "xxx" {
			t.Errorf("%+v, %v", r, err)
		}
	})
}

// TestOddServers reads streams of servers with variants of the protocols.
func TestOddServers(t *testing.T) {
	const start = `data: {"type":"message_start","message":{"model":"m"}}`
	for _, tt := range []struct {
		name     string
		provider Provider
		events   []string
		want     Reply
	}{
		{"reasoning under its other name", OpenAI,
			data(`{"choices":[{"delta":{"reasoning":"Hm."}}]}`,
				`{"choices":[{"delta":{"content":"Yes."},"finish_reason":"stop"}]}`, "[DONE]"),
			Reply{Text: "Yes.", Reasoning: "Hm.", Stop: StopEnd}},
		{"reasoning under both names", OpenAI,
			data(`{"choices":[{"delta":{"reasoning":"Hm.","reasoning_content":"Hm."},"finish_reason":"stop"}]}`, "[DONE]"),
			Reply{Reasoning: "Hm.", Stop: StopEnd}},
		{"no [DONE]", OpenAI,
			data(`{"choices":[{"delta":{"content":"Yes."},"finish_reason":"stop"}]}`),
			Reply{Text: "Yes.", Stop: StopEnd}},
		{"no reason to finish", OpenAI, data(`{"choices":[{"delta":{"content":"Yes."}}]}`,
			"[DONE]"), Reply{Text: "Yes.", Stop: StopEnd}},
		{"unknown reason to finish", OpenAI,
			data(`{"choices":[{"delta":{"content":"Yes."},"finish_reason":"eos"}]}`, "[DONE]"),
			Reply{Text: "Yes.", Stop: StopEnd}},
		{"other choices", OpenAI,
			data(`{"choices":[{"index":1,"delta":{"content":"No."}},{"index":0,"delta":{"content":"Yes."}}]}`, "[DONE]"), Reply{Text: "Yes.", Stop: StopEnd}},
		{"refusal", OpenAI, data(
			`{"choices":[{"delta":{"refusal":"I will not."},"finish_reason":"stop"}]}`, "[DONE]"),
			Reply{Text: "I will not.", Stop: StopRefusal}},
		{"comments, carriage returns and nulls", OpenAI,
			[]string{": wait", "data: {\"choices\":[{\"delta\":{\"content\":null,\"role\":\"assistant\"}}],\"usage\":null,\"error\":null}\r",
				`data:{"choices":[{"delta":{"content":"Yes."},"finish_reason":"stop"}]}`,
				"data:[DONE]"}, Reply{Text: "Yes.", Stop: StopEnd}},
		{"all calls are number 0", OpenAI,
			data(`{"choices":[{"delta":{"tool_calls":[{"index":0,"id":"a","function":{"name":"f","arguments":"{}"}}]}}]}`,
				`{"choices":[{"delta":{"tool_calls":[{"index":0,"id":"b","function":{"name":"g","arguments":"{\"x\":1}"}}]},"finish_reason":"stop"}]}`, "[DONE]"),
			Reply{Stop: StopCalls, Calls: []Call{{"a", "f", "{}"}, {"b", "g", `{"x":1}`}}}},
		{"id and name repeated", OpenAI,
			data(`{"choices":[{"delta":{"tool_calls":[{"index":0,"id":"a","function":{"name":"f","arguments":"{"}}]}}]}`,
				`{"choices":[{"delta":{"tool_calls":[{"index":0,"id":"a","function":{"name":"f","arguments":"}"}}]},"finish_reason":"tool_calls"}]}`, "[DONE]"),
			Reply{Stop: StopCalls, Calls: []Call{{"a", "f", "{}"}}}},
		{"no ids, no arguments, out of order", OpenAI,
			data(`{"choices":[{"delta":{"tool_calls":[{"index":1,"function":{"name":"g","arguments":"{}"}}]}}]}`,
				`{"choices":[{"delta":{"tool_calls":[{"index":0,"function":{"name":"f"}}]},"finish_reason":"tool_calls"}]}`, "[DONE]"),
			Reply{Stop: StopCalls,
				Calls: []Call{{"call_1_0", "f", "{}"}, {"call_1_1", "g", "{}"}}}},
		{"calls announced and not made", OpenAI,
			data(`{"choices":[{"delta":{"content":"x"},"finish_reason":"tool_calls"}]}`, "[DONE]"),
			Reply{Text: "x", Stop: StopEnd}},
		{"text and arguments at the start of a block", Anthropic, []string{start,
			`data: {"type":"content_block_start","index":0,"content_block":{"type":"text","text":"Yes."}}`,
			`data: {"type":"content_block_start","index":1,"content_block":{"type":"tool_use","id":"a","name":"f","input":{"x":1}}}`,
			`data: {"type":"something_new","index":[]}`, "event: ping\ndata: ping",
			`data: {"type":"message_stop"}`},
			Reply{Text: "Yes.", Stop: StopCalls, Calls: []Call{{"a", "f", `{"x":1}`}}, Model: "m"}},
		{"blocks side by side", Anthropic, []string{start,
			`data: {"type":"content_block_start","index":0,"content_block":{"type":"tool_use","id":"a","name":"f","input":{}}}`,
			`data: {"type":"content_block_start","index":1,"content_block":{"type":"tool_use","id":"b","name":"g","input":{}}}`,
			`data: {"type":"content_block_delta","index":0,"delta":{"type":"input_json_delta","partial_json":"{\"x\":"}}`,
			`data: {"type":"content_block_delta","index":1,"delta":{"type":"input_json_delta","partial_json":"[]"}}`,
			`data: {"type":"content_block_delta","index":0,"delta":{"type":"input_json_delta","partial_json":"1}"}}`,
			`data: {"type":"message_delta","delta":{"stop_reason":"tool_use"}}`,
			`data: {"type":"message_stop"}`},
			Reply{Stop: StopCalls, Calls: []Call{{"a", "f", `{"x":1}`}, {"b", "g", "[]"}},
				Model: "m"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c, _ := serve(t, tt.provider, sse(tt.events...), nil)
			got, _ := reply(t, c, ask("hello"))
			tt.want.Tries, got.Usage = 1, Usage{} // see TestUsageIsEstimated
			if diff := cmp.Diff(&tt.want, got); diff != "" {
				t.Errorf("reply (-want +got):\n%s", diff)
			}
		})
	}
}

func TestConnectionIsReused(t *testing.T) {
	both(t, func(t *testing.T, p Provider) {
		turn := say("Yes.")
		turn.Times = 50
		var opened atomic.Int32
		server := httptest.NewUnstartedServer(newServer(t, play(turn)))
		server.Config.ConnState = func(_ net.Conn, s http.ConnState) {
			if s == http.StateNew {
				opened.Add(1)
			}
		}
		server.Start()
		defer server.Close()
		c := newClient(t, p, &Options{BaseURL: server.URL})
		defer c.Close()
		for range 10 {
			reply(t, c, ask("hello"))
		}
		if n := opened.Load(); n != 1 {
			t.Errorf("%d connections for ten consecutive replies", n)
		}
	})
}

func TestManyAtOnce(t *testing.T) {
	both(t, func(t *testing.T, p Provider) {
		script := &modelserver.Script{}
		for i := range 100 {
			turn := say(fmt.Sprintf("This is the answer to number %d.", i),
				modelserver.Fault{Kind: modelserver.FaultCut, AfterPieces: 3})
			turn.Parts[0].Cut.EveryByte = true
			script.Conversations = append(script.Conversations, modelserver.Conversation{
				Match: &modelserver.Match{User: fmt.Sprintf("^number %d$", i)},
				Turns: []modelserver.Turn{turn}})
		}
		s := newStage(t, p, script, nil)
		var all sync.WaitGroup
		for i := range 100 {
			all.Go(func() {
				r, err := s.client.Reply(t.Context(), ask(fmt.Sprintf("number %d", i)), nil)
				if err != nil || r.Text != fmt.Sprintf("This is the answer to number %d.", i) ||
					r.Tries != 2 {
					t.Errorf("number %d: %+v, %v", i, r, err)
				}
			})
		}
		all.Wait()
	})
}

// TestReplyIsComplete checks that for any script of cuts and faults the events after the last
// restart, the reply and the script agree.
func TestReplyIsComplete(t *testing.T) {
	both(t, func(t *testing.T, p Provider) {
		var current atomic.Pointer[modelserver.Server]
		c, _ := serve(t, p, http.HandlerFunc(func(w http.ResponseWriter,
			r *http.Request) {
			current.Load().ServeHTTP(w, r)
		}), &Options{Tries: 20})
		property.Check(t, func(t *rapid.T) {
			text := rapid.StringN(1, 40, -1).Draw(t, "text")
			thought := rapid.StringN(0, 10, -1).Draw(t, "thought")
			turn := modelserver.Turn{Faults: rapid.SliceOfN(faults(), 0, 4).Draw(t, "faults")}
			if thought != "" {
				turn.Parts = append(turn.Parts,
					modelserver.Part{Reasoning: thought, Cut: cut(t, len(thought))})
			}
			turn.Parts = append(turn.Parts, modelserver.Part{Text: text, Cut: cut(t, len(text))})
			if rapid.Bool().Draw(t, "drip") {
				turn.Drip = &modelserver.Drip{Bytes: rapid.IntRange(1, 40).Draw(t, "bytes")}
			}
			current.Store(newServer(t, play(turn)))
			r, _ := reply(t, c, ask("hello"))
			if r.Text != text || r.Reasoning != thought {
				t.Fatalf("got %q and %q, want %q and %q", r.Text, r.Reasoning, text, thought)
			}
		})
	})
}

func cut(t *rapid.T, n int) modelserver.Cut {
	if rapid.Bool().Draw(t, "everywhere") {
		return modelserver.Cut{EveryByte: true}
	}
	at := rapid.SliceOfNDistinct(rapid.IntRange(1, max(n-1, 1)), 0, min(4, max(n-1, 1)),
		rapid.ID).Draw(t, "cuts")
	for i := range at {
		for j := range i {
			if at[i] < at[j] {
				at[i], at[j] = at[j], at[i]
			}
		}
	}
	if n < 2 {
		at = nil
	}
	return modelserver.Cut{At: at}
}

func faults() *rapid.Generator[modelserver.Fault] {
	return rapid.Custom(func(t *rapid.T) modelserver.Fault {
		f := modelserver.Fault{
			Kind: rapid.SampledFrom([]modelserver.FaultKind{modelserver.FaultStatus,
				modelserver.FaultCut, modelserver.FaultMalformed, modelserver.FaultError}).Draw(t,
				"kind"),
			Times: rapid.IntRange(1, 3).Draw(t, "times"),
		}
		switch f.Kind {
		case modelserver.FaultStatus:
			f.Status = rapid.SampledFrom([]int{408, 409, 429, 500, 502, 503, 529}).Draw(t, "status")
			f.RetryAfter = modelserver.Duration(time.Duration(rapid.IntRange(0, 3).Draw(t,
				"after")) * time.Second)
		case modelserver.FaultCut:
			if rapid.Bool().Draw(t, "by bytes") {
				f.AfterBytes = rapid.IntRange(1, 2000).Draw(t, "after bytes")
				return f
			}
			f.AfterPieces = rapid.IntRange(0, 10).Draw(t, "after pieces")
		default:
			f.AfterPieces = rapid.IntRange(0, 10).Draw(t, "after pieces")
		}
		return f
	})
}

func TestEnvironmentIsNotRead(t *testing.T) {
	for name, value := range map[string]string{
		"OPENAI_API_KEY": "stray", "OPENAI_ADMIN_KEY": "stray", "OPENAI_ORG_ID": "stray",
		"OPENAI_PROJECT_ID": "stray",
		"OPENAI_BASE_URL":   "http://127.0.0.1:1", "OPENAI_CUSTOM_HEADERS": "X-Stray: stray",
		"ANTHROPIC_API_KEY": "stray", "ANTHROPIC_AUTH_TOKEN": "stray",
		"ANTHROPIC_BASE_URL":       "http://127.0.0.1:1",
		"ANTHROPIC_CUSTOM_HEADERS": "X-Stray: stray", "ANTHROPIC_PROFILE": "stray",
	} {
		t.Setenv(name, value)
	}
	both(t, func(t *testing.T, p Provider) {
		for _, key := range []string{"", "mine"} {
			var header http.Header
			answer := newServer(t, play(say("Yes.")))
			c, _ := serve(t, p, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				header = r.Header.Clone()
				answer.ServeHTTP(w, r)
			}), &Options{Key: key})
			reply(t, c, ask("hello"))
			for name, values := range header {
				if strings.Contains(strings.Join(values, " "), "stray") {
					t.Errorf("header %s: %q", name, values)
				}
			}
			want := map[Provider]string{OpenAI: "Bearer " + key, Anthropic: key}[p]
			if key == "" {
				want = ""
			}
			if got := header.Get("Authorization") + header.Get("X-Api-Key"); got != want {
				t.Errorf("key %q is sent, want %q", got, want)
			}
		}
		if _, err := New(p, "m", nil); err == nil {
			t.Error("a missing key is not an error")
		}
	})
}
