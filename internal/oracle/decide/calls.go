package decide

import (
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"strconv"
)

const (
	callWindow    = 10 // calls that are remembered
	repeatedCalls = 3  // equal calls among them that are too many
)

// Calls is the history of the last tool calls of a conversation. The zero value is empty. It is
// immutable: Next returns a new one. Its size is bounded, and it can be stored as JSON.
type Calls struct {
	// Recent has the digests of the last calls, the newest last.
	Recent []string `json:"recent,omitempty"`
	// Told has the digests in Recent that the model was told about.
	Told []string `json:"told,omitempty"`
}

// Verdict is what to do with a tool call.
type Verdict string

const (
	Allow  Verdict = "allow"  // run it
	Tell   Verdict = "tell"   // run it, and tell the model that it repeats itself
	Refuse Verdict = "refuse" // do not run it; the result says why
)

// Next returns the verdict on the next call. The third equal call within ten gets Tell, further
// ones get Refuse as long as two of the nine calls before are equal; refused calls count too. Calls
// are equal if their names and their canonical arguments are equal.
func (c Calls) Next(name string, arguments []byte) (Calls, Verdict) {
	key := callKey(name, arguments)
	recent := append(slices.Clone(c.Recent), key)
	recent = recent[max(0, len(recent)-callWindow):]
	told := slices.DeleteFunc(slices.Clone(c.Told),
		func(k string) bool { return !slices.Contains(recent[:len(recent)-1], k) })
	same := 0
	for _, k := range recent {
		if k == key {
			same++
		}
	}
	verdict := Allow
	switch {
	case same < repeatedCalls:
	case slices.Contains(told, key):
		verdict = Refuse
	default:
		verdict, told = Tell, append(told, key)
	}
	return Calls{recent, told}, verdict
}

// callKey returns a digest of a call.
func callKey(name string, arguments []byte) string {
	text := strconv.Quote(name) + string(Canonical(arguments))
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:16])
}
