package engine

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"signalbox"
	"signalbox/internal/core/rules"
)

// A long log is read in several goes, at the start and later.
func TestLongLog(t *testing.T) {
	events := longLog(t, 2*readAtOnce+5)
	for _, length := range []uint64{1, readAtOnce - 1, readAtOnce, readAtOnce + 1,
		2*readAtOnce + 5} {
		m := newMemory()
		e := open(t, m, nil)
		m.change(func([]signalbox.Event) []signalbox.Event { return events[:length] })
		opened := open(t, m, nil)
		if seq := opened.Tail().Seq; seq != length {
			t.Errorf("opened at event %d, want %d", seq, length)
		}
		if err := e.Refresh(context.Background()); err != nil || e.Tail().Seq != length {
			t.Errorf("caught up to event %d, want %d: %v", e.Tail().Seq, length, err)
		}
		checkLog(t, m, e, opened)
	}
}

func longLog(t *testing.T, length uint64) []signalbox.Event {
	m := newMemory()
	(&writer{m: m}).grow(t, length)
	events, _ := m.stored()
	return events
}

func TestOpenFails(t *testing.T) {
	events := longLog(t, 1000+3*readAtOnce)
	m := newMemory()
	m.events = events[:1000]
	open(t, m, nil).Close()
	snapshot := m.snapshot
	for _, tt := range []struct {
		name   string
		script func(f *faulty, cancel func())
		want   error // nil for any
	}{
		{"load", func(f *faulty, cancel func()) { f.loads.then(fails(errCut)) }, errCut},
		{"look at the snapshot's event",
			func(f *faulty, cancel func()) { f.reads.then(fails(errCut)) }, errCut},
		{"read", func(f *faulty, cancel func()) { f.reads.then(goesThrough, fails(errCut)) },
			errCut},
		{"read on", func(f *faulty,
			cancel func()) {
			f.reads.then(goesThrough, goesThrough, fails(errCut))
		}, errCut},
		{"event that was changed", func(f *faulty, cancel func()) {
			f.Journal.(*memory).change(func(events []signalbox.Event) []signalbox.Event {
				events = slices.Clone(events)
				events[1500].Work = "another"
				return events
			})
		}, nil},
		{"context before", func(f *faulty, cancel func()) { cancel() }, context.Canceled},
		{"context meanwhile",
			func(f *faulty, cancel func()) {
				f.reads.then(goesThrough, goesThrough, first(cancel))
			}, context.Canceled},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { // which notices goroutines that stay
				m := newMemory()
				m.events, m.snapshot = events, snapshot
				f := &faulty{Journal: m}
				// not ended by us: that would end what stays
				ctx, cancel := context.WithCancel(context.Background())
				tt.script(f, cancel)
				if e, err := Open(ctx, f, &Options{Now: stillClock}); e != nil || err == nil ||
					tt.want != nil && !errors.Is(err, tt.want) {
					t.Errorf("engine %v, error %v; want error %v", e, err, tt.want)
				}
			})
		})
	}
}

func TestRefresh(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, f, m := faultyBox(t, nil)
		waiting := begin(func(a *asked) { a.err = e.Wait(context.Background(), 1) })
		synctest.Wait()
		mustDo(t, open(t, m, nil), openWork("w"))
		f.reads.then(fails(errCut))
		if err := e.Refresh(context.Background()); !errors.Is(err, errCut) {
			t.Errorf("error %v, want %v", err, errCut)
		}
		checkWorks(t, e)
		if err := e.Refresh(context.Background()); err != nil {
			t.Errorf("a read that failed broke the engine: %v", err)
		}
		checkWorks(t, e, "w")
		synctest.Wait()
		if !waiting.answered() || waiting.err != nil {
			t.Errorf("wait: answered %t, error %v; want that it heard of the event",
				waiting.answered(), waiting.err)
		}
	})
}

func TestClosedEngine(t *testing.T) {
	m := newMemory()
	e := openBox(t, m, nil)
	mustDo(t, e, openWork("w"))
	for range 3 {
		if err := e.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	}
	for range 100 { // a choice between two ready channels must not let it through
		if _, err := e.Do(context.Background(), openWork("v")); err != ErrClosed {
			t.Fatalf("error %v, want %v", err, ErrClosed)
		}
	}
	checkWorks(t, e, "w")
	if err := e.Refresh(context.Background()); err != ErrClosed {
		t.Errorf("refresh: error %v, want %v", err, ErrClosed)
	}
	mustDo(t, open(t, m, nil), openWork("v"))
	checkLog(t, m)
}

