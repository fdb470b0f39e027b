package box

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"

	"signalbox"
	"signalbox/internal/core/applied"
	"signalbox/internal/core/rules"
	"signalbox/internal/testkit/must"
	"signalbox/ledger"
)

// Every checkpoint that was ever signed holds for the ledger as it grows.
func TestCheckpointsStayTrue(t *testing.T) {
	k := newKit(t)
	kept := []string{k.read(t, checkpointName)}
	for _, works := range [][]string{{"t1"}, {"t2", "t3", "t4"}, {"t5"}} {
		checkpoint := k.writeAndSign(t, works...)
		if !checkpoint.New || string(checkpoint.Signed) != k.read(t, checkpointName) {
			t.Errorf("signed %+v", checkpoint)
		}
		kept = append(kept, string(checkpoint.Signed))
	}
	for i, size := range []uint64{1, 2, 5, 6} {
		report := verify(t, k, VerifyOptions{Checkpoint: []byte(kept[i]),
			PublicKey: k.made.PublicKey})
		if !report.OK || report.Events != 6 || report.Checkpoint.Size != size ||
			report.Checkpoint.Origin != "signalbox/"+k.made.ID {
			t.Errorf("checkpoint %d: report %+v of checkpoint %+v", i, report, report.Checkpoint)
		}
	}
}

func TestSignWithoutNewEvents(t *testing.T) {
	k := newKit(t)
	first := k.writeAndSign(t, "t1")
	again := sign(t, k.open(t))
	if again.New || string(again.Signed) != string(first.Signed) || again.Size != 2 {
		t.Errorf("signed again: %+v, first %+v", again, first)
	}
}

// checkNotSigned fails unless signing is refused as unverified, and the box's checkpoint stays as
// it is.
func checkNotSigned(t *testing.T, k *kit, b *Box, fault string) {
	t.Helper()
	before := k.read(t, checkpointName)
	_, err := b.Sign(t.Context())
	checkCode(t, err, signalbox.CodeUnverified)
	if !strings.Contains(err.Error(), fault) {
		t.Errorf("error %v, want one with %q", err, fault)
	}
	if after := k.read(t, checkpointName); after != before {
		t.Errorf("the checkpoint is now %s", after)
	}
}

func TestTruncatedLedgerIsNotSigned(t *testing.T) {
	k := newKit(t)
	old := k.writeAndSign(t, "t1")
	last := k.writeAndSign(t, "t2", "t3")
	k.tamper(t, "DELETE FROM events WHERE seq > 3")
	_, err := Open(t.Context(), k.dir, k.opts)
	checkCode(t, err, signalbox.CodeUnverified)
	if !strings.Contains(err.Error(),
		"event 4 is missing: this machine has applied it, but the ledger ends at event 3") {
		t.Errorf("open: %v", err)
	}
	k.remove(t, applied.FileName) // on a machine that has not applied it
	_, err = Open(t.Context(), k.dir, k.opts)
	checkCode(t, err, signalbox.CodeUnverified)
	if !strings.Contains(err.Error(), "truncated: it has 3 events, but 4 were signed") {
		t.Errorf("open: %v", err)
	}

	// whoever cuts the ledger may lay an old checkpoint beside it
	k.put(t, checkpointName, string(old.Signed))
	_, err = Open(t.Context(), k.dir, k.opts) // but the signer remembers
	checkCode(t, err, signalbox.CodeUnverified)
	k.remove(t, checkpointName)
	_, err = Open(t.Context(), k.dir, k.opts)
	checkCode(t, err, signalbox.CodeUnverified)
	if report := verify(t, k, VerifyOptions{}); report.OK || report.FirstBad != 4 {
		t.Errorf("report %+v", report)
	}

	k.forget(t)
	k.put(t, checkpointName, string(old.Signed))
	b := k.open(t)
	k.put(t, checkpointName, string(last.Signed))
	checkNotSigned(t, k, b, "truncated")
	_, err = b.Engine.Do(t.Context(), rules.OpenWork{Work: "t4", Actor: "ann"}) // nor written to
	checkCode(t, err, signalbox.CodeUnverified)
}

// A ledger with replaced events and correct hashes, such as a copy that diverged, is not signed.
func TestReplacedLedgerIsNotSigned(t *testing.T) {
	for name, more := range map[string][]string{"as long": nil, "longer": {"t6", "t7"}} {
		t.Run(name, func(t *testing.T) {
			k := newKit(t)
			k.writeAndSign(t, "t1")
			forged := k.copy(t)
			k.writeAndSign(t, "t2", "t3")
			k.forget(t)
			forged.writeAndSign(t, append([]string{"t4", "t5"}, more...)...)
			forged.put(t, checkpointName, k.read(t, checkpointName))
			checkNotSigned(t, forged, forged.open(t),
				"its first 4 events are not the ones that were signed")
			// nor with the right tree beside it
			forged.put(t, checkpointTreeName, k.read(t, checkpointTreeName))
			checkNotSigned(t, forged, forged.open(t),
				"its first 4 events are not the ones that were signed")
			report := verify(t, forged, VerifyOptions{})
			if report.OK || report.FirstBad != 1 {
				t.Errorf("report %+v", report)
			}
		})
	}
}

