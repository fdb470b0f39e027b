package postgres

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgtype"

	"signalbox"
	"signalbox/internal/core/journal/driver"
)

// attempt is an append that was sent to the database. Until it is settled, it may still be stored:
// a server that was paused, or a network that was slow, may deliver it much later.
type attempt struct {
	fence int64  // with which it was sent
	last  uint64 // the sequence number of the last event
	hash  signalbox.Hash
}

// append stores the events in one transaction, and returns when it is on stable storage, as the
// database understands that. While the database cannot be reached it tries again for some time. It
// finds out what became of an attempt whose answer was lost.
func (j *Journal) append(ctx context.Context, expected uint64,
	events []signalbox.Event) (unknown bool, err error) {
	if len(events) == 0 {
		seq, hash, err := j.last(ctx)
		if err == nil {
			err = driver.CheckNext(seq, hash, expected, nil)
		}
		return false, err
	}
	var pending *attempt // whose outcome is unknown
	var lost error
	err = j.retry(ctx, func(ctx context.Context) error {
		if pending == nil {
			if err := j.settle(ctx); err != nil {
				return err
			}
			a := attempt{last: events[len(events)-1].Seq, hash: events[len(events)-1].Hash}
			sent, err := false, errFenced
			for errors.Is(err, errFenced) { // the refusal had the present one
				a.fence = j.fence.Load()
				sent, err = j.send(ctx, a, expected, events)
			}
			if err == nil || !sent || neverStored(err) {
				return err
			}
			j.remember(a)
			pending, lost = &a, err
		}
		stored, err := j.settleOne(ctx, *pending)
		if err != nil {
			return fmt.Errorf("%w; then %w", lost, err)
		}
		pending = nil
		if stored {
			return nil
		}
		return lost
	})
	if err == nil {
		j.tell(expected + uint64(len(events)))
	}
	return pending != nil, err
}

// send sends an append, and reports whether the database may have received it.
func (j *Journal) send(ctx context.Context, a attempt, expected uint64,
	events []signalbox.Event) (sent bool, err error) {
	size := 0
	for i := range events {
		size += driver.EventBytes(&events[i])
	}
	ctx, cancel := context.WithTimeout(ctx, j.opts.answer+time.Duration(size/slowest)*time.Second)
	defer cancel()
	conn, err := j.pool.Acquire(ctx)
	if err != nil {
		return false, err
	}
	defer conn.Release()
	warnings := warningsOf(conn.Conn().PgConn())
	warnings.last = nil
	var refusal []byte
	args := append([]any{j.opts.program(), a.fence, int64(expected)}, arguments(events)...)
	statement := j.appendOne
	if len(events) > 1 {
		statement = j.appendMany
	}
	err = conn.QueryRow(ctx, statement, args...).Scan(&refusal)
	switch {
	case err != nil:
		return true, err
	case refusal != nil:
		return false, j.refused(refusal, a, expected, events)
	case warnings.last != nil:
		// An administrator has made the server not wait for its replica. Settling the attempt waits
		// for the replica again.
		return true, fmt.Errorf("%w: %s", errWarned, warnings.last.Message)
	}
	return true, nil
}

// errFenced means that an append was refused only because it was sent with another fence than the
// present one.
var errFenced = errors.New(
	"an append of this or another process was given up, and this one was sent before that")

// refused returns the error of an append that was not stored, from what the function refusal of the
// database returned.
func (j *Journal) refused(refusal []byte, a attempt, expected uint64,
	events []signalbox.Event) error {
	var head signalbox.Hash
	if len(refusal) == 16+len(head) {
		fence := int64(binary.BigEndian.Uint64(refusal))
		j.fence.Store(fence)
		copy(head[:], refusal[16:])
		if err := driver.CheckNext(binary.BigEndian.Uint64(refusal[8:]), head, expected,
			events); err != nil {
			return err
		}
		if fence != a.fence {
			return errFenced
		}
	}
	return driver.Damaged(
		errors.New("the database stores nothing: its functions or tables were changed"))
}

