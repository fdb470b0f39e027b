package nats

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"

	natsgo "github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"signalbox"
	"signalbox/internal/core/journal"
	"signalbox/internal/core/journal/driver"
	"signalbox/internal/lazy"
)

// Codes of errors of JetStream that package jetstream does not name.
const (
	codeNoPeers              jetstream.ErrorCode = 10005
	codeClusterNotAvailable  jetstream.ErrorCode = 10008
	codeNotLeader            jetstream.ErrorCode = 10009
	codeNoResources          jetstream.ErrorCode = 10023
	codeSequenceNotFound     jetstream.ErrorCode = 10043
	codeNoStorage            jetstream.ErrorCode = 10047
	codeDeleteFailed         jetstream.ErrorCode = 10057
	codeReplicasNotSupported jetstream.ErrorCode = 10074
	codeStreamOffline        jetstream.ErrorCode = 10118
	codeSubjectsOverlap      jetstream.ErrorCode = 10065
	codeIncompleteBatch      jetstream.ErrorCode = 10176
	codeSequenceMismatch     jetstream.ErrorCode = 10063
	codeStoreFailed          jetstream.ErrorCode = 10077
	codeDuplicateInProcess   jetstream.ErrorCode = 10158
)

var (
	// errNotSent means that a request was certainly not sent.
	errNotSent = errors.New("the request was not sent")
	// errAttemptTimeout means that one attempt took too long. It is not the error of the caller's
	// context.
	errAttemptTimeout = errors.New("no answer in time")
	// errNoLeader means that no server could prove to be the leader.
	errNoLeader = errors.New("the stream has no leader that reaches a majority")
	// errUnproven means that something is missing, according to a server that may have been
	// replaced as the leader, and that the user has no right to find out.
	errUnproven = errors.New("the servers do not prove that they are current")
	// errOlder means that too few nodes answer questions, because the others run an older version.
	errOlder = errors.New("nodes run an older version of signalbox")
	// errPending means that another append is under way.
	errPending = errors.New("another append is under way")
	// errMissing means that the leader cannot read an event of the log.
	errMissing = errors.New("an event is missing")
	// errDenied means that the server does not allow a request.
	errDenied = errors.New("the server does not permit it")
)

// apiCode returns the code of an error of JetStream, 0 for others.
func apiCode(err error) jetstream.ErrorCode {
	if api := (*jetstream.APIError)(nil); errors.As(err, &api) {
		return api.ErrorCode
	}
	return 0
}

// isWrongSequence reports whether an expected sequence number was wrong.
func isWrongSequence(err error) bool {
	code := apiCode(err)
	return code == jetstream.JSErrCodeStreamWrongLastSequence ||
		code == jetstream.JSErrCodeStreamWrongLastSequenceConstant
}

// isDenied reports whether the server does not permit a request.
func isDenied(err error) bool { return errors.Is(err, errDenied) }

// rejected reports whether an error means that the servers certainly stored nothing.
func (c *client) rejected(err error) bool {
	switch apiCode(err) {
	case 0:
		return errors.Is(err, errNotSent) || errors.Is(err, natsgo.ErrNoResponders) ||
			errors.Is(err, errDenied)
	case codeStoreFailed, codeSequenceMismatch: // of what a majority has accepted
		return false
	}
	// A server that was replaced as the leader, and does not know it yet, still gets messages and
	// rejects them. Its successor, which gets them too, may store them.
	return !c.replicated.Load()
}

// temporary reports whether an attempt that failed with err may succeed later.
func temporary(err error) bool {
	api := (*jetstream.APIError)(nil)
	if errors.As(err, &api) {
		switch api.ErrorCode {
		case jetstream.JSErrCodeJetStreamNotEnabled,
			jetstream.JSErrCodeJetStreamNotEnabledForAccount:
			return false
		case codeNotLeader, codeStreamOffline, codeIncompleteBatch:
			return true
		case codeDuplicateInProcess: // an earlier attempt of the same message, which may still be stored or fail
			return true
		}
		return api.Code == 503 || api.Code == 429
	}
	for _, one := range []error{errAttemptTimeout, errNoLeader, errUnproven, errPending, errMissing, errNotSent,
		natsgo.ErrNoResponders, natsgo.ErrDisconnected, natsgo.ErrTimeout} {
		if errors.Is(err, one) {
			return !errors.Is(err, natsgo.ErrConnectionClosed)
		}
	}
	return false
}

// hintNodes is what to do if too few nodes of a cluster work.
const hintNodes = "check that signalbox run, worker or serve runs on more than half of the machines of the cluster, and that they reach each other"

