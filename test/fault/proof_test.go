package fault

import (
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"signalbox"
	"signalbox/ledger"
)

// outsider returns an empty site without a box, a key or a configuration.
func outsider(t *testing.T) *site {
	t.Helper()
	s := emptySite(t)
	s.environment = []string{"HOME=", "XDG_CONFIG_HOME=", "AppData="}
	return s
}

// proofOf returns the output of signalbox ledger prove.
func proofOf(t *testing.T, s *site, seq string) []byte {
	t.Helper()
	return []byte(s.must(t, "ledger", "prove", seq))
}

// TestProofNeedsOnlyTheKey checks proofs with nothing but the proof and the public key.
func TestProofNeedsOnlyTheKey(t *testing.T) {
	s, other := newLedger(t), newSite(t)
	o := outsider(t)
	file := filepath.Join(o.project, "proof.json")
	for _, seq := range []string{"1", "2", "100", "199", "200"} {
		check(t, os.WriteFile(file, proofOf(t, s, seq), 0o600))
		out := o.must(t, "ledger", "check", "--key", s.publicKey, file)
		if !strings.HasPrefix(out, "event "+seq+" is in the ledger of signalbox/box-") {
			t.Errorf("event %s: check printed %q", seq, out)
		}
	}
	o.mustFail(t, 5, `the checkpoint is not signed with the given key of "signalbox/box-*"`,
		"compare the public key with the output of 'signalbox ledger key' in the box",
		"ledger", "check", "--key", other.publicKey, file)
	o.mustFail(t, 2, "there is no public key to check the proof with",
		"use --key with the output of signalbox ledger key from the box that made the proof",
		"ledger", "check", file)
}

// edits yields all edits of one byte: each byte replaced, deleted, and another one inserted before
// it. The full form replaces each byte by every other value.
func edits(random *rand.Rand, file []byte) func(yield func([]byte) bool) {
	return func(yield func([]byte) bool) {
		for i := range file {
			masks := []int{1 + random.IntN(255)}
			if isFull() {
				masks = random.Perm(256)
			}
			for _, mask := range masks {
				edited := slices.Clone(file)
				edited[i] ^= byte(mask)
				if mask != 0 && !yield(edited) {
					return
				}
			}
			if !yield(slices.Delete(slices.Clone(file), i, i+1)) ||
				!yield(slices.Insert(slices.Clone(file), i, byte(random.IntN(256)))) {
				return
			}
		}
		yield(append(slices.Clone(file), '\n'))
		yield(nil)
	}
}

// TestEditedProofFails checks that no edit of a proof passes.
func TestEditedProofFails(t *testing.T) {
	random := newRand(t)
	s := newLedger(t)
	file := proofOf(t, s, "123")
	if err := checkProof(file, s.publicKey); err != nil {
		t.Fatal(err)
	}
	tried := 0
	var sample []byte
	for edited := range edits(random, file) {
		tried++
		coded := (*signalbox.Error)(nil)
		if err := checkProof(edited, s.publicKey); !errors.As(err, &coded) ||
			coded.Code != signalbox.CodeUnverified {
			t.Fatalf("an edit passed, or failed with the wrong error: %v\n%s", err, edited)
		}
		if random.IntN(tried) == 0 {
			sample = edited
		}
		if tried%(len(file)/4) == 0 {
			checkEditedProof(t, s, sample)
		}
	}
	t.Logf("%d edits", tried)
}

func checkProof(file []byte, publicKey string) error {
	proof, err := ledger.ParseProof(file)
	if err != nil {
		return err
	}
	_, err = proof.Check(publicKey)
	return err
}

// checkEditedProof checks that signalbox ledger check rejects an edited proof.
func checkEditedProof(t *testing.T, s *site, edited []byte) {
	t.Helper()
	args := []string{"ledger", "check", "--key", s.publicKey}
	r := finish(t, outsider(t).command(t, args...), strings.NewReader(string(edited)))
	if r.status != 5 || r.stdout != "" {
		t.Errorf("check of an edited proof: exit status %d, want 5\n%s%s", r.status, r.stdout,
			r.stderr)
	}
}
