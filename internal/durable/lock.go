package durable

import (
	"context"
	"fmt"
	"os"
	"time"
)

// Lock is a lock that is held. The system frees it when its holder ends, however it ends.
type Lock struct{ file *os.File }

// Acquire waits until it holds the lock of a file, which it makes if need be, or ctx ends. The file stays and has no
// meaning.
func Acquire(ctx context.Context, name string) (*Lock, error) {
	f, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open the lock: %w", err)
	}
	locked := make(chan error, 1)
	go func() { locked <- LockFile(f) }()
	select {
	case err = <-locked:
	case <-ctx.Done():
		// The wait cannot be interrupted, so the lock is given back when it comes.
		go func() {
			<-locked
			f.Close()
		}()
		return nil, fmt.Errorf("lock %s: %w", name, ctx.Err())
	}
	if err != nil {
		f.Close()
		return nil, fmt.Errorf("lock %s: %w", name, err)
	}
	return &Lock{f}, nil
}

// lockPause is how long to wait before a lock is tried again.
const lockPause = 20 * time.Millisecond

// TryLockFor locks an open file if nobody has it locked, or not for as long as wait. A second is right for a lock whose
// holder may have been killed: while it forked a child it leaves the lock to that, until the child becomes its program.
func TryLockFor(file *os.File, wait time.Duration) (bool, error) {
	for ; ; wait -= lockPause {
		locked, err := TryLockFile(file)
		if err != nil || locked || wait <= 0 {
			return locked, err
		}
		time.Sleep(min(lockPause, wait))
	}
}

// Release gives the lock up.
func (l *Lock) Release() error { return l.file.Close() }
