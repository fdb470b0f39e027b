package signalbox

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"time"
)

// Hash is a SHA-256 digest of an event, a tree or a blob. Its text form is 64 lower-case
// hexadecimal digits.
type Hash [32]byte

func (h Hash) String() string { return hex.EncodeToString(h[:]) }

// MarshalText returns the text form.
func (h Hash) MarshalText() ([]byte, error) { return []byte(h.String()), nil }

// UnmarshalText parses the text form. Upper-case digits are an error.
func (h *Hash) UnmarshalText(text []byte) error {
	var read Hash
	valid := len(text) == hex.EncodedLen(len(read)) && !bytes.ContainsAny(text, "ABCDEF")
	if valid {
		_, err := hex.Decode(read[:], text)
		valid = err == nil
	}
	if !valid {
		return fmt.Errorf("a digest has %d lower-case hexadecimal digits",
			hex.EncodedLen(len(read)))
	}
	*h = read
	return nil
}

// Event is one entry of the ledger. Package ledger defines its hash.
type Event struct {
	// Seq is 1 for the first event and increases by one, without gaps.
	Seq uint64
	// Time is in UTC, with nanoseconds. It never decreases from one event to the next, except after
	// TypeClockCorrected.
	Time time.Time
	// Type is the name of the Go type that Data encodes, such as AgentSessionCompleted.
	Type string
	// Work, Session and Actor are what the event is about and who caused it; each may be empty.
	Work, Session, Actor string
	// Data is a JSON object. Its exact bytes are hashed, so even its white space must not change.
	Data []byte
	// Prev is the Hash of the previous event, zero for the first.
	Prev Hash
	// Hash covers all fields above.
	Hash Hash
}

// TypeClockCorrected is the type of an event that records that the events before it were written
// with a clock that was ahead: the event after it may be earlier.
const TypeClockCorrected = "ClockCorrected"

// EventTime is the layout of an event's time, in JSON and in its hash.
const EventTime = "2006-01-02T15:04:05.000000000Z"

// eventJSON is the JSON form of an event.
type eventJSON struct {
	Seq     uint64          `json:"seq"`
	Time    string          `json:"time"`
	Type    string          `json:"type"`
	Work    string          `json:"work"`
	Session string          `json:"session"`
	Actor   string          `json:"actor"`
	Data    json.RawMessage `json:"data"`
	Prev    Hash            `json:"prev"`
	Hash    Hash            `json:"hash"`
	// ExactData is the bytes of Data if they cannot be recovered from the field data.
	ExactData []byte `json:"data_base64,omitempty"`
}

// MarshalJSON encodes the event as an object of seq, time, type, work, session, actor, data, prev
// and hash, with data as an object. UnmarshalJSON recovers the exact bytes of Data from it, so the
// hash can be computed again. For the few events where it could not (their data has white space
// between tokens, or escapes of <, > or &) the field data_base64 has the bytes.
func (e Event) MarshalJSON() ([]byte, error) {
	out := eventJSON{Seq: e.Seq, Time: e.Time.UTC().Format(EventTime), Type: e.Type, Work: e.Work,
		Session: e.Session,
		Actor:   e.Actor, Data: e.Data, Prev: e.Prev, Hash: e.Hash}
	if escaped, err := json.Marshal(out.Data); err == nil &&
		!bytes.Equal(unescapeHTML(escaped), e.Data) && e.Data != nil {
		out.ExactData = e.Data
	}
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false)
	err := enc.Encode(out)
	return bytes.TrimSuffix(buf.Bytes(), []byte("\n")), err
}

// UnmarshalJSON decodes what MarshalJSON or json.Marshal returned. It does not check the hash.
func (e *Event) UnmarshalJSON(text []byte) error {
	var in eventJSON
	if err := json.Unmarshal(text, &in); err != nil {
		return err
	}
	at, err := time.Parse(EventTime, in.Time)
	if err != nil {
		return fmt.Errorf("time of an event: %w", err)
	}
	data := in.ExactData
	if data == nil && !bytes.Equal(in.Data, []byte("null")) {
		data = unescapeHTML(in.Data)
	}
	*e = Event{Seq: in.Seq, Time: at, Type: in.Type, Work: in.Work, Session: in.Session, Actor: in.Actor,
		Data: data, Prev: in.Prev, Hash: in.Hash}
	return nil
}

// unescapeHTML reverses what json.Marshal does to the characters <, > and & in JSON.
func unescapeHTML(text []byte) []byte {
	if !bytes.Contains(text, []byte(`\u00`)) {
		return text
	}
	out := make([]byte, 0, len(text))
	for i := 0; i < len(text); i++ {
		if text[i] != '\\' || i+1 == len(text) {
			out = append(out, text[i])
			continue
		}
		if i+6 <= len(text) {
			switch string(text[i : i+6]) {
			case `\u003c`:
				out, i = append(out, '<'), i+5
				continue
			case `\u003e`:
				out, i = append(out, '>'), i+5
				continue
			case `\u0026`:
				out, i = append(out, '&'), i+5
				continue
			}
		}
		// any other escape, whose second byte may be a backslash
		out = append(out, text[i], text[i+1])
		i++
	}
	return out
}
