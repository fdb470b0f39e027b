package sqlite

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"

	"signalbox/internal/core/journal"
	"signalbox/internal/testkit/must"
)

// execSQL runs statements on the database of a closed journal, as another program could.
func execSQL(t testing.TB, dir, statements string) error {
	t.Helper()
	c, err := connect(filepath.Join(dir, ledgerFile), accessWrite)
	must.Succeed(t, err)
	defer c.close()
	return c.exec(statements)
}

func mustSQL(t testing.TB, dir, statements string) {
	t.Helper()
	must.Succeed(t, execSQL(t, dir, statements))
}

func TestEventsAreNeverChanged(t *testing.T) {
	dir := closedBox(t, 3)
	for statement, want := range map[string]string{
		"UPDATE events SET actor = 'me' WHERE seq = 2":       "events of a ledger are never changed",
		"UPDATE events SET seq = 9 WHERE seq = 3":            "events of a ledger are never changed",
		"DELETE FROM events WHERE seq = 3":                   "events of a ledger are never deleted",
		"DELETE FROM events":                                 "events of a ledger are never deleted",
		"UPDATE OR REPLACE events SET seq = 1 WHERE seq = 2": "events of a ledger are never changed",
		"INSERT OR REPLACE " +
			forged(2): "events of a ledger are only appended",
		"REPLACE " + forged(
			3): "events of a ledger are only appended",
		"INSERT OR IGNORE " +
			forged(1): "events of a ledger are only appended",
		"INSERT " + forged(2) +
			" ON CONFLICT DO UPDATE SET actor = 'me'": "events of a ledger are only appended",
		"INSERT " + forged(2) +
			" ON CONFLICT (seq) DO NOTHING": "events of a ledger are only appended",
		"INSERT " + forged(5):  "events of a ledger are only appended",
		"INSERT " + forged(0):  "events of a ledger are only appended",
		"INSERT " + forged(-1): "events of a ledger are only appended",
		"INSERT INTO events (time, type, work, session, actor, data, prev, hash) SELECT 0,'','','','','','',''": "events of a ledger are only appended",
		"PRAGMA recursive_triggers=OFF; REPLACE " +
			forged(2): "events of a ledger are only appended",
		"CREATE TEMP TABLE t AS SELECT * FROM events; INSERT OR REPLACE INTO events SELECT seq, time, 'x', work, session, actor, data, prev, hash FROM t": "events of a ledger are only appended",
	} {
		if err := execSQL(t, dir, statement); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error is %v, want %q", statement, err, want)
		}
	}
	wantCount(t, open(t, dir, nil), 3)
}

// forged returns the rest of a statement that inserts a row.
func forged(seq int) string {
	return fmt.Sprintf("INTO events SELECT %d, time, 'Forged', work, session, actor, data, prev, hash FROM events WHERE seq = 1", seq)
}

// TestTriggersAreInstalled opens ledgers whose triggers are missing, such as one of an older
// signalbox, or were changed.
func TestTriggersAreInstalled(t *testing.T) {
	for name, change := range map[string]string{
		"older":   "DROP TRIGGER events_are_only_appended",
		"dropped": "DROP TRIGGER events_are_only_appended; DROP TRIGGER events_are_never_changed; DROP TRIGGER events_are_never_deleted",
		"changed": `DROP TRIGGER events_are_only_appended;
			CREATE TRIGGER events_are_only_appended BEFORE INSERT ON events BEGIN SELECT 1; END`,
	} {
		t.Run(name, func(t *testing.T) {
			dir := closedBox(t, 3)
			mustSQL(t, dir, change)
			must.Succeed(t, withJournal(t.Context(), dir,
				func(j *Journal) error { return grow(t.Context(), j, 2, 10) }))
			for _, statement := range []string{"INSERT OR REPLACE " + forged(5),
				"UPDATE events SET actor = 'me'", "DELETE FROM events"} {
				if err := execSQL(t, dir, statement); err == nil ||
					!strings.Contains(err.Error(), "events of a ledger are") {
					t.Errorf("%s: error is %v", statement, err)
				}
			}
			wantCount(t, open(t, dir, nil), 5)
		})
	}
}

// Opening a ledger does not change its schema again, which would make all other processes prepare
// their statements again.
func TestTriggersAreInstalledOnce(t *testing.T) {
	dir := closedBox(t, 1)
	version := func() any {
		c, err := connect(filepath.Join(dir, ledgerFile), accessRead)
		must.Succeed(t, err)
		defer c.close()
		version, err := c.lookup("PRAGMA schema_version")
		must.Succeed(t, err)
		return version
	}
	before := version()
	must.Succeed(t, withJournal(t.Context(), dir, func(*Journal) error { return nil }))
	if after := version(); after != before {
		t.Errorf("the schema changed from version %v to %v", before, after)
	}
}

// wantDamage checks that reads return the events before one, and then name that one.
func wantDamage(t *testing.T, j *Journal, seq uint64, want string) {
	t.Helper()
	if seq > 1 {
		events, err := j.Read(t.Context(), 0, 100)
		if err != nil || uint64(len(events)) != seq-1 {
			t.Errorf("%d events, %v, want those before %d", len(events), err, seq)
		}
	}
	_, err := j.Read(t.Context(), seq-1, 100)
	wantError(t, err, fmt.Sprintf("event %d: %s", seq, want), journal.ErrDamaged)
}

