// Package driver has what the drivers of journals share: Log validates appends, counts calls in
// progress, names errors and wakes watches; Pieces reads blobs that a database stores in pieces.
package driver

import (
	"fmt"
	"time"

	"signalbox"
	"signalbox/internal/core/journal"
)

// validate returns an error unless the events follow expected and each other and are within the
// limits of package journal.
func validate(expected uint64, events []signalbox.Event) error {
	if len(events) > journal.MaxAppend {
		return UsageError("%d events at once, limit %d", len(events), journal.MaxAppend)
	}
	for i := range events {
		e := &events[i]
		size := EventBytes(e)
		switch {
		case e.Seq != expected+1+uint64(i):
			return UsageError("event %d is in the place of event %d", e.Seq, expected+1+uint64(i))
		case i > 0 && e.Prev != events[i-1].Hash:
			return UsageError("event %d does not continue the previous event", e.Seq)
		case size > journal.MaxEventBytes:
			return UsageError("event %d has %d bytes, limit %d", e.Seq, size, journal.MaxEventBytes)
		case !time.Unix(0, e.Time.UnixNano()).Equal(e.Time):
			return UsageError("event %d has the year %d, which is out of range", e.Seq,
				e.Time.Year())
		}
	}
	return nil
}

// CheckNext returns an error unless the events continue a log that ends with the event seq, whose
// hash is hash.
func CheckNext(seq uint64, hash signalbox.Hash, expected uint64, events []signalbox.Event) error {
	switch {
	case seq != expected:
		return fmt.Errorf("%w: it ends at event %d", journal.ErrConflict, seq)
	case len(events) > 0 && events[0].Prev != hash:
		return UsageError("event %d continues %v, but event %d has hash %v", events[0].Seq,
			events[0].Prev, seq, hash)
	}
	return nil
}

// EventBytes returns the size of an event that journal.MaxEventBytes limits.
func EventBytes(e *signalbox.Event) int {
	return len(e.Type) + len(e.Work) + len(e.Session) + len(e.Actor) + len(e.Data)
}

// ErrTooLarge is why an event that is larger than journal.MaxEventBytes is not read.
var ErrTooLarge = fmt.Errorf("it has more than %d bytes, the maximum size of an event",
	journal.MaxEventBytes)

// UsageError returns an error of the caller.
func UsageError(format string, args ...any) error {
	return signalbox.CodeUsage.Errorf("", format, args...)
}

// HintRestore is what to do about damage.
const HintRestore = "stop all processes that use the box, and restore it from a backup"

// Damaged returns an error that matches journal.ErrDamaged.
func Damaged(err error) error {
	return signalbox.CodeUnverified.Errorf(HintRestore,
		"%w: %w", journal.ErrDamaged, err)
}

// ErrNoBlob is journal.ErrNoBlob as users see it.
var ErrNoBlob = &signalbox.Error{Code: signalbox.CodeNotFound, Err: journal.ErrNoBlob}
