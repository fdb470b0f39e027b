package driver

import (
	"bytes"
	"testing"

	"signalbox"
	"signalbox/internal/core/journal"
)

// TestSnapshotDamage changes each byte of a snapshot, and cuts it at each.
func TestSnapshotDamage(t *testing.T) {
	whole := EncodeSnapshot(journal.Snapshot{Seq: 7, Hash: signalbox.Hash{1},
		State: []byte("state")})
	if s, err := DecodeSnapshot(whole); err != nil || s.Seq != 7 || s.Hash != (signalbox.Hash{1}) ||
		string(s.State) != "state" {
		t.Fatalf("decoded %+v, %v", s, err)
	}
	for i := range whole {
		spoilt := bytes.Clone(whole)
		spoilt[i] ^= 1
		if _, err := DecodeSnapshot(spoilt); err == nil {
			t.Errorf("a change of byte %d was not found", i)
		}
		if _, err := DecodeSnapshot(whole[:i]); err == nil {
			t.Errorf("a cut at byte %d was not found", i)
		}
	}
	if _, err := DecodeSnapshot(append(whole, 0)); err == nil {
		t.Error("a byte too many was not found")
	}
}

func FuzzDecodeSnapshot(f *testing.F) {
	f.Add(EncodeSnapshot(journal.Snapshot{Seq: 7, State: []byte("state")}))
	f.Add([]byte(snapshotMagic))
	f.Fuzz(func(t *testing.T, file []byte) {
		s, err := DecodeSnapshot(file)
		if err == nil && !bytes.Equal(EncodeSnapshot(s), file) {
			t.Errorf("decoded and encoded again, %q is %q", file, EncodeSnapshot(s))
		}
	})
}
