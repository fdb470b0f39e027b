package engine

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"iter"
	"slices"
	"sync"
	"testing"

	"signalbox"
	"signalbox/internal/core/journal"
	"signalbox/internal/core/journal/journaltest"
)

// memory is a journal that keeps everything in memory and holds to every duty of the interface.
// Several engines may share one.
type memory struct {
	*storage
	closed chan struct{}
	once   sync.Once
}

// storage is what several open journals have in common.
type storage struct {
	mu       sync.Mutex
	events   []signalbox.Event
	batches  []int         // how many events each append stored
	readOut  int           // how many events were read
	grown    chan struct{} // closed and replaced when the log grows
	snapshot *journal.Snapshot
	blobs    map[signalbox.Hash][]byte
}

var errMemoryClosed = errors.New("the journal is closed")

func newMemory() *memory {
	return (&storage{grown: make(chan struct{}), blobs: map[signalbox.Hash][]byte{}}).open()
}

func (s *storage) open() *memory { return &memory{storage: s, closed: make(chan struct{})} }

// enter locks the journal, or says why it must not be used.
func (m *memory) enter(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	select {
	case <-m.closed:
		return errMemoryClosed
	default:
		m.mu.Lock()
		return nil
	}
}

func (m *memory) Append(ctx context.Context, expected uint64, events []signalbox.Event) error {
	if err := m.enter(ctx); err != nil {
		return fmt.Errorf("%w: %w", journal.ErrNotStored, err)
	}
	defer m.mu.Unlock()
	if fault := appendFault(expected, events); fault != "" {
		return fmt.Errorf("%w: %s", journal.ErrNotStored, fault)
	}
	if expected != uint64(len(m.events)) {
		return journal.ErrConflict
	}
	if len(events) == 0 {
		return nil
	}
	if expected > 0 && events[0].Prev != m.events[expected-1].Hash {
		return fmt.Errorf("%w: event %d does not continue the log", journal.ErrNotStored,
			expected+1)
	}
	m.add(events)
	return nil
}

func appendFault(expected uint64, events []signalbox.Event) string {
	if len(events) > journal.MaxAppend {
		return fmt.Sprintf("%d events, limit %d", len(events), journal.MaxAppend)
	}
	for i, e := range events {
		if e.Seq != expected+1+uint64(i) || i > 0 && e.Prev != events[i-1].Hash {
			return fmt.Sprintf("event %d does not follow event %d", e.Seq, expected+uint64(i))
		}
		size := len(e.Type) + len(e.Work) + len(e.Session) + len(e.Actor) + len(e.Data)
		if size > journal.MaxEventBytes {
			return fmt.Sprintf("event %d has %d bytes, limit %d", e.Seq, size,
				journal.MaxEventBytes)
		}
	}
	return ""
}

// add stores events whatever they are. The caller holds mu.
func (m *storage) add(events []signalbox.Event) {
	m.events = append(m.events, cloneEvents(events)...)
	m.batches = append(m.batches, len(events))
	close(m.grown)
	m.grown = make(chan struct{})
}

func cloneEvents(events []signalbox.Event) []signalbox.Event {
	events = slices.Clone(events)
	for i := range events {
		events[i].Data = bytes.Clone(events[i].Data)
	}
	return events
}

func (m *memory) Read(ctx context.Context, after uint64, limit int) ([]signalbox.Event, error) {
	if err := m.enter(ctx); err != nil {
		return nil, err
	}
	defer m.mu.Unlock()
	return m.read(after, limit), nil
}

// read is Read for who holds mu.
func (m *storage) read(after uint64, limit int) []signalbox.Event {
	if after >= uint64(len(m.events)) {
		return nil
	}
	rest := m.events[after:]
	rest = rest[:max(0, min(limit, len(rest)))]
	m.readOut += len(rest)
	return cloneEvents(rest)
}

func (m *memory) Watch(ctx context.Context, after uint64) iter.Seq2[signalbox.Event, error] {
	return func(yield func(signalbox.Event, error) bool) {
		for {
			err := m.enter(ctx)
			if err != nil {
				yield(signalbox.Event{}, err)
				return
			}
			events, grown := m.read(after, 100), m.grown
			m.mu.Unlock()
			for _, e := range events {
				if !yield(e, nil) {
					return
				}
				after = e.Seq
			}
			if len(events) > 0 {
				continue
			}
			select {
			case <-grown:
			case <-m.closed:
			case <-ctx.Done():
			}
		}
	}
}

