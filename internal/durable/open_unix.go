//go:build unix

package durable

import (
	"io/fs"
	"os"
	"syscall"
)

// nonblock is the flag with which opening a pipe does not wait for a writer.
const nonblock = syscall.O_NONBLOCK

// keepOwner gives a new file the owner and the group of an old one.
func keepOwner(name string, old fs.FileInfo) error {
	was, ok := old.Sys().(*syscall.Stat_t)
	if !ok {
		return nil
	}
	if info, err := os.Lstat(name); err == nil {
		if now, ok := info.Sys().(*syscall.Stat_t); ok && now.Uid == was.Uid && now.Gid == was.Gid {
			return nil // also where a file system has no owners
		}
	}
	return os.Lchown(name, int(was.Uid), int(was.Gid))
}
