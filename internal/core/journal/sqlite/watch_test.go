package sqlite

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"testing"
	"time"

	"signalbox/internal/testkit/must"
)

// TestWatchOfOwnAppends gets neither ticks nor notifications: the watches of the journal that
// appends need none.
func TestWatchOfOwnAppends(t *testing.T) {
	j := open(t, t.TempDir(), &Options{Create: true, noFSNotify: true, tick: time.Hour})
	seen := make(chan uint64)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	go func() {
		defer close(seen)
		for e := range j.Watch(ctx, 0) {
			seen <- e.Seq
		}
	}()
	for n := range uint64(100) {
		must.Succeed(t, grow(t.Context(), j, 1, 10))
		if seq := <-seen; seq != n+1 {
			t.Fatalf("saw event %d, want %d", seq, n+1)
		}
	}
	cancel()
	<-seen
}

// TestWatchWithoutNotifications relies on the tick, and logs one warning.
func TestWatchWithoutNotifications(t *testing.T) {
	dir := t.TempDir()
	var log bytes.Buffer
	j := open(t, dir, &Options{Create: true, noFSNotify: true, tick: time.Millisecond,
		Logger: slog.New(slog.NewTextHandler(&log, nil))})
	other := open(t, dir, nil)
	for range 3 {
		seen := make(chan uint64)
		go func() {
			defer close(seen)
			for e, err := range j.Watch(t.Context(), 0) {
				if err != nil {
					t.Error(err)
				}
				if seen <- e.Seq; err != nil || e.Seq%3 == 0 {
					return
				}
			}
		}()
		head := uint64(0)
		for head%3 != 0 || head == 0 {
			must.Succeed(t, grow(t.Context(), other, 1, 10))
			if head = <-seen; head == 0 {
				t.Fatal("the watch ended")
			}
		}
	}
	if n := strings.Count(log.String(), "file notifications are not available"); n != 1 {
		t.Errorf("%d warnings, want one:\n%s", n, log.String())
	}
}
