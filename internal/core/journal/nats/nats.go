// Package nats implements a log in NATS JetStream, for boxes that several machines share: in
// servers that somebody else runs (Open), or in servers that the processes of the box run
// themselves (OpenCluster). Each box has two streams:
//
//	NAME        the log; the sequence number of a message is that of its event, and no message is ever deleted
//	NAME_files  blobs, in pieces
//
// An append is one message, or one atomic batch, that the server accepts only if the stream ends
// where the caller has read it. When the outcome of an attempt is not known, because a connection
// broke or a leader was elected, the same events are sent again: the expected sequence number lets
// at most one attempt in. Each append has a random number, stored with its events, from which it
// recognises them when it finds its place taken.
//
// Every server of a cluster can answer reads, and may be behind, or have a copy that has diverged.
// The leader of the stream is current, but a server may believe to be the leader long after it was
// replaced. Where the log ends, and that an event is missing, is known only from a leader that a
// majority of the servers does not contradict; see client.ask. Events are read from any server, and
// count if that leader has the last one of them.
package nats

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	natsgo "github.com/nats-io/nats.go"

	"signalbox"
	"signalbox/internal/core/journal"
	"signalbox/internal/core/journal/driver"
)

// Options are options for Open and OpenCluster.
type Options struct {
	// Dir is the folder to which names of files in an address are relative; "" means the current
	// folder.
	Dir string
	// Create creates the streams if there are none. Otherwise opening returns an error with
	// CodeNotFound.
	Create bool
	// Logger receives warnings; nil discards them.
	Logger *slog.Logger

	// For tests.
	name     string        // of the box in a cluster; "" means defaultName
	poll     time.Duration // 0 means defaultPoll
	patience time.Duration // 0 means defaultPatience
	attempt  time.Duration // 0 means defaultAttempt

	uploadAge time.Duration // 0 means defaultUploadAge
}

const (
	// defaultPoll is how often a watch reads the head, in case a notification was lost. It also
	// does so after each reconnection.
	defaultPoll = 5 * time.Second
	// defaultPatience is how long a call is tried again while there is no leader: an election takes
	// up to 9 seconds, and may have to be repeated.
	defaultPatience = 25 * time.Second
	// defaultAttempt bounds one attempt.
	defaultAttempt = 5 * time.Second
)

// Journal is a journal.Log in JetStream.
type Journal struct {
	*driver.Log
	*client
	fileStore
	warned sync.Once // of a ledger that has only one replica
}

// client sends requests to the servers, and remembers what they have said.
type client struct {
	opts     Options
	log      *slog.Logger
	conn     *natsgo.Conn
	name     string // of the stream with the events
	requests requests
	inbox    inbox
	clocks   clocks
	raft     raftGroups
	node     *node    // of this process; nil if it has none
	embedded bool     // the servers are nodes of a cluster
	nodes    []string // their names, sorted
	alone    bool     // a cluster of one node, which is meant to have one replica

	back       chan struct{} // capacity 1: the connection was made again
	known      atomic.Uint64 // a sequence number up to which events are known to be stored
	replicated atomic.Bool   // the stream with the events has more than one replica
	answered   atomic.Bool   // the nodes have answered the last question

	contention contention

	mu        sync.Mutex
	last      lastEvent // the last event that was read or appended; guarded by mu
	forgotten time.Time // what was seen before it is not to be remembered; guarded by mu
}

// lastEvent identifies an event.
type lastEvent struct {
	seq  uint64
	hash signalbox.Hash
	seen time.Time // when the call began that returned it
}

var (
	_ journal.Log      = (*Journal)(nil)
	_ journal.Expecter = (*Journal)(nil)
)

// Open opens a journal in servers that run already. The address is nats://HOST:PORT,…/NAME with the
// parameters that docs/reference/configuration.md lists.
func Open(ctx context.Context, address string, opts Options) (*Journal, error) {
	j, err := open(ctx, address, opts)
	if err != nil {
		return nil, fmt.Errorf("open the journal in NATS: %w", err)
	}
	return j, nil
}

func open(ctx context.Context, address string, opts Options) (*Journal, error) {
	a, err := parseAddress(address, opts.Dir)
	if err != nil {
		return nil, err
	}
	j := newJournal(a.name, opts)
	if err := j.connect(ctx, a.servers, a.options); err != nil {
		return nil, err
	}
	if err := j.findOrCreate(ctx, a.replicas); err != nil {
		j.conn.Close()
		return nil, err
	}
	return j, nil
}

func newJournal(name string, opts Options) *Journal {
	opts.poll = cmp.Or(opts.poll, defaultPoll)
	opts.patience = cmp.Or(opts.patience, defaultPatience)
	opts.attempt = cmp.Or(opts.attempt, defaultAttempt)
	opts.uploadAge = cmp.Or(opts.uploadAge, defaultUploadAge)
	c := &client{opts: opts, log: cmp.Or(opts.Logger, slog.New(slog.DiscardHandler)), name: name,
		back: make(chan struct{}, 1)}
	j := &Journal{client: c, fileStore: fileStore{client: c}}
	j.Log = driver.New(driver.Methods{Append: j.append, Read: j.read, Head: j.readHead,
		PutBlob: j.putBlob, GetBlob: j.getBlob, OpenBlob: j.openBlob, DeleteBlob: j.deleteBlob,
		Follow:  func() { j.Go(j.watchOthers) },
		Explain: explain, Release: j.release})
	return j
}

// release closes the connection, and stops the node of this process.
func (j *Journal) release() error {
	j.conn.Close()
	if j.node != nil {
		return j.node.stop()
	}
	return nil
}
