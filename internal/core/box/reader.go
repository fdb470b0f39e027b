package box

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"time"

	"signalbox"
	"signalbox/internal/core/applied"
	"signalbox/internal/core/journal"
	"signalbox/internal/core/journal/driver"
	"signalbox/ledger"
)

// Reader reads the events of a ledger.
type Reader struct {
	Journal journal.Journal
}

// readAtOnce is the number of events read at a time.
const readAtOnce = 2048

// Events yields the events that follow the event after, to the end of the ledger.
func (r *Reader) Events(ctx context.Context, after uint64) iter.Seq2[*signalbox.Event, error] {
	return eventsAfter(after, func(after uint64) ([]signalbox.Event, error) {
		return r.Journal.Read(ctx, after, readAtOnce)
	})
}

// eventsAfter yields the events that follow the event after, until read returns none.
func eventsAfter(after uint64, read func(after uint64) ([]signalbox.Event, error)) iter.Seq2[
	*signalbox.Event, error] {
	return func(yield func(*signalbox.Event, error) bool) {
		for {
			events, err := read(after)
			if err != nil {
				yield(nil, err)
				return
			}
			for i := range events {
				if !yield(&events[i], nil) {
					return
				}
			}
			if len(events) == 0 {
				return
			}
			after = events[len(events)-1].Seq
		}
	}
}

// between yields the events first to last.
func (r *Reader) between(ctx context.Context, first, last uint64) iter.Seq2[*signalbox.Event,
	error] {
	return func(yield func(*signalbox.Event, error) bool) {
		for e, err := range r.Events(ctx, first-1) {
			if err == nil && e.Seq > last || !yield(e, err) {
				return
			}
		}
	}
}

// backwardAtOnce is how many events are read at once on the way back.
const backwardAtOnce = 1024

// Backward yields the events last to first, in this order.
func (r *Reader) Backward(ctx context.Context, first, last uint64) iter.Seq2[*signalbox.Event,
	error] {
	return func(yield func(*signalbox.Event, error) bool) {
		// A read has fewer events than requested if they are large, and then lacks those that are
		// needed first.
		for n := uint64(backwardAtOnce); last >= first; {
			n = min(n, last-first+1)
			events, err := r.Journal.Read(ctx, last-n, int(n))
			if err != nil {
				yield(nil, err)
				return
			}
			if len(events) == 0 {
				yield(nil, unverified("event %d is missing", last-n+1))
				return
			}
			if uint64(len(events)) < n {
				n = max(1, uint64(len(events))/2)
				continue
			}
			for _, e := range slices.Backward(events) {
				if !yield(&e, nil) {
					return
				}
			}
			last -= n
			n = min(2*n, backwardAtOnce)
		}
	}
}

// firstAt returns the first of the events 1 to head that is not before a time, head+1 if there is
// none. Times never decrease, so it reads few events.
func (r *Reader) firstAt(ctx context.Context, at time.Time, head uint64) (uint64, error) {
	low, high := uint64(1), head+1
	for low < high {
		middle := low + (high-low)/2
		events, err := r.Journal.Read(ctx, middle-1, 1)
		if err != nil {
			return 0, err
		}
		if len(events) == 0 {
			return 0, unverified("event %d is missing", middle)
		}
		if events[0].Time.Before(at) {
			low = middle + 1
		} else {
			high = middle
		}
	}
	return low, nil
}

// hashes yields the hashes of the events from after+1 to last.
func (r *Reader) hashes(ctx context.Context, after, last uint64) iter.Seq2[signalbox.Hash, error] {
	return func(yield func(signalbox.Hash, error) bool) {
		if after >= last {
			return
		}
		for e, err := range r.Events(ctx, after) {
			if err != nil {
				yield(signalbox.Hash{}, err)
				return
			}
			if after = e.Seq; !yield(e.Hash, nil) || after >= last {
				return
			}
		}
		yield(signalbox.Hash{}, unverified("the ledger was truncated: event %d is missing",
			after+1))
	}
}

// treeFor computes the tree over as many events as a checkpoint signed, and checks its root.
func (r *Reader) treeFor(ctx context.Context, last *Checkpoint) (*ledger.Tree, error) {
	tree := &ledger.Tree{}
	for hash, err := range r.hashes(ctx, 0, last.Size) {
		if err != nil {
			return nil, err
		}
		tree.Append(hash)
	}
	if tree.Root() != last.Root {
		return nil, notSigned(last)
	}
	return tree, nil
}

// lastEvents returns the events at the end of the ledger that the memory keeps.
func (r *Reader) lastEvents(ctx context.Context) ([]signalbox.Event, error) {
	head, err := r.Journal.Head(ctx)
	if err != nil {
		return nil, err
	}
	var last []signalbox.Event
	for e, err := range r.Events(ctx, head-min(head, applied.Size)) {
		if err != nil {
			return nil, fmt.Errorf("read the ledger: %w", err)
		}
		last = append(last, *e)
	}
	return last, nil
}

// storedEvents returns the events after an event, also those that the journal refuses to read.
func (r *Reader) storedEvents(ctx context.Context,
	after uint64) iter.Seq2[*signalbox.Event, error] {
	database, ok := r.database().(journal.StoredReader)
	if !ok {
		return r.Events(ctx, after)
	}
	return eventsAfter(after, func(after uint64) ([]signalbox.Event, error) {
		return database.ReadStored(ctx, after)
	})
}

// Copies returns what the machines of a cluster have found out about their own copies of the
// ledger, and none if they keep none.
func (r *Reader) Copies(ctx context.Context) ([]journal.Copy, error) {
	if replicated, ok := r.database().(journal.Replicated); ok {
		return replicated.Copies(ctx)
	}
	return nil, nil
}

// database returns the log of the driver.
func (r *Reader) database() journal.Log {
	if j, ok := r.Journal.(*driver.LocalSnapshot); ok {
		return j.Log
	}
	return r.Journal
}
