package engine

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"signalbox/internal/core/journal"
	"signalbox/internal/core/rules"
)

// realClock is the clock of a bubble.
var realClock = &Options{Now: time.Now}

// follow lets an engine follow the log until the test ends.
func follow(t *testing.T, e *Engine) <-chan error {
	t.Helper()
	ended := make(chan error, 1)
	ctx, cancel := context.WithCancel(context.Background())
	go func() { ended <- e.Follow(ctx) }()
	t.Cleanup(cancel)
	synctest.Wait()
	return ended
}

// pass lets time go by, and then everything happen that happens at that time.
func pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// expiries returns which leases have run out according to the log, and when after a moment.
func expiries(m *memory, since time.Time) (found []string) {
	events, _ := m.stored()
	for _, e := range events {
		if e.Type == rules.TypeLeaseExpired {
			found = append(found, fmt.Sprint(e.Work, " ", e.Time.Sub(since)))
		}
	}
	return found
}

func checkExpiries(t *testing.T, m *memory, since time.Time, want ...string) {
	t.Helper()
	if diff := cmp.Diff(want, expiries(m, since)); diff != "" {
		t.Errorf("expiries (-want +got):\n%s", diff)
	}
}

func TestExpiryIsRecordedInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemory()
		e := openBox(t, m, realClock)
		mustDo(t, e, openWork("w"))
		begin := time.Now()
		mustDo(t, e, claim("w", "s", 10*time.Second))
		follow(t, e)
		pass(10*time.Second - 1)
		checkExpiries(t, m, begin)
		pass(1)
		checkExpiries(t, m, begin, "w 10s")
		pass(time.Hour)
		checkExpiries(t, m, begin, "w 10s")
		checkLog(t, m, e)
	})
}

// What other processes do sets the timer too.
func TestExpiryOfOthersLeases(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemory()
		e := openBox(t, m, realClock)
		other := open(t, m, realClock)
		follow(t, e)
		begin := time.Now()
		for _, id := range []string{"late", "kept", "given-back"} {
			mustDo(t, other, openWork(id))
		}
		kept := mustDo(t, other, claim("kept", "s2", 5*time.Second))
		givenBack := mustDo(t, other, claim("given-back", "s3", 6*time.Second))
		mustDo(t, other, claim("late", "s1", 20*time.Second))
		pass(4 * time.Second)
		mustDo(t, other, rules.Renew{Work: "kept", Session: "s2", Epoch: kept.Lease.Epoch,
			TTL: 10 * time.Second})
		mustDo(t, other, release("given-back", givenBack))
		pass(time.Minute)
		checkExpiries(t, m, begin, "kept 14s", "late 20s")
		checkLog(t, m, e, other)
	})
}

func TestManyEnginesRecordOneExpiry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemory()
		first := openBox(t, m, realClock)
		mustDo(t, first, openWork("w"))
		engines := []*Engine{first}
		for range 7 {
			engines = append(engines, open(t, m, realClock))
		}
		for _, e := range engines {
			follow(t, e)
		}
		begin := time.Now()
		for i := range 10 {
			mustDo(t, engines[i%len(engines)], claim("w", fmt.Sprintf("s%d", i), time.Second))
			pass(time.Second)
			if n := len(expiries(m, begin)); n != i+1 {
				t.Fatalf("%d expiries recorded, want %d", n, i+1)
			}
			pass(time.Second)
		}
		checkLog(t, m, engines...)
	})
}

// One decision ends a limited number of leases. The rest is due at once.
func TestManyExpiriesAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const leases = 700
		m := newMemory()
		e := openBox(t, m, realClock)
		for i := range leases {
			id := fmt.Sprintf("w%d", i)
			mustDo(t, e, openWork(id))
			mustDo(t, e, claim(id, id, time.Minute))
		}
		follow(t, e)
		begin := time.Now()
		pass(time.Minute)
		found := expiries(m, begin)
		if len(found) != leases || found[leases-1] != fmt.Sprintf("w%d 1m0s", leases-1) {
			t.Errorf("%d leases ran out, want %d; last %s", len(found), leases,
				found[len(found)-1:])
		}
		checkLog(t, m, e)
	})
}

