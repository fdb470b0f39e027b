package ledger

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"
	"unicode"

	"github.com/google/go-cmp/cmp"

	"signalbox"
	"signalbox/internal/testkit/must"
)

var update = flag.Bool("update", false, "rewrite testdata/vectors.json and testdata/proof.json")

// vectors is testdata/vectors.json. docs/reference/ledger-format.md describes it.
type vectors struct {
	PrivateKey      string           `json:"private_key"`
	PublicKey       string           `json:"public_key"`
	Events          []vectorEvent    `json:"events"`
	OlderCheckpoint string           `json:"older_checkpoint"`
	Checkpoint      string           `json:"checkpoint"`
	Consistency     []signalbox.Hash `json:"consistency"`
}

type vectorEvent struct {
	Seq     uint64         `json:"seq"`
	Time    string         `json:"time"`
	Type    string         `json:"type"`
	Work    string         `json:"work"`
	Session string         `json:"session"`
	Actor   string         `json:"actor"`
	Data    string         `json:"data"`
	Prev    signalbox.Hash `json:"prev"`
	Hash    signalbox.Hash `json:"hash"`
	Root    signalbox.Hash `json:"root"`
}

const (
	vectorsFile   = "testdata/vectors.json"
	proofFileName = "testdata/proof.json"
	vectorsOlder  = 6 // size of the older checkpoint
	vectorsProved = 5 // sequence of the event in testdata/proof.json
)

// vectorEvents are chosen to catch a hasher that normalises something, or parts fields wrongly.
func vectorEvents() []signalbox.Event {
	at := func(text string) time.Time {
		parsed, err := time.Parse(signalbox.EventTime, text)
		if err != nil {
			panic(err)
		}
		return parsed
	}
	short := signalbox.Event{Time: at("2026-03-01T00:00:00.000000000Z"), Type: "ExactlyAsLongAsTheShortWay"}
	short.Data = fmt.Appendf(nil, `{"fill":"%s"}`,
		strings.Repeat("-", shortText-len(short.Type)-len(`{"fill":""}`)))
	return []signalbox.Event{
		{Time: at("2026-02-28T12:34:56.000000789Z"), Type: "WorkOpened", Work: "task-1",
			Session: "s-1", Actor: "operator", Data: []byte(`{"title":"Add a button"}`)},
		{Time: at("2026-02-28T12:34:56.000000789Z"), Type: "Empty", Data: []byte("{}")},
		{Time: at("2026-02-28T12:34:57.100000000Z"), Type: "Zeichen", Work: "tâche-1",
			Session: "会话", Actor: "🚦",
			Data: []byte("{\"e\":\"é\",\"combined\":\"e\u0301\",\"escaped\":\"\\u00e9\",\"line\":\"\u2028\"}")},
		{Time: at("2026-02-28T23:59:59.999999999Z"), Type: "White", Work: " ", Session: "\t",
			Actor: "\n", Data: []byte(" {\"b\" : 1.0,\r\n\t\"a\" : 1e0} \n")},
		{Time: at("2026-02-28T23:59:59.999999999Z"), Type: "Hostile", Work: "\x00",
			Session: "\x1b[2J", Actor: "\u202eoperator\x7f\u0085",
			Data: []byte("{\"quote\":\"\\\"\\\\\",\"html\":\"<&>\",\"right\":\"\u202e\"}")},
		short,
		{Time: at("2026-03-01T00:00:00.000000001Z"), Type: "Long", Work: "task-1", Session: "s-1",
			Actor: "developer-1",
			Data:  fmt.Appendf(nil, `{"text":"%s"}`, strings.Repeat("0123456789abcdef", 300))},
		{Time: at("2028-02-29T01:02:03.040506070Z"), Type: "LeapDay", Work: "a", Session: "b",
			Actor: "", Data: []byte("{}")},
		{Time: at("2028-02-29T01:02:03.040506070Z"), Type: "LeapDay", Work: "ab", Session: "",
			Actor: "", Data: []byte("{}")},
		{Time: at("9999-12-31T23:59:59.999999999Z"), Type: "Last", Data: []byte(`{"n":10}`)},
	}
}

