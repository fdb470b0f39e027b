package box

import (
	"context"
	"errors"
	"fmt"

	"signalbox"
	"signalbox/internal/core/applied"
	"signalbox/internal/core/engine"
	"signalbox/internal/core/journal"
	"signalbox/internal/core/rules"
	"signalbox/ledger"
)

// VerifyOptions are options for Verify.
type VerifyOptions struct {
	// Checkpoint is a signed note from a trusted place; nil means the box's own checkpoint.
	Checkpoint []byte
	// PublicKey is the key from a trusted place; "" means the box's own key.
	PublicKey string
	// NoBlobs skips the blobs that events refer to.
	NoBlobs bool
	// Progress, if not nil, is called from time to time with the number of events verified and the
	// total.
	Progress func(done, total uint64)

	// the ledger is a copy that is not complete, so do not compare it with what this machine
	// applied
	part bool
}

// Verified is the result of Verify.
type Verified struct {
	ledger.Report
	// Blobs is what was found about blobs, nil if they were not checked: because of NoBlobs, or
	// because the events are not valid. If a blob is missing or altered, OK is false, FirstBad is
	// the event that refers to the first such blob, and all Events are valid.
	Blobs *BlobReport
	// Lost is which events that this machine applied the ledger has lost, nil if none. Then OK is
	// false.
	Lost *applied.Lost
	// NotReplayed is why the rules could not be applied to all events, nil if they were.
	NotReplayed error
	// Hint is what to do if the problem is not an event.
	Hint string
}

// Verify checks the whole ledger, against a checkpoint if there is one, and the blobs that its
// events refer to. Problems with the ledger are in the result; the error is for what could not be
// read.
func (l *Ledger) Verify(ctx context.Context, opts VerifyOptions) (Verified, error) {
	// What was signed and applied comes first, because other processes may append, sign and apply
	// meanwhile.
	var (
		lost      *applied.Lost
		badMemory error
	)
	if !opts.part {
		if lost, badMemory = l.Lost(ctx); errors.Is(badMemory, journal.ErrUnavailable) {
			return Verified{}, badMemory
		}
	}
	checkpoint, badCheckpoint := l.checkpointToVerify(opts)
	if badCheckpoint != nil && signalbox.CodeOf(badCheckpoint) != signalbox.CodeUnverified {
		return Verified{}, badCheckpoint
	}
	head, err := l.Journal.Head(ctx)
	if errors.Is(err, journal.ErrDamaged) {
		// the last event is damaged, but perhaps not the first that is
		head, err = ledger.MaxEvents, nil
	}
	if err != nil {
		return Verified{}, err
	}
	// perhaps not because it was truncated
	if lost != nil || checkpoint != nil && checkpoint.Size > head {
		if err := l.checkNotMoved(ctx); err != nil {
			return Verified{}, err
		}
	}
	passes := uint64(3)
	if opts.NoBlobs {
		passes = 2
	}
	redacted := &redactions{blobs: map[signalbox.Hash]bool{}}
	verifyOpts := &ledger.VerifyOptions{Checkpoint: checkpoint, Progress: scaleProgress(opts.Progress, 0, passes, head)}
	report, err := ledger.Verify(ctx, head, redacted.collect(l.Journal.Read), verifyOpts)
	v := Verified{Report: report}
	if err == nil && report.OK {
		err = l.checkRules(ctx, &v, scaleProgress(opts.Progress, 1, passes, head))
	}
	if err == nil && v.OK && badCheckpoint == nil && opts.Checkpoint == nil {
		err = l.checkOlder(ctx, opts.PublicKey, &v)
	}
	err = recordDamage(&v.Report, err)
	if err == nil && v.OK && badCheckpoint != nil {
		v.OK, v.Reason = false, badCheckpoint.Error()
		v.Hint = "compare the checkpoint and the key with your own copies: one of them belongs to another box, or was edited"
	}
	if v.Lost = lost; err == nil {
		err = recordLoss(&v, badMemory, head)
	}
	if err == nil && v.OK && !opts.NoBlobs {
		v.Blobs, err = l.verifyBlobs(ctx, report.Events, redacted,
			scaleProgress(opts.Progress, 2, passes, head))
	}
	if v.Blobs != nil && !v.Blobs.OK() {
		first := v.Blobs.firstBad()
		v.OK, v.FirstBad, v.Reason = false, first.Event, v.Blobs.reason(first)
		v.Hint = "the events are valid, but what they refer to was removed or changed: keep the box unchanged for the investigation, and restore a backup elsewhere"
	}
	if err == nil && v.OK {
		err = l.checkStillThere(ctx, &v)
	}
	return v, err
}

// checkStillThere records in the report that the ledger lost events while it was verified: then the
// later passes read fewer of them.
func (l *Ledger) checkStillThere(ctx context.Context, v *Verified) error {
	head, err := l.Journal.Head(ctx)
	if err == nil && head < v.Events {
		v.OK, v.FirstBad, v.Reason = false, head+1,
			fmt.Sprintf("the ledger was truncated while it was verified: it ended at event %d",
				v.Events)
	}
	return err
}

