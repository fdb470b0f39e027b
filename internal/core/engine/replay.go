package engine

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"

	"signalbox"
	"signalbox/internal/core/journal"
	"signalbox/internal/core/rules"
)

// ErrSnapshotDiffers means that the snapshot does not match the events. Someone changed it, or it
// is damaged in a way that its checksum does not reveal: remove it.
var ErrSnapshotDiffers = errors.New("the snapshot does not match the events of the ledger")

// errReplayed ends a replay.
var errReplayed = errors.New("all events were applied")

// Replay applies the events 1 to head and compares the result with the snapshot. Its errors are
// those of rules.State.Apply, ErrSnapshotDiffers, and those of reading. Progress, if not nil, is
// called from time to time with the number of events applied.
func Replay(ctx context.Context, j journal.Journal, head uint64, progress func(done uint64)) error {
	saved, err := j.LoadSnapshot(ctx)
	if err != nil && !errors.Is(err, journal.ErrNoSnapshot) {
		return fmt.Errorf("load the snapshot: %w", err)
	}
	if _, _, err := decodeSnapshot(saved, &signalbox.Event{}); err != nil {
		saved = journal.Snapshot{} // of another version, which this engine does not use
	}
	e := &Engine{journal: j, log: slog.New(slog.DiscardHandler), state: &rules.State{},
		advanced: make(chan struct{})}
	var differs error
	err = e.readAll(ctx, func() error {
		seq := e.state.Seq()
		if progress != nil && seq%readAtOnce == 0 {
			progress(seq)
		}
		if seq == saved.Seq && !bytes.Equal(e.snapshot().State, saved.State) {
			// continue: an invalid event is a worse error
			differs = fmt.Errorf("%w, at event %d", ErrSnapshotDiffers, seq)
		}
		if seq >= head {
			return errReplayed // what others append meanwhile may never end
		}
		return nil
	})
	if err == nil || errors.Is(err, errReplayed) {
		err = differs
	}
	return err
}
