package applied

import (
	"context"
	"fmt"

	"signalbox"
	"signalbox/internal/core/journal"
)

// Log is the part of a journal that Compare reads.
type Log interface {
	Read(ctx context.Context, after uint64, limit int) ([]signalbox.Event, error)
	Head(ctx context.Context) (uint64, error)
}

// Lost describes events that were applied and that the log does not have.
type Lost struct {
	// First and Last are the first and the last event that is missing. If Earlier is set, events
	// before First may be missing too: none of the remembered events is left.
	First   uint64 `json:"first"`
	Last    uint64 `json:"last"`
	Earlier bool   `json:"earlier,omitempty"`
	// Head is where the log ends. If it is not before First, the log has other events in their
	// place.
	Head uint64 `json:"head"`
	// Known is what is remembered of them, in their order.
	Known []Event `json:"known"`
}

// Error describes the range on one line.
func (l *Lost) Error() string {
	what, them := fmt.Sprintf("events %d to %d", l.First, l.Last), "them"
	if l.First == l.Last {
		what = fmt.Sprintf("event %d", l.First)
	}
	switch {
	case l.Earlier:
		what += ", and perhaps earlier ones, are missing"
	case l.First == l.Last:
		what, them = what+" is missing", "it"
	default:
		what += " are missing"
	}
	switch {
	case l.Head < l.First:
		return fmt.Sprintf("%s: this machine has applied %s, but the ledger ends at event %d", what,
			them, l.Head)
	case l.Head < l.Last:
		return fmt.Sprintf("%s: this machine has applied %s, but the ledger has other events instead and ends at event %d", what, them, l.Head)
	}
	return fmt.Sprintf("%s: this machine has applied %s, but the ledger has other events instead",
		what, them)
}

// maxLines is the number of lines that Lines returns.
const maxLines = 10

// Lines describes what is remembered of the events, in at most ten lines: the first and the last
// ones. Escape them before showing them.
func (l *Lost) Lines() []string {
	var lines []string
	left := max(0, len(l.Known)-maxLines)
	for i, e := range l.Known {
		switch cut := maxLines / 2; {
		case left == 0 || i < cut || i > cut+left:
			lines = append(lines, e.String())
		case i == cut:
			lines = append(lines, fmt.Sprintf("… and %d more", left+1))
		}
	}
	return lines
}

// Hint is what to do about lost events.
const Hint = "bring them back: restore the data of the ledger's database from another node or from a backup. " +
	"To continue without them, stop all processes of the box, or in a cluster restart them, and run signalbox ledger accept-loss"

// AsError returns the error for people.
func (l *Lost) AsError() error {
	return &signalbox.Error{Code: signalbox.CodeUnverified, Err: l, Hint: Hint}
}

// Compare returns which of the remembered events a log lacks, nil if none. They are in order, and
// the last one decides: its hash covers all events before it.
func Compare(ctx context.Context, log Log, remembered []Event) (*Lost, error) {
	if len(remembered) == 0 {
		return nil, nil
	}
	last := remembered[len(remembered)-1]
	if e, ok := log.(journal.Expecter); ok {
		e.Expect(last.Seq)
	}
	found, err := log.Read(ctx, last.Seq-1, 1)
	if err != nil {
		return nil, fmt.Errorf("read the ledger: %w", err)
	}
	if len(found) > 0 && found[0].Hash == last.Hash {
		return nil, nil
	}
	head, err := log.Head(ctx)
	if err != nil {
		return nil, fmt.Errorf("read the ledger: %w", err)
	}
	// a copy of the log that is behind answered, or the event was appended meanwhile
	if len(found) == 0 && head >= last.Seq {
		return nil, fmt.Errorf(
			"read the ledger: event %d cannot be read, although the ledger ends at event %d",
			last.Seq, head)
	}
	for len(remembered) > 1 && remembered[0].Seq+Size <= last.Seq { // left over from damage
		remembered = remembered[1:]
	}
	return firstLost(ctx, log, remembered, head)
}

// firstLost finds the first remembered event that a log lacks. It lacks the last one.
func firstLost(ctx context.Context, log Log, remembered []Event, head uint64) (*Lost, error) {
	hashes := map[uint64]signalbox.Hash{}
	last := remembered[len(remembered)-1].Seq
	for after := remembered[0].Seq - 1; after < last; {
		events, err := log.Read(ctx, after, int(last-after))
		if err != nil {
			return nil, fmt.Errorf("read the ledger: %w", err)
		}
		if len(events) == 0 {
			break
		}
		for i := range events {
			hashes[events[i].Seq] = events[i].Hash
		}
		after = events[len(events)-1].Seq
	}
	i := 0
	for i < len(remembered)-1 && hashes[remembered[i].Seq] == remembered[i].Hash {
		i++
	}
	lost := &Lost{First: remembered[i].Seq, Last: last, Head: head, Known: remembered[i:]}
	switch {
	case head < lost.First:
		lost.First = head + 1
	case i > 0:
		lost.First = remembered[i-1].Seq + 1
	default:
		lost.Earlier = lost.First > 1
	}
	return lost, nil
}
