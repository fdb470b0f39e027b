package fault

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"os"
	"path/filepath"
	"testing"

	"signalbox/internal/core/box"
	"signalbox/internal/core/journal"
	"signalbox/internal/core/rules"
)

// TestEditedCheckpointIsFound edits the box's own checkpoint, byte by byte.
func TestEditedCheckpointIsFound(t *testing.T) {
	random := newRand(t)
	original := newLedger(t)
	signed, err := os.ReadFile(original.file("checkpoint"))
	check(t, err)
	l, err := box.OpenLedger(t.Context(), original.box, original.options())
	check(t, err)
	defer l.Close()
	for i := range signed {
		edited := bytes.Clone(signed)
		edited[i] ^= byte(1 + random.IntN(255))
		report, err := l.Verify(t.Context(), box.VerifyOptions{Checkpoint: edited})
		if err != nil || report.OK || report.Reason == "" {
			t.Errorf("byte %d: %+v, error %v", i, report, err)
		}
	}

	signed[random.IntN(len(signed))] ^= 1
	for _, name := range []string{"checkpoint", "signer's own"} {
		t.Run(name, func(t *testing.T) {
			s := original.copy(t)
			file := s.file("checkpoint")
			if name != "checkpoint" {
				file = s.signedFile()
			}
			check(t, os.WriteFile(file, signed, 0o600))
			s.doesNotSignBeside(t, file)
		})
	}
}

// doesNotSignBeside checks that nothing is signed, and no checkpoint replaced, beside one that was edited.
func (s *site) doesNotSignBeside(t *testing.T, file string) {
	t.Helper()
	edited, err := os.ReadFile(file)
	check(t, err)
	s.verifyCommand(t, 5)
	// Commands do what they are told, and say that they could not sign.
	r := s.run(t, "work", "open", "more")
	if r.status != 0 {
		t.Errorf("work open: exit status %d\n%s", r.status, r.stderr)
	}
	if !bytes.HasPrefix([]byte(r.stderr), []byte("warning: what was done is recorded, but: ")) {
		t.Errorf("work open says %q", r.stderr)
	}
	if r := s.run(t, "ledger", "checkpoint"); r.status != 5 || r.stdout != "" {
		t.Errorf("ledger checkpoint: exit status %d, want 5\n%s%s", r.status, r.stdout, r.stderr)
	}
	if after, err := os.ReadFile(file); err != nil || !bytes.Equal(after, edited) {
		t.Error("the edited checkpoint was replaced")
	}
}

// TestEditedPublicKey edits the public key in the box. Where the private key is, it does not matter; elsewhere nothing verifies
// with it.
func TestEditedPublicKey(t *testing.T) {
	random := newRand(t)
	original := newLedger(t)
	key, err := os.ReadFile(original.file("key.pub"))
	check(t, err)
	other, err := os.ReadFile(newSite(t).file("key.pub"))
	check(t, err)
	edited := bytes.Clone(key)
	edited[random.IntN(len(key)-1)] ^= 1
	for name, text := range map[string][]byte{"edited": edited, "empty": nil, "cut off": key[:len(key)/2], "of another box": other} {
		t.Run(name, func(t *testing.T) {
			s := original.copy(t)
			check(t, os.WriteFile(s.file("key.pub"), text, 0o600))
			s.verifyCommand(t, 0)
			s.home = t.TempDir()
			s.verifyCommand(t, 5)
			s.verifyCommand(t, 0, "--key", original.publicKey)
		})
	}
}

// TestEditedTree edits the tree that the box keeps to sign faster. It is a cache: signing does without it.
func TestEditedTree(t *testing.T) {
	random := newRand(t)
	original := newLedger(t)
	tree, err := os.ReadFile(original.file("checkpoint.tree"))
	check(t, err)
	tree[random.IntN(len(tree))] ^= 1
	for name, text := range map[string][]byte{"edited": tree, "empty": nil} {
		t.Run(name, func(t *testing.T) {
			s := original.copy(t)
			check(t, os.WriteFile(s.file("checkpoint.tree"), text, 0o600))
			s.must(t, "work", "open", "more")
			if v := s.verifyCommand(t, 0); v.Checkpoint == nil || v.Checkpoint.Size != tamperEvents+1 {
				t.Errorf("verify says %s", printed(v))
			}
		})
	}
}

