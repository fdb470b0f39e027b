// Package sqlite implements a journal in a folder: the log in a SQLite database, blobs and the
// snapshot in files. Any number of processes on one machine may use the folder at the same time. It
// contains:
//
//	ledger.db     the log, table events, with SQLite's own ledger.db-wal and ledger.db-shm while it is open
//	ledger.lock   the queue of the writers: an advisory lock, no content
//	wake          one byte, written after each append to wake watchers in other processes
//	snapshot      the saved state, with a checksum; snapshot.lock is the queue of those that save it
//	blobs/ab/cd…  a blob, named by its SHA-256; blobs/tmp has unfinished blobs
//
// Every append is one transaction, and the write-ahead log is synced before Append returns.
// Triggers prevent accidental changes to events; the hash chain of package ledger reveals
// deliberate ones.
//
// The folder must be on a local disk. On a network file system SQLite's shared memory does not work
// between machines, and locks may not work at all. To share a log between machines, use another
// journal.
package sqlite

import (
	"cmp"
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
	"signalbox/internal/core/journal/driver"
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

// readers is the maximum number of concurrent reads of a journal; others wait.
const readers = 4

// Options are options for Open. The zero value opens an existing journal for reading and writing.
type Options struct {
	// Create creates the database if there is none. Otherwise Open returns an error with
	// CodeNotFound.
	Create bool
	// ReadOnly opens the journal without permission to write, and changes nothing. There is one
	// exception: if the log is in use, or was not closed, and ledger.db-shm is missing, SQLite must
	// create that file; Open fails if it cannot.
	ReadOnly bool
	// Logger receives warnings; nil discards them.
	Logger *slog.Logger

	// For tests.
	maxPages    int           // SQLite's max_page_count; 0 means no limit
	tick        time.Duration // 0 means defaultTick
	busyTimeout time.Duration // 0 means defaultBusyTimeout
	noFSNotify  bool          // simulates a system without file notifications
}

// defaultTick is how often a watch polls, in case a notification was lost.
const defaultTick = time.Second

// defaultBusyTimeout is how long a call waits for other processes before it fails.
const defaultBusyTimeout = 30 * time.Second

// Journal is a journal.Journal in a folder.
type Journal struct {
	*driver.Log
	dir       string
	opts      Options
	log       *slog.Logger
	access    access        // of the readers
	immutable immutableFile // set for accessImmutable

	writer    pool // one connection
	readers   pool
	appends   queue
	snapshots queue // for SaveSnapshot
	wake      *os.File
	folders   sync.Map // folders of blobs whose names are durable
}

var _ journal.Journal = (*Journal)(nil)

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
		return nil, signalbox.CodeUsage.Errorf("",
			"a journal cannot be created read-only")
	}
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, err
	}
	j := &Journal{
		dir:       dir,
		opts:      *opts,
		log:       cmp.Or(opts.Logger, slog.New(slog.DiscardHandler)),
		appends:   newQueue(filepath.Join(dir, queueFile)),
		snapshots: newQueue(filepath.Join(dir, snapshotLockFile)),
	}
	j.Log = driver.New(driver.Methods{Append: j.append, Read: j.readEvents, Head: j.last,
		PutBlob: j.putBlob, GetBlob: j.getBlob, OpenBlob: j.openBlob, DeleteBlob: j.deleteBlob,
		Follow: j.follow, Explain: explain, Release: j.release})
	j.writer = newPool(1,
		func() (*conn, error) { return dial(j.path(ledgerFile), accessWrite, j.opts.maxPages) })
	j.readers = newPool(readers,
		func() (*conn, error) { return dial(j.path(ledgerFile), j.access, 0) })
	j.opts.tick = cmp.Or(opts.tick, defaultTick)
	j.opts.busyTimeout = cmp.Or(opts.busyTimeout, defaultBusyTimeout)
	return j, nil
}

func (j *Journal) path(name string) string { return filepath.Join(j.dir, filepath.FromSlash(name)) }

// open creates what is missing and opens a connection, so that problems with the database are
// reported here rather than by the first append.
func (j *Journal) open(ctx context.Context) (err error) {
	if err := ctx.Err(); err != nil {
		return err
	}
	defer func() {
		if err != nil {
			j.release()
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
	return j.with(ctx, j.writer, noop)
}

// noop is used to test whether a connection can be opened.
func noop(*conn) error { return nil }

// release closes the connections, the writer last: the last connection of the last process merges
// the write-ahead log into the database.
func (j *Journal) release() error {
	err := errors.Join(j.readers.close(), j.writer.close(), j.appends.close(), j.snapshots.close())
	if j.wake != nil {
		err = errors.Join(err, j.wake.Close())
	}
	return err
}
