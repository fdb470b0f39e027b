package box

import (
	"context"
	"crypto/sha256"
	"errors"

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
