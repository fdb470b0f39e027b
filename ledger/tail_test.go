package ledger

import (
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"signalbox"
	"signalbox/internal/testkit/must"
)

func TestSealThenExtend(t *testing.T) {
	events, sealed := makeLog(50)
	var read Tail
	for _, e := range events {
		e.Time = e.Time.In(time.FixedZone("east", 3600)) // as a reader may return it
		must.Succeed(t, read.Extend(&e))
	}
	if read != sealed {
		t.Errorf("Seal ended at %+v, Extend at %+v", sealed, read)
	}
	if last := events[49]; read.Seq != 50 || read.Hash != last.Hash ||
		!read.Time.Equal(last.Time) || read.Tree.Size() != 50 {
		t.Errorf("tail %d %v %v", read.Seq, read.Time, read.Hash)
	}
	if events[0].Prev != (signalbox.Hash{}) || events[1].Prev != events[0].Hash {
		t.Error("the events are not chained")
	}
}

func TestSealInPieces(t *testing.T) {
	whole, want := makeLog(20)
	pieces := make([]signalbox.Event, 20)
	for i, e := range whole {
		pieces[i] = signalbox.Event{Time: e.Time, Type: e.Type, Work: e.Work, Session: e.Session,
			Actor: e.Actor, Data: e.Data}
	}
	var tail Tail
	tail.Seal(pieces[:7])
	speculative := tail
	speculative.Seal(make([]signalbox.Event, 3))
	tail.Seal(nil)
	tail.Seal(pieces[7:])
	if tail != want {
		t.Error("pieces give another tail")
	}
	if diff := cmp.Diff(whole, pieces); diff != "" {
		t.Errorf("pieces give other events (-whole +pieces):\n%s", diff)
	}
}

func TestSealKeepsTimeInOrder(t *testing.T) {
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.FixedZone("east", 3600))
	now := time.Now()
	events := []signalbox.Event{{Time: time.Time{}.Add(-time.Hour)}, {Time: at},
		{Time: at.Add(-time.Second)}, {Time: now}}
	var tail, read Tail
	tail.Seal(events)
	want := []time.Time{{}, at.UTC(), at.UTC(), now.Round(0).UTC()}
	for i := range events {
		// Not Equal: neither the location nor a monotonic part may be left.
		if events[i].Time != want[i] {
			t.Errorf("event %d has time %v, want %v", i+1, events[i].Time, want[i])
		}
		if err := read.Extend(&events[i]); err != nil {
			t.Error(err)
		}
	}
}

// After ClockCorrected, and only there, an event may be earlier than the one before it.
func TestClockCorrected(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	ahead := now.AddDate(10, 0, 0)
	events := []signalbox.Event{{Time: ahead}, {Time: now, Type: signalbox.TypeClockCorrected},
		{Time: now}, {Time: now.Add(-1)}}
	var tail, read Tail
	tail.Seal(events)
	for i, want := range []time.Time{ahead, ahead, now, now} {
		if events[i].Time != want {
			t.Errorf("event %d has time %v, want %v", i+1, events[i].Time, want)
		}
		must.Succeed(t, read.Extend(&events[i]))
	}
	if read != tail {
		t.Errorf("Seal ended at %+v, Extend at %+v", tail, read)
	}
	for _, chunk := range []int{1, 2, 4} {
		if r := verify(t, events, 4, &VerifyOptions{Chunk: chunk}); !r.OK {
			t.Errorf("in chunks of %d: %s", chunk, r.Reason)
		}
	}
	read = Tail{}
	must.Succeed(t, read.Extend(&events[0]))
	forged := events[1]
	forged.Time = now
	forged.Hash = Sum(&forged)
	if read.Extend(&forged) == nil {
		t.Error("ClockCorrected itself may be earlier")
	}
}

