package main

import (
	"database/sql"
	"errors"
	"path/filepath"

	"signalbox"
)

// bare is SQLite as a careful program would use it directly: one connection, prepared statements,
// no checks. The table, the durability settings and the rows are those of a journal.
type bare struct {
	db     *sql.DB
	insert *sql.Stmt
}

// bareOptions are the options of the journal's connections. The write-ahead log is a property of
// the file.
const bareOptions = "?_txlock=immediate&_pragma=busy_timeout(100)&_pragma=synchronous(FULL)&_pragma=fullfsync(ON)" +
	"&_pragma=trusted_schema(OFF)&_pragma=cell_size_check(ON)"

func openBareStore(dir string) (store, func() error, error) {
	j, err := openJournal(dir) // creates the table
	if err == nil {
		err = j.Close()
	}
	if err != nil {
		return nil, nil, err
	}
	db, err := sql.Open("sqlite", filepath.Join(dir, ledgerFile)+bareOptions)
	if err != nil {
		return nil, nil, err
	}
	db.SetMaxOpenConns(1)
	if _, err := db.Exec("DROP TRIGGER events_are_only_appended"); err != nil { // it is a check
		return nil, nil, errors.Join(err, db.Close())
	}
	insert, err := db.Prepare(
		"INSERT INTO events (seq, time, type, work, session, actor, data, prev, hash) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)")
	if err != nil {
		return nil, nil, errors.Join(err, db.Close())
	}
	return (&bare{db, insert}).append, db.Close, nil
}

// append stores the events in one transaction.
func (b *bare) append(events []signalbox.Event) error {
	if len(events) == 1 {
		return insertEvent(b.insert, &events[0]) // a single statement is a transaction
	}
	tx, err := b.db.Begin()
	if err != nil {
		return err
	}
	insert := tx.Stmt(b.insert)
	for i := range events {
		if err := insertEvent(insert, &events[i]); err != nil {
			return errors.Join(err, tx.Rollback())
		}
	}
	return tx.Commit()
}

func insertEvent(insert *sql.Stmt, e *signalbox.Event) error {
	_, err := insert.Exec(int64(e.Seq), e.Time.UnixNano(), e.Type, e.Work, e.Session, e.Actor,
		e.Data, e.Prev[:], e.Hash[:])
	return err
}
