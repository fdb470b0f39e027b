package engine

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"signalbox"
	"signalbox/internal/core/journal/postgres"
	"signalbox/internal/core/rules"
	"signalbox/internal/testkit/must"
	"signalbox/internal/testkit/proxy"
)

// hanging is a journal whose calls, while it hangs, wait until their context is done.
type hanging struct {
	*memory
	hangs chan struct{} // a call takes a value when it begins to hang; nil if none hang
	late  bool          // an append that hangs is stored nevertheless
}

func (h *hanging) hang(ctx context.Context) error {
	if h.hangs == nil {
		return nil
	}
	h.hangs <- struct{}{}
	<-ctx.Done()
	return ctx.Err()
}

func (h *hanging) Append(ctx context.Context, expected uint64, events []signalbox.Event) error {
	if err := h.hang(ctx); err != nil {
		if h.late {
			h.memory.Append(context.Background(), expected, events)
		}
		return err
	}
	return h.memory.Append(ctx, expected, events)
}

func (h *hanging) Read(ctx context.Context, after uint64, limit int) ([]signalbox.Event, error) {
	if err := h.hang(ctx); err != nil {
		return nil, err
	}
	return h.memory.Read(ctx, after, limit)
}

func (h *hanging) Head(ctx context.Context) (uint64, error) {
	if err := h.hang(ctx); err != nil {
		return 0, err
	}
	return h.memory.Head(ctx)
}

// While an append hangs, the last known state can be read, commands and refreshes return when their
// contexts are done, and say what is known of them.
func TestHangingAppend(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := &hanging{memory: newMemory()}
		e := openBox(t, h, nil)
		mustDo(t, e, openWork("w"))
		h.hangs = make(chan struct{}, 100)
		ctx, cancel := context.WithCancel(t.Context())
		appended := ask(ctx, e, openWork("appended"))
		<-h.hangs
		waiting := ask(ctx, e, openWork("waiting"))
		refreshed := begin(func(a *asked) { a.err = e.Refresh(ctx) })
		synctest.Wait()

		checkWorks(t, e, "w")
		if seq := e.Tail().Seq; seq != 2 {
			t.Errorf("the tail is at event %d, want 2", seq)
		}
		if answer, _, err := e.Preview(openWork("x")); err != nil || answer.Seq == 0 &&
			answer.Work != "x" {
			t.Errorf("preview: %+v, %v", answer, err)
		}
		cancel()
		synctest.Wait()
		for name, a := range map[string]*asked{"appended": appended, "waiting": waiting,
			"refreshed": refreshed} {
			if !a.answered() || !errors.Is(a.err, context.Canceled) ||
				errors.Is(a.err, ErrUnknownOutcome) != (name == "appended") {
				t.Errorf("%s: answered %t, error %v", name, a.answered(), a.err)
			}
		}
	})
}

// While a refresh hangs, a command that is cancelled is certainly not executed.
func TestHangingRefresh(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemory()
		h := &hanging{memory: m}
		e := openBox(t, h, nil)
		h.hangs = make(chan struct{}, 100)
		refreshing, stop := context.WithCancel(t.Context())
		refreshed := begin(func(a *asked) { a.err = e.Refresh(refreshing) })
		<-h.hangs
		ctx, cancel := context.WithCancel(t.Context())
		command := ask(ctx, e, openWork("w"))
		synctest.Wait()
		checkWorks(t, e)
		cancel()
		synctest.Wait()
		if !command.answered() || command.err != context.Canceled {
			t.Errorf("answered %t, error %v", command.answered(), command.err)
		}
		h.hangs = nil
		stop()
		<-refreshed.done
		mustDo(t, e, openWork("v"))
		checkWorks(t, e, "v")
		checkLog(t, m, e)
	})
}

// Who can make do with the last known state gets it although the journal hangs, and hears since
// when.
func TestKnownState(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := &hanging{memory: newMemory()}
		e := openBox(t, h, nil)
		mustDo(t, open(t, h.memory, nil), openWork("w"))
		if since, err := e.RefreshOrKnown(t.Context()); err != nil || !since.IsZero() {
			t.Errorf("outdated since %s, error %v", since, err)
		}
		checkWorks(t, e, "w")
		mustDo(t, open(t, h.memory, nil), openWork("v"))
		h.hangs = make(chan struct{}, 100)
		began := time.Now()
		first, err := e.RefreshOrKnown(t.Context())
		// by the clock of the bubble
		if took := time.Since(began); err != nil || first.Before(began) || took > knownPatience {
			t.Errorf("after %s: outdated since %s, error %v", took, first, err)
		}
		if again, err := e.RefreshOrKnown(t.Context()); err != nil || again != first {
			t.Errorf("outdated since %s, want %s; error %v", again, first, err)
		}
		checkWorks(t, e, "w")
		cancelled, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := e.RefreshOrKnown(cancelled); !errors.Is(err, context.Canceled) {
			t.Errorf("error %v, want %v", err, context.Canceled)
		}
		h.hangs = nil
		if since, err := e.RefreshOrKnown(t.Context()); err != nil || !since.IsZero() {
			t.Errorf("outdated since %s, error %v", since, err)
		}
		checkWorks(t, e, "w", "v")
	})
}

