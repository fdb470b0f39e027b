package sqlite

import (
	"context"
	"fmt"
	"os"

	"signalbox/internal/core/journal"
	"signalbox/internal/core/journal/driver"
)

// SaveSnapshot replaces the snapshot unless the stored one is newer.
func (j *Journal) SaveSnapshot(ctx context.Context, s journal.Snapshot) error {
	err := j.calls.Enter(ctx)
	if err == nil {
		err = j.saveSnapshot(ctx, s)
		j.calls.Leave()
	}
	if err != nil {
		return fmt.Errorf("save the snapshot: %w", explain(err))
	}
	return nil
}

func (j *Journal) saveSnapshot(ctx context.Context, s journal.Snapshot) error {
	if j.opts.ReadOnly {
		return nil // it is only a cache
	}
	if err := j.snapshots.enter(ctx, j); err != nil {
		return err
	}
	defer j.snapshots.leave()
	return driver.WriteSnapshot(j.path(snapshotFile), s, j.snapshotLimit())
}

// LoadSnapshot returns the snapshot, or ErrNoSnapshot if there is none or it is damaged.
func (j *Journal) LoadSnapshot(ctx context.Context) (journal.Snapshot, error) {
	if err := j.calls.Enter(ctx); err != nil {
		return journal.Snapshot{}, fmt.Errorf("load the snapshot: %w", err)
	}
	defer j.calls.Leave()
	s, err := driver.ReadSnapshot(j.path(snapshotFile), j.snapshotLimit())
	if err != nil {
		return journal.Snapshot{}, fmt.Errorf("load the snapshot: %w", err)
	}
	return s, nil
}

// snapshotLimit returns a size that is not much larger than the database, because the state is
// computed from it.
func (j *Journal) snapshotLimit() int64 {
	limit := int64(driver.SnapshotSlack)
	for _, name := range []string{ledgerFile, ledgerFile + "-wal"} {
		if log, err := os.Stat(j.path(name)); err == nil {
			limit += 4 * log.Size()
		}
	}
	return limit
}
