package box

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"os"
	"time"

	"signalbox"
	"signalbox/internal/core/engine"
	"signalbox/internal/core/journal"
	"signalbox/internal/core/rules"
	"signalbox/internal/durable"
	"signalbox/internal/text"
	"signalbox/ledger"
)

// InvalidTail is the end of a ledger, from its first invalid event on. No program has applied these
// events.
type InvalidTail struct {
	// Fault is what is wrong with the first of the Events.
	Fault  string
	Events []signalbox.Event

	in *Ledger
}

// FindInvalid returns the invalid events at the end of a ledger, nil if all events are valid. The
// error has CodeUnverified if they must not be removed, because they may have been valid when they
// were stored.
func FindInvalid(ctx context.Context, l *Ledger,
	progress func(done, total uint64)) (*InvalidTail, error) {
	v, err := l.Verify(ctx, VerifyOptions{NoBlobs: true, Progress: progress})
	if err != nil || v.OK {
		return nil, errors.Join(err, v.NotReplayed)
	}
	first := v.FirstBad
	last, remembers, err := l.Remembered()
	_, _, keyErr := l.privateKey()
	switch {
	case err != nil:
		return nil, err
	case first <= 1 || v.Lost != nil:
		return nil, notRepairable("%s", v.Reason)
	case v.Checkpoint != nil && v.Checkpoint.Size >= first:
		return nil, notRepairable("%s, and event %d was signed", v.Reason, v.Checkpoint.Size)
	case remembers && last.Seq >= first:
		return nil, notRepairable("%s, but this machine has applied event %d", v.Reason, last.Seq)
	case errors.Is(keyErr, ErrNoKey):
		return nil, signalbox.CodeFailed.Errorf("run the command on the machine with the key",
			"only the machine with the signing key of the box knows which events were signed")
	}
	tail := &InvalidTail{Fault: v.Reason, in: l}
	var kept signalbox.Hash // of the last valid event
	for e, err := range l.storedEvents(ctx, first-2) {
		if err != nil {
			return nil, err
		}
		if e.Seq < first {
			kept = e.Hash
		} else {
			tail.Events = append(tail.Events, *e)
		}
	}
	if len(tail.Events) == 0 {
		return nil, notRepairable("%s", v.Reason)
	}
	// An event that continues the log with a correct hash, and that the rules refuse, was not
	// damaged: nothing after it counts. Otherwise a correct hash shows that an event was valid
	// before something in front of it was changed.
	if b := &tail.Events[0]; b.Prev == kept && ledger.Sum(b) == b.Hash {
		return tail, nil
	}
	for i := range tail.Events {
		if e := &tail.Events[i]; ledger.Sum(e) == e.Hash {
			return nil, notRepairable("%s, but event %d is intact", v.Reason, e.Seq)
		}
	}
	return tail, nil
}

func notRepairable(format string, args ...any) error {
	return signalbox.CodeUnverified.Errorf(
		"keep the box unchanged for the investigation, and restore the ledger from a copy",
		"the ledger cannot be repaired by removing its end: "+format, args...)
}

// Removable returns an error if the database does not allow events to be removed. Migrate can still
// leave them behind.
func (t *InvalidTail) Removable() error {
	repairer, err := repairerOf(t.in)
	if err != nil {
		return err
	}
	return repairer.MayRemove()
}

func repairerOf(l *Ledger) (journal.Repairer, error) {
	repairer, ok := l.database().(journal.Repairer)
	if !ok {
		return nil, signalbox.CodeFailed.Errorf("restore the ledger from a backup",
			"a ledger in this kind of database cannot be repaired")
	}
	return repairer, nil
}

// Cut removes the events from the ledger, and records that there. It returns the file of the box
// that has them now. Processes that have read them must be restarted.
func (t *InvalidTail) Cut(ctx context.Context, actor string) (file string, err error) {
	if err := t.Removable(); err != nil {
		return "", err
	}
	repair, lines := t.removal(actor)
	if file, err = t.keep(lines); err != nil {
		return "", err
	}
	return file, replaceTail(ctx, t.in, repair.First-1, t.Events[len(t.Events)-1].Hash, repair)
}

