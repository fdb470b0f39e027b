package sqlite

import (
	"context"
	"os"
	"time"

	"signalbox"
	"signalbox/internal/durable"
)

// queue admits one writer at a time: callers in this process take a token, and processes take an
// advisory lock on a file, which the system releases when a process ends.
//
// SQLite's own lock would be enough for correctness, but a process that finds it taken sleeps and
// retries: of 64 processes that appended without pause, one got no turn for three seconds, while
// with the queue none waited longer than 0.3 seconds.
type queue struct {
	path string
	turn chan struct{} // contains one token
	file *os.File      // used by the holder of the token; nil before open and after a canceled wait
}

func newQueue(path string) queue {
	q := queue{path: path, turn: make(chan struct{}, 1)}
	q.turn <- struct{}{}
	return q
}

func (q *queue) open() (err error) {
	if q.file == nil {
		q.file, err = os.OpenFile(q.path, os.O_CREATE|os.O_RDWR, 0o600)
	}
	return err
}

func (q *queue) close() error {
	if q.file == nil {
		return nil
	}
	err := q.file.Close()
	q.file = nil
	return err
}

// enter waits for the caller's turn, and not longer than the timeout for another process. If it
// returns nil, the caller must call leave.
func (q *queue) enter(ctx context.Context, timeout time.Duration) (err error) {
	select {
	case <-q.turn:
	case <-ctx.Done():
		return ctx.Err()
	}
	defer func() {
		if err != nil {
			q.turn <- struct{}{}
		}
	}()
	if err := q.open(); err != nil {
		return err
	}
	return q.lock(ctx, timeout)
}

// lock waits for the lock on the file.
func (q *queue) lock(ctx context.Context, timeout time.Duration) error {
	if locked, err := durable.TryLockFile(q.file); locked || err != nil {
		return err
	}
	turn, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	locked := make(chan error, 1)
	file := q.file
	go func() { locked <- durable.LockFile(file) }()
	select {
	case err := <-locked:
		return err
	case <-turn.Done():
	}
	// The wait cannot be interrupted, so release the lock when it is acquired.
	q.file = nil
	go func() {
		<-locked
		file.Close()
	}()
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return signalbox.CodeFailed.Errorf("stop the signalbox process that is suspended or hangs",
		"another process has locked %s for %v", q.path, timeout)
}

// leave admits the next writer.
func (q *queue) leave() {
	if err := durable.UnlockFile(q.file); err != nil {
		q.close() // also unlocks
	}
	q.turn <- struct{}{}
}