func (m *memory) Head(ctx context.Context) (uint64, error) {
	if err := m.enter(ctx); err != nil {
		return 0, err
	}
	defer m.mu.Unlock()
	return uint64(len(m.events)), nil
}

func (m *memory) SaveSnapshot(ctx context.Context, s journal.Snapshot) error {
	if err := m.enter(ctx); err != nil {
		return err
	}
	defer m.mu.Unlock()
	if m.snapshot == nil || m.snapshot.Seq <= s.Seq {
		s.State = bytes.Clone(s.State)
		m.snapshot = &s
	}
	return nil
}

func (m *memory) LoadSnapshot(ctx context.Context) (journal.Snapshot, error) {
	if err := m.enter(ctx); err != nil {
		return journal.Snapshot{}, err
	}
	defer m.mu.Unlock()
	if m.snapshot == nil {
		return journal.Snapshot{}, journal.ErrNoSnapshot
	}
	s := *m.snapshot
	s.State = bytes.Clone(s.State)
	return s, nil
}

func (m *memory) PutBlob(ctx context.Context, r io.Reader) (signalbox.Hash, error) {
	data, err := io.ReadAll(contextReader{ctx, r})
	if err != nil {
		return signalbox.Hash{}, err
	}
	if err := m.enter(ctx); err != nil {
		return signalbox.Hash{}, err
	}
	defer m.mu.Unlock()
	digest := signalbox.Hash(sha256.Sum256(data))
	m.blobs[digest] = data
	return digest, nil
}

// contextReader reads until its context ends.
type contextReader struct {
	ctx context.Context
	r   io.Reader
}

func (c contextReader) Read(p []byte) (int, error) {
	if err := c.ctx.Err(); err != nil {
		return 0, err
	}
	return c.r.Read(p)
}

func (m *memory) GetBlob(ctx context.Context, digest signalbox.Hash) (io.ReadCloser, error) {
	if err := m.enter(ctx); err != nil {
		return nil, err
	}
	defer m.mu.Unlock()
	data, ok := m.blobs[digest]
	switch {
	case !ok:
		return nil, journal.ErrNoBlob
	case sha256.Sum256(data) != digest:
		return nil, journal.ErrDamaged
	}
	return io.NopCloser(bytes.NewReader(data)), nil
}

func (m *memory) OpenBlob(ctx context.Context, digest signalbox.Hash) (journal.Blob, error) {
	if err := m.enter(ctx); err != nil {
		return nil, err
	}
	defer m.mu.Unlock()
	data, ok := m.blobs[digest]
	if !ok {
		return nil, journal.ErrNoBlob
	}
	return memoryBlob{bytes.NewReader(data)}, nil
}

// memoryBlob is an open blob.
type memoryBlob struct{ *bytes.Reader }

func (memoryBlob) Close() error { return nil }

func (m *memory) DeleteBlob(ctx context.Context, digest signalbox.Hash) error {
	if err := m.enter(ctx); err != nil {
		return err
	}
	defer m.mu.Unlock()
	delete(m.blobs, digest)
	return nil
}

func (m *memory) Close() error {
	m.once.Do(func() { close(m.closed) })
	return nil
}

// change does to the log what no journal allows.
func (m *storage) change(change func(events []signalbox.Event) []signalbox.Event) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.events = change(m.events)
	close(m.grown)
	m.grown = make(chan struct{})
}

// stored returns the whole log, and how many events each append stored.
func (m *storage) stored() ([]signalbox.Event, []int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return cloneEvents(m.events), slices.Clone(m.batches)
}

func TestMemoryIsAJournal(t *testing.T) {
	journaltest.Run(t, func(*testing.T) journaltest.Log {
		s := newMemory().storage
		return journaltest.Log{
			Open: func(testing.TB) journal.Log { return s.open() },
			DamageBlob: func(_ testing.TB, digest signalbox.Hash) {
				s.mu.Lock()
				defer s.mu.Unlock()
				s.blobs[digest] = append(bytes.Clone(s.blobs[digest]), 'x')
			},
		}
	})
}