// removal returns the command that records the removal of the events, and what is kept of them.
func (t *InvalidTail) removal(actor string) (repair rules.RepairLedger, kept []byte) {
	var lines bytes.Buffer
	for i := range t.Events {
		lines.Write(append(exactJSON(&t.Events[i]), '\n'))
	}
	host, _ := os.Hostname() // "" if the machine has no name
	return rules.RepairLedger{First: t.Events[0].Seq, Last: t.Events[len(t.Events)-1].Seq,
		Fault: text.Shorten(text.Printable(t.Fault), 300), Kept: sha256.Sum256(lines.Bytes()),
		Host: text.Shorten(text.Printable(host), 100), Actor: actor}, lines.Bytes()
}

// keep writes the events that are removed to a new file of the box.
func (t *InvalidTail) keep(lines []byte) (file string, err error) {
	file = t.in.file("removed-" + t.in.now().UTC().Format("20060102T150405.000000000Z") + ".jsonl")
	if err := durable.Create(file, lines, 0o600); err != nil {
		return "", signalbox.CodeFailed.Errorf("check the permissions of the box",
			"cannot keep the events that would be removed: %w", err)
	}
	return file, nil
}

// exactJSON returns an event as JSON, with the bytes of its texts if they are not valid.
func exactJSON(e *signalbox.Event) []byte {
	line, err := json.Marshal(e)
	if again := (signalbox.Event{}); err == nil && json.Unmarshal(line, &again) == nil &&
		ledger.Sum(&again) == ledger.Sum(e) {
		return line
	}
	line, _ = json.Marshal(map[string]any{ // which always encodes
		"seq": e.Seq, "time": e.Time.UTC().Format(signalbox.EventTime), "prev": e.Prev,
		"hash": e.Hash, "type_base64": []byte(e.Type), "work_base64": []byte(e.Work),
		"session_base64": []byte(e.Session), "actor_base64": []byte(e.Actor),
		"data_base64": e.Data})
	return line
}

// replaceTail executes a command on a ledger as it is up to the event keep, and replaces the events
// after it by those of the command. The last of those after it must have the hash last.
func replaceTail(ctx context.Context, l *Ledger, keep uint64, last signalbox.Hash,
	c rules.Command) error {
	repairer, err := repairerOf(l)
	if err != nil {
		return err
	}
	valid := &fork{Journal: l.Journal, base: keep}
	e, err := engine.Open(ctx, valid, &engine.Options{Now: l.options.Now, Log: l.options.Log})
	if err != nil {
		return err
	}
	_, err = e.Do(ctx, c)
	if err = errors.Join(err, e.Close()); err != nil {
		return err
	}
	return repairer.ReplaceTail(ctx, last, keep, valid.events)
}

// Ahead is the time of a ledger whose last event was written with a clock that was ahead.
type Ahead struct {
	// Ledger is the time of the last event, and Clock that of the database, or of this machine if
	// the database has no clock of its own.
	Ledger, Clock time.Time

	last signalbox.Event
	in   *Ledger
}

// FindAhead returns how far the time of a ledger is ahead, nil if it is not.
func FindAhead(ctx context.Context, l *Ledger) (*Ahead, error) {
	head, err := l.Journal.Head(ctx)
	if err != nil || head == 0 {
		return nil, err
	}
	events, err := l.Journal.Read(ctx, head-1, 1)
	if err != nil || len(events) == 0 {
		return nil, err
	}
	now := l.now()
	if clock, ok := l.database().(journal.Clock); ok {
		if now, err = clock.Time(ctx); err != nil {
			return nil, err
		}
	}
	if at := ledger.NotBefore(&events[0]); at.Sub(now) > journal.MaxAhead {
		return &Ahead{at, now.UTC(), events[0], l}, nil
	}
	return nil, nil
}

// Correct records that the time of the ledger is ahead, and sets it back.
func (a *Ahead) Correct(ctx context.Context, reason, actor string) error {
	return replaceTail(ctx, a.in, a.last.Seq, a.last.Hash,
		rules.CorrectClock{To: a.Clock, Reason: reason, Actor: actor})
}
