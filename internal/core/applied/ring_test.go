package applied

import (
	"bytes"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"signalbox"
	"signalbox/internal/testkit/property"
	"signalbox/ledger"
)

const box = "box-0a1b2c3d4e5f"

// history returns the events of a log. Logs with other names have other events.
func history(name string, n int) []signalbox.Event {
	events := make([]signalbox.Event, n)
	for i := range events {
		events[i] = signalbox.Event{Time: time.Date(2026, 3, 1, 12, 0, i, 0, time.UTC),
			Type: "WorkOpened", Work: name, Data: []byte("{}")}
	}
	new(ledger.Tail).Seal(events)
	return events
}

func rememberAll(events []signalbox.Event) []Event {
	var all []Event
	for i := range events {
		all = append(all, remember(&events[i]))
	}
	return all
}

func TestEncodeEvent(t *testing.T) {
	for _, e := range []Event{
		{Seq: 1, Time: time.Unix(0, 0).UTC()},
		{Seq: 1<<63 + 5, Time: time.Date(2026, 3, 1, 12, 0, 0, 123456789, time.UTC),
			Type: "AgentSessionCompleted", Work: "T1", Hash: signalbox.Hash{1, 2, 31: 3}},
		{Seq: 3, Time: time.Unix(0, -1).UTC(), Type: strings.Repeat("t", maxType),
			Work: strings.Repeat("w", signalbox.MaxID)},
	} {
		got, ok := decodeEvent(box, encodeEvent(box, &e))
		if diff := cmp.Diff(e, got); !ok || diff != "" {
			t.Errorf("valid: %t (-want +got):\n%s", ok, diff)
		}
		if _, ok := decodeEvent("another", encodeEvent(box, &e)); ok {
			t.Error("an event of another box is valid")
		}
	}
	long := Event{Seq: 1, Type: strings.Repeat("t", 1000), Work: strings.Repeat("w", 1000)}
	if got, ok := decodeEvent(box, encodeEvent(box, &long)); !ok ||
		got.Type != long.Type[:maxType] || got.Work != long.Work[:signalbox.MaxID] {
		t.Errorf("long texts: %+v, %t", got, ok)
	}
	if got, ok := decodeHeader(encodeHeader(box)); !ok || got != box {
		t.Errorf("header %q, %t", got, ok)
	}
}

// TestDamageIsForgotten changes bytes of a file, and cuts the file off: each time only what was hit
// is forgotten.
func TestDamageIsForgotten(t *testing.T) {
	events := rememberAll(history("a", 300))
	good := encode(box, events)
	kept := events[300-Size:]
	for i := 1; i < len(good); i += 61 {
		bad := bytes.Clone(good)
		bad[i] ^= 0x10
		_, got := decode(box, bad)
		want := slices.DeleteFunc(slices.Clone(kept),
			func(e Event) bool { return offset(e.Seq) == int64(i/slotSize*slotSize) })
		if !slices.Equal(want, got) {
			t.Fatalf("byte %d changed: %d events, want %d", i, len(got), len(want))
		}
		_, got = decode(box, good[:i])
		want = slices.DeleteFunc(slices.Clone(kept),
			func(e Event) bool { return offset(e.Seq)+slotSize > int64(i) })
		if !slices.Equal(want, got) {
			t.Fatalf("cut off at %d: %d events, want %d", i, len(got), len(want))
		}
	}
}

// TestMergeNeverStepsBack adds batches in any order, as processes that are ahead and behind do,
// some of which stop in the middle of a write. A slot never changes to an older event, and loses
// its event only if a write to it was torn.
func TestMergeNeverStepsBack(t *testing.T) {
	all := history("a", 1200)
	property.Check(t, func(t *rapid.T) {
		file := encode(box, nil)
		seqs := func(slots []byte) (found []uint64) { // 0 for a damaged or empty slot
			for ; len(slots) > 0; slots = slots[slotSize:] {
				e, ok := decodeEvent(box, slots[:slotSize])
				if ok && e != remember(&all[e.Seq-1]) {
					t.Fatalf("event %d is remembered as %v", e.Seq, e)
				}
				found = append(found, e.Seq)
			}
			return found
		}
		for range rapid.IntRange(1, 30).Draw(t, "batches") {
			first := rapid.IntRange(0, len(all)-1).Draw(t, "first")
			batch := all[first:min(len(all), first+rapid.IntRange(1, 300).Draw(t, "events"))]
			batch = batch[:min(len(batch), int(Size-batch[0].Seq%Size))]
			slots := file[offset(batch[0].Seq):][:len(batch)*slotSize]
			before, merged := seqs(slots), bytes.Clone(slots)
			if _, err := merge(box, merged, batch); err != nil {
				t.Fatal(err)
			}
			written := len(slots)
			if rapid.IntRange(0, 4).Draw(t, "killed") == 0 {
				written = rapid.IntRange(0, len(slots)).Draw(t, "written")
			}
			copy(slots, merged[:written])
			for i, now := range seqs(slots) {
				want := before[i]
				if (i+1)*slotSize <= written {
					want = max(want, batch[i].Seq)
				}
				if torn := i == written/slotSize && written < len(slots); now != want &&
					!(torn && (now == 0 || now == batch[i].Seq)) {
					t.Fatalf("event %d was added to a slot with event %d, and the slot has event %d", batch[i].Seq, before[i], now)
				}
			}
		}
	})
}

func TestMergeRefusesAnotherHistory(t *testing.T) {
	a, b := history("a", 10), history("b", 10)
	file := encode(box, rememberAll(a))
	before := bytes.Clone(file)
	if _, err := merge(box, file[offset(5):], b[4:8]); !errors.Is(err, ErrOtherEvent) {
		t.Errorf("error %v, want %v", err, ErrOtherEvent)
	}
	if !bytes.Equal(file, before) {
		t.Error("it was changed")
	}
	if changed, err := merge(box, file[offset(5):], a[4:8]); changed || err != nil {
		t.Errorf("the same events: changed: %t, %v", changed, err)
	}
}

func FuzzDecode(f *testing.F) {
	good := encode(box, rememberAll(history("a", 3)))
	f.Add(good)
	f.Add(good[:500])
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, file []byte) {
		_, events := decode("", file)
		for i, e := range events {
			if i > 0 && e.Seq <= events[i-1].Seq {
				t.Errorf("event %d follows event %d", e.Seq, events[i-1].Seq)
			}
		}
	})
}
