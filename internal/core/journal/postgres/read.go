package postgres

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/jackc/pgx/v5"

	"signalbox"
	"signalbox/internal/core/journal"
	"signalbox/internal/core/journal/driver"
)

// readEvents does not send events that are larger than $3.
const readEvents = `SELECT seq, time, octet_length(type) + octet_length(work) + octet_length(session) + octet_length(actor) + octet_length(data),
	CASE WHEN octet_length(type) <= $3 THEN type END, CASE WHEN octet_length(work) <= $3 THEN work END, CASE WHEN octet_length(session) <= $3 THEN session END,
	CASE WHEN octet_length(actor) <= $3 THEN actor END, CASE WHEN octet_length(data) <= $3 THEN data END, prev, hash
	FROM BOX.events WHERE seq > $1 ORDER BY seq LIMIT $2`

// maxRead is how many events one query reads.
const maxRead = 1000

func (j *Journal) read(ctx context.Context, after uint64, limit,
	bytes int) (events []signalbox.Event, end bool, err error) {
	err = j.answer(ctx, func(ctx context.Context) error {
		if err := j.settle(ctx); err != nil {
			return err
		}
		events, end, err = j.query(ctx, after, min(limit, maxRead), bytes)
		return err
	})
	return events, end, err
}

func (j *Journal) lastSeq(ctx context.Context) (uint64, error) {
	seq, _, err := j.last(ctx)
	return seq, err
}

func (j *Journal) query(ctx context.Context, after uint64, limit,
	bytes int) (events []signalbox.Event, end bool, err error) {
	from := int64(after)
	if after == 0 {
		from = math.MinInt64 // there must be nothing before the first event
	}
	rows, err := j.pool.Query(ctx, j.sql(readEvents), from, limit, journal.MaxEventBytes)
	if err != nil {
		return nil, false, err
	}
	defer rows.Close()
	for next := after + 1; bytes > 0 && rows.Next(); next++ {
		var (
			e                                               signalbox.Event
			seq, nanos                                      int64
			size                                            int
			kind, work, session, actor, data, prev, current []byte
		)
		if err := rows.Scan(&seq, &nanos, &size, &kind, &work, &session, &actor, &data, &prev,
			&current); err != nil {
			return nil, false, err
		}
		switch {
		case uint64(seq) != next:
			return events, false, driver.Damaged(
				fmt.Errorf("event %d: it is missing, the next one is %d",
					next, seq))
		case size > journal.MaxEventBytes:
			return events, false, driver.Damaged(
				fmt.Errorf("event %d: %w", next, driver.ErrTooLarge))
		case len(prev) != len(e.Prev) || len(current) != len(e.Hash):
			return events, false, driver.Damaged(
				fmt.Errorf("event %d: its hashes have the wrong length",
					next))
		}
		e = signalbox.Event{Seq: next, Time: time.Unix(0, nanos).UTC(), Type: string(kind),
			Work: string(work), Session: string(session), Actor: string(actor),
			Data: data, Prev: signalbox.Hash(prev), Hash: signalbox.Hash(current)}
		events = append(events, e)
		bytes -= size
	}
	rows.Close()
	return events, len(events) < limit && bytes > 0, rows.Err()
}

// last returns the sequence number and the hash of the last event.
func (j *Journal) last(ctx context.Context) (seq uint64, hash signalbox.Hash, err error) {
	err = j.answer(ctx, func(ctx context.Context) error {
		if err := j.settle(ctx); err != nil {
			return err
		}
		seq, hash, err = j.queryLast(ctx, j.pool)
		return err
	})
	return seq, hash, err
}

func (j *Journal) queryLast(ctx context.Context,
	q queryer) (seq uint64, hash signalbox.Hash, err error) {
	var (
		number int64
		bytes  []byte
	)
	err = q.QueryRow(ctx, j.sql("SELECT seq, hash FROM BOX.events ORDER BY seq DESC LIMIT 1")).Scan(
		&number, &bytes)
	if errors.Is(err, pgx.ErrNoRows) {
		return 0, hash, nil
	}
	if err != nil {
		return 0, hash, err
	}
	copy(hash[:], bytes)
	return uint64(number), hash, nil
}
