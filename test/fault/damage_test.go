package fault

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"testing"

	"signalbox"
	"signalbox/internal/core/box"
	"signalbox/internal/core/rules"
)

const (
	hintRestore = "stop all processes that use the box, and restore it from a backup"
	hintNewer   = "install the newer signalbox here too"
)

// TestDamagedDatabase spoils the file of the ledger. Every command says so, none makes it worse, and with the file back all is well.
func TestDamagedDatabase(t *testing.T) {
	random := newRand(t)
	original := newLedger(t)
	noise := make([]byte, 4096)
	for i := range noise {
		noise[i] = byte(random.Uint32())
	}
	noise[0] = 0xff // no page begins with that
	for _, tt := range []struct {
		name  string
		spoil func(file []byte) []byte
		says  string
	}{
		{"header", func(file []byte) []byte { copy(file, noise[:100]); return file }, "*the stored data is damaged: *"},
		{"first page", func(file []byte) []byte { copy(file[100:4096], noise); return file }, "*the stored data is damaged: *"},
		{"middle page", func(file []byte) []byte { copy(file[len(file)/8192*4096:], noise); return file }, "*the stored data is damaged: *"},
		{"middle page of zeros", func(file []byte) []byte { clear(file[len(file)/8192*4096:][:4096]); return file }, "*the stored data is damaged: *"},
		{"empty", func([]byte) []byte { return nil }, "*the stored data is damaged: ledger.db is not a signalbox ledger (application id 0)"},
		{"text", func([]byte) []byte { return []byte("hello\n") }, "*the stored data is damaged: *"},
		{"half", func(file []byte) []byte { return file[:len(file)/2] }, "*the stored data is damaged: *"},
		{"first page only", func(file []byte) []byte { return file[:4096] }, "*the stored data is damaged: *"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := original.copy(t)
			whole, err := os.ReadFile(s.file("ledger.db"))
			check(t, err)
			check(t, os.WriteFile(s.file("ledger.db"), tt.spoil(bytes.Clone(whole)), 0o600))
			if v := s.verifyCommand(t, 5); v.FirstBad == nil {
				t.Errorf("verify says %s", printed(v))
			}
			for _, args := range [][]string{{"work", "list"}, {"work", "open", "more"}, {"ledger", "checkpoint"}, {"init"}} {
				s.mustFail(t, 5, tt.says, hintRestore, args...)
			}
			check(t, os.WriteFile(s.file("ledger.db"), whole, 0o600))
			s.mustBeAsBefore(t)
		})
	}
}

// mustBeAsBefore checks that the box of newLedger has all that it had, and works.
func (s *site) mustBeAsBefore(t testing.TB) {
	t.Helper()
	if v := s.verifyCommand(t, 0); v.Events != tamperEvents || v.Checkpoint == nil || v.Checkpoint.Size != tamperEvents {
		t.Errorf("afterwards verify says %s", printed(v))
	}
	s.must(t, "work", "open", "afterwards")
	if v := s.verifyCommand(t, 0); v.Checkpoint == nil || v.Checkpoint.Size != tamperEvents+1 {
		t.Errorf("after another command verify says %s", printed(v))
	}
}

// TestLedgerGone takes the database away. Nobody makes a new one beside a checkpoint of the old.
func TestLedgerGone(t *testing.T) {
	s := newLedger(t)
	away := filepath.Join(t.TempDir(), "ledger.db")
	check(t, os.Rename(s.file("ledger.db"), away))
	for _, args := range [][]string{{"ledger", "verify"}, {"work", "list"}, {"work", "open", "more"}, {"init"}} {
		if r := s.run(t, args...); r.status == 0 {
			t.Errorf("%v: exit status 0", args)
		}
	}
	if _, err := os.Stat(s.file("ledger.db")); err == nil {
		t.Error("there is a new ledger where 200 events were signed")
	}
	check(t, os.Rename(away, s.file("ledger.db")))
	s.mustBeAsBefore(t)
}

// TestLogOfWritesGone copies a box that is in use without SQLite's write-ahead log: acknowledged events are not in the copy, and the
// checkpoint shows it. A box that nobody uses has no such file, and misses nothing.
func TestLogOfWritesGone(t *testing.T) {
	s := newLedger(t)
	if _, err := os.Stat(s.file("ledger.db-wal")); err == nil {
		t.Error("a box that nobody uses has a write-ahead log")
	}
	b := s.open(t)
	if _, err := b.Engine.Do(t.Context(), rules.OpenWork{Work: "more", Actor: "tester"}); err != nil {
		t.Fatal(err)
	}
	if _, err := b.Sign(t.Context()); err != nil {
		t.Fatal(err)
	}
	spoilt := s.copy(t)
	whole := s.copy(t)
	check(t, os.Remove(spoilt.file("ledger.db-wal")))
	if v := spoilt.verifyCommand(t, 5); v.FirstBad == nil || *v.FirstBad != tamperEvents+1 {
		t.Errorf("without it verify says %s", printed(v))
	}
	spoilt.mustFail(t, 5, "the ledger was truncated: it has 200 events, but 201 were signed", "run signalbox ledger verify, and restore the ledger from a copy",
		"work", "open", "another")
	if v := whole.verifyCommand(t, 0); v.Events != tamperEvents+1 {
		t.Errorf("with it verify says %s", printed(v))
	}
}

