package access

import (
	"strings"

	"signalbox"
)

// Scope is what a token allows. Each of Read, Answer and Operate includes the ones before it.
type Scope string

const (
	// Public is needed by requests that everyone may make, such as health checks. No token has it.
	Public Scope = ""
	// Read allows reading everything in the box, including transcripts.
	Read Scope = "read"
	// Private is needed for reading what is not about the work, such as a portfolio, and for
	// reading that makes the server work hard. Read includes it, but no one has it without a token:
	// agents can connect to loopback. No token has it.
	Private Scope = "private"
	// Answer allows answering questions, approving and rejecting merges, and giving words to
	// agents.
	Answer Scope = "answer"
	// Operate allows everything, including opening work, claiming it in any role, and cancelling
	// the run.
	Operate Scope = "operate"
)

// sessionPrefix begins the scope of a single session.
const sessionPrefix = "session:"

// Session returns the scope that allows renewing, releasing and ending one session, and reading
// nothing but its work.
func Session(id string) Scope { return Scope(sessionPrefix + id) }

// ParseScope returns the scope with a name, or an error that lists the names.
func ParseScope(name string) (Scope, error) {
	switch s := Scope(name); s {
	case Read, Answer, Operate:
		return s, nil
	}
	if id, ok := strings.CutPrefix(name, sessionPrefix); ok {
		if err := signalbox.CheckID(id); err != nil {
			return "", err
		}
		return Scope(name), nil
	}
	return "", signalbox.CodeUsage.Errorf("a scope is read, answer, operate, or session:ID",
		"unknown scope '%s'", name)
}

// Allows reports whether a token with scope s may make a request that needs another scope.
func (s Scope) Allows(needed Scope) bool {
	if s == needed || needed == Public {
		return true
	}
	return s.rank() > 0 && s.rank() >= needed.rank() && (needed.rank() > 0 || s == Operate)
}

// rank orders the scopes that include each other. It is 0 for those of sessions, which only Operate
// includes.
func (s Scope) rank() int {
	switch s {
	case Read, Private:
		return 1
	case Answer:
		return 2
	case Operate:
		return 3
	}
	return 0
}

// OfToken returns the least scope of a token that allows a request which needs s.
func (s Scope) OfToken() Scope {
	if s == Private {
		return Read
	}
	return s
}

func (s Scope) isSession() bool { return strings.HasPrefix(string(s), sessionPrefix) }