// TestTooLargeRows reads rows that are larger than an event can be.
func TestTooLargeRows(t *testing.T) {
	for name, change := range map[string]string{
		"data":     "data = zeroblob(2000000)",
		"type":     "type = CAST(zeroblob(2000000) AS TEXT)",
		"time":     "time = zeroblob(2000000)",
		"hash":     "hash = zeroblob(2000000)",
		"together": "data = zeroblob(500000), work = CAST(zeroblob(500000) AS TEXT)",
	} {
		t.Run(name, func(t *testing.T) {
			dir := closedBox(t, 5)
			mustSQL(t, dir, "DROP TRIGGER events_are_never_changed; UPDATE events SET "+change+
				" WHERE seq = 5")
			j := open(t, dir, nil)
			wantDamage(t, j, 5, "it has more than 524288 bytes")
			if name == "hash" {
				_, err := j.Head(t.Context())
				wantError(t, err, "too big", journal.ErrDamaged)
			}
		})
	}
}

// TestReadIsBounded reads events that are as large as an event may be.
func TestReadIsBounded(t *testing.T) {
	j := open(t, t.TempDir(), nil)
	for range 3 {
		must.Succeed(t, grow(t.Context(), j, 10, 510<<10))
	}
	events, err := j.Read(t.Context(), 0, 2048)
	if want := 8<<20/(510<<10) + 1; err != nil || len(events) != want {
		t.Errorf("one read returned %d events, %v; want %d", len(events), err, want)
	}
	wantCount(t, j, 30)
}

func TestForeignDatabases(t *testing.T) {
	for name, tt := range map[string]struct {
		change string
		want   string
		is     []error
	}{
		"newer": {"PRAGMA user_version=7",
			"created by a newer signalbox (schema 7, this version supports 1)", nil},
		"newer, hint": {"PRAGMA user_version=7", "upgrade", nil},
		"older":       {"PRAGMA user_version=0", "schema 0", []error{journal.ErrDamaged}},
		"not ours": {"PRAGMA application_id=42", "not a signalbox ledger (application id 42)",
			[]error{journal.ErrDamaged}},
		"no table": {"DROP TABLE events", "no such table", []error{journal.ErrDamaged}},
		"another table": {"DROP TABLE events; CREATE TABLE events (seq)", "no column named",
			[]error{journal.ErrDamaged}},
	} {
		for _, readOnly := range []bool{false, true} {
			t.Run(name, func(t *testing.T) {
				dir := closedBox(t, 1)
				mustSQL(t, dir, tt.change)
				_, err := Open(t.Context(), dir, &Options{ReadOnly: readOnly})
				wantError(t, err, tt.want, tt.is...)
			})
		}
	}
}

func TestMissingEvents(t *testing.T) {
	for name, condition := range map[string]string{"first": "seq <= 2",
		"middle": "seq BETWEEN 20 AND 30"} {
		t.Run(name, func(t *testing.T) {
			dir := closedBox(t, 50)
			mustSQL(t, dir, "DROP TRIGGER events_are_never_deleted; DELETE FROM events WHERE "+
				condition)
			j := open(t, dir, nil)
			wantDamage(t, j, map[string]uint64{"first": 1, "middle": 20}[name], "it is missing")
			for _, err := range j.Watch(t.Context(), 0) {
				if err != nil {
					wantError(t, err, "missing", journal.ErrDamaged)
				}
			}
		})
	}
}

// A row before the first event is damage, like a missing event.
func TestRowBeforeFirstEvent(t *testing.T) {
	for _, seq := range []string{"0", "-1"} {
		dir := closedBox(t, 3)
		mustSQL(t, dir, "DROP TRIGGER events_are_only_appended; INSERT INTO events SELECT "+seq+
			", time, type, work, session, actor, data, prev, hash FROM events WHERE seq = 1")
		_, err := open(t, dir, nil).Read(t.Context(), 0, 10)
		wantError(t, err, "event 1", journal.ErrDamaged)
	}
}

// TestInvalidRows reads rows that no append can have written.
func TestInvalidRows(t *testing.T) {
	for name, change := range map[string]string{
		"short hash":    "hash = x'01'",
		"short prev":    "prev = x'01'",
		"text as data":  "data = '{}'",
		"blob as type":  "type = zeroblob(3)",
		"short hashes":  "prev = x'', hash = x'', data = x'01'",
		"hash too long": "prev = x'', hash = zeroblob(100), type = zeroblob(0), data = x''",
		"not a time":    "time = 'yesterday'",
		"half a time":   "time = 1.5",
	} {
		t.Run(name, func(t *testing.T) {
			dir := closedBox(t, 5)
			mustSQL(t, dir, "DROP TRIGGER events_are_never_changed; UPDATE events SET "+change+
				" WHERE seq = 3")
			j := open(t, dir, nil)
			wantDamage(t, j, 3, "")
		})
	}
}

