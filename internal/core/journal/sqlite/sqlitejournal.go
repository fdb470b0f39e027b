// Package sqlitejournal keeps a journal in a folder: the log in a SQLite database, blobs and the snapshot in files
// beside it. Any number of processes on one machine may open one folder at the same time. The folder holds:
//
//	ledger.db     the log, table events, with SQLite's own ledger.db-wal and ledger.db-shm while it is open
//	ledger.lock   the queue of the writers: an advisory lock, no content
//	wake          a byte that is written after each append, so that watchers of other processes wake
//	snapshot      the saved fold, with a checksum; snapshot.lock is the queue of those who save it
//	blobs/ab/cd…  a blob under its SHA-256; blobs/tmp has those that are being put
//
// Every append is one transaction, and the write-ahead log is synced before it is acknowledged. Triggers refuse to
// change or delete events, which keeps out accidents; what keeps out intent is the hash chain of package ledger.
//
// The folder must lie on a local disk. On a network file system SQLite's shared memory does not work between machines,
// and locks may not work at all. Several machines share a log through another journal.
package sqlite

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"time"

	"signalbox"
	"signalbox/internal/core/journal"
)

const (
	ledgerFile       = "ledger.db"
	queueFile        = "ledger.lock"
	wakeFile         = "wake"
	snapshotFile     = "snapshot"
	snapshotLockFile = "snapshot.lock"
	blobFolder       = "blobs"
	blobTempFolder   = "blobs/tmp"
)

// readers is how many reads of one journal run at the same time; more wait for their turn.
const readers = 4

// Options say how to open a journal. The zero value opens one that exists, for reading and writing.
type Options struct {
	// Create makes the database if the folder has none. Without it that is an error of CodeNotFound.
	Create bool
	// ReadOnly opens the journal without write rights, and changes nothing that anybody wrote. Only a log that is in use,
	// or was not closed, and whose ledger.db-shm is missing needs that file made; where that is not allowed, Open says so.
	ReadOnly bool
	// Logger hears what works less well than it should, and why. Nil is silence.
	Logger *slog.Logger

	// For tests.
	maxPages int           // SQLite's max_page_count; 0 is no limit
	tick     time.Duration // 0 is defaultTick
	patience time.Duration // 0 is defaultPatience
	deaf     bool          // as if the system had no file notifications left
}

// defaultTick is how often a watcher looks by itself, in case no notification came.
const defaultTick = time.Second

// defaultPatience is how long a call waits for other processes before it says that they keep the log busy.
const defaultPatience = 30 * time.Second

// Journal is a journal.Journal in a folder.
type Journal struct {
	dir    string
	opts   Options
	log    *slog.Logger
	access access // of the readers
	still  still  // the file as it was opened, if it is read without locks

	writer    pool  // of one connection
	readers   pool  // of some
	appends   queue // of those who append
	snapshots queue // of those who save a snapshot
	wake      *os.File
	news      news
	folders   sync.Map // of blobs, those whose names are known to be durable

	close   func() error  // closeOnce, once
	closing chan struct{} // closed when Close is called
	mu      sync.Mutex    // guards closed, hearing, and calls.Add against calls.Wait
	closed  bool
	hearing bool           // hear runs
	calls   sync.WaitGroup // calls in flight, and hear
}

var _ journal.Journal = (*Journal)(nil)

var errClosed = errors.New("the journal is closed")

// Open opens the journal in dir, which must exist. A nil opts is the zero value.
func Open(ctx context.Context, dir string, opts *Options) (*Journal, error) {
	j, err := newJournal(dir, opts)
	if err == nil {
		err = j.open(ctx)
	}
	if err != nil {
		return nil, fmt.Errorf("open the journal in %s: %w", dir, explain(err))
	}
	return j, nil
}

func newJournal(dir string, opts *Options) (*Journal, error) {
	if opts == nil {
		opts = &Options{}
	}
	if opts.Create && opts.ReadOnly {
		return nil, &signalbox.Error{Code: signalbox.CodeUsage, Err: errors.New("a journal cannot be created read-only")}
	}
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, err
	}
	j := &Journal{
		dir:       dir,
		opts:      *opts,
		log:       opts.Logger,
		appends:   newQueue(filepath.Join(dir, queueFile)),
		snapshots: newQueue(filepath.Join(dir, snapshotLockFile)),
		news:      news{changed: make(chan struct{})},
		closing:   make(chan struct{}),
	}
	j.close = sync.OnceValue(j.closeOnce)
	j.writer = newPool(1, func() (*conn, error) { return dial(j.path(ledgerFile), toWrite, j.opts.maxPages) })
	j.readers = newPool(readers, func() (*conn, error) { return dial(j.path(ledgerFile), j.access, 0) })
	if j.log == nil {
		j.log = slog.New(slog.DiscardHandler)
	}
	if j.opts.tick == 0 {
		j.opts.tick = defaultTick
	}
	if j.opts.patience == 0 {
		j.opts.patience = defaultPatience
	}
	return j, nil
}

func (j *Journal) path(name string) string { return filepath.Join(j.dir, filepath.FromSlash(name)) }

// open creates what is missing and may be created, and tries the database once, so that what is wrong with it is said
// here and not at the first append.
func (j *Journal) open(ctx context.Context) (err error) {
	if err := ctx.Err(); err != nil {
		return err
	}
	defer func() {
		if err != nil {
			j.free()
		}
	}()
	if err := j.findOrCreate(ctx); err != nil {
		return err
	}
	if j.opts.ReadOnly {
		return j.openReadOnly(ctx)
	}
	if j.wake, err = openWake(j.path(wakeFile)); err != nil {
		return err
	}
	if err := j.appends.open(); err != nil {
		return err
	}
	removeOrphans(j.path(blobTempFolder), time.Now())
	return j.with(ctx, j.writer, nothing)
}

// nothing is what is done with a connection to learn whether there can be one.
func nothing(*conn) error { return nil }

// enter notes that a call begins, unless the journal is closed or ctx has ended; leave, that it ended.
func (j *Journal) enter(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.closed {
		return errClosed
	}
	j.calls.Add(1)
	return nil
}

func (j *Journal) leave() { j.calls.Done() }

// Close ends all watches, waits for the calls in flight, and frees what the journal holds. Calls that wait for other
// processes do not wait on. Closing again does nothing.
func (j *Journal) Close() error { return j.close() }

func (j *Journal) closeOnce() error {
	j.mu.Lock()
	j.closed = true
	close(j.closing)
	j.mu.Unlock()
	j.calls.Wait()
	return j.free()
}

// free closes the connections, the writing one last: the last connection of the last process merges the
// write-ahead log into the database.
func (j *Journal) free() error {
	err := errors.Join(j.readers.close(), j.writer.close(), j.appends.close(), j.snapshots.close())
	if j.wake != nil {
		err = errors.Join(err, j.wake.Close())
	}
	return err
}

// await waits for a value of a channel, as long as ctx lasts and the journal is open.
func await[T any](ctx context.Context, j *Journal, from <-chan T) (value T, err error) {
	select {
	case value = <-from:
		return value, nil
	case <-ctx.Done():
		return value, ctx.Err()
	case <-j.closing:
		return value, errClosed
	}
}
