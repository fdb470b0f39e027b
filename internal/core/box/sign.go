package box

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"signalbox"
	"signalbox/internal/core/rules"
	"signalbox/internal/durable"
	"signalbox/ledger"
)

// Files of the box. The tree is that of the last checkpoint, so that the next signature reads only
// the new events. The signer also keeps the checkpoint beside its key, where agents cannot write,
// so that it knows what it has signed.
const (
	signedSuffix       = ".checkpoint"
	checkpointName     = "checkpoint"
	checkpointTreeName = "checkpoint.tree"
	checkpointLockName = "checkpoint.lock"
)

// Checkpoint is a signed checkpoint.
type Checkpoint struct {
	ledger.Checkpoint
	// Signed is the signed note.
	Signed []byte
	// New reports whether the call of Sign created it.
	New bool
}

// Sign signs a checkpoint of the ledger, or returns the last one if there are no new events. It
// first verifies that the ledger continues what was signed before; if not, it signs nothing, and
// the engine stops writing.
func (b *Box) Sign(ctx context.Context) (*Checkpoint, error) {
	private, public, err := b.privateKey()
	if err != nil {
		return nil, err
	}
	lock, err := b.lockCheckpoint(ctx)
	if err != nil {
		return nil, err
	}
	defer lock.Release()
	signed, err := b.checkpoints(public)
	if err != nil {
		return nil, err
	}
	if err := b.publishKey(public); err != nil {
		return nil, err
	}
	if err := b.Engine.Refresh(ctx); err != nil {
		return nil, err
	}
	tail := b.Engine.Tail()
	for _, last := range signed {
		err := b.checkExtends(ctx, last, &tail)
		if signalbox.CodeOf(err) == signalbox.CodeUnverified {
			// what was signed is where the ledger continues
			b.Engine.View(func(s *rules.State) { err = cmp.Or(s.Moved(), err) })
			b.Engine.Stop(err)
		}
		if err != nil {
			return nil, err
		}
	}
	if len(signed) == 2 && signed[0].Size == tail.Seq { // both files have it
		return signed[0], nil
	}
	next := ledger.Checkpoint{Origin: origin(b.ID()), Size: tail.Seq, Root: tail.Tree.Root()}
	note, err := ledger.Sign(next, private)
	if err != nil {
		return nil, err
	}
	if err := b.storeCheckpoint(note, &tail.Tree); err != nil {
		return nil, signalbox.CodeFailed.Errorf(
			"free disk space or fix the permissions of the folder, then run signalbox ledger checkpoint",
			"cannot store the checkpoint: %w", err)
	}
	return &Checkpoint{next, note, true}, nil
}

// lockTimeout is how long a signer waits for another one. On a busy machine, a process that holds
// the lock may stand still for many seconds.
const lockTimeout = time.Minute

func (k *Keys) lockCheckpoint(ctx context.Context) (*durable.Lock, error) {
	ctx, cancel := context.WithTimeout(ctx, lockTimeout)
	defer cancel()
	lock, err := durable.Acquire(ctx, k.file(checkpointLockName))
	if errors.Is(err, context.DeadlineExceeded) {
		return nil, signalbox.CodeFailed.Errorf(
			"stop the process that hangs, then run signalbox ledger checkpoint",
			"another process has locked %s for %s", k.file(checkpointLockName), lockTimeout)
	}
	return lock, err
}

// storeCheckpoint writes a signed checkpoint, first to the signer's own file.
func (k *Keys) storeCheckpoint(signed []byte, t *ledger.Tree) error {
	tree, err := t.MarshalBinary()
	if err != nil {
		return err
	}
	keyFile, err := k.keyFile(k.ID())
	if err != nil {
		return err
	}
	for _, file := range []struct {
		name string
		data []byte
	}{{keyFile + signedSuffix, signed}, {k.file(checkpointTreeName), tree}, {k.file(checkpointName), signed}} {
		if err := durable.Replace(file.name, file.data, 0o600); err != nil {
			return err
		}
	}
	return nil
}

