package sqlite

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"signalbox/internal/core/journal"
	"signalbox/internal/testkit/must"
)

// TestSnapshotOfKilledProcess finds what a process leaves that is killed while it saves.
func TestSnapshotOfKilledProcess(t *testing.T) {
	dir := t.TempDir()
	j := open(t, dir, nil)
	must.Succeed(t, os.WriteFile(filepath.Join(dir, "snapshot.new"), []byte("half"), 0o600))
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
