package sqlite

import (
	"context"
	"errors"
	"time"
)

// pool lends connections, each to one caller at a time.
type pool struct {
	slots chan *conn // nil where there is no connection yet, or none any more
	dial  func() (*conn, error)
}

func newPool(size int, dial func() (*conn, error)) pool {
	p := pool{make(chan *conn, size), dial}
	for range size {
		p.slots <- nil
	}
	return p
}

// close closes the connections. All must have been given back.
func (p pool) close() (err error) {
	for range cap(p.slots) {
		if c := <-p.slots; c != nil {
			err = errors.Join(err, c.close())
		}
		p.slots <- nil
	}
	return err
}

// with calls use with a connection, and again while the database is busy, so use must begin from the start each time.
// A connection that met an error is not used again: what SQLite knows about the files may be as wrong as they were.
func (j *Journal) with(ctx context.Context, p pool, use func(*conn) error) error {
	c, err := await(ctx, j, p.slots)
	if err != nil {
		return err
	}
	defer func() { p.slots <- c }()
	return j.patiently(ctx, func() (err error) {
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
	if err == nil && j.access == frozen {
		err = j.still.check()
	}
	return err
}

// retryPause is the pause between two tries to get at a busy database.
const retryPause = 5 * time.Millisecond

// patiently tries again while the database is busy. That is rare: writers of signalbox queue up before, so it is the
// short time in which one process recovers or closes the database, or another program that writes.
func (j *Journal) patiently(ctx context.Context, try func() error) error {
	err := try()
	if !isBusy(err) {
		return err
	}
	for deadline := time.Now().Add(j.opts.patience); isBusy(err) && time.Now().Before(deadline); err = try() {
		if _, err := await(ctx, j, time.After(retryPause)); err != nil {
			return err
		}
	}
	return err
}
