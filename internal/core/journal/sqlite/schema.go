package sqlite

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"

	sqlite3 "modernc.org/sqlite/lib"

	"signalbox"
	"signalbox/internal/core/journal/driver"
	"signalbox/internal/durable"
)

const (
	// applicationID identifies a SQLite file as a ledger: "SBOX".
	applicationID = 0x53424f58
	// schemaVersion increases when older programs can no longer use the database.
	schemaVersion = 1
)

const schema = `
CREATE TABLE events (
	seq     INTEGER PRIMARY KEY,
	time    INTEGER NOT NULL, -- nanoseconds since 1970, UTC
	type    TEXT NOT NULL,
	work    TEXT NOT NULL,
	session TEXT NOT NULL,
	actor   TEXT NOT NULL,
	data    BLOB NOT NULL,
	prev    BLOB NOT NULL,
	hash    BLOB NOT NULL
);
`

// trigger prevents a kind of change.
type trigger struct{ name, create string }

// triggers prevent changes by other programs. SQLite fires no trigger for the row that INSERT OR
// REPLACE deletes, so the last one refuses to insert any row but the next. It rolls back, because
// with ABORT in any insert of a trigger or a statement, SQLite keeps a journal of each inserted
// row, which takes four times as long as inserting it.
var triggers = []trigger{
	{"events_are_never_changed", `CREATE TRIGGER events_are_never_changed BEFORE UPDATE ON events
	BEGIN SELECT RAISE(ABORT, 'events of a ledger are never changed'); END`},
	{"events_are_never_deleted", neverDeleted},
	{"events_are_only_appended", `CREATE TRIGGER events_are_only_appended BEFORE INSERT ON events
	WHEN NEW.seq IS NOT (SELECT coalesce(max(seq), 0) + 1 FROM events)
	BEGIN SELECT RAISE(ROLLBACK, 'events of a ledger are only appended'); END`},
}

const neverDeleted = `CREATE TRIGGER events_are_never_deleted BEFORE DELETE ON events
	BEGIN SELECT RAISE(ABORT, 'events of a ledger are never deleted'); END`

// installTriggers creates the triggers that are missing, such as those that an older signalbox did
// not have, and replaces those that were changed. Older programs can use the database with them.
func (c *conn) installTriggers() error {
	statements := ""
	for _, t := range triggers {
		stored, err := c.lookup(
			"SELECT sql FROM sqlite_schema WHERE type = 'trigger' AND name = '" + t.name + "'")
		if err != nil {
			return err
		}
		if stored != t.create {
			statements += "DROP TRIGGER IF EXISTS " + t.name + "; " + t.create + "; "
		}
	}
	if statements == "" {
		return nil
	}
	err := c.exec("BEGIN IMMEDIATE; " + statements + "COMMIT")
	if sqliteCode(err) == sqlite3.SQLITE_ERROR {
		return driver.Damaged(err) // there is no table events
	}
	return err
}

// findOrCreate creates the database if there is none. It is created under a temporary name and
// renamed when it is complete and synced, so that a killed process never leaves an incomplete
// database.
func (j *Journal) findOrCreate(ctx context.Context) error {
	exists, err := j.find()
	if exists || err != nil {
		return err
	}
	if err := j.appends.enter(ctx, j.opts.busyTimeout); err != nil {
		return err
	}
	defer j.appends.leave()
	if exists, err := j.find(); exists || err != nil {
		return err // another process was first
	}
	return create(j.path(ledgerFile))
}

// find reports whether the database exists. If it does not and must not be created, find returns an
// error.
func (j *Journal) find() (bool, error) {
	// Look for the write-ahead log first. Another process may create the database and then its log
	// at this moment; in the other order, the log could be found without its database.
	_, noLog := os.Stat(j.path(ledgerFile + "-wal"))
	_, err := os.Stat(j.path(ledgerFile))
	if err == nil || !errors.Is(err, fs.ErrNotExist) {
		return err == nil, err
	}
	if folder, statErr := os.Stat(j.dir); statErr != nil || !folder.IsDir() || !j.opts.Create {
		return false, signalbox.CodeNotFound.Errorf(
			"create a box with signalbox init, or name another one with --box",
			"there is no ledger: %w", err)
	}
	// SQLite would apply the old write-ahead log to the new database.
	if noLog == nil {
		return false, driver.Damaged(fmt.Errorf("%s-wal exists, but %s is missing", ledgerFile,
			ledgerFile))
	}
	return false, nil
}

// create creates the database. The caller holds the lock of the queue.
func create(path string) error {
	draft := path + ".new"
	for _, suffix := range []string{"", "-journal", "-wal", "-shm"} {
		if err := os.Remove(draft + suffix); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	// SQLite creates its other files with the mode of this one.
	file, err := os.OpenFile(draft, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	if err := file.Close(); err != nil {
		return err
	}
	if err := initialize(draft); err != nil {
		return fmt.Errorf("create the ledger: %w", err)
	}
	return durable.Rename(draft, path)
}

// initialize writes the schema to an empty file. It does not sync, because create does before it
// renames the file.
func initialize(path string) error {
	c, err := connect(path, accessWrite)
	if err != nil {
		return err
	}
	err = c.exec(fmt.Sprintf(
		"PRAGMA synchronous=OFF; BEGIN; %s PRAGMA application_id=%d; PRAGMA user_version=%d; COMMIT",
		schema, applicationID, schemaVersion))
	if err == nil {
		err = c.installTriggers()
	}
	if err == nil {
		err = c.useWAL()
	}
	return errors.Join(err, c.close())
}

// check returns an error unless the file is a ledger with a supported schema.
func (c *conn) check() error {
	id, err := c.lookup("PRAGMA application_id")
	if err != nil {
		return err
	}
	version, err := c.lookup("PRAGMA user_version")
	if err != nil {
		return err
	}
	switch n, _ := version.(int64); {
	case id != int64(applicationID):
		return driver.Damaged(fmt.Errorf("%s is not a signalbox ledger (application id %v)",
			ledgerFile,
			id))
	case n > schemaVersion:
		return signalbox.CodeFailed.Errorf("upgrade signalbox on this machine",
			"%s was created by a newer signalbox (schema %d, this version supports %d)", ledgerFile,
			n, schemaVersion)
	case n < schemaVersion:
		return driver.Damaged(fmt.Errorf("%s has schema %d, which does not exist", ledgerFile, n))
	}
	return nil
}

// useWAL switches the database to write-ahead logging, which is a persistent setting.
func (c *conn) useWAL() error {
	mode, err := c.lookup("PRAGMA journal_mode=WAL")
	if err == nil && mode != "wal" {
		return signalbox.CodeFailed.Errorf(hintLocal,
			"write-ahead logging is not possible here (journal mode %v)", mode)
	}
	return err
}
