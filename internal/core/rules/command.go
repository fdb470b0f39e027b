package rules

import (
	"fmt"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"signalbox"
)

// Command is something that somebody wants. The commands are types of this package and no others.
type Command interface {
	decide(*decider) error
}

// OpenBox is the first command of every log.
type OpenBox struct{ Box, Actor string }

// OpenWork adds a work item.
type OpenWork struct {
	Work, Title, Actor string
	// Phase it starts in; "" is IMPLEMENTATION.
	Phase signalbox.Phase
}

// Claim asks for the lease of a work item. A session that holds it already is answered with the lease it has.
type Claim struct {
	// Work is "" for whatever is next for the role: work near its end first, then what was opened first.
	Work           string
	Role           signalbox.Role
	Session, Actor string
	// Lease is the id that the lease will have. A session that has a lease of that id is answered with it.
	Lease string
	// TTL is how long the lease lives; 0 is signalbox.DefaultLeaseTTL.
	TTL time.Duration
}

// Renew extends a lease. It never shortens it.
type Renew struct {
	Work, Session string
	Epoch         uint64
	TTL           time.Duration
}

// Release gives a lease back. A holder names its session and epoch; an operator names no session, and a reason, and an
// epoch to take away that lease and no later one.
type Release struct {
	Work, Session string
	Epoch         uint64
	Actor, Reason string
}

// Exit hands in an exit signal under a session's lease.
type Exit struct {
	Session string
	// Epoch of the lease; 0 is the session's only live one.
	Epoch  uint64
	Signal signalbox.ExitSignal
	// Fault is why the signal could not be read, "" if it could; then Signal is not looked at.
	Fault string
	// Blob is where the signal was read, and Offset where in it.
	Blob   signalbox.Hash
	Offset int64
	// Times is how often the session has sent this signal, as far as the caller knows; 0 is once.
	Times int
	// Turn is set when the signal is what a whole turn said.
	Turn *Turn
}

// Unblock returns BLOCKED work to the phase that it was blocked in.
type Unblock struct{ Work, Note, Actor string }

// Expire records that leases have run out, if any has.
type Expire struct{}

// RedactBlob records that the bytes of a blob are to be destroyed.
type RedactBlob struct {
	Blob          signalbox.Hash
	Reason, Actor string
}

// maxText is the longest title, reason or note in a command, in bytes.
const maxText = 4096

// checkText refuses what would not be the same after a round trip through JSON, and what steers terminals.
func checkText(what, text string) error {
	fault := ""
	switch {
	case len(text) > maxText:
		fault = fmt.Sprintf("%d bytes, limit %d", len(text), maxText)
	case !utf8.ValidString(text):
		fault = "must be UTF-8"
	case strings.ContainsFunc(text, func(r rune) bool { return unicode.IsControl(r) && r != '\n' && r != '\t' }):
		fault = "must not contain control characters"
	default:
		return nil
	}
	return refusef(signalbox.CodeUsage, "shorten it or write it as plain text", "invalid %s: %s", what, fault)
}

func requireText(what, text string) error {
	if strings.TrimSpace(text) == "" {
		return refusef(signalbox.CodeUsage, "say why, for those who read the ledger later", "the %s is empty", what)
	}
	return checkText(what, text)
}

// checkIDs takes pairs of what an id names and the id.
func checkIDs(pairs ...string) error {
	for i := 0; i < len(pairs); i += 2 {
		if err := signalbox.CheckID(pairs[i+1]); err != nil {
			return refusef(signalbox.CodeUsage, "ids look like task-7, S.1 or dev_2", "%s: %w", pairs[i], err)
		}
	}
	return nil
}

// firstOf returns the first error that is not nil: a person mends one thing at a time.
func firstError(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}
