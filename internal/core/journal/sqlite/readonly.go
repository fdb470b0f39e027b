package sqlite

import (
	"context"
	"errors"
	"io/fs"
	"os"

	sqlite3 "modernc.org/sqlite/lib"

	"signalbox"
)

var errReadOnly = signalbox.CodeUsage.Errorf("",
	"the journal was opened read-only")

// immutableFile is the database file as it was when it was opened without locks.
type immutableFile struct {
	path string
	info fs.FileInfo
}

// openReadOnly opens a database without permission to write. If there is no write-ahead log, no
// process has the database open and it can be read without locks, which also works on a read-only
// medium.
func (j *Journal) openReadOnly(ctx context.Context) error {
	path := j.path(ledgerFile)
	_, err := os.Stat(path + "-wal")
	switch {
	case err == nil:
		j.access = accessReadOnly
	case errors.Is(err, fs.ErrNotExist):
		j.access = accessImmutable
		j.immutable.path = path
		if j.immutable.info, err = os.Stat(path); err != nil {
			return err
		}
	default:
		return err
	}
	err = j.onReader(ctx, noop)
	if _, statErr := os.Stat(path + "-shm"); sqliteCode(err) == sqlite3.SQLITE_CANTOPEN &&
		j.access == accessReadOnly && statErr != nil {
		return signalbox.CodeFailed.Errorf(
			"copy the box to a folder that you may write, and open that copy",
			"the ledger was copied while it was in use, and cannot be read in a read-only folder: %w", err)
	}
	return err
}

// check returns an error if a process has opened the database since. Data read meanwhile may be
// wrong.
func (f *immutableFile) check() error {
	now, err := os.Stat(f.path)
	if err != nil {
		return err
	}
	_, err = os.Stat(f.path + "-wal")
	if errors.Is(err, fs.ErrNotExist) && now.Size() == f.info.Size() &&
		now.ModTime().Equal(f.info.ModTime()) {
		return nil
	}
	return signalbox.CodeFailed.Errorf("try again",
		"another process started to write to the ledger while it was read")
}
