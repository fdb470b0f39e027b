package journaltest

import (
	"context"
	"sync"
	"testing"

	"signalbox"
	"signalbox/internal/core/journal"
)

var watchTests = map[string]func(*testing.T, *log){
	"WatchFromAnywhere":   testWatchFrom,
	"WatchAcrossHandles":  testWatchAcross,
	"WatchByMany":         testWatchMany,
	"WatchEndsWithCtx":    testWatchCtx,
	"WatchEndsWithClose":  testWatchClose,
	"WatchEndsByItsUser":  testWatchBreak,
	"WatchOfManyEvents":   testWatchLong,
	"WatchOfLargeEvents":  testWatchLarge,
	"WatchWhileAppending": testWatchWhile,
}

// watched is a running watch.
type watched struct {
	events chan signalbox.Event
	end    chan error // receives the error that ended it
	stop   context.CancelFunc
}

// watch starts a watch, which ends with the test.
func watch(t *testing.T, j journal.Log, after uint64) *watched {
	ctx, cancel := context.WithCancel(testContext(t))
	w := &watched{make(chan signalbox.Event, 100), make(chan error, 1), cancel}
	var wg sync.WaitGroup
	wg.Go(func() {
		for e, err := range j.Watch(ctx, after) {
			if err != nil {
				w.end <- err
				return
			}
			select {
			case w.events <- e:
			case <-ctx.Done():
				return
			}
		}
		w.end <- nil
	})
	t.Cleanup(func() {
		cancel()
		wg.Wait()
	})
	return w
}

// want checks that the next events are these.
func (w *watched) want(t *testing.T, want []signalbox.Event) {
	t.Helper()
	for i := range want {
		select {
		case e := <-w.events:
			wantEvents(t, []signalbox.Event{e}, want[i:i+1])
		case err := <-w.end:
			t.Fatalf("the watch ended before event %d: %v", want[i].Seq, err)
		case <-testContext(t).Done():
			t.Fatalf("event %d did not come", want[i].Seq)
		}
	}
}

func testWatchFrom(t *testing.T, l *log) {
	j := l.open(t)
	all := l.grow(t, j, 10)
	from := []uint64{0, 1, 5, 9, 10, 12}
	var watches []*watched
	for _, after := range from {
		watches = append(watches, watch(t, j, after))
	}
	for range 5 {
		all = append(all, l.grow(t, j, 1)...)
	}
	for i, w := range watches {
		w.want(t, all[from[i]:])
	}
	if len(watches) == 0 {
		t.Error("nothing was watched")
	}
}

// testWatchAcross appends by several handles in turn while others watch; each event must arrive
// before the next is appended.
func testWatchAcross(t *testing.T, l *log) {
	a, b, c := l.open(t), l.open(t), l.open(t)
	watches := []*watched{watch(t, a, 0), watch(t, b, 0), watch(t, c, 0)}
	for _, writer := range []journal.Log{a, b, c, c, b, a} {
		events := l.grow(t, writer, 2)
		for _, w := range watches {
			w.want(t, events)
		}
	}
}

func testWatchMany(t *testing.T, l *log) {
	handles := []journal.Log{l.open(t), l.open(t)}
	var watches []*watched
	for i := range 10 {
		watches = append(watches, watch(t, handles[i%2], 0))
	}
	for i := range 4 {
		events := l.grow(t, handles[i%2], 3)
		for _, w := range watches {
			w.want(t, events)
		}
	}
}

func testWatchCtx(t *testing.T, l *log) {
	j := l.open(t)
	w := watch(t, j, 0)
	w.want(t, l.grow(t, j, 1))
	w.stop()
	wantError(t, "the end of the watch", <-w.end, context.Canceled)

	ended, cancel := context.WithCancel(t.Context())
	cancel()
	rounds := 0
	for _, err := range j.Watch(ended, 0) {
		wantError(t, "a watch with a context that has ended", err, context.Canceled)
		rounds++
	}
	if rounds != 1 {
		t.Errorf("a watch with a context that has ended yielded %d times, want its error once",
			rounds)
	}
}

func testWatchClose(t *testing.T, l *log) {
	j := l.Open(t)
	idle, busy := watch(t, j, 5), watch(t, j, 0)
	busy.want(t, l.grow(t, j, 1))
	if err := j.Close(); err != nil {
		t.Fatalf("close: %v", err)
	}
	for _, w := range []*watched{idle, busy} {
		if err := <-w.end; err == nil {
			t.Error("the watch of a closed journal ended without an error")
		}
	}
	for _, err := range j.Watch(t.Context(), 0) {
		if err == nil {
			t.Error("a closed journal yielded an event")
		}
	}
}

// testWatchBreak leaves the loop and watches again from there, also from within the loop.
func testWatchBreak(t *testing.T, l *log) {
	j := l.open(t)
	all := l.grow(t, j, 6)
	var got []signalbox.Event
	for e, err := range j.Watch(testContext(t), 0) {
		if err != nil {
			t.Fatal(err)
		}
		if got = append(got, e); e.Seq == 3 {
			break
		}
	}
	for e, err := range j.Watch(testContext(t), 3) {
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, e)
		if e.Seq == 6 {
			all = append(all, l.grow(t, j, 1)...)
		}
		if e.Seq == 7 {
			break
		}
	}
	wantEvents(t, got, all)
}

func testWatchLong(t *testing.T, l *log) {
	j := l.open(t)
	all := l.grow(t, j, 1000)
	all = append(all, l.grow(t, j, 500)...)
	watch(t, j, 0).want(t, all)
}

func testWatchLarge(t *testing.T, l *log) {
	events := l.chain.peek(6)
	for i := range events {
		events[i].Data = make([]byte, 400<<10)
	}
	l.chain.seal(events)
	j := l.open(t)
	w := watch(t, l.open(t), 0)
	l.append(t, j, events)
	w.want(t, events)
}

// testWatchWhile watches while two handles append without pause.
func testWatchWhile(t *testing.T, l *log) {
	const each = 30
	a, b, c := l.open(t), l.open(t), l.open(t)
	ctx := testContext(t)
	w := watch(t, c, 0)
	var wg sync.WaitGroup
	wg.Go(func() {
		if err := Contend(ctx, a, "a", each); err != nil {
			t.Error(err)
		}
	})
	wg.Go(func() {
		if err := Contend(ctx, b, "b", each); err != nil {
			t.Error(err)
		}
	})
	wg.Wait()
	all := readAll(t, c, 0)
	w.want(t, all)
	if len(all) != 2*each {
		t.Errorf("the log has %d events, want %d", len(all), 2*each)
	}
	l.chain.follow(all)
}