// makeVectors returns what testdata/vectors.json and testdata/proof.json should hold.
func makeVectors(t *testing.T) (vectors, []byte) {
	var v vectors
	v.PrivateKey, v.PublicKey = testKey(t, 42, "signalbox.example/vectors")
	origin, err := KeyName(v.PublicKey)
	must.Succeed(t, err)
	events := vectorEvents()
	var tail Tail
	for i := range events {
		tail.Seal(events[i : i+1])
		e := events[i]
		v.Events = append(v.Events, vectorEvent{
			e.Seq, e.Time.Format(signalbox.EventTime), e.Type, e.Work, e.Session, e.Actor,
			string(e.Data), e.Prev, e.Hash, tail.Tree.Root(),
		})
	}
	v.OlderCheckpoint = string(signed(t,
		Checkpoint{origin, vectorsOlder, v.Events[vectorsOlder-1].Root}, v.PrivateKey))
	v.Checkpoint = string(signed(t, Checkpoint{origin, tail.Seq, tail.Tree.Root()}, v.PrivateKey))
	v.Consistency, err = ProveConsistency(vectorsOlder, tail.Seq, yield(hashesOf(events)))
	must.Succeed(t, err)
	proof, err := Prove(&events[vectorsProved-1], []byte(v.Checkpoint), v.PublicKey,
		yield(hashesOf(events)))
	must.Succeed(t, err)
	return v, proof.Format()
}

// TestVectors holds the format: if it fails, ledgers that exist would no longer verify.
func TestVectors(t *testing.T) {
	made, madeProof := makeVectors(t)
	if *update {
		writeVectors(t, made, madeProof)
	}
	text, err := os.ReadFile(vectorsFile)
	must.Succeed(t, err)
	var stored vectors
	must.Succeed(t, json.Unmarshal(text, &stored))
	if diff := cmp.Diff(stored, made); diff != "" {
		t.Errorf("%s (-stored +made):\n%s", vectorsFile, diff)
	}
	storedProof, err := os.ReadFile(proofFileName)
	if diff := cmp.Diff(string(storedProof), string(madeProof)); diff != "" || err != nil {
		t.Errorf("%s: %v (-stored +made):\n%s", proofFileName, err, diff)
	}
}

func writeVectors(t *testing.T, v vectors, proof []byte) {
	text, err := json.MarshalIndent(v, "", "  ")
	must.Succeed(t, err)
	var escaped []byte
	for _, r := range string(text) + "\n" {
		if r >= 0x7f && (unicode.IsControl(r) || isDirectionMark(r)) {
			escaped = fmt.Appendf(escaped, `\u%04x`, r)
		} else {
			escaped = append(escaped, string(r)...)
		}
	}
	must.Succeed(t, errors.Join(os.WriteFile(vectorsFile, escaped, 0o644),
		os.WriteFile(proofFileName, proof, 0o644)))
}

func TestVectorsVerify(t *testing.T) {
	v, file := makeVectors(t)
	older, err := OpenCheckpoint([]byte(v.OlderCheckpoint), v.PublicKey)
	must.Succeed(t, err)
	newer, err := OpenCheckpoint([]byte(v.Checkpoint), v.PublicKey)
	must.Succeed(t, err)
	if err := CheckConsistency(older, newer, v.Consistency); err != nil {
		t.Error(err)
	}
	if err := checkFile(file, v.PublicKey); err != nil {
		t.Error(err)
	}
	events := vectorEvents()
	new(Tail).Seal(events)
	for _, c := range []*Checkpoint{nil, &older, &newer} {
		if got := verify(t, events, len(events), &VerifyOptions{Checkpoint: c}); !got.OK ||
			got.Root != newer.Root {
			t.Errorf("against %v: %+v", c, got)
		}
	}
}
