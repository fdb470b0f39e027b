package sqlite

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"

	"signalbox"
)

// access is what a connection may do with the database.
type access int

const (
	toRead   access = iota // beside those who write
	toWrite                // there is one in a journal
	toLookAt               // without write rights to the files
	frozen                 // without write rights, and without locks: nobody has the database open
)

// conn is one connection to the database, used by one goroutine at a time. It talks to the driver without
// database/sql, whose pool and conversions take a tenth of the time of an append, and a third of a read's.
type conn struct {
	driver driver.Conn
	path   string
	file   fs.FileInfo // at path when the connection was made

	begin, commit, rollback, insert, head, read statement

	row [9]driver.NamedValue // of insert
}

// statement is what the driver's prepared statements can do.
type statement interface {
	driver.Stmt
	driver.StmtExecContext
	driver.StmtQueryContext
}

// pragmas are set on every connection. SQLite waits only 100 ms for a lock before it tells us: the rest of the patience is
// ours, so that whoever has lost interest is not kept.
const pragmas = `
PRAGMA busy_timeout=100;
PRAGMA synchronous=FULL;   -- COMMIT returns when the log is synced
PRAGMA fullfsync=ON;       -- macOS: through the cache of the disk too
PRAGMA trusted_schema=OFF; -- the file may be somebody else's
PRAGMA cell_size_check=ON;
`

// dial opens a connection to a ledger.
func dial(path string, may access, maxPages int) (*conn, error) {
	c, err := connect(path, may)
	if err != nil {
		return nil, err
	}
	err = c.check()
	if err == nil && may == toWrite {
		err = c.useWAL()
	}
	if err == nil && maxPages != 0 {
		err = c.exec(fmt.Sprintf("PRAGMA max_page_count=%d", maxPages))
	}
	if err == nil {
		err = c.prepareAll()
	}
	if err != nil {
		c.close()
		return nil, err
	}
	return c, nil
}

// connect opens a connection to a database, which must exist.
func connect(path string, may access) (*conn, error) {
	file, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	d, err := new(sqlite.Driver).Open(uri(path, may))
	if err != nil {
		return nil, err
	}
	c := &conn{driver: d, path: path, file: file}
	for i := range c.row {
		c.row[i].Ordinal = i + 1
	}
	if err := c.exec(pragmas); err != nil {
		c.close()
		return nil, err
	}
	return c, nil
}

// uri names the database so that no character of its path has a meaning of its own.
func uri(path string, may access) string {
	path = filepath.ToSlash(path)
	if !strings.HasPrefix(path, "/") {
		path = "/" + path // C:/box
	}
	query := "mode=rw"
	switch may {
	case toLookAt:
		query = "mode=ro"
	case frozen:
		query = "mode=ro&immutable=1"
	}
	return (&url.URL{Scheme: "file", Path: path, RawQuery: query}).String()
}

func (c *conn) prepareAll() error {
	for _, s := range []struct {
		to    *statement
		query string
	}{
		{&c.begin, "BEGIN IMMEDIATE"},
		{&c.commit, "COMMIT"},
		{&c.rollback, "ROLLBACK"},
		{&c.insert, insertQuery},
		{&c.head, "SELECT seq, hash FROM events ORDER BY seq DESC LIMIT 1"},
		{&c.read, readQuery},
	} {
		prepared, err := c.driver.Prepare(s.query)
		if sqliteCode(err) == sqlite3.SQLITE_ERROR {
			return damaged(err) // there is no table events, or it is not ours
		}
		if err != nil {
			return err
		}
		*s.to = prepared.(statement)
	}
	return nil
}

// close frees the statements with the connection.
func (c *conn) close() error {
	for _, s := range []statement{c.begin, c.commit, c.rollback, c.insert, c.head, c.read} {
		if s != nil {
			s.Close()
		}
	}
	return c.driver.Close()
}

// exec runs statements that need no arguments.
func (c *conn) exec(query string) error {
	_, err := c.driver.(driver.ExecerContext).ExecContext(context.Background(), query, nil)
	return err
}

// run executes a prepared statement. It takes no context: for one that can end the driver starts a goroutine for each
// statement, and a COMMIT that is interrupted would leave open whether it happened.
func run(s statement, args []driver.NamedValue) error {
	_, err := s.ExecContext(context.Background(), args)
	return err
}

// query yields the rows of a prepared statement to each, until it returns false.
func query(s statement, args []driver.NamedValue, row []driver.Value, each func() (bool, error)) error {
	rows, err := s.QueryContext(context.Background(), args)
	if err != nil {
		return err
	}
	for more := true; more && err == nil; {
		if err = rows.Next(row); err == nil {
			more, err = each()
		}
	}
	if closeErr := rows.Close(); err == nil || errors.Is(err, io.EOF) {
		return closeErr
	}
	return err
}

// lookup returns the only value of a query.
func (c *conn) lookup(q string) (driver.Value, error) {
	prepared, err := c.driver.Prepare(q)
	if err != nil {
		return nil, err
	}
	defer prepared.Close()
	var row [1]driver.Value
	err = query(prepared.(statement), nil, row[:], func() (bool, error) { return false, nil })
	return row[0], err
}

// last returns the sequence and the hash of the last event, zero for an empty log.
func (c *conn) last() (seq uint64, hash signalbox.Hash, err error) {
	var row [2]driver.Value
	err = query(c.head, nil, row[:], func() (bool, error) {
		n, ok := row[0].(int64)
		stored, isBlob := row[1].([]byte)
		if !ok || !isBlob || n < 1 || len(stored) != len(hash) {
			return false, damaged(fmt.Errorf("the last event has sequence %v and a hash of %d bytes", row[0], len(stored)))
		}
		seq, hash = uint64(n), signalbox.Hash(stored)
		return false, nil
	})
	return seq, hash, err
}
