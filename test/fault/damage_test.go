package fault

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"testing"

	"signalbox"
	"signalbox/internal/core/applied"
	"signalbox/internal/core/box"
	"signalbox/internal/core/rules"
)

const (
	hintRestore = "stop all processes that use the box, and restore it from a backup"
	hintNewer   = "install the newer signalbox here too"
)

// TestDamagedDatabase damages the ledger's file. Every command must report it and none may make it
// worse: once the file is restored, the box works.
func TestDamagedDatabase(t *testing.T) {
	t.Parallel()
	random := newRand(t)
	original := newLedger(t)
	noise := make([]byte, 4096)
	for i := range noise {
		noise[i] = byte(random.Uint32())
	}
	noise[0] = 0xff // no page starts with this byte
	for _, tt := range []struct {
		name  string
		spoil func(file []byte) []byte
		want  string // the error
	}{
		{"header", func(file []byte) []byte { copy(file, noise[:100]); return file },
			"*the stored data is damaged: *"},
		{"first page", func(file []byte) []byte { copy(file[100:4096], noise); return file },
			"*the stored data is damaged: *"},
		{"middle page", func(
			file []byte) []byte {
			copy(file[len(file)/8192*4096:], noise)
			return file
		},
			"*the stored data is damaged: *"},
		{"middle page of zeros",
			func(file []byte) []byte { clear(file[len(file)/8192*4096:][:4096]); return file },
			"*the stored data is damaged: *"},
		{"empty", func([]byte) []byte { return nil },
			"*the stored data is damaged: ledger.db is not a signalbox ledger (application id 0)"},
		{"text", func([]byte) []byte { return []byte("hello\n") },
			"*the stored data is damaged: *"},
		{"half", func(file []byte) []byte { return file[:len(file)/2] },
			"*the stored data is damaged: *"},
		{"first page only", func(file []byte) []byte { return file[:4096] },
			"*the stored data is damaged: *"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := original.copy(t)
			whole, err := os.ReadFile(s.file("ledger.db"))
			check(t, err)
			check(t, os.WriteFile(s.file("ledger.db"), tt.spoil(bytes.Clone(whole)), 0o600))
			if v := s.verifyCommand(t, 5); v.FirstBad == 0 {
				t.Errorf("verify printed %s", asJSON(v))
			}
			for _, args := range [][]string{{"work", "list"}, {"work", "open", "more"},
				{"ledger", "checkpoint"}, {"init"}} {
				s.mustFail(t, 5, tt.want, hintRestore, args...)
			}
			check(t, os.WriteFile(s.file("ledger.db"), whole, 0o600))
			s.checkIntact(t)
		})
	}
}

// checkIntact checks that a box made by newLedger still has all its events, and works.
func (s *site) checkIntact(t testing.TB) {
	t.Helper()
	if v := s.verifyCommand(t, 0); v.Events != tamperEvents || v.Checkpoint.Size != tamperEvents {
		t.Errorf("afterwards verify printed %s", asJSON(v))
	}
	s.must(t, "work", "open", "afterwards")
	if v := s.verifyCommand(t, 0); v.Checkpoint.Size != tamperEvents+1 {
		t.Errorf("after another command verify printed %s", asJSON(v))
	}
}

// TestLedgerMissing removes the database. No command may create a new one next to the checkpoint of
// the old one.
func TestLedgerMissing(t *testing.T) {
	s := newLedger(t)
	away := filepath.Join(t.TempDir(), "ledger.db")
	check(t, os.Rename(s.file("ledger.db"), away))
	for _, args := range [][]string{{"ledger", "verify"}, {"work", "list"},
		{"work", "open", "more"}, {"init"}} {
		if r := s.run(t, args...); r.status == 0 {
			t.Errorf("%v: exit status 0", args)
		}
	}
	if _, err := os.Stat(s.file("ledger.db")); err == nil {
		t.Error("a command created a new ledger although a checkpoint of 200 events exists")
	}
	check(t, os.Rename(away, s.file("ledger.db")))
	s.checkIntact(t)
}

// TestWriteAheadLogMissing copies a box that is in use, but without SQLite's write-ahead log. The
// copy lacks acknowledged events, and the checkpoint must show it. A box that is not in use has no
// such file.
func TestWriteAheadLogMissing(t *testing.T) {
	s := newLedger(t)
	if _, err := os.Stat(s.file("ledger.db-wal")); err == nil {
		t.Error("a box that is not in use has a write-ahead log")
	}
	b := s.open(t)
	openWork(t, b, "more")
	if _, err := b.Sign(t.Context()); err != nil {
		t.Fatal(err)
	}
	damaged := s.copy(t)
	whole := s.copy(t)
	check(t, os.Remove(damaged.file("ledger.db-wal")))
	if v := damaged.verifyCommand(t, 5); v.FirstBad != tamperEvents+1 {
		t.Errorf("without the write-ahead log verify printed %s", asJSON(v))
	}
	damaged.run(t, "work", "open", "another").checkStderr(t, nil,
		"signalbox: event 201 is missing: this machine has applied it, but the ledger ends at event 200",
		"note: lost: 201  *  WorkOpened  more  *", "hint: "+applied.Hint)
	damaged.forgetApplied(t)
	damaged.mustFail(t, 5, "the ledger was truncated: it has 200 events, but 201 were signed",
		"run signalbox ledger verify, and restore the ledger from a copy",
		"work", "open", "another")
	if v := whole.verifyCommand(t, 0); v.Events != tamperEvents+1 {
		t.Errorf("with the write-ahead log verify printed %s", asJSON(v))
	}
}

