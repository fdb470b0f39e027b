package sqlite

import (
	"errors"
	"io/fs"
	"slices"
	"syscall"

	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"

	"signalbox"
	"signalbox/internal/core/journal"
	"signalbox/internal/core/journal/driver"
)

// errUncertain means that an append failed and only reading the log reveals whether the events were
// stored.
var errUncertain = errors.New("it is unknown whether the events were stored")

const (
	hintFull   = "free space on the disk of the box, or raise the quota or the file size limit, then try again"
	hintRights = "check the owner and the permissions of the box and its files"
	hintBusy   = "stop the process that keeps the ledger locked"
	hintLocal  = "keep the box on a local disk: SQLite cannot share a database over a network file system"
	hintDisk   = "check the disk, its free space, the quota and the file size limit"
)

// explain converts errors of SQLite and the operating system that a user can fix to a
// *signalbox.Error with a hint. It returns all other errors unchanged.
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
	case driver.HintRestore:
		return driver.Damaged(err)
	}
	return signalbox.CodeFailed.Errorf(hint,
		"%s: %w", what, err)
}

// explainSQLite maps SQLite's result codes: first extended codes that are more specific than their
// class, then classes.
func explainSQLite(code int) (what, hint string) {
	switch code {
	case sqlite3.SQLITE_IOERR_SHMSIZE:
		return "the disk is full", hintFull
	case sqlite3.SQLITE_IOERR_SHMMAP, sqlite3.SQLITE_IOERR_SHMLOCK, sqlite3.SQLITE_IOERR_LOCK,
		sqlite3.SQLITE_IOERR_RDLOCK:
		return "the file system cannot share the ledger", hintLocal
	case sqlite3.SQLITE_IOERR_CORRUPTFS:
		return "", driver.HintRestore
	}
	switch code & 0xff {
	case sqlite3.SQLITE_FULL:
		return "the disk is full", hintFull
	case sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_PERM, sqlite3.SQLITE_AUTH:
		return "no permission to open or write the ledger", hintRights
	case sqlite3.SQLITE_BUSY, sqlite3.SQLITE_PROTOCOL, sqlite3.SQLITE_LOCKED:
		return "other processes keep the ledger locked", hintBusy
	case sqlite3.SQLITE_IOERR:
		return "the disk failed", hintDisk
	case sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_TOOBIG:
		return "", driver.HintRestore
	}
	return "", ""
}

func explainSystem(err error) (what, hint string) {
	full := func(no syscall.Errno) bool { return errors.Is(err, no) }
	switch {
	case slices.ContainsFunc(diskFullErrors, full):
		return "the disk is full", hintFull
	case errors.Is(err, fs.ErrPermission) || errors.Is(err, syscall.EROFS):
		return "no permission to open or write the box", hintRights
	}
	return "", ""
}

func sqliteCode(err error) int {
	if failure := (*sqlite.Error)(nil); errors.As(err, &failure) {
		return failure.Code()
	}
	return sqlite3.SQLITE_OK
}

// isBusy reports whether a retry may succeed.
func isBusy(err error) bool {
	code := sqliteCode(err) & 0xff
	return code == sqlite3.SQLITE_BUSY || code == sqlite3.SQLITE_PROTOCOL
}

func isFull(err error) bool { return sqliteCode(err) == sqlite3.SQLITE_FULL }

// isFailure reports whether the connection must not be used again.
func isFailure(err error) bool {
	return sqliteCode(err) != sqlite3.SQLITE_OK && !isBusy(err) ||
		errors.Is(err, journal.ErrDamaged)
}