// slowest is the number of bytes per second that an append may take.
const slowest = 100 << 10

// arguments returns the fields of one event, or arrays with the fields of several.
func arguments(events []signalbox.Event) []any {
	n := len(events)
	if n == 1 {
		e := &events[0]
		return []any{e.Time.UnixNano(), []byte(e.Type), []byte(e.Work), []byte(e.Session),
			[]byte(e.Actor), notNull(e.Data), e.Prev[:], e.Hash[:]}
	}
	times := make([]int64, n)
	type column = pgtype.FlatArray[[]byte] // which pgx encodes without reflection
	var text [4]column
	for i := range text {
		text[i] = make(column, n)
	}
	data, prev, hash := make(column, n), make(column, n), make(column, n)
	for i := range events {
		e := &events[i]
		times[i] = e.Time.UnixNano()
		for column, value := range [...]string{e.Type, e.Work, e.Session, e.Actor} {
			text[column][i] = []byte(value)
		}
		data[i], prev[i], hash[i] = notNull(e.Data), e.Prev[:], e.Hash[:]
	}
	return []any{times, text[0], text[1], text[2], text[3], data, prev, hash}
}

// notNull returns an empty value for nil, which would be NULL in the database.
func notNull(data []byte) []byte {
	if data == nil {
		return []byte{}
	}
	return data
}

// neverStored reports whether an error means that the transaction was rolled back or never sent.
// After a fatal error it may have been committed: a server that is stopped while it waits for a
// replica ends the connection after the commit.
func neverStored(err error) bool {
	if failure := (*pgconn.PgError)(nil); errors.As(err, &failure) {
		return severityOf(failure) == "ERROR"
	}
	return pgconn.SafeToRetry(err)
}

// severityOf returns the severity in English. Servers before PostgreSQL 9.6 only send a translated
// one.
func severityOf(failure *pgconn.PgError) string {
	if failure.SeverityUnlocalized != "" {
		return failure.SeverityUnlocalized
	}
	return failure.Severity
}

// remember adds an attempt to those that are not settled.
func (j *Journal) remember(a attempt) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.attempts = append(j.attempts, a)
}

// settle settles all attempts whose outcome is unknown. Calls that read the log call it first, so
// that events that they do not find are never stored later.
func (j *Journal) settle(ctx context.Context) error {
	j.mu.Lock()
	attempts := slices.Clone(j.attempts)
	j.mu.Unlock()
	for _, a := range attempts {
		if _, err := j.settleOne(ctx, a); err != nil {
			return fmt.Errorf("find out whether event %d was stored: %w", a.last, err)
		}
	}
	return nil
}

// settleOne reports whether an attempt was stored. If it was not, the database refuses it when it
// arrives later.
func (j *Journal) settleOne(ctx context.Context, a attempt) (stored bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, j.opts.answer)
	defer cancel()
	conn, err := j.pool.Acquire(ctx)
	if err != nil {
		return false, err
	}
	defer conn.Release()
	warnings := warningsOf(conn.Conn().PgConn())
	warnings.last = nil
	var answer []byte // the new fence, and the hash of the last event
	if err := conn.QueryRow(ctx, j.sql("SELECT BOX.fence_appends($1)"),
		int64(a.last)).Scan(&answer); err != nil {
		return false, err
	}
	if len(answer) < 8 {
		return false, driver.Damaged(
			errors.New("the database cannot give up an append: its functions or tables were changed"))
	}
	j.fence.Store(int64(binary.BigEndian.Uint64(answer)))
	if warnings.last != nil {
		return false, fmt.Errorf("%w: %s", errWarned, warnings.last.Message)
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	j.attempts = slices.DeleteFunc(j.attempts, func(other attempt) bool { return other == a })
	return bytes.Equal(answer[8:], a.hash[:]), nil
}