// TestForeignDatabase gives the database another version or another owner.
func TestForeignDatabase(t *testing.T) {
	original := newLedger(t)
	for _, tt := range []struct {
		name, pragma string
		status       int
		says, hint   string
	}{
		{"newer schema", "user_version = 2", 1, "*ledger.db was created by a newer signalbox (schema 2, this version supports 1)", "upgrade signalbox on this machine"},
		{"older schema", "user_version = 0", 5, "*the stored data is damaged: ledger.db has schema 0, which does not exist", hintRestore},
		{"another application", "application_id = 7", 5, "*the stored data is damaged: ledger.db is not a signalbox ledger (application id 7)", hintRestore},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := original.copy(t)
			whole, err := os.ReadFile(s.file("ledger.db"))
			check(t, err)
			m := s.tamper(t)
			m.exec("PRAGMA " + tt.pragma)
			m.close()
			for _, args := range [][]string{{"work", "list"}, {"work", "open", "more"}, {"ledger", "checkpoint"}} {
				s.mustFail(t, tt.status, tt.says, tt.hint, args...)
			}
			if r := s.run(t, "ledger", "verify"); r.status != tt.status {
				t.Errorf("verify: exit status %d, want %d\n%s", r.status, tt.status, r.stderr)
			}
			check(t, os.WriteFile(s.file("ledger.db"), whole, 0o600))
			s.mustBeAsBefore(t)
		})
	}
}

// appendSealed appends an event as a newer signalbox would, past the rules.
func appendSealed(t *testing.T, s *site, events ...signalbox.Event) {
	t.Helper()
	b := s.open(t)
	tail := b.Engine.Tail()
	before := tail.Seq
	for i := range events {
		events[i].Time = tail.Time
	}
	tail.Seal(events)
	check(t, b.Journal.Append(context.Background(), before, events))
	check(t, b.Close())
}

// TestNewerEvents meets events that only a newer signalbox knows. Nothing may be written beside them, but they verify.
func TestNewerEvents(t *testing.T) {
	for _, tt := range []struct {
		name  string
		event signalbox.Event
		says  string
	}{
		{"unknown type", signalbox.Event{Type: "TrainDerailed", Actor: "tester", Data: []byte(`{"v":2}`)},
			`the ledger was written by a newer signalbox: event 3 is a "TrainDerailed", which this one does not know`},
		{"unknown field", signalbox.Event{Type: "WorkOpened", Work: "task-2", Actor: "tester", Data: []byte(`{"phase":"IMPLEMENTATION","colour":"red"}`)},
			"the ledger was written by a newer signalbox: event 3 is a WorkOpened in a form that this one does not know: *"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := newSite(t)
			s.must(t, "work", "open", "task-1")
			appendSealed(t, s, tt.event)
			s.refusesToWrite(t, tt.says)
			if v := s.verifyCommand(t, 0); v.Events != 3 {
				t.Errorf("verify says %s", printed(v))
			}
		})
	}
	t.Run("newer rules", func(t *testing.T) {
		s := newSite(t)
		opened := s.events(t)[0]
		opened.Data = bytes.Replace(opened.Data, []byte(`"rules":2`), []byte(`"rules":3`), 1)
		m := s.tamper(t)
		m.replace(reseal([]signalbox.Event{opened}))
		m.close()
		s.forget(t)
		s.refusesToWrite(t, "the ledger was written by a newer signalbox: it follows rules version 3, this one knows 2")
		s.verifyCommand(t, 0)
	})
}

// refusesToWrite checks that no command writes, and that nothing is written.
func (s *site) refusesToWrite(t *testing.T, says string) {
	t.Helper()
	before := len(s.events(t))
	for _, args := range [][]string{{"work", "open", "more"}, {"work", "claim", "task-1", "--role", "developer"}, {"ledger", "checkpoint"}} {
		s.mustFail(t, 1, says, hintNewer, args...)
	}
	if after := len(s.events(t)); after != before {
		t.Errorf("%d events became %d", before, after)
	}
}

// TestNoBox runs commands where there is no box, or only the folder of one.
func TestNoBox(t *testing.T) {
	s := emptySite(t)
	s.mustFail(t, 3, "there is no box in * or above it", "create one with signalbox init, or name one with --box or SIGNALBOX_BOX", "work", "list")
	check(t, os.Mkdir(filepath.Join(s.project, box.FolderName), 0o700))
	s.mustFail(t, 3, "*there is no ledger: *", "create a box with signalbox init, or name another one with --box", "work", "list")
	s.init(t)
	s.must(t, "work", "list")
}
