package engine

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"signalbox/internal/core/journal"
	"signalbox/internal/core/rules"
)

// away is a call of a journal that cannot be reached.
var away = fails(fmt.Errorf("%w: %w: connection refused", journal.ErrNotStored,
	journal.ErrUnavailable))

// awayBefore and awayAfter are calls during which the journal becomes unavailable: they may or may
// not have been carried out.
var awayBefore = fails(fmt.Errorf("%w: the connection was cut", journal.ErrUnavailable))

func awayAfter(next func() error) error {
	return errors.Join(fmt.Errorf("%w: the connection was cut", journal.ErrUnavailable), next())
}

// openWithLog returns an engine on a new box and what it logs.
func openWithLog(t *testing.T, f *faulty) (*Engine, *strings.Builder) {
	t.Helper()
	logged := &strings.Builder{}
	e := openBox(t, f, &Options{Now: stillClock, Log: slog.New(slog.NewTextHandler(logged, nil))})
	return e, logged
}

// checkOutageLog checks that one outage was logged, and its end.
func checkOutageLog(t *testing.T, logged *strings.Builder) {
	t.Helper()
	if log := logged.String(); strings.Count(log,
		"the ledger cannot be reached; trying again") != 1 ||
		strings.Count(log, "the ledger can be reached again") != 1 {
		t.Errorf("logged:\n%s", log)
	}
}

// An ordinary command fails at once, and nothing is executed later.
func TestDoFailsWhileTheJournalIsAway(t *testing.T) {
	f := &faulty{Journal: newMemory()}
	e, _ := openWithLog(t, f)
	f.appends.then(away)
	calls := f.appends.calls()
	mustFail(t, e, openWork("w"), journal.ErrUnavailable)
	if got := f.appends.calls() - calls; got != 1 {
		t.Errorf("%d appends, want 1", got)
	}
	checkWorks(t, e)
}

// A patient command is executed exactly once, however the journal becomes unavailable and comes
// back.
func TestPatientCommands(t *testing.T) {
	for _, tt := range []struct {
		name           string
		appends, reads []step
	}{
		{"not stored", repeat(20, away), nil},
		{"cut before", []step{awayBefore}, repeat(5, away)},
		{"cut after", []step{awayAfter}, repeat(5, away)},
		{"cut before, then after", []step{awayBefore, awayAfter}, repeat(1, away)},
		{"cut after, then away", []step{awayAfter}, repeat(30, away)},
		{"away, cut after, and away", []step{away, awayAfter}, repeat(7, away)},
		{"cut before, away", append([]step{awayBefore}, repeat(9, away)...), repeat(2, away)},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := newMemory()
				f := &faulty{Journal: m}
				e, logged := openWithLog(t, f)
				defer e.Close()
				mustDo(t, e, openWork("w"))
				f.appends.then(tt.appends...)
				f.reads.then(tt.reads...)
				answer, err := e.DoPatiently(t.Context(), nil, claim("w", "S", time.Minute))
				if err != nil || answer.Repeated || answer.Lease == nil || answer.Seq != 3 {
					t.Errorf("answer %+v, error %v", answer, err)
				}
				f.reads.clear()
				checkLog(t, m, e)
				if got := e.Tail().Seq; got != 3 {
					t.Errorf("%d events, want 3", got)
				}
				checkOutageLog(t, logged)
			})
		})
	}
}

// A paused database stores an append after it was read that it had not. The command is not executed
// again.
func TestPatientCommandThatIsStoredLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemory()
		f := &faulty{Journal: m}
		e, _ := openWithLog(t, f)
		defer e.Close()
		mustDo(t, e, openWork("w"))
		var late func() error
		f.appends.then(func(next func() error) error {
			late = next
			return fmt.Errorf("%w: no answer", journal.ErrUnavailable)
		}, func(next func() error) error {
			if err := late(); err != nil {
				t.Errorf("the late append: %v", err)
			}
			return next()
		})
		f.reads.then(away)
		// the rules refuse it the second time
		if answer, err := e.DoPatiently(t.Context(), nil, openWork("late")); err != nil ||
			answer.Seq != 3 {
			t.Errorf("answer %+v, error %v", answer, err)
		}
		checkWorks(t, e, "w", "late")
		checkLog(t, m, e)
	})
}

