package sqlite

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"syscall"

	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"

	"signalbox"
	"signalbox/internal/core/journal"
)

// errUncertain is in the chain of an append's error if only a look at the log tells whether it happened.
var errUncertain = errors.New("it is not known whether the events were stored")

const (
	hintFull    = "make room on the disk of the box, or raise the quota or the limit on file sizes; then try again"
	hintRights  = "check who owns the box and its files and who may write them; a box can also be opened only to be read"
	hintRestore = "stop all processes that use the box, and restore it from a backup"
	hintBusy    = "look for a process that keeps the ledger open to write, and end it"
	hintLocal   = "keep the box on a local disk: SQLite cannot share a database over a network file system"
	hintDisk    = "check the disk, and that there is room, quota and no limit on file sizes"
)

// explain says what an error means and what to do about it, as a *signalbox.Error. Errors that say it themselves, and
// errors that nobody outside can do anything about, it returns as they are.
func explain(err error) error {
	if known := (*signalbox.Error)(nil); err == nil || errors.As(err, &known) {
		return err
	}
	what, hint := explainSQLite(sqliteCode(err))
	if hint == "" {
		what, hint = explainSystem(err)
	}
	switch hint {
	case "":
		return err
	case hintRestore:
		return damaged(err)
	}
	return &signalbox.Error{Code: signalbox.CodeFailed, Err: fmt.Errorf("%s: %w", what, err), Hint: hint}
}

// explainSQLite sorts SQLite's result codes: the extended ones that say more than their class, then the classes.
func explainSQLite(code int) (what, hint string) {
	switch code {
	case sqlite3.SQLITE_IOERR_SHMSIZE:
		return "the disk is full", hintFull
	case sqlite3.SQLITE_IOERR_SHMMAP, sqlite3.SQLITE_IOERR_SHMLOCK, sqlite3.SQLITE_IOERR_LOCK, sqlite3.SQLITE_IOERR_RDLOCK:
		return "the file system cannot share the ledger", hintLocal
	case sqlite3.SQLITE_IOERR_CORRUPTFS:
		return "", hintRestore
	}
	switch code & 0xff {
	case sqlite3.SQLITE_FULL:
		return "the disk is full", hintFull
	case sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_PERM, sqlite3.SQLITE_AUTH:
		return "the ledger may not be written, or not be opened", hintRights
	case sqlite3.SQLITE_BUSY, sqlite3.SQLITE_PROTOCOL, sqlite3.SQLITE_LOCKED:
		return "other processes keep the ledger busy", hintBusy
	case sqlite3.SQLITE_IOERR:
		return "the disk failed", hintDisk
	case sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB:
		return "", hintRestore
	}
	return "", ""
}

func explainSystem(err error) (what, hint string) {
	full := func(no syscall.Errno) bool { return errors.Is(err, no) }
	switch {
	case slices.ContainsFunc(noRoom, full):
		return "the disk is full", hintFull
	case errors.Is(err, fs.ErrPermission) || errors.Is(err, syscall.EROFS):
		return "the box may not be written, or not be opened", hintRights
	}
	return "", ""
}

// damaged is an error about stored data that cannot be what was written.
func damaged(err error) error {
	return &signalbox.Error{
		Code: signalbox.CodeUnverified,
		Err:  fmt.Errorf("%w: %w", journal.ErrDamaged, err),
		Hint: hintRestore,
	}
}

func sqliteCode(err error) int {
	if failure := (*sqlite.Error)(nil); errors.As(err, &failure) {
		return failure.Code()
	}
	return sqlite3.SQLITE_OK
}

// isBusy reports whether it may help to try again.
func isBusy(err error) bool {
	code := sqliteCode(err) & 0xff
	return code == sqlite3.SQLITE_BUSY || code == sqlite3.SQLITE_PROTOCOL
}

func isFull(err error) bool { return sqliteCode(err) == sqlite3.SQLITE_FULL }

// isFailure reports whether SQLite or what it keeps failed, and not only the call.
func isFailure(err error) bool {
	return sqliteCode(err) != sqlite3.SQLITE_OK && !isBusy(err) || errors.Is(err, journal.ErrDamaged)
}
