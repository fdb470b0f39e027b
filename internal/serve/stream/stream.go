// Package stream distributes the events of a ledger to any number of subscribers.
//
// A Hub follows the ledger once, encodes each event once, and keeps the latest ones in memory. A
// subscriber asks for the events after the last one that it has: the hub answers from memory, or
// from the ledger if the subscriber is far behind. Subscribers have no queue of their own, so a
// slow one costs nothing, never loses an event, and never delays the ledger or the others.
package stream

import (
	"context"
	"encoding/json"
	"iter"
	"sync"

	"signalbox"
)

// Journal is the part of a ledger that a hub needs.
type Journal interface {
	Read(ctx context.Context, after uint64, limit int) ([]signalbox.Event, error)
	Watch(ctx context.Context, after uint64) iter.Seq2[signalbox.Event, error]
}

// Entry is an event and its JSON form.
type Entry struct {
	Seq        uint64
	Type, Work string
	JSON       []byte
}

const (
	// keptEvents and keptBytes bound what the hub keeps in memory.
	keptEvents = 4096
	keptBytes  = 8 << 20
	// atOnce is the most events that Next returns. Of those that are not in memory, it returns no
	// more than about readBytes.
	atOnce    = 256
	readBytes = 128 << 10
)

// Hub distributes events. Its methods are safe for concurrent use.
type Hub struct {
	journal Journal

	// mu guards the fields below.
	mu sync.Mutex
	// recent has the latest events, without gaps, and bytes is their size. last is the sequence
	// number of the last one.
	recent []Entry
	bytes  int
	last   uint64
	// grown is closed and replaced when an event arrives, and when following ends.
	grown chan struct{}
	ended error // why the hub no longer follows the ledger
}

// NewHub returns a hub for a ledger whose last event is head.
func NewHub(j Journal, head uint64) *Hub {
	return &Hub{journal: j, last: head, grown: make(chan struct{})}
}

// Run follows the ledger until ctx is done or the ledger cannot be read, and returns the error.
// Subscribers get the same error.
func (h *Hub) Run(ctx context.Context) error {
	err := h.follow(ctx)
	h.mu.Lock()
	defer h.mu.Unlock()
	h.ended = err
	h.notify()
	return err
}

func (h *Hub) follow(ctx context.Context) error {
	h.mu.Lock()
	last := h.last
	h.mu.Unlock()
	for event, err := range h.journal.Watch(ctx, last) {
		if err != nil {
			return err
		}
		entry, err := newEntry(&event)
		if err != nil {
			return err
		}
		h.add(entry)
	}
	return ctx.Err()
}

func newEntry(e *signalbox.Event) (Entry, error) {
	data, err := json.Marshal(e)
	return Entry{e.Seq, e.Type, e.Work, data}, err
}

// add adds an event and wakes the subscribers.
func (h *Hub) add(e Entry) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.recent, h.bytes, h.last = append(h.recent, e), h.bytes+len(e.JSON), e.Seq
	drop := 0
	for ; len(h.recent)-drop > keptEvents || h.bytes > keptBytes && drop < len(h.recent)-1; drop++ {
		h.bytes -= len(h.recent[drop].JSON)
		// subscribers may share the array, but not this element: they have copies
		h.recent[drop] = Entry{}
	}
	h.recent = h.recent[drop:]
	h.notify()
}

// notify wakes all subscribers. The caller holds mu.
func (h *Hub) notify() {
	close(h.grown)
	h.grown = make(chan struct{})
}

// Last returns the sequence number of the last event that the hub has seen.
func (h *Hub) Last() uint64 {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.last
}

// Next returns the events that follow the event after, in order and without gaps, at least one. It
// waits until there is one.
func (h *Hub) Next(ctx context.Context, after uint64) ([]Entry, error) {
	for {
		entries, behind, wait, err := h.look(after)
		switch {
		case err != nil || len(entries) > 0:
			return entries, err
		case behind:
			return h.read(ctx, after)
		}
		select {
		case <-wait:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// look returns the events that are in memory. behind means that some of those wanted are only in
// the ledger.
func (h *Hub) look(after uint64) (entries []Entry, behind bool, wait <-chan struct{}, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if after >= h.last {
		return nil, false, h.grown, h.ended
	}
	if missing := h.last - after; missing > uint64(len(h.recent)) {
		return nil, true, nil, nil
	}
	from := len(h.recent) - int(h.last-after)
	wanted := h.recent[from:min(len(h.recent), from+atOnce)]
	return append([]Entry(nil), wanted...), false, nil, nil
}

// read returns events from the ledger.
func (h *Hub) read(ctx context.Context, after uint64) ([]Entry, error) {
	events, err := h.journal.Read(ctx, after, atOnce)
	if err != nil {
		return nil, err
	}
	var entries []Entry
	for i, size := 0, 0; i < len(events) && size < readBytes; i++ {
		entry, err := newEntry(&events[i])
		if err != nil {
			return nil, err
		}
		entries, size = append(entries, entry), size+len(entry.JSON)
	}
	return entries, nil
}