// A patient command gives up when its caller has had enough, and when the engine is closed.
func TestPatienceEnds(t *testing.T) {
	for _, how := range []string{"context", "enough", "close"} {
		t.Run(how, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := &faulty{Journal: newMemory()}
				e, _ := openWithLog(t, f)
				defer e.Close()
				f.appends.then(repeat(1000, away)...)
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				enough := make(chan struct{})
				failed := make(chan error)
				go func() {
					_, err := e.DoPatiently(ctx, enough, openWork("w"))
					failed <- err
				}()
				time.Sleep(time.Minute)
				switch how {
				case "context":
					cancel()
				case "enough":
					close(enough)
				case "close":
					e.Close()
				}
				if err := <-failed; !errors.Is(err, journal.ErrUnavailable) {
					t.Errorf("error %v", err)
				}
			})
		})
	}
}

// A patient command that may have been stored says so, however its caller or the engine ends before
// it can be tried again.
func TestPatienceEndsAfterAnAttempt(t *testing.T) {
	for _, how := range []string{"context", "close", "full queue"} {
		t.Run(how, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := &faulty{Journal: newMemory()}
				e, _ := openWithLog(t, f)
				gate := make(chan struct{})
				defer e.Close()
				defer close(gate)
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				f.appends.then(awayAfter)
				f.reads.then(away)
				_, err := e.Do(ctx, openWork("w"))
				unknown := (*unknownOutcome)(nil)
				if !errors.As(err, &unknown) {
					t.Fatalf("error %v", err)
				}
				want := context.Canceled
				switch how {
				case "context":
					cancel()
				case "close":
					e.Close()
					want = ErrClosed
				case "full queue":
					f.appends.then(blocked(gate))
					inside, _ := works("x", 1+cap(e.queue))
					askInOrder(e, inside...)
					time.AfterFunc(time.Minute, cancel)
				}
				_, err = e.do(ctx, openWork("w"), unknown.attempts)
				again := (*unknownOutcome)(nil)
				if !errors.Is(err, want) || !errors.Is(err, ErrUnknownOutcome) ||
					!errors.As(err, &again) || len(again.attempts) != 1 {
					t.Errorf("error %v", err)
				}
			})
		})
	}
}

// Follow waits until the journal is back, records the leases that expired meanwhile, and reports
// each once.
func TestFollowThroughAnOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemory()
		f := &faulty{Journal: m}
		logged := &strings.Builder{}
		e := openBox(t, f, &Options{Log: slog.New(slog.NewTextHandler(logged, nil)), Now: time.Now})
		defer e.Close()
		mustDo(t, e, openWork("w"))
		mustDo(t, e, claim("w", "S", time.Minute))
		ctx, cancel := context.WithCancel(t.Context())
		followed := make(chan error)
		go func() { followed <- e.Follow(ctx) }()
		synctest.Wait()

		const down = 5 * time.Minute
		back := time.Now().Add(down)
		during := func(next func() error) error {
			if time.Now().Before(back) {
				return fmt.Errorf("%w: %w: connection refused", journal.ErrNotStored,
					journal.ErrUnavailable)
			}
			return next()
		}
		for _, s := range []*script{&f.appends, &f.heads, &f.watches, &f.reads} {
			s.then(repeat(1000, during)...)
		}
		other := open(t, m, &Options{Now: time.Now})
		mustDo(t, other, openWork("x")) // which ends the watch with an error
		time.Sleep(down + time.Minute)
		synctest.Wait()
		e.View(func(s *rules.State) {
			if w, _ := s.Work("w"); w.Lease != nil {
				t.Error("the lease has not expired")
			}
			if _, known := s.Work("x"); !known {
				t.Error("what others did was not read")
			}
		})
		if total := f.heads.calls() + f.appends.calls() + f.watches.calls(); total > 500 {
			t.Errorf("%d calls in 5 minutes: the pauses do not grow", total)
		}
		checkOutageLog(t, logged)
		cancel()
		if err := <-followed; !errors.Is(err, context.Canceled) {
			t.Errorf("Follow returned %v", err)
		}
	})
}
