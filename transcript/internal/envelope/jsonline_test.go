package envelope

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"signalbox/internal/testkit/must"
	"signalbox/internal/testkit/property"
)

// recorder records the calls of a jsonLine.
type recorder struct {
	line     *jsonLine
	fields   map[fieldID]string
	text     strings.Builder
	repeated []string
}

func (r *recorder) field(id fieldID, value []byte, _ bool) { r.fields[id] = string(value) }
func (r *recorder) textBegin(fieldID) bool                 { return true }
func (r *recorder) textPart(part []byte)                   { r.text.Write(part) }
func (r *recorder) textEnd(fieldID)                        { r.line.flushHigh() }
func (r *recorder) objectEnd(fieldID)                      {}
func (r *recorder) repeatedField(
	key []byte) {
	r.repeated = append(r.repeated, string(key))
}
func (r *recorder) unknownField([]byte) {}

func newRecorder() (*jsonLine, *recorder) {
	r := &recorder{fields: map[fieldID]string{}}
	paths := map[string]fieldID{"type": fieldType, "content": fieldText,
		"message.id": fieldMessageID}
	r.line = newJSONLine(newSchema(paths, []string{"content"}, ""), r)
	return r.line, r
}

// feedPieces feeds a line cut at random.
func feedPieces(t *rapid.T, j *jsonLine, line []byte) {
	for rest := line; len(rest) > 0; {
		n := rapid.IntRange(1, len(rest)).Draw(t, "piece")
		j.feed(rest[:n])
		rest = rest[n:]
	}
}

var jsonText = rapid.StringOf(rapid.SampledFrom([]rune("a\"\\/{}[]:,\n\t\x00\u007fé漢😀\u2028<&")))

// anyValue draws a JSON value of at most the given depth. Its keys are often in the schema.
func anyValue(depth int) *rapid.Generator[any] {
	kinds := []*rapid.Generator[any]{
		jsonText.AsAny(),
		rapid.Int64().AsAny(),
		rapid.Float64Range(-1e300, 1e300).AsAny(),
		rapid.SampledFrom([]json.Number{"1E5", "-0.5e+10", "0e-0", "12.50E-3"}).AsAny(),
		rapid.Bool().AsAny(),
		rapid.Just[any](nil),
	}
	if depth > 0 {
		kinds = append(kinds, rapid.SliceOfN(anyValue(depth-1), 0, 4).AsAny(),
			anyObject(depth-1).AsAny())
	}
	return rapid.OneOf(kinds...)
}

func anyObject(depth int) *rapid.Generator[map[string]any] {
	key := rapid.OneOf(rapid.SampledFrom([]string{"type", "content", "message", "id"}), jsonText)
	return rapid.MapOfN(key, anyValue(depth), 0, 4)
}

// anyLine encodes an object with or without white space and HTML escapes.
func anyLine(t *rapid.T, object map[string]any) []byte {
	var line bytes.Buffer
	enc := json.NewEncoder(&line)
	enc.SetEscapeHTML(rapid.Bool().Draw(t, "escape HTML"))
	must.Succeed(t, enc.Encode(object))
	written := bytes.TrimSpace(line.Bytes())
	if rapid.Bool().Draw(t, "spaced") {
		var spaced bytes.Buffer
		must.Succeed(t, json.Indent(&spaced, written, "\t", "  "))
		written = spaced.Bytes()
	}
	return written
}

func TestJSONLineMatchesEncodingJSON(t *testing.T) {
	property.Check(t, func(t *rapid.T) {
		object := anyObject(4).Draw(t, "object")
		line := anyLine(t, object)
		j, got := newRecorder()
		feedPieces(t, j, line)
		if !j.complete() {
			t.Fatalf("not complete: %s", line)
		}
		wantFields, wantText := map[fieldID]string{}, ""
		if text, ok := object["type"].(string); ok {
			wantFields[fieldType] = text
		}
		if message, ok := object["message"].(map[string]any); ok {
			if text, ok := message["id"].(string); ok {
				wantFields[fieldMessageID] = text
			}
		}
		wantText, _ = object["content"].(string)
		for _, id := range []fieldID{fieldType, fieldMessageID} {
			if want, ok := wantFields[id]; ok && want != got.fields[id] {
				t.Fatalf("field %d is %q, want %q: %s", id, got.fields[id], want, line)
			}
		}
		if diff := cmp.Diff(wantText, got.text.String()); diff != "" {
			t.Fatalf("text (-want +got):\n%s\n%s", diff, line)
		}
	})
}

func TestJSONLineIncomplete(t *testing.T) {
	property.Check(t, func(t *rapid.T) {
		line := anyLine(t, anyObject(3).Draw(t, "object"))
		j, _ := newRecorder()
		feedPieces(t, j, line[:rapid.IntRange(0, len(line)-1).Draw(t, "end")])
		if j.complete() {
			t.Fatalf("complete before its end: %s", line)
		}
		j.reset()
		feedPieces(t, j, line)
		if !j.complete() {
			t.Fatalf("not complete after a broken line: %s", line)
		}
		if j.feed([]byte(" \t\r")); !j.complete() {
			t.Fatalf("not complete with white space after it: %s", line)
		}
		if j.feed([]byte("{}")); j.complete() {
			t.Fatalf("two objects are one: %s", line)
		}
	})
}

