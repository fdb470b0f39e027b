package postgres

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"signalbox"
	"signalbox/internal/core/journal"
	"signalbox/internal/core/journal/driver"
)

var _ journal.Repairer = (*Journal)(nil)

// MayRemove returns nil: the owner may, and others learn it from ReplaceTail.
func (*Journal) MayRemove() error { return nil }

// ReplaceTail replaces the events after an event. Only the owner of the tables can do that, because
// only the owner can switch off the trigger that protects them.
func (j *Journal) ReplaceTail(ctx context.Context, last signalbox.Hash, after uint64,
	events []signalbox.Event) error {
	err := j.Do(ctx, func(ctx context.Context) error {
		return j.transact(ctx, func(ctx context.Context, tx pgx.Tx) error {
			return j.replaceTail(ctx, tx, last, after, events)
		})
	}, "replace the events after %d", after)
	if err == nil {
		j.tell(events[len(events)-1].Seq)
		j.Wake()
	}
	return err
}

func (j *Journal) replaceTail(ctx context.Context, tx pgx.Tx, last signalbox.Hash, after uint64,
	events []signalbox.Event) error {
	v, err := j.version(ctx, tx)
	if err == nil && !v.owner {
		err = signalbox.CodeFailed.Errorf("use the address of the journal with the user "+
			v.ownerName, "only the owner of the ledger, %s, can repair it", v.ownerName)
	}
	if err == nil {
		_, err = tx.Exec(ctx, j.sql("LOCK TABLE BOX.format IN SHARE UPDATE EXCLUSIVE MODE"))
	}
	if err != nil {
		return err
	}
	_, head, err := j.queryLast(ctx, tx)
	switch {
	case err != nil:
		return err
	case head == events[len(events)-1].Hash: // the answer to an earlier attempt was lost
		return nil
	case head != last:
		return fmt.Errorf("%w: another process has written to it", journal.ErrConflict)
	}
	if _, err := tx.Exec(ctx, j.sql(fmt.Sprintf(`ALTER TABLE BOX.events DISABLE TRIGGER events_are_never_changed;
		DELETE FROM BOX.events WHERE seq > %d;
		ALTER TABLE BOX.events ENABLE TRIGGER events_are_never_changed`, after))); err != nil {
		return err
	}
	seq, head, err := j.queryLast(ctx, tx)
	if err == nil {
		err = driver.CheckNext(seq, head, after, events)
	}
	for i := 0; i < len(events) && err == nil; i++ {
		_, err = tx.Exec(ctx,
			j.sql("INSERT INTO BOX.events (seq, time, type, work, session, actor, data, prev, hash) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)"),
			append([]any{int64(events[i].Seq)}, arguments(events[i:i+1])...)...)
	}
	return err
}
