// Package journaltest is the conformance suite of journal.Log and journal.Journal, which every
// driver must pass: see Run. It does not depend on how a driver stores data. It is for tests only.
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

// Log is a log under test, initially empty.
type Log struct {
	// Open opens the log again, as another process would. The suite closes what it opens.
	Open func(t testing.TB) journal.Log

	// AppendAndKill runs a process that calls AppendForever on the log, and kills it after a number
	// of acknowledged events; use KillAfter. It returns the sequence number of the last
	// acknowledged event. Nil skips the tests that need it.
	AppendAndKill func(t testing.TB, events int) uint64

	// ChangeLeader makes another server answer from now on. Nil means that there is only one.
	ChangeLeader func(t testing.TB)

	// DamageBlob changes the stored bytes of a blob without using the journal. Nil skips the tests
	// that need it.
	DamageBlob func(t testing.TB, digest signalbox.Hash)

	// DamageSnapshot changes a stored byte of the snapshot of a journal.Journal. Nil skips the
	// tests that need it.
	DamageSnapshot func(t testing.TB)
}

// Run runs the suite, or only the tests with these names. Each test uses a new log from fresh.
func Run(t *testing.T, fresh func(t *testing.T) Log, only ...string) {
	for _, group := range []map[string]func(*testing.T, *log){
		appendTests, readTests, concurrencyTests, watchTests, snapshotTests, blobTests, lifeTests,
	} {
		for _, name := range slices.Sorted(maps.Keys(group)) {
			if len(only) > 0 && !slices.Contains(only, name) {
				continue
			}
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				l := &log{Log: fresh(t)}
				group[name](t, l)
				l.verify(t)
			})
		}
	}
}

// log is a log under test with helper methods.
type log struct {
	Log
	chain chain // the expected end of the log
}

// open opens the log and closes it when the test ends.
func (l *log) open(t *testing.T) journal.Log {
	t.Helper()
	j := l.Open(t)
	t.Cleanup(func() {
		if err := j.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return j
}

// grow appends and returns n events, and fails the test on an error.
func (l *log) grow(t *testing.T, j journal.Log, n int) []signalbox.Event {
	t.Helper()
	events := l.chain.peek(n)
	l.append(t, j, events)
	return events
}

// append appends events, and fails the test on an error.
func (l *log) append(t *testing.T, j journal.Log, events []signalbox.Event) {
	t.Helper()
	if err := j.Append(testContext(t), l.chain.seq, events); err != nil {
		t.Fatalf("append %d events after %d: %v", len(events), l.chain.seq, err)
	}
	l.chain.follow(events)
}

// verify opens the log and checks that it is one chain up to its expected end.
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

// readAll reads the events that follow the event after, in pieces of an odd size.
func readAll(t testing.TB, j journal.Log, after uint64) (events []signalbox.Event) {
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

// testContext is done when the test ends or hangs.
func testContext(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	t.Cleanup(cancel)
	return ctx
}

// sameBytes compares byte slices as a whole, and treats empty and nil slices as equal.
var sameBytes = cmp.Comparer(bytes.Equal)

func wantEvents(t testing.TB, got, want []signalbox.Event) {
	t.Helper()
	if !slices.EqualFunc(want, got, sameEvent) {
		t.Errorf("events (-want +got):\n%s", cmp.Diff(want, got, sameBytes))
	}
}

// sameEvent is faster than cmp.
func sameEvent(a, b signalbox.Event) bool {
	return a.Seq == b.Seq && a.Time.Equal(b.Time) && a.Type == b.Type && a.Work == b.Work &&
		a.Session == b.Session &&
		a.Actor == b.Actor && bytes.Equal(a.Data, b.Data) && a.Prev == b.Prev && a.Hash == b.Hash
}

func wantHead(t testing.TB, j journal.Log, want uint64) {
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
