package sqlite

import (
	"context"
	"database/sql"
	sqldriver "database/sql/driver"
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
	"signalbox/internal/core/journal"
	"signalbox/internal/core/journal/driver"
)

// access is the access mode of a connection.
type access int

const (
	accessRead      access = iota // reads, while others may write
	accessWrite                   // writes; a journal has one such connection
	accessReadOnly                // needs no permission to write the files
	accessImmutable               // also uses no locks: no process has the database open
)

// conn is a connection to the database, used by one goroutine at a time. It uses the driver
// directly: the pool and the conversions of database/sql take a tenth of the time of an append and
// a third of the time of a read.
type conn struct {
	pool   *sql.DB
	held   *sql.Conn      // the only connection of pool
	driver sqldriver.Conn // that of held
	path   string
	file   fs.FileInfo // of path when the connection was opened

	begin, commit, rollback, insert, head, read statement

	row [9]sqldriver.NamedValue // of insert
}

// statement is a prepared statement of the driver.
type statement interface {
	sqldriver.Stmt
	sqldriver.StmtExecContext
	sqldriver.StmtQueryContext
}

// pragmas are set on every connection. SQLite itself waits only 100 ms for a lock;
// Journal.retryBusy waits longer, and stops when the context is done.
const pragmas = `
PRAGMA busy_timeout=100;
PRAGMA synchronous=FULL;   -- COMMIT returns when the write-ahead log is synced
PRAGMA fullfsync=ON;       -- macOS: also flush the cache of the disk
PRAGMA trusted_schema=OFF; -- the file may come from someone else
PRAGMA cell_size_check=ON;
`

// dial opens a connection to a ledger.
func dial(path string, mode access, maxPages int) (*conn, error) {
	c, err := connect(path, mode)
	if err != nil {
		return nil, err
	}
	if err = c.limitRows(); err == nil {
		err = c.check()
	}
	if err == nil && mode == accessWrite {
		err = c.useWAL()
	}
	if err == nil && mode == accessWrite {
		err = c.installTriggers()
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
func connect(path string, mode access) (*conn, error) {
	file, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	c := &conn{path: path, file: file}
	if c.pool, err = sql.Open("sqlite", uri(path, mode)); err != nil {
		return nil, err
	}
	if c.held, err = c.pool.Conn(context.Background()); err != nil {
		c.pool.Close()
		return nil, err
	}
	err = c.held.Raw(func(d any) error {
		c.driver = d.(sqldriver.Conn)
		return nil
	})
	if err != nil {
		c.close()
		return nil, err
	}
	for i := range c.row {
		c.row[i].Ordinal = i + 1
	}
	if err := c.exec(pragmas); err != nil {
		c.close()
		return nil, err
	}
	return c, nil
}

// uri returns the URI of the database, in which no character of its path has a special meaning.
func uri(path string, mode access) string {
	path = filepath.ToSlash(path)
	if !strings.HasPrefix(path, "/") {
		path = "/" + path // C:/box
	}
	query := "mode=rw"
	switch mode {
	case accessReadOnly:
		query = "mode=ro"
	case accessImmutable:
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
			return driver.Damaged(err) // the table events is missing or has other columns
		}
		if err != nil {
			return err
		}
		*s.to = prepared.(statement)
	}
	return nil
}

// close closes the statements and the connection.
func (c *conn) close() error {
	for _, s := range []statement{c.begin, c.commit, c.rollback, c.insert, c.head, c.read} {
		if s != nil {
			s.Close()
		}
	}
	return errors.Join(c.held.Close(), c.pool.Close())
}

// maxRow is the maximum size of a row: that of an event, plus its time, its hashes and the header
// of the row.
const maxRow = journal.MaxEventBytes + 1024

// limitRows makes SQLite refuse larger values without loading them, with SQLITE_TOOBIG. Only
// another program can have stored one, and it could be larger than the memory.
func (c *conn) limitRows() error {
	_, err := sqlite.Limit(c.held, sqlite3.SQLITE_LIMIT_LENGTH, maxRow)
	return err
}

// exec runs statements without arguments.
func (c *conn) exec(query string) error {
	_, err := c.driver.(sqldriver.ExecerContext).ExecContext(context.Background(), query, nil)
	return err
}

// run executes a prepared statement. It takes no context, because the driver would start a
// goroutine for each statement, and the outcome of an interrupted COMMIT would be unknown.
func run(s statement, args []sqldriver.NamedValue) error {
	_, err := s.ExecContext(context.Background(), args)
	return err
}

// query calls each for every row of a prepared statement, until it returns false.
func query(s statement, args []sqldriver.NamedValue, row []sqldriver.Value,
	each func() (bool, error)) error {
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
func (c *conn) lookup(q string) (sqldriver.Value, error) {
	prepared, err := c.driver.Prepare(q)
	if err != nil {
		return nil, err
	}
	defer prepared.Close()
	var row [1]sqldriver.Value
	err = query(prepared.(statement), nil, row[:], func() (bool, error) { return false, nil })
	return row[0], err
}

// last returns the sequence number and the hash of the last event, zero for an empty log.
func (c *conn) last() (seq uint64, hash signalbox.Hash, err error) {
	var row [2]sqldriver.Value
	err = query(c.head, nil, row[:], func() (bool, error) {
		n, ok := row[0].(int64)
		stored, isBlob := row[1].([]byte)
		if !ok || !isBlob || n < 1 || len(stored) != len(hash) {
			return false, driver.Damaged(
				fmt.Errorf("the last event has sequence number %v and a hash of %d bytes", row[0],
					len(stored)))
		}
		seq, hash = uint64(n), signalbox.Hash(stored)
		return false, nil
	})
	return seq, hash, err
}
