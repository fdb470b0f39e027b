package rules

import (
	"bytes"
	"errors"
	"testing"
	"time"

	"signalbox"
	"signalbox/internal/testkit/must"
)

// FuzzSnapshot: bytes that are taken for a snapshot are the snapshot of what they gave; others are
// refused.
func FuzzSnapshot(f *testing.F) {
	f.Add((&State{}).Snapshot())
	f.Add(newBox(f).s.Snapshot())
	whole := lived(f).s.Snapshot()
	f.Add(whole)
	f.Add(whole[:len(whole)/2])
	heard := lived(f)
	heard.do(turnOf("run-1", 1))
	f.Add(heard.s.Snapshot())
	f.Add([]byte{snapshotFormat, 1, 1, 1, 0, 0xff, 0xff, 0xff, 0xff, 0x0f})
	f.Add(append([]byte{snapshotFormat, 1, 1, 1, 0, 100}, make([]byte, 200)...))
	f.Fuzz(func(t *testing.T, data []byte) {
		s, err := FromSnapshot(data)
		if err != nil {
			if !errors.Is(err, ErrSnapshot) || s != nil {
				t.Errorf("%v, %v", s, err)
			}
			return
		}
		if !bytes.Equal(data, s.Snapshot()) {
			t.Errorf("read from %x\nwritten as %x", data, s.Snapshot())
		}
	})
}

// FuzzApply: an event of any form leaves the state as it was, or is folded into a state in which
// all is well.
func FuzzApply(f *testing.F) {
	b := lived(f)
	b.do(turnOf("run-1", 1))
	add := func(e *signalbox.Event) {
		f.Add(int64(e.Seq)-int64(b.s.Seq()), int64(e.Time.Sub(b.now)), e.Type, e.Work, e.Session,
			e.Actor, e.Data)
	}
	for _, e := range b.log {
		e.Seq, e.Time = b.s.Seq()+1, b.now
		add(&e)
	}
	for _, tt := range append(impossibleGrants(b), impossibleMoves(b)...) {
		add(tt.event)
	}
	add(b.completed(func(*completed) {}))
	add(b.granted("free", "C", "critic", b.now.Add(time.Hour)))
	add(b.event("held", "S", PhaseChanged{"IMPLEMENTATION", "CI_PENDING"}))
	add(b.event("blocked", "", PhaseChanged{"BLOCKED", "DRAFT"}))
	add(b.event("held", "S", LeaseReleased{4, "r"}))
	add(b.event("held", "S", LeaseRenewed{4, b.now.Add(time.Hour)}))
	add(b.late(b.event("held", "S", LeaseExpired{4})))
	add(b.event("", "", TurnSignalHeard{Run: "run-1", Turn: 2, Signal: "stuck", Confidence: 0.5}))
	add(b.event("", "", TurnSignalHeard{Run: "run-2", Turn: 9, Signal: "need_turn"}))
	start := b.s.Snapshot()
	f.Fuzz(func(t *testing.T, seq, after int64, eventType, work, session, actor string,
		data []byte) {
		s, err := FromSnapshot(start)
		must.Succeed(t, err)
		e := &signalbox.Event{Seq: s.Seq() + uint64(seq), Time: b.now.Add(time.Duration(after)),
			Type: eventType,
			Work: work, Session: session, Actor: actor, Data: data}
		index := s.indexes()
		s.Begin()
		err = s.Apply(e)
		if err != nil {
			if !errors.Is(err, ErrNewer) && !errors.Is(err, ErrHistory) {
				t.Errorf("the error is neither: %v", err)
			}
		} else if fault := brokenIndex(s, nil) + brokenSnapshot(s, nil); fault != "" ||
			s.Seq() != e.Seq {
			t.Errorf("accepted, and now at event %d: %s", s.Seq(), fault)
		} else {
			s.Rollback()
		}
		if !bytes.Equal(start, s.Snapshot()) || !index.equal(s.indexes()) {
			t.Errorf("the state is not what it was (error: %v)", err)
		}
	})
}
