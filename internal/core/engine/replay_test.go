package engine

import (
	"bytes"
	"context"
	"errors"
	"math"
	"testing"

	"github.com/google/go-cmp/cmp"

	"signalbox/internal/core/journal"
	"signalbox/internal/core/rules"
	"signalbox/internal/testkit/must"
)

func TestReplay(t *testing.T) {
	m, good, before := smallLog(t)
	ctx := context.Background()
	if err := Replay(ctx, m, math.MaxUint64, nil); err != nil {
		t.Errorf("without a snapshot: %v", err)
	}
	for _, s := range []journal.Snapshot{good, before} {
		m.snapshot = &s
		if err := Replay(ctx, m, math.MaxUint64, nil); err != nil {
			t.Errorf("with a snapshot of event %d: %v", s.Seq, err)
		}
	}
	if err := Replay(ctx, newMemory(), math.MaxUint64, nil); err != nil {
		t.Errorf("an empty log: %v", err)
	}
}

// A snapshot that somebody made reads well, and an engine starts from it. Only a replay finds it.
func TestReplayDetectsForgedSnapshot(t *testing.T) {
	m, good, before := smallLog(t)
	for _, s := range []journal.Snapshot{good, before} {
		s.State = bytes.Replace(s.State, []byte("box"), []byte("fox"), 1)
		m.snapshot = &s
		open(t, m, nil).View(func(state *rules.State) {
			if state.Box() != "fox" {
				t.Fatal("the forgery is not good enough for an engine")
			}
		})
		if err := Replay(context.Background(), m, math.MaxUint64, nil); !errors.Is(err, ErrSnapshotDiffers) {
			t.Errorf("a snapshot of event %d: error %v, want %v", s.Seq, err, ErrSnapshotDiffers)
		}
	}
}

func TestReplayDetectsBrokenLog(t *testing.T) {
	for _, tt := range brokenLogs {
		m := newMemory()
		e := openBox(t, m, nil)
		mustDo(t, e, openWork("w"))
		mustDo(t, e, openWork("v"))
		m.change(tt.then)
		if err := Replay(context.Background(), m, math.MaxUint64, nil); err == nil || tt.is != nil &&
			!errors.Is(err, tt.is) {
			t.Errorf("%s: error %v, want %v", tt.name, err, tt.is)
		}
	}
}

func TestReplayFails(t *testing.T) {
	m, _, _ := smallLog(t)
	f := &faulty{Journal: m}
	f.loads.then(fails(errCut))
	if err := Replay(context.Background(), f, math.MaxUint64, nil); !errors.Is(err, errCut) {
		t.Errorf("load: error %v, want %v", err, errCut)
	}
	f.reads.then(fails(errCut))
	if err := Replay(context.Background(), f, math.MaxUint64, nil); !errors.Is(err, errCut) {
		t.Errorf("read: error %v, want %v", err, errCut)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if err := Replay(ctx, f, math.MaxUint64, nil); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v, want %v", err, context.Canceled)
	}
}

func TestReplayProgress(t *testing.T) {
	m := newMemory()
	m.events = longLog(t, 2*readAtOnce+5)
	var done []uint64
	must.Succeed(t, Replay(context.Background(), m, math.MaxUint64,
		func(n uint64) { done = append(done, n) }))
	if diff := cmp.Diff([]uint64{readAtOnce, 2 * readAtOnce}, done); diff != "" {
		t.Errorf("progress (-want +got):\n%s", diff)
	}
}
