package sqlite

import (
	"context"
	"database/sql/driver"
	"fmt"
	"math"
	"slices"
	"time"

	"signalbox"
)

// readQuery packs the fields that have bytes into one blob: each column costs the driver two allocations and SQLite
// several locks, so nine columns take half as long again. It has no LIMIT, since SQLite would plan it anew
// for each value: the reader stops by itself.
//
// The third column is negative if a hash has not the length of one, or if a column is not of its type.
const readQuery = `SELECT seq, time,
	CASE WHEN octet_length(prev) = 32 AND octet_length(hash) = 32
		AND typeof(prev) = 'blob' AND typeof(hash) = 'blob' AND typeof(data) = 'blob' AND typeof(type) = 'text'
		AND typeof(work) = 'text' AND typeof(session) = 'text' AND typeof(actor) = 'text'
		THEN octet_length(type) ELSE -1 END,
	octet_length(work), octet_length(session), octet_length(actor),
	CAST(prev || hash || type || work || session || actor || data AS BLOB)
	FROM events WHERE seq > ? ORDER BY seq`

// ctxEvery is after how many events a read looks whether anybody still wants them.
const ctxEvery = 512

// Read returns at most limit events that follow after; a limit of 0 or less gives none.
func (j *Journal) Read(ctx context.Context, after uint64, limit int) ([]signalbox.Event, error) {
	return j.read(ctx, after, limit, math.MaxInt)
}

// read is Read that also stops after the event that makes it exceed so many bytes.
func (j *Journal) read(ctx context.Context, after uint64, limit, bytes int) (events []signalbox.Event, err error) {
	if err := j.enter(ctx); err != nil {
		return nil, fmt.Errorf("read after %d: %w", after, err)
	}
	defer j.leave()
	if limit <= 0 || after >= math.MaxInt64 {
		return nil, nil
	}
	err = j.onReader(ctx, func(c *conn) (err error) {
		events, err = c.events(ctx, after, limit, bytes)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("read after %d: %w", after, explain(err))
	}
	return events, nil
}

// Head returns the sequence of the last event.
func (j *Journal) Head(ctx context.Context) (seq uint64, err error) {
	if err := j.enter(ctx); err != nil {
		return 0, fmt.Errorf("read the head: %w", err)
	}
	defer j.leave()
	err = j.onReader(ctx, func(c *conn) (err error) {
		seq, _, err = c.last()
		return err
	})
	if err != nil {
		return 0, fmt.Errorf("read the head: %w", explain(err))
	}
	return seq, nil
}

func (c *conn) events(ctx context.Context, after uint64, limit, bytes int) (events []signalbox.Event, err error) {
	from := int64(after)
	if after == 0 {
		from = math.MinInt64 // there must be nothing before the first event either
	}
	args := []driver.NamedValue{{Ordinal: 1, Value: from}}
	var (
		row  [7]driver.Value
		last = signalbox.Event{Seq: after}
	)
	err = query(c.read, args, row[:], func() (bool, error) {
		e, err := unpack(&row, &last)
		if err != nil {
			return false, damaged(fmt.Errorf("event %d: %w", last.Seq+1, err))
		}
		if len(events) == cap(events) {
			events = slices.Grow(events, min(limit-len(events), max(16, 3*len(events))))
		}
		events = append(events, e)
		last = e
		bytes -= len(e.Data)
		if len(events)%ctxEvery == 0 && ctx.Err() != nil {
			return false, ctx.Err()
		}
		return len(events) < limit && bytes > 0, nil
	})
	return events, err
}

// unpack makes an event of a row of readQuery. Text that is the same as in the event before shares its memory.
func unpack(row *[7]driver.Value, before *signalbox.Event) (e signalbox.Event, err error) {
	var numbers [6]int64
	for i := range numbers {
		var ok bool
		if numbers[i], ok = row[i].(int64); !ok {
			return e, fmt.Errorf("column %d is %T", i, row[i])
		}
	}
	e.Seq, e.Time = uint64(numbers[0]), time.Unix(0, numbers[1]).UTC()
	if e.Seq != before.Seq+1 {
		return e, fmt.Errorf("it is missing, the next one is %d", numbers[0])
	}
	rest, _ := row[6].([]byte)
	take := func(n int64) (part []byte) {
		if n < 0 || n > int64(len(rest)) {
			err = fmt.Errorf("a column is cut off, or of another type")
			return nil
		}
		part, rest = rest[:n], rest[n:]
		return part
	}
	copy(e.Prev[:], take(int64(len(e.Prev))))
	copy(e.Hash[:], take(int64(len(e.Hash))))
	e.Type = share(before.Type, take(numbers[2]))
	e.Work = share(before.Work, take(numbers[3]))
	e.Session = share(before.Session, take(numbers[4]))
	e.Actor = share(before.Actor, take(numbers[5]))
	e.Data = rest
	return e, err
}

func share(before string, text []byte) string {
	if before == string(text) {
		return before
	}
	return string(text)
}
