package fault

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"os"
	"strings"
	"testing"

	"signalbox/internal/core/box"
	"signalbox/internal/core/journal"
	"signalbox/internal/core/rules"
)

// TestEditedCheckpointIsFound edits each byte of the box's own checkpoint.
func TestEditedCheckpointIsFound(t *testing.T) {
	t.Parallel()
	random := newRand(t)
	original := newLedger(t)
	signed, err := os.ReadFile(original.file("checkpoint"))
	check(t, err)
	l := original.openLedger(t)
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
			s.checkDoesNotSign(t, file)
		})
	}
}

// checkDoesNotSign checks that, after a checkpoint was edited, nothing is signed and the edited
// file is not replaced.
func (s *site) checkDoesNotSign(t *testing.T, file string) {
	t.Helper()
	edited, err := os.ReadFile(file)
	check(t, err)
	s.verifyCommand(t, 5)
	// Commands still succeed, with a warning that they could not sign.
	r := s.run(t, "work", "open", "more")
	if r.status != 0 {
		t.Errorf("work open: exit status %d\n%s", r.status, r.stderr)
	}
	if !strings.HasPrefix(r.stderr, "warning: the change is recorded, but: ") {
		t.Errorf("work open printed %q", r.stderr)
	}
	if r := s.run(t, "ledger", "checkpoint"); r.status != 5 || r.stdout != "" {
		t.Errorf("ledger checkpoint: exit status %d, want 5\n%s%s", r.status, r.stdout, r.stderr)
	}
	if after, err := os.ReadFile(file); err != nil || !bytes.Equal(after, edited) {
		t.Error("the edited checkpoint was replaced")
	}
}

// TestEditedPublicKey edits the public key in the box. On the host that has the private key this
// does not matter; on other hosts verification fails.
func TestEditedPublicKey(t *testing.T) {
	random := newRand(t)
	original := newLedger(t)
	key, err := os.ReadFile(original.file("key.pub"))
	check(t, err)
	other, err := os.ReadFile(newSite(t).file("key.pub"))
	check(t, err)
	edited := bytes.Clone(key)
	edited[random.IntN(len(key)-1)] ^= 1
	for name, text := range map[string][]byte{"edited": edited, "empty": nil,
		"cut off": key[:len(key)/2], "of another box": other} {
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

// TestEditedTree edits the tree that the box keeps to sign faster. It is only a cache, so signing
// still works.
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
			if v := s.verifyCommand(t, 0); v.Checkpoint.Size != tamperEvents+1 {
				t.Errorf("verify printed %s", asJSON(v))
			}
		})
	}
}

// encodeSnapshot encodes a snapshot as the journal stores it: a magic string, the SHA-256 of the
// rest, then the sequence number, the hash and the state.
func encodeSnapshot(s journal.Snapshot) []byte {
	rest := binary.BigEndian.AppendUint64(nil, s.Seq)
	rest = append(append(rest, s.Hash[:]...), s.State...)
	sum := sha256.Sum256(rest)
	return append(append([]byte("signalbox snapshot 1\n"), sum[:]...), rest...)
}

// takeSnapshot returns a snapshot of a box as the engine takes it. Its state is the length of the
// tree, the tree, and the folded state.
func takeSnapshot(t *testing.T, s *site) journal.Snapshot {
	t.Helper()
	b := s.open(t)
	defer b.Close()
	tail := b.Engine.Tail()
	tree, err := tail.Tree.MarshalBinary()
	check(t, err)
	state := append(binary.AppendUvarint(nil, uint64(len(tree))), tree...)
	b.Engine.View(func(folded *rules.State) { state = append(state, folded.Snapshot()...) })
	return journal.Snapshot{Seq: tail.Seq, Hash: tail.Hash, State: state}
}

// TestPoisonedSnapshot installs a snapshot that is well formed, has a correct checksum and names
// the right event, but whose state comes from another history. Verify must find it, and removing it
// must restore the box.
func TestPoisonedSnapshot(t *testing.T) {
	s, other := newLedger(t), newSite(t)
	want := s.must(t, "work", "list", "--json")
	b := other.open(t)
	for b.Engine.Tail().Seq < tamperEvents {
		openWork(t, b, box.NewID("false"))
	}
	right, poisoned := takeSnapshot(t, s), takeSnapshot(t, other)
	poisoned.Hash = right.Hash
	s.poison(t, poisoned)
	// With the right tree before the wrong state even the checkpoint matches.
	poisoned.State = append(treePrefix(right.State),
		poisoned.State[len(treePrefix(poisoned.State)):]...)
	s.poison(t, poisoned)
	check(t, os.Remove(s.file("snapshot")))
	if got := s.must(t, "work", "list", "--json"); got != want {
		t.Errorf("without the snapshot the work list is\n%s\nwant\n%s", got, want)
	}
	s.verifyCommand(t, 0)
}

// poison installs a snapshot that verify must reject.
func (s *site) poison(t *testing.T, snapshot journal.Snapshot) {
	t.Helper()
	check(t, os.WriteFile(s.file("snapshot"), encodeSnapshot(snapshot), 0o600))
	if v := s.verifyCommand(t, 5); v.Reason == "" {
		t.Errorf("verify printed %s", asJSON(v))
	}
	damaged := s.copy(t)
	damaged.run(t, "work", "list") // it may fail, but it must not crash
	damaged.run(t, "work", "open", "more")
	damaged.run(t, "work", "claim", "--next", "--role", "developer")
}

// treePrefix returns the start of a snapshot's state: the length of the tree and the tree.
func treePrefix(state []byte) []byte {
	length, size := binary.Uvarint(state)
	return state[:size+int(length)]
}
