package console_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"signalbox/internal/oracle/chunk"
	"signalbox/internal/oracle/console"
	"signalbox/internal/testkit/must"
)

// conversation has a chunk of every kind.
var conversation = []chunk.Chunk{
	chunk.Reasoning{Turn: 1, Text: "The rules\nknow."},
	chunk.Content{Turn: 1, Text: "Let me "},
	chunk.Content{Turn: 1, Text: "look."},
	chunk.ToolCall{Turn: 1, ID: "1", Name: "read_file", Arguments: []byte(`{ "path": "a.go" }`)},
	chunk.ToolResult{Turn: 1, ID: "1", Name: "read_file", OK: true,
		Text: "a.go, lines 1 to 2 of 2:\n1\tpackage a\n2\t\n"},
	chunk.ToolResult{Turn: 1, ID: "2", Name: "check_exit_signals", OK: true,
		Text: `{"status":"success","snapshot":{"verdict":"SLV: HOLD"}}`},
	chunk.ToolResult{Turn: 1, ID: "3", Name: "search_code", Text: "it failed"},
	chunk.Signal{Turn: 1, Name: "need_turn", Confidence: 0.8,
		Fields: map[string]any{"reason": "to\nread"}},
	chunk.System{Name: chunk.Retry, Level: chunk.Warning, Text: "busy"},
	chunk.Content{Turn: 2, Text: "It is there.\n"},
	chunk.Signal{Turn: 2, Name: "context_sufficient", Confidence: 0.9},
	chunk.Sources{Sources: []chunk.Source{{Path: "a.go", Line: 1}, {Path: "n.md", Title: "Notes"},
		{Path: "a.go", Line: 2}}},
	chunk.Done{Reason: "context_sufficient", Turns: 2, Tokens: 7, CostUSD: 0.5, Session: "O-1"},
}

func show(t *testing.T, o *console.Options, chunks ...chunk.Chunk) (answer, notes string) {
	t.Helper()
	var a, b strings.Builder
	c := console.New(&a, &b, o)
	for _, one := range chunks {
		must.Succeed(t, c.Show(one))
	}
	return a.String(), b.String()
}

func TestAnswerAndNotes(t *testing.T) {
	answer, notes := show(t, nil, conversation...)
	if diff := cmp.Diff("Let me look.\n\nIt is there.\n", answer); diff != "" {
		t.Error(diff)
	}
	want := `  → read_file {"path":"a.go"}
  ✓ read_file: a.go, lines 1 to 2 of 2: (and 2 lines more)
  ✓ check_exit_signals: SLV: HOLD
  ✗ search_code: it failed
  • need_turn (0.80): to read
  ! busy
  • context_sufficient (0.90)
  ‣ a.go:1,2
  ‣ n.md (Notes)
  ■ context_sufficient, 2 turns, 7 tokens, $0.5000, session O-1
`
	if diff := cmp.Diff(want, notes); diff != "" {
		t.Error(diff)
	}
}

func TestSameTerminal(t *testing.T) {
	var screen strings.Builder
	c := console.New(&screen, &screen, &console.Options{SameTerminal: true, Reasoning: true,
		Color: true})
	for _, one := range conversation[:4] {
		must.Succeed(t, c.Show(one))
	}
	want := "\x1b[2mThe rules\nknow.\x1b[0m\nLet me look.\n\x1b[2m  → read_file {\"path\":\"a.go\"}\x1b[0m\n"
	if diff := cmp.Diff(want, screen.String()); diff != "" {
		t.Error(diff)
	}
}

func TestControlCharacters(t *testing.T) {
	evil := "a\x1b]0;owned\x07b\u202e\x00\r\nc\td"
	answer, notes := show(t, &console.Options{Reasoning: true}, chunk.Content{Turn: 1, Text: evil},
		chunk.Reasoning{Text: evil},
		chunk.ToolCall{Name: evil, Arguments: []byte(evil)},
		chunk.ToolResult{Name: evil, Text: evil}, chunk.System{Text: evil},
		chunk.Signal{Name: evil, Fields: map[string]any{"reason": evil}},
		chunk.Sources{Sources: []chunk.Source{{Path: evil, Title: evil}}},
		chunk.Done{Reason: evil, Session: evil})
	for _, text := range []string{answer, notes} {
		if strings.ContainsAny(text, "\x1b\x07\x00\r\u202e") {
			t.Errorf("control characters in the output: %q", text)
		}
	}
	if !strings.Contains(answer, "\nc\td") {
		t.Errorf("line ends and tabs are missing: %q", answer)
	}
}

type closed struct{}

func (closed) Write([]byte) (int, error) { return 0, errors.New("closed") }

func TestWriteError(t *testing.T) {
	c := console.New(closed{}, &strings.Builder{}, nil)
	if err := c.Show(chunk.Content{Turn: 1, Text: "x"}); err == nil {
		t.Error("no error")
	}
}

func TestColors(t *testing.T) {
	_, notes := show(t, &console.Options{Color: true}, chunk.ToolResult{Name: "a", Text: "no"},
		chunk.System{Level: chunk.Warning, Text: "b"}, chunk.System{Text: "c"})
	want := "\x1b[31m  ✗ a: no\x1b[0m\n\x1b[33m  ! b\x1b[0m\n\x1b[2m  · c\x1b[0m\n"
	if diff := cmp.Diff(want, notes); diff != "" {
		t.Error(diff)
	}
}

