package box

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"time"

	"signalbox"
	"signalbox/internal/config"
	"signalbox/internal/core/engine"
	"signalbox/internal/core/journal"
	"signalbox/internal/core/rules"
)

// incompleteNote is a blob that a place has while a ledger is copied to it. Until it is removed no
// one can open the ledger there, because an incomplete copy looks like a shorter ledger, which
// could be continued.
const incompleteNote = "The ledger in this place is an incomplete copy. When the copy is complete, signalbox ledger migrate removes this note.\n"

var errIncomplete = errors.New("incomplete copy")

var incompleteDigest = signalbox.Hash(sha256.Sum256([]byte(incompleteNote)))

// hasBlob reports whether a journal has a blob.
func hasBlob(ctx context.Context, j journal.Journal, digest signalbox.Hash) (bool, error) {
	b, err := j.OpenBlob(ctx, digest)
	switch {
	case errors.Is(err, journal.ErrNoBlob):
		return false, nil
	case err != nil:
		return false, err
	}
	return true, b.Close()
}

// checkComplete returns an error if a journal has an incomplete copy of a ledger.
func checkComplete(ctx context.Context, j journal.Journal, address string) error {
	incomplete, err := hasBlob(ctx, j, incompleteDigest)
	if err != nil || !incomplete {
		return err
	}
	return signalbox.CodeFailed.Errorf(
		"complete it with signalbox ledger migrate on the machine that began it; until then use the old place",
		"the ledger in %s is an %w", address, errIncomplete)
}

const (
	// awaitPoll is how often a machine of a cluster checks whether the ledger was moved there.
	awaitPoll = 250 * time.Millisecond
	// emptyPatience is how long a machine that remembers events waits before it reports that an
	// empty ledger has lost them: a move first creates the ledger, and then marks it as incomplete,
	// which may take an election.
	emptyPatience = time.Minute
)

// awaitLedger waits while the ledger is not in the cluster: until another machine has created it
// there, or moved it there or back. The node that this process runs is needed for that, and for
// moving the ledger away.
func (l *Ledger) awaitLedger(ctx context.Context, j journal.Journal, address string) error {
	patience := cmp.Or(l.options.emptyPatience, emptyPatience)
	for started := time.Now(); ; {
		head, err := j.Head(ctx)
		if err == nil {
			err = checkComplete(ctx, j, address)
		}
		var moved error
		if err == nil && head > 0 {
			moved, err = l.movedAway(ctx, j, head)
		}
		empty := err == nil && head == 0
		if err == nil && !empty && moved == nil && l.away != nil {
			l.away = nil
			l.options.Log.Warn("the ledger is back in the cluster: continuing")
		}
		if !empty && moved == nil && !errors.Is(err, errIncomplete) || ctx.Err() != nil || empty &&
			time.Since(started) >= patience && l.remembers() {
			return err
		}
		if moved == nil && l.away == nil && !l.awaited {
			l.awaited = true
			l.options.Log.Warn("waiting until another machine has created the ledger in the cluster, or moved it there")
		}
		select {
		case <-ctx.Done():
			return cmp.Or(moved, ctx.Err())
		case <-time.After(awaitPoll):
		}
	}
}

// movedAway returns an error that matches rules.ErrMoved if the ledger in the cluster continues
// elsewhere, and says once that this process only runs the node.
func (l *Ledger) movedAway(ctx context.Context, j journal.Journal, head uint64) (moved, err error) {
	if ended, err := endsWithMove(ctx, j, head); !ended {
		return nil, err
	}
	if l.away == nil || l.awayAt != head {
		away := l.checkNotMoved(ctx)
		if away != nil && !errors.Is(away, rules.ErrMoved) {
			return nil, away
		}
		if l.away = away; away != nil {
			l.awayAt = head
			l.options.Log.Warn(fmt.Sprintf(
				"only running the node of this machine: %v; press Ctrl-C to stop", l.away), "hint",
				signalbox.HintOf(l.away))
		}
	}
	return l.away, nil
}

// Resume is called after the ledger was moved away. In a process that runs a node of a cluster of
// several, it waits until the ledger is back, and opens the engine again: until then the machines
// that move the ledger need the node. Otherwise, and when ctx is done, it returns the error that
// says where the ledger continues.
func (b *Box) Resume(ctx context.Context, moved error) error {
	if !b.hosts {
		return cmp.Or(b.movedTo(b.Engine), moved)
	}
	err := b.whenAvailable(ctx,
		func() error { return b.awaitLedger(ctx, b.Journal, config.JournalCluster) })
	if ctx.Err() != nil {
		return moved
	}
	if err != nil {
		return err
	}
	if err := errors.Join(b.Engine.Close(), closeMemory(b.memory)); err != nil {
		return err
	}
	b.memory = nil
	return b.whenAvailable(ctx, func() error {
		e, memory, err := b.openEngine(ctx)
		if err == nil {
			b.Engine, b.memory = e, memory
		}
		return err
	})
}

// endsWithMove reports whether the event head, the last one, says that the ledger was moved.
func endsWithMove(ctx context.Context, j journal.Journal, head uint64) (bool, error) {
	last, err := j.Read(ctx, head-1, 1)
	return err == nil && len(last) > 0 && last[0].Type == rules.TypeLedgerMoved, err
}

// checkNotMoved returns an error if the last event of a ledger says that it continues elsewhere.
func (l *Ledger) checkNotMoved(ctx context.Context) error {
	head, err := l.Journal.Head(ctx)
	if err != nil || head == 0 {
		return nil // others report it
	}
	if ended, _ := endsWithMove(ctx, l.Journal, head); !ended {
		return nil
	}
	e, err := l.openWithoutMemory(ctx)
	if err != nil {
		return err
	}
	defer e.Close()
	return l.movedTo(e)
}

// movedTo returns an error that matches rules.ErrMoved if the ledger was moved away. Its hint has
// the address with the user of this machine: the one that is recorded is that of the machine that
// moved the ledger, who may have more rights.
func (l *Ledger) movedTo(e *engine.Engine) (err error) {
	var move rules.Move
	e.View(func(s *rules.State) {
		err = s.Moved()
		move, _ = s.LastMove()
	})
	own, ownErr := config.ReadJournal(l.Dir)
	if err == nil || ownErr != nil || move.Journal == config.JournalSQLite {
		return err
	}
	address := config.WithUserOf(move.Journal, own)
	lacksUser := address != move.Journal && address == config.WithUserOf(move.Journal, "")
	return &signalbox.Error{Code: signalbox.CodeOf(err), Err: err,
		Hint: rules.HintMoved(address, lacksUser)}
}
