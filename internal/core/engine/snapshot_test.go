package engine

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"signalbox"
	"signalbox/internal/core/journal"
	"signalbox/internal/core/rules"
	"signalbox/internal/testkit/must"
	"signalbox/ledger"
)

// writer is another process that makes a log long: it holds one lease and renews it.
type writer struct {
	m     *memory
	state rules.State
	tail  ledger.Tail
}

// grow lets the log grow to a length.
func (w *writer) grow(t testing.TB, length uint64) {
	t.Helper()
	behind, _ := w.m.Read(context.Background(), w.tail.Seq, int(length))
	for i := range behind {
		must.Succeed(t, errors.Join(w.tail.Extend(&behind[i]), w.state.Apply(&behind[i])))
	}
	for w.tail.Seq < length {
		expected := w.tail.Seq
		var events []signalbox.Event
		for w.tail.Seq < length && len(events) < journal.MaxAppend {
			d := rules.Decide(&w.state, start.Add(time.Duration(w.tail.Seq)*time.Millisecond),
				w.next())
			w.tail.Seal(d.Events)
			must.Succeed(t, errors.Join(d.Err, w.state.Apply(&d.Events[0])))
			events = append(events, d.Events...)
		}
		must.Succeed(t, w.m.Append(context.Background(), expected, events))
	}
}

func (w *writer) next() rules.Command {
	switch work, ok := w.state.Work("long"); {
	case w.state.Seq() == 0:
		return rules.OpenBox{Box: "box", Actor: "me"}
	case !ok:
		return openWork("long")
	case work.Lease == nil:
		return claim("long", "long", time.Hour)
	default:
		return rules.Renew{Work: "long", Session: "long", Epoch: work.Lease.Epoch, TTL: time.Hour}
	}
}

// something changes the log by one event.
func something(t testing.TB, e *Engine) {
	t.Helper()
	mustDo(t, e, openWork(fmt.Sprintf("w%d", e.Tail().Seq)))
}

func checkSnapshot(t testing.TB, m *memory, want uint64) {
	t.Helper()
	s, err := m.LoadSnapshot(context.Background())
	if err != nil && !errors.Is(err, journal.ErrNoSnapshot) {
		t.Fatal(err)
	}
	if s.Seq != want {
		t.Errorf("the snapshot is of event %d, want %d", s.Seq, want)
	}
}

func TestSnapshotInTheBackground(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemory()
		w := &writer{m: m}
		w.grow(t, 998)
		e := open(t, m, nil)
		for _, step := range []struct{ length, saved uint64 }{{998, 0}, {999, 1000}, {1998, 1000},
			{1999, 2000}} {
			w.grow(t, step.length)
			something(t, e)
			synctest.Wait()
			checkSnapshot(t, m, step.saved)
		}
		checkLog(t, m, e, open(t, m, nil))
	})
}

func TestSnapshotOnClose(t *testing.T) {
	for _, tt := range []struct{ length, want uint64 }{{999, 0}, {1000, 1000}, {1500, 1500}} {
		m := newMemory()
		(&writer{m: m}).grow(t, tt.length)
		f := &faulty{Journal: m}
		open(t, f, nil).Close()
		checkSnapshot(t, m, tt.want)
		saves := f.saves.calls()
		open(t, f, nil).Close()
		if tt.want > 0 && f.saves.calls() != saves {
			t.Errorf("a log of %d events: the snapshot was saved again, and nothing had changed",
				tt.length)
		}
	}
}

// Nobody waits for a snapshot but Close.
func TestSnapshotDuringCommands(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemory()
		f := &faulty{Journal: m}
		w := &writer{m: m}
		w.grow(t, 2000)
		e := open(t, f, nil)
		gate := make(chan struct{})
		f.saves.then(blocked(gate))
		something(t, e)
		w.grow(t, 4000)
		something(t, e)
		synctest.Wait()
		if n := f.saves.calls(); n != 1 {
			t.Errorf("%d snapshots are being saved at once, want 1", n)
		}
		closing := begin(func(*asked) { e.Close() })
		synctest.Wait()
		if closing.answered() {
			t.Error("close did not wait for the snapshot")
		}
		close(gate)
		<-closing.done
		checkSnapshot(t, m, 4001)
	})
}

func TestSnapshotSaveFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, heard := newMemory(), &lines{}
		f := &faulty{Journal: m}
		w := &writer{m: m}
		w.grow(t, 2000)
		e := open(t, f, &Options{Now: stillClock, Log: heard.logger()})
		f.saves.then(fails(errCut), fails(errCut))
		for i, length := range []uint64{2001, 2002, 2003, 4000, 4002} {
			w.grow(t, length)
			something(t, e)
			synctest.Wait()
			if want := 1 + i/3; f.saves.calls() != want ||
				heard.count("cannot save a snapshot") != want {
				t.Errorf("at event %d: %d attempts and %d log lines, want %d", length+1,
					f.saves.calls(), heard.count("cannot save a snapshot"), want)
			}
		}
		checkSnapshot(t, m, 0)
		w.grow(t, 6000)
		must.Succeed(t, e.Refresh(context.Background()))
		e.Close()
		checkSnapshot(t, m, 6000)
	})
}

// A reader of a long log never has many events to apply.
func TestSnapshotsOfLongLogs(t *testing.T) {
	for seq, want := range map[uint64]uint64{0: 1000, 5000: 1000, 80_000: 10_000, 320_000: 40_000,
		1_000_000: 40_000, 1e9: 40_000} {
		if got := snapshotAfter(seq); got != want {
			t.Errorf("a log with %d events is saved after %d, want %d", seq, got, want)
		}
	}
}
