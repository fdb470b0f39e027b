package box

import (
	"context"
	"path/filepath"

	"signalbox/internal/core/journal"
	"signalbox/internal/core/journal/driver"
)

// snapshotName is the file with the snapshot, whichever database has the ledger. SQLite's driver
// gives it the same name.
const snapshotName = "snapshot"

// shared returns the log that a driver has opened as the journal of this machine.
func shared(dir string, how access, log journal.Log, err error) (journal.Journal, error) {
	if err != nil {
		return nil, err
	}
	return &driver.LocalSnapshot{Log: log, Path: filepath.Join(dir, snapshotName),
		ReadOnly: how == readOnly}, nil
}

// Copies returns what the machines of a cluster have found out about their own copies of the
// ledger, and none if they keep none.
func (l *Ledger) Copies(ctx context.Context) ([]journal.Copy, error) {
	if replicated, ok := l.database().(journal.Replicated); ok {
		return replicated.Copies(ctx)
	}
	return nil, nil
}

// database returns the log of the driver.
func (l *Ledger) database() journal.Log {
	if j, ok := l.Journal.(*driver.LocalSnapshot); ok {
		return j.Log
	}
	return l.Journal
}
