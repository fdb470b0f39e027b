package rules

import (
	"testing"
	"time"

	"signalbox"
	"signalbox/internal/testkit/must"
)

// A slow clock does not make time run backwards, and extends no lease.
func TestClockBehindTheLog(t *testing.T) {
	b, epoch := heldBox(t, signalbox.PhaseImplementation)
	b.now = t0.Add(10 * time.Minute)
	b.open("late", signalbox.PhaseDraft)
	last := b.s.Time()

	b.now = t0.Add(-24 * time.Hour)
	answer := b.do(Renew{Work: "w", Session: "S", Epoch: epoch})
	if !answer.At.Equal(last) || !b.s.Time().Equal(last) ||
		!answer.Lease.Expires.Equal(last.Add(signalbox.DefaultLeaseTTL)) {
		t.Errorf("decided at %s, lease until %s; the last event was at %s", answer.At,
			answer.Lease.Expires, last)
	}

	b.now = t0.Add(25 * time.Minute)
	b.do(Expire{})
	if b.work("w").Lease != nil {
		t.Fatal("the lease lives beyond its end")
	}
	b.now = t0
	if d := b.try(Renew{Work: "w", Session: "S", Epoch: epoch}); refusedBy(d.Err) == nil ||
		refusedBy(d.Err).Reason != signalbox.ReasonStaleLease {
		t.Errorf("a clock behind brings the lease back: %+v, %v", d.Answer, d.Err)
	}
}

// An expiry is judged by the later of the clock and the log.
func TestExpiryByTheTimeOfTheLog(t *testing.T) {
	b, _ := heldBox(t, signalbox.PhaseImplementation)
	b.now = t0.Add(signalbox.DefaultLeaseTTL)
	b.open("other", signalbox.PhaseDraft)
	b.now = t0
	if d := b.try(Expire{}); len(d.Events) != 1 || d.Events[0].Type != TypeLeaseExpired {
		t.Errorf("%d events", len(d.Events))
	}
}

func TestTimesAreUTC(t *testing.T) {
	b := newBox(t)
	b.open("w", signalbox.PhaseImplementation)
	b.now = t0.Add(time.Minute).In(time.FixedZone("east", 7*3600))
	b.claim("w", "S")
	for _, got := range []time.Time{b.s.Time(), b.log[len(b.log)-1].Time, b.work("w").Lease.Expires,
		b.work("w").Tenures()[0].From} {
		if got.Location() != time.UTC {
			t.Errorf("%s is not in UTC", got)
		}
	}
}

// Time from the monotonic clock is not in any log.
func TestNoMonotonicTime(t *testing.T) {
	b := newBox(t)
	b.now = time.Now()
	b.open("w", signalbox.PhaseImplementation)
	if at := b.work("w").Opened; at != at.Round(0) {
		t.Errorf("opened at %s", at)
	}
}

func TestClockThatCannotBeRight(t *testing.T) {
	last := time.Unix(lastSecond, 0).UTC()
	for at, ok := range map[time.Time]bool{
		time.Unix(0, 0): true, time.Unix(0, -1): false, {}: false, last: false, last.Add(-1): true,
		time.Date(9999, 12, 31, 0, 0, 0, 0, time.UTC): false,
		time.Date(20000, 1, 1, 0, 0, 0, 0, time.UTC):  false,
	} {
		b := &box{t: t, s: &State{}, now: at}
		d := b.try(OpenBox{Box: "box-1", Actor: "op"})
		if ok != (d.Err == nil) || ok != (len(d.Events) == 1) {
			t.Errorf("at %s: %v", at, d.Err)
		}
		if !ok {
			wantRefused(t, d, refused{Code: signalbox.CodeFailed,
				Msg: "the system clock is wrong: " + at.UTC().Format(time.DateOnly) +
					" is not between 1970 and 2242"})
			continue
		}
		b.open("w", signalbox.PhaseImplementation)
		c := b.claimOf("w", "S")
		c.TTL = signalbox.MaxLeaseTTL
		b.do(c)
	}
	b := newBox(t)
	b.open("w", signalbox.PhaseImplementation)
	b.now = last
	wantRefused(t, b.try(b.claimOf("w", "S")),
		refused{Code: signalbox.CodeFailed,
			Msg: "the system clock is wrong: 2242-03-16 is not between 1970 and 2242"})
}

// A time that somebody wrote with an offset is the same instant, and the same state.
func TestTimesWithAnOffset(t *testing.T) {
	b := newBox(t)
	b.open("w", signalbox.PhaseImplementation)
	for _, e := range []struct{ eventType, data string }{
		{"LeaseGranted", `{"lease":"L","role":"developer","expires":"2026-03-01T10:10:00+01:00"}`},
		{"LeaseRenewed", `{"epoch":3,"expires":"2026-03-01T04:20:00-05:00"}`},
	} {
		event := &signalbox.Event{Seq: b.s.Seq() + 1, Time: t0, Type: e.eventType, Work: "w",
			Session: "S", Actor: "A", Data: []byte(e.data)}
		must.Succeed(t, b.s.Apply(event))
		b.log = append(b.log, *event)
		if fault := brokenInvariant(b.s, b.log); fault != "" {
			t.Error(fault)
		}
	}
	if got, want := b.work("w").Lease.Expires, t0.Add(20*time.Minute); got != want {
		t.Errorf("the lease expires at %s, want %s", got, want)
	}
}
