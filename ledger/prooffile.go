package ledger

import (
	"bytes"
	"encoding/json"
	"fmt"
	"time"
	"unicode"

	"signalbox"
)

// proofFormat is the format and version in every proof file.
const proofFormat = "signalbox-proof/v1"

// proofFile is what ParseProof decodes. Format does not encode it with encoding/json, whose
// escaping may change: the encoding of a proof must stay the same forever.
type proofFile struct {
	Format string `json:"format"`
	Event  struct {
		Seq     uint64         `json:"seq"`
		Time    string         `json:"time"`
		Type    string         `json:"type"`
		Work    string         `json:"work"`
		Session string         `json:"session"`
		Actor   string         `json:"actor"`
		Data    string         `json:"data"`
		Prev    signalbox.Hash `json:"prev"`
		Hash    signalbox.Hash `json:"hash"`
	} `json:"event"`
	Index      uint64           `json:"index"`
	Hashes     []signalbox.Hash `json:"hashes"`
	Checkpoint string           `json:"checkpoint"`
}

// Format returns the proof file: an indented JSON document that ends with a newline.
func (p *Proof) Format() []byte {
	e := &p.Event
	b := fmt.Appendf(nil, "{\n  \"format\": %q,\n  \"event\": {\n    \"seq\": %d", proofFormat,
		e.Seq)
	for _, field := range [...]struct{ name, value string }{
		{"time", e.Time.UTC().Format(signalbox.EventTime)},
		{"type", e.Type}, {"work", e.Work}, {"session", e.Session}, {"actor", e.Actor},
		{"data", string(e.Data)}, {"prev", e.Prev.String()}, {"hash", e.Hash.String()},
	} {
		b = fmt.Appendf(b, ",\n    %q: ", field.name)
		b = appendJSONString(b, field.value)
	}
	b = fmt.Appendf(b, "\n  },\n  \"index\": %d,\n  \"hashes\": [", e.Seq-1)
	for i, hash := range p.Hashes {
		if i > 0 {
			b = append(b, ',')
		}
		b = fmt.Appendf(b, "\n    %q", hash.String())
	}
	if len(p.Hashes) > 0 {
		b = append(b, "\n  "...)
	}
	b = append(b, "],\n  \"checkpoint\": "...)
	b = appendJSONString(b, string(p.Checkpoint))
	return append(b, "\n}\n"...)
}

// appendJSONString quotes s. Besides what JSON requires it escapes all control characters and text
// direction marks, which could manipulate the terminal of someone who prints the file.
func appendJSONString(b []byte, s string) []byte {
	b = append(b, '"')
	for _, r := range s {
		switch {
		case r == '"' || r == '\\':
			b = append(b, '\\', byte(r))
		case r == '\n':
			b = append(b, `\n`...)
		case unicode.IsControl(r) || isDirectionMark(r):
			b = fmt.Appendf(b, `\u%04x`, r)
		default:
			b = append(b, string(r)...)
		}
	}
	return append(b, '"')
}

// isDirectionMark has its own list, because Unicode's may grow and the format must not change.
func isDirectionMark(r rune) bool {
	return r == 0x061c || r == 0x200e || r == 0x200f || 0x202a <= r && r <= 0x202e || 0x2066 <= r &&
		r <= 0x2069
}

// ParseProof parses a proof file. It accepts exactly the bytes that Format returned, so that every
// edit is detected. It does not check the proof; call [Proof.Check].
func ParseProof(data []byte) (*Proof, error) {
	var file proofFile
	if err := json.Unmarshal(data, &file); err != nil {
		return nil, unverified("", "read a proof file: %w", err)
	}
	if file.Format != proofFormat {
		return nil, unverified("", "read a proof file: its format is %q, want %q", file.Format,
			proofFormat)
	}
	at, err := time.Parse(signalbox.EventTime, file.Event.Time)
	if err != nil {
		return nil, unverified("", "read a proof file: %w", err)
	}
	e := file.Event
	p := &Proof{
		Event: signalbox.Event{
			Seq: e.Seq, Time: at, Type: e.Type, Work: e.Work, Session: e.Session, Actor: e.Actor,
			Data: []byte(e.Data), Prev: e.Prev, Hash: e.Hash,
		},
		Hashes: file.Hashes, Checkpoint: []byte(file.Checkpoint),
	}
	if !bytes.Equal(p.Format(), data) {
		return nil, unverified("use the original file, without changes to white space or encoding",
			"read a proof file: it was edited")
	}
	return p, nil
}