func TestExtendRefuses(t *testing.T) {
	events, _ := makeLog(3)
	for _, tt := range []struct {
		name   string
		change func(e *signalbox.Event)
		reason string
	}{
		{"gap", func(e *signalbox.Event) { e.Seq++ }, "is missing: event 4 is in its place"},
		{"again", func(e *signalbox.Event) { *e = events[1] },
			"is missing: event 2 is in its place"},
		{"earlier", func(e *signalbox.Event) { e.Time = events[1].Time.Add(-1); e.Hash = Sum(e) },
			"has time 2026-02-28T00:00:00.234567889Z, which is before that of event 2, 2026-02-28T00:00:00.234567890Z"},
		{"year 10000", func(
			e *signalbox.Event) {
			e.Time = time.Unix(lastSecond+1, 0)
			e.Hash = Sum(e)
		},
			"has a time outside the years 1 to 9999"},
		{"year 0", func(e *signalbox.Event) { e.Time = time.Unix(firstSecond-1, 0); e.Hash = Sum(e) }, "has a time outside the years 1 to 9999"},
		{"prev", func(e *signalbox.Event) { e.Prev = events[0].Hash; e.Hash = Sum(e) },
			"does not continue the log: its prev is not the hash of the previous event"},
		{"hash", func(e *signalbox.Event) { e.Hash[31] ^= 1 },
			"was changed: its hash is not that of its content"},
		{"type", func(e *signalbox.Event) { e.Type += "x" },
			"was changed: its hash is not that of its content"},
		{"time", func(e *signalbox.Event) { e.Time = e.Time.Add(1) },
			"was changed: its hash is not that of its content"},
	} {
		var tail Tail
		for i := range 2 {
			must.Succeed(t, tail.Extend(&events[i]))
		}
		before, e := tail, events[2]
		tt.change(&e)
		err := tail.Extend(&e)
		bad := (*BadEventError)(nil)
		if !errors.As(err, &bad) || *bad != (BadEventError{3, tt.reason}) {
			t.Errorf("%s: %v, want event 3 %s", tt.name, err, tt.reason)
		}
		if tail != before {
			t.Errorf("%s: the tail has moved", tt.name)
		}
	}
}

func TestExtendDoesNotAllocate(t *testing.T) {
	events, _ := makeLog(100)
	allocs := testing.AllocsPerRun(5, func() {
		var tail Tail
		for i := range events {
			must.Succeed(t, tail.Extend(&events[i]))
		}
	})
	if allocs > 1 { // the tail itself, which is 2 KB
		t.Errorf("%v allocations for 100 events", allocs)
	}
}

func TestValidate(t *testing.T) {
	good := signalbox.Event{Time: time.Unix(0, 0), Type: "T", Data: []byte("{}")}
	for _, tt := range []struct {
		change func(e *signalbox.Event)
		want   string
	}{
		{func(*signalbox.Event) {}, ""},
		{func(e *signalbox.Event) { e.Data = []byte(" \t\r\n{ \"a\" : [] } ") }, ""},
		{func(e *signalbox.Event) { e.Work, e.Session, e.Actor = "ä", "語", "\x00" }, ""},
		{func(e *signalbox.Event) { e.Time = time.Unix(lastSecond+1, 0) },
			"time is outside the years 1 to 9999"},
		{func(e *signalbox.Event) { e.Time = time.Unix(firstSecond-1, 0) },
			"time is outside the years 1 to 9999"},
		{func(e *signalbox.Event) { e.Type = "" }, "type must not be empty"},
		{func(e *signalbox.Event) { e.Type = "\xff" }, "type is not valid UTF-8"},
		{func(e *signalbox.Event) { e.Work = "\xff" }, "work is not valid UTF-8"},
		{func(e *signalbox.Event) { e.Session = "\xff" }, "session is not valid UTF-8"},
		{func(e *signalbox.Event) { e.Actor = "\xff" }, "actor is not valid UTF-8"},
		{func(e *signalbox.Event) { e.Data = nil }, "data is not a JSON object in valid UTF-8"},
		{func(e *signalbox.Event) { e.Data = []byte(" ") },
			"data is not a JSON object in valid UTF-8"},
		{func(e *signalbox.Event) { e.Data = []byte("[]") },
			"data is not a JSON object in valid UTF-8"},
		{func(e *signalbox.Event) { e.Data = []byte("{} {}") },
			"data is not a JSON object in valid UTF-8"},
		{func(e *signalbox.Event) { e.Data = []byte("{\"a\":\"\xff\"}") },
			"data is not a JSON object in valid UTF-8"},
	} {
		e := good
		tt.change(&e)
		var got string
		if err := Validate(&e); err != nil {
			got = err.Error()
		}
		if got != tt.want {
			t.Errorf("%+v: %q, want %q", e, got, tt.want)
		}
	}
}
