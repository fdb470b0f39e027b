// Package ledger makes a log of events one that nobody can quietly change. It is pure: bytes in, bytes and proofs
// out. docs/ledger-format.md specifies all of it for those who write a verifier of their own.
//
// An event's hash is over all its fields, its sequence and the hash of the event before included, so each event vouches
// for the whole log before it (Sum, Tail). The hashes are also the leaves of an RFC 6962 Merkle tree (Tree), whose
// root stands for the log up to there. A Checkpoint is such a root, signed. With it a Proof shows to somebody who has
// no log that an event is in it, CheckConsistency that a later log continues an earlier one, and Verify that the
// log still has exactly what was signed.
//
// The hash vouches for bytes, not for their meaning: Extend and Verify take an event whose Data is not JSON if
// its hash is right. What an event must be otherwise is for Validate, which its writer calls before Seal.
package ledger

import (
	"encoding/json"
	"errors"
	"fmt"
	"time"
	"unicode/utf8"

	"signalbox"
)

// Validate returns nil if the fields that Seal does not set are fit for a log: Time in the years 1 to 9999, Type not
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

// The first and the last second, in Unix time, of the years that an event's time may be in.
const (
	firstSecond = -62135596800 // 0001-01-01T00:00:00Z
	lastSecond  = 253402300799 // 9999-12-31T23:59:59Z
)

func timeInRange(t time.Time) bool {
	second := t.Unix()
	return firstSecond <= second && second <= lastSecond
}

// unverified is the error of everything here that checks what somebody else handed in.
func unverified(hint, format string, args ...any) error {
	return &signalbox.Error{Code: signalbox.CodeUnverified, Err: fmt.Errorf(format, args...), Hint: hint}
}
