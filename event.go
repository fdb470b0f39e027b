package signalbox

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"time"
)

// Hash is a SHA-256 digest: of an event, of a tree, or of a blob. Its text form is 64 lower-case hexadecimal digits.
type Hash [32]byte

func (h Hash) String() string { return hex.EncodeToString(h[:]) }

// MarshalText writes the text form.
func (h Hash) MarshalText() ([]byte, error) { return []byte(h.String()), nil }

// UnmarshalText reads the text form and nothing else, upper case digits included.
func (h *Hash) UnmarshalText(text []byte) error {
	var read Hash
	if len(text) != hex.EncodedLen(len(read)) || bytes.ContainsAny(text, "ABCDEF") {
		return fmt.Errorf("a digest has %d lower-case hexadecimal digits", hex.EncodedLen(len(read)))
	}
	if _, err := hex.Decode(read[:], text); err != nil {
		return fmt.Errorf("a digest has %d lower-case hexadecimal digits", hex.EncodedLen(len(read)))
	}
	*h = read
	return nil
}

// Event is one entry of the ledger. Package ledger says how its hash is made; package rules says which types
// there are and what they carry.
type Event struct {
	// Seq is 1 for the first event and one more for each that follows, without gaps.
	Seq uint64
	// Time is in UTC, with nanoseconds. It never runs backwards from one event to the next.
	Time time.Time
	// Type is the name of the Go type of what Data holds, such as AgentSessionCompleted.
	Type string
	// Work, Session and Actor are what the event is about and who caused it; each may be empty.
	Work, Session, Actor string
	// Data is a JSON object. Its exact bytes are hashed, so nobody may change even its white space.
	Data []byte
	// Prev is the Hash of the event before, zero for the first.
	Prev Hash
	// Hash is over all fields above.
	Hash Hash
}

// EventTime is the layout of an event's time, in text as in its hash.
const EventTime = "2006-01-02T15:04:05.000000000Z"

// MarshalJSON writes the event as an object of seq, time, type, work, session, actor, data, prev and hash. Data is
// written as the object it is, which may differ from its bytes in white space and escapes.
func (e Event) MarshalJSON() ([]byte, error) {
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false)
	err := enc.Encode(struct {
		Seq     uint64          `json:"seq"`
		Time    string          `json:"time"`
		Type    string          `json:"type"`
		Work    string          `json:"work"`
		Session string          `json:"session"`
		Actor   string          `json:"actor"`
		Data    json.RawMessage `json:"data"`
		Prev    Hash            `json:"prev"`
		Hash    Hash            `json:"hash"`
	}{e.Seq, e.Time.UTC().Format(EventTime), e.Type, e.Work, e.Session, e.Actor, e.Data, e.Prev, e.Hash})
	return bytes.TrimSuffix(buf.Bytes(), []byte("\n")), err
}
