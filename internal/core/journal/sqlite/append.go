package sqlite

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"os"
	"time"

	"signalbox"
	"signalbox/internal/core/journal"
)

const insertQuery = "INSERT INTO events (seq, time, type, work, session, actor, data, prev, hash) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)"

// Append stores the events in one transaction, and returns when it is synced. An append of no events only compares
// expected with the log. Errors of COMMIT itself, other than a full disk, leave open what was stored.
func (j *Journal) Append(ctx context.Context, expected uint64, events []signalbox.Event) error {
	err := follows(expected, events)
	if err == nil {
		err = j.enter(ctx)
	}
	if err != nil {
		return fmt.Errorf("append after %d: %w: %w", expected, journal.ErrNotStored, err)
	}
	defer j.leave()
	if err := j.append(ctx, expected, events); err != nil {
		return fmt.Errorf("append after %d: %w", expected, explain(err))
	}
	return nil
}

func (j *Journal) append(ctx context.Context, expected uint64, events []signalbox.Event) error {
	if j.opts.ReadOnly {
		return fmt.Errorf("%w: %w", journal.ErrNotStored, errReadOnly)
	}
	err := j.with(ctx, j.writer, func(c *conn) error {
		if err := j.appends.enter(ctx, j); err != nil {
			return err
		}
		defer j.appends.leave()
		if err := c.inPlace(); err != nil {
			return err
		}
		return c.store(expected, events)
	})
	switch {
	case err == nil && len(events) > 0:
		j.announce(expected + uint64(len(events)))
		return nil
	case err == nil || errors.Is(err, journal.ErrConflict) || errors.Is(err, errUncertain):
		return err
	}
	return fmt.Errorf("%w: %w", journal.ErrNotStored, err)
}

// store adds the events in one transaction, if expected is the last event.
func (c *conn) store(expected uint64, events []signalbox.Event) error {
	if err := run(c.begin, nil); err != nil {
		return err
	}
	err := c.fit(expected, events)
	for i := 0; i < len(events) && err == nil; i++ {
		err = c.insertEvent(&events[i])
	}
	if err != nil || len(events) == 0 {
		// If it fails, SQLite has rolled back by itself.
		_ = run(c.rollback, nil)
		return err
	}
	if err := run(c.commit, nil); err != nil {
		_ = run(c.rollback, nil)
		if isFull(err) {
			// The frame that would have made the transaction valid is the last one written.
			return err
		}
		return fmt.Errorf("%w: %w", errUncertain, err)
	}
	return nil
}

// inPlace returns an error if the database was removed or replaced. SQLite would write on, to a file without a name.
func (c *conn) inPlace() error {
	now, err := os.Stat(c.path)
	if err == nil && os.SameFile(now, c.file) {
		return nil
	}
	return &signalbox.Error{
		Code: signalbox.CodeFailed,
		Err:  fmt.Errorf("%s was removed or replaced while it was open", c.path),
		Hint: "end all processes that use the box, see that the ledger is in its place, and start them again",
	}
}

// fit returns an error unless the events may follow what is stored.
func (c *conn) fit(expected uint64, events []signalbox.Event) error {
	seq, hash, err := c.last()
	switch {
	case err != nil:
		return err
	case seq != expected:
		return fmt.Errorf("%w, it is at %d", journal.ErrConflict, seq)
	case len(events) > 0 && events[0].Prev != hash:
		return misuse("event %d continues %v, but event %d has hash %v", events[0].Seq, events[0].Prev, seq, hash)
	}
	return nil
}

func (c *conn) insertEvent(e *signalbox.Event) error {
	data := e.Data
	if data == nil {
		data = []byte{} // the driver takes nil for NULL
	}
	for i, value := range [...]driver.Value{int64(e.Seq), e.Time.UnixNano(), e.Type, e.Work, e.Session, e.Actor, data, e.Prev[:], e.Hash[:]} {
		c.row[i].Value = value
	}
	result, err := c.insert.ExecContext(context.Background(), c.row[:])
	if err != nil {
		return err
	}
	if n, err := result.RowsAffected(); err != nil || n != 1 {
		return damaged(fmt.Errorf("event %d was not stored: somebody changed the schema", e.Seq))
	}
	return nil
}

// follows returns an error unless the events follow expected and each other, and every journal could take them.
func follows(expected uint64, events []signalbox.Event) error {
	if len(events) > journal.MaxAppend {
		return misuse("%d events at once, limit %d", len(events), journal.MaxAppend)
	}
	for i := range events {
		e := &events[i]
		size := len(e.Type) + len(e.Work) + len(e.Session) + len(e.Actor) + len(e.Data)
		switch {
		case e.Seq != expected+1+uint64(i):
			return misuse("event %d stands where %d should", e.Seq, expected+1+uint64(i))
		case i > 0 && e.Prev != events[i-1].Hash:
			return misuse("event %d does not continue the one before it", e.Seq)
		case size > journal.MaxEventBytes:
			return misuse("event %d has %d bytes, limit %d", e.Seq, size, journal.MaxEventBytes)
		case !time.Unix(0, e.Time.UnixNano()).Equal(e.Time):
			return misuse("event %d is of the year %d", e.Seq, e.Time.Year())
		}
	}
	return nil
}

func misuse(format string, args ...any) error {
	return &signalbox.Error{Code: signalbox.CodeUsage, Err: fmt.Errorf(format, args...)}
}