// TestForeignDatabase gives the database another schema version or application id.
func TestForeignDatabase(t *testing.T) {
	t.Parallel()
	original := newLedger(t)
	for _, tt := range []struct {
		name, pragma string
		status       int
		want, hint   string
	}{
		{"newer schema", "user_version = 2", 1,
			"*ledger.db was created by a newer signalbox (schema 2, this version supports 1)",
			"upgrade signalbox on this machine"},
		{"older schema", "user_version = 0", 5,
			"*the stored data is damaged: ledger.db has schema 0, which does not exist",
			hintRestore},
		{"another application", "application_id = 7", 5,
			"*the stored data is damaged: ledger.db is not a signalbox ledger (application id 7)",
			hintRestore},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := original.copy(t)
			whole, err := os.ReadFile(s.file("ledger.db"))
			check(t, err)
			m := s.tamper(t)
			m.exec("PRAGMA " + tt.pragma)
			m.close()
			for _, args := range [][]string{{"work", "list"}, {"work", "open", "more"},
				{"ledger", "checkpoint"}} {
				s.mustFail(t, tt.status, tt.want, tt.hint, args...)
			}
			if r := s.run(t, "ledger", "verify"); r.status != tt.status {
				t.Errorf("verify: exit status %d, want %d\n%s", r.status, tt.status, r.stderr)
			}
			check(t, os.WriteFile(s.file("ledger.db"), whole, 0o600))
			s.checkIntact(t)
		})
	}
}

// appendSealed appends events to the journal directly, bypassing the rules, as a newer signalbox
// might write them.
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

// TestNewerEvents opens ledgers with events that only a newer signalbox understands. Commands must
// refuse to write, but the ledger verifies.
func TestNewerEvents(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name  string
		event signalbox.Event
		want  string // the error
	}{
		{"unknown type", signalbox.Event{Type: "TrainDerailed", Actor: "tester",
			Data: []byte(`{"v":2}`)},
			`the ledger was written by a newer signalbox: event 3 is a "TrainDerailed", which this one does not know`},
		{"unknown field", signalbox.Event{Type: rules.TypeWorkOpened, Work: "task-2",
			Actor: "tester", Data: []byte(`{"phase":"IMPLEMENTATION","colour":"red"}`)},
			"the ledger was written by a newer signalbox: event 3 is a WorkOpened in a form that this one does not know: *"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := newSite(t)
			s.must(t, "work", "open", "task-1")
			appendSealed(t, s, tt.event)
			s.checkRefusesWrites(t, tt.want)
			if v := s.verifyCommand(t, 0); v.Events != 3 {
				t.Errorf("verify printed %s", asJSON(v))
			}
		})
	}
	t.Run("newer rules", func(t *testing.T) {
		s := newSite(t)
		opened := s.events(t)[0]
		opened.Data = bytes.Replace(opened.Data, []byte(`"rules":3`), []byte(`"rules":4`), 1)
		m := s.tamper(t)
		m.replace(reseal([]signalbox.Event{opened}))
		m.close()
		s.forget(t)
		s.forgetApplied(t)
		s.checkRefusesWrites(t,
			"the ledger was written by a newer signalbox: it follows rules version 4, this one knows 3")
		s.verifyCommand(t, 0)
	})
}

// checkRefusesWrites checks that commands that write fail with the error want, and append no event.
func (s *site) checkRefusesWrites(t *testing.T, want string) {
	t.Helper()
	before := len(s.events(t))
	for _, args := range [][]string{{"work", "open", "more"},
		{"work", "claim", "task-1", "--role", "developer"}, {"ledger", "checkpoint"}} {
		s.mustFail(t, 1, want, hintNewer, args...)
	}
	if after := len(s.events(t)); after != before {
		t.Errorf("%d events became %d", before, after)
	}
}

// TestNoBox runs commands where there is no box, or only an empty .signalbox folder.
func TestNoBox(t *testing.T) {
	s := emptySite(t)
	s.mustFail(t, 3, "there is no box in * or above it",
		"create one with signalbox init, or name one with --box or SIGNALBOX_BOX", "work", "list")
	check(t, os.Mkdir(filepath.Join(s.project, box.FolderName), 0o700))
	s.mustFail(t, 3, "*there is no ledger: *",
		"create a box with signalbox init, or name another one with --box", "work", "list")
	s.init(t)
	s.must(t, "work", "list")
}
