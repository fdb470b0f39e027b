package box

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"signalbox"
	"signalbox/internal/config"
	"signalbox/internal/core/engine"
	"signalbox/internal/core/journal"
	"signalbox/internal/core/journal/nats"
	"signalbox/internal/core/rules"
	"signalbox/internal/durable"
	"signalbox/ledger"
)

// MigrateOptions are options for Migrate.
type MigrateOptions struct {
	Options
	// To is where to move the ledger: a value of the setting journal.
	To string
	// Actor is who moves it.
	Actor string
	// DryRun checks everything, and changes nothing.
	DryRun bool
	// Force cancels a move although it cannot be found out whether the ledger continues in the
	// other place.
	Force bool
	// Repair leaves invalid events at the end of the ledger behind. A copy in JetStream, from which
	// events cannot be removed, is repaired in this way.
	Repair bool
	// Progress, if not nil, is called at the start of each step and from time to time, with the
	// number of events done and the total.
	Progress func(step MigrateStep, done, total uint64)

	batch int // for tests: the number of events in an append; 0 means journal.MaxAppend
}

// MigrateStep is a step of Migrate.
type MigrateStep string

const (
	MigrateVerify  MigrateStep = "verify"  // the ledger in the old place
	MigrateCompare MigrateStep = "compare" // what the new place already has
	MigrateCopy    MigrateStep = "copy"
	MigrateCheck   MigrateStep = "check" // the copy
	MigrateSwitch  MigrateStep = "switch"
)

// MigrateOutcome is what Migrate did, or would do.
type MigrateOutcome string

const (
	Moved     MigrateOutcome = "moved"      // the ledger continues in the new place
	WouldMove MigrateOutcome = "would move" // with DryRun
	// the ledger had been moved there before, and only the setting was changed
	Switched    MigrateOutcome = "switched"
	WouldSwitch MigrateOutcome = "would switch" // with DryRun
	// an incomplete move; the ledger continues where it is
	Cancelled   MigrateOutcome = "cancelled"
	WouldCancel MigrateOutcome = "would cancel" // with DryRun
	Unchanged   MigrateOutcome = "unchanged"    // the ledger is there already
)

// MigrateResult describes what Migrate did.
type MigrateResult struct {
	Outcome  MigrateOutcome
	Box      string
	From, To string
	// Events is the length of the ledger, and Head the hash of its last event.
	Events uint64
	Head   signalbox.Hash
	// Present is how many of the events the new place had already.
	Present uint64
	// Blobs is the number of blobs that were copied.
	Blobs int
	// Missing are blobs that an event refers to, that were not redacted, and that the old place
	// does not have.
	Missing []signalbox.Hash
	// Repaired reports whether invalid events were left behind: the old place does not say where
	// the ledger continues. Removed is the file with them, "" if an earlier call has written it.
	Repaired bool
	Removed  string
	// Unsigned is why the moved ledger could not be signed although the key is on this host, nil if
	// it was.
	Unsigned error
}

// Migrate moves the ledger of the box in dir to another place, and changes the setting journal. The
// ledger may be in use until the copy is almost complete. Then the event LedgerMoved ends it in the
// old place, where every process refuses to work from then on. The copy continues with
// LedgerContinued. After an interruption at any moment, call Migrate again: it continues.
//
// If the ledger is where it should be, but an incomplete move has ended it, Migrate cancels the
// move.
func Migrate(ctx context.Context, dir string, opts *MigrateOptions) (*MigrateResult, error) {
	m := &migration{MigrateOptions: *opts, dir: dir, refs: newBlobRefs(),
		copied: map[signalbox.Hash]bool{}, deleted: map[signalbox.Hash]bool{}}
	if m.batch == 0 {
		m.batch = journal.MaxAppend
	}
	if m.Log == nil {
		m.Log = slog.New(slog.DiscardHandler)
	}
	m.host, _ = os.Hostname()
	if err := m.checkSetting(); err != nil {
		return nil, err
	}
	if !m.DryRun {
		lock, err := m.lock(ctx)
		if err != nil {
			return nil, err
		}
		defer lock.Release()
	}
	defer m.close()
	err := m.openSource(ctx)
	if err == nil {
		err = m.run(ctx)
	}
	if err != nil {
		return nil, m.explain(err)
	}
	m.result.Box, m.result.From, m.result.To = m.source.ID(), m.from, m.To
	return &m.result, nil
}

