package chunk_test

import (
	"bytes"
	"encoding/json"
	"math"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"signalbox/internal/oracle/chunk"
	"signalbox/internal/testkit/property"
)

func TestLines(t *testing.T) {
	seen := map[chunk.Kind]bool{}
	for _, tt := range []struct {
		chunk chunk.Chunk
		line  string
	}{
		{chunk.Content{Turn: 1, Text: "a <b> & \"c\"\n\u2028"},
			`{"type":"content","turn":1,"text":"a <b> & \"c\"\n\u2028"}`},
		{chunk.Reasoning{Turn: 2, Text: "hm"}, `{"type":"reasoning","turn":2,"text":"hm"}`},
		{chunk.ToolCall{Turn: 3, ID: "1", Name: "read_file",
			Arguments: json.RawMessage(`{"path":"a<b"}`)},
			`{"type":"tool_call","turn":3,"id":"1","name":"read_file","arguments":{"path":"a<b"}}`},
		{chunk.ToolResult{Turn: 4, ID: "1", Name: "read_file", Text: "no such file"},
			`{"type":"tool_result","turn":4,"id":"1","name":"read_file","ok":false,"text":"no such file"}`},
		{chunk.Sources{Sources: []chunk.Source{{Type: "code", Path: "a.go", Line: 3},
			{Type: "note", Path: "n.md", Title: "N"}}},
			`{"type":"sources","sources":[{"source_type":"code","path":"a.go","line":3},{"source_type":"note","path":"n.md","title":"N"}]}`},
		{chunk.Signal{Turn: 5, Name: "context_sufficient", Confidence: 0.9,
			Fields: map[string]any{"sources_found": int64(math.MaxInt64),
				"source_types": []any{"code", 2.0}}, Raw: "<signal …>"},
			`{"type":"signal","turn":5,"signal":"context_sufficient","confidence":0.9,"fields":{"source_types":["code",2],"sources_found":9223372036854775807},"raw_xml":"<signal …>"}`},
		{chunk.System{Name: "max_turns_exceeded", Level: "warning", Text: "t"},
			`{"type":"system","name":"max_turns_exceeded","level":"warning","text":"t"}`},
		{chunk.Error{Name: "cancelled", Text: "t"},
			`{"type":"error","name":"cancelled","text":"t"}`},
		{chunk.Done{Reason: "answered", Turns: 2, Tokens: 300, CostUSD: 0.01},
			`{"type":"done","reason":"answered","turns":2,"tokens":300,"cost_usd":0.01,"answer":""}`},
		{chunk.Done{Reason: "answered", Turns: 2, Session: "s1", Question: 3, Answer: "x",
			Model: "m"},
			`{"type":"done","reason":"answered","turns":2,"tokens":0,"cost_usd":0,"session":"s1","question":3,"answer":"x","model":"m"}`},
	} {
		seen[tt.chunk.Kind()] = true
		line, err := chunk.Line(tt.chunk)
		if err != nil || string(line) != tt.line+"\n" {
			t.Errorf("line %s (%v)\nwant %s", line, err, tt.line)
		}
		back, err := chunk.Parse(line)
		if diff := cmp.Diff(tt.chunk, back); err != nil || diff != "" {
			t.Errorf("%s: %v (-before +after):\n%s", tt.line, err, diff)
		}
	}
	if len(seen) != 9 {
		t.Errorf("%d of 9 kinds are tested", len(seen))
	}
}

func TestArguments(t *testing.T) {
	for arguments, want := range map[string]string{"": `null`, "{\n \"a\": 1\n}": `{"a":1}`,
		`{"a":`: `"{\"a\":"`, "{}\n{}": `"{}\n{}"`} {
		line, err := chunk.Line(chunk.ToolCall{Arguments: json.RawMessage(arguments)})
		if err != nil || string(
			line) != `{"type":"tool_call","turn":0,"id":"","name":"","arguments":`+want+"}\n" {
			t.Errorf("%q: %s (%v)", arguments, line, err)
		}
	}
}

func TestParseRefuses(t *testing.T) {
	for line, want := range map[string]string{
		``:                              "chunk: unexpected end",
		`[]`:                            "chunk: json: cannot unmarshal",
		`{"text":"a"}`:                  `chunk: unknown type ""`,
		`{"type":"contents"}`:           `chunk: unknown type "contents"`,
		`{"type":"content","text":1}`:   "content chunk: ",
		`{"type":"signal","fields":[]}`: "signal chunk: ",
		`{"type":"done"} {}`:            "chunk: invalid character",
	} {
		if c, err := chunk.Parse([]byte(line)); err == nil ||
			!strings.HasPrefix(err.Error(), want) {
			t.Errorf("%s: %v, %v; want %s", line, c, err, want)
		}
	}
	if c, err := chunk.Parse([]byte(`{"type":"error","name":"n","news":1}`)); err != nil ||
		c != (chunk.Error{Name: "n"}) {
		t.Errorf("unknown field: %v, %v", c, err)
	}
	if _, err := chunk.Line(chunk.Signal{Confidence: math.NaN()}); err == nil ||
		!strings.HasPrefix(err.Error(), "signal chunk: ") {
		t.Errorf("NaN: %v", err)
	}
}

func checkLine(t rapid.TB, c chunk.Chunk) {
	t.Helper()
	line, err := chunk.Line(c)
	if err != nil {
		t.Fatalf("%#v: %v", c, err)
	}
	if bytes.IndexByte(line, '\n') != len(line)-1 {
		t.Errorf("not one line: %q", line)
	}
	back, err := chunk.Parse(line)
	if err != nil {
		t.Fatalf("%q: %v", line, err)
	}
	again, err := chunk.Line(back)
	if err != nil || !bytes.Equal(line, again) {
		t.Errorf("%q decodes and encodes as %q (%v)", line, again, err)
	}
}

func TestAnyTextMakesOneLine(t *testing.T) {
	property.Check(t, func(t *rapid.T) {
		text := rapid.String().Draw(t, "text")
		for _, c := range []chunk.Chunk{chunk.Content{Text: text},
			chunk.ToolCall{ID: text, Arguments: json.RawMessage(text)},
			chunk.ToolResult{Text: text, OK: true},
			chunk.Signal{Name: text, Fields: map[string]any{text: text, "n": int64(len(text)),
				"l": []any{text}}}} {
			checkLine(t, c)
		}
		line, _ := chunk.Line(chunk.Content{Text: text})
		if back, err := chunk.Parse(line); err != nil || back != (chunk.Content{Text: text}) {
			t.Errorf("%q decodes as %v (%v)", text, back, err)
		}
	})
}

func FuzzParse(f *testing.F) {
	for _, kind := range []string{"content", "tool_call", "tool_result", "sources", "signal", "done"} {
		f.Add([]byte(`{"type":"` + kind +
			`","text":"t","name":"n","fields":{"a":1,"b":1.5},"arguments":[1],"sources":[{}]}`))
	}
	f.Fuzz(func(t *testing.T, line []byte) {
		if c, err := chunk.Parse(line); err == nil {
			checkLine(t, c)
		}
	})
}
