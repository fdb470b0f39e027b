package box

import (
	"context"
	"errors"
	"fmt"
	"iter"

	"signalbox"
	"signalbox/internal/durable"
	"signalbox/ledger"
)

// Files of the box. The tree is that of the last checkpoint: with it the next signature costs only what is new.
const (
	checkpointName     = "checkpoint"
	checkpointTreeName = "checkpoint.tree"
	checkpointLockName = "checkpoint.lock"
)

// readAtOnce is how many events are read in one go.
const readAtOnce = 2048

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
	lock, err := durable.Acquire(b.file(checkpointLockName))
	if err != nil {
		return nil, err
	}
	defer lock.Release()
	if err := b.publishKey(public); err != nil {
		return nil, err
	}
	last, err := b.lastCheckpoint(public)
	if err != nil {
		return nil, err
	}
	if err := b.Engine.Refresh(ctx); err != nil {
		return nil, err
	}
	tail := b.Engine.Tail()
	if last != nil {
		if err := b.checkExtends(ctx, last, &tail); err != nil {
			return nil, err
		}
		if last.Size == tail.Seq {
			return last, nil
		}
	}
	next := ledger.Checkpoint{Origin: origin(b.ID()), Size: tail.Seq, Root: tail.Tree.Root()}
	signed, err := ledger.Sign(next, private)
	if err != nil {
		return nil, err
	}
	tree, err := tail.Tree.MarshalBinary()
	if err != nil {
		return nil, err
	}
	err = errors.Join(
		durable.Replace(b.file(checkpointTreeName), tree, 0o600),
		durable.Replace(b.file(checkpointName), signed, 0o600))
	if err != nil {
		return nil, &signalbox.Error{Code: signalbox.CodeFailed, Err: fmt.Errorf("cannot keep the checkpoint: %w", err),
			Hint: "make room or mend the folder's rights, then run signalbox ledger checkpoint"}
	}
	return &Checkpoint{next, signed, true}, nil
}

// lastCheckpoint returns the box's checkpoint, nil if it has none.
func (l *Ledger) lastCheckpoint(public string) (*Checkpoint, error) {
	signed, err := readOptional(l.file(checkpointName))
	if err != nil || signed == nil {
		return nil, err
	}
	opened, err := ledger.OpenCheckpoint(signed, public)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", l.file(checkpointName), err)
	}
	return &Checkpoint{opened, signed, false}, nil
}

// checkNotCut compares the ledger's length with the last checkpoint's, so that nothing is written after events that
// are gone. A checkpoint that cannot be read is for Sign and Verify to tell of.
func (b *Box) checkNotCut() error {
	public, err := b.PublicKey()
	if err != nil {
		return nil
	}
	last, err := b.lastCheckpoint(public)
	if err != nil || last == nil {
		return nil
	}
	return cut(last, b.Engine.Tail().Seq)
}

func cut(last *Checkpoint, events uint64) error {
	if last.Size <= events {
		return nil
	}
	return unverified("the ledger was cut off: it has %d events, and %d were signed", events, last.Size)
}

func unverified(format string, args ...any) error {
	return &signalbox.Error{Code: signalbox.CodeUnverified, Err: fmt.Errorf(format, args...),
		Hint: "run signalbox ledger verify, and restore the ledger from a copy"}
}

// checkExtends shows that the ledger up to tail begins with what a checkpoint signed.
func (b *Box) checkExtends(ctx context.Context, last *Checkpoint, tail *ledger.Tail) error {
	if err := cut(last, tail.Seq); err != nil {
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
	tree = &ledger.Tree{}
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
		for after < last {
			events, err := l.Journal.Read(ctx, after, readAtOnce)
			if err == nil && len(events) == 0 {
				err = unverified("the ledger was cut off: event %d is gone", after+1)
			}
			if err != nil {
				yield(signalbox.Hash{}, err)
				return
			}
			for _, e := range events {
				if e.Seq > last || !yield(e.Hash, nil) {
					return
				}
				after = e.Seq
			}
		}
	}
}
