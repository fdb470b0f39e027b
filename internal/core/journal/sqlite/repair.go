package sqlite

import (
	"context"
	"fmt"

	"signalbox"
	"signalbox/internal/core/journal"
)

var _ journal.Repairer = (*Journal)(nil)

// MayRemove returns nil.
func (*Journal) MayRemove() error { return nil }

// ReplaceTail replaces the events after an event in one transaction, in which it also removes the
// trigger that protects them, and creates it again.
func (j *Journal) ReplaceTail(ctx context.Context, last signalbox.Hash, after uint64,
	events []signalbox.Event) error {
	return j.Do(ctx, func(ctx context.Context) error {
		if j.opts.ReadOnly {
			return errReadOnly
		}
		return j.store(ctx, events, func(c *conn) error {
			_, head, err := c.last()
			if err == nil && head != last {
				err = fmt.Errorf("%w: another process has written to it", journal.ErrConflict)
			}
			if err == nil {
				err = c.exec(fmt.Sprintf(
					"DROP TRIGGER events_are_never_deleted; DELETE FROM events WHERE seq > %d; %s",
					after, neverDeleted))
			}
			if err == nil {
				err = c.checkNext(after, events)
			}
			return err
		})
	}, "replace the events after %d", after)
}
