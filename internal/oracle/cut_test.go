package oracle_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"signalbox/internal/oracle"
	"signalbox/internal/oracle/model"
	"signalbox/internal/oracle/session"
	"signalbox/internal/rehearsal/modelserver"
	"signalbox/internal/testkit/property"
	"signalbox/transcript"
)

// fragments are parts of replies: complete, fenced, incomplete and nested signals, and other text.
func fragments() []string {
	return []string{"Hello, ", "Grüße 👋🏽 ", "\n", "\n\n", "  ", "< 3 and > 2", "<signals>", "a<b",
		"```\n", "```go\n", "~~~\n", "\n```\n", "`<signal>`",
		`<signal type="need_turn"><reason>more</reason></signal>`,
		"<SIGNAL TYPE='stuck'><attempted>[\"a\"]</attempted><blocker>&lt;b&gt;</blocker></SIGNAL>",
		`<signal type="partial_answer">`, "</signal>", "<sig", "nal type=\"stuck\">", "<signal",
		"<signal type=", `<signal type="a"><signal type="b"></signal></signal>`,
		"```\n<signal type=\"stuck\"></signal>\n```\n", "<", "</", "<signal type=\"x\">" +
			strings.Repeat("long ", 40), "日本語"}
}

// reply draws a reply and the places where it is cut.
func reply(t *rapid.T) (string, modelserver.Turn) {
	text := strings.Join(rapid.SliceOfN(rapid.SampledFrom(fragments()), 1, 12).Draw(t, "text"), "")
	part := modelserver.Part{Text: text}
	turn := modelserver.Turn{Usage: &modelserver.Usage{Input: 1, Output: 1}}
	switch rapid.SampledFrom([]string{"pieces", "bytes", "drip", "both"}).Draw(t, "cut") {
	case "pieces":
		at := map[int]bool{}
		for _, n := range rapid.SliceOfN(rapid.IntRange(1, len(text)), 0, 10).Draw(t, "at") {
			at[n] = true
		}
		for n := range len(text) {
			if at[n] {
				part.Cut.At = append(part.Cut.At, n)
			}
		}
	case "bytes":
		part.Cut.EveryByte = true
	case "drip":
		turn.Drip = &modelserver.Drip{Bytes: rapid.IntRange(1, 40).Draw(t, "drip")}
	case "both":
		part.Cut.EveryByte = true
		turn.Drip = &modelserver.Drip{Bytes: rapid.IntRange(5, 200).Draw(t, "drip")}
	}
	turn.Parts = []modelserver.Part{part}
	return text, turn
}

// TestContentHoweverCut checks that however a reply is cut, the content chunks are what package
// transcript returns as its content: without signals outside fences, and without losses. The record
// has the same content.
func TestContentHoweverCut(t *testing.T) {
	property.Check(t, func(r *rapid.T) {
		p := rapid.SampledFrom([]model.Provider{model.OpenAI, model.Anthropic}).Draw(r, "protocol")
		text, turn := reply(r)
		want := map[int]string{}
		if content := transcript.Content(text); content != "" {
			want[1] = content
		}
		network, end := pipeClient(t, p, newServer(t, script(turn)))
		defer end()
		// One turn is enough: each reply is a stream of its own.
		o := newOracle(t, oracle.Options{Model: network, Source: oneTurn, File: "one.lua"})
		s, err := session.Create(t.TempDir(), "O-1")
		if err != nil {
			r.Fatal(err)
		}
		defer s.Close()
		h := &heard{}
		answer, err := o.Ask(t.Context(), s, question, h.take)
		if err != nil {
			r.Fatal(err)
		}
		if answer.Error != nil || answer.Done.Turns != 1 {
			r.Fatalf("it ended with %+v, %+v", answer.Done, answer.Error)
		}
		if diff := cmp.Diff(want, h.text()); diff != "" {
			r.Fatalf("content (-want +got):\n%s", diff)
		}
		for turn, text := range h.text() {
			if transcript.Content(text) != text {
				r.Fatalf("turn %d still has signals: %q", turn, text)
			}
		}
		again := &heard{chunks: oracle.Chunks(s.Entries(), 1)}
		if diff := cmp.Diff(want, again.text()); diff != "" {
			r.Fatalf("content of the record (-want +got):\n%s", diff)
		}
	})
}

// oneTurn is a tree that calls the model once.
const oneTurn = `return BT.tree("one", {root = BT.sequence({BT.llm_call("think", {}), BT.action("hear", {fn = "parse_response_signal"})})})`
