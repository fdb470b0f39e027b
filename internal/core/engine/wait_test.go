package engine

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"signalbox"
	"signalbox/internal/core/rules"
)

func TestWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := openBox(t, newMemory(), realClock)
		background := context.Background()
		if err := e.Wait(background, 0); err != nil {
			t.Errorf("wait for an existing event: %v", err)
		}
		ctx, cancel := context.WithCancel(background)
		waits := []*asked{
			begin(func(a *asked) { a.err = e.Wait(ctx, 10) }),
			begin(func(a *asked) { a.err = e.Wait(background, 1) }),
			begin(func(a *asked) { a.err = e.Wait(background, 2) }),
		}
		check := func(when string, want ...string) {
			t.Helper()
			synctest.Wait()
			var got []string
			for _, w := range waits {
				if !w.answered() {
					got = append(got, "waits")
				} else {
					got = append(got, fmt.Sprint(w.err))
				}
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("%s (-want +got):\n%s", when, diff)
			}
		}
		check("at first", "waits", "waits", "waits")
		mustDo(t, e, openWork("w"))
		check("after an event", "waits", "<nil>", "waits")
		mustRefuse(t, e, openWork("w"), signalbox.CodeConflict)
		check("after a refusal", "waits", "<nil>", "waits")
		cancel()
		check("after its context", "context canceled", "<nil>", "waits")
		e.Close()
		check("after close", "context canceled", "<nil>", "the engine is closed")
	})
}

func claimNext(session string) rules.Command { return claim("", session, time.Minute) }

// askWhenPossible begins a claim that waits for work.
func askWhenPossible(ctx context.Context, e *Engine, session string) *asked {
	a := begin(func(a *asked) { a.answer, a.err = e.DoWhenPossible(ctx, claimNext(session)) })
	synctest.Wait()
	return a
}

func checkClaimed(t *testing.T, a *asked, work string) {
	t.Helper()
	synctest.Wait()
	if !a.answered() || a.err != nil || a.answer.Work != work {
		t.Errorf("answered %t, work %q, error %v; want work %q", a.answered(), a.answer.Work, a.err,
			work)
	}
}

func TestClaimAvailableWork(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, f, _ := faultyBox(t, realClock)
		mustDo(t, e, openWork("w"))
		checkClaimed(t, askWhenPossible(context.Background(), e, "s"), "w")
		if n := f.watches.calls(); n != 0 {
			t.Errorf("it followed the log for %d events, and had nothing to wait for", n)
		}
	})
}

func TestClaimNewWork(t *testing.T) {
	for _, tt := range []struct {
		name string
		come func(t *testing.T, e, other *Engine)
	}{
		{"from this engine", func(t *testing.T, e, other *Engine) { mustDo(t, e, openWork("w")) }},
		{"from another engine",
			func(t *testing.T, e, other *Engine) { mustDo(t, other, openWork("w")) }},
		{"after something else", func(t *testing.T, e, other *Engine) {
			mustDo(t, other, rules.OpenWork{Work: "x", Actor: "me", Phase: signalbox.PhaseDraft})
			synctest.Wait()
			mustDo(t, other, openWork("w"))
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				e, f, m := faultyBox(t, realClock)
				other := open(t, m, realClock)
				a := askWhenPossible(context.Background(), e, "s")
				if a.answered() {
					t.Fatalf("answer %+v, error %v; want that it waits", a.answer, a.err)
				}
				tt.come(t, e, other)
				checkClaimed(t, a, "w")
				if f.watching.Load() != 0 {
					t.Error("it left a watch behind")
				}
				checkLog(t, m, e, other)
			})
		})
	}
}

// Work can be claimed the moment its lease expires, even if no other engine follows the log.
func TestClaimExpiredWork(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemory()
		e := openBox(t, m, realClock)
		mustDo(t, e, openWork("w"))
		mustDo(t, e, claim("w", "gone", 10*time.Second))
		a := askWhenPossible(context.Background(), e, "s")
		pass(10*time.Second - 1)
		if a.answered() {
			t.Fatalf("answer %+v, error %v; want that it waits", a.answer, a.err)
		}
		pass(1)
		checkClaimed(t, a, "w")
		checkTypes(t, m, 3, "LeaseExpired", "LeaseGranted")
	})
}

func TestWaitingForWorkEnds(t *testing.T) {
	stop := errors.New("the watch broke off")
	for _, tt := range []struct {
		name string
		end  func(e *Engine, f *faulty, cancel func())
		want error
	}{
		{"context", func(e *Engine, f *faulty, cancel func()) { cancel() }, context.Canceled},
		{"deadline", func(e *Engine, f *faulty, cancel func()) { pass(time.Hour) },
			context.DeadlineExceeded},
		{"close", func(e *Engine, f *faulty, cancel func()) { e.Close() }, ErrClosed},
		{"broken log", func(e *Engine, f *faulty,
			cancel func()) {
			f.Journal.(*memory).change(newerEvent)
		}, rules.ErrNewer},
		{"failing watch", func(e *Engine, f *faulty, cancel func()) {
			f.watches.then(fails(stop))
			f.Journal.Close()
		}, stop},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				e, f, _ := faultyBox(t, realClock)
				ctx, cancel := context.WithTimeout(context.Background(), time.Hour)
				defer cancel()
				a := askWhenPossible(ctx, e, "s")
				mustDo(t, e, rules.OpenWork{Work: "not-for-s", Actor: "me",
					Phase: signalbox.PhaseDraft})
				synctest.Wait()
				if n := f.watching.Load(); n != 1 {
					t.Errorf("%d watches, want 1", n)
				}
				tt.end(e, f, cancel)
				synctest.Wait()
				if !a.answered() || !errors.Is(a.err, tt.want) {
					t.Errorf("answered %t, error %v; want %v", a.answered(), a.err, tt.want)
				}
			})
		})
	}
}

// When DoWhenPossible returns, it no longer uses the journal.
func TestWaitingForWorkStops(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, f, _ := faultyBox(t, realClock)
		ctx, cancel := context.WithCancel(context.Background())
		a := askWhenPossible(ctx, e, "s")
		gate := make(chan struct{})
		f.watches.then(blocked(gate))
		cancel()
		synctest.Wait()
		if a.answered() {
			t.Error("it returned while it watched")
		}
		close(gate)
		synctest.Wait()
		if !a.answered() {
			t.Error("it did not return")
		}
	})
}
