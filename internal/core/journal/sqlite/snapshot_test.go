package sqlite

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"signalbox"
	"signalbox/internal/core/journal"
)

// TestSnapshotDamage changes each byte of a snapshot, and cuts it at each.
func TestSnapshotDamage(t *testing.T) {
	whole := encodeSnapshot(journal.Snapshot{Seq: 7, Hash: signalbox.Hash{1}, State: []byte("state")})
	if s, err := decodeSnapshot(whole); err != nil || s.Seq != 7 || s.Hash != (signalbox.Hash{1}) || string(s.State) != "state" {
		t.Fatalf("decoded %+v, %v", s, err)
	}
	for i := range whole {
		spoilt := bytes.Clone(whole)
		spoilt[i] ^= 1
		if _, err := decodeSnapshot(spoilt); err == nil {
			t.Errorf("a change of byte %d was not found", i)
		}
		if _, err := decodeSnapshot(whole[:i]); err == nil {
			t.Errorf("a cut at byte %d was not found", i)
		}
	}
	if _, err := decodeSnapshot(append(whole, 0)); err == nil {
		t.Error("a byte too many was not found")
	}
}

func FuzzDecodeSnapshot(f *testing.F) {
	f.Add(encodeSnapshot(journal.Snapshot{Seq: 7, State: []byte("state")}))
	f.Add([]byte(snapshotMagic))
	f.Fuzz(func(t *testing.T, file []byte) {
		s, err := decodeSnapshot(file)
		if err == nil && !bytes.Equal(encodeSnapshot(s), file) {
			t.Errorf("decoded and encoded again, %q is %q", file, encodeSnapshot(s))
		}
	})
}

// TestSnapshotOfKilledProcess finds what a process leaves that is killed while it saves.
func TestSnapshotOfKilledProcess(t *testing.T) {
	dir := t.TempDir()
	j := open(t, dir, nil)
	if err := os.WriteFile(filepath.Join(dir, "snapshot.new"), []byte("half"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := j.LoadSnapshot(t.Context()); !errors.Is(err, journal.ErrNoSnapshot) {
		t.Errorf("load: %v", err)
	}
	if err := j.SaveSnapshot(t.Context(), journal.Snapshot{Seq: 1}); err != nil {
		t.Error(err)
	}
	if s, err := j.LoadSnapshot(t.Context()); err != nil || s.Seq != 1 {
		t.Errorf("load: %+v, %v", s, err)
	}
}
