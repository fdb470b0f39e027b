package journaltest

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"signalbox"
	"signalbox/internal/core/journal"
)

var appendTests = map[string]func(*testing.T, *log){
	"AppendKeepsOrder":           testOrder,
	"AppendConflict":             testConflict,
	"AppendBeyondTheHead":        testBeyondHead,
	"AppendOfNothing":            testEmptyAppend,
	"AppendOfWhatDoesNotFollow":  testNotFollowing,
	"AppendLimits":               testLimits,
	"AppendKeepsEveryByte":       testBytes,
	"AppendKeepsNanoseconds":     testTimes,
	"AppendDoesNotKeepItsSlices": testSlices,
}

func testOrder(t *testing.T, l *log) {
	j := l.open(t)
	wantHead(t, j, 0)
	var want []signalbox.Event
	for _, n := range []int{1, 2, 1, 100, 1, 7} {
		want = append(want, l.grow(t, j, n)...)
		wantHead(t, j, l.chain.seq)
	}
	wantEvents(t, readAll(t, j, 0), want)
}

func testConflict(t *testing.T, l *log) {
	j := l.open(t)
	stale := l.chain.peek(3)
	want := l.grow(t, j, 2)
	for after := range want { // a journal may also return what the caller has missed
		err := j.Append(testContext(t), uint64(after), stale[after:])
		wantError(t, fmt.Sprintf("append after %d to a log of 2", after), err, journal.ErrConflict)
		if missed := (*journal.Missed)(nil); errors.As(err, &missed) {
			wantEvents(t, missed.Events, want[after:])
		}
	}
	wantError(t, "the same again", j.Append(testContext(t), 0, stale), journal.ErrConflict)
	wantEvents(t, readAll(t, j, 0), want)
	l.grow(t, j, 1)
}

func testBeyondHead(t *testing.T, l *log) {
	j := l.open(t)
	future := l.chain
	future.follow(future.peek(3))
	wantError(t, "append after 3 to an empty log", j.Append(testContext(t), 3, future.peek(1)),
		journal.ErrConflict)
	wantHead(t, j, 0)
	l.grow(t, j, 2)
	wantError(t, "append after 3 to a log of 2", j.Append(testContext(t), 3, future.peek(1)),
		journal.ErrConflict)
}

func testEmptyAppend(t *testing.T, l *log) {
	j := l.open(t)
	if err := j.Append(testContext(t), 0, nil); err != nil {
		t.Errorf("append nothing to an empty log: %v", err)
	}
	l.grow(t, j, 2)
	if err := j.Append(testContext(t), 2, []signalbox.Event{}); err != nil {
		t.Errorf("append nothing: %v", err)
	}
	wantError(t, "append nothing after 1 to a log of 2", j.Append(testContext(t), 1, nil),
		journal.ErrConflict)
}

func testNotFollowing(t *testing.T, l *log) {
	j := l.open(t)
	l.grow(t, j, 3)
	for _, tt := range []struct {
		name  string
		spoil func(events []signalbox.Event)
	}{
		{"first sequence too low", func(e []signalbox.Event) { e[0].Seq-- }},
		{"first sequence too high", func(e []signalbox.Event) { e[0].Seq++ }},
		{"all one too high", func(e []signalbox.Event) {
			for i := range e {
				e[i].Seq++
			}
		}},
		{"a gap", func(e []signalbox.Event) { e[3].Seq++ }},
		{"a repeated sequence", func(e []signalbox.Event) { e[2].Seq-- }},
		{"two in the wrong order", func(e []signalbox.Event) { e[1], e[2] = e[2], e[1] }},
		{"first does not continue the log", func(e []signalbox.Event) { e[0].Prev[5] ^= 1 }},
		{"one does not continue the one before", func(e []signalbox.Event) { e[2].Prev[5] ^= 1 }},
	} {
		events := l.chain.peek(4)
		tt.spoil(events)
		err := j.Append(testContext(t), l.chain.seq, events)
		wantError(t, tt.name, err, journal.ErrNotStored)
		wantHead(t, j, l.chain.seq)
	}
	l.grow(t, j, 1)
}

