package sqlite

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"signalbox"
	"signalbox/internal/durable"
)

const (
	// applicationID marks a SQLite file as a ledger: "SBOX".
	applicationID = 0x53424f58
	// schemaVersion grows when an older program could no longer read or write the database.
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
CREATE TRIGGER events_are_never_changed BEFORE UPDATE ON events
	BEGIN SELECT RAISE(ABORT, 'events of a ledger are never changed'); END;
CREATE TRIGGER events_are_never_deleted BEFORE DELETE ON events
	BEGIN SELECT RAISE(ABORT, 'events of a ledger are never deleted'); END;
`

// findOrCreate makes sure that there is a database, and that it is whole: it is made under another name and gets its
// own when it is complete and synced, so that a process that is killed meanwhile leaves nothing that anybody opens.
func (j *Journal) findOrCreate(ctx context.Context) error {
	exists, err := j.find()
	if exists || err != nil {
		return err
	}
	if err := j.appends.enter(ctx, j); err != nil {
		return err
	}
	defer j.appends.leave()
	if exists, err := j.find(); exists || err != nil {
		return err // another process was first
	}
	return create(j.path(ledgerFile))
}

// find reports whether the database exists. If it does not, and may not be made, that is an error.
func (j *Journal) find() (bool, error) {
	// First the log, which comes after its database: looked for after it, one that another process just made would seem
	// to be alone.
	_, noLog := os.Stat(j.path(ledgerFile + "-wal"))
	_, err := os.Stat(j.path(ledgerFile))
	if err == nil || !errors.Is(err, fs.ErrNotExist) {
		return err == nil, err
	}
	if folder, statErr := os.Stat(j.dir); statErr != nil || !folder.IsDir() || !j.opts.Create {
		return false, &signalbox.Error{
			Code: signalbox.CodeNotFound,
			Err:  fmt.Errorf("there is no ledger: %w", err),
			Hint: "make a box with signalbox init, or name another one with --box",
		}
	}
	// SQLite would take the old write-ahead log for a part of the new database.
	if noLog == nil {
		return false, damaged(fmt.Errorf("%s-wal is there, but %s is gone", ledgerFile, ledgerFile))
	}
	return false, nil
}

// create makes the database. The caller holds the queue, so nobody else does.
func create(path string) error {
	draft := path + ".new"
	for _, suffix := range []string{"", "-journal", "-wal", "-shm"} {
		if err := os.Remove(draft + suffix); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	// SQLite gives its other files the mode of this one.
	file, err := os.OpenFile(draft, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	if err := file.Close(); err != nil {
		return err
	}
	if err := fill(draft); err != nil {
		return fmt.Errorf("create the ledger: %w", err)
	}
	return durable.Rename(draft, path)
}

// fill makes an empty file a database. It need not sync: nobody opens the file before create has.
func fill(path string) error {
	c, err := connect(path, toWrite)
	if err != nil {
		return err
	}
	err = c.exec(fmt.Sprintf("PRAGMA synchronous=OFF; BEGIN; %s PRAGMA application_id=%d; PRAGMA user_version=%d; COMMIT",
		schema, applicationID, schemaVersion))
	if err == nil {
		err = c.useWAL()
	}
	return errors.Join(err, c.close())
}

// check returns an error unless the file is a ledger that this program understands.
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
		return damaged(fmt.Errorf("%s is no ledger of signalbox (application id %v)", ledgerFile, id))
	case n > schemaVersion:
		return &signalbox.Error{
			Code: signalbox.CodeFailed,
			Err:  fmt.Errorf("%s was made by a newer signalbox (schema %d, this one knows %d)", ledgerFile, n, schemaVersion),
			Hint: "upgrade signalbox on this machine",
		}
	case n < schemaVersion:
		return damaged(fmt.Errorf("%s has schema %d, which no signalbox ever wrote", ledgerFile, n))
	}
	return nil
}

// useWAL makes sure that the database is in write-ahead mode, which its file remembers.
func (c *conn) useWAL() error {
	mode, err := c.lookup("PRAGMA journal_mode=WAL")
	if err == nil && mode != "wal" {
		return &signalbox.Error{
			Code: signalbox.CodeFailed,
			Err:  fmt.Errorf("no write-ahead log is possible here (journal mode %v)", mode),
			Hint: hintLocal,
		}
	}
	return err
}
