package box

import (
	"context"
	"errors"
	"fmt"

	"signalbox"
	"signalbox/internal/core/engine"
	"signalbox/internal/core/journal"
	"signalbox/internal/core/rules"
	"signalbox/ledger"
)

// VerifyOptions says what to verify against. The zero value takes the box's own checkpoint and key.
type VerifyOptions struct {
	// Checkpoint is a signed note that was kept elsewhere; nil is the box's own.
	Checkpoint []byte
	// PublicKey is one that was kept elsewhere; "" is the box's own.
	PublicKey string
	// Progress, if not nil, is called now and then with the number of events verified and of all.
	Progress func(done, all uint64)
}

// Verified is what Verify found.
type Verified struct {
	ledger.Report
	// Unjudged is why the meaning of the events was not judged to the end, nil if it was.
	Unjudged error
	// Hint says what to do if it is not the events that are bad.
	Hint string
}

// Verify checks the whole ledger, and against a checkpoint if there is one. What is wrong is in the report; the error
// is for what could not be looked at.
func (l *Ledger) Verify(ctx context.Context, opts VerifyOptions) (Verified, error) {
	// The checkpoint comes first: what is appended and signed meanwhile is not missing.
	checkpoint, badCheckpoint := l.checkpointToVerify(opts)
	if classed := (*signalbox.Error)(nil); badCheckpoint != nil && !(errors.As(badCheckpoint, &classed) && classed.Code == signalbox.CodeUnverified) {
		return Verified{}, badCheckpoint
	}
	head, err := l.Journal.Head(ctx)
	if errors.Is(err, journal.ErrDamaged) {
		head, err = ledger.MaxEvents, nil // the last event is bad; perhaps it is not the first that is
	}
	if err != nil {
		return Verified{}, err
	}
	verifyOpts := &ledger.VerifyOptions{Checkpoint: checkpoint, Progress: half(opts.Progress, 0, head)}
	report, err := ledger.Verify(ctx, head, l.readWhole, verifyOpts)
	v := Verified{Report: report}
	if err == nil && report.OK {
		err = l.replay(ctx, &v, half(opts.Progress, head, head))
	}
	if err == nil && v.OK && badCheckpoint == nil && opts.Checkpoint == nil {
		err = l.checkOlder(ctx, opts.PublicKey, &v)
	}
	err = damaged(&v.Report, err)
	if err == nil && v.OK && badCheckpoint != nil {
		v.OK, v.Reason = false, badCheckpoint.Error()
		v.Hint = "compare checkpoint and key with those that you keep elsewhere: one of them is another box's, or was edited"
	}
	return v, err
}

// checkOlder compares the ledger with the smaller of the box's own two checkpoints, if they differ.
func (l *Ledger) checkOlder(ctx context.Context, public string, v *Verified) error {
	if public == "" {
		var err error
		if public, err = l.PublicKey(); err != nil {
			return nil // then there is no checkpoint either
		}
	}
	found, err := l.checkpoints(public)
	if err != nil || len(found) < 2 || found[0].Checkpoint == *v.Checkpoint {
		return err
	}
	_, err = l.treeFor(ctx, found[0])
	if classed := (*signalbox.Error)(nil); errors.As(err, &classed) && classed.Code == signalbox.CodeUnverified {
		v.OK, v.FirstBad, v.Reason = false, 1, err.Error()
		return nil
	}
	return err
}

// readWhole reads on to the first event that cannot be read, so that Verify finds out which one that is: the journal
// itself gives all that was asked for, or nothing.
func (l *Ledger) readWhole(ctx context.Context, after uint64, limit int) ([]signalbox.Event, error) {
	for {
		events, err := l.Journal.Read(ctx, after, limit)
		if !errors.Is(err, journal.ErrDamaged) || limit <= 1 {
			return events, err
		}
		limit /= 2
	}
}

// half makes the progress of one of two passes over the ledger that of both.
func half(progress func(done, all uint64), before, head uint64) func(uint64) {
	if progress == nil {
		return nil
	}
	return func(done uint64) { progress((before+done)/2, head) }
}

// replay looks for events that no signalbox would have written, though they are chained and signed like the others, and
// for a snapshot that says otherwise than the ledger.
func (l *Ledger) replay(ctx context.Context, v *Verified, progress func(uint64)) error {
	err := engine.Replay(ctx, l.Journal, progress)
	impossible := (*rules.HistoryError)(nil)
	switch {
	case errors.As(err, &impossible):
		v.OK, v.FirstBad, v.Reason = false, impossible.Seq, impossible.Error()
	case errors.Is(err, engine.ErrSnapshotDiffers):
		v.OK, v.Reason = false, err.Error()+": remove "+l.file("snapshot")
		v.Hint = "the events are whole; without the snapshot all is read from them anew"
	case errors.Is(err, rules.ErrNewer): // its meaning is for a newer signalbox to judge
		v.Unjudged = err
	default:
		return err
	}
	return nil
}

// damaged makes a finding of a database that cannot be read: somebody changed it, or the disk did.
func damaged(report *ledger.Report, err error) error {
	if !errors.Is(err, journal.ErrDamaged) {
		return err
	}
	if classed := (*signalbox.Error)(nil); errors.As(err, &classed) {
		err = classed.Err // without the way it came
	}
	report.OK, report.FirstBad, report.Reason = false, report.Events+1, err.Error()
	return nil
}

// checkpointToVerify opens the checkpoint to verify against, nil if there is none.
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

// Prove makes a proof that an event is in the ledger, against the box's last checkpoint.
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
		return nil, &signalbox.Error{Code: signalbox.CodeNotFound, Err: errors.New("the box has no checkpoint to prove against"),
			Hint: "make one first: signalbox ledger checkpoint"}
	}
	head, err := l.Journal.Head(ctx)
	if err != nil {
		return nil, err
	}
	if seq == 0 || seq > head {
		return nil, &signalbox.Error{Code: signalbox.CodeNotFound, Err: fmt.Errorf("there is no event %d, the ledger has %d", seq, head),
			Hint: "see the last events with signalbox ledger tail"}
	}
	events, err := l.Journal.Read(ctx, seq-1, 1)
	if err != nil {
		return nil, err
	}
	if len(events) == 0 || events[0].Seq != seq {
		return nil, unverified("event %d is gone", seq)
	}
	return ledger.Prove(&events[0], last.Signed, public, l.hashes(ctx, 0, last.Size))
}
