package tell_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"signalbox/internal/oracle/chunk"
	"signalbox/internal/oracle/tell"
)

// conversation is one of everything.
var conversation = []chunk.Chunk{
	chunk.Reasoning{Turn: 1, Text: "The rules\nknow."},
	chunk.Content{Turn: 1, Text: "Let me "},
	chunk.Content{Turn: 1, Text: "look."},
	chunk.ToolCall{Turn: 1, ID: "1", Name: "read_file", Arguments: []byte(`{ "path": "a.go" }`)},
	chunk.ToolResult{Turn: 1, ID: "1", Name: "read_file", OK: true, Text: "a.go, lines 1 to 2 of 2:\n1\tpackage a\n2\t\n"},
	chunk.ToolResult{Turn: 1, ID: "2", Name: "check_exit_signals", OK: true, Text: `{"status":"success","snapshot":{"verdict":"SLV: HOLD"}}`},
	chunk.ToolResult{Turn: 1, ID: "3", Name: "search_code", Text: "it failed"},
	chunk.Signal{Turn: 1, Name: "need_turn", Confidence: 0.8, Fields: map[string]any{"reason": "to\nread"}},
	chunk.System{Name: "retry", Level: "warning", Text: "busy"},
	chunk.Content{Turn: 2, Text: "It is there.\n"},
	chunk.Signal{Turn: 2, Name: "context_sufficient", Confidence: 0.9},
	chunk.Sources{Sources: []chunk.Source{{Path: "a.go", Line: 1}, {Path: "n.md", Title: "Notes"}, {Path: "a.go", Line: 2}}},
	chunk.Done{Reason: "context_sufficient", Turns: 2, Tokens: 7, CostUSD: 0.5, Session: "O-1"},
}

func show(t *testing.T, o *tell.Options, chunks ...chunk.Chunk) (answer, aside string) {
	t.Helper()
	var a, b strings.Builder
	teller := tell.New(&a, &b, o)
	for _, c := range chunks {
		if err := teller.Show(c); err != nil {
			t.Fatal(err)
		}
	}
	return a.String(), b.String()
}

func TestTheAnswerIsApartFromWhatHappensBesideIt(t *testing.T) {
	answer, aside := show(t, nil, conversation...)
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
	if diff := cmp.Diff(want, aside); diff != "" {
		t.Error(diff)
	}
}

func TestOnOneScreenNeitherBeginsInTheOthersLine(t *testing.T) {
	var screen strings.Builder
	teller := tell.New(&screen, &screen, &tell.Options{Together: true, Reasoning: true, Color: true})
	for _, c := range conversation[:4] {
		if err := teller.Show(c); err != nil {
			t.Fatal(err)
		}
	}
	want := "\x1b[2mThe rules\nknow.\x1b[0m\nLet me look.\n\x1b[2m  → read_file {\"path\":\"a.go\"}\x1b[0m\n"
	if diff := cmp.Diff(want, screen.String()); diff != "" {
		t.Error(diff)
	}
}

func TestNothingSteersTheTerminal(t *testing.T) {
	evil := "a\x1b]0;owned\x07b\u202e\x00\r\nc\td"
	answer, aside := show(t, &tell.Options{Reasoning: true}, chunk.Content{Turn: 1, Text: evil}, chunk.Reasoning{Text: evil},
		chunk.ToolCall{Name: evil, Arguments: []byte(evil)}, chunk.ToolResult{Name: evil, Text: evil}, chunk.System{Text: evil},
		chunk.Signal{Name: evil, Fields: map[string]any{"reason": evil}}, chunk.Sources{Sources: []chunk.Source{{Path: evil, Title: evil}}},
		chunk.Done{Reason: evil, Session: evil})
	for _, text := range []string{answer, aside} {
		if strings.ContainsAny(text, "\x1b\x07\x00\r\u202e") {
			t.Errorf("it gets through: %q", text)
		}
	}
	if !strings.Contains(answer, "\nc\td") {
		t.Errorf("line ends and tabs are the answer's: %q", answer)
	}
}

type closed struct{}

func (closed) Write([]byte) (int, error) { return 0, errors.New("nobody reads") }

func TestAnAnswerThatCannotBeWrittenIsAnError(t *testing.T) {
	teller := tell.New(closed{}, &strings.Builder{}, nil)
	if err := teller.Show(chunk.Content{Turn: 1, Text: "x"}); err == nil {
		t.Error("no error")
	}
}
