package sqlite

import (
	"context"
	sqldriver "database/sql/driver"
	"fmt"
	"math"
	"time"

	sqlite3 "modernc.org/sqlite/lib"

	"signalbox"
	"signalbox/internal/core/journal"
	"signalbox/internal/core/journal/driver"
)

// readQuery has no LIMIT, because SQLite would prepare it again for each value; the reader stops by
// itself.
const readQuery = "SELECT seq, time, type, work, session, actor, data, prev, hash FROM events WHERE seq > ? ORDER BY seq"

// ctxEvery is the number of events after which a read checks its context.
const ctxEvery = 512

func (j *Journal) readEvents(ctx context.Context, after uint64, limit,
	bytes int) (events []signalbox.Event, end bool, err error) {
	err = j.onReader(ctx, func(c *conn) (err error) {
		events, end, err = c.events(ctx, after, limit, bytes)
		return err
	})
	return events, end, err
}

func (j *Journal) last(ctx context.Context) (seq uint64, err error) {
	err = j.onReader(ctx, func(c *conn) (err error) {
		seq, _, err = c.last()
		return err
	})
	return seq, err
}

func (c *conn) events(ctx context.Context, after uint64, limit,
	bytes int) (events []signalbox.Event, end bool, err error) {
	from := int64(after)
	if after == 0 {
		from = math.MinInt64 // detect rows before the first event
	}
	end = true
	args := []sqldriver.NamedValue{{Ordinal: 1, Value: from}}
	var (
		row  [9]sqldriver.Value
		next = after + 1
	)
	err = query(c.read, args, row[:], func() (bool, error) {
		e, err := scanEvent(&row)
		if err == nil && e.Seq != next {
			err = fmt.Errorf("it is missing, the next one is %d", row[0])
		}
		size := driver.EventBytes(&e)
		if err == nil && size > journal.MaxEventBytes {
			err = driver.ErrTooLarge
		}
		if err != nil {
			return false, driver.Damaged(fmt.Errorf("event %d: %w", next, err))
		}
		events = append(events, e)
		next++
		bytes -= size
		if len(events)%ctxEvery == 0 && ctx.Err() != nil {
			return false, ctx.Err()
		}
		end = len(events) < limit && bytes > 0
		return end, nil
	})
	if sqliteCode(err) == sqlite3.SQLITE_TOOBIG {
		err = driver.Damaged(fmt.Errorf("event %d: %w", next, driver.ErrTooLarge))
	}
	return events, end, err
}

// scanEvent converts a row of readQuery to an event.
func scanEvent(row *[9]sqldriver.Value) (e signalbox.Event, err error) {
	text := func(column int) string {
		s, ok := row[column].(string)
		if !ok {
			err = fmt.Errorf("column %d has type %T", column, row[column])
		}
		return s
	}
	number := func(column int) int64 {
		n, ok := row[column].(int64)
		if !ok {
			err = fmt.Errorf("column %d has type %T", column, row[column])
		}
		return n
	}
	hash := func(column int) (h signalbox.Hash) {
		b, ok := row[column].([]byte)
		if !ok || len(b) != len(h) {
			err = fmt.Errorf("column %d is not a hash", column)
		}
		copy(h[:], b)
		return h
	}
	e = signalbox.Event{Seq: uint64(number(0)), Time: time.Unix(0, number(1)).UTC(), Type: text(2),
		Work: text(3), Session: text(4),
		Actor: text(5), Prev: hash(7), Hash: hash(8)}
	var ok bool
	if e.Data, ok = row[6].([]byte); !ok {
		err = fmt.Errorf("column 6 has type %T", row[6])
	}
	return e, err
}
