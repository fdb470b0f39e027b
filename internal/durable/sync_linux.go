package durable

import (
	"os"

	"golang.org/x/sys/unix"
)

// SyncFileSystem writes everything to the disk that the file system of a folder has not written
// yet. It is for many files that must be complete before something names them.
func SyncFileSystem(folder string) error {
	dir, err := os.Open(folder)
	if err != nil {
		return err
	}
	defer dir.Close()
	return os.NewSyscallError("syncfs", unix.Syncfs(int(dir.Fd())))
}
