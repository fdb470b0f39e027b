package sqlite

import (
	"context"
	"fmt"
	"os"

	"signalbox"
	"signalbox/internal/durable"
)

// queue lets one after the other write: the callers of this journal by a token, the processes by an advisory lock on a
// file, which the system frees when a process ends.
//
// SQLite's own lock would do, but who finds it taken sleeps and tries again: of 64 processes that appended without a
// pause, one got no turn for the three seconds that it took, while with the queue nobody waited longer than 0.3 seconds.
type queue struct {
	path string
	turn chan struct{} // has one token
	file *os.File      // nil before open, and after a wait was given up; whoever has the token uses it
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

// enter waits for the caller's turn; when it returns nil, leave must follow.
func (q *queue) enter(ctx context.Context, j *Journal) (err error) {
	if _, err := await(ctx, j, q.turn); err != nil {
		return err
	}
	defer func() {
		if err != nil {
			q.turn <- struct{}{}
		}
	}()
	if err := q.open(); err != nil {
		return err
	}
	return q.lock(ctx, j)
}

// lock waits for the lock on the file.
func (q *queue) lock(ctx context.Context, j *Journal) error {
	if locked, err := durable.TryLockFile(q.file); locked || err != nil {
		return err
	}
	turn, cancel := context.WithTimeout(ctx, j.opts.patience)
	defer cancel()
	locked := make(chan error, 1)
	file := q.file
	go func() { locked <- durable.LockFile(file) }()
	lockErr, err := await(turn, j, locked)
	if err == nil {
		return lockErr
	}
	// The wait cannot be interrupted, so the lock is given back when it comes.
	q.file = nil
	go func() {
		<-locked
		file.Close()
	}()
	if turn.Err() != nil && ctx.Err() == nil {
		return &signalbox.Error{
			Code: signalbox.CodeFailed,
			Err:  fmt.Errorf("another process has kept %s for %v", q.path, j.opts.patience),
			Hint: "look for a signalbox process that was stopped or hangs, and end it",
		}
	}
	return err
}

// leave lets the next one in.
func (q *queue) leave() {
	if err := durable.UnlockFile(q.file); err != nil {
		q.close() // which unlocks too
	}
	q.turn <- struct{}{}
}
