package rules

import (
	"fmt"
	"testing"
	"time"

	"signalbox"
	"signalbox/internal/testkit/must"
)

// life is the commands of a full life of work: from DRAFT to COMPLETED.
func life(work string, session func(signalbox.Phase) string) []Command {
	commands := []Command{OpenWork{Work: work, Title: "a title of the usual length",
		Phase: signalbox.PhaseDraft, Actor: "op"}}
	for _, phase := range signalbox.Phases() {
		role := phase.ClaimableBy()
		if role == "" {
			continue
		}
		s := session(phase)
		commands = append(commands,
			Claim{Work: work, Role: role, Session: s, Actor: "actor-1", Lease: "L-" + work},
			Exit{Session: s, Signal: withNotes(exit(phase, signalbox.ExitCompleted),
				"done, tests pass")})
	}
	return commands
}

// carryOut decides commands and applies what follows.
func carryOut(tb testing.TB, s *State, now time.Time, commands []Command) []signalbox.Event {
	var log []signalbox.Event
	for _, c := range commands {
		d := Decide(s, now, c)
		if d.Err != nil {
			tb.Fatalf("%#v: %v", c, d.Err)
		}
		for i := range d.Events {
			d.Events[i].Seq = s.Seq() + 1
			must.Succeed(tb, s.Apply(&d.Events[i]))
		}
		log = append(log, d.Events...)
	}
	return log
}

// BenchmarkLife is a full life of work, decided and applied: 31 events.
func BenchmarkLife(b *testing.B) {
	s := &State{}
	carryOut(b, s, t0, []Command{OpenBox{Box: "box-1", Actor: "op"}})
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		work := fmt.Sprintf("w-%d", i)
		carryOut(b, s, t0, life(work,
			func(p signalbox.Phase) string { return work + "." + string(p) }))
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/31, "ns/event")
}

// BenchmarkFold is a start without a snapshot: events of many lives, applied.
func BenchmarkFold(b *testing.B) {
	s := &State{}
	log := carryOut(b, s, t0, []Command{OpenBox{Box: "box-1", Actor: "op"}})
	for i := range 1000 {
		work := fmt.Sprintf("w-%d", i)
		log = append(log, carryOut(b, s, t0,
			life(work, func(p signalbox.Phase) string { return work + "." + string(p) }))...)
	}
	b.ReportAllocs()
	for b.Loop() {
		s := &State{}
		for i := range log {
			must.Succeed(b, s.Apply(&log[i]))
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(len(log)), "ns/event")
}