// migration is one call of Migrate.
type migration struct {
	MigrateOptions
	dir, from, host string

	source *Box // its configuration is not loaded
	target *Ledger
	// invalid is the old place if it has invalid events; source is a fork of it without them.
	invalid *Ledger
	// elsewhere is set if this machine remembers that the ledger continues elsewhere.
	elsewhere error

	checkpoint []byte // the last one before the copy began, nil if there is none
	copiedTo   uint64 // the last event that is in both places
	tail       ledger.Tail
	refs       *blobRefs
	blobsDone  int // the first of refs.blobs that were not looked at yet
	copied     map[signalbox.Hash]bool
	deleted    map[signalbox.Hash]bool
	result     MigrateResult
}

func (m *migration) report(step MigrateStep, done, total uint64) {
	if m.Progress != nil {
		m.Progress(step, done, max(done, total))
	}
}

// reportAs returns m.report for one step.
func (m *migration) reportAs(step MigrateStep) func(done, total uint64) {
	return func(done, total uint64) { m.report(step, done, total) }
}

// checkSetting checks that the configuration can be changed in the end, before anything else is
// done.
func (m *migration) checkSetting() error {
	var err error
	if m.from, err = config.ReadJournal(m.dir); err != nil {
		return err
	}
	_, _, err = withJournal(m.dir, m.To)
	return err
}

func (m *migration) lock(ctx context.Context) (*durable.Lock, error) {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	lock, err := durable.Acquire(ctx, filepath.Join(m.dir, "migrate.lock"))
	if errors.Is(err, context.DeadlineExceeded) {
		return nil, signalbox.CodeConflict.Errorf("wait until it has ended",
			"another process is moving the ledger")
	}
	return lock, err
}

func (m *migration) close() {
	if m.source != nil {
		m.source.Close()
	}
	if m.target != nil {
		m.target.Close()
	}
	if m.invalid != nil {
		m.invalid.Close()
	}
}

func (m *migration) explain(err error) error {
	if signalbox.CodeOf(err) != 0 || errors.Is(err, context.Canceled) {
		return err
	}
	return signalbox.CodeFailed.Errorf("run the command again: it continues where it stopped",
		"cannot move the ledger: %w", err)
}

func (m *migration) openSource(ctx context.Context) error {
	l, err := openLedgerAt(ctx, m.dir, m.from, &m.Options, readWrite)
	if err != nil {
		return err
	}
	if m.Repair {
		if valid, err := m.leaveInvalid(ctx, l); err != nil {
			return errors.Join(err, l.Close())
		} else if valid != nil {
			m.source, m.invalid = valid, l
			return nil
		}
	}
	e, memory, err := l.openEngine(ctx)
	// this machine has worked with the ledger elsewhere, where it continues
	if errors.Is(err, rules.ErrMoved) {
		m.elsewhere = err
		e, err = l.openWithoutMemory(ctx)
	}
	if err != nil {
		l.Close()
		return err
	}
	m.source = &Box{Ledger: l, Engine: e, memory: memory}
	if l.ID() == "" {
		return signalbox.CodeFailed.Errorf("run signalbox init --journal",
			"the box is not initialized")
	}
	return nil
}

// move returns the move that ended the ledger in the old place, if there is one.
func (m *migration) move() (move rules.Move, moved bool) {
	m.source.Engine.View(func(s *rules.State) { move, moved = s.LastMove() })
	return move, moved
}

func (m *migration) run(ctx context.Context) error {
	tail := m.source.Engine.Tail()
	m.result.Events, m.result.Head = tail.Seq, tail.Hash
	if m.from == m.To {
		return m.stay(ctx)
	}
	found, err := m.openTarget(ctx)
	if err != nil {
		return err
	}
	if found == continuesThere {
		return m.switchOver(ctx)
	}
	if err := m.verifySource(ctx); err != nil {
		return err
	}
	m.result.Present = m.copiedTo
	if m.DryRun {
		m.result.Outcome = WouldMove
		return nil
	}
	return m.moveLedger(ctx)
}

