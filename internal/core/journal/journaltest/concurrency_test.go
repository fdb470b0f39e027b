package journaltest

import (
	"context"
	"testing"

	"signalbox"
	"signalbox/internal/core/journal"
	"signalbox/internal/core/journal/sqlite"
	"signalbox/internal/testkit/must"
)

// late is a journal to which the last append of a killed process arrives just before the next
// append.
type late struct {
	journal.Log
	events *[]signalbox.Event
}

func (j late) Append(ctx context.Context, expected uint64, events []signalbox.Event) error {
	if before := *j.events; before != nil {
		*j.events = nil
		if err := j.Log.Append(ctx, before[0].Seq-1, before); err != nil {
			return err
		}
	}
	return j.Log.Append(ctx, expected, events)
}

// A batch that was under way when its process was killed may arrive at any time.
func TestLateBatch(t *testing.T) {
	dir := t.TempDir()
	var underWay []signalbox.Event
	open := func(t testing.TB) journal.Log {
		j, err := sqlite.Open(t.Context(), dir, &sqlite.Options{Create: true})
		must.Succeed(t, err)
		return late{j, &underWay}
	}
	arrived := 0
	l := &log{Log: Log{Open: open, AppendAndKill: func(t testing.TB, events int) uint64 {
		j := open(t)
		defer j.Close()
		var end chain
		must.Succeed(t, end.catchUp(t.Context(), j))
		for range events {
			batch := end.batch()
			must.Succeed(t, j.Append(t.Context(), end.seq, batch))
			end.follow(batch)
		}
		underWay = end.batch()
		arrived++
		return end.seq
	}}}
	testKill(t, l)
	l.verify(t)
	if arrived == 0 || underWay != nil {
		t.Error("no batch was late")
	}
}
