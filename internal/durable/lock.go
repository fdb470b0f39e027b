package durable

import (
	"context"
	"fmt"
	"os"
	"time"
)

// Lock is an acquired lock. The system releases it when the process ends.
type Lock struct{ file *os.File }

// Acquire waits until it has locked a file, which it creates if necessary, or ctx is done. The file
// remains; its content has no meaning.
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
		// The wait cannot be interrupted, so release the lock when it is acquired.
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

// lockPause is the pause between two attempts to lock.
const lockPause = 20 * time.Millisecond

// TryLockFor tries for a while to lock an open file, and reports whether it did. Use a second for a
// lock whose holder may have been killed: a child that the holder was just forking keeps the lock
// until it executes its program.
func TryLockFor(file *os.File, wait time.Duration) (bool, error) {
	for ; ; wait -= lockPause {
		locked, err := TryLockFile(file)
		if err != nil || locked || wait <= 0 {
			return locked, err
		}
		time.Sleep(min(lockPause, wait))
	}
}

// Release releases the lock.
func (l *Lock) Release() error { return l.file.Close() }
