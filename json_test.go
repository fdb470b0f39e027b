package signalbox_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"signalbox"
	"signalbox/internal/testkit/must"
	"signalbox/internal/testkit/property"
)

// drawText draws valid UTF-8 with the characters that encoding/json treats specially.
func drawText(t *rapid.T, name string) string {
	return strings.ToValidUTF8(rapid.OneOf(rapid.String(),
		rapid.StringMatching(`[<>&"\\\x{2028}\x{2029}\x00-\x1f\x7fu03ce26 ]{0,12}`)).Draw(t, name),
		"")
}

// drawObject draws a JSON object, written in any of the ways JSON allows.
func drawObject(t *rapid.T) []byte {
	text := drawText(t, "data")
	var object []byte
	switch rapid.IntRange(0, 3).Draw(t, "form") {
	case 0:
		object, _ = json.Marshal(map[string]string{"a": text}) // with < written as an escape
	case 1:
		object, _ = json.MarshalIndent(map[string]any{"a": text, "b": []int{1}}, "", " ")
	case 2: // nothing is escaped that need not be
		quoted := strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(strings.Map(func(r rune) rune {
			if r < ' ' {
				return -1
			}
			return r
		}, text))
		object = []byte(`{"a":"` + quoted + `"}`)
	case 3:
		object = []byte(rapid.SampledFrom([]string{`{}`, ` { } `, `{"a":"\\u003c\u003c<"}`,
			`{"a":"\\\u0026&"}`, `{"\u003e":"\u003E"}`, `{"a":"\u2028"}`}).Draw(t, "object"))
	}
	if !json.Valid(object) {
		t.Fatalf("drew %q, which is not JSON", object)
	}
	return object
}

func TestEventJSONRoundTrip(t *testing.T) {
	property.Check(t, func(t *rapid.T) {
		var prev, hash signalbox.Hash
		copy(prev[:], rapid.SliceOfN(rapid.Byte(), 32, 32).Draw(t, "prev"))
		copy(hash[:], rapid.SliceOfN(rapid.Byte(), 32, 32).Draw(t, "hash"))
		e := signalbox.Event{
			Seq: rapid.Uint64().Draw(t, "seq"),
			Time: time.Unix(rapid.Int64Range(-62135596800, 253402300799).Draw(t, "second"),
				rapid.Int64Range(0, 999999999).Draw(t, "nanosecond")).UTC(),
			Type: drawText(t, "type"), Work: drawText(t, "work"), Session: drawText(t, "session"),
			Actor: drawText(t, "actor"),
			Data:  drawObject(t), Prev: prev, Hash: hash,
		}
		checkRoundTrip(t, e)
	})
	checkRoundTrip(t, signalbox.Event{Time: time.Unix(0, 0).UTC()})
}

// checkRoundTrip encodes and decodes a value both ways: with json.Marshal, which escapes <, > and
// &, and without it.
func checkRoundTrip[T json.Marshaler](t rapid.TB, v T) {
	t.Helper()
	own, err := v.MarshalJSON()
	must.Succeed(t, err)
	escaped, err := json.Marshal(v)
	must.Succeed(t, err)
	for _, text := range [][]byte{own, escaped} {
		var decoded T
		if err := json.Unmarshal(text, &decoded); err != nil {
			t.Fatalf("%v: %s", err, text)
		}
		if diff := cmp.Diff(v, decoded); diff != "" {
			t.Fatalf("%s (-want +got):\n%s", text, diff)
		}
	}
}

func TestEventJSONErrors(t *testing.T) {
	for _, text := range []string{`[]`, `{"seq":"1"}`, `{"seq":1,"time":"yesterday"}`,
		`{"seq":1,"time":"2026-01-02T03:04:05.000000000Z","prev":"ab"}`} {
		e := signalbox.Event{Seq: 9}
		if err := json.Unmarshal([]byte(text), &e); err == nil || e.Seq != 9 {
			t.Errorf("%s: error %v, event %+v; want an error and the old value", text, err, e)
		}
	}
}

func TestSignalJSONRoundTrip(t *testing.T) {
	optional := func(t *rapid.T, name string) *string {
		if text := drawText(t, name); text != "" {
			return &text
		}
		return nil
	}
	property.Check(t, func(t *rapid.T) {
		s := signalbox.Signal{
			Dialect: rapid.SampledFrom([]signalbox.Dialect{"", signalbox.DialectLine,
				signalbox.DialectExit, signalbox.DialectTurn}).Draw(t, "dialect"),
			Name: drawText(t, "name"), Handler: drawText(t, "handler"),
			TaskID: drawText(t, "task"), Title: drawText(t, "title"),
			Raw: drawText(t, "raw"), Refused: signalbox.Reason(drawText(t, "refused")),
			Detail: drawText(t, "detail"),
		}
		if s.Line = rapid.IntRange(0, 1<<40).Draw(t, "line"); s.Line > 0 {
			s.Offset = rapid.Int64Range(0, 1<<60).Draw(t, "offset")
		}
		if rapid.Bool().Draw(t, "body") {
			s.Body = map[string]any{"NOTE": drawText(t, "note"),
				"LIST": []string{drawText(t, "first"), "second"}, "EMPTY": []string{},
				"SUB-TASK": []map[string]any{{"TITLE": drawText(t, "title"),
					"FILES": []string{"a", "b"}}, {}}}
		}
		if rapid.Bool().Draw(t, "exit") {
			s.Exit = &signalbox.ExitSignal{Protocol: signalbox.ExitProtocol,
				Version: drawText(t, "version"), PhaseCompleted: signalbox.PhaseReview,
				ExitReason: signalbox.ExitError, PRURL: optional(t, "pr"),
				EvidenceBundleRef: optional(t, "evidence"), Notes: optional(t, "notes")}
		}
		if rapid.Bool().Draw(t, "turn") {
			s.Turn = &signalbox.TurnSignal{Confidence: rapid.Float64Range(0, 1).Draw(t,
				"confidence"), Raw: s.Raw, Fields: map[string]any{
				"text": drawText(t, "text"), "count": rapid.Int().Draw(t, "count"),
				"list": []any{"a", 1.5, nil, map[string]any{"b": true}}}}
		}
		checkRoundTrip(t, s)
	})
	checkRoundTrip(t, signalbox.Signal{})
	checkRoundTrip(t, signalbox.Signal{Turn: &signalbox.TurnSignal{}})
}
