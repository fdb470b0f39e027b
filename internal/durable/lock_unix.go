//go:build !windows

package durable

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// TryLockFile locks an open file unless it is locked, and reports whether it did.
func TryLockFile(file *os.File) (bool, error) {
	err := flock(file, unix.LOCK_EX|unix.LOCK_NB)
	if errors.Is(err, unix.EWOULDBLOCK) {
		return false, nil
	}
	return err == nil, err
}

// LockFile waits until an open file is not locked, and locks it.
func LockFile(file *os.File) error { return flock(file, unix.LOCK_EX) }

// ShareFile waits until it has locked an open file together with others that share it. LockFile and
// TryLockFile wait for all of them.
func ShareFile(file *os.File) error { return flock(file, unix.LOCK_SH) }

// UnlockFile unlocks a file.
func UnlockFile(file *os.File) error { return flock(file, unix.LOCK_UN) }

func flock(file *os.File, how int) error {
	for {
		err := unix.Flock(int(file.Fd()), how)
		if !errors.Is(err, unix.EINTR) {
			return os.NewSyscallError("flock", err)
		}
	}
}
