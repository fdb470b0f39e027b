package ledger

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"signalbox"
	"signalbox/internal/testkit/property"
)

// makeLog returns a whole log of n events and its tail. Some events are too long for the short way
// of hashing.
func makeLog(n int) ([]signalbox.Event, Tail) {
	start := time.Date(2026, 2, 27, 23, 59, 59, 0, time.UTC)
	events := make([]signalbox.Event, n)
	for i := range events {
		events[i] = signalbox.Event{
			Time: start.Add(time.Duration(i) * 1234567890), Type: "SignalHeard",
			Work: fmt.Sprintf("task-%d", i%7), Session: "s-1", Actor: "développeur",
			Data: fmt.Appendf(nil, `{"n":%d,"text":"%s"}`, i, strings.Repeat("x", i%11*40)),
		}
	}
	var tail Tail
	tail.Seal(events)
	return events, tail
}

// plainSum is Sum by the book.
func plainSum(e *signalbox.Event) signalbox.Hash {
	preimage := []byte("signalbox/event/v1\n")
	for _, field := range [][]byte{
		binary.BigEndian.AppendUint64(nil, e.Seq), []byte(e.Time.UTC().Format(signalbox.EventTime)),
		[]byte(e.Type), []byte(e.Work), []byte(e.Session), []byte(e.Actor), e.Data, e.Prev[:],
	} {
		preimage = binary.BigEndian.AppendUint64(preimage, uint64(len(field)))
		preimage = append(preimage, field...)
	}
	return sha256.Sum256(preimage)
}

func drawHash(t *rapid.T, name string) signalbox.Hash {
	return signalbox.Hash(rapid.SliceOfN(rapid.Byte(), 32, 32).Draw(t, name))
}

func drawEvent(t *rapid.T) signalbox.Event {
	text := rapid.OneOf(rapid.Just(""), rapid.String(), rapid.StringN(100, 200, -1))
	return signalbox.Event{
		Seq: rapid.Uint64().Draw(t, "seq"),
		Time: time.Unix(rapid.Int64Range(firstSecond, lastSecond).Draw(t, "second"),
			rapid.Int64Range(0, 999_999_999).Draw(t, "nano")),
		Type: text.Draw(t, "type"), Work: text.Draw(t, "work"), Session: text.Draw(t, "session"),
		Actor: text.Draw(t, "actor"),
		Data: rapid.OneOf(rapid.SliceOf(rapid.Byte()),
			rapid.SliceOfN(rapid.Byte(), 200, 600)).Draw(t, "data"),
		Prev: drawHash(t, "prev"),
	}
}

func TestSumByTheBook(t *testing.T) {
	property.Check(t, func(t *rapid.T) {
		e := drawEvent(t)
		if got, want := Sum(&e), plainSum(&e); got != want {
			t.Fatalf("Sum = %v, want %v", got, want)
		}
		e.Hash[0]++
		if Sum(&e) != plainSum(&e) {
			t.Fatal("Sum depends on Hash")
		}
	})
}

func TestSumOfEveryLength(t *testing.T) {
	for length := range 2 * shortText {
		long := signalbox.Event{Seq: 1, Data: bytes.Repeat([]byte{'x'}, length)}
		split := signalbox.Event{Seq: 1, Type: strings.Repeat("y", length/2),
			Actor: strings.Repeat("z", length-length/2)}
		for _, e := range []*signalbox.Event{&long, &split} {
			if Sum(e) != plainSum(e) {
				t.Fatalf("wrong hash for %d bytes", length)
			}
		}
	}
}

func TestSumOfEveryDay(t *testing.T) {
	check := func(from, to, step int64) {
		for second := from; second <= to; second += step {
			e := signalbox.Event{Time: time.Unix(second, second*7919&0x1fffffff)}
			head := [len(preimageHead)]byte([]byte(preimageHead))
			putHead(&head, &e)
			if got, want := string(head[timeAt:]),
				e.Time.UTC().Format(signalbox.EventTime); got != want {
				t.Fatalf("time %s, want %s", got, want)
			}
		}
	}
	const day = 86400
	leapCycle := time.Date(1900, 1, 1, 0, 0, 0, 0, time.UTC).Unix()
	check(leapCycle, leapCycle+146097*day, day+1)
	check(firstSecond, lastSecond, 41*day+1001)
	last := signalbox.Event{Time: time.Unix(lastSecond, 999_999_999)}
	if Sum(&last) != plainSum(&last) {
		t.Error("wrong hash for the last nanosecond of the year 9999")
	}
}

func TestSumIgnoresHowTimeIsHeld(t *testing.T) {
	now := time.Now()
	want := Sum(&signalbox.Event{Time: now.Round(0).UTC()})
	for _, at := range []time.Time{now, now.In(time.FixedZone("east", 3*3600)),
		time.Unix(0, now.UnixNano())} {
		if Sum(&signalbox.Event{Time: at}) != want {
			t.Errorf("%v has another hash", at)
		}
	}
}

func TestSumPartsFields(t *testing.T) {
	seen := map[signalbox.Hash]signalbox.Event{}
	for _, e := range []signalbox.Event{
		{Type: "ab"}, {Type: "a", Work: "b"}, {Work: "ab"}, {Session: "ab"}, {Actor: "ab"},
		{Data: []byte("ab")},
		{Actor: "a", Data: []byte("b")}, {},
	} {
		if other, found := seen[Sum(&e)]; found {
			t.Errorf("%+v and %+v have the same hash", e, other)
		}
		seen[Sum(&e)] = e
	}
}

func TestSumDoesNotAllocate(t *testing.T) {
	events, _ := makeLog(11)
	for _, n := range []int{shortText - 1, shortText, shortText + 1, 100_000} {
		events = append(events, signalbox.Event{Time: time.Now(), Data: make([]byte, n)})
	}
	allocs := testing.AllocsPerRun(10, func() {
		for i := range events {
			Sum(&events[i])
		}
	})
	if allocs != 0 {
		t.Errorf("%v allocations", allocs)
	}
}