// recordLoss records in the report that events are lost, or that the memory of applied events
// belongs to another box. What is wrong with the events themselves stays the reason, if there is
// something.
func recordLoss(v *Verified, badMemory error, head uint64) error {
	switch {
	case signalbox.CodeOf(badMemory) == signalbox.CodeUnverified && v.OK:
		v.OK, v.Reason, v.Hint = false, badMemory.Error(), signalbox.HintOf(badMemory)
	case v.Lost != nil && v.OK:
		v.OK, v.FirstBad, v.Reason, v.Hint = false, v.Lost.First, v.Lost.Error(), applied.Hint
	case v.Lost != nil && v.Hint == "" &&
		v.FirstBad > head: // it only ends too early: the checkpoint signed what is lost, too
		v.Hint = applied.Hint
	case badMemory != nil && v.OK:
		return badMemory
	}
	return nil
}

// checkOlder compares the ledger with the smaller of the box's own two checkpoints, if they differ.
func (l *Ledger) checkOlder(ctx context.Context, public string, v *Verified) error {
	if public == "" {
		var err error
		if public, err = l.PublicKey(); err != nil {
			return nil // without a key there is no checkpoint
		}
	}
	found, err := l.checkpoints(public)
	// without one, these were signed meanwhile
	if err != nil || len(found) < 2 || v.Checkpoint == nil || found[0].Checkpoint == *v.Checkpoint {
		return err
	}
	_, err = l.treeFor(ctx, found[0])
	if signalbox.CodeOf(err) == signalbox.CodeUnverified {
		v.OK, v.FirstBad, v.Reason = false, 1, err.Error()
		return nil
	}
	return err
}

// scaleProgress converts the progress of one of several passes over the ledger to that of all.
func scaleProgress(progress func(done, total uint64), pass, passes, head uint64) func(uint64) {
	if progress == nil {
		return nil
	}
	return func(done uint64) { progress((pass*head+done)/passes, head) }
}

// checkRules applies the rules to all events. It finds events that are chained and signed but that
// signalbox would not have written, and a snapshot that differs from the events.
func (l *Ledger) checkRules(ctx context.Context, v *Verified, progress func(uint64)) error {
	err := engine.Replay(ctx, l.Journal, v.Events, progress)
	impossible := (*rules.HistoryError)(nil)
	switch {
	case errors.As(err, &impossible):
		v.OK, v.FirstBad, v.Reason = false, impossible.Seq, impossible.Error()
	case errors.Is(err, engine.ErrSnapshotDiffers):
		v.OK, v.Reason = false, err.Error()+": remove "+l.file(snapshotName)
		v.Hint = "the events are valid; without the snapshot, the state is computed from them again"
	case errors.Is(err, rules.ErrNewer): // needs a newer signalbox
		v.NotReplayed = err
	default:
		return err
	}
	return nil
}

// recordDamage records a database that cannot be read in the report.
func recordDamage(report *ledger.Report, err error) error {
	if !errors.Is(err, journal.ErrDamaged) {
		return err
	}
	if classified, ok := errors.AsType[*signalbox.Error](err); ok {
		err = classified.Err // without the wrapping
	}
	report.OK, report.FirstBad, report.Reason = false, report.Events+1, err.Error()
	return nil
}

// checkpointToVerify returns the checkpoint to verify against, nil if there is none.
func (l *Ledger) checkpointToVerify(opts VerifyOptions) (*ledger.Checkpoint, error) {
	public := opts.PublicKey
	if public == "" {
		var err error
		if public, err = l.PublicKey(); err != nil && (opts.Checkpoint != nil || l.hadLedger()) {
			return nil, err
		}
	}
	if opts.Checkpoint == nil {
		last, err := l.lastCheckpoint(public)
		if err != nil || last == nil {
			return nil, err
		}
		return &last.Checkpoint, nil
	}
	checkpoint, err := ledger.OpenCheckpoint(opts.Checkpoint, public)
	if err != nil {
		return nil, fmt.Errorf("the checkpoint: %w", err)
	}
	return &checkpoint, nil
}

// Prove returns a proof that an event is in the ledger, based on the box's last checkpoint.
func (l *Ledger) Prove(ctx context.Context, seq uint64) (*ledger.Proof, error) {
	public, err := l.PublicKey()
	if err != nil {
		return nil, err
	}
	last, err := l.lastCheckpoint(public)
	if err != nil {
		return nil, err
	}
	if last == nil {
		return nil, signalbox.CodeNotFound.Errorf("create one with signalbox ledger checkpoint",
			"the box has no checkpoint, which a proof needs")
	}
	head, err := l.Journal.Head(ctx)
	if err != nil {
		return nil, err
	}
	if seq == 0 || seq > head {
		return nil, signalbox.CodeNotFound.Errorf(
			"see the last events with signalbox ledger tail",
			"there is no event %d: the ledger ends at event %d", seq, head)
	}
	events, err := l.Journal.Read(ctx, seq-1, 1)
	if err != nil {
		return nil, err
	}
	if len(events) == 0 || events[0].Seq != seq {
		return nil, unverified("event %d is missing", seq)
	}
	return ledger.Prove(&events[0], last.Signed, public, l.hashes(ctx, 0, last.Size))
}
