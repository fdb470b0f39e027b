package rules

import (
	"bytes"
	"crypto/sha1"
	"encoding/hex"
	"errors"
	"fmt"
	"reflect"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"signalbox"
)

// t0 is when every box of these tests is opened.
var t0 = time.Date(2026, 3, 1, 9, 0, 0, 0, time.UTC)

// failer is what testing.TB and rapid's T have in common.
type failer interface {
	Helper()
	Fatalf(format string, args ...any)
}

// box is a log and its fold. Whatever is done to it, it checks what must always hold.
type box struct {
	t   failer
	s   *State
	now time.Time
	log []signalbox.Event
}

// newBox returns a box that was opened at t0.
func newBox(t failer) *box {
	t.Helper()
	b := &box{t: t, s: &State{}, now: t0}
	b.do(OpenBox{Box: "box-1", Actor: "op"})
	return b
}

// try decides a command and applies what follows.
func (b *box) try(c Command) Decision {
	b.t.Helper()
	before := b.s.Snapshot()
	d := Decide(b.s, b.now, c)
	if !bytes.Equal(before, b.s.Snapshot()) {
		b.t.Fatalf("Decide(%#v) changed the state", c)
	}
	for i := range d.Events {
		d.Events[i].Seq = b.s.Seq() + 1
		if err := b.s.Apply(&d.Events[i]); err != nil {
			b.t.Fatalf("Apply does not accept what Decide(%#v) returned: %v", c, err)
		}
	}
	b.log = append(b.log, d.Events...)
	if fault := brokenInvariant(b.s, b.log); fault != "" {
		b.t.Fatalf("after %#v: %s", c, fault)
	}
	return d
}

// decide carries out a command that must not be refused.
func (b *box) decide(c Command) Decision {
	b.t.Helper()
	d := b.try(c)
	if d.Err != nil {
		b.t.Fatalf("%#v: %v", c, d.Err)
	}
	return d
}

// do is decide for those who need only the answer.
func (b *box) do(c Command) Answer {
	b.t.Helper()
	return b.decide(c).Answer
}

// refuses checks that a command is refused with a code and a hint.
func (b *box) refuses(c Command, code signalbox.Code) {
	b.t.Helper()
	wantRefusedAs(b.t, b.try(c), code)
}

// by returns a command of the session that was given work.
func by[C Command](a Answer, c C) C {
	v := reflect.ValueOf(&c).Elem()
	v.FieldByName("Session").SetString(a.Session)
	v.FieldByName("Epoch").SetUint(a.Lease.Epoch)
	return c
}

// orderOf is an order of the operator about a task, or about the run.
func orderOf(what OrderKind,
	work string) Order {
	return Order{What: what, Work: work, Actor: "op"}
}

// heldBox is a box with work w in a phase, which session S holds, and the epoch of its lease.
func heldBox(t failer, phase signalbox.Phase) (b *box, epoch uint64) {
	t.Helper()
	b = newBox(t)
	b.open("w", phase)
	return b, b.claim("w", "S")
}

func (b *box) work(id string) *Work {
	b.t.Helper()
	w, ok := b.s.Work(id)
	if !ok {
		b.t.Fatalf("there is no work %s", id)
	}
	return w
}

func (b *box) session(id string) *Session {
	b.t.Helper()
	s, ok := b.s.Session(id)
	if !ok {
		b.t.Fatalf("there is no session %s", id)
	}
	return s
}

// open adds work in a phase.
func (b *box) open(work string, phase signalbox.Phase) {
	b.t.Helper()
	b.do(OpenWork{Work: work, Phase: phase, Actor: "op"})
}

// claim claims work for a session, in the role that its phase asks for, and returns the epoch.
func (b *box) claim(work, session string) uint64 {
	b.t.Helper()
	return b.do(b.claimOf(work, session)).Lease.Epoch
}

func (b *box) claimOf(work, session string) Claim {
	b.t.Helper()
	role := b.work(work).Phase.ClaimableBy()
	return Claim{Work: work, Role: role, Session: session, Actor: "a-" + session, Lease: "L-" +
		session}
}

// exit is the signal that ends a phase.
func exit(phase signalbox.Phase, reason signalbox.ExitReason) signalbox.ExitSignal {
	return signalbox.ExitSignal{Protocol: signalbox.ExitProtocol, Version: "1.0.0",
		PhaseCompleted: phase, ExitReason: reason}
}

func withNotes(s signalbox.ExitSignal, notes string) signalbox.ExitSignal {
	s.Notes = &notes
	return s
}

// refused is how a command is refused.
type refused struct {
	Code   signalbox.Code
	Msg    string
	Reason signalbox.Reason
	NoHint bool
}

func refusedBy(err error) *refused {
	if err == nil {
		return nil
	}
	got := &refused{Msg: err.Error()}
	if classed := (*signalbox.Error)(nil); errors.As(err, &classed) {
		got.Code, got.NoHint = classed.Code, classed.Hint == ""
	}
	if said := (*RefusedError)(nil); errors.As(err, &said) {
		got.Reason = said.Reason
	}
	return got
}

// wantRefused checks that a decision refuses, how, and what it records: each event as "Type data".
func wantRefused(t testing.TB, d Decision, want refused, events ...string) {
	t.Helper()
	if diff := cmp.Diff(&want, refusedBy(d.Err)); diff != "" {
		t.Errorf("refused (-want +got):\n%s", diff)
	}
	wantEvents(t, d, events...)
}

func wantEvents(t testing.TB, d Decision, events ...string) {
	t.Helper()
	var got []string
	for _, e := range d.Events {
		got = append(got, fmt.Sprintf("%s %s", e.Type, e.Data))
	}
	if diff := cmp.Diff(events, got); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
}

func wantAnswer(t testing.TB, want, got Answer) {
	t.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("answer (-want +got):\n%s", diff)
	}
}

// sha returns the id of a commit, by a name that only the test uses.
func sha(name string) string {
	sum := sha1.Sum([]byte(name))
	return hex.EncodeToString(sum[:])
}
