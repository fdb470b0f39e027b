package engine

import (
	"context"
	"encoding/binary"

	"signalbox"
	"signalbox/internal/core/journal"
	"signalbox/internal/core/rules"
	"signalbox/ledger"
)

// A snapshot is saved when the log has grown by an eighth since the last one, and by at least a
// thousand events, or by forty thousand. So the cost of snapshots is small per event, and a command
// that only looks at a log of a million events starts within a second: it decodes the snapshot in
// 0.4 s, and applies 80,000 events a second.
const (
	snapshotShare      = 8
	snapshotEvents     = 1000
	snapshotMostEvents = 40_000
)

// snapshotDue reports whether to save a snapshot. The caller holds mu.
func (e *Engine) snapshotDue() bool {
	seq := e.state.Seq()
	return e.broken == nil && !e.isSaving && seq-e.saved >= snapshotAfter(seq)
}

// snapshotAfter returns how many events newer than the last snapshot a log with seq events may
// have.
func snapshotAfter(seq uint64) uint64 {
	return max(snapshotEvents, min(seq/snapshotShare, snapshotMostEvents))
}

// snapshot encodes the state. The caller holds mu.
func (e *Engine) snapshot() journal.Snapshot { return encodeSnapshot(&e.tail, e.state) }

// encodeSnapshot concatenates the length of the tree, the tree, and the state.
func encodeSnapshot(tail *ledger.Tail, state *rules.State) journal.Snapshot {
	tree, err := tail.Tree.MarshalBinary()
	if err != nil {
		panic("engine: encoding a tree: " + err.Error())
	}
	data := binary.AppendUvarint(nil, uint64(len(tree)))
	data = append(data, tree...)
	return journal.Snapshot{Seq: tail.Seq, Hash: tail.Hash,
		State: append(data, state.Snapshot()...)}
}

// saveIfDue encodes and saves a snapshot in a goroutine, if one is due.
func (e *Engine) saveIfDue() {
	e.mu.Lock()
	defer e.mu.Unlock()
	if !e.snapshotDue() {
		return
	}
	e.isSaving = true
	tail, state := e.tail, e.state.ForSnapshot()
	e.saving.Go(func() {
		s := encodeSnapshot(&tail, state)
		e.save(s)
		e.mu.Lock()
		defer e.mu.Unlock()
		e.isSaving, e.saved = false, s.Seq
	})
}

// save saves a snapshot, which is on this machine, so Close waits for it. Errors are only logged,
// because the snapshot is a cache.
func (e *Engine) save(s journal.Snapshot) {
	if err := e.journal.SaveSnapshot(context.Background(), s); err != nil {
		e.log.Warn("cannot save a snapshot; the next start will take longer", "error", err)
	}
}

func decodeSnapshot(s journal.Snapshot, last *signalbox.Event) (ledger.Tail, *rules.State, error) {
	length, size := binary.Uvarint(s.State)
	if size <= 0 || length > uint64(len(s.State)-size) {
		return ledger.Tail{}, nil, rules.ErrSnapshot
	}
	tail := ledger.Tail{Seq: s.Seq, Time: ledger.NotBefore(last), Hash: s.Hash}
	rest := s.State[size:]
	if err := tail.Tree.UnmarshalBinary(rest[:length]); err != nil {
		return ledger.Tail{}, nil, err
	}
	state, err := rules.FromSnapshot(rest[length:])
	if err != nil {
		return ledger.Tail{}, nil, err
	}
	if state.Seq() != s.Seq || tail.Tree.Size() != s.Seq {
		return ledger.Tail{}, nil, rules.ErrSnapshot
	}
	return tail, state, nil
}
