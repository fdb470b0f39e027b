package box

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"

	"signalbox"
	"signalbox/internal/core/rules"
	"signalbox/ledger"
)

// present is what the new place has.
type present int

const (
	nothingThere present = iota
	partThere            // the first events of the ledger
	continuesThere
)

// inspect finds out what the new place has.
func (m *migration) inspect(ctx context.Context) (found present, err error) {
	if m.target != nil {
		if found, err = m.compare(ctx); err != nil || found == continuesThere {
			return found, err
		}
	}
	if move, moved := m.move(); moved {
		if err := m.checkMove(ctx, move); err != nil {
			return 0, err
		}
	}
	return found, nil
}

// checkMove returns an error unless the new place is the one to which an earlier call has moved the
// ledger.
func (m *migration) checkMove(ctx context.Context, move rules.Move) error {
	if m.target != nil {
		if same, err := hasBlob(ctx, m.target.Journal, moveDigest(move.ID)); err != nil || same {
			return err
		}
	}
	return signalbox.CodeFailed.Errorf(
		fmt.Sprintf("complete that move with signalbox ledger migrate --to %s on %s, or cancel it with --to %s", move.Journal, cmp.Or(move.Host, "the machine that began it"), m.from),
		"%w, and %s is another place", m.moved(), m.To)
}

// moveNote is a blob that marks the new place until the move is complete, so that no other place is
// mistaken for it.
func moveNote(id string) []byte { return []byte("The ledger is being moved here: " + id + "\n") }

func moveDigest(id string) signalbox.Hash { return sha256.Sum256(moveNote(id)) }

// compare compares the events in the new place with those in the old one.
func (m *migration) compare(ctx context.Context) (present, error) {
	head, err := m.target.Journal.Head(ctx)
	if err != nil || head == 0 {
		return nothingThere, err
	}
	// it may have events only since it was opened
	if err = m.target.readID(ctx); err != nil {
		return 0, err
	}
	if id := m.target.ID(); id != m.source.ID() {
		return 0, m.refuse("the ledger of another box, %s", cmp.Or(id, "(unknown)"))
	}
	incomplete, err := hasBlob(ctx, m.target.Journal, incompleteDigest)
	if err != nil {
		return 0, err
	}
	if err := m.comparePrefix(ctx, &m.tail, min(head, m.result.Events)); err != nil {
		return 0, err
	}
	m.copiedTo = m.tail.Seq
	next, err := m.target.Journal.Read(ctx, m.copiedTo-1, 3)
	if err != nil {
		return 0, err
	}
	// a user who may not delete anything there can switch, too
	if _, moved := m.move(); moved && continues(next) {
		return continuesThere, nil
	}
	if !incomplete {
		if err := m.checkOther(ctx); err != nil {
			return 0, err
		}
	}
	switch {
	case head > m.result.Events:
		return 0, m.refuse("%d events of this ledger, more than the %d here", head, m.result.Events)
	case !incomplete && (len(next) == 0 || next[0].Type != rules.TypeLedgerMoved):
		return 0, m.refuse("a copy of this ledger that another machine may use: it is neither marked as incomplete, nor was the ledger moved away from there")
	}
	return partThere, nil
}

// continues reports whether a ledger continues after its first event, which is LedgerMoved.
func continues(events []signalbox.Event) bool {
	for _, e := range events[min(1, len(events)):] {
		if e.Type != rules.TypeRulesUpgraded {
			return e.Type == rules.TypeLedgerContinued
		}
	}
	return false
}

func (m *migration) refuse(format string, args ...any) error {
	return signalbox.CodeConflict.Errorf(
		"nothing was written there; choose an empty place, such as another schema",
		"%s has "+format, append([]any{m.To}, args...)...)
}

// checkOther returns an error if both addresses lead to the same place: then a blob that is stored
// in one is also in the other.
func (m *migration) checkOther(ctx context.Context) error {
	if m.DryRun {
		return nil
	}
	digest, err := m.target.Journal.PutBlob(ctx, bytes.NewReader(moveNote(NewID("probe"))))
	if err != nil {
		return err
	}
	same, err := hasBlob(ctx, m.source.Journal, digest)
	if err = errors.Join(err, m.target.Journal.DeleteBlob(ctx, digest)); err != nil {
		return err
	}
	if same {
		return signalbox.CodeUsage.Errorf(
			"to write the address in another way, change the setting journal",
			"%s is where the ledger is now", m.To)
	}
	return nil
}

// comparePrefix reads the events after tail up to last in both places. They must be equal, and
// valid in the new place.
func (m *migration) comparePrefix(ctx context.Context, tail *ledger.Tail, last uint64) error {
	m.report(MigrateCompare, tail.Seq, last)
	for tail.Seq < last {
		here, err := m.source.Journal.Read(ctx, tail.Seq, int(min(last-tail.Seq, readAtOnce)))
		if err != nil {
			return err
		}
		there, err := m.target.Journal.Read(ctx, tail.Seq, len(here))
		if err != nil {
			return err
		}
		if len(here) == 0 || len(there) == 0 {
			return unverified("the ledger was truncated while it was read: event %d is missing",
				tail.Seq+1)
		}
		for i := range there[:min(len(there), len(here))] {
			if there[i].Hash != here[i].Hash {
				return m.refuse("another history of this box, from event %d on", here[i].Seq)
			}
			if err := tail.Extend(&there[i]); err != nil { // its bytes have that hash
				return signalbox.CodeUnverified.Errorf(
					"remove the copy there, and run the command again",
					"the copy in %s was changed: %w", m.To, err)
			}
		}
		m.report(MigrateCompare, tail.Seq, last)
	}
	return nil
}
