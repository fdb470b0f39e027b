package journaltest

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"signalbox"
	"signalbox/ledger"
)

// chain is the end of a log. It generates the next events deterministically.
type chain struct {
	seq  uint64
	hash signalbox.Hash
}

// peek returns the next n events without advancing.
func (c chain) peek(n int) []signalbox.Event {
	events := make([]signalbox.Event, n)
	for i := range events {
		seq := c.seq + uint64(i) + 1
		events[i] = signalbox.Event{
			Time:    time.Unix(1_700_000_000, 1).Add(time.Duration(seq) * 1_000_000_007).UTC(),
			Type:    "Tried",
			Work:    fmt.Sprintf("work-%d", seq%3),
			Session: fmt.Sprintf("session-%d", seq),
			Actor:   "suite",
			Data:    fmt.Appendf(nil, `{"n":%d,"pad":%q}`, seq, strings.Repeat("x", int(seq%50))),
		}
	}
	c.seal(events)
	return events
}

// follow advances past the events.
func (c *chain) follow(events []signalbox.Event) {
	if n := len(events); n > 0 {
		c.seq, c.hash = events[n-1].Seq, events[n-1].Hash
	}
}

// seal sets the sequence numbers and hashes of events that follow the end of the log.
func (c chain) seal(events []signalbox.Event) {
	for i := range events {
		events[i].Seq, events[i].Prev = c.seq+1, c.hash
		events[i].Hash = hashOf(events[i])
		c.follow(events[i : i+1])
	}
}

// hashOf hashes all fields as package ledger does, which some journals check.
func hashOf(e signalbox.Event) signalbox.Hash { return ledger.Sum(&e) }

// checkChain fails the test unless the events are a complete log from the first event on.
func checkChain(t testing.TB, events []signalbox.Event) {
	t.Helper()
	var end chain
	for i, e := range events {
		switch {
		case e.Seq != end.seq+1:
			t.Fatalf("event %d is in place %d", e.Seq, i+1)
		case e.Prev != end.hash:
			t.Fatalf("event %d does not continue the one before it", e.Seq)
		case e.Hash != hashOf(e):
			t.Fatalf("event %d is not what was appended: %+v", e.Seq, e)
		case e.Time.Location() != time.UTC:
			t.Fatalf("event %d has a time in %v, want UTC", e.Seq, e.Time.Location())
		}
		end.follow(events[i : i+1])
	}
}