func TestChangedLedgerIsNotOpened(t *testing.T) {
	k := newKit(t)
	k.writeAndSign(t, "t1", "t2")
	k.tamper(t, "UPDATE events SET actor = 'eve' WHERE seq = 2")
	_, err := Open(t.Context(), k.dir, k.opts)
	checkCode(t, err, signalbox.CodeUnverified)
}

// The stored tree is only a cache: if it is lost or wrong, it is computed again.
func TestStoredTreeIsOnlyACache(t *testing.T) {
	for name, spoil := range map[string]func(t *testing.T, k *kit){
		"lost":  func(t *testing.T, k *kit) { k.remove(t, checkpointTreeName) },
		"empty": func(t *testing.T, k *kit) { k.put(t, checkpointTreeName, "") },
		"noise": func(t *testing.T,
			k *kit) {
			k.put(t, checkpointTreeName, strings.Repeat("noise", 30))
		},
		"smaller": func(t *testing.T, k *kit) { putTree(t, k, 1) },
		"other":   func(t *testing.T, k *kit) { putTree(t, k, 3) },
		"larger":  func(t *testing.T, k *kit) { putTree(t, k, 4) },
	} {
		t.Run(name, func(t *testing.T) {
			k := newKit(t)
			k.writeAndSign(t, "t1", "t2")
			spoil(t, k)
			b := k.open(t)
			write(t, b, "t3")
			sign(t, b)
			checkVerified(t, k, 4)
			var tree ledger.Tree // there is one again, for the next signature
			if err := tree.UnmarshalBinary([]byte(k.read(t, checkpointTreeName))); err != nil ||
				tree.Size() != 4 {
				t.Errorf("the tree has %d leaves, %v", tree.Size(), err)
			}
		})
	}
}

// putTree puts a tree of other leaves in the place of the kept one.
func putTree(t *testing.T, k *kit, leaves int) {
	t.Helper()
	var tree ledger.Tree
	for i := range leaves {
		tree.Append(signalbox.Hash{byte(i)})
	}
	data, err := tree.MarshalBinary()
	must.Succeed(t, err)
	k.put(t, checkpointTreeName, string(data))
}

// Somebody else's checkpoint in the place of the box's own is not signed over: it may be evidence.
func TestForeignCheckpointIsNotReplaced(t *testing.T) {
	k, other := newKit(t), otherKit(t)
	for name, text := range map[string]string{
		"another box's": other.read(t, checkpointName),
		"edited":        strings.Replace(k.read(t, checkpointName), "\n1\n", "\n2\n", 1),
		"noise":         "noise",
		"empty":         "",
	} {
		t.Run(name, func(t *testing.T) {
			k := k.copy(t)
			k.put(t, checkpointName, text)
			checkNotSigned(t, k, k.open(t), "checkpoint")
			report := verify(t, k, VerifyOptions{})
			if report.OK || report.Reason == "" {
				t.Errorf("report %+v", report)
			}
		})
	}
}

func TestSignWithoutKey(t *testing.T) {
	k := newKit(t)
	must.Succeed(t, os.Rename(k.opts.KeyFile, k.opts.KeyFile+".away"))
	b := k.open(t)
	write(t, b, "t1")
	_, err := b.Sign(t.Context())
	if !errors.Is(err, ErrNoKey) {
		t.Errorf("error %v, want %v", err, ErrNoKey)
	}
	checkCode(t, err, signalbox.CodeNotFound)
}

// Signers that work at once never put an older checkpoint over a newer one.
func TestCheckpointsNeverGoBack(t *testing.T) {
	const signers, rounds = 3, 4
	k := newKit(t)
	var all sync.WaitGroup
	for i := range signers {
		b := k.open(t)
		all.Go(func() {
			for j := range rounds {
				write(t, b, "t"+string(rune('a'+i))+string(rune('a'+j)))
				signed := sign(t, b)
				kept, err := ledger.OpenCheckpoint([]byte(k.read(t, checkpointName)),
					k.made.PublicKey)
				if err != nil || kept.Size < signed.Size {
					t.Errorf("signed %d events, then the box has a checkpoint of %d: %v",
						signed.Size, kept.Size, err)
				}
			}
		})
	}
	all.Wait()
	checkVerified(t, k, 1+signers*rounds)
}

// Many commands open the box, write, sign and close it at the same time. None takes the ledger for
// truncated.
func TestManyCommandsAtOnce(t *testing.T) {
	k := newKit(t)
	var commands sync.WaitGroup
	for i := range 5 {
		commands.Go(func() {
			for j := range 3 {
				b, err := Open(t.Context(), k.dir, k.opts)
				if err != nil {
					t.Error(err)
					return
				}
				_, err = b.Engine.Do(t.Context(), rules.OpenWork{Work: fmt.Sprintf("t%d-%d", i, j),
					Actor: "ann"})
				if err == nil {
					_, err = b.Sign(t.Context())
				}
				if err = errors.Join(err, b.Close()); err != nil {
					t.Error(err)
				}
				if report := verify(t, k, VerifyOptions{}); !report.OK {
					t.Errorf("report %+v", report)
				}
			}
		})
	}
	commands.Wait()
	checkVerified(t, k, 1+5*3)
}
