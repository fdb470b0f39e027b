package fault

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"signalbox"
	"signalbox/internal/core/applied"
)

const hintRestore = "stop all processes that use the box, and restore it from a backup"

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
	for i, tt := range []struct {
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
			commands := [][]string{{"work", "open", "more"}, {"work", "list"},
				{"ledger", "checkpoint"}, {"init"}}
			for _, args := range commands[:sized(1+i%4, 4)] {
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
	if report := s.verify(t); report.Events != tamperEvents || !report.OK {
		t.Errorf("afterwards: %+v", report)
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

// TestNewerEvents opens a ledger with an event that only a newer signalbox understands. Commands
// must refuse to write, but the ledger verifies.
func TestNewerEvents(t *testing.T) {
	s := newSite(t)
	s.must(t, "work", "open", "task-1")
	b := s.open(t)
	tail := b.Engine.Tail()
	before := tail.Seq
	events := []signalbox.Event{{Type: "TrainDerailed", Actor: "tester", Time: tail.Time,
		Data: []byte(`{"v":2}`)}}
	tail.Seal(events)
	check(t, b.Journal.Append(t.Context(), before, events))
	check(t, b.Close())
	for _, args := range [][]string{{"work", "open", "more"},
		{"work", "claim", "task-1", "--role", "developer"}, {"ledger", "checkpoint"}} {
		s.mustFail(t, 1, `the ledger was written by a newer signalbox: event 3 is a "TrainDerailed", which this one does not know`,
			"install the newer signalbox here too", args...)
	}
	if v := s.verifyCommand(t, 0); v.Events != 3 {
		t.Errorf("verify printed %s", asJSON(v))
	}
}