// Close ends although the journal hangs. Commands get to know whether they may have been executed.
func TestCloseWhileTheJournalHangs(t *testing.T) {
	for _, late := range []bool{false, true} {
		t.Run(fmt.Sprintf("stored is %t", late), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := &hanging{memory: newMemory(), late: late}
				e := openBox(t, h, nil)
				h.hangs = make(chan struct{}, 100)
				appended := ask(t.Context(), e, openWork("appended"))
				<-h.hangs
				waiting := ask(t.Context(), e, openWork("waiting"))
				refreshed := begin(func(a *asked) { a.err = e.Refresh(t.Context()) })
				synctest.Wait()
				began := time.Now()
				e.Close()
				if took := time.Since(began); took > 2*time.Second { // by the clock of the bubble
					t.Errorf("Close took %s", took)
				}
				synctest.Wait()
				if !appended.answered() || !errors.Is(appended.err, ErrUnknownOutcome) {
					t.Errorf("appended: answered %t, error %v", appended.answered(), appended.err)
				}
				for name, a := range map[string]*asked{"waiting": waiting, "refreshed": refreshed} {
					if !a.answered() || !errors.Is(a.err, ErrClosed) ||
						errors.Is(a.err, ErrUnknownOutcome) {
						t.Errorf("%s: answered %t, error %v", name, a.answered(), a.err)
					}
				}
				if works := len(eventTypes(h.memory, 1)); (works == 1) != late {
					t.Errorf("%d events are stored", works)
				}
			})
		})
	}
}

// A command that waits for its turn when Close gives up the journal is told that the engine is
// closed, and nothing else.
func TestCloseWhileARefreshHangs(t *testing.T) {
	for range 50 { // a choice between two ready channels must not change the error
		synctest.Test(t, func(t *testing.T) {
			h := &hanging{memory: newMemory()}
			e := openBox(t, h, nil)
			h.hangs = make(chan struct{}, 100)
			refreshed := begin(func(a *asked) { a.err = e.Refresh(t.Context()) })
			<-h.hangs
			waiting := ask(t.Context(), e, openWork("waiting"))
			synctest.Wait()
			e.Close()
			<-refreshed.done
			if <-waiting.done; !errors.Is(waiting.err, ErrClosed) ||
				errors.Is(waiting.err, ErrUnknownOutcome) {
				t.Fatalf("error %v, want %v", waiting.err, ErrClosed)
			}
		})
	}
}

// Close saves the snapshot that is due, although the log hangs.
func TestSnapshotWhileTheLogHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := &hanging{memory: newMemory()}
		e := openBox(t, h, nil)
		mustDo(t, e, openWork("w"))
		h.hangs = make(chan struct{}, 100)
		ask(t.Context(), e, openWork("hangs"))
		<-h.hangs
		e.mu.Lock()
		e.saved -= snapshotEvents // so that one is due
		e.mu.Unlock()
		e.Close()
		if s, err := h.LoadSnapshot(t.Context()); err != nil || s.Seq != 2 {
			t.Errorf("the snapshot is that of event %d, %v", s.Seq, err)
		}
	})
}

// With a real database behind a network that loses all packets, the state can be read, a command
// returns when it is cancelled, and Close returns. When the network is back, the command that may
// have been stored is there once or not at all, and nothing else is lost.
func TestNetworkHangs(t *testing.T) {
	server := database.Need(t)
	p, err := proxy.Start("unix", fmt.Sprintf("%s/.s.PGSQL.%d", server.Dir, server.Port))
	must.Succeed(t, err)
	t.Cleanup(func() { p.Close() })
	opts := postgres.Options{Schema: fmt.Sprintf("box%d", schemas.Add(1)), Create: true}
	j, err := postgres.Open(t.Context(), fmt.Sprintf("postgres://signalbox@%s/postgres", p.Addr()),
		opts)
	must.Succeed(t, err)
	f := &faulty{Journal: withSnapshot(t, j)}
	e := openBox(t, f, nil)
	mustDo(t, e, openWork("w"))
	p.Pause()

	ctx, cancel := context.WithCancel(t.Context())
	begun := make(chan struct{})
	f.appends.then(first(func() { close(begun) }))
	appended := ask(ctx, e, openWork("cancelled"))
	<-begun
	checkWorks(t, e, "w")
	cancel()
	if <-appended.done; !errors.Is(appended.err, context.Canceled) ||
		!errors.Is(appended.err, ErrUnknownOutcome) {
		t.Errorf("error %v", appended.err)
	}
	refreshed := begin(func(a *asked) { a.err = e.Refresh(t.Context()) })
	e.Close()
	if <-refreshed.done; !errors.Is(refreshed.err, ErrClosed) {
		t.Errorf("refresh: %v", refreshed.err)
	}
	j.Close()
	p.Resume()

	direct, err := postgres.Open(t.Context(), server.Address, opts)
	must.Succeed(t, err)
	t.Cleanup(func() { direct.Close() })
	again := open(t, withSnapshot(t, direct), nil)
	mustDo(t, again, openWork("after"))
	again.View(func(s *rules.State) {
		if _, known := s.Work("w"); !known {
			t.Error("work that was acknowledged is lost")
		}
	})
	checkLog(t, withSnapshot(t, direct), again)
}
