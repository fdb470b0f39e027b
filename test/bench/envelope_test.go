package main

import (
	"bytes"
	"encoding/json"
	"io"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"signalbox"
	"signalbox/internal/testkit/must"
	"signalbox/internal/testkit/property"
)

var jsonFormats = []signalbox.Format{signalbox.FormatClaude, signalbox.FormatCodex,
	signalbox.FormatGemini,
	signalbox.FormatOpencode}

// agentLine has the fields of all formats that contain the agent's own text.
type agentLine struct {
	Type    string
	Role    string
	Content string
	Item    struct{ Type, Text string }
	Part    struct{ Text string }
	Message struct {
		Content []struct{ Type, Text string }
	}
}

func (l *agentLine) text(format signalbox.Format) (text string) {
	switch {
	case format == signalbox.FormatClaude && l.Type == "assistant":
		for _, c := range l.Message.Content {
			text += c.Text
		}
	case format == signalbox.FormatCodex && l.Item.Type == "agent_message":
		return l.Item.Text
	case format == signalbox.FormatGemini && l.Role == "assistant":
		return l.Content
	case format == signalbox.FormatOpencode && l.Type == "text":
		return l.Part.Text
	}
	return text
}

func TestEnvelopesContainTheAgentsText(t *testing.T) {
	var want []byte
	g := newGenerator(seed, testSize, often)
	for b, ok := g.next(); ok; b, ok = g.next() {
		if b.source == fromAgent {
			want = append(want, b.text...)
		}
	}
	for _, format := range jsonFormats {
		wrapped, err := io.ReadAll(newStream(newGenerator(seed, testSize, often), format))
		must.Succeed(t, err)
		var got []byte
		for line := range bytes.Lines(wrapped) {
			var l agentLine
			if err := json.Unmarshal(line, &l); err != nil {
				t.Fatalf("%s: %v in %.200q", format, err, line)
			}
			got = append(got, l.text(format)...)
		}
		if !bytes.Equal(want, got) {
			t.Errorf("%s: %d bytes of the agent's text came out as %d different ones", format,
				len(want), len(got))
		}
	}
}

func TestEscapedTextReadsBack(t *testing.T) {
	property.Check(t, func(t *rapid.T) {
		want := rapid.String().Draw(t, "text")
		var got string
		must.Succeed(t, json.Unmarshal([]byte(`"`+string(appendEscaped(nil, []byte(want)))+`"`),
			&got))
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatal(diff)
		}
	})
}

func TestCutAtKeepsRunesWhole(t *testing.T) {
	for _, tc := range []struct {
		text  string
		limit int
		want  int
	}{
		{"abc", 5, 3},
		{"abcdef", 3, 3},
		{"ab→cd", 3, 2},
		{"ab→cd", 5, 5},
	} {
		if got := cutAt([]byte(tc.text), tc.limit); got != tc.want {
			t.Errorf("cutAt(%q, %d) = %d, want %d", tc.text, tc.limit, got, tc.want)
		}
	}
}
