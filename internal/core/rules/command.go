package rules

import (
	"fmt"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"signalbox"
)

// Command is a request to change the state. All commands are types of this package.
type Command interface {
	decide(*decider) error
}

// OpenBox is the first command of every log.
type OpenBox struct{ Box, Actor, Key string }

// OpenWork adds a work item.
type OpenWork struct {
	Work, Title, Actor string
	// Phase is the phase it starts in; "" means IMPLEMENTATION.
	Phase signalbox.Phase
	// Ref is the branch, tag or commit that has the work, "" if it is not known yet.
	Ref string
}

// Claim asks for the lease of a work item. A session that already holds it gets the lease it has.
type Claim struct {
	// Work is the work item to claim. "" means the next one for the role: the latest phase first,
	// then the oldest.
	Work           string
	Role           signalbox.Role
	Session, Actor string
	// Lease is the id of the new lease. A session that has a lease with that id gets it again.
	Lease string
	// TTL is how long the lease is valid; 0 means signalbox.DefaultLeaseTTL.
	TTL time.Duration
	// Secret is the hash of the secret of the new lease. Without one, only operators and crews can
	// use the lease.
	Secret signalbox.Hash
	// Caller is who claims; nil means an operator.
	Caller *Caller
	// SelfReview allows the caller to review and audit work that it developed.
	SelfReview bool

	crew    bool   // a crew runs the checks of work opened by hand
	agent   string // that the crew is to start
	machine string // on which the crew works
}

// Renew extends a lease. It never shortens it.
type Renew struct {
	Work, Session string
	Epoch         uint64
	TTL           time.Duration
	// Caller is who renews; nil means an operator or a crew.
	Caller *Caller
}

// Release ends a lease. The holder gives its session and epoch. An operator gives a reason and no
// session; with an epoch, the release fails if another lease is live by then.
type Release struct {
	Work, Session string
	Epoch         uint64
	Actor, Reason string
	// Caller is who releases; nil means an operator or a crew.
	Caller *Caller
}

// Exit reports an exit signal under a session's lease.
type Exit struct {
	Session string
	// Epoch of the lease; 0 means the session's only live lease.
	Epoch  uint64
	Signal signalbox.ExitSignal
	// Fault says why the signal could not be parsed; Signal is ignored then. "" means that it
	// could.
	Fault string
	// Contradicts is the blob of another signal that was submitted in the same turn, for which
	// Fault refuses both as ambiguous; nil means that there is none.
	Contradicts *signalbox.Hash
	// Blob contains the signal, at Offset.
	Blob   signalbox.Hash
	Offset int64
	// Notes is the blob with the notes of the signal, if they are long; see LongNotes.
	Notes signalbox.Hash
	// Times is how often the session has sent this signal, as far as the caller knows; 0 means
	// once.
	Times int
	// Turn is set if the signal ends a turn of an agent. Refused are the signals of that turn that
	// were refused.
	Turn    *Turn
	Refused []RefusedSignal
	// Ref is the branch, tag or commit that has the work, for the checks of work opened by hand. ""
	// leaves it as it is.
	Ref string
	// Caller is who submits the signal; nil means an operator or a crew.
	Caller *Caller
}

// Unblock returns BLOCKED work to the phase that it was blocked in.
type Unblock struct{ Work, Note, Actor string }

// Heartbeat renews leases of checks and merges with one event. It skips leases that have ended, so
// the sender must check which leases are still live.
type Heartbeat struct {
	Epochs []uint64
	// TTL is how long the leases are valid from now; 0 means signalbox.DefaultLeaseTTL.
	TTL   time.Duration
	Actor string
}

// Expire records the leases that have expired, if any.
type Expire struct{}

// RedactBlob records that the bytes of a blob will be destroyed.
type RedactBlob struct {
	Blob          signalbox.Hash
	Reason, Actor string
}

// maxText is the longest title, reason or note in a command, in bytes.
const maxText = 4096

// checkText refuses text that would change in a round trip through JSON, or that contains terminal
// escapes.
func checkText(what, text string) error { return checkTextUpTo(what, text, maxText) }

func checkTextUpTo(what, text string, limit int) error {
	fault := ""
	switch {
	case len(text) > limit:
		fault = fmt.Sprintf("%d bytes, limit %d", len(text), limit)
	case !utf8.ValidString(text):
		fault = "must be UTF-8"
	case strings.ContainsFunc(text,
		func(r rune) bool { return unicode.IsControl(r) && r != '\n' && r != '\t' }):
		fault = "must not contain control characters"
	default:
		return nil
	}
	return refusef(signalbox.CodeUsage, "shorten it or write it as plain text", "invalid %s: %s",
		what, fault)
}

func requireText(what, text string) error { return requireTextUpTo(what, text, maxText) }

func requireTextUpTo(what, text string, limit int) error {
	if strings.TrimSpace(text) == "" {
		return refusef(signalbox.CodeUsage, "the ledger records it for later readers",
			"the %s is empty", what)
	}
	return checkTextUpTo(what, text, limit)
}

// checkCommits refuses what is not the full id of a commit: other machines pass what the ledger
// says to git. "" is left for the caller to judge.
func checkCommits(commits ...string) error {
	for _, commit := range commits {
		if commit == "" {
			continue
		}
		if err := signalbox.CheckCommit(commit); err != nil {
			return refusef(signalbox.CodeUsage, "write all of its 40 or 64 hexadecimal digits",
				"%w", err)
		}
	}
	return nil
}

// checkBranch refuses what cannot be the name of a branch. "" is left for the caller to judge.
func checkBranch(name string) error {
	if name == "" {
		return nil
	}
	if err := signalbox.CheckBranch(name); err != nil {
		return refusef(signalbox.CodeUsage, "write the name of a branch, such as main", "%w", err)
	}
	return checkText("branch", name)
}

// checkIDs validates ids. It takes pairs: what the id names, and the id.
func checkIDs(pairs ...string) error {
	for i := 0; i < len(pairs); i += 2 {
		if err := signalbox.CheckID(pairs[i+1]); err != nil {
			return refusef(signalbox.CodeUsage, "ids look like task-7, S.1 or dev_2", "%s: %w",
				pairs[i], err)
		}
	}
	return nil
}
