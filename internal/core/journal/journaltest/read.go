package journaltest

import (
	"bytes"
	"math"
	"sync"
	"testing"

	"signalbox"
	"signalbox/internal/core/journal"
)

var readTests = map[string]func(*testing.T, *log){
	"ReadLimitsAndOffsets": testRead,
	"ReadOfAnEmptyLog":     testReadEmpty,
	"ReadAcrossHandles":    testReadAcross,
	"ReadOfLargeEvents":    testReadLarge,
	"ReadOwnAppends":       testReadOwn,
	"ReadNeverStepsBack":   testReadMonotonic,
}

func testRead(t *testing.T, l *log) {
	j := l.open(t)
	all := l.grow(t, j, 20)
	for _, tt := range []struct {
		after uint64
		limit int
		want  []signalbox.Event
	}{
		{0, 1, all[:1]},
		{0, 19, all[:19]},
		{0, 20, all},
		{0, 21, all},
		{0, math.MaxInt, all},
		{1, 1, all[1:2]},
		{7, 5, all[7:12]},
		{18, 5, all[18:]},
		{19, 1, all[19:]},
		{20, 1, nil},
		{21, 1, nil},
		{math.MaxInt64, 1, nil},
		{math.MaxUint64, 1, nil},
		{0, 0, nil},
		{0, -1, nil},
	} {
		got, err := j.Read(testContext(t), tt.after, tt.limit)
		if err != nil {
			t.Errorf("read %d after %d: %v", tt.limit, tt.after, err)
		}
		wantEvents(t, got, tt.want)
	}
}

func testReadEmpty(t *testing.T, l *log) {
	j := l.open(t)
	for _, after := range []uint64{0, 1, 1000} {
		if got, err := j.Read(testContext(t), after, 10); len(got) != 0 || err != nil {
			t.Errorf("read after %d: %d events, %v", after, len(got), err)
		}
	}
}

// testReadAcross checks that all handles see an append as soon as it has returned.
func testReadAcross(t *testing.T, l *log) {
	writer, reader := l.open(t), l.open(t)
	for range 6 {
		before := l.chain.seq
		want := l.grow(t, writer, 2)
		wantHead(t, reader, l.chain.seq)
		wantEvents(t, readAll(t, reader, before), want)
		writer, reader = reader, writer
	}
}

// testReadLarge checks that a read of large events returns them in order, at least one at a time.
func testReadLarge(t *testing.T, l *log) {
	j := l.open(t)
	var want []signalbox.Event
	for range 20 {
		e := l.chain.peek(1)
		e[0].Data = bytes.Repeat([]byte("x"), journal.MaxEventBytes-1000)
		l.chain.seal(e)
		if err := j.Append(testContext(t), l.chain.seq, e); err != nil {
			t.Fatal(err)
		}
		l.chain.follow(e)
		want = append(want, e...)
	}
	got, err := j.Read(testContext(t), 0, math.MaxInt)
	if err != nil || len(got) == 0 {
		t.Fatalf("read %d of %d large events, %v", len(got), len(want), err)
	}
	wantEvents(t, got, want[:len(got)])
	wantEvents(t, readAll(t, j, 0), want)
}

// rounds calls f, and lets another server lead before some calls.
func (l *log) rounds(t *testing.T, f func()) {
	t.Helper()
	for i := range 20 {
		if i%10 == 5 && l.ChangeLeader != nil {
			l.ChangeLeader(t)
		}
		f()
	}
}

// testReadOwn checks that one read has everything that the same handle appended, or whose number
// its Head returned, and that Head has it too.
func testReadOwn(t *testing.T, l *log) {
	writer, reader := l.open(t), l.open(t)
	var want []signalbox.Event
	l.rounds(t, func() {
		want = append(want, l.grow(t, writer, 1+len(want)%3)...)
		wantOne(t, writer, 0, want)
		wantHead(t, reader, l.chain.seq)
		wantOne(t, reader, 0, want)
		wantOne(t, reader, l.chain.seq-1, want[len(want)-1:])
		wantHead(t, writer, l.chain.seq)
		writer, reader = reader, writer
	})
}

// wantOne checks that one read returns these events.
func wantOne(t *testing.T, j journal.Log, after uint64, want []signalbox.Event) {
	t.Helper()
	got, err := j.Read(testContext(t), after, math.MaxInt)
	if err != nil || len(got) != len(want) {
		t.Fatalf("one read after %d has %d events, %v; want %d", after, len(got), err, len(want))
	}
	wantEvents(t, got, want)
}

// testReadMonotonic checks that no read and no head steps back behind an earlier one of the same
// handle, while others append.
func testReadMonotonic(t *testing.T, l *log) {
	writers := []journal.Log{l.open(t), l.open(t)}
	var (
		readers sync.WaitGroup
		stop    = make(chan struct{})
	)
	for range 2 {
		j := l.open(t)
		readers.Go(func() {
			for seen := uint64(0); ; {
				select {
				case <-stop:
					return
				default:
				}
				after := seen - min(seen, 20)
				events, err := j.Read(testContext(t), after, math.MaxInt)
				last := after + uint64(len(events))
				if err != nil || last < seen {
					t.Errorf("a read ends at event %d, %v; %d was seen before", last, err, seen)
					return
				}
				seen = last
				head, err := j.Head(testContext(t))
				if err != nil || head < seen {
					t.Errorf("head is %d, %v; %d was seen before", head, err, seen)
					return
				}
				seen = head
			}
		})
	}
	l.rounds(t, func() {
		l.grow(t, writers[0], 1)
		writers[0], writers[1] = writers[1], writers[0]
	})
	close(stop)
	readers.Wait()
}
