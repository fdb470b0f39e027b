// Package journal defines the interface of a durable log, between the engine and its drivers. Each
// driver is in its own package, such as sqlite, and must pass the test suite of package
// journaltest.
//
// A journal does not interpret events. It stores them in order, without gaps, and never changes
// them. It also stores blobs, which are identified by their SHA-256, and one snapshot, which is a
// cache and may be lost at any time. What several machines share is only the log and the blobs:
// each machine trusts only the snapshot that it made itself.
package journal

import (
	"context"
	"errors"
	"io"
	"iter"
	"time"

	"signalbox"
)

var (
	// ErrConflict means that other events were appended since the caller last read the log, and
	// nothing was stored: read the new events, decide again, and append again. If there are no new
	// events, the log has lost events.
	ErrConflict = errors.New("the log has new events")
	// ErrNotStored means that an append failed and that nothing was or will be stored, for example
	// because the disk is full. After an error that matches neither this nor ErrConflict, the
	// outcome is unknown: read the log to find out.
	ErrNotStored = errors.New("nothing was stored")
	// ErrNoSnapshot means that there is no valid snapshot: compute the state from the first event.
	ErrNoSnapshot = errors.New("no snapshot")
	// ErrNoBlob means that there is no blob with that digest: it was never stored, or it was
	// deleted.
	ErrNoBlob = errors.New("no such blob")
	// ErrDamaged means that stored data is not what was written. Stop, and restore from a backup.
	ErrDamaged = errors.New("the stored data is damaged")
	// ErrUnavailable means that the database cannot be reached now, or cannot store anything, and
	// that it may come back by itself: try again later. Any method may return it. Whether an append
	// was stored follows from ErrNotStored, as for any other error.
	ErrUnavailable = errors.New("the journal is not available")
	// ErrClockSkew means that the clock of this machine is wrong, or that of the database, or the
	// time of the last event. An event with a wrong time could expire all leases, or none for a
	// long time.
	ErrClockSkew = errors.New("clock_skew")
)

// Missed is ErrConflict with the events that the caller has not read: those that follow the event
// that it expected to be the last.
type Missed struct{ Events []signalbox.Event }

func (m *Missed) Error() string { return ErrConflict.Error() }
func (m *Missed) Unwrap() error { return ErrConflict }

// MaxAhead is how far the time of an event may be ahead of the clock of the database, and how far
// the clock of a machine may jump.
const MaxAhead = 5 * time.Second

// MaxAppend is the maximum number of events in one append.
const MaxAppend = 1000

// MaxEventBytes is the maximum size of an event: the lengths of its text fields and Data together.
const MaxEventBytes = 512 << 10

// Snapshot is a saved state after event Seq, whose hash is Hash.
type Snapshot struct {
	Seq  uint64
	Hash signalbox.Hash
	// State is opaque to the journal.
	State []byte
}

// Journal is a log with a snapshot, shared by the processes of one machine.
type Journal interface {
	Log

	// SaveSnapshot replaces the snapshot unless the stored one is newer. It need not be durable,
	// but LoadSnapshot returns ErrNoSnapshot rather than an incomplete snapshot.
	SaveSnapshot(ctx context.Context, s Snapshot) error
	LoadSnapshot(ctx context.Context) (Snapshot, error)
}

// Log is a durable log with blobs, shared by any number of processes. All methods are safe for
// concurrent use. Errors that a user can fix are *signalbox.Error.
type Log interface {
	// Append stores events after expected, the sequence number of the last event that the caller
	// has read. If that is not the last event of the log, Append stores nothing and returns
	// ErrConflict, which may be a *Missed. Either all events are stored or none. When Append returns
	// nil they are on stable storage: neither a power failure nor kill -9 loses them.
	//
	// The caller sets every field: Seq is expected+1 and so on, and Prev and Hash form a chain. The
	// driver refuses events that do not follow expected, but does not compute hashes. It does not
	// retain the slice. An append of no events only compares expected with the log.
	Append(ctx context.Context, expected uint64, events []signalbox.Event) error

	// Read returns at most limit events that follow the event after, in order and without gaps. It
	// may return fewer, to bound the memory that large events need, and it may lack events that
	// other processes have just appended. But it returns none only at the end of the log, and it
	// lacks no event up to the last that this Log has appended or returned, or that its Head has
	// reported: if they are missing, the log has lost them, and Head says so. If an event is
	// damaged or missing, although the log has later ones, Read returns those before it, and
	// ErrDamaged if there are none: it may take seconds to find out that an event stays missing. An
	// event larger than MaxEventBytes is ErrDamaged, without being read into memory.
	Read(ctx context.Context, after uint64, limit int) ([]signalbox.Event, error)

	// Watch yields the events that follow the event after: first the existing ones, then each event
	// when any process appends it, without gaps. It blocks between events. It ends with the first
	// error, which is ctx's error when ctx is done; the caller may watch again from the last event.
	Watch(ctx context.Context, after uint64) iter.Seq2[signalbox.Event, error]

	// Head returns the sequence number of the last event, 0 for an empty log. It includes every
	// append that returned, in any process, before the call.
	Head(ctx context.Context) (uint64, error)

	// PutBlob stores the bytes of r and returns their SHA-256. When it returns nil the blob is on
	// stable storage, so an event may refer to it. Storing the same bytes again changes nothing.
	PutBlob(ctx context.Context, r io.Reader) (signalbox.Hash, error)
	// GetBlob returns the bytes of a blob, or ErrNoBlob. It returns ErrDamaged if their digest is
	// wrong. The caller closes the reader.
	GetBlob(ctx context.Context, digest signalbox.Hash) (io.ReadCloser, error)
	// OpenBlob opens a blob for reading parts of it, or returns ErrNoBlob. It reads nothing, so it
	// does not find damage: who relies on the bytes computes their digest. The caller closes the
	// result.
	OpenBlob(ctx context.Context, digest signalbox.Hash) (Blob, error)
	// DeleteBlob destroys the bytes of a blob. It does nothing if there is no such blob.
	DeleteBlob(ctx context.Context, digest signalbox.Hash) error

	// Close ends all watches and releases all resources. Later calls of other methods return an
	// error.
	Close() error
}

// Repairer is implemented by journals whose last events can be replaced, by who owns the log.
type Repairer interface {
	// ReplaceTail replaces the events that follow the event after by others, if last is still the
	// last event of the log: otherwise it changes nothing and returns ErrConflict. The new events
	// continue the log, and may have any time. When it returns nil they are on stable storage. After
	// another error it is unknown whether the events were replaced; calling it again is safe.
	ReplaceTail(ctx context.Context, last signalbox.Hash, after uint64,
		events []signalbox.Event) error
	// MayRemove returns an error if ReplaceTail can only append, because the database does not
	// allow events to be removed.
	MayRemove() error
}

// StoredReader is implemented by journals that anybody with the password can append anything to, also
// what Read refuses to return.
type StoredReader interface {
	// ReadStored returns some events after an event as they are stored, none at the end. One that
	// cannot be decoded has its bytes as Data, and no other field but Seq.
	ReadStored(ctx context.Context, after uint64) ([]signalbox.Event, error)
}

// Blob is an open blob. Its methods may be called concurrently.
type Blob interface {
	io.ReaderAt
	io.Closer
	// Size returns the number of bytes.
	Size() int64
}
