package ledger_test

// This file keeps the examples in docs/reference/ledger-format.md true, by the verifier of
// outsider_test.go.

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"signalbox"
	"signalbox/internal/testkit/must"
	"signalbox/ledger"
)

var examplePattern = regexp.MustCompile("(?ms)^<!-- example: (\\w+) -->\n```\\w+\n(.*?)^```$")

// documentExamples returns the marked code blocks of the document by name.
func documentExamples(t *testing.T) map[string]string {
	t.Helper()
	text, err := os.ReadFile("../docs/reference/ledger-format.md")
	must.Succeed(t, err)
	examples := map[string]string{}
	for _, match := range examplePattern.FindAllStringSubmatch(string(text), -1) {
		examples[match[1]] = match[2]
	}
	for _, name := range []string{"event", "preimage", "hash", "tree", "key", "checkpoint",
		"proof"} {
		if examples[name] == "" {
			t.Fatalf("the document has no example %q", name)
		}
	}
	return examples
}

// eventOfLine reads an event of a JSON line as the document says: data is the text between two
// marks.
func eventOfLine(t *testing.T, line string) outsiderEvent {
	t.Helper()
	var e struct {
		outsiderEvent
		Data json.RawMessage
	}
	must.Succeed(t, json.Unmarshal([]byte(line), &e))
	first, last := strings.Index(line, `"data":`), strings.LastIndex(line, `,"prev":"`)
	e.outsiderEvent.Data = line[first+len(`"data":`) : last]
	return e.outsiderEvent
}

// TestEventLines verifies events as the program prints them.
func TestEventLines(t *testing.T) {
	events := []signalbox.Event{
		{Time: time.Unix(0, 1), Type: `"data":`, Work: `,"prev":"`,
			Data: []byte(`{"html":"<&>","line":"\u2028","prev":"x","data":{"a":1,"prev":"y"}}`)},
		{Time: time.Unix(0, 1), Type: "T", Work: "é\n",
			Data: []byte("{\"line\":\"\u2028\",\"n\":1.0}")},
	}
	new(ledger.Tail).Seal(events)
	for _, e := range events {
		line, err := e.MarshalJSON() // not json.Marshal, which would escape HTML
		must.Succeed(t, err)
		if got := hex.EncodeToString(
			sum(eventOfLine(t, string(line)).preimage())); got != e.Hash.String() {
			t.Errorf("%s\nhas hash %s", line, got)
		}
	}
}

func TestDocumentHash(t *testing.T) {
	examples := documentExamples(t)
	e := eventOfLine(t, examples["event"])
	var listed []byte
	for line := range strings.Lines(examples["preimage"]) {
		listed = append(listed, unhex(strings.Fields(line)[0])...)
	}
	if want := e.preimage(); !bytes.Equal(listed, want) {
		t.Errorf("the bytes listed are\n%q, want\n%q", listed, want)
	}
	hash := strings.TrimSpace(examples["hash"])
	if got := hex.EncodeToString(sum(listed)); got != hash || e.Hash != hash {
		t.Errorf("the document has the hashes %s and %s, want %s", hash, e.Hash, got)
	}
}

func TestDocumentTree(t *testing.T) {
	var v outsiderVectors
	readJSON(t, "testdata/vectors.json", &v)
	hash := func(i int) []byte { return unhex(v.Events[i].Hash) }
	want := [][]byte{leaf(hash(0)), leaf(hash(1)), leaf(hash(2)), node(leaf(hash(0)), leaf(hash(1))), unhex(v.Events[2].Root)}
	var listed [][]byte
	for line := range strings.Lines(documentExamples(t)["tree"]) {
		fields := strings.Fields(line)
		listed = append(listed, unhex(fields[len(fields)-1]))
	}
	if !bytes.Equal(bytes.Join(listed, nil), bytes.Join(want, nil)) {
		t.Errorf("the hashes listed are %x, want %x", listed, want)
	}
}

func TestDocumentShowsTheVectors(t *testing.T) {
	var v outsiderVectors
	readJSON(t, "testdata/vectors.json", &v)
	proof, err := os.ReadFile("testdata/proof.json")
	must.Succeed(t, err)
	examples := documentExamples(t)
	if e := eventOfLine(t, examples["event"]); e.Hash != v.Events[0].Hash {
		t.Errorf("the event shown is %+v, want %+v", e, v.Events[0])
	}
	for name, want := range map[string]string{
		"key": v.PrivateKey + "\n" + v.PublicKey + "\n", "checkpoint": v.Checkpoint,
		"proof": string(proof),
	} {
		if examples[name] != want {
			t.Errorf("the %s shown is\n%s, want\n%s", name, examples[name], want)
		}
	}
}
