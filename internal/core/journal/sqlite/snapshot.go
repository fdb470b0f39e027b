package sqlite

import (
	"context"
	"os"

	"signalbox/internal/core/journal"
	"signalbox/internal/core/journal/driver"
)

// SaveSnapshot replaces the snapshot unless the stored one is newer.
func (j *Journal) SaveSnapshot(ctx context.Context, s journal.Snapshot) error {
	return j.Do(ctx, func(ctx context.Context) error {
		if j.opts.ReadOnly {
			return nil // it is only a cache
		}
		if err := j.snapshots.enter(ctx, j.opts.busyTimeout); err != nil {
			return err
		}
		defer j.snapshots.leave()
		return driver.WriteSnapshot(j.path(snapshotFile), s, j.snapshotLimit())
	}, "save the snapshot")
}

// LoadSnapshot returns the snapshot, or ErrNoSnapshot if there is none or it is damaged.
func (j *Journal) LoadSnapshot(ctx context.Context) (s journal.Snapshot, err error) {
	err = j.Do(ctx, func(context.Context) (err error) {
		s, err = driver.ReadSnapshot(j.path(snapshotFile), j.snapshotLimit())
		return err
	}, "load the snapshot")
	return s, err
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
