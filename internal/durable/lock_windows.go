package durable

import (
	"errors"
	"os"

	"golang.org/x/sys/windows"
)

// TryLockFile locks an open file unless it is locked, and reports whether it did.
func TryLockFile(file *os.File) (bool, error) {
	err := lockFileEx(file, windows.LOCKFILE_EXCLUSIVE_LOCK|windows.LOCKFILE_FAIL_IMMEDIATELY)
	if errors.Is(err, windows.ERROR_LOCK_VIOLATION) {
		return false, nil
	}
	return err == nil, err
}

// LockFile waits until an open file is not locked, and locks it.
func LockFile(file *os.File) error { return lockFileEx(file, windows.LOCKFILE_EXCLUSIVE_LOCK) }

// ShareFile waits until it has locked an open file together with others that share it. LockFile and
// TryLockFile wait for all of them.
func ShareFile(file *os.File) error { return lockFileEx(file, 0) }

func lockFileEx(file *os.File, flags uint32) error {
	return os.NewSyscallError("LockFileEx", windows.LockFileEx(windows.Handle(file.Fd()), flags, 0,
		1, 0, new(windows.Overlapped)))
}

// UnlockFile unlocks a file.
func UnlockFile(file *os.File) error {
	return os.NewSyscallError("UnlockFileEx", windows.UnlockFileEx(windows.Handle(file.Fd()), 0, 1,
		0, new(windows.Overlapped)))
}