func TestWidth(t *testing.T) {
	_, notes := show(t, &console.Options{Width: 10}, chunk.System{Text: "abcdef"},
		chunk.System{Text: "abcdefg"}, chunk.System{Text: "日本語の文"})
	if diff := cmp.Diff("  · abcdef\n  · abcde…\n  · 日本…\n", notes); diff != "" {
		t.Error(diff)
	}
	var table strings.Builder
	if err := console.TruncateLines(&table, 3, "abc\nabcd\n\nab"); err != nil ||
		table.String() != "abc\nab…\n\nab" {
		t.Errorf("%q, %v", table.String(), err)
	}
}

func TestSummaryNamesTheModel(t *testing.T) {
	_, notes := show(t, nil, chunk.Done{Reason: "answered", Turns: 1, Model: "m-1", Session: "O-1"})
	if diff := cmp.Diff("  ■ answered, 1 turn, m-1, session O-1\n", notes); diff != "" {
		t.Error(diff)
	}
}

func TestTurnBuffer(t *testing.T) {
	restarted := chunk.System{Turn: 1, Name: chunk.ReplyRestarted, Level: chunk.Warning,
		Text: "again"}
	retry := chunk.System{Turn: 1, Name: chunk.Retry, Level: chunk.Warning, Text: "busy"}
	cut := chunk.System{Turn: 2, Name: chunk.ReplyCut, Level: chunk.Warning, Text: "cut"}
	think := chunk.Reasoning{Turn: 1, Text: "hm"}
	call := chunk.ToolCall{Turn: 1, Name: "look"}
	done := chunk.Done{Reason: "answered"}
	var got []chunk.Chunk
	w := console.NewTurnBuffer(func(c chunk.Chunk) error { got = append(got, c); return nil })
	for _, c := range []chunk.Chunk{
		chunk.Content{Turn: 1, Text: "Here "}, restarted,
		chunk.Content{Turn: 1, Text: "Here "}, think, retry, chunk.Content{Turn: 1, Text: "it is."},
		call,
		chunk.Content{Turn: 2, Text: "Or"}, cut,
		chunk.Content{Turn: 3, Text: "a"}, chunk.Content{Turn: 3, Text: "b"},
		chunk.Content{Turn: 4, Text: "c"}, done,
	} {
		must.Succeed(t, w.Add(c))
	}
	want := []chunk.Chunk{restarted, think, retry, chunk.Content{Turn: 1, Text: "Here it is."},
		call, cut,
		chunk.Content{Turn: 3, Text: "ab"}, chunk.Content{Turn: 4, Text: "c"}, done}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	wrong := errors.New("full")
	w = console.NewTurnBuffer(func(chunk.Chunk) error { return wrong })
	if err := errors.Join(w.Add(chunk.Content{Turn: 1, Text: "a"}), w.Add(done)); !errors.Is(err,
		wrong) {
		t.Errorf("the error is %v", err)
	}
}

// recorded is a conversation of three questions: one answered, one failed, one cut off.
var recorded = []console.Question{
	{Number: 1, Text: "How\nso?", Chunks: []chunk.Chunk{chunk.Content{Turn: 1, Text: "So."}},
		Done: &chunk.Done{Reason: "answered", Turns: 1, Answer: "So."}},
	{Number: 2, Text: "Why <b>?",
		Error: &chunk.Error{Name: "no_server", Text: "connection refused"},
		Done:  &chunk.Done{Reason: "model_failed"}},
	{Number: 3, Text: "And?", Chunks: []chunk.Chunk{chunk.Content{Turn: 1, Text: "Let me"}}},
}

func TestTranscript(t *testing.T) {
	var w strings.Builder
	must.Succeed(t, console.Transcript(&w, recorded, nil))
	want := `> How
> so?

So.
  ■ answered, 1 turn

> Why <b>?

  ✗ connection refused
  ■ model_failed, 0 turns

> And?

Let me
  ! the answer was cut off here
`
	if diff := cmp.Diff(want, w.String()); diff != "" {
		t.Error(diff)
	}
	if err := console.Transcript(closed{}, recorded, nil); err == nil {
		t.Error("no error")
	}
}

func TestTranscriptJSON(t *testing.T) {
	var w strings.Builder
	must.Succeed(t, console.TranscriptJSON(&w, recorded))
	want := `{"type":"question","question":1,"text":"How\nso?"}
{"type":"content","turn":1,"text":"So."}
{"type":"done","reason":"answered","turns":1,"tokens":0,"cost_usd":0,"answer":"So."}
{"type":"question","question":2,"text":"Why <b>?"}
{"type":"error","name":"no_server","text":"connection refused"}
{"type":"done","reason":"model_failed","turns":0,"tokens":0,"cost_usd":0,"answer":""}
{"type":"question","question":3,"text":"And?"}
{"type":"content","turn":1,"text":"Let me"}
`
	if diff := cmp.Diff(want, w.String()); diff != "" {
		t.Error(diff)
	}
	if err := console.TranscriptJSON(closed{}, recorded); err == nil {
		t.Error("no error")
	}
}
