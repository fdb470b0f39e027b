package sqlite

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"signalbox"
	"signalbox/internal/core/journal"
	"signalbox/internal/testkit/must"
)

func listing(t *testing.T, dir string) string {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(dir, "*"))
	if err != nil || len(names) == 0 {
		t.Fatalf("found %d files: %v", len(names), err)
	}
	return strings.Join(names, "\n")
}

// TestReadOnly looks at a closed journal: everything can be read, nothing written, and not even a
// file appears.
func TestReadOnly(t *testing.T) {
	dir := t.TempDir()
	var digest signalbox.Hash
	err := withJournal(t.Context(), dir, func(j *Journal) (err error) {
		if err := grow(t.Context(), j, 5, 10); err != nil {
			return err
		}
		if err := j.SaveSnapshot(t.Context(), journal.Snapshot{Seq: 3}); err != nil {
			return err
		}
		digest, err = j.PutBlob(t.Context(), strings.NewReader("blob"))
		return err
	})
	must.Succeed(t, err)
	before := listing(t, dir)
	j := open(t, dir, &Options{ReadOnly: true})
	wantCount(t, j, 5)
	if s, err := j.LoadSnapshot(t.Context()); err != nil || s.Seq != 3 {
		t.Errorf("load: %+v, %v", s, err)
	}
	if r, err := j.GetBlob(t.Context(), digest); err != nil {
		t.Error(err)
	} else {
		r.Close()
	}
	wantError(t, j.Append(t.Context(), 5, eventsAfter(5, 1, 10)), "opened read-only",
		journal.ErrNotStored)
	// which is only a cache
	if err := j.SaveSnapshot(t.Context(), journal.Snapshot{Seq: 9}); err != nil {
		t.Error(err)
	}
	wantError(t, j.DeleteBlob(t.Context(), digest), "opened read-only")
	_, err = j.PutBlob(t.Context(), strings.NewReader("another"))
	wantError(t, err, "opened read-only")
	if after := listing(t, dir); after != before {
		t.Errorf("files:\n%s\nbefore:\n%s", after, before)
	}
}

// TestReadOnlyDuringWrites reads while another process writes.
func TestReadOnlyDuringWrites(t *testing.T) {
	dir := t.TempDir()
	writer := open(t, dir, nil)
	must.Succeed(t, grow(t.Context(), writer, 3, 10))
	j := open(t, dir, &Options{ReadOnly: true})
	for n := uint64(3); n < 8; n++ {
		wantCount(t, j, n)
		must.Succeed(t, grow(t.Context(), writer, 1, 10))
	}
}

// TestImmutableJournalIsWritten writes to a journal that is open without locks.
func TestImmutableJournalIsWritten(t *testing.T) {
	dir := closedBox(t, 3)
	j := open(t, dir, &Options{ReadOnly: true})
	wantCount(t, j, 3)
	writer := open(t, dir, nil)
	must.Succeed(t, grow(t.Context(), writer, 1, 10))
	_, err := j.Read(t.Context(), 0, 10)
	wantError(t, err, "another process started to write")
	must.Succeed(t, writer.Close())
	if _, err := os.Stat(filepath.Join(dir, "ledger.db-wal")); err == nil {
		t.Error("the write-ahead log outlived its writer")
	}
	_, err = j.Head(t.Context())
	wantError(t, err, "another process started to write")
	wantCount(t, open(t, dir, &Options{ReadOnly: true}), 4)
}