// verifySource verifies the ledger in the old place like ledger verify. It accepts missing blobs,
// because they cannot be recovered by refusing.
func (m *migration) verifySource(ctx context.Context) error {
	m.report(MigrateVerify, 0, m.result.Events)
	if public, err := m.source.PublicKey(); err == nil {
		last, err := m.source.lastCheckpoint(public)
		if err != nil {
			return err
		}
		if last != nil {
			m.checkpoint = last.Signed
		}
	}
	report, err := m.source.Verify(ctx, VerifyOptions{Progress: m.reportAs(MigrateVerify)})
	if err != nil {
		return err
	}
	if report.NotReplayed != nil {
		return report.NotReplayed
	}
	if !report.OK && (report.Blobs == nil || report.Blobs.Altered > 0) {
		hint := cmp.Or(report.Hint, "restore the ledger from a backup, then move it")
		if report.Blobs != nil {
			hint = "restore the blob from a copy or remove it with signalbox blob redact, then run the command again"
		}
		return signalbox.CodeUnverified.Errorf(hint,
			"the ledger cannot be moved, because it is not intact: %s", report.Reason)
	}
	ahead, err := FindAhead(ctx, m.source.Ledger)
	if err == nil && ahead != nil { // a database would refuse new events
		err = signalbox.CodeFailed.Errorf(
			"set it back with signalbox ledger repair --clock, then run the command again",
			"the ledger cannot be moved, because its time is %s ahead",
			ahead.Ledger.Sub(ahead.Clock).Round(time.Second))
	}
	return err
}

// openNew opens the journal in a place other than the present one.
func (m *migration) openNew(ctx context.Context, address string, how access) (*Ledger, error) {
	j, err := m.openJournal(ctx, m.dir, address, how)
	if err != nil {
		return nil, err
	}
	l := newLedger(m.dir, &m.Options)
	l.Journal = j
	if err = l.readID(ctx); err != nil {
		l.Close()
		return nil, err
	}
	return l, nil
}

// openTarget opens the new place and finds out what it has. It returns an error if that is anything
// but the first events of this ledger, or the whole ledger after it was moved there. It writes
// nothing, except that in a cluster it creates an empty ledger that is marked as incomplete:
// stopping the node of this machine and starting it again would cost an election.
func (m *migration) openTarget(ctx context.Context) (present, error) {
	how := destination
	_, moved := m.move()
	if m.To == config.JournalCluster {
		// the caller has not named the machines
		if err := m.mayConnect(ctx, m.dir, m.To); err != nil {
			return 0, err
		}
		// A ledger that was moved elsewhere does not move here. Its place may be this cluster, so
		// this machine's data of the cluster must not be moved aside.
		if !m.DryRun && !moved {
			how = newDestination
		}
	}
	l, err := m.openNew(ctx, m.To, how)
	if moved && errors.Is(err, nats.ErrOtherKind) {
		return 0, errors.Unwrap(err) // openCluster says that there is none
	}
	missing := signalbox.CodeOf(err) == signalbox.CodeNotFound
	if err != nil && !missing {
		return 0, err
	}
	if !missing {
		m.target = l
	}
	found, err := m.inspect(ctx)
	if err == nil && how == newDestination && found == nothingThere {
		err = m.putNote(ctx, []byte(incompleteNote))
	}
	return found, err
}

// moveLedger copies the ledger, ends it in the old place, and continues it in the new one.
func (m *migration) moveLedger(ctx context.Context) error {
	if found, err := m.prepareTarget(ctx); err != nil {
		return err
	} else if found == continuesThere {
		return m.switchOver(ctx)
	}
	move, moved := m.move()
	if err := m.copyMost(ctx, moved); err != nil {
		return err
	}
	// saves a snapshot, too
	e, err := engine.Open(ctx, m.target.Journal, &engine.Options{Now: m.Now, Log: m.Log})
	if err != nil {
		return err
	}
	defer e.Close()
	if err := m.checkCopy(ctx); err != nil {
		return err
	}
	m.report(MigrateSwitch, m.copiedTo, m.copiedTo)
	checked := m.tail
	if !moved {
		if move, err = m.end(ctx); err != nil {
			return err
		}
	}
	if err := m.continueThere(ctx, e, &checked, move); err != nil {
		return err
	}
	tail := e.Tail()
	m.result.Events, m.result.Head = tail.Seq, tail.Hash
	m.result.Missing = m.missing()
	m.result.Outcome = Moved
	m.target.id = m.source.ID()
	// A machine that remembers events after the invalid ones could not call Migrate again.
	if m.invalid == nil {
		if err := m.target.remember(ctx); err != nil {
			return err
		}
	}
	if err := m.finish(ctx, move); err != nil {
		return err
	}
	if _, err := (&Box{Ledger: m.target, Engine: e}).Sign(ctx); err != nil &&
		!errors.Is(err, ErrNoKey) {
		m.result.Unsigned = err
	}
	return nil
}

