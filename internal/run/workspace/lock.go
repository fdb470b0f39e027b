package workspace

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"sync"

	"signalbox/internal/durable"
)

// heldLock is a lock between goroutines and processes. The system releases it when the processes
// that have the file open end.
type heldLock struct {
	file *os.File
	once sync.Once
}

// release releases the lock. Closing the file alone is not enough: a program that is being started
// at this moment has inherited the file until its exec, and the lock with it.
func (h *heldLock) release() {
	if h != nil {
		h.once.Do(func() {
			_ = durable.UnlockFile(h.file)
			h.file.Close()
		})
	}
}

// The locks of a folder of worktrees, in the order in which they are taken. Every scratch worktree
// has one more.
const (
	mergeLock   = ".merge.lock"   // the merge worktree: one merge at a time
	landingLock = ".landing.lock" // the landing file and the checkout of the base branch
	treesLock   = ".trees.lock"   // git's list of worktrees, which git does not lock itself
)

// lock waits for a lock of the folder.
func (r *runner) lock(ctx context.Context, name string) (*heldLock, error) {
	if held, err := r.tryLock(name); held != nil {
		return held, err
	}
	f, err := r.openLock(name)
	if err != nil {
		return nil, err
	}
	locked := make(chan error, 1)
	go func() { locked <- durable.LockFile(f) }()
	select {
	case err = <-locked:
	case <-ctx.Done():
		go func() { // the wait cannot be interrupted, so release the lock when it arrives
			<-locked
			f.Close()
		}()
		return nil, fmt.Errorf("wait for %s: %w", name, ctx.Err())
	}
	if err != nil {
		f.Close()
		return nil, fmt.Errorf("lock %s: %w", name, err)
	}
	return &heldLock{file: f}, nil
}

func (r *runner) openLock(name string) (*os.File, error) {
	f, err := os.OpenFile(filepath.Join(r.folder, name), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open a lock: %w", err)
	}
	return f, nil
}

// tryLock takes a lock of the folder, or returns nil if it is not free.
func (r *runner) tryLock(name string) (*heldLock, error) {
	f, err := r.openLock(name)
	if err != nil {
		return nil, err
	}
	free, err := durable.TryLockFile(f)
	if err != nil || !free {
		f.Close()
		return nil, err
	}
	return &heldLock{file: f}, nil
}
