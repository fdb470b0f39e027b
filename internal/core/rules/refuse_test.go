package rules

import (
	"fmt"
	"math"
	"testing"

	"github.com/google/go-cmp/cmp"

	"signalbox"
)

// Once for each session, reason and thing said, and again when it has been said ten times as often.
func TestRefusalsAreRecordedSparsely(t *testing.T) {
	b := newBox(t)
	b.open("w", signalbox.PhaseImplementation)
	b.claim("w", "S")
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

// Each reason has its own count, and each thing said.
func TestRefusalsByReason(t *testing.T) {
	b := newBox(t)
	b.open("w", signalbox.PhaseImplementation)
	epoch := b.claim("w", "S")
	recorded := func(c Command) int { return len(b.try(c).Events) }
	mismatch := Exit{Session: "S", Signal: exit(signalbox.PhaseReview, signalbox.ExitCompleted)}
	malformed := Exit{Session: "S", Fault: "invalid JSON"}
	for i, want := range []int{1, 0} {
		if got := recorded(mismatch); got != want {
			t.Errorf("round %d: a mismatch is recorded %d times, want %d", i, got, want)
		}
		if got := recorded(malformed); got != want {
			t.Errorf("round %d: a malformed signal is recorded %d times, want %d", i, got, want)
		}
	}
	b.do(Release{Work: "w", Session: "S", Epoch: epoch})
	for _, c := range []Command{
		Renew{Work: "w", Session: "S", Epoch: epoch},
		Release{Work: "w", Session: "S", Epoch: 99},
		Exit{Session: "S", Epoch: 99, Signal: mismatch.Signal},
	} {
		for i, want := range []int{1, 0} {
			if got := recorded(c); got != want {
				t.Errorf("round %d: %#v is recorded %d times, want %d", i, c, got, want)
			}
		}
	}
	var reasons []signalbox.Reason
	for _, r := range b.session("S").Refused {
		reasons = append(reasons, r.Reason)
	}
	if diff := cmp.Diff([]signalbox.Reason{"phase_mismatch", "malformed", "stale_lease",
		"stale_lease", "stale_lease"}, reasons); diff != "" {
		t.Errorf("reasons (-want +got):\n%s", diff)
	}
}

// An absurd count is recorded once and not forever.
func TestAbsurdCount(t *testing.T) {
	b := newBox(t)
	b.open("w", signalbox.PhaseImplementation)
	b.claim("w", "S")
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
	b := newBox(t)
	b.open("w", signalbox.PhaseImplementation)
	b.claim("w", "S")
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

// A refused command moves no phase and takes no lease.
func TestRefusalsMoveNothing(t *testing.T) {
	for _, phase := range inOrder[:len(inOrder)-1] {
		b := newBox(t)
		b.open("w", phase)
		epoch := b.claim("w", "S")
		b.claim(openAnother(b), "S2")
		before := b.work("w")
		for _, c := range []Command{
			Exit{Session: "S2", Epoch: epoch, Signal: exit(phase, signalbox.ExitCompleted)},
			Exit{Session: "S", Epoch: epoch + 100, Signal: exit(phase, signalbox.ExitCompleted)},
			Exit{Session: "S", Epoch: epoch,
				Signal: exit(signalbox.PhaseCompleted, signalbox.ExitCompleted)},
			Exit{Session: "S", Epoch: epoch, Fault: "invalid JSON"},
			Renew{Work: "w", Session: "S2", Epoch: epoch},
			Release{Work: "w", Session: "S2", Epoch: epoch},
			Claim{Work: "w", Role: phase.ClaimableBy(), Session: "S3", Actor: "A", Lease: "L"},
			Unblock{Work: "w", Note: "fixed", Actor: "op"},
			OpenWork{Work: "w", Actor: "op"},
		} {
			if d := b.try(c); d.Err == nil {
				t.Errorf("%s: %#v is not refused", phase, c)
			}
			if b.work("w") != before {
				t.Fatalf("%s: %#v changed the work: %s", phase, c, fmt.Sprintf("%+v", b.work("w")))
			}
		}
	}
}
