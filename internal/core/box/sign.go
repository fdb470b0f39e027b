package box

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"time"

	"signalbox"
	"signalbox/internal/durable"
	"signalbox/ledger"
)

// Files of the box. The tree is that of the last checkpoint: with it the next signature costs only what is new. The
// signer also keeps the checkpoint beside its key, out of reach of who can write the box: it must not forget what it
// has signed.
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
	// Fresh means that it was signed just now.
	Fresh bool
}

// Sign signs the ledger as it is now, unless the last checkpoint says the same. It first shows that the ledger still
// begins with what the last one signed; if not, it signs nothing.
func (b *Box) Sign(ctx context.Context) (*Checkpoint, error) {
	private, err := b.privateKey()
	if err != nil {
		return nil, err
	}
	public, err := ledger.PublicKey(private)
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
		if err := b.checkExtends(ctx, last, &tail); err != nil {
			return nil, err
		}
	}
	if len(signed) == 2 && signed[0].Size == tail.Seq { // both places have it
		return signed[0], nil
	}
	next := ledger.Checkpoint{Origin: origin(b.ID()), Size: tail.Seq, Root: tail.Tree.Root()}
	note, err := ledger.Sign(next, private)
	if err != nil {
		return nil, err
	}
	if err := b.keep(note, &tail.Tree); err != nil {
		return nil, &signalbox.Error{Code: signalbox.CodeFailed, Err: fmt.Errorf("cannot keep the checkpoint: %w", err),
			Hint: "make room or mend the folder's rights, then run signalbox ledger checkpoint"}
	}
	return &Checkpoint{next, note, true}, nil
}

// lockPatience is how long a signer waits for another one.
const lockPatience = 10 * time.Second

func (b *Box) lockCheckpoint(ctx context.Context) (*durable.Lock, error) {
	ctx, cancel := context.WithTimeout(ctx, lockPatience)
	defer cancel()
	lock, err := durable.Acquire(ctx, b.file(checkpointLockName))
	if errors.Is(err, context.DeadlineExceeded) {
		return nil, &signalbox.Error{Code: signalbox.CodeFailed, Err: fmt.Errorf("another process has kept %s for %s", b.file(checkpointLockName), lockPatience),
			Hint: "look for a process that hangs, end it, and run signalbox ledger checkpoint"}
	}
	return lock, err
}

// keep stores a signed checkpoint, first of all where the signer remembers it.
func (b *Box) keep(signed []byte, t *ledger.Tree) error {
	tree, err := t.MarshalBinary()
	if err != nil {
		return err
	}
	keyFile, err := b.keyFile(b.ID())
	if err != nil {
		return err
	}
	for _, file := range []struct {
		name string
		data []byte
	}{{keyFile + signedSuffix, signed}, {b.file(checkpointTreeName), tree}, {b.file(checkpointName), signed}} {
		if err := durable.Replace(file.name, file.data, 0o600); err != nil {
			return err
		}
	}
	return nil
}

// checkpoints returns the checkpoint of the box's folder and the one that the signer remembers, if that is here, the
// smaller one first. Either may be missing.
func (l *Ledger) checkpoints(public string) ([]*Checkpoint, error) {
	names := []string{l.file(checkpointName)}
	if keyFile, err := l.keyFile(l.ID()); err == nil {
		names = append(names, keyFile+signedSuffix)
	}
	var found []*Checkpoint
	for _, name := range names {
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

// lastCheckpoint returns the larger of the box's checkpoints, nil if it has none.
func (l *Ledger) lastCheckpoint(public string) (*Checkpoint, error) {
	found, err := l.checkpoints(public)
	if err != nil || len(found) == 0 {
		return nil, err
	}
	return found[len(found)-1], nil
}

// openCheckpoint opens the checkpoint in a file, nil if there is none.
func openCheckpoint(name, public string) (*Checkpoint, error) {
	signed, err := readOptional(name)
	if err != nil {
		return nil, &signalbox.Error{Code: signalbox.CodeFailed, Err: fmt.Errorf("cannot read the checkpoint: %w", err),
			Hint: "check that it is a file you may read"}
	}
	if signed == nil {
		return nil, nil
	}
	opened, err := ledger.OpenCheckpoint(signed, public)
	if err != nil {
		return nil, &signalbox.Error{Code: signalbox.CodeUnverified, Err: fmt.Errorf("%s: %w", name, err),
			Hint: "if nobody but you can have written it, restore it from a copy or remove it, and run signalbox ledger checkpoint"}
	}
	return &Checkpoint{opened, signed, false}, nil
}

// signedLength returns how many events the ledger must have at least. A checkpoint that cannot be read is for Sign and
// Verify to tell of.
func (l *Ledger) signedLength() uint64 {
	public, err := l.PublicKey()
	if err != nil {
		return 0
	}
	last, err := l.lastCheckpoint(public)
	if err != nil || last == nil {
		return 0
	}
	return last.Size
}

func cut(signed, events uint64) error {
	if signed <= events {
		return nil
	}
	return unverified("the ledger was cut off: it has %d events, and %d were signed", events, signed)
}

func unverified(format string, args ...any) error {
	return &signalbox.Error{Code: signalbox.CodeUnverified, Err: fmt.Errorf(format, args...),
		Hint: "run signalbox ledger verify, and restore the ledger from a copy"}
}

// checkExtends shows that the ledger up to tail begins with what a checkpoint signed.
func (b *Box) checkExtends(ctx context.Context, last *Checkpoint, tail *ledger.Tail) error {
	if err := cut(last.Size, tail.Seq); err != nil {
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
	return unverified("the ledger was changed: its first %d events are not those that were signed", last.Size)
}

// signedTree returns the tree whose root a checkpoint signed: the one that was kept, or one made from the ledger.
func (l *Ledger) signedTree(ctx context.Context, last *Checkpoint) (*ledger.Tree, error) {
	kept, err := readOptional(l.file(checkpointTreeName))
	if err != nil {
		return nil, err
	}
	tree := &ledger.Tree{}
	if tree.UnmarshalBinary(kept) == nil && tree.Size() == last.Size && tree.Root() == last.Root {
		return tree, nil
	}
	return l.treeFor(ctx, last)
}

// treeFor returns the tree over as many events of the ledger as a checkpoint signed, if it has the root that was signed.
func (l *Ledger) treeFor(ctx context.Context, last *Checkpoint) (*ledger.Tree, error) {
	tree := &ledger.Tree{}
	for hash, err := range l.hashes(ctx, 0, last.Size) {
		if err != nil {
			return nil, err
		}
		tree.Append(hash)
	}
	if tree.Root() != last.Root {
		return nil, notSigned(last)
	}
	return tree, nil
}

// hashes yields the hashes of the events after one up to and including another.
func (l *Ledger) hashes(ctx context.Context, after, last uint64) iter.Seq2[signalbox.Hash, error] {
	return func(yield func(signalbox.Hash, error) bool) {
		if after >= last {
			return
		}
		for e, err := range l.Events(ctx, after) {
			if err != nil {
				yield(signalbox.Hash{}, err)
				return
			}
			if after = e.Seq; !yield(e.Hash, nil) || after >= last {
				return
			}
		}
		yield(signalbox.Hash{}, unverified("the ledger was cut off: event %d is gone", after+1))
	}
}
