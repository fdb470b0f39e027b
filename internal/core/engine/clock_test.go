package engine

import (
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"signalbox"
	"signalbox/internal/core/journal"
	"signalbox/internal/core/rules"
)

// hands is a clock, and beside it the time that really passed.
type hands struct {
	now     time.Time
	elapsed time.Duration
}

func (h *hands) pass(d time.Duration) { h.now, h.elapsed = h.now.Add(d), h.elapsed+d }
func (h *hands) jump(d time.Duration) { h.now = h.now.Add(d) }
func (h *hands) options() *Options {
	return &Options{Now: func() time.Time { return h.now },
		Elapsed: func() time.Duration { return h.elapsed }}
}

func TestClockJumps(t *testing.T) {
	for _, tt := range []struct {
		name string
		jump time.Duration
		fine bool
	}{
		{"not at all", 0, true},
		{"a little forward", 5 * time.Second, true},
		{"a little back", -5 * time.Second, true},
		{"forward", 5*time.Second + 1, false},
		{"back", -5*time.Second - 1, false},
		{"a day forward", 24 * time.Hour, false},
		{"a day back", -24 * time.Hour, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			m, h := newMemory(), &hands{now: start}
			e := openBox(t, m, h.options())
			h.pass(time.Hour)
			h.jump(tt.jump)
			if tt.fine {
				mustDo(t, e, openWork("w"))
				return
			}
			for range 3 { // it does not get used to it
				h.pass(time.Minute)
				mustFail(t, e, openWork("w"), journal.ErrClockSkew)
				mustRefuse(t, e, rules.Expire{}, signalbox.CodeFailed)
			}
			checkTypes(t, m, 0, "BoxOpened")
			h.jump(-tt.jump)
			mustDo(t, e, openWork("w"))
			checkLog(t, m, e)
		})
	}
}

func TestClockSkewSaysHowFar(t *testing.T) {
	h := &hands{now: start}
	e := openBox(t, newMemory(), h.options())
	h.jump(-90 * time.Minute)
	_, err := e.Do(t.Context(), openWork("w"))
	skew := (*signalbox.Error)(nil)
	if !errors.As(err, &skew) ||
		!strings.Contains(err.Error(), "clock_skew: the clock jumped by -1h30m0s") ||
		skew.Hint == "" {
		t.Errorf("error %v, want one with clock_skew, -1h30m0s and a hint", err)
	}
}

// Small corrections by a time service are not a jump, however many there are.
func TestSmallCorrectionsDoNotAddUp(t *testing.T) {
	for _, drift := range []time.Duration{4 * time.Second, -4 * time.Second} {
		m, h := newMemory(), &hands{now: start}
		e := openBox(t, m, h.options())
		mustDo(t, e, openWork("w"))
		for range 100 {
			h.pass(time.Minute)
			h.jump(drift)
			mustRefuse(t, e, openWork("w"), signalbox.CodeConflict)
		}
		checkLog(t, m, e)
	}
}

// A machine that slept for a night wakes to a clock that jumped, and to a count of time that did
// too.
func TestSuspendIsNotAJump(t *testing.T) {
	m, h := newMemory(), &hands{now: start}
	e := openBox(t, m, h.options())
	mustDo(t, e, openWork("w"))
	mustDo(t, e, claim("w", "s", time.Hour))
	h.pass(8 * time.Hour)
	mustDo(t, e, claim("w", "t", time.Hour))
	checkTypes(t, m, 3, "LeaseExpired", "LeaseGranted")
}

// A clock that a test or a caller gives, and nothing to compare it with, is believed.
func TestTrustedClock(t *testing.T) {
	m, h := newMemory(), &hands{now: start}
	opts := h.options()
	opts.Elapsed = nil
	e := openBox(t, m, opts)
	h.jump(48 * time.Hour)
	mustDo(t, e, openWork("w"))
	h.jump(-72 * time.Hour)
	at := mustDo(t, e, openWork("v")).At
	if last := start.Add(48 * time.Hour); !at.After(last) || at.Sub(last) > maxApart {
		t.Errorf("the event is of %s, want just after %s: time in the log never runs backwards", at,
			last)
	}
	checkLog(t, m, e)
}

// The system's clock is compared with the system's count of time.
func TestSystemClock(t *testing.T) {
	m := newMemory()
	e := openBox(t, m, &Options{})
	mustDo(t, e, openWork("w"))
	if e.clock.elapsed == nil {
		t.Fatal("the system's clock is believed whatever it says")
	}
	e.mu.Lock()
	e.clock.lastNow = e.clock.lastNow.Add(-time.Hour)
	e.mu.Unlock()
	mustFail(t, e, openWork("v"), journal.ErrClockSkew)
	a, b := sinceBoot(), sinceBoot()
	if a <= 0 || b < a {
		t.Errorf("time since boot went from %s to %s", a, b)
	}
}

// While the clock is not to be believed nothing expires; when it is right again, what is due does.
func TestWrongClockExpiresNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, heard := newMemory(), &lines{}
		begin := time.Now()
		var jump atomic.Int64
		e := openBox(t, m, &Options{
			Now:     func() time.Time { return time.Now().Add(time.Duration(jump.Load())) },
			Elapsed: func() time.Duration { return time.Since(begin) },
			Log:     heard.logger(),
		})
		mustDo(t, e, openWork("w"))
		mustDo(t, e, claim("w", "s", time.Minute))
		jump.Store(int64(time.Hour))
		follow(t, e)
		pass(10 * time.Second)
		checkExpiries(t, m, begin)
		if n := heard.count("clock_skew"); n != 11 {
			t.Errorf("%d log lines in 10 s, want one a second", n)
		}
		jump.Store(0)
		pass(49 * time.Second)
		checkExpiries(t, m, begin)
		pass(time.Second)
		checkExpiries(t, m, begin, "w 1m0s")
	})
}
