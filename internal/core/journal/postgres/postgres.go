// Package postgres implements a log in a PostgreSQL database, for boxes that several machines
// share. Each box has a schema of its own, with these tables:
//
//	format       the version of the tables, and the present fence
//	events       the log; triggers refuse to change it
//	blobs        the digest of each blob, and the upload that has its bytes
//	blob_pieces  the bytes of uploads
//
// An append is one call of the function append_event or append_events. It locks the table format,
// and inserts its events only if the log ends where the caller has read it: a primary key alone
// would allow gaps. Notifications wake watches on other machines. They are only a hint, sent after
// the transaction, because NOTIFY makes the transactions of a database wait for each other; watches
// also poll.
//
// If the answer to an append is lost, the journal fences it: a statement under the same lock looks
// whether the events are stored, and changes the number with which an append must be sent, so that
// the database refuses them if they arrive later. Until that has succeeded, the journal reads
// nothing. Appends of other processes that are refused too learn the new number and are sent again.
package postgres

import (
	"cmp"
	"context"
	"fmt"
	"hash/fnv"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"signalbox/internal/core/journal"
	"signalbox/internal/core/journal/driver"
	"signalbox/internal/lazy"
)

// Options are options for Open.
type Options struct {
	// Schema is the schema of the box in the database.
	Schema string
	// Create creates the schema and its tables if there are none. Otherwise Open returns an error
	// with CodeNotFound.
	Create bool
	// Logger receives warnings; nil discards them.
	Logger *slog.Logger

	// For tests.
	poll     time.Duration    // 0 means defaultPoll
	answer   time.Duration    // 0 means answerTimeout
	patience time.Duration    // 0 means patience
	notice   time.Duration    // 0 means notifyTimeout
	formats  []format         // nil means formats
	clock    func() time.Time // of this machine; nil means time.Now
}

// program returns the version of the tables that this program knows.
func (o *Options) program() int { return len(o.formats) }

const (
	// defaultPoll is how often a watch reads the head, in case a notification was lost.
	defaultPoll = 2 * time.Second
	// lockTimeout is how long a statement waits for a lock.
	lockTimeout = 10 * time.Second
	// answerTimeout is how long the database may take for an answer.
	answerTimeout = 20 * time.Second
	// patience is how long a call tries again while the database cannot be reached: as long as a
	// server takes to restart. Callers should not have to wait much longer.
	patience = 5 * time.Second
	// connections is the maximum number of connections of a journal, besides the one that receives
	// notifications. They are closed when they are not needed for idleTime, because each is a
	// process of the server.
	connections = 4
	idleTime    = time.Minute
	// maxUploads is the maximum number of blobs that are stored at a time. The other connections
	// are for appends, which never wait for uploads.
	maxUploads = connections - 2
)

// Journal is a journal.Log in a PostgreSQL database.
type Journal struct {
	*driver.Log
	opts   Options
	log    *slog.Logger
	pool   *pgxpool.Pool
	schema string // quoted
	// appendOne and appendMany are the statements that append one event, or several.
	appendOne, appendMany string
	lock                  int64 // the advisory lock of creating the tables

	notify chan uint64 // capacity 1: heads that others are to be notified of

	uploading chan struct{} // capacity maxUploads: blobs that are being stored

	fence atomic.Int64 // as the database has last told it

	mu       sync.Mutex
	attempts []attempt // appends whose outcome is unknown; guarded by mu
}

var _ journal.Log = (*Journal)(nil)

// schemas are the names that a schema may have.
var schemas = lazy.Regexp(`^[a-z][a-z0-9_]{0,62}$`)

// Open opens the journal in a database, whose address is a URL or a list of settings as libpq
// defines them.
func Open(ctx context.Context, address string, opts Options) (*Journal, error) {
	j, err := open(ctx, address, opts)
	if err != nil {
		return nil, fmt.Errorf("open the journal in PostgreSQL: %w", explain(err))
	}
	return j, nil
}

func open(ctx context.Context, address string, opts Options) (*Journal, error) {
	if !schemas().MatchString(opts.Schema) {
		return nil, driver.UsageError(
			"%q is not the name of a schema: a small letter, then small letters, digits and _, at most 63 in all", opts.Schema)
	}
	config, err := configure(address)
	if err != nil {
		return nil, err
	}
	opts.poll, opts.answer, opts.patience, opts.notice = cmp.Or(opts.poll, defaultPoll),
		cmp.Or(opts.answer, answerTimeout), cmp.Or(opts.patience, patience),
		cmp.Or(opts.notice, notifyTimeout)
	if opts.formats == nil {
		opts.formats = formats
	}
	if opts.clock == nil {
		opts.clock = time.Now
	}
	j := &Journal{opts: opts, log: cmp.Or(opts.Logger, slog.New(slog.DiscardHandler)),
		schema: pgx.Identifier{opts.Schema}.Sanitize(), lock: lockOf(opts.Schema),
		notify: make(chan uint64, 1), uploading: make(chan struct{}, maxUploads)}
	j.Log = driver.New(driver.Methods{Append: j.append, Read: j.read, Head: j.lastSeq,
		PutBlob: j.putBlob, GetBlob: j.getBlob, OpenBlob: j.openBlob, DeleteBlob: j.deleteBlob,
		Follow:  func() { j.Go(j.watchOthers) },
		Explain: explain, Release: j.release})
	j.appendOne = j.sql("SELECT BOX.append_event($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)")
	j.appendMany = j.sql("SELECT BOX.append_events($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)")
	if j.pool, err = pgxpool.NewWithConfig(ctx, config); err != nil {
		return nil, err
	}
	finding, cancel := context.WithTimeout(ctx, opts.answer+transactTimeout)
	defer cancel()
	if err := j.findOrCreate(finding); err != nil {
		j.pool.Close()
		if ctx.Err() == nil && isUnavailable(err) {
			err = unavailable(err)
		}
		return nil, err
	}
	j.Go(j.notifyOthers)
	return j, nil
}

// lockOf returns the advisory lock of a schema. Two schemas may have the same one; they then only
// wait for each other.
func lockOf(schema string) int64 {
	h := fnv.New64a()
	h.Write([]byte("signalbox " + schema))
	return int64(h.Sum64() &^ 1)
}

// release closes all connections.
func (j *Journal) release() error {
	j.pool.Close()
	return nil
}
