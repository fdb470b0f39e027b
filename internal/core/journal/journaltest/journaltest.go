// Package journaltest is the contract of journal.Journal in the form of tests: a driver that passes Run is a journal. It
// knows nothing of how a driver stores. It is for tests only.
package journaltest

import (
	"bytes"
	"context"
	"errors"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"signalbox"
	"signalbox/internal/core/journal"
)

// Log is one log under test, empty at first.
type Log struct {
	// Open opens the log once more, as another process would. The suite closes what it opens.
	Open func(t testing.TB) journal.Journal

	// AppendAndKill runs a process that calls AppendForever on the log, and kills it without warning after it has
	// acknowledged so many events; KillAfter does that. It returns the sequence of the last event that was acknowledged.
	// Nil skips the tests that need it.
	AppendAndKill func(t testing.TB, events int) uint64

	// DamageBlob changes the stored bytes of a blob, behind the journal's back. Nil skips the tests that need it.
	DamageBlob func(t testing.TB, digest signalbox.Hash)

	// DamageSnapshot changes a stored byte of the snapshot. Nil skips the tests that need it.
	DamageSnapshot func(t testing.TB)
}

// Run tries the logs that fresh makes, one for each test.
func Run(t *testing.T, fresh func(t *testing.T) Log) {
	for _, group := range []map[string]func(*testing.T, *log){
		appendTests, readTests, concurrencyTests, watchTests, snapshotTests, blobTests, lifeTests,
	} {
		for _, name := range slices.Sorted(maps.Keys(group)) {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				l := &log{Log: fresh(t)}
				group[name](t, l)
				l.verify(t)
			})
		}
	}
}

// log is a log under test with what the tests do to it.
type log struct {
	Log
	chain chain // where the log should be
}

// open opens the log and closes it when the test ends.
func (l *log) open(t *testing.T) journal.Journal {
	t.Helper()
	j := l.Open(t)
	t.Cleanup(func() {
		if err := j.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return j
}

// grow appends so many events, which must succeed, and returns them.
func (l *log) grow(t *testing.T, j journal.Journal, n int) []signalbox.Event {
	t.Helper()
	events := l.chain.peek(n)
	l.append(t, j, events)
	return events
}

// append appends events, which must succeed.
func (l *log) append(t *testing.T, j journal.Journal, events []signalbox.Event) {
	t.Helper()
	if err := j.Append(testContext(t), l.chain.seq, events); err != nil {
		t.Fatalf("append %d events after %d: %v", len(events), l.chain.seq, err)
	}
	l.chain.follow(events)
}

// verify opens the log and checks that it is one chain up to where it should be.
func (l *log) verify(t *testing.T) {
	t.Helper()
	j := l.open(t)
	events := readAll(t, j, 0)
	checkChain(t, events)
	if uint64(len(events)) != l.chain.seq {
		t.Errorf("the log has %d events, want %d", len(events), l.chain.seq)
	}
	wantHead(t, j, l.chain.seq)
}

// readAll returns the events that follow after, in pieces of an odd size.
func readAll(t testing.TB, j journal.Journal, after uint64) (events []signalbox.Event) {
	t.Helper()
	for {
		piece, err := j.Read(testContext(t), after, 997)
		if err != nil {
			t.Fatalf("read after %d: %v", after, err)
		}
		if len(piece) == 0 {
			return events
		}
		events = append(events, piece...)
		after = piece[len(piece)-1].Seq
	}
}

// testContext ends when the test does, or hangs.
func testContext(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(cancel)
	return ctx
}

// sameBytes compares bytes as a whole, of which none are as good as nil: cmp looks at each by itself.
var sameBytes = cmp.Comparer(bytes.Equal)

func wantEvents(t testing.TB, got, want []signalbox.Event) {
	t.Helper()
	if !slices.EqualFunc(want, got, sameEvent) {
		t.Errorf("events (-want +got):\n%s", cmp.Diff(want, got, sameBytes))
	}
}

// sameEvent is quicker than cmp.
func sameEvent(a, b signalbox.Event) bool {
	return a.Seq == b.Seq && a.Time.Equal(b.Time) && a.Type == b.Type && a.Work == b.Work && a.Session == b.Session &&
		a.Actor == b.Actor && bytes.Equal(a.Data, b.Data) && a.Prev == b.Prev && a.Hash == b.Hash
}

func wantHead(t testing.TB, j journal.Journal, want uint64) {
	t.Helper()
	if head, err := j.Head(testContext(t)); err != nil || head != want {
		t.Errorf("head is %d, %v; want %d", head, err, want)
	}
}

func wantError(t testing.TB, what string, err, want error) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Errorf("%s: error is %v, want %q", what, err, want)
	}
}
