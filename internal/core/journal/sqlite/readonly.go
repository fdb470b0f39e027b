package sqlite

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"

	sqlite3 "modernc.org/sqlite/lib"

	"signalbox"
)

var errReadOnly = &signalbox.Error{
	Code: signalbox.CodeUsage,
	Err:  errors.New("the journal was opened read-only"),
}

// still is the database file as it was when it was opened to be read without locks.
type still struct {
	path string
	info fs.FileInfo
}

// openReadOnly chooses how to read a database that may not be written, and tries. Without a write-ahead log nobody has
// it open, and without locks nothing need be written beside it: that also works on a read-only medium.
func (j *Journal) openReadOnly(ctx context.Context) error {
	path := j.path(ledgerFile)
	_, err := os.Stat(path + "-wal")
	switch {
	case err == nil:
		j.access = toLookAt
	case errors.Is(err, fs.ErrNotExist):
		j.access = frozen
		j.still.path = path
		if j.still.info, err = os.Stat(path); err != nil {
			return err
		}
	default:
		return err
	}
	err = j.onReader(ctx, nothing)
	if _, statErr := os.Stat(path + "-shm"); sqliteCode(err) == sqlite3.SQLITE_CANTOPEN && j.access == toLookAt && statErr != nil {
		return &signalbox.Error{
			Code: signalbox.CodeFailed,
			Err:  fmt.Errorf("the ledger was copied while it was in use, and cannot be read without writing beside it: %w", err),
			Hint: "copy the box once more to where you may write, and open that copy",
		}
	}
	return err
}

// check returns an error if anybody opened the database to write since. What was read meanwhile may be wrong.
func (s *still) check() error {
	now, err := os.Stat(s.path)
	if err != nil {
		return err
	}
	_, err = os.Stat(s.path + "-wal")
	if errors.Is(err, fs.ErrNotExist) && now.Size() == s.info.Size() && now.ModTime().Equal(s.info.ModTime()) {
		return nil
	}
	return &signalbox.Error{
		Code: signalbox.CodeFailed,
		Err:  errors.New("somebody began to write to the ledger while it was read"),
		Hint: "try again",
	}
}