// FuzzJSONLine checks that every JSON object is complete, that its text is what encoding/json
// reads, and that cuts do not matter.
func FuzzJSONLine(f *testing.F) {
	f.Add([]byte(`{"type":"message","content":"a\n\"b\" \ud83d\ude00 \u0000"}`), uint8(3))
	f.Add([]byte(`{"content":"\ud83d","message":{"id":[1,2.5e-3,true,null,{}]}}`), uint8(1))
	f.Add([]byte(`{"a":"\\","b":"\\\"","content":"\\"}`), uint8(2))
	f.Add([]byte(`{"type":`), uint8(5))
	f.Add([]byte("{\"content\":\"\xff\"}"), uint8(4))
	f.Fuzz(func(t *testing.T, line []byte, step uint8) {
		line = bytes.TrimSpace(line)
		if bytes.IndexByte(line, '\n') >= 0 {
			return
		}
		whole, wholeRead := newRecorder()
		whole.feed(line)
		pieces, piecesRead := newRecorder()
		for rest := line; len(rest) > 0; {
			n := min(len(rest), int(step%16)+1)
			pieces.feed(rest[:n])
			rest = rest[n:]
		}
		if whole.complete() != pieces.complete() ||
			wholeRead.text.String() != piecesRead.text.String() ||
			!cmp.Equal(wholeRead.fields, piecesRead.fields) {
			t.Errorf("%q in pieces of %d gives another result", line, step%16+1)
		}
		if !json.Valid(line) || len(line) == 0 || line[0] != '{' {
			return
		}
		if !whole.complete() {
			t.Errorf("%q is an object and not complete", line)
		}
		checkText(t, line, wholeRead.text.String())
	})
}

func checkText(t *testing.T, line []byte, got string) {
	var object map[string]json.RawMessage
	var want string
	if json.Unmarshal(line, &object) != nil || json.Unmarshal(object["content"], &want) != nil ||
		bytes.Count(line, []byte("content")) != 1 ||
		bytes.Contains(line, []byte(`\u00`)) {
		return // no text, or possibly a duplicate key
	}
	if shown := string([]rune(got)); shown != want {
		t.Errorf("%q: text %q, want %q", line, shown, want)
	}
}

// A member that is there twice, or in another case, is one that two readers may read differently.
func TestJSONLineReportsRepeatedMembers(t *testing.T) {
	for line, want := range map[string][]string{
		`{"type":"a","content":"b","message":{"id":"c"}}`: nil,
		`{"type":"a","type":"a"}`:                         {"type"},
		`{"type":"a","ty\u0070e":"b"}`:                    {"type"},
		`{"type":{"x":1},"type":null}`:                    {"type"},
		`{"Type":"a"}`:                                    {"Type"},
		`{"TYPE":"a","type":"b","tYpe":"c"}`:              {"TYPE", "tYpe"},
		`{"me\u017f\u017fage":{}}`:                        {"me\u017f\u017fage"},
		`{"message":{"id":"a"},"message":{"id":"b"}}`:     {"message"},
		`{"message":{"id":"a","id":"b"}}`:                 {"id"},
		`{"message":{"ID":"a"}}`:                          {"ID"},
		// not in the schema at that place
		`{"id":"a","message":{"id":"b","type":"c"},"ID":"d"}`:         nil,
		`{"other":{"type":"a","type":"b"},"x":[{"id":1},{"id":2}]}`:   nil,
		`{"content":["a"],"content":"b"}`:                             {"content"},
		`{"message":[{"id":"a"},{"id":"b"}],"type":"message"}`:        nil,
		`{"[]":1,"[]":2,"message":{"[]":{"id":"a"},"[]":{"id":"b"}}}`: nil,
	} {
		for n := 1; n <= len(line); n++ {
			j, got := newRecorder()
			for i := 0; i < len(line); i += n {
				j.feed([]byte(line[i:min(i+n, len(line))]))
			}
			if diff := cmp.Diff(want, got.repeated); diff != "" || !j.complete() {
				t.Errorf("%s in pieces of %d, complete: %v (-want +got):\n%s", line, n,
					j.complete(), diff)
			}
		}
	}
}

// An object or array where a simple value is expected is a value, too.
func TestJSONLineReportsCompoundValues(t *testing.T) {
	for line, want := range map[string]string{
		`{"type":{}}`: "{", `{"type":[]}`: "[", `{"type":{"type":"a"}}`: "{", `{"type":["a"]}`: "[",
		`{"message":{"id":{"id":"x"}}}`: "", `{"message":{"type":"x"}}`: "",
	} {
		j, got := newRecorder()
		j.feed([]byte(line))
		if got.fields[fieldType] != want || !j.complete() {
			t.Errorf("%s: %q, want %q", line, got.fields[fieldType], want)
		}
	}
}
