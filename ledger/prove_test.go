package ledger

import (
	"errors"
	"iter"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/mod/sumdb/tlog"

	"signalbox"
	"signalbox/internal/testkit/must"
)

// yield returns an iterator over hashes, as a journal would.
func yield(hashes []signalbox.Hash) iter.Seq2[signalbox.Hash, error] {
	return func(yield func(signalbox.Hash, error) bool) {
		for _, hash := range hashes {
			if !yield(hash, nil) {
				return
			}
		}
	}
}

func hashesOf(events []signalbox.Event) []signalbox.Hash {
	hashes := make([]signalbox.Hash, len(events))
	for i := range events {
		hashes[i] = events[i].Hash
	}
	return hashes
}

// checkpointAt is a checkpoint over the first size leaves.
func checkpointAt(leaves []signalbox.Hash, size int) Checkpoint {
	tree := treeOf(leaves[:size])
	return Checkpoint{testOrigin, uint64(size), tree.Root()}
}

func TestProveEveryEvent(t *testing.T) {
	private, public := testKey(t, 1, testOrigin)
	events, _ := makeLog(20)
	hashes := hashesOf(events)
	var stored storedTree
	for i, hash := range hashes {
		stored.add(t, i, hash)
	}
	for size := 1; size <= len(events); size++ {
		want := checkpointAt(hashes, size)
		checkpoint := signed(t, want, private)
		for i := range size {
			p, err := Prove(&events[i], checkpoint, public, yield(hashes))
			if err != nil {
				t.Fatalf("event %d of %d: %v", i+1, size, err)
			}
			path, err := tlog.ProveRecord(int64(size), int64(i), stored)
			must.Succeed(t, err)
			if diff := cmp.Diff(fromTlog(path), p.Hashes); diff != "" {
				t.Fatalf("event %d of %d (-tlog +got):\n%s", i+1, size, diff)
			}
			if got, err := p.Check(public); err != nil || got != want {
				t.Fatalf("event %d of %d: %+v, %v", i+1, size, got, err)
			}
		}
	}
}

func TestProveRefuses(t *testing.T) {
	private, public := testKey(t, 1, testOrigin)
	_, otherPublic := testKey(t, 2, testOrigin)
	events, _ := makeLog(20)
	hashes := hashesOf(events)
	checkpoint := signed(t, checkpointAt(hashes, 12), private)
	replaced := slices.Clone(hashes)
	replaced[7][0] ^= 1
	changed, invalid := events[4], events[4]
	changed.Actor = "eve"
	invalid.Work = "\xff"
	failed := errors.New("disk on fire")
	failing := func(yield func(signalbox.Hash, error) bool) { yield(signalbox.Hash{}, failed) }

	for _, tt := range []struct {
		name   string
		event  *signalbox.Event
		key    string
		hashes iter.Seq2[signalbox.Hash, error]
		code   signalbox.Code
	}{
		{"after the checkpoint", &events[12], public, yield(hashes), signalbox.CodeNotFound},
		{"no sequence", &signalbox.Event{Type: "T", Data: []byte("{}")}, public, yield(hashes),
			signalbox.CodeNotFound},
		{"other key", &events[4], otherPublic, yield(hashes), signalbox.CodeUnverified},
		{"changed event", &changed, public, yield(hashes), signalbox.CodeUnverified},
		{"replaced event", &events[4], public, yield(replaced), signalbox.CodeUnverified},
		{"short log", &events[4], public, yield(hashes[:11]), signalbox.CodeUnverified},
		{"not UTF-8", &invalid, public, yield(hashes), 0},
		{"failing read", &events[4], public, failing, 0},
	} {
		p, err := Prove(tt.event, checkpoint, tt.key, tt.hashes)
		if p != nil || err == nil || codeOf(err) != tt.code {
			t.Errorf("%s: %v (code %d), want code %d", tt.name, err, codeOf(err), tt.code)
		}
	}
	if _, err := Prove(&events[4], checkpoint, public, failing); !errors.Is(err, failed) {
		t.Errorf("the cause is lost: %v", err)
	}
}

