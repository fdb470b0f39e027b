// Package journal says what a durable log is: the interface between the engine, which decides, and a driver, which
// keeps. Drivers are in rooms of their own (sqlitejournal), and journaltest is the suite that each must pass.
//
// A journal knows nothing of what events mean. It keeps them in order, without gaps, and never changes one; it keeps
// one snapshot, which is a cache and may be lost at any time; and it keeps blobs under their SHA-256.
package journal

import (
	"context"
	"errors"
	"io"
	"iter"

	"signalbox"
)

var (
	// ErrConflict means that the log has moved on since the caller last read it: read on, decide again, and
	// append again. Nothing was stored. If there is nothing to read on, the log has lost events.
	ErrConflict = errors.New("the log has moved on")
	// ErrNotStored means that an append failed and it is certain that nothing was stored, now or later: a full
	// disk, a folder that became read-only. Errors that match neither this nor ErrConflict leave it open: read the
	// log to learn what happened.
	ErrNotStored = errors.New("nothing was stored")
	// ErrNoSnapshot means that there is no snapshot, or none that can be read: fold the log from its start.
	ErrNoSnapshot = errors.New("no snapshot")
	// ErrNoBlob means that no blob has that digest: it was never put, or it was deleted.
	ErrNoBlob = errors.New("no such blob")
	// ErrDamaged means that what is stored cannot be what was written. Stop, and restore from a copy.
	ErrDamaged = errors.New("the stored data is damaged")
)

// MaxAppend is the largest number of events in one append that every journal takes.
const MaxAppend = 1000

// MaxEventBytes is the largest event, the lengths of its text fields and Data together, that every journal takes.
const MaxEventBytes = 512 << 10

// Snapshot is a saved fold of the log up to and including event Seq, whose hash is Hash.
type Snapshot struct {
	Seq  uint64
	Hash signalbox.Hash
	// State is opaque to the journal.
	State []byte
}

// Journal is a durable log, shared by any number of processes. All methods are safe for concurrent use. Errors
// that a person can do something about are *signalbox.Error.
type Journal interface {
	// Append adds events after expected, the sequence of the last event the caller has seen. It returns
	// ErrConflict, and stores nothing, if the log has moved on. When it returns nil the events are on stable
	// storage: a power cut or kill -9 at any later moment loses none of them. All are stored or none.
	//
	// The caller has set every field: Seq is expected+1 and so on, Prev and Hash chain. The driver refuses events
	// that do not follow expected, but does not compute hashes. It does not keep the slice. An append of no events only
	// compares expected with the log.
	Append(ctx context.Context, expected uint64, events []signalbox.Event) error

	// Read returns the limit events that follow after, dense and in order; fewer only at the end of the log.
	Read(ctx context.Context, after uint64, limit int) ([]signalbox.Event, error)

	// Watch yields the events that follow after, those already there first, then each as it is appended by any
	// process, without gaps. It blocks between events. It ends when ctx does, yielding ctx's error, and with any
	// other error it meets; the caller may watch again from the last event it got.
	Watch(ctx context.Context, after uint64) iter.Seq2[signalbox.Event, error]

	// Head returns the sequence of the last event, 0 for an empty log. It sees every append that was
	// acknowledged to anybody before the call.
	Head(ctx context.Context) (uint64, error)

	// SaveSnapshot replaces the snapshot unless the stored one is newer. It need not be durable, but LoadSnapshot never
	// returns half a snapshot: it returns ErrNoSnapshot instead.
	SaveSnapshot(ctx context.Context, s Snapshot) error
	LoadSnapshot(ctx context.Context) (Snapshot, error)

	// PutBlob stores what r yields and returns its SHA-256. When it returns nil the blob is on stable storage, so
	// that an event may name it. Putting the same bytes again changes nothing.
	PutBlob(ctx context.Context, r io.Reader) (signalbox.Hash, error)
	// GetBlob returns the bytes of a blob, or ErrNoBlob. It checks them before it returns: bytes that do not have
	// this digest are ErrDamaged. The caller closes it.
	GetBlob(ctx context.Context, digest signalbox.Hash) (io.ReadCloser, error)
	// DeleteBlob destroys the bytes of a blob. If there is none it does nothing.
	DeleteBlob(ctx context.Context, digest signalbox.Hash) error

	// Close ends all watches and frees what the journal holds. Methods called later return an error.
	Close() error
}