func testLimits(t *testing.T, l *log) {
	j := l.open(t)
	tooMany := l.chain.peek(journal.MaxAppend + 1)
	wantError(t, "too many events", j.Append(testContext(t), 0, tooMany), journal.ErrNotStored)
	wantHead(t, j, 0)
	want := l.grow(t, j, journal.MaxAppend)

	large := func(bytes int) []signalbox.Event {
		events := l.chain.peek(3)
		e := &events[1]
		e.Data = []byte(strings.Repeat("d",
			bytes-len(e.Type)-len(e.Work)-len(e.Session)-len(e.Actor)))
		l.chain.seal(events)
		return events
	}
	err := j.Append(testContext(t), l.chain.seq, large(journal.MaxEventBytes+1))
	wantError(t, "too large an event", err, journal.ErrNotStored)
	wantHead(t, j, l.chain.seq)
	events := large(journal.MaxEventBytes)
	l.append(t, j, events)
	wantEvents(t, readAll(t, j, 0), append(want, events...))
}

// testBytes uses bytes in the text fields that drivers might interpret.
func testBytes(t *testing.T, l *log) {
	every := make([]byte, 256)
	for i := range every {
		every[i] = byte(i)
	}
	j := l.open(t)
	var want []signalbox.Event
	for _, s := range []string{
		"", "\x00", "a\x00b", "\x00\x00", "é", "e\u0301", "\U0001F686", "\u202e\ufeff", "\xff\xfe",
		"\xc3\x28", "1", "1e3", "0x10",
		"NULL", "'; --", "?1", "a\nb\r\n", " ", "\\u0000", ".*.>", "../..", string(every),
	} {
		events := []signalbox.Event{
			{Time: time.Unix(1, 0).UTC(), Type: s, Work: "w", Session: "s", Actor: "a",
				Data: []byte("{}")},
			{Time: time.Unix(1, 0).UTC(), Type: "T", Work: s, Session: "s", Actor: "a",
				Data: []byte("{}")},
			{Time: time.Unix(1, 0).UTC(), Type: "T", Work: "w", Session: s, Actor: "a",
				Data: []byte("{}")},
			{Time: time.Unix(1, 0).UTC(), Type: "T", Work: "w", Session: "s", Actor: s,
				Data: []byte("{}")},
			{Time: time.Unix(1, 0).UTC(), Type: "T", Work: "w", Session: "s", Actor: "a",
				Data: []byte(s)},
			{Time: time.Unix(1, 0).UTC(), Type: s, Work: s, Session: s, Actor: s, Data: []byte(s)},
			{Time: time.Unix(1, 0).UTC(), Data: nil},
		}
		l.chain.seal(events)
		l.append(t, j, events)
		want = append(want, events...)
	}
	wantEvents(t, readAll(t, l.open(t), 0), want)
}

func testTimes(t *testing.T, l *log) {
	var events []signalbox.Event
	for _, ns := range []int64{0, 1, 999, 1000, 999_999_999, 1_000_000_000,
		1_700_000_000_123_456_789} {
		events = append(events, signalbox.Event{Time: time.Unix(0, ns).UTC(), Type: "T",
			Data: []byte("{}")})
	}
	l.chain.seal(events)
	j := l.open(t)
	l.append(t, j, events)
	for i, e := range readAll(t, j, 0) {
		if got, want := e.Time.Format(signalbox.EventTime),
			events[i].Time.Format(signalbox.EventTime); got != want {
			t.Errorf("time is %s, want %s", got, want)
		}
	}
}

// testSlices changes events after they were appended, and events that a read returned.
func testSlices(t *testing.T, l *log) {
	j := l.open(t)
	events := l.grow(t, j, 3)
	for i := range events {
		clear(events[i].Data)
		events[i].Type = "Changed"
	}
	read := readAll(t, j, 0)
	checkChain(t, read)
	for i := range read {
		before := bytes.Clone(read[(i+1)%len(read)].Data)
		read[i].Data = append(read[i].Data[:0], bytes.Repeat([]byte("!"), cap(read[i].Data))...)
		if next := read[(i+1)%len(read)].Data; i+1 < len(read) && !bytes.Equal(next, before) {
			t.Errorf("events share the memory of their data")
		}
	}
	checkChain(t, readAll(t, j, 0))
}
