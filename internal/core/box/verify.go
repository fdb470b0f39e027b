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
	v := &verification{Ledger: l, opts: opts,
		redacted: &redactions{blobs: map[signalbox.Hash]bool{}}}
	err := v.run(ctx)
	return v.found, err
}

// verification is one call of Verify.
type verification struct {
	*Ledger
	opts     VerifyOptions
	head     uint64 // of the ledger, when the verification began
	redacted *redactions
	found    Verified
}

func (v *verification) run(ctx context.Context) error {
	// What was signed and applied comes first, because other processes may append, sign and apply
	// meanwhile.
	var (
		lost      *applied.Lost
		badMemory error
	)
	if !v.opts.part {
		if lost, badMemory = v.Lost(ctx); errors.Is(badMemory, journal.ErrUnavailable) {
			return badMemory
		}
	}
	checkpoint, badCheckpoint := v.checkpoint()
	if badCheckpoint != nil && signalbox.CodeOf(badCheckpoint) != signalbox.CodeUnverified {
		return badCheckpoint
	}
	var err error
	v.head, err = v.Journal.Head(ctx)
	if errors.Is(err, journal.ErrDamaged) {
		// the last event is damaged, but perhaps not the first that is
		v.head, err = ledger.MaxEvents, nil
	}
	if err != nil {
		return err
	}
	// perhaps not because it was truncated
	if lost != nil || checkpoint != nil && checkpoint.Size > v.head {
		if err := v.checkNotMoved(ctx); err != nil {
			return err
		}
	}
	found := &v.found
	found.Report, err = ledger.Verify(ctx, v.head, v.redacted.collect(v.Journal.Read),
		&ledger.VerifyOptions{Checkpoint: checkpoint, Progress: v.progress(0)})
	if err == nil && found.OK {
		err = v.checkRules(ctx)
	}
	if err == nil && found.OK && badCheckpoint == nil && v.opts.Checkpoint == nil {
		err = v.checkOlder(ctx)
	}
	err = recordDamage(&found.Report, err)
	if err == nil && found.OK && badCheckpoint != nil {
		found.OK, found.Reason = false, badCheckpoint.Error()
		found.Hint = "compare the checkpoint and the key with your own copies: one of them belongs to another box, or was edited"
	}
	if found.Lost = lost; err == nil {
		err = v.recordLoss(badMemory)
	}
	if err == nil && found.OK && !v.opts.NoBlobs {
		found.Blobs, err = verifyBlobs(ctx, v.Ledger, found.Events, v.redacted, v.progress(2))
	}
	if found.Blobs != nil && !found.Blobs.OK() {
		first := found.Blobs.firstBad()
		found.OK, found.FirstBad, found.Reason = false, first.Event, found.Blobs.reason(first)
		found.Hint = "the events are valid, but what they refer to was removed or changed: keep the box unchanged for the investigation, and restore a backup elsewhere"
	}
	if err == nil && found.OK {
		err = v.checkStillThere(ctx)
	}
	return err
}

// checkStillThere records in the report that the ledger lost events while it was verified: then the
// later passes read fewer of them.
func (v *verification) checkStillThere(ctx context.Context) error {
	head, err := v.Journal.Head(ctx)
	if found := &v.found; err == nil && head < found.Events {
		found.OK, found.FirstBad, found.Reason = false, head+1,
			fmt.Sprintf("the ledger was truncated while it was verified: it ended at event %d",
				found.Events)
	}
	return err
}

// recordLoss records in the report that events are lost, or that the memory of applied events
// belongs to another box. What is wrong with the events themselves stays the reason, if there is
// something.
func (v *verification) recordLoss(badMemory error) error {
	found := &v.found
	switch {
	case signalbox.CodeOf(badMemory) == signalbox.CodeUnverified && found.OK:
		found.OK, found.Reason, found.Hint = false, badMemory.Error(), signalbox.HintOf(badMemory)
	case found.Lost != nil && found.OK:
		found.OK, found.FirstBad, found.Reason, found.Hint = false, found.Lost.First,
			found.Lost.Error(), applied.Hint
	case found.Lost != nil && found.Hint == "" &&
		found.FirstBad > v.head: // it only ends too early: the checkpoint signed what is lost, too
		found.Hint = applied.Hint
	case badMemory != nil && found.OK:
		return badMemory
	}
	return nil
}

// checkOlder compares the ledger with the smaller of the box's own two checkpoints, if they differ.
func (v *verification) checkOlder(ctx context.Context) error {
	public, checkpoint := v.opts.PublicKey, v.found.Checkpoint
	if public == "" {
		var err error
		if public, err = v.PublicKey(); err != nil {
			return nil // without a key there is no checkpoint
		}
	}
	own, err := v.checkpoints(public)
	// without one, these were signed meanwhile
	if err != nil || len(own) < 2 || checkpoint == nil || own[0].Checkpoint == *checkpoint {
		return err
	}
	_, err = v.treeFor(ctx, own[0])
	if signalbox.CodeOf(err) == signalbox.CodeUnverified {
		v.found.OK, v.found.FirstBad, v.found.Reason = false, 1, err.Error()
		return nil
	}
	return err
}

// progress converts the progress of one of several passes over the ledger, from 0, to that of all.
func (v *verification) progress(pass uint64) func(uint64) {
	if v.opts.Progress == nil {
		return nil
	}
	passes := uint64(3)
	if v.opts.NoBlobs {
		passes = 2
	}
	return func(done uint64) { v.opts.Progress((pass*v.head+done)/passes, v.head) }
}

// checkRules applies the rules to all events. It finds events that are chained and signed but that
// signalbox would not have written, and a snapshot that differs from the events.
func (v *verification) checkRules(ctx context.Context) error {
	found := &v.found
	err := engine.Replay(ctx, v.Journal, found.Events, v.progress(1))
	impossible := (*rules.HistoryError)(nil)
	switch {
	case errors.As(err, &impossible):
		found.OK, found.FirstBad, found.Reason = false, impossible.Seq, impossible.Error()
	case errors.Is(err, engine.ErrSnapshotDiffers):
		found.OK, found.Reason = false, err.Error()+": remove "+v.file(snapshotName)
		found.Hint = "the events are valid; without the snapshot, the state is computed from them again"
	case errors.Is(err, rules.ErrNewer): // needs a newer signalbox
		found.NotReplayed = err
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

// checkpoint returns the checkpoint to verify against, nil if there is none.
func (v *verification) checkpoint() (*ledger.Checkpoint, error) {
	given, public := v.opts.Checkpoint, v.opts.PublicKey
	if public == "" {
		var err error
		if public, err = v.PublicKey(); err != nil && (given != nil || v.hadLedger()) {
			return nil, err
		}
	}
	if given == nil {
		last, err := v.lastCheckpoint(public)
		if err != nil || last == nil {
			return nil, err
		}
		return &last.Checkpoint, nil
	}
	checkpoint, err := ledger.OpenCheckpoint(given, public)
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
