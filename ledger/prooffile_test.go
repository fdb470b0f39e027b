package ledger

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"signalbox"
	"signalbox/internal/testkit/must"
	"signalbox/internal/testkit/property"
)

// hostileText has every kind of character that a proof file escapes.
const hostileText = "a\"b\\c\n\r\t\b\x00\x1f\x7f\u0085\u061c\u200e\u2028\u202e\u2069<&>é語🚦\ufffd"

func testProof(tb testing.TB, data string) (p *Proof, public string) {
	tb.Helper()
	private, public := testKey(tb, 1, testOrigin)
	events := []signalbox.Event{
		{Time: time.Unix(1, 0), Type: "First", Data: []byte("{}")},
		{Time: time.Unix(1, 5), Type: "Second", Work: hostileText, Data: []byte(data)},
		{Time: time.Unix(2, 0), Type: "Third", Data: []byte("{}")},
	}
	var tail Tail
	tail.Seal(events)
	checkpoint := signed(tb, Checkpoint{testOrigin, 3, tail.Tree.Root()}, private)
	p, err := Prove(&events[1], checkpoint, public, yield(hashesOf(events)))
	must.Succeed(tb, err)
	return p, public
}

func checkFile(file []byte, public string) error {
	p, err := ParseProof(file)
	if err == nil {
		_, err = p.Check(public)
	}
	return err
}

func TestProofFile(t *testing.T) {
	p, public := testProof(t, ` {"b" : 1.0,"a":"\u00e9é"} `)
	file := p.Format()
	if !json.Valid(file) {
		t.Fatalf("not JSON:\n%s", file)
	}
	read, err := ParseProof(file)
	must.Succeed(t, err)
	if diff := cmp.Diff(p, read); diff != "" {
		t.Errorf("came back changed (-want +got):\n%s", diff)
	}
	if err := checkFile(file, public); err != nil {
		t.Error(err)
	}
	for _, r := range string(file) {
		if r == 0x7f || r == 0x85 || r < ' ' && r != '\n' || isDirectionMark(r) {
			t.Errorf("%U is not escaped", r)
		}
	}
}

func TestProofFileOfOneEvent(t *testing.T) {
	private, public := testKey(t, 1, testOrigin)
	events, tail := makeLog(1)
	p, err := Prove(&events[0], signed(t, Checkpoint{testOrigin, 1, tail.Tree.Root()}, private),
		public, yield(nil))
	must.Succeed(t, err)
	if err := checkFile(p.Format(), public); err != nil {
		t.Errorf("%v\n%s", err, p.Format())
	}
}

func TestEveryEditOfAProofFileIsFound(t *testing.T) {
	p, public := testProof(t, `{"pr_url":"https://example.org/1"}`)
	file := p.Format()
	must.Succeed(t, checkFile(file, public))
	refused := func(what string, at int, edited []byte) {
		if !bytes.Equal(edited, file) && checkFile(edited, public) == nil {
			t.Errorf("byte %d, %s: not found:\n%s", at, what, edited)
		}
	}
	edited := bytes.Clone(file)
	for i, c := range file {
		for bit := range 8 {
			edited[i] = c ^ 1<<bit
			refused("bit flipped", i, edited)
		}
		edited[i] = c
		refused("removed", i, slices.Delete(bytes.Clone(file), i, i+1))
		refused("doubled", i, slices.Insert(bytes.Clone(file), i, c))
		refused("space", i, slices.Insert(bytes.Clone(file), i, ' '))
		refused("cut", i, file[:i])
	}
	refused("line end added", len(file), append(bytes.Clone(file), '\n'))
}

func TestParseProofRefusesOtherSpellings(t *testing.T) {
	p, _ := testProof(t, `{"a":"é"}`)
	file := p.Format()
	var indented, compact bytes.Buffer
	must.Succeed(t, json.Compact(&compact, file))
	must.Succeed(t, json.Indent(&indented, file, "", "\t"))
	replace := func(old,
		new string) []byte {
		return bytes.Replace(file, []byte(old), []byte(new), 1)
	}
	for name, bad := range map[string][]byte{
		"nothing": nil, "null": []byte("null"), "compact": compact.Bytes(),
		"tabs":          indented.Bytes(),
		"CRLF":          bytes.ReplaceAll(file, []byte("\n"), []byte("\r\n")),
		"escape":        replace("é", `\u00e9`),
		"upper case":    replace(`\u202e`, `\u202E`),
		"other key":     replace(`"work"`, `"Work"`),
		"twice":         replace(`"index"`, "\"index\": 1,\n  \"index\""),
		"more":          replace(`"index"`, "\"note\": 1,\n  \"index\""),
		"other index":   replace(`"index": 1`, `"index": 2`),
		"other format":  replace("/v1", "/v2"),
		"other time":    replace(".000000005Z", ".000000005+00:00"),
		"short time":    replace(".000000005Z", ".5Z"),
		"null session":  replace(`"session": ""`, `"session": null`),
		"half a letter": replace("é", `\ud83d`),
		"not UTF-8":     replace("é", "\xc3"),
		"large number":  replace(`"seq": 2`, `"seq": 2e0`),
	} {
		if bytes.Equal(bad, file) {
			t.Errorf("%s: nothing was changed", name)
		}
		if _, err := ParseProof(bad); codeOf(err) != signalbox.CodeUnverified {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := ParseProof(replace("/v1", "/v2")); err == nil ||
		!strings.Contains(err.Error(), `its format is "signalbox-proof/v2"`) {
		t.Errorf("a later format: %v", err)
	}
}

func TestProofFileComesBack(t *testing.T) {
	property.Check(t, func(t *rapid.T) {
		e := drawEvent(t)
		e.Data = []byte(rapid.String().Draw(t, "data"))
		e.Time = e.Time.UTC()
		p := &Proof{Event: e, Checkpoint: []byte(rapid.String().Draw(t, "checkpoint"))}
		for range rapid.IntRange(0, 3).Draw(t, "hashes") {
			p.Hashes = append(p.Hashes, drawHash(t, "hash"))
		}
		read, err := ParseProof(p.Format())
		if err != nil {
			t.Fatalf("%v\n%s", err, p.Format())
		}
		if diff := cmp.Diff(p, read, cmpopts.EquateEmpty()); diff != "" {
			t.Fatalf("came back changed (-want +got):\n%s", diff)
		}
	})
}

func FuzzParseProof(f *testing.F) {
	p, _ := testProof(f, `{"a":"é"}`)
	f.Add(p.Format())
	f.Add([]byte("null"))
	f.Fuzz(func(t *testing.T, data []byte) {
		p, err := ParseProof(data)
		if err == nil && !bytes.Equal(p.Format(), data) {
			t.Fatalf("%q became %q", data, p.Format())
		}
	})
}
