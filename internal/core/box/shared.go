package box

import (
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
