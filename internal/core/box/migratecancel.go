package box

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"

	"signalbox"
	"signalbox/internal/config"
	"signalbox/internal/core/rules"
)

// cancelNote is a blob that the new place has while the move is cancelled. One machine may cancel a
// move while another one completes it, so each writes first, and then looks at what the other has
// written: this note, or LedgerContinued in the new place. If both see it, both give up.
func cancelNote(id string) []byte {
	return []byte("The move of the ledger is being cancelled: " + id + "\n")
}

func cancelDigest(id string) signalbox.Hash { return sha256.Sum256(cancelNote(id)) }

// checkNotCancelled returns an error if the move is being cancelled, or was. It is called when the
// ledger continues in the new place, and before anyone can open it there.
func (m *migration) checkNotCancelled(ctx context.Context, move rules.Move) error {
	if incomplete, err := hasBlob(ctx, m.target.Journal, incompleteDigest); err != nil ||
		!incomplete {
		return err // it was completed before
	}
	cancelled, err := hasBlob(ctx, m.target.Journal, cancelDigest(move.ID))
	if err != nil {
		return err
	}
	if cancelled {
		return signalbox.CodeConflict.Errorf(
			fmt.Sprintf("wait until it is; if that was interrupted, run signalbox ledger migrate --to %s", m.from),
			"the move is being cancelled on another machine")
	}
	// The note is removed when the move is cancelled, so look at the old place after it.
	if err := m.source.Engine.Refresh(ctx); err != nil {
		return err
	}
	if last, moved := m.move(); !moved || last.ID != move.ID || last.Seq != move.Seq {
		return signalbox.CodeConflict.Errorf(
			fmt.Sprintf("no one can use the copy in %s; to move the ledger, choose an empty place, such as another schema", m.To),
			"the move was cancelled on another machine: the ledger continues in %s", m.from)
	}
	return nil
}

// stay cancels a move that is not complete, if there is one.
func (m *migration) stay(ctx context.Context) error {
	m.result.Outcome = Unchanged
	move, moved := m.move()
	if !moved || m.elsewhere != nil {
		return m.elsewhere
	}
	known, err := m.checkNotContinued(ctx, move)
	if err != nil {
		return err
	}
	m.result.Outcome = WouldCancel
	if m.DryRun {
		return nil
	}
	m.result.Outcome = Cancelled
	if known {
		if err := m.announceCancel(ctx, move); err != nil {
			return err
		}
	}
	if _, err := m.source.Engine.Do(ctx,
		rules.ContinueLedger{Journal: config.WithoutSecrets(m.from), Host: m.host,
			Actor: m.Actor}); err != nil {
		return err
	}
	tail := m.source.Engine.Tail()
	m.result.Events, m.result.Head = tail.Seq, tail.Hash
	if !known {
		return nil
	}
	return errors.Join(m.target.Journal.DeleteBlob(ctx, moveDigest(move.ID)),
		m.target.Journal.DeleteBlob(ctx, cancelDigest(move.ID)))
}

// announceCancel stops other machines from completing the move. It returns an error if one of them
// has continued the ledger.
func (m *migration) announceCancel(ctx context.Context, move rules.Move) error {
	if err := m.putNote(ctx, cancelNote(move.ID)); err != nil {
		return err
	}
	continued, err := m.continuedThere(ctx, move)
	if err != nil || !continued {
		return err
	}
	return errors.Join(m.moved(), m.target.Journal.DeleteBlob(ctx, cancelDigest(move.ID)))
}

// checkNotContinued returns an error if the ledger continues in the place that it was moved to, or
// if that cannot be found out. With Force, not knowing is not an error.
func (m *migration) checkNotContinued(ctx context.Context,
	move rules.Move) (known bool, err error) {
	unknown := errors.New("it is on another machine")
	if move.Journal != config.JournalSQLite || move.Host == m.host {
		unknown = m.mayConnect(ctx, m.dir, move.Journal)
		// the address is from the ledger
		if unknown == nil || move.Journal != config.JournalCluster && m.source.IsOurs(ctx) {
			m.target, unknown = m.openNew(ctx, move.Journal, destination)
		}
	}
	var continued, announced bool
	if unknown == nil {
		continued, unknown = m.continuedThere(ctx, move)
	}
	if unknown == nil && !continued {
		announced, unknown = hasBlob(ctx, m.target.Journal, moveDigest(move.ID))
		// the address means another place on this machine, such as localhost, or the copy was
		// removed
		if unknown == nil && !announced {
			unknown = errors.New(
				"the ledger was not moved to the place that has this address now, on this machine")
		}
	}
	switch {
	case unknown != nil && m.Force:
		return false, nil
	case unknown != nil:
		return false, signalbox.CodeFailed.Errorf(
			"try again when that place can be reached; if it is lost for good, use --force: if the ledger continued there, there will be two histories",
			"cannot find out whether the ledger continues in %s: %w", move.Journal, unknown)
	case continued:
		cancelling, err := hasBlob(ctx, m.target.Journal, cancelDigest(move.ID))
		if err == nil && cancelling && !m.DryRun { // it was interrupted
			err = m.target.Journal.DeleteBlob(ctx, cancelDigest(move.ID))
		}
		return true, errors.Join(m.moved(), err)
	}
	return true, nil
}

// continuedThere reports whether the ledger continues in the place that it was moved to.
func (m *migration) continuedThere(ctx context.Context, move rules.Move) (bool, error) {
	next, err := m.target.Journal.Read(ctx, move.Seq-1, 3)
	return err == nil && len(next) > 0 && next[0].Hash == m.result.Head && continues(next), err
}
