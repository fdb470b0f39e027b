package ledger

import (
	"fmt"
	"time"

	"signalbox"
)

// Tail is the end of a log: what the next event builds on. The zero Tail is that of an empty log. Assignment
// copies it, at the cost of two kilobytes, so a writer may seal events on a copy and drop it if they are not stored.
type Tail struct {
	// Seq, Time and Hash are those of the last event.
	Seq  uint64
	Time time.Time
	Hash signalbox.Hash
	// Tree has the hashes of all events as its leaves.
	Tree Tree
}

// Seal makes events the next ones of the log: it sets Seq, Prev and Hash of each and moves the tail past them.
// It takes the monotonic part and the location off Time, as both are lost when an event is stored, and moves a Time
// that lies before the last event's up to that: the time of a log never runs backwards. All other fields must be
// as Validate wants them.
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

// Extend checks that e is the next event of the log, whole and unchanged, and moves the tail past it. Otherwise it
// returns a *BadEventError and leaves t alone.
func (t *Tail) Extend(e *signalbox.Event) error {
	if bad := t.check(e); bad != nil {
		return bad
	}
	t.moveTo(e)
	return nil
}

func (t *Tail) moveTo(e *signalbox.Event) {
	t.Seq = e.Seq
	t.Time = e.Time.Round(0).UTC()
	t.Hash = e.Hash
	t.Tree.Append(e.Hash)
}

// BadEventError says that a log is not whole at one place.
type BadEventError struct {
	// Seq is the sequence that the event should have had.
	Seq uint64
	// Reason completes a sentence that begins with the event.
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
		return bad("has time %s, which is before that of event %d, %s", e.Time.UTC().Format(signalbox.EventTime), t.Seq, t.Time.Format(signalbox.EventTime))
	case e.Prev != t.Hash:
		return bad("does not continue the log: its prev is not the hash of the event before")
	case e.Hash != Sum(e):
		return bad("was changed: its hash is not that of its content")
	}
	return nil
}
