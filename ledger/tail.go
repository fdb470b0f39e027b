package ledger

import (
	"fmt"
	"time"

	"signalbox"
)

// Tail is the end of a log, which the next event builds on. The zero Tail is the tail of an empty
// log. Assignment copies a Tail (two kilobytes), so a writer can seal events on a copy and discard
// it if they are not stored.
type Tail struct {
	// Seq and Hash are copied from the last event.
	Seq  uint64
	Hash signalbox.Hash
	// Time is the earliest time that the next event can have; see NotBefore.
	Time time.Time
	// Tree has the hashes of all events as its leaves.
	Tree Tree
}

// Seal makes events the next events of the log: it sets Seq, Prev and Hash of each and advances the
// tail. It strips the monotonic clock reading and the location from Time, because both are lost
// when an event is stored, and raises a Time before that of the previous event to that time,
// because the time of a log never decreases. All other fields must satisfy Validate.
func (t *Tail) Seal(events []signalbox.Event) {
	for i := range events {
		e := &events[i]
		e.Seq = t.Seq + 1
		e.Time = e.Time.Round(0).UTC()
		if e.Time.Before(t.Time) {
			e.Time = t.Time
		}
		e.Prev = t.Hash
		e.Hash = Sum(e)
		t.moveTo(e)
	}
}

// Extend checks that e is the next event of the log and unchanged, and advances the tail. Otherwise
// it returns a *BadEventError and does not change t.
func (t *Tail) Extend(e *signalbox.Event) error {
	if bad := t.check(e); bad != nil {
		return bad
	}
	t.moveTo(e)
	return nil
}

func (t *Tail) moveTo(e *signalbox.Event) {
	t.Seq = e.Seq
	t.Time = NotBefore(e)
	t.Hash = e.Hash
	t.Tree.Append(e.Hash)
}

// NotBefore returns the earliest time that the event after e can have: the time of e. After
// signalbox.TypeClockCorrected it is zero, because e has the time of a clock that was ahead.
func NotBefore(e *signalbox.Event) time.Time {
	if e.Type == signalbox.TypeClockCorrected {
		return time.Time{}
	}
	return e.Time.Round(0).UTC()
}

// BadEventError reports an event that is missing, changed or out of place.
type BadEventError struct {
	// Seq is the sequence that the event should have had.
	Seq uint64
	// Reason completes a sentence that starts with "event <Seq>".
	Reason string
}

func (e *BadEventError) Error() string { return fmt.Sprintf("event %d %s", e.Seq, e.Reason) }

func (t *Tail) check(e *signalbox.Event) *BadEventError {
	bad := func(format string, args ...any) *BadEventError {
		return &BadEventError{t.Seq + 1, fmt.Sprintf(format, args...)}
	}
	switch {
	case e.Seq != t.Seq+1:
		return bad("is missing: event %d is in its place", e.Seq)
	case !timeInRange(e.Time):
		return bad("has a time outside the years 1 to 9999")
	case e.Time.Before(t.Time):
		return bad("has time %s, which is before that of event %d, %s",
			e.Time.UTC().Format(signalbox.EventTime), t.Seq, t.Time.Format(signalbox.EventTime))
	case e.Prev != t.Hash:
		return bad("does not continue the log: its prev is not the hash of the previous event")
	case e.Hash != Sum(e):
		return bad("was changed: its hash is not that of its content")
	}
	return nil
}
