package engine

import (
	"bytes"
	"context"
	"encoding/binary"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"signalbox"
	"signalbox/internal/core/journal"
	"signalbox/internal/core/rules"
	"signalbox/internal/testkit/must"
)

// A start from a snapshot is a start without reading again what the snapshot has, and nothing else.
func TestStartFromSnapshot(t *testing.T) {
	m := newMemory()
	now := start
	opts := &Options{Now: func() time.Time { return now }}
	e := openBox(t, m, opts)
	r := &traffic{name: "s", pick: rand.New(rand.NewPCG(1, 2)).IntN}
	for e.Tail().Seq < 1500 {
		now = now.Add(50 * time.Millisecond)
		r.heard(e.Do(context.Background(), r.next()))
		if e.Tail().Seq%3 == 0 {
			something(t, e)
		}
	}
	e.Close()
	s, err := m.LoadSnapshot(context.Background())
	must.Succeed(t, err)
	readBefore := m.readOut
	quick := open(t, m, opts)
	if read, want := m.readOut-readBefore, 1+int(e.Tail().Seq-s.Seq); read != want {
		t.Errorf("%d events were read, want %d", read, want)
	}
	m.snapshot = nil
	slow := open(t, m, opts)
	checkLog(t, m, e, quick, slow)
	for range 200 {
		now = now.Add(50 * time.Millisecond)
		r.heard(quick.Do(context.Background(), r.next()))
	}
	checkLog(t, m, quick, slow)
}

// smallLog returns a log with something of everything, a snapshot of it, and one of all but its
// last event.
func smallLog(t *testing.T) (m *memory, now, before journal.Snapshot) {
	t.Helper()
	m = newMemory()
	e := openBox(t, m, nil)
	snapshot := func() journal.Snapshot {
		e.mu.Lock()
		defer e.mu.Unlock()
		return e.snapshot()
	}
	mustDo(t, e, openWork("w"))
	mustDo(t, e, claim("w", "s", 0))
	mustDo(t, e, exit("s"))
	mustDo(t, e, openWork("v"))
	mustDo(t, e, claim("v", "s", 0))
	mustRefuse(t, e, rules.Renew{Work: "w", Session: "s", Epoch: 3}, signalbox.CodeConflict)
	before = snapshot()
	redactSecret(t, e)
	return m, snapshot(), before
}

func TestUnusableSnapshots(t *testing.T) {
	m, good, before := smallLog(t)
	tree, state := parts(good)
	treeBefore, stateBefore := parts(before)
	otherVersion := bytes.Clone(state)
	otherVersion[0]++
	for name, spoil := range map[string]func(s *journal.Snapshot){
		"another log":      func(s *journal.Snapshot) { s.Hash[0]++ },
		"ahead of the log": func(s *journal.Snapshot) { s.Seq += 100 },
		"of nothing":       func(s *journal.Snapshot) { s.Seq = 0 },
		"of another event": func(s *journal.Snapshot) { s.State = before.State },
		"empty":            func(s *journal.Snapshot) { s.State = nil },
		"no length": func(
			s *journal.Snapshot) {
			s.State = bytes.Repeat([]byte{0xff}, 20)
		},
		"one byte too many":   func(s *journal.Snapshot) { s.State = join(tree, append(state, 0)) },
		"another version":     func(s *journal.Snapshot) { s.State = join(tree, otherVersion) },
		"no tree":             func(s *journal.Snapshot) { s.State = join(nil, state) },
		"tree of other size":  func(s *journal.Snapshot) { s.State = join(treeBefore, state) },
		"state of other size": func(s *journal.Snapshot) { s.State = join(tree, stateBefore) },
	} {
		t.Run(name, func(t *testing.T) {
			s := good
			spoil(&s)
			checkIgnored(t, m, s)
		})
	}
}

// However a snapshot was cut off or damaged, the log can be opened. That a damaged one is not used
// is for the journal, which has a checksum.
func TestDamagedSnapshot(t *testing.T) {
	m, good, _ := smallLog(t)
	for i := range good.State {
		m.snapshot = &journal.Snapshot{Seq: good.Seq, Hash: good.Hash,
			State: bytes.Clone(good.State)}
		m.snapshot.State[i] ^= 0xff
		open(t, m, nil)
		s := good
		s.State = s.State[:i]
		checkIgnored(t, m, s)
	}
}

func TestGoodSnapshotIsUsed(t *testing.T) {
	m, good, _ := smallLog(t)
	m.snapshot, m.readOut = &good, 0
	heard := &lines{}
	e := open(t, m, &Options{Now: stillClock, Log: heard.logger()})
	if m.readOut != 1 || heard.count("\n") != 0 {
		t.Errorf("%d events read, log %q; want 1 and nothing", m.readOut, heard.text.String())
	}
	checkLog(t, m, e)
}

// parts are what a snapshot is made of, and join makes one of them.
func parts(s journal.Snapshot) (tree, state []byte) {
	length, size := binary.Uvarint(s.State)
	return s.State[size:][:length:length], s.State[size:][length:]
}

func join(tree, state []byte) []byte {
	return slices.Concat(binary.AppendUvarint(nil, uint64(len(tree))), tree, state)
}

func checkIgnored(t *testing.T, m *memory, s journal.Snapshot) {
	t.Helper()
	heard := &lines{}
	m.snapshot, m.readOut = &s, 0
	e := open(t, m, &Options{Now: stillClock, Log: heard.logger()})
	if heard.count("reading all events") != 1 {
		t.Errorf("the log says %q, want that the log is folded from the start", heard.text.String())
	}
	if events, _ := m.stored(); m.readOut < len(events) {
		t.Errorf("%d of %d events were read", m.readOut, len(events))
	}
	checkLog(t, m, e)
}