// A command that met the closing engine too late for its writer, and too early to be turned away,
// is answered. An answer that is there counts.
func TestCommandAfterWriterStopped(t *testing.T) {
	e := openBox(t, newMemory(), nil)
	e.Close()
	late := &request{ctx: context.Background(), command: openWork("w"),
		answer: make(chan outcome, 1)}
	e.queue <- late
	if _, err := e.await(late); err != ErrClosed {
		t.Errorf("error %v, want %v", err, ErrClosed)
	}
	for range 100 { // a choice between two ready channels must not lose the answer
		late.answer <- outcome{rules.Answer{Seq: 7}, nil}
		if answer, err := e.await(late); answer.Seq != 7 || err != nil {
			t.Fatalf("answer %+v, error %v; want the one that is there", answer, err)
		}
	}
}

// Engines come and go while everybody is at work. A command that succeeded is in the log, one that
// the closing engine turned away is not, and nothing of an engine stays: the bubble would notice.
func TestStartAndStop(t *testing.T) {
	for round := range uint64(25) {
		synctest.Test(t, func(t *testing.T) {
			m := newMemory()
			openBox(t, m, realClock).Close()
			rng := rand.New(rand.NewPCG(round, 0))
			var mu sync.Mutex // guards fates
			var fates []fate
			for life := range 4 {
				e := open(t, m, realClock)
				var callers sync.WaitGroup
				callers.Go(func() {
					if err := e.Follow(context.Background()); err != ErrClosed {
						t.Errorf("follow: error %v, want %v", err, ErrClosed)
					}
				})
				for caller := range 8 {
					patience := rand.New(rand.NewPCG(round, uint64(caller)))
					callers.Go(func() {
						met := openUntilClosed(e, fmt.Sprintf("w%d.%d", life, caller), patience)
						mu.Lock()
						defer mu.Unlock()
						fates = append(fates, met...)
					})
				}
				for range rng.IntN(40) {
					mustDo(t, e, rules.Expire{})
				}
				for range 2 {
					callers.Go(func() { e.Close() })
				}
				callers.Wait()
			}
			checkFates(t, m, fates)
			checkLog(t, m)
		})
	}
}

// fate is what became of a command.
type fate struct {
	work string
	err  error
}

func openUntilClosed(e *Engine, name string, rng *rand.Rand) (fates []fate) {
	for i := 0; ; i++ {
		work := fmt.Sprintf("%s.%d", name, i)
		ctx, cancel := context.WithCancel(context.Background())
		if rng.IntN(5) == 0 {
			go cancel()
		}
		_, err := e.Do(ctx, rules.OpenWork{Work: work, Actor: "me", Phase: signalbox.PhaseDraft})
		cancel()
		fates = append(fates, fate{work, err})
		if errors.Is(err, ErrClosed) {
			return fates
		}
		if rng.IntN(3) == 0 {
			time.Sleep(time.Millisecond)
		}
	}
}

func checkFates(t *testing.T, m *memory, fates []fate) {
	t.Helper()
	opened := map[string]bool{}
	events, _ := m.stored()
	for _, e := range events {
		opened[e.Work] = true
	}
	counts := map[error]int{}
	for _, f := range fates {
		counts[f.err]++
		switch {
		case f.err == context.Canceled && opened[f.work]:
			t.Errorf("%s was withdrawn, and is in the log", f.work)
		case f.err == nil && !opened[f.work]:
			t.Errorf("%s was opened, and is not in the log", f.work)
		case f.err == ErrClosed && opened[f.work]:
			t.Errorf("%s was turned away, and is in the log", f.work)
		case f.err != nil && f.err != ErrClosed && !errors.Is(f.err, context.Canceled):
			t.Errorf("%s: %v", f.work, f.err)
		}
	}
	if counts[ErrClosed] == 0 {
		t.Error("no command met a closed engine: the test is broken")
	}
}
