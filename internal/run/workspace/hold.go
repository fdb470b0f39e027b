package workspace

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"sync"

	"signalbox/internal/durable"
)

// hold is a lock between goroutines and processes that is held. The system frees it when its holders end, however they end.
type hold struct {
	file *os.File
	once sync.Once
}

func (h *hold) release() {
	if h != nil {
		h.once.Do(func() { h.file.Close() })
	}
}

// The locks of a folder of trees, in the order in which they are taken. Beside them every scratch tree has one.
const (
	mergeLock   = ".merge.lock"   // the merge tree: one merge at a time
	landingLock = ".landing.lock" // the landing file and the checkout of base
	treesLock   = ".trees.lock"   // git's list of worktrees, whose changes collide
)

// lock waits for one of the folder's locks.
func (r *Repo) lock(ctx context.Context, name string) (*hold, error) {
	f, err := os.OpenFile(filepath.Join(r.folder, name), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open a lock: %w", err)
	}
	if free, err := durable.TryLockFile(f); free && err == nil {
		return &hold{file: f}, nil
	}
	locked := make(chan error, 1)
	go func() { locked <- durable.LockFile(f) }()
	select {
	case err = <-locked:
	case <-ctx.Done():
		go func() { // the wait cannot be interrupted, so the lock is given back when it comes
			<-locked
			f.Close()
		}()
		return nil, fmt.Errorf("wait for %s: %w", name, ctx.Err())
	}
	if err != nil {
		f.Close()
		return nil, fmt.Errorf("lock %s: %w", name, err)
	}
	return &hold{file: f}, nil
}

// tryLock takes one of the folder's locks if it is free; otherwise it returns nil.
func (r *Repo) tryLock(name string) (*hold, error) {
	f, err := os.OpenFile(filepath.Join(r.folder, name), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open a lock: %w", err)
	}
	free, err := durable.TryLockFile(f)
	if err != nil || !free {
		f.Close()
		return nil, err
	}
	return &hold{file: f}, nil
}
