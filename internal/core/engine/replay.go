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

// ErrSnapshotDiffers means that the snapshot is not the fold of the log. Somebody made it so, or it is damaged in a way
// that its checksum does not show: remove it.
var ErrSnapshotDiffers = errors.New("the snapshot is not the fold of the ledger")

// Replay folds the whole log from its first event, whatever the snapshot says, and compares the snapshot with the fold.
// Its errors are those of rules.State.Apply, ErrSnapshotDiffers, and those of reading. Progress, if not nil, is
// called now and then with the number of events folded.
func Replay(ctx context.Context, j journal.Journal, progress func(done uint64)) error {
	saved, err := j.LoadSnapshot(ctx)
	if err != nil && !errors.Is(err, journal.ErrNoSnapshot) {
		return fmt.Errorf("load the snapshot: %w", err)
	}
	if _, _, err := decodeSnapshot(saved, &signalbox.Event{}); err != nil {
		saved = journal.Snapshot{} // of another version: no engine of this one starts from it
	}
	e := &Engine{journal: j, log: slog.New(slog.DiscardHandler), state: &rules.State{}, moved: make(chan struct{})}
	var differs error
	err = e.fold(ctx, func() error {
		seq := e.state.Seq()
		if progress != nil && seq%readAtOnce == 0 {
			progress(seq)
		}
		if seq == saved.Seq && !bytes.Equal(e.snapshot().State, saved.State) {
			differs = fmt.Errorf("%w, at event %d", ErrSnapshotDiffers, seq) // worse may come: what was decided on it
		}
		return nil
	})
	if err == nil {
		err = differs
	}
	return err
}
