package fault

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"

	"signalbox"
	"signalbox/internal/core/box"
	"signalbox/internal/core/engine"
	"signalbox/ledger"
)

// columns are the columns of the events table.
var columns = []string{"seq", "time", "type", "work", "session", "actor", "data", "prev", "hash"}

// stored returns the bytes of a column; numbers are big-endian.
func stored(e *signalbox.Event, column string) []byte {
	switch column {
	case "seq":
		return binary.BigEndian.AppendUint64(nil, e.Seq)
	case "time":
		return binary.BigEndian.AppendUint64(nil, uint64(e.Time.UnixNano()))
	case "type":
		return []byte(e.Type)
	case "work":
		return []byte(e.Work)
	case "session":
		return []byte(e.Session)
	case "actor":
		return []byte(e.Actor)
	case "data":
		return e.Data
	case "prev":
		return e.Prev[:]
	}
	return e.Hash[:]
}

// value converts the bytes of a column to the value that SQLite stores.
func value(column string, b []byte) any {
	switch column {
	case "seq", "time":
		return int64(binary.BigEndian.Uint64(b))
	case "data", "prev", "hash":
		return b
	}
	return string(b)
}

// flip is a change of one byte in one column of one event.
type flip struct {
	event  *signalbox.Event
	column string
	at     int
	mask   byte
}

func (f flip) String() string {
	return fmt.Sprintf("event %d, %s, byte %d ^ %#02x", f.event.Seq, f.column, f.at, f.mask)
}

// changed returns the bytes of the column with the byte flipped.
func (f flip) changed() []byte {
	b := append([]byte(nil), stored(f.event, f.column)...)
	b[f.at] ^= f.mask
	return b
}

// found reports whether a report names the flipped event. An event that moved before the first one
// may be reported as event 1.
func (f flip) found(report ledger.Report) bool {
	before := f.column == "seq" && int64(binary.BigEndian.Uint64(f.changed())) < 1
	return !report.OK && report.Reason != "" && (report.FirstBad == f.event.Seq || before &&
		report.FirstBad == 1)
}

// set stores the flipped column, or restores the original.
func (m *tamperer) set(f flip, changed bool) {
	m.t.Helper()
	from, to := stored(f.event, f.column), f.changed()
	if !changed {
		from, to = to, from
	}
	where := f.event.Seq
	if f.column == "seq" {
		where = binary.BigEndian.Uint64(from)
	}
	m.exec("UPDATE events SET "+f.column+" = ? WHERE seq = ?", value(f.column, to), int64(where))
}

// flips returns a flip of every byte if all is set, and otherwise one flip per column of each
// event. No flipped sequence number equals that of another event.
func flips(random *rand.Rand, events []signalbox.Event, all bool) (list []flip) {
	for i := range events {
		for _, column := range columns {
			size := len(stored(&events[i], column))
			if size == 0 {
				continue
			}
			at := []int{random.IntN(size)}
			if all {
				at = random.Perm(size)
			}
			for _, at := range at {
				f := flip{&events[i], column, at, byte(1 + random.IntN(255))}
				for column == "seq" &&
					binary.BigEndian.Uint64(f.changed())-1 < uint64(len(events)) {
					f.mask = byte(1 + random.IntN(255))
				}
				list = append(list, f)
			}
		}
	}
	return list
}

// TestFlippedByteIsFound flips single bytes of the ledger. The full form flips every byte.
func TestFlippedByteIsFound(t *testing.T) {
	t.Parallel()
	random := newRand(t)
	original := newLedger(t)
	events := original.mustVerify(t)
	list := flips(random, events, isFull())
	random.Shuffle(len(list), func(i, k int) { list[i], list[k] = list[k], list[i] })
	list = list[:sized(len(list)/4, len(list))]
	t.Logf("%d flips", len(list))
	todo := make(chan flip)
	var flipping sync.WaitGroup
	for range 2 {
		s := original.copy(t)
		flipping.Go(func() { flipEach(t, s, todo) })
	}
	for _, f := range list {
		todo <- f
	}
	close(todo)
	flipping.Wait()
}

// flipEach applies each flip to the box, checks that verification finds it, and reverts it.
func flipEach(t *testing.T, s *site, todo <-chan flip) {
	m := s.tamper(t)
	l, err := box.OpenLedger(t.Context(), s.box, s.options())
	if err != nil {
		t.Error(err)
		for range todo {
		}
		return
	}
	defer l.Close()
	for n := 0; ; n++ {
		f, more := <-todo
		if !more {
			break
		}
		m.set(f, true)
		report, err := l.Verify(t.Context(), box.VerifyOptions{})
		if err != nil || !f.found(report.Report) {
			t.Errorf("%s: first bad event %d, %q, error %v", f, report.FirstBad, report.Reason, err)
		}
		if n%sized(8, 1) == 0 {
			checkFold(t, l, f)
		}
		m.set(f, false)
	}
	if report, err := l.Verify(t.Context(), box.VerifyOptions{}); err != nil || !report.OK {
		t.Errorf("with all flips reverted: %+v, %v", report, err)
	}
}

// checkFold checks that the engine never applies a flipped event: opening fails, or stops before
// it.
func checkFold(t *testing.T, l *box.Ledger, f flip) {
	e, err := engine.Open(t.Context(), l.Journal, nil)
	if err != nil {
		return
	}
	defer e.Close()
	if e.Tail().Seq >= f.event.Seq {
		t.Errorf("%s: the engine applied it", f)
	}
}