// Who cannot record an expiry tries again, but not all the time.
func TestFailingExpiry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, heard := newMemory(), &lines{}
		f := &faulty{Journal: m}
		e := openBox(t, f, &Options{Now: time.Now, Log: heard.logger()})
		mustDo(t, e, openWork("w"))
		begin := time.Now()
		mustDo(t, e, claim("w", "s", 10*time.Second))
		follow(t, e)
		before := f.appends.calls()
		f.appends.then(repeat(1000, fails(journal.ErrNotStored))...)
		pass(40*time.Second + time.Millisecond)
		if n := f.appends.calls() - before; n != 31 {
			t.Errorf("%d attempts in 30 s, want one a second", n)
		}
		if n := heard.count("cannot record expired leases"); n != 31 {
			t.Errorf("%d log lines, want one for each attempt", n)
		}
		f.appends.clear()
		pass(time.Second)
		checkExpiries(t, m, begin, "w 41s")
	})
}

func TestFollowOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemory()
		e := openBox(t, m, realClock)
		other := open(t, m, realClock)
		follow(t, e)
		woken := make(chan error, 1)
		go func() { woken <- e.Wait(context.Background(), 2) }()
		mustDo(t, other, openWork("w"))
		synctest.Wait()
		checkWorks(t, e, "w")
		if len(woken) > 0 {
			t.Error("wait returned before the state had moved past the event")
		}
		mustDo(t, other, openWork("v"))
		if err := <-woken; err != nil {
			t.Errorf("wait: %v", err)
		}
		checkWorks(t, e, "w", "v")
	})
}

func TestFollowEnds(t *testing.T) {
	stop := errors.New("the watch broke off")
	for _, tt := range []struct {
		name string
		end  func(t *testing.T, e *Engine, f *faulty, cancel func())
		want error
	}{
		{"context", func(t *testing.T, e *Engine, f *faulty, cancel func()) { cancel() },
			context.Canceled},
		{"deadline", func(t *testing.T, e *Engine, f *faulty, cancel func()) { pass(time.Hour) },
			context.DeadlineExceeded},
		{"close", func(t *testing.T, e *Engine, f *faulty, cancel func()) { e.Close() }, ErrClosed},
		{"failing watch", func(t *testing.T, e *Engine, f *faulty, cancel func()) {
			f.watches.then(fails(stop))
			mustDo(t, e, openWork("wakes"))
		}, stop},
		{"journal closed", func(t *testing.T, e *Engine, f *faulty,
			cancel func()) {
			f.Journal.Close()
		}, errMemoryClosed},
		{"context while an expiry cannot be recorded", func(t *testing.T, e *Engine, f *faulty,
			cancel func()) {
			f.appends.then(repeat(1000, fails(journal.ErrNotStored))...)
			pass(time.Minute)
			cancel()
		}, context.Canceled},
		{"close while an expiry cannot be recorded", func(t *testing.T, e *Engine, f *faulty,
			cancel func()) {
			f.appends.then(repeat(1000, fails(journal.ErrNotStored))...)
			pass(time.Minute)
			e.Close()
		}, ErrClosed},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				e, f, _ := faultyBox(t, realClock)
				mustDo(t, e, openWork("w"))
				mustDo(t, e, claim("w", "s", 30*time.Second))
				ctx, cancel := context.WithTimeout(context.Background(), time.Hour)
				defer cancel()
				ended := make(chan error, 1)
				go func() { ended <- e.Follow(ctx) }()
				synctest.Wait()
				tt.end(t, e, f, cancel)
				asked := time.Now()
				if err := <-ended; !errors.Is(err, tt.want) {
					t.Errorf("error %v, want %v", err, tt.want)
				}
				if f.watching.Load() != 0 {
					t.Error("it left a watch behind: the journal cannot be closed yet")
				}
				if d := time.Since(asked); d != 0 {
					t.Errorf("it ended %s after it was asked to", d)
				}
			})
		})
	}
}

func TestFollowClosedEngine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := openBox(t, newMemory(), realClock)
		mustDo(t, e, openWork("w"))
		mustDo(t, e, claim("w", "s", time.Second))
		e.Close()
		pass(time.Minute)
		if err := e.Follow(context.Background()); !errors.Is(err, ErrClosed) {
			t.Errorf("error %v, want %v", err, ErrClosed)
		}
	})
}