func TestCheckRefuses(t *testing.T) {
	private, public := testKey(t, 1, testOrigin)
	_, otherPublic := testKey(t, 2, testOrigin)
	events, _ := makeLog(20)
	hashes := hashesOf(events)
	p, err := Prove(&events[4], signed(t, checkpointAt(hashes, 12), private), public, yield(hashes))
	must.Succeed(t, err)
	for name, change := range map[string]func(p *Proof){
		"data": func(p *Proof) { p.Event.Data = []byte("{}") },
		"data and hash": func(
			p *Proof) {
			p.Event.Data = []byte("{}")
			p.Event.Hash = Sum(&p.Event)
		},
		"hash":          func(p *Proof) { p.Event.Hash[0] ^= 1 },
		"other place":   func(p *Proof) { p.Event.Seq = 6; p.Event.Hash = Sum(&p.Event) },
		"other event":   func(p *Proof) { p.Event = events[5] },
		"beyond":        func(p *Proof) { p.Event = events[12] },
		"no sequence":   func(p *Proof) { p.Event.Seq = 0; p.Event.Hash = Sum(&p.Event) },
		"path":          func(p *Proof) { p.Hashes[1][0] ^= 1 },
		"shorter path":  func(p *Proof) { p.Hashes = p.Hashes[:len(p.Hashes)-1] },
		"longer path":   func(p *Proof) { p.Hashes = append(p.Hashes, signalbox.Hash{}) },
		"no checkpoint": func(p *Proof) { p.Checkpoint = nil },
		"next checkpoint": func(
			p *Proof) {
			p.Checkpoint = signed(t, checkpointAt(hashes, 13), private)
		},
	} {
		bad := *p
		bad.Hashes = slices.Clone(p.Hashes)
		change(&bad)
		if _, err := bad.Check(public); codeOf(err) != signalbox.CodeUnverified {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := p.Check(otherPublic); codeOf(err) != signalbox.CodeUnverified {
		t.Errorf("other key: %v", err)
	}
}

func TestConsistency(t *testing.T) {
	leaves := someLeaves(26)
	var stored storedTree
	for i, leaf := range leaves {
		stored.add(t, i, leaf)
	}
	for newer := range len(leaves) + 1 {
		for older := range newer + 1 {
			proof, err := ProveConsistency(uint64(older), uint64(newer), yield(leaves))
			if err != nil {
				t.Fatalf("%d in %d: %v", older, newer, err)
			}
			if older > 0 {
				want, err := tlog.ProveTree(int64(newer), int64(older), stored)
				if diff := cmp.Diff(fromTlog(want), proof); diff != "" || err != nil {
					t.Fatalf("%d in %d: %v (-tlog +got):\n%s", older, newer, err, diff)
				}
			}
			a, b := checkpointAt(leaves, older), checkpointAt(leaves, newer)
			if err := CheckConsistency(a, b, proof); err != nil {
				t.Fatalf("%d in %d: %v", older, newer, err)
			}
			a.Root[0] ^= 1
			if err := CheckConsistency(a, b, proof); codeOf(err) != signalbox.CodeUnverified {
				t.Fatalf("%d in %d: another older log: %v", older, newer, err)
			}
			if err := CheckConsistency(checkpointAt(leaves, older), b,
				append(proof, signalbox.Hash{})); codeOf(err) != signalbox.CodeUnverified {
				t.Fatalf("%d in %d: a hash too many: %v", older, newer, err)
			}
		}
	}
}

func TestConsistencyRefuses(t *testing.T) {
	leaves := someLeaves(40)
	proof, err := ProveConsistency(11, 37, yield(leaves))
	must.Succeed(t, err)
	older, newer := checkpointAt(leaves, 11), checkpointAt(leaves, 37)
	for i := range proof {
		bad := slices.Clone(proof)
		bad[i][9] ^= 4
		if err := CheckConsistency(older, newer, bad); codeOf(err) != signalbox.CodeUnverified {
			t.Errorf("hash %d changed: %v", i, err)
		}
	}
	foreign := newer
	foreign.Origin = "signalbox.example/other"
	rewritten := newer
	rewritten.Root[0] ^= 1
	for name, pair := range map[string][2]Checkpoint{
		"cut": {newer, older}, "other log": {older, foreign}, "rewritten": {older, rewritten},
		"too large":       {older, {testOrigin, math.MaxInt64, newer.Root}},
		"empty, not":      {checkpointAt(leaves, 0), {testOrigin, 0, newer.Root}},
		"empty with path": {checkpointAt(leaves, 0), newer},
	} {
		if err := CheckConsistency(pair[0], pair[1],
			proof); codeOf(err) != signalbox.CodeUnverified {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := CheckConsistency(checkpointAt(leaves, 0), Checkpoint{testOrigin, 0, newer.Root},
		nil); codeOf(err) != signalbox.CodeUnverified {
		t.Errorf("two roots for the empty log: %v", err)
	}
	if _, err := ProveConsistency(5, 4, yield(leaves)); err == nil {
		t.Error("proved that four events begin with five")
	}
	if _, err := ProveConsistency(5, 41, yield(leaves)); codeOf(err) != signalbox.CodeUnverified {
		t.Errorf("proved more than there is: %v", err)
	}
}

// The hash of an event outside the years 1 to 9999 is that of another time, so a proof of such an
// event shows nothing.
func TestCheckRefusesTimeOutOfRange(t *testing.T) {
	private, public := testKey(t, 1, "example.org/log")
	for _, year := range []int{0, 10000} {
		e := signalbox.Event{Seq: 1, Time: time.Date(year, 1, 1, 0, 0, 0, 0, time.UTC),
			Type: "WorkOpened", Data: []byte("{}")}
		e.Hash = Sum(&e)
		tree := treeOf([]signalbox.Hash{e.Hash})
		p := &Proof{Event: e, Checkpoint: signed(t, Checkpoint{"example.org/log", 1, tree.Root()},
			private)}
		if _, err := p.Check(public); codeOf(err) != signalbox.CodeUnverified {
			t.Errorf("year %d: %v", year, err)
		}
	}
}
