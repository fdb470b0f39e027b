package rules

import (
	"errors"
	"strings"
	"testing"
	"time"

	"signalbox"
	"signalbox/internal/testkit/must"
)

func TestRepairLedger(t *testing.T) {
	b := newBox(t)
	wantEvents(t, b.try(RepairLedger{First: 2, Last: 3, Fault: "event 2 was changed",
		Kept: signalbox.Hash{7}, Host: "desk", Actor: "op"}),
		`LedgerRepaired {"first":2,"last":3,"fault":"event 2 was changed","kept":"07`+
			strings.Repeat("0", 62)+`","host":"desk"}`)
	for _, c := range []Command{RepairLedger{First: 2, Last: 3, Actor: "op"},
		RepairLedger{First: 2, Last: 3, Fault: "x"}} {
		if d := b.try(c); signalbox.CodeOf(d.Err) != signalbox.CodeUsage || len(d.Events) > 0 {
			t.Errorf("%#v: error %v", c, d.Err)
		}
	}
	for _, body := range []LedgerRepaired{{First: 0, Last: 1}, {First: 2, Last: 1}} {
		if err := b.s.Apply(b.event("", "", body)); !errors.Is(err, ErrHistory) {
			t.Errorf("%+v: error %v", body, err)
		}
	}
}

// A clock that was years ahead keeps nothing from expiring, once the time is set back. What began
// before keeps its end.
func TestCorrectClock(t *testing.T) {
	const ahead = 87600 * time.Hour
	b := newBox(t)
	for _, work := range []string{"before", "ahead"} {
		b.open(work, signalbox.PhaseImplementation)
	}
	long := b.claimOf("before", "S1")
	long.TTL = 20 * time.Minute
	before := b.do(long).Lease.Expires
	b.now = t0.Add(ahead)
	epoch := b.claim("ahead", "S2")
	b.now = t0.Add(ahead + 5*time.Minute)
	b.open("last", signalbox.PhaseDraft)

	b.now = t0.Add(10 * time.Minute)
	wantEvents(t, b.try(CorrectClock{To: b.now, Reason: "no time service", Actor: "op"}),
		`ClockCorrected {"to":"2026-03-01T09:10:00Z","reason":"no time service"}`)
	if got := b.log[len(b.log)-1].Time; !got.Equal(t0.Add(ahead + 5*time.Minute)) {
		t.Errorf("the event has the time %s", got)
	}
	if !b.s.Time().Equal(b.now) {
		t.Errorf("the time is %s", b.s.Time())
	}
	// ten of fifteen minutes are left
	if got := b.work("ahead").Lease.Expires; !got.Equal(b.now.Add(10 * time.Minute)) {
		t.Errorf("the lease ends at %s", got)
	}
	if from := b.work("ahead").Present.From; !from.Equal(b.now.Add(-5 * time.Minute)) {
		t.Errorf("the lease began at %s", from)
	}
	if b.work("before").Lease != nil {
		if got := b.work("before").Lease.Expires; !got.Equal(before) {
			t.Errorf("the earlier lease ends at %s, want %s", got, before)
		}
	}
	b.now = b.now.Add(time.Minute)
	b.do(Renew{Work: "ahead", Session: "S2", Epoch: epoch})
	b.now = b.now.Add(15 * time.Minute)
	b.do(Expire{})
	if b.work("ahead").Lease != nil || b.work("before").Lease != nil {
		t.Error("a lease does not end")
	}
}

// Rate limits, pauses, token windows, parked sessions and progress count from the right time too.
func TestCorrectClockOfDeadlines(t *testing.T) {
	now, ahead := t0.Add(time.Hour), t0.Add(10000*time.Hour)
	s := newBox(t).s
	work := &AgentAtWork{Progress: &Progress{At: ahead}, Parked: &Park{Until: ahead.Add(time.Hour)}}
	s.works = []*Work{{ID: "w", Lease: &signalbox.Lease{Epoch: 1, Expires: ahead.Add(time.Minute)},
		Present: &Tenure{From: ahead}, Task: &Task{AgentAtWork: *work}}}
	s.workIndex = map[string]int{"w": 0}
	s.run.Limited = []RoleLimit{{signalbox.RoleDeveloper, ahead.Add(time.Hour)},
		{signalbox.RoleCritic, now.Add(time.Minute)}}
	s.run.Agents = []AgentState{{Agent: "a", Limited: ahead.Add(time.Hour),
		Until: ahead.Add(time.Hour), Roles: []AgentCrashes{{Until: ahead.Add(time.Hour)}}},
		{Agent: "b"}}
	s.run.Window = &WindowUse{Start: ahead, Tokens: 7}
	s.Begin()
	s.setBack(ahead, now)
	w, a, later := s.works[0], s.run.Agents[0], now.Add(time.Hour)
	for name, at := range map[string][2]time.Time{
		"lease": {w.Lease.Expires, now.Add(time.Minute)}, "begin": {w.Present.From, now},
		"progress": {w.Task.Progress.At, now}, "parked": {w.Task.Parked.Until, later},
		"role":                    {s.run.Limited[0].Until, later},
		"role with a right limit": {s.run.Limited[1].Until, now.Add(time.Minute)},
		"agent":                   {a.Limited, later}, "pause": {a.Until, later},
		"crashes": {a.Roles[0].Until, later}, "window": {s.run.Window.Start, now},
		"nothing": {s.run.Agents[1].Until, time.Time{}}, "time": {s.time, now},
	} {
		if !at[0].Equal(at[1]) {
			t.Errorf("%s: %s, want %s", name, at[0], at[1])
		}
	}
	s.Rollback()
	if w := s.works[0]; !w.Lease.Expires.Equal(ahead.Add(time.Minute)) ||
		!w.Task.Progress.At.Equal(ahead) ||
		!s.run.Agents[0].Roles[0].Until.Equal(ahead.Add(time.Hour)) {
		t.Error("it cannot be undone")
	}
}

func TestCorrectClockRefuses(t *testing.T) {
	b := newBox(t)
	b.now = t0.Add(time.Hour)
	for _, c := range []CorrectClock{{To: t0, Reason: "x", Actor: "op"},
		{To: b.now, Reason: "x", Actor: "op"}, {To: t0.Add(-1), Actor: "op"},
		{To: t0.Add(-1), Reason: "x"}} {
		if d := b.try(c); d.Err == nil || len(d.Events) > 0 {
			t.Errorf("%+v: %v", c, d.Err)
		}
	}
	for _, e := range []struct {
		at time.Time
		to time.Time
	}{{t0, t0}, {t0, t0.Add(1)}, {t0.Add(1), t0}, {t0, time.Unix(-1, 0)}} {
		event := b.event("", "", ClockCorrected{To: e.to, Reason: "x"})
		event.Time = e.at
		if err := b.s.Apply(event); !errors.Is(err, ErrHistory) {
			t.Errorf("%+v: %v", e, err)
		}
	}
	event := b.event("", "", ClockCorrected{To: t0.Add(-time.Hour), Reason: "x"})
	event.Time = t0
	must.Succeed(t, b.s.Apply(event))
	early := b.event("w", "", WorkOpened{})
	early.Time = t0.Add(-time.Hour - 1)
	if err := b.s.Apply(early); !errors.Is(err, ErrHistory) {
		t.Errorf("an event before the right time: %v", err)
	}
}
