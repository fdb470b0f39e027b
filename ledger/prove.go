package ledger

import (
	"fmt"
	"iter"

	"golang.org/x/mod/sumdb/tlog"

	"signalbox"
)

// Proof shows that an event is in a log to a reader that has only the log's public key.
type Proof struct {
	Event signalbox.Event
	// Hashes are the audit path of RFC 6962, section 2.1.1, from the leaf to the root.
	Hashes []signalbox.Hash
	// Checkpoint is the signed note.
	Checkpoint []byte
}

// Prove returns a proof for an event. It reads the hashes of the log's events from the first on, as
// many as it needs. If the checkpoint does not cover the event, the error has
// signalbox.CodeNotFound.
func Prove(e *signalbox.Event, checkpoint []byte, publicKey string,
	hashes iter.Seq2[signalbox.Hash, error]) (*Proof, error) {
	if err := Validate(e); err != nil {
		return nil, fmt.Errorf("prove event %d: %w", e.Seq, err)
	}
	c, err := OpenCheckpoint(checkpoint, publicKey)
	if err != nil {
		return nil, fmt.Errorf("prove event %d: %w", e.Seq, err)
	}
	if e.Seq == 0 || e.Seq > c.Size {
		return nil, signalbox.CodeNotFound.Errorf(
			"create a new checkpoint with signalbox ledger checkpoint",
			"event %d is not covered by the checkpoint, which ends at event %d",
			e.Seq, c.Size)
	}
	path, err := tlog.ProveRecord(int64(c.Size), int64(e.Seq-1), subtrees(hashes))
	if err != nil {
		return nil, fmt.Errorf("prove event %d: %w", e.Seq, err)
	}
	p := &Proof{Event: *e, Hashes: fromTlog(path), Checkpoint: checkpoint}
	p.Event.Time = e.Time.Round(0).UTC()
	if _, err := p.Check(publicKey); err != nil {
		return nil, fmt.Errorf("prove event %d: the log is not what was signed: %w", e.Seq, err)
	}
	return p, nil
}

// Check verifies the proof with the public key of the log and returns the checkpoint that covers
// the event.
func (p *Proof) Check(publicKey string) (Checkpoint, error) {
	e := &p.Event
	if !timeInRange(e.Time) || e.Hash != Sum(e) {
		return Checkpoint{},
			unverified("", "event %d was changed: its hash is not that of its content", e.Seq)
	}
	c, err := OpenCheckpoint(p.Checkpoint, publicKey)
	if err != nil {
		return Checkpoint{}, err
	}
	err = tlog.CheckRecord(toTlog(p.Hashes), int64(c.Size), tlog.Hash(c.Root), int64(e.Seq-1),
		tlog.Hash(leafHash(e.Hash)))
	if err != nil {
		return Checkpoint{},
			unverified("", "event %d is not among the %d events that the checkpoint signed: %w",
				e.Seq, c.Size, err)
	}
	return c, nil
}

// ProveConsistency returns the proof of RFC 6962, section 2.1.2, that the log with newer events
// continues the log with older events. It reads the hashes of the log's events from the first on.
func ProveConsistency(older, newer uint64,
	hashes iter.Seq2[signalbox.Hash, error]) ([]signalbox.Hash, error) {
	if older > newer || newer > MaxEvents {
		return nil, fmt.Errorf("prove consistency: a log of %d events cannot continue one of %d",
			newer, older)
	}
	if older == 0 {
		return nil, nil
	}
	proof, err := tlog.ProveTree(int64(newer), int64(older), subtrees(hashes))
	if err != nil {
		return nil, fmt.Errorf("prove consistency: %w", err)
	}
	return fromTlog(proof), nil
}

// CheckConsistency returns nil if the proof shows that the log of newer continues the log of older.
// Open both checkpoints with OpenCheckpoint first.
func CheckConsistency(older, newer Checkpoint, proof []signalbox.Hash) error {
	if older.Origin != newer.Origin {
		return unverified("", "the checkpoints belong to different logs, %q and %q", older.Origin,
			newer.Origin)
	}
	if older.Size > newer.Size || newer.Size > MaxEvents {
		return unverified("", "a log of %d events does not continue one of %d", newer.Size,
			older.Size)
	}
	if older.Size == 0 {
		if empty := (&Tree{}).Root(); older.Root != empty || len(proof) != 0 || newer.Size == 0 &&
			newer.Root != empty {
			return unverified("", "the checkpoint of the empty log, or the proof from it, is wrong")
		}
		return nil
	}
	err := tlog.CheckTree(toTlog(proof), int64(newer.Size), tlog.Hash(newer.Root),
		int64(older.Size), tlog.Hash(older.Root))
	if err != nil {
		return unverified("",
			"the first %d of the %d events are not those that were signed before: %w", older.Size,
			newer.Size, err)
	}
	return nil
}

// subtrees returns a reader that computes the subtree roots that package tlog requests, in one pass
// over the hashes of the events. This works because the subtrees of a proof do not overlap and tlog
// requests them from left to right.
func subtrees(hashes iter.Seq2[signalbox.Hash, error]) tlog.HashReader {
	return tlog.HashReaderFunc(func(wanted []int64) ([]tlog.Hash, error) {
		var roots []tlog.Hash
		var tree Tree
		var seen uint64
		level, n := tlog.SplitStoredHashIndex(wanted[0])
		for hash, err := range hashes {
			if err != nil {
				return nil, err
			}
			seen++
			if seen <= uint64(n)<<level {
				continue
			}
			tree.Append(hash)
			if tree.Size() < 1<<level {
				continue
			}
			roots = append(roots, tlog.Hash(tree.Root()))
			if len(roots) == len(wanted) {
				return roots, nil
			}
			tree = Tree{}
			level, n = tlog.SplitStoredHashIndex(wanted[len(roots)])
		}
		return nil, unverified("", "the log ends at event %d", seen)
	})
}

func toTlog(hashes []signalbox.Hash) []tlog.Hash {
	converted := make([]tlog.Hash, len(hashes))
	for i, hash := range hashes {
		converted[i] = tlog.Hash(hash)
	}
	return converted
}

func fromTlog(hashes []tlog.Hash) []signalbox.Hash {
	converted := make([]signalbox.Hash, len(hashes))
	for i, hash := range hashes {
		converted[i] = signalbox.Hash(hash)
	}
	return converted
}
