package decide

import (
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"strconv"
)

const (
	callWindow    = 10 // so many calls are remembered
	repeatedCalls = 3  // so many equal ones among them are too many
)

// Calls remembers the last tool calls of a conversation. The zero value remembers none. It is a value: Next returns the
// changed one, and what it was stays as it was. Its size is bounded, and it may be kept as JSON with the session.
type Calls struct {
	// Recent are the digests of the last calls, the newest last.
	Recent []string `json:"recent,omitempty"`
	// Told are the digests among Recent of which the model has been told.
	Told []string `json:"told,omitempty"`
}

// Verdict is what to do with a tool call.
type Verdict string

const (
	Allow  Verdict = "allow"  // run it
	Tell   Verdict = "tell"   // run it, and tell the model that it repeats itself
	Refuse Verdict = "refuse" // do not run it; the result says why
)

// Next judges the next call. The third equal call within ten is told of, those after it are refused for as long as there
// are two equal ones among the nine before; a refused one counts too. Calls are equal if their names are and their
// arguments are the same JSON, whatever its spacing, key order, escapes and form of numbers.
func (c Calls) Next(name string, arguments []byte) (Calls, Verdict) {
	key := callKey(name, arguments)
	recent := append(slices.Clone(c.Recent), key)
	recent = recent[max(0, len(recent)-callWindow):]
	told := slices.DeleteFunc(slices.Clone(c.Told), func(k string) bool { return !slices.Contains(recent[:len(recent)-1], k) })
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

// callKey is short however long the arguments are.
func callKey(name string, arguments []byte) string {
	text := strconv.Quote(name) + string(Canonical(arguments))
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:16])
}
