package journaltest

import (
	"bytes"
	"math"
	"testing"

	"signalbox"
	"signalbox/internal/core/journal"
)

var readTests = map[string]func(*testing.T, *log){
	"ReadLimitsAndOffsets": testRead,
	"ReadOfAnEmptyLog":     testReadEmpty,
	"ReadAcrossHandles":    testReadAcross,
	"ReadOfLargeEvents":    testReadLarge,
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
	for range 20 {
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
	for range 40 {
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
