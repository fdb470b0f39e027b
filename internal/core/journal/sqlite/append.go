package sqlite

import (
	"context"
	sqldriver "database/sql/driver"
	"errors"
	"fmt"
	"os"

	"signalbox"
	"signalbox/internal/core/journal/driver"
)

// insertQuery says OR ROLLBACK because of the cost of the default, see triggers.
const insertQuery = "INSERT OR ROLLBACK INTO events (seq, time, type, work, session, actor, data, prev, hash) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)"

// append stores the events in one transaction, and returns when it is synced. An append of no
// events only compares expected with the log. If COMMIT fails for another reason than a full disk,
// it is unknown whether the events were stored.
func (j *Journal) append(ctx context.Context, expected uint64,
	events []signalbox.Event) (unknown bool, err error) {
	if j.opts.ReadOnly {
		return false, errReadOnly
	}
	err = j.store(ctx, events, func(c *conn) error { return c.checkNext(expected, events) })
	return errors.Is(err, errUncertain), err
}

// store adds the events in one transaction, after prepare has made sure that they continue the log.
func (j *Journal) store(ctx context.Context, events []signalbox.Event,
	prepare func(*conn) error) error {
	err := j.with(ctx, j.writer, func(c *conn) error {
		if err := j.appends.enter(ctx, j.opts.busyTimeout); err != nil {
			return err
		}
		defer j.appends.leave()
		if err := c.checkInPlace(); err != nil {
			return err
		}
		return c.store(events, prepare)
	})
	if err == nil && len(events) > 0 {
		j.wakeOthers()
	}
	return err
}

func (c *conn) store(events []signalbox.Event, prepare func(*conn) error) error {
	if err := run(c.begin, nil); err != nil {
		return err
	}
	err := prepare(c)
	for i := 0; i < len(events) && err == nil; i++ {
		err = c.insertEvent(&events[i])
	}
	if err != nil || len(events) == 0 {
		// If ROLLBACK fails, SQLite has already rolled back.
		_ = run(c.rollback, nil)
		return err
	}
	if err := run(c.commit, nil); err != nil {
		_ = run(c.rollback, nil)
		if isFull(err) {
			// The frame that commits the transaction is written last, so it was not written.
			return err
		}
		return fmt.Errorf("%w: %w", errUncertain, err)
	}
	return nil
}

// checkInPlace returns an error if the database was removed or replaced. SQLite would continue to
// write to the old file.
func (c *conn) checkInPlace() error {
	now, err := os.Stat(c.path)
	if err == nil && os.SameFile(now, c.file) {
		return nil
	}
	return signalbox.CodeFailed.Errorf(
		"stop all processes that use the box, check that the ledger is in its place, and start them again",
		"%s was removed or replaced while it was open", c.path)
}

// checkNext returns an error unless the events continue the stored log.
func (c *conn) checkNext(expected uint64, events []signalbox.Event) error {
	seq, hash, err := c.last()
	if err != nil {
		return err
	}
	return driver.CheckNext(seq, hash, expected, events)
}

func (c *conn) insertEvent(e *signalbox.Event) error {
	data := e.Data
	if data == nil {
		data = []byte{} // the driver stores nil as NULL
	}
	for i, value := range [...]sqldriver.Value{int64(e.Seq), e.Time.UnixNano(), e.Type, e.Work,
		e.Session, e.Actor, data, e.Prev[:], e.Hash[:]} {
		c.row[i].Value = value
	}
	result, err := c.insert.ExecContext(context.Background(), c.row[:])
	if err != nil {
		return err
	}
	if n, err := result.RowsAffected(); err != nil || n != 1 {
		return driver.Damaged(fmt.Errorf("event %d was not stored: the schema was changed", e.Seq))
	}
	return nil
}
