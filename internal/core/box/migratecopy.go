package box

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"

	"signalbox"
	"signalbox/internal/core/journal"
	"signalbox/ledger"
)

// copyEvents copies the events that the new place does not have, and the blobs that all events
// refer to. It reads the old place to its end. The first time it starts with the first event,
// because blobs of events that are there already may be missing.
func (m *migration) copyEvents(ctx context.Context) error {
	if err := m.source.Engine.Refresh(ctx); err != nil {
		return err
	}
	total := m.source.Engine.Tail().Seq
	for after := m.refs.last; after < total; {
		events, err := m.source.Journal.Read(ctx, after, int(min(total-after, uint64(m.batch))))
		if err != nil {
			return err
		}
		if len(events) == 0 {
			return unverified("the ledger was truncated: event %d is missing", after+1)
		}
		for i := range events {
			m.refs.add(&events[i])
		}
		after = events[len(events)-1].Seq
		if err := m.append(ctx, events); err != nil {
			return err
		}
		m.report(MigrateCopy, after, total)
	}
	if err := m.copyBlobs(ctx); err != nil {
		return err
	}
	for digest := range m.refs.redacted { // some were copied before they were redacted
		if m.deleted[digest] {
			continue
		}
		if err := m.target.Journal.DeleteBlob(ctx, digest); err != nil {
			return err
		}
		m.deleted[digest] = true
	}
	return nil
}

// append appends those of the events that the new place does not have.
func (m *migration) append(ctx context.Context, events []signalbox.Event) error {
	first := events[0].Seq
	if last := events[len(events)-1].Seq; last <= m.copiedTo {
		return nil
	}
	if first <= m.copiedTo {
		events = events[m.copiedTo-first+1:]
	}
	last := m.tail.Hash
	for i := range events {
		err := m.tail.Extend(&events[i])
		if err == nil {
			err = ledger.Validate(&events[i])
		}
		if err != nil {
			return unverified("the ledger was changed while it was copied: %w", err)
		}
	}
	err := m.target.Journal.Append(ctx, m.copiedTo, events)
	if repairer, ok := m.target.database().(journal.Repairer); ok &&
		errors.Is(err, journal.ErrClockSkew) {
		// These were written with a clock that was ahead. CorrectClock has set the time back later:
		// otherwise the new place refuses the event that would continue the ledger there.
		err = repairer.ReplaceTail(ctx, last, m.copiedTo, events)
	}
	if err != nil {
		if errors.Is(err, journal.ErrConflict) {
			return m.refuse("new events that another process writes")
		}
		return err
	}
	m.copiedTo = m.tail.Seq
	return nil
}

// copiers is how many blobs are copied at once, because most of the time is spent waiting for the
// other machine.
const copiers = 8

// copyBlobs copies the blobs that were not looked at yet and that the new place does not have.
func (m *migration) copyBlobs(ctx context.Context) error {
	blobs := m.refs.blobs[m.blobsDone:]
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var (
		next    atomic.Int64
		running sync.WaitGroup
		mu      sync.Mutex // guards m.copied and m.result.Blobs
	)
	for range min(copiers, len(blobs)) {
		running.Go(func() {
			for i := next.Add(1) - 1; i < int64(len(blobs)) &&
				ctx.Err() == nil; i = next.Add(1) - 1 {
				if m.refs.redacted[blobs[i]] {
					continue // its bytes may still exist
				}
				there, isNew, err := m.copyBlob(ctx, blobs[i])
				if err != nil {
					cancel(err)
					return
				}
				mu.Lock()
				if there {
					m.copied[blobs[i]] = true
				}
				if isNew {
					m.result.Blobs++
				}
				mu.Unlock()
			}
		})
	}
	running.Wait()
	if err := context.Cause(ctx); err != nil {
		return err
	}
	m.blobsDone = len(m.refs.blobs)
	return nil
}

// copyBlob copies a blob. It reports whether the new place has it, and whether that is new.
func (m *migration) copyBlob(ctx context.Context,
	digest signalbox.Hash) (there, isNew bool, err error) {
	if there, err = hasBlob(ctx, m.target.Journal, digest); there || err != nil {
		return there, false, err
	}
	r, err := m.source.Journal.GetBlob(ctx, digest)
	switch {
	case errors.Is(err, journal.ErrNoBlob): // it was redacted meanwhile, or lost, or the reference is not to a blob
		return false, false, nil
	case errors.Is(err, journal.ErrDamaged):
		return false, false, signalbox.CodeUnverified.Errorf(
			"restore its file from a copy or remove it with signalbox blob redact, then run the command again",
			"blob %s is damaged: %w", digest, err)
	case err != nil:
		return false, false, err
	}
	defer r.Close()
	got, err := m.target.Journal.PutBlob(ctx, r)
	if err == nil && got != digest {
		err = unverified("blob %s was changed: its bytes have the digest %s", digest, got)
	}
	return err == nil, true, err
}

// missing returns the blobs that the old place should have, and does not.
func (m *migration) missing() (missing []signalbox.Hash) {
	for _, digest := range m.refs.blobs {
		if m.refs.required[digest] && !m.refs.redacted[digest] && !m.copied[digest] {
			missing = append(missing, digest)
		}
	}
	return missing
}

// checkCopy verifies the copy like ledger verify. It must lack only what the old place lacks.
func (m *migration) checkCopy(ctx context.Context) error {
	m.report(MigrateCheck, 0, m.copiedTo)
	report, err := m.target.Verify(ctx, VerifyOptions{Checkpoint: m.checkpoint, part: true,
		Progress: m.reportAs(MigrateCheck)})
	switch {
	case err != nil:
		return err
	case report.NotReplayed != nil:
		return report.NotReplayed
	case report.OK, report.Blobs != nil && report.Blobs.Altered == 0 &&
		report.Blobs.Missing == uint64(len(m.missing())):
		return nil
	}
	return signalbox.CodeUnverified.Errorf(
		"the ledger is still used where it was; remove the copy, and run the command again",
		"the copy in %s is not intact: %s", m.To, report.Reason)
}
