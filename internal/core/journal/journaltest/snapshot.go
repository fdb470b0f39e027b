package journaltest

import (
	"bytes"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"signalbox"
	"signalbox/internal/core/journal"
)

var snapshotTests = map[string]func(*testing.T, *log){
	"SnapshotNone":             testSnapshotNone,
	"SnapshotSaveAndLoad":      testSnapshot,
	"SnapshotNewestStays":      testSnapshotNewest,
	"SnapshotConcurrentSaves":  testSnapshotConcurrent,
	"SnapshotIsNotJudged":      testSnapshotForeign,
	"SnapshotDamageIsNoResult": testSnapshotDamage,
}

// openJournal opens a log that has a snapshot. It skips the test if it has none.
func (l *log) openJournal(t *testing.T) journal.Journal {
	t.Helper()
	j, ok := l.open(t).(journal.Journal)
	if !ok {
		t.Skip("the log has no snapshot")
	}
	return j
}

func testSnapshotNone(t *testing.T, l *log) {
	_, err := l.openJournal(t).LoadSnapshot(testContext(t))
	wantError(t, "load where none was saved", err, journal.ErrNoSnapshot)
}

func save(t *testing.T, j journal.Journal, s journal.Snapshot) {
	t.Helper()
	if err := j.SaveSnapshot(testContext(t), s); err != nil {
		t.Fatalf("save snapshot %d: %v", s.Seq, err)
	}
}

func wantSnapshot(t *testing.T, j journal.Journal, want journal.Snapshot) {
	t.Helper()
	got, err := j.LoadSnapshot(testContext(t))
	if err != nil {
		t.Fatalf("load: %v", err)
	}
	if diff := cmp.Diff(want, got, sameBytes); diff != "" {
		t.Errorf("snapshot (-want +got):\n%s", diff)
	}
}

func testSnapshot(t *testing.T, l *log) {
	a, b := l.openJournal(t), l.openJournal(t)
	for i, state := range [][]byte{nil, []byte("state"), {0},
		bytes.Repeat([]byte("large "), 500_000)} {
		s := journal.Snapshot{Seq: uint64(i) + 1, Hash: signalbox.Hash{1, byte(i)}, State: state}
		save(t, a, s)
		wantSnapshot(t, a, s)
		wantSnapshot(t, b, s)
		wantSnapshot(t, l.openJournal(t), s)
	}
}

func testSnapshotNewest(t *testing.T, l *log) {
	j := l.openJournal(t)
	old := journal.Snapshot{Seq: 7, State: []byte("old")}
	newer := journal.Snapshot{Seq: 8, State: []byte("newer")}
	save(t, j, newer)
	save(t, j, old)
	wantSnapshot(t, j, newer)
}

func testSnapshotConcurrent(t *testing.T, l *log) {
	handles := []journal.Journal{l.openJournal(t), l.openJournal(t)}
	var wg sync.WaitGroup
	for i := range 20 {
		wg.Go(func() {
			s := journal.Snapshot{Seq: uint64(i) + 1, State: bytes.Repeat([]byte{byte(i)}, 10_000)}
			if err := handles[i%2].SaveSnapshot(testContext(t), s); err != nil {
				t.Error(err)
			}
			loaded, err := handles[i%2].LoadSnapshot(testContext(t))
			if err != nil || loaded.Seq < s.Seq ||
				!bytes.Equal(loaded.State, bytes.Repeat([]byte{byte(loaded.Seq - 1)}, 10_000)) {
				t.Errorf("after snapshot %d was saved, %d is there: %v", s.Seq, loaded.Seq, err)
			}
		})
	}
	wg.Wait()
	wantSnapshot(t, handles[0], journal.Snapshot{Seq: 20, State: bytes.Repeat([]byte{19}, 10_000)})
}

// testSnapshotForeign saves a snapshot of another log: the engine detects that, not the journal.
func testSnapshotForeign(t *testing.T, l *log) {
	j := l.openJournal(t)
	l.grow(t, j, 2)
	s := journal.Snapshot{Seq: 1000, Hash: signalbox.Hash{9}, State: []byte("of another log")}
	save(t, j, s)
	wantSnapshot(t, j, s)
	l.grow(t, j, 1)
}

func testSnapshotDamage(t *testing.T, l *log) {
	if l.DamageSnapshot == nil {
		t.Skip("the driver has no DamageSnapshot")
	}
	j := l.openJournal(t)
	save(t, j, journal.Snapshot{Seq: 9, State: []byte("state")})
	l.DamageSnapshot(t)
	_, err := j.LoadSnapshot(testContext(t))
	wantError(t, "load a damaged snapshot", err, journal.ErrNoSnapshot)
	s := journal.Snapshot{Seq: 5, State: []byte("new state")}
	save(t, j, s)
	wantSnapshot(t, j, s)
}
