package box

import (
	"context"
	"errors"
	"os"

	"signalbox"
	"signalbox/internal/core/applied"
	"signalbox/internal/core/rules"
	"signalbox/internal/durable"
	"signalbox/internal/text"
)

// Loss is what a machine must forget to continue with a ledger that has lost events.
type Loss struct {
	// Lost are the events that this machine applied and the ledger does not have, nil if there are
	// none.
	Lost *applied.Lost
	// Checkpoints are the box's own checkpoints that the ledger does not continue.
	Checkpoints []LostCheckpoint
	// Events is the number of events that the ledger has.
	Events uint64
	// SignsElsewhere reports whether the signing key is on another machine, so that its checkpoint
	// could not be compared.
	SignsElsewhere bool

	in *Ledger
}

// LostCheckpoint is a signed checkpoint of events that the ledger no longer has.
type LostCheckpoint struct {
	File string `json:"file"`
	Size uint64 `json:"events"`
}

// None reports whether there is nothing to forget.
func (l *Loss) None() bool { return l.Lost == nil && len(l.Checkpoints) == 0 }

// FindLoss compares a ledger with what this machine applied and signed. The events that the ledger
// has must be valid.
func FindLoss(ctx context.Context, l *Ledger) (*Loss, error) {
	lost, err := l.Lost(ctx)
	if err != nil {
		return nil, err
	}
	if l.id == "" {
		return nil, signalbox.CodeUnverified.Errorf(
			"restore the ledger from a backup; to start again, move the whole folder away and run signalbox init",
			"the ledger has no events, so there is nothing to continue with")
	}
	e, err := l.openWithoutMemory(ctx)
	if err != nil {
		return nil, err
	}
	defer e.Close()
	found := &Loss{Lost: lost, Events: e.Tail().Seq, in: l}
	found.Checkpoints, err = lostCheckpoints(ctx, l, found.Events)
	_, _, keyErr := l.privateKey()
	found.SignsElsewhere = errors.Is(keyErr, ErrNoKey)
	return found, err
}

// lostCheckpoints returns the checkpoints that a ledger with so many events does not continue.
func lostCheckpoints(ctx context.Context, l *Ledger, events uint64) ([]LostCheckpoint, error) {
	public, err := l.PublicKey()
	if signalbox.CodeOf(err) == signalbox.CodeNotFound {
		return nil, nil // nothing was signed
	}
	if err != nil {
		return nil, err
	}
	var found []LostCheckpoint
	for _, name := range l.checkpointFiles() {
		checkpoint, err := openCheckpoint(name, public)
		if err != nil {
			return nil, err
		}
		if checkpoint == nil {
			continue
		}
		if err = checkLength(checkpoint.Size, events); err == nil {
			_, err = l.treeFor(ctx, checkpoint)
		}
		if signalbox.CodeOf(err) == signalbox.CodeUnverified {
			found = append(found, LostCheckpoint{name, checkpoint.Size})
		} else if err != nil {
			return nil, err
		}
	}
	return found, nil
}

// Accept forgets what FindLoss found, so that the ledger can be written to, and records on the
// ledger which events are lost. Nothing is deleted: it returns the files in which what is forgotten
// was kept. No other process of the box should run, except those that wait in awaitMissing. If it
// is interrupted, repeating FindLoss and Accept completes it.
func (l *Loss) Accept(ctx context.Context, actor string) (kept []string, err error) {
	in := l.in
	lock, err := in.lockCheckpoint(ctx)
	if err != nil {
		return nil, err
	}
	defer lock.Release()
	if l.Lost != nil { // first, so that no machine forgets without a record
		if err := l.record(ctx, actor); err != nil {
			return nil, err
		}
	}
	for _, checkpoint := range l.Checkpoints {
		aside, err := moveAside(checkpoint.File)
		if err != nil {
			return kept, cannotForget(err)
		}
		kept = append(kept, aside)
	}
	if l.Lost == nil {
		return kept, nil
	}
	if err := l.dropSnapshot(ctx); err != nil {
		return kept, cannotForget(err)
	}
	memory, err := applied.Open(in.memoryFile(), in.id)
	if err != nil {
		return kept, err
	}
	defer memory.Close()
	events, err := in.lastEvents(ctx)
	if err != nil {
		return kept, err
	}
	aside := in.memoryFile() + ".lost-" + in.now().UTC().Format("20060102T150405.000000000Z")
	if err := memory.Replace(events, aside); err != nil {
		return kept, cannotForget(err)
	}
	return append(kept, aside), nil
}

// record records on the ledger that this machine continues without events that it had applied.
func (l *Loss) record(ctx context.Context, actor string) error {
	e, err := l.in.openWithoutMemory(ctx)
	if err != nil {
		return err
	}
	defer e.Close()
	host, _ := os.Hostname() // "" if the machine has no name
	known := l.Lost.Known
	_, err = e.Do(ctx, rules.AcceptLoss{First: l.Lost.First, Last: l.Lost.Last,
		Hash: known[len(known)-1].Hash, Host: text.Shorten(text.Printable(host), 100),
		Actor: actor})
	return err
}

// dropSnapshot removes a snapshot of events that the ledger no longer has. It would be ignored,
// with a warning every time.
func (l *Loss) dropSnapshot(ctx context.Context) error {
	s, err := l.in.Journal.LoadSnapshot(ctx)
	if err != nil || s.Seq == 0 {
		return nil // there is none that would be used
	}
	events, err := l.in.Journal.Read(ctx, s.Seq-1, 1)
	if err != nil || len(events) > 0 && events[0].Hash == s.Hash {
		return err
	}
	return durable.Remove(l.in.file(snapshotName))
}

func cannotForget(err error) error {
	return signalbox.CodeFailed.Errorf(
		"check the permissions of the box and of the folder with the signing key, and run the command again",
		"cannot change what this machine remembers: %w", err)
}
