package process

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// placeholder is an empty folder in place of something that a sandboxed program must not create.
// Several programs may need the same one at the same time: each has a shared lock on it, and the
// last one removes it.
type placeholder struct {
	name   string
	folder *os.File
}

// lockAttempts is how often the lock of a placeholder is tried, a millisecond apart. A process that
// removes one has the lock for a moment only; a program that keeps it must not stop others.
const lockAttempts = 1000

// holdPlace makes a placeholder, or shares one. It returns nil if something else is there, or if
// the folder above is not.
func holdPlace(name string) (*placeholder, error) {
	for range lockAttempts {
		if err := os.Mkdir(name, 0o700); errors.Is(err, fs.ErrNotExist) {
			return nil, nil
		} else if err != nil && !errors.Is(err, fs.ErrExist) {
			return nil, fmt.Errorf("protect %s: %w", name, err)
		}
		folder, err := os.OpenFile(name, os.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW, 0)
		if errors.Is(err, fs.ErrNotExist) {
			continue // another process has removed it
		}
		if err != nil {
			return nil, nil // it is a file or a link
		}
		if names, _ := folder.Readdirnames(1); len(names) > 0 {
			folder.Close()
			return nil, nil // it is in use
		}
		err = unix.Flock(int(folder.Fd()), unix.LOCK_SH|unix.LOCK_NB)
		if err == nil && isAt(folder, name) {
			return &placeholder{name, folder}, nil
		}
		folder.Close()
		if err != nil && !errors.Is(err, unix.EWOULDBLOCK) {
			return nil, nil // this file system has no locks, so the folder stays
		}
		time.Sleep(time.Millisecond)
	}
	return nil, nil // a program keeps the lock, so no one can remove the folder
}

// isAt reports whether a folder still has its name.
func isAt(folder *os.File, name string) bool {
	held, err := folder.Stat()
	if err != nil {
		return false
	}
	found, err := os.Lstat(name)
	return err == nil && os.SameFile(held, found)
}

// release removes the folder, unless another program needs it.
func (p *placeholder) release() {
	defer p.folder.Close()
	if unix.Flock(int(p.folder.Fd()), unix.LOCK_EX|unix.LOCK_NB) == nil {
		_ = os.Remove(p.name) // fails if there is something in it
	}
}
