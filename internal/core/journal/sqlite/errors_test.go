package sqlite

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	sqlite3 "modernc.org/sqlite/lib"

	"signalbox"
	"signalbox/internal/core/journal"
	"signalbox/internal/core/journal/driver"
	"signalbox/internal/testkit/must"
)

// TestExplain covers the result codes that the other tests cannot cause.
func TestExplain(t *testing.T) {
	for code, want := range map[int]string{
		sqlite3.SQLITE_FULL:               "free space",
		sqlite3.SQLITE_IOERR_SHMSIZE:      "free space",
		sqlite3.SQLITE_IOERR_SHMMAP:       "local disk",
		sqlite3.SQLITE_IOERR_LOCK:         "local disk",
		sqlite3.SQLITE_IOERR_WRITE:        "check the disk",
		sqlite3.SQLITE_IOERR_FSYNC:        "check the disk",
		sqlite3.SQLITE_READONLY:           "permissions",
		sqlite3.SQLITE_READONLY_DIRECTORY: "permissions",
		sqlite3.SQLITE_CANTOPEN:           "permissions",
		sqlite3.SQLITE_CANTOPEN_ISDIR:     "permissions",
		sqlite3.SQLITE_PERM:               "permissions",
		sqlite3.SQLITE_BUSY:               "stop the process",
		sqlite3.SQLITE_BUSY_RECOVERY:      "stop the process",
		sqlite3.SQLITE_PROTOCOL:           "stop the process",
		sqlite3.SQLITE_CORRUPT:            "restore",
		sqlite3.SQLITE_CORRUPT_VTAB:       "restore",
		sqlite3.SQLITE_NOTADB:             "restore",
		sqlite3.SQLITE_IOERR_CORRUPTFS:    "restore",
		sqlite3.SQLITE_MISUSE:             "",
	} {
		if _, hint := explainSQLite(code); (want == "") != (hint == "") ||
			!strings.Contains(hint, want) {
			t.Errorf("code %d: hint %q, want %q", code, hint, want)
		}
	}
	for _, err := range diskFullErrors {
		wantError(t, explain(&fs.PathError{Op: "write", Path: "x", Err: err}), "free space", err)
	}
	wantError(t, explain(&fs.PathError{Op: "open", Path: "x", Err: os.ErrPermission}),
		"permissions")
	if plain := errors.New("x"); explain(plain) != plain || explain(nil) != nil {
		t.Error("an error without a remedy was explained")
	}
	if e := fmt.Errorf("outer: %w", driver.UsageError("x")); explain(e) != e {
		t.Error("an error that says itself what to do was explained again")
	}
}

// TestFullDatabase fills the database up to a limit, and lifts it.
func TestFullDatabase(t *testing.T) {
	dir := t.TempDir()
	j := open(t, dir, &Options{Create: true, maxPages: 40})
	var err error
	stored := uint64(0)
	for err == nil {
		if err = j.Append(t.Context(), stored, eventsAfter(stored, 3, 5000)); err == nil {
			stored += 3
		}
	}
	wantError(t, err, "the disk is full", journal.ErrNotStored)
	wantError(t, err, "free space")
	if stored == 0 {
		t.Fatal("nothing fitted")
	}
	wantCount(t, j, stored)
	wantError(t, j.Append(t.Context(), stored, eventsAfter(stored, 3, 5000)), "the disk is full",
		journal.ErrNotStored)

	j.opts.maxPages = 0
	if err := grow(t.Context(), j, 3, 5000); err != nil {
		t.Errorf("after there was room again: %v", err)
	}
	wantCount(t, j, stored+3)
	wantCount(t, open(t, dir, nil), stored+3)
}

func TestCorruptHeader(t *testing.T) {
	for name, spoil := range map[string]func(path string) error{
		"garbage": func(path string) error { return overwrite(path, 0, strings.Repeat("garbage!", 64)) },
		"text":    func(path string) error { return os.WriteFile(path, []byte("this was a ledger once\n"), 0o600) },
	} {
		for _, readOnly := range []bool{false, true} {
			t.Run(name, func(t *testing.T) {
				dir := closedBox(t, 20)
				must.Succeed(t, spoil(filepath.Join(dir, ledgerFile)))
				_, err := Open(t.Context(), dir, &Options{ReadOnly: readOnly})
				wantError(t, err, "restore it from a backup", journal.ErrDamaged)
			})
		}
	}
}

// TestCorruptPages damages each page of the table in turn; each time, reading the log to its end
// must fail.
func TestCorruptPages(t *testing.T) {
	const page = 4096
	dir := closedBox(t, 300)
	path := filepath.Join(dir, ledgerFile)
	content, err := os.ReadFile(path)
	must.Succeed(t, err)
	pages := len(content) / page
	if pages < 10 {
		t.Fatalf("the database has only %d pages", pages)
	}
	for n := 1; n < pages; n++ {
		for name, spoilt := range map[string]string{"zeros": "\x00", "ones": "\xff", "text": "x"} {
			must.Succeed(t, overwrite(path, int64(n)*page, strings.Repeat(spoilt, page)))
			if err := readToTheEnd(t, dir); !errors.Is(err, journal.ErrDamaged) {
				t.Errorf("page %d of %s: error is %v, want ErrDamaged", n, name, err)
			}
		}
		must.Succeed(t, overwrite(path, int64(n)*page, string(content[n*page:][:page])))
	}
	if err := readToTheEnd(t, dir); err != nil {
		t.Fatalf("put together again: %v", err)
	}
	must.Succeed(t, os.Truncate(path, int64(pages/2)*page))
	if err := readToTheEnd(t, dir); !errors.Is(err, journal.ErrDamaged) {
		t.Errorf("cut in half: error is %v, want ErrDamaged", err)
	}
}

func overwrite(path string, offset int64, with string) error {
	file, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = file.WriteAt([]byte(with), offset)
	return errors.Join(err, file.Close())
}

func readToTheEnd(t *testing.T, dir string) error {
	j, err := Open(t.Context(), dir, &Options{ReadOnly: true})
	if err != nil {
		return err
	}
	defer j.Close()
	_, err = countEvents(t.Context(), j)
	return err
}

func TestTimesBeyondTheirRange(t *testing.T) {
	j := open(t, t.TempDir(), nil)
	events := eventsAfter(0, 1, 10)
	events[0].Time = events[0].Time.AddDate(400, 0, 0)
	wantError(t, j.Append(t.Context(), 0, events), "year 2370", journal.ErrNotStored)
	events[0] = signalbox.Event{Seq: 1, Hash: hashOf(1)}
	wantError(t, j.Append(t.Context(), 0, events), "year 1", journal.ErrNotStored)
}