// checkpointFiles returns the file of the checkpoint in the box's folder, and the one beside the
// key.
func (k *Keys) checkpointFiles() []string {
	names := []string{k.file(checkpointName)}
	if keyFile, err := k.keyFile(k.ID()); err == nil {
		names = append(names, keyFile+signedSuffix)
	}
	return names
}

// checkpoints returns the checkpoint in the box's folder and the one beside the key, the smaller
// one first. Either may be missing.
func (k *Keys) checkpoints(public string) ([]*Checkpoint, error) {
	var found []*Checkpoint
	for _, name := range k.checkpointFiles() {
		checkpoint, err := openCheckpoint(name, public)
		if err != nil {
			return nil, err
		}
		if checkpoint != nil {
			found = append(found, checkpoint)
		}
	}
	slices.SortStableFunc(found, func(a, b *Checkpoint) int { return cmp.Compare(a.Size, b.Size) })
	return found, nil
}

// lastCheckpoint returns the larger of the box's checkpoints, nil if there are none.
func (k *Keys) lastCheckpoint(public string) (*Checkpoint, error) {
	found, err := k.checkpoints(public)
	if err != nil || len(found) == 0 {
		return nil, err
	}
	return found[len(found)-1], nil
}

// openCheckpoint opens the checkpoint in a file. It returns nil if there is no file.
func openCheckpoint(name, public string) (*Checkpoint, error) {
	signed, err := readOptional(name)
	if err != nil {
		return nil, signalbox.CodeFailed.Errorf("check that it is a file you may read",
			"cannot read the checkpoint: %w", err)
	}
	if signed == nil {
		return nil, nil
	}
	opened, err := ledger.OpenCheckpoint(signed, public)
	if err != nil {
		return nil, signalbox.CodeUnverified.Errorf(
			"if only you can have written it, restore it from a copy or remove it, and run signalbox ledger checkpoint",
			"%s: %w", name, err)
	}
	return &Checkpoint{opened, signed, false}, nil
}

// SignedLength returns the number of events that were signed, which the ledger must have. It
// returns 0 if the checkpoint cannot be read; Sign and Verify report that.
func (k *Keys) SignedLength() uint64 {
	public, err := k.PublicKey()
	if err != nil {
		return 0
	}
	last, err := k.lastCheckpoint(public)
	if err != nil || last == nil {
		return 0
	}
	return last.Size
}

// checkLength returns an error if the ledger has fewer events than were signed.
func checkLength(signed, events uint64) error {
	if signed <= events {
		return nil
	}
	return unverified("the ledger was truncated: it has %d events, but %d were signed", events,
		signed)
}

func unverified(format string, args ...any) error {
	return signalbox.CodeUnverified.Errorf(
		"run signalbox ledger verify, and restore the ledger from a copy", format, args...)
}

// checkExtends checks that the ledger up to tail continues what a checkpoint signed.
func (b *Box) checkExtends(ctx context.Context, last *Checkpoint, tail *ledger.Tail) error {
	if err := checkLength(last.Size, tail.Seq); err != nil {
		return err
	}
	if last.Size < tail.Seq {
		tree, err := b.signedTree(ctx, last)
		if err != nil {
			return err
		}
		for hash, err := range b.hashes(ctx, last.Size, tail.Seq) {
			if err != nil {
				return err
			}
			tree.Append(hash)
		}
		if tree.Root() != tail.Tree.Root() {
			return notSigned(last)
		}
	} else if last.Root != tail.Tree.Root() {
		return notSigned(last)
	}
	return nil
}

func notSigned(last *Checkpoint) error {
	return unverified("the ledger was changed: its first %d events are not the ones that were signed", last.Size)
}

// signedTree returns the tree that a checkpoint signed, from its file or else from the events.
func (l *Ledger) signedTree(ctx context.Context, last *Checkpoint) (*ledger.Tree, error) {
	stored, err := readOptional(l.file(checkpointTreeName))
	if err != nil {
		return nil, err
	}
	tree := &ledger.Tree{}
	if tree.UnmarshalBinary(stored) == nil && tree.Size() == last.Size && tree.Root() == last.Root {
		return tree, nil
	}
	return l.treeFor(ctx, last)
}
