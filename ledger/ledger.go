// Package ledger makes a log of events tamper-evident. It is pure: it computes hashes, proofs and
// signatures and does no I/O. docs/reference/ledger-format.md specifies the formats for independent
// verifiers.
//
// The hash of an event covers all its fields, including its sequence number and the hash of the
// previous event, so each event commits to the whole log before it ([Sum], [Tail]). The hashes are
// also the leaves of an RFC 6962 Merkle tree ([Tree]). A signed root of that tree is a
// [Checkpoint]. Given a checkpoint, a [Proof] shows that an event is in the log to someone who does
// not have the log, [CheckConsistency] shows that a later log continues an earlier one, and
// [Verify] shows that the log still contains exactly what was signed.
//
// A hash covers bytes, not their meaning: [Tail.Extend] and [Verify] accept an event whose Data is
// not JSON if its hash is correct. Writers call [Validate] before [Tail.Seal].
package ledger

import (
	"encoding/json"
	"errors"
	"fmt"
	"time"
	"unicode/utf8"

	"signalbox"
)

// Validate checks the fields that Seal does not set: Time must be in the years 1 to 9999, Type not
// empty, all text valid UTF-8, and Data one JSON object.
func Validate(e *signalbox.Event) error {
	if !timeInRange(e.Time) {
		return errors.New("time is outside the years 1 to 9999")
	}
	if e.Type == "" {
		return errors.New("type must not be empty")
	}
	for _, field := range [...]struct{ name, text string }{
		{"type", e.Type}, {"work", e.Work}, {"session", e.Session}, {"actor", e.Actor},
	} {
		if !utf8.ValidString(field.text) {
			return fmt.Errorf("%s is not valid UTF-8", field.name)
		}
	}
	if !isObject(e.Data) {
		return errors.New("data is not a JSON object in valid UTF-8")
	}
	return nil
}

func isObject(data []byte) bool {
	for i, c := range data {
		switch c {
		case ' ', '\t', '\r', '\n':
			continue
		}
		return c == '{' && json.Valid(data[i:]) && utf8.Valid(data)
	}
	return false
}

// The first and the last second of the valid years, in Unix time.
const (
	firstSecond = -62135596800 // 0001-01-01T00:00:00Z
	lastSecond  = 253402300799 // 9999-12-31T23:59:59Z
)

func timeInRange(t time.Time) bool {
	second := t.Unix()
	return firstSecond <= second && second <= lastSecond
}

// unverified returns the error for input that fails verification.
func unverified(hint, format string, args ...any) error {
	return signalbox.CodeUnverified.Errorf(hint,
		format, args...)
}