// unavailable returns an error that matches journal.ErrUnavailable, for what was tried for long.
func (c *client) unavailable(err error) error {
	what, hint := "the servers do not answer",
		"check that the servers of the journal run and can be reached; signalbox tries again by itself"
	switch {
	case errors.Is(err, errUnproven):
		what, hint = "the log seems to have lost something",
			"wait until the servers reach each other; to find out whether it has, permit the user to use "+
				raftSubject+": docs/reference/configuration.md"
	case errors.Is(err, errNoLeader), errors.Is(err, natsgo.ErrNoResponders),
		apiCode(err) == codeClusterNotAvailable, apiCode(err) == codeStreamOffline:
		what, hint = "the stream has no leader: too few of its servers work together",
			"start the servers that are down, or repair the network between them; nothing is lost if their disks are intact"
	}
	if c.embedded {
		hint = hintNodes
		if errors.Is(err, errUnproven) {
			hint = "install this version of signalbox on all machines of the cluster"
		}
	}
	switch apiCode(err) {
	case codeNoResources, codeNoStorage, codeStoreFailed:
		what, hint = "the servers cannot store anything",
			"free space on the disks of the servers, or raise max_file_store"
	}
	what, hint = c.orNodeFailure(what, hint)
	return signalbox.CodeFailed.Errorf(hint,
		"%w: %s: %w", journal.ErrUnavailable, what, err)
}

// orNodeFailure returns why the node of this process does not run, and what to do. If it runs, or
// if there is none, it returns the arguments.
func (c *client) orNodeFailure(what, hint string) (string, string) {
	if c.node == nil {
		return what, hint
	}
	if failed := c.node.failure(); failed != nil {
		return failed.Error(), signalbox.HintOf(failed)
	}
	return what, hint
}

// explain converts errors that a user can fix to a *signalbox.Error with a hint. It returns all
// other errors unchanged.
func explain(err error) error {
	if known := (*signalbox.Error)(nil); err == nil || errors.As(err, &known) {
		return err
	}
	what, hint := "", ""
	switch code := apiCode(err); {
	case errors.Is(err, errDenied):
		what, hint = "the user of the journal has no right to do this",
			"give the user the permissions that docs/reference/configuration.md lists, or use the credentials of another user"
	case code == jetstream.JSErrCodeJetStreamNotEnabled,
		code == jetstream.JSErrCodeJetStreamNotEnabledForAccount:
		what, hint = "the server has no JetStream, or not for this account",
			"enable JetStream in the configuration of the server"
	case code == jetstream.JSErrCodeStreamNotFound:
		what, hint = "the stream of the journal was deleted",
			driver.HintRestore
	case code == codeNoResources, code == codeNoStorage:
		what, hint = "the servers have no space left",
			"free space on the disks of the servers, or raise max_file_store"
	}
	if hint == "" {
		return err
	}
	return signalbox.CodeFailed.Errorf(hint,
		"%s: %w", what, err)
}

// explainConnect explains why no connection could be made.
func (c *client) explainConnect(err error) error {
	text := err.Error()
	what, hint := "the servers cannot be reached",
		"check that the servers of the journal run, and the address of the journal"
	if c.embedded {
		what, hint = "no node of the cluster can be reached", hintNodes
	}
	code := signalbox.CodeFailed
	switch {
	case errors.Is(err, natsgo.ErrAuthorization), errors.Is(err, natsgo.ErrAuthExpired),
		errors.Is(err, natsgo.ErrAuthRevoked), errors.Is(err, natsgo.ErrAccountAuthExpired),
		strings.Contains(text, "nkeys:"), strings.Contains(text, "authorization violation"):
		return &signalbox.Error{Code: code, Err: errors.New("the server refuses the login"),
			Hint: "check the credentials in the address of the journal"}
	case strings.Contains(text, "tls:"), strings.Contains(text, "x509:"):
		return &signalbox.Error{Code: code,
			Err:  fmt.Errorf("the server and this machine do not trust each other: %w", err),
			Hint: "check ca, cert and key in the address of the journal; with cluster:, that the secret is the same on every machine"}
	}
	what, hint = c.orNodeFailure(what, hint)
	return &signalbox.Error{Code: code, Err: fmt.Errorf("%w: %s: %w", journal.ErrUnavailable, what,
		err), Hint: hint}
}

// requests are the requests in progress. The client library does not end them when their connection
// breaks, and the server reports that it does not permit a message without saying to which request
// that belongs.
type requests struct {
	mu      sync.Mutex
	pending map[*request]bool // guarded by mu
}

// request is a request in progress.
type request struct {
	subject string
	cancel  context.CancelCauseFunc
}

// add adds a request to a subject. The caller calls remove at its end. The result is done when the
// request fails, with the cause.
func (r *requests) add(ctx context.Context, subject string) (inner context.Context, remove func()) {
	inner, cancel := context.WithCancelCause(ctx)
	one := &request{subject, cancel}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.pending == nil {
		r.pending = map[*request]bool{}
	}
	r.pending[one] = true
	return inner, func() {
		cancel(nil)
		r.mu.Lock()
		defer r.mu.Unlock()
		delete(r.pending, one)
	}
}

// fail ends the requests to a subject, or all if it is "".
func (r *requests) fail(subject string, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for one := range r.pending {
		if subject == "" || subject == one.subject {
			one.cancel(err)
		}
	}
}

var deniedSubject = lazy.Regexp(`(?i)permissions violation for publish to "([^"]+)"`)

// deny ends the requests that a message of the server is about.
func (r *requests) deny(err error) {
	if found := deniedSubject().FindStringSubmatch(err.Error()); found != nil {
		r.fail(found[1], fmt.Errorf("%w: %w", errDenied, err))
	}
}