// TestInterruptedCreation opens what a process leaves that is killed while it creates the database.
func TestInterruptedCreation(t *testing.T) {
	whole := filepath.Join(closedBox(t, 0), ledgerFile)
	content, err := os.ReadFile(whole)
	must.Succeed(t, err)
	for name, left := range map[string]map[string]string{
		"queue only":  {"ledger.lock": ""},
		"empty draft": {"ledger.lock": "", "ledger.db.new": ""},
		"half a draft": {"ledger.db.new": string(content[:5000]),
			"ledger.db.new-journal": "half a journal"},
		"draft with a log": {"ledger.db.new": string(content), "ledger.db.new-wal": "half a log",
			"ledger.db.new-shm": "x"},
		"draft not renamed": {"ledger.db.new": string(content)},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			for name, content := range left {
				must.Succeed(t, os.WriteFile(filepath.Join(dir, name), []byte(content),
					0o600))
			}
			if _, err := Open(t.Context(), dir, nil); err == nil {
				t.Error("the journal opened before it was made")
			}
			j := open(t, dir, nil)
			must.Succeed(t, grow(t.Context(), j, 3, 10))
			wantCount(t, j, 3)
			if drafts, _ := filepath.Glob(filepath.Join(dir, "*.new*")); len(drafts) != 0 {
				t.Errorf("left behind: %q", drafts)
			}
		})
	}
}

// TestLostDatabase does not create a new log beside the write-ahead log of the old one.
func TestLostDatabase(t *testing.T) {
	dir := t.TempDir()
	must.Succeed(t, os.WriteFile(filepath.Join(dir, "ledger.db-wal"), []byte("frames"),
		0o600))
	_, err := Open(t.Context(), dir, &Options{Create: true})
	wantError(t, err, "ledger.db is missing", journal.ErrDamaged)
}

// TestReplacedDatabase does not write to a database that was removed or replaced.
func TestReplacedDatabase(t *testing.T) {
	dir, other := t.TempDir(), closedBox(t, 3)
	j := open(t, dir, nil)
	must.Succeed(t, grow(t.Context(), j, 3, 10))
	path := filepath.Join(dir, ledgerFile)
	for _, move := range [][2]string{{path, path + ".old"},
		{filepath.Join(other, ledgerFile), path}} {
		if err := os.Rename(move[0], move[1]); err != nil {
			t.Skipf("the system does not let go of the file: %v", err)
		}
		wantError(t, j.Append(t.Context(), 3, eventsAfter(3, 1, 10)), "removed or replaced",
			journal.ErrNotStored)
	}
	must.Succeed(t, os.Rename(path+".old", path))
	if err := grow(t.Context(), j, 1, 10); err != nil {
		t.Errorf("after it was put back: %v", err)
	}
}

// TestEmptyDatabase does not accept a truncated ledger as a new one.
func TestEmptyDatabase(t *testing.T) {
	dir := closedBox(t, 3)
	must.Succeed(t, os.Truncate(filepath.Join(dir, ledgerFile), 0))
	_, err := Open(t.Context(), dir, &Options{Create: true})
	wantError(t, err, "not a signalbox ledger", journal.ErrDamaged)
}

func TestConcurrentCreation(t *testing.T) {
	dir := t.TempDir()
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			j, err := Open(t.Context(), dir, &Options{Create: true})
			if err != nil {
				t.Error(err)
				return
			}
			if err := j.Close(); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	wantCount(t, open(t, dir, nil), 0)
}

// TestLateCreation creates the log while another process waits to create it.
func TestLateCreation(t *testing.T) {
	made, err := os.ReadFile(filepath.Join(closedBox(t, 3), ledgerFile))
	must.Succeed(t, err)
	dir := t.TempDir()
	late, err := newJournal(dir, &Options{Create: true})
	must.Succeed(t, err)
	release := holdQueue(t, filepath.Join(dir, queueFile))
	opened := make(chan error)
	go func() { opened <- late.open(t.Context()) }()
	for len(late.appends.turn) > 0 {
		runtime.Gosched()
	}
	must.Succeed(t, os.WriteFile(filepath.Join(dir, ledgerFile), made, 0o600))
	release()
	must.Succeed(t, <-opened)
	defer late.Close()
	wantCount(t, late, 3)
}

func TestFilesArePrivate(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("Windows has no such modes")
	}
	dir := t.TempDir()
	j := open(t, dir, nil)
	must.Succeed(t, grow(t.Context(), j, 1, 10))
	if _, err := j.PutBlob(t.Context(), strings.NewReader("blob")); err != nil {
		t.Fatal(err)
	}
	must.Succeed(t, j.SaveSnapshot(t.Context(), journal.Snapshot{}))
	files := 0
	err := filepath.Walk(dir, func(path string, info os.FileInfo, err error) error {
		if err != nil || path == dir {
			return err
		}
		files++
		if info.Mode().Perm()&0o077 != 0 {
			t.Errorf("%s has mode %v", path, info.Mode())
		}
		return nil
	})
	if err != nil || files < 8 {
		t.Errorf("found %d files: %v", files, err)
	}
}