// prepareTarget marks the new place as an incomplete copy, and returns what it has.
func (m *migration) prepareTarget(ctx context.Context) (found present, err error) {
	if m.target == nil {
		if m.target, err = m.openNew(ctx, m.To, newDestination); err != nil {
			return 0, err
		}
	}
	if err := m.putNote(ctx, []byte(incompleteNote)); err != nil {
		return 0, err
	}
	// Another machine may have completed a move to the same place meanwhile, so the note may be on
	// a ledger that is in use.
	if err := m.source.Engine.Refresh(ctx); err != nil {
		return 0, err
	}
	m.result.Events = m.source.Engine.Tail().Seq
	return m.inspect(ctx)
}

// copyMost copies the ledger. If it has not ended yet, other processes append meanwhile: copyMost
// then copies until little is left, so that they must stop only for a moment.
func (m *migration) copyMost(ctx context.Context, ended bool) error {
	const little, rounds = 100, 10
	for range rounds {
		before := m.copiedTo
		if err := m.copyEvents(ctx); err != nil {
			return err
		}
		if ended || m.copiedTo-before < little {
			break
		}
	}
	return nil
}

// continueThere copies the rest of the ledger, which has ended, and continues it in the new place,
// whose engine is e. The copy was checked as far as the event checked.
func (m *migration) continueThere(ctx context.Context, e *engine.Engine, checked *ledger.Tail,
	move rules.Move) error {
	if err := m.copyEvents(ctx); err != nil {
		return err
	}
	if err := m.comparePrefix(ctx, checked, m.copiedTo); err != nil {
		return err
	}
	if tail := m.source.Engine.Tail(); checked.Seq != tail.Seq || checked.Hash != tail.Hash {
		return unverified("the copy ends with event %d, but the ledger with event %d", checked.Seq,
			tail.Seq)
	}
	if err := e.Refresh(ctx); err != nil {
		return err
	}
	if _, err := e.Do(ctx, rules.ContinueLedger{Journal: config.WithoutSecrets(m.To), Host: m.host,
		Actor: m.Actor}); err != nil {
		return err
	}
	return m.checkNotCancelled(ctx, move)
}

// putNote stores a note in the new place.
func (m *migration) putNote(ctx context.Context, note []byte) error {
	_, err := m.target.Journal.PutBlob(ctx, bytes.NewReader(note))
	return err
}

// end ends the ledger in the old place. The new place has the id of the move first, so that the
// move can be completed whatever happens.
func (m *migration) end(ctx context.Context) (rules.Move, error) {
	id := NewID("move")
	if err := m.putNote(ctx, moveNote(id)); err != nil {
		return rules.Move{}, err
	}
	if _, err := m.source.Engine.Do(ctx, rules.MoveLedger{Journal: config.WithoutSecrets(m.To),
		Host: m.host, Move: id, Actor: m.Actor}); err != nil {
		return rules.Move{}, err
	}
	move, _ := m.move()
	return move, nil
}

// finish removes the notes, so that the ledger can be opened in the new place, and changes the
// setting.
func (m *migration) finish(ctx context.Context, move rules.Move) error {
	for _, note := range []signalbox.Hash{moveDigest(move.ID), incompleteDigest} {
		// on another machine, which may have no right to delete, there is none
		there, err := hasBlob(ctx, m.target.Journal, note)
		if err == nil && there {
			err = m.target.Journal.DeleteBlob(ctx, note)
		}
		if err != nil {
			return err
		}
	}
	return setJournal(m.dir, m.To)
}

// switchOver changes only the setting, because the ledger was moved there before: by an earlier
// call, or on another machine.
func (m *migration) switchOver(ctx context.Context) error {
	m.result.Present, m.result.Outcome = m.copiedTo, WouldSwitch
	if m.DryRun {
		return nil
	}
	m.result.Outcome = Switched
	move, _ := m.move()
	if err := m.checkNotCancelled(ctx, move); err != nil {
		return err
	}
	return m.finish(ctx, move)
}

// moved returns the error that says where the ledger continues.
func (m *migration) moved() (err error) {
	m.source.Engine.View(func(s *rules.State) { err = s.Moved() })
	return err
}
