package rules

import (
	"math"
	"testing"

	"github.com/google/go-cmp/cmp"

	"signalbox"
)

// Once for each session, reason and thing said, and again when it has been said ten times as often.
func TestRefusalsAreRecordedSparsely(t *testing.T) {
	b, _ := heldBox(t, signalbox.PhaseImplementation)
	b.claim(openAnother(b), "S2")
	wrong := exit(signalbox.PhaseReview, signalbox.ExitCompleted)
	last := uint64(0)
	for _, step := range []struct {
		session string
		times   int
		count   int // recorded, 0 for nothing
	}{
		{"S", 0, 1}, {"S", 1, 0}, {"S", 2, 0}, {"S", 9, 0}, {"S", 10, 10}, {"S", 11, 0},
		{"S", 10, 0}, {"S", 1, 0}, {"S", 99, 0},
		{"S", 100, 100}, {"S2", 7, 7}, {"S2", 69, 0}, {"S2", 70, 70}, {"S", 5000, 5000},
		{"S", 50000, 50000},
	} {
		d := b.try(Exit{Session: step.session, Signal: wrong, Times: step.times})
		got := 0
		for _, e := range d.Events {
			got = mustDecode(&e).(SignalRefused).Count
			if step.session == "S" {
				last = e.Seq
			}
		}
		if got != step.count || len(d.Events) > 1 {
			t.Errorf("%s, %d times: recorded with count %d, want %d", step.session, step.times, got,
				step.count)
		}
		if step.session == "S" && d.Answer.Seq != last {
			t.Errorf("%s, %d times: answered with event %d, want %d", step.session, step.times,
				d.Answer.Seq, last)
		}
		if refusedBy(d.Err) == nil || refusedBy(d.Err).Reason != signalbox.ReasonPhaseMismatch {
			t.Errorf("%s, %d times: %v", step.session, step.times, d.Err)
		}
	}
	if diff := cmp.Diff([]RefusalRecord{{"phase_mismatch", "agent_exit", last, 50000}},
		b.session("S").Refused); diff != "" {
		t.Errorf("refused (-want +got):\n%s", diff)
	}
}

func openAnother(b *box) string {
	b.open("another", signalbox.PhaseImplementation)
	return "another"
}

// An absurd count is recorded once and not forever.
func TestAbsurdCount(t *testing.T) {
	b, _ := heldBox(t, signalbox.PhaseImplementation)
	wrong := Exit{Session: "S", Signal: exit(signalbox.PhaseReview, signalbox.ExitCompleted),
		Times: math.MaxInt}
	for _, want := range []int{1, 0, 0} {
		if got := len(b.try(wrong).Events); got != want {
			t.Errorf("%d events, want %d", got, want)
		}
	}
	wrong.Times = -5
	if got := len(b.try(wrong).Events); got != 0 {
		t.Errorf("a negative count: %d events", got)
	}
}

func TestRefusalNamesTheBlob(t *testing.T) {
	b, _ := heldBox(t, signalbox.PhaseImplementation)
	blob := signalbox.Hash{31: 1}
	d := b.try(Exit{Session: "S", Signal: exit(signalbox.PhaseReview, signalbox.ExitCompleted),
		Blob: blob})
	if got := mustDecode(&d.Events[0]).(SignalRefused).Blob; got != blob {
		t.Errorf("recorded with blob %s", got)
	}
	if e := d.Events[0]; e.Work != "w" || e.Session != "S" || e.Actor != "a-S" {
		t.Errorf("recorded of work %q, session %q, actor %q", e.Work, e.Session, e.Actor)
	}
}
