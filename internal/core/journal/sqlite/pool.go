package sqlite

import (
	"context"
	"errors"
	"time"
)

// pool is a fixed number of connections, each used by one caller at a time.
type pool struct {
	slots chan *conn // nil for a connection that is not open
	dial  func() (*conn, error)
}

func newPool(size int, dial func() (*conn, error)) pool {
	p := pool{make(chan *conn, size), dial}
	for range size {
		p.slots <- nil
	}
	return p
}

// close closes the connections. None may be in use.
func (p pool) close() (err error) {
	for range cap(p.slots) {
		if c := <-p.slots; c != nil {
			err = errors.Join(err, c.close())
		}
		p.slots <- nil
	}
	return err
}

// with calls use with a connection, repeatedly while the database is busy, so use must be
// idempotent. A connection that failed is closed, because SQLite's cached state of the files may be
// wrong.
func (j *Journal) with(ctx context.Context, p pool, use func(*conn) error) error {
	var c *conn
	select {
	case c = <-p.slots:
		defer func() { p.slots <- c }()
	case <-ctx.Done():
		return ctx.Err()
	}
	return j.retryBusy(ctx, func() (err error) {
		if c == nil {
			if c, err = p.dial(); err != nil {
				return err
			}
		}
		err = use(c)
		if isFailure(err) {
			c.close()
			c = nil
		}
		return err
	})
}

func (j *Journal) onReader(ctx context.Context, use func(*conn) error) error {
	err := j.with(ctx, j.readers, use)
	if err == nil && j.access == accessImmutable {
		err = j.immutable.check()
	}
	return err
}

// retryPause is the pause between two attempts to use a busy database.
const retryPause = 5 * time.Millisecond

// retryBusy calls try until the database is not busy, or the timeout or ctx ends. The database is
// rarely busy, because writers wait in the queue first: only while a process recovers or closes it,
// or while another program writes.
func (j *Journal) retryBusy(ctx context.Context, try func() error) error {
	err := try()
	if !isBusy(err) {
		return err
	}
	for deadline := time.Now().Add(j.opts.busyTimeout); isBusy(err) &&
		time.Now().Before(deadline); err = try() {
		select {
		case <-time.After(retryPause):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return err
}
