package box

import (
	"bytes"
	"context"
	"crypto/sha256"
	"io"
	"slices"
	"sync"

	"signalbox"
	"signalbox/internal/core/journal"
)

// Fork returns a box in memory that starts as a copy of b, to try commands out. Nothing that is
// done in it reaches the files of b. The caller closes it before b.
func (b *Box) Fork(ctx context.Context) (*Box, error) {
	l := *b.Ledger
	l.Journal = &fork{Journal: b.Journal, base: b.Engine.Tail().Seq,
		blobs: map[signalbox.Hash][]byte{}}
	e, err := l.openWithoutMemory(ctx)
	if err != nil {
		return nil, err
	}
	return &Box{Ledger: &l, Config: b.Config, Engine: e, opened: e.Tail().Seq}, nil
}

// fork is the journal of a forked box: the first events of another journal, followed by events and
// blobs in memory. Watch is that of the other journal, because a fork is not watched.
type fork struct {
	journal.Journal
	base uint64 // how many events are in the other journal

	mu     sync.Mutex // guards the fields below
	events []signalbox.Event
	blobs  map[signalbox.Hash][]byte
}

func (f *fork) Append(_ context.Context, expected uint64, events []signalbox.Event) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if expected != f.base+uint64(len(f.events)) {
		return journal.ErrConflict
	}
	f.events = append(f.events, events...)
	return nil
}

func (f *fork) Read(ctx context.Context, after uint64, limit int) ([]signalbox.Event, error) {
	if after < f.base { // the other journal may have grown meanwhile
		return f.Journal.Read(ctx, after, int(min(uint64(limit), f.base-after)))
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	from := min(int(after-f.base), len(f.events))
	return slices.Clone(f.events[from:min(from+limit, len(f.events))]), nil
}

func (f *fork) Head(context.Context) (uint64, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.base + uint64(len(f.events)), nil
}

// LoadSnapshot returns no snapshot that was saved after the fork.
func (f *fork) LoadSnapshot(ctx context.Context) (journal.Snapshot, error) {
	s, err := f.Journal.LoadSnapshot(ctx)
	if err == nil && s.Seq > f.base {
		err = journal.ErrNoSnapshot
	}
	return s, err
}

func (f *fork) SaveSnapshot(context.Context, journal.Snapshot) error { return nil }

func (f *fork) PutBlob(_ context.Context, r io.Reader) (signalbox.Hash, error) {
	text, err := io.ReadAll(r)
	if err != nil {
		return signalbox.Hash{}, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	digest := signalbox.Hash(sha256.Sum256(text))
	f.blobs[digest] = text
	return digest, nil
}

func (f *fork) GetBlob(ctx context.Context, digest signalbox.Hash) (io.ReadCloser, error) {
	f.mu.Lock()
	text, ok := f.blobs[digest]
	f.mu.Unlock()
	if !ok {
		return f.Journal.GetBlob(ctx, digest)
	}
	return io.NopCloser(bytes.NewReader(text)), nil
}

func (f *fork) OpenBlob(ctx context.Context, digest signalbox.Hash) (journal.Blob, error) {
	f.mu.Lock()
	text, ok := f.blobs[digest]
	f.mu.Unlock()
	if !ok {
		return f.Journal.OpenBlob(ctx, digest)
	}
	return memoryBlob{bytes.NewReader(text)}, nil
}

// memoryBlob is an open blob in memory.
type memoryBlob struct{ *bytes.Reader }

func (memoryBlob) Close() error { return nil }

func (f *fork) DeleteBlob(context.Context, signalbox.Hash) error { return nil }

// Close leaves the other journal open.
func (f *fork) Close() error { return nil }