// snapshotFile is a snapshot as the journal keeps it: a magic text, the SHA-256 of the rest, sequence, hash and state.
func snapshotFile(s journal.Snapshot) []byte {
	rest := binary.BigEndian.AppendUint64(nil, s.Seq)
	rest = append(append(rest, s.Hash[:]...), s.State...)
	sum := sha256.Sum256(rest)
	return append(append([]byte("signalbox snapshot 1\n"), sum[:]...), rest...)
}

// snapshotOf is a snapshot of a box as the engine makes it: the length of the tree, the tree, the state.
func snapshotOf(t *testing.T, s *site) journal.Snapshot {
	t.Helper()
	b, err := box.Open(t.Context(), s.box, s.options())
	check(t, err)
	defer b.Close()
	tail := b.Engine.Tail()
	tree, err := tail.Tree.MarshalBinary()
	check(t, err)
	state := append(binary.AppendUvarint(nil, uint64(len(tree))), tree...)
	b.Engine.View(func(folded *rules.State) { state = append(state, folded.Snapshot()...) })
	return journal.Snapshot{Seq: tail.Seq, Hash: tail.Hash, State: state}
}

// TestEditedSnapshot edits the snapshot byte by byte. Its checksum shows it, and the box folds the ledger instead.
func TestEditedSnapshot(t *testing.T) {
	random := newRand(t)
	s := newLedger(t)
	want := s.must(t, "work", "list", "--json")
	right := snapshotOf(t, s)
	file := snapshotFile(right)
	check(t, os.WriteFile(s.file("snapshot"), file, 0o600))
	if got := s.must(t, "work", "list", "--json"); got != want {
		t.Errorf("from a snapshot the work is\n%s\nwant\n%s", got, want)
	}
	for range times(100, 3000) {
		edited := bytes.Clone(file)
		edited[random.IntN(len(edited))] ^= byte(1 + random.IntN(255))
		check(t, os.WriteFile(s.file("snapshot"), edited[:len(edited)-random.IntN(2)], 0o600))
		if got := snapshotOf(t, s); !bytes.Equal(got.State, right.State) {
			t.Error("beside an edited snapshot the fold is another")
		}
	}
	if got := s.must(t, "work", "list", "--json"); got != want {
		t.Errorf("beside an edited snapshot the work is\n%s\nwant\n%s", got, want)
	}
	s.verifyCommand(t, 0)
}

// TestPoisonedSnapshot puts a snapshot in place that is well formed, has the right checksum, and names the right event, but
// tells of a history that never was. Verify finds it; without it all is as it was.
func TestPoisonedSnapshot(t *testing.T) {
	s, other := newLedger(t), newSite(t)
	want := s.must(t, "work", "list", "--json")
	b := other.open(t)
	for b.Engine.Tail().Seq < tamperEvents {
		if _, err := b.Engine.Do(t.Context(), rules.OpenWork{Work: box.NewID("false"), Actor: "tester"}); err != nil {
			t.Fatal(err)
		}
	}
	right, poisoned := snapshotOf(t, s), snapshotOf(t, other)
	poisoned.Hash = right.Hash
	s.poison(t, poisoned)
	// The right tree before the wrong state: even what is signed looks right.
	poisoned.State = append(treeOf(right.State), poisoned.State[len(treeOf(poisoned.State)):]...)
	s.poison(t, poisoned)
	check(t, os.Remove(s.file("snapshot")))
	if got := s.must(t, "work", "list", "--json"); got != want {
		t.Errorf("without the snapshot the work is\n%s\nwant\n%s", got, want)
	}
	s.verifyCommand(t, 0)
}

// poison puts a snapshot in place, which must be found.
func (s *site) poison(t *testing.T, snapshot journal.Snapshot) {
	t.Helper()
	check(t, os.WriteFile(filepath.Join(s.box, "snapshot"), snapshotFile(snapshot), 0o600))
	if v := s.verifyCommand(t, 5); v.Reason == nil {
		t.Errorf("verify says %s", printed(v))
	}
	spoilt := s.copy(t)
	spoilt.run(t, "work", "list") // whatever it says, it does not crash
	spoilt.run(t, "work", "open", "more")
	spoilt.run(t, "work", "claim", "--next", "--role", "developer")
}

// treeOf returns the length of the tree and the tree, with which the state in a snapshot begins.
func treeOf(state []byte) []byte {
	length, size := binary.Uvarint(state)
	return state[:size+int(length)]
}
