package memory

import (
	"os"
	"syscall"
)

// UseForTempFiles makes os.TempDir a file system in memory, unless the user has chosen another
// place, or there is none that has enough room and can run programs.
func UseForTempFiles() {
	const (
		folder  = "/dev/shm"
		tmpfs   = 0x01021994
		noexec  = 8
		minimum = 2 << 30
	)
	var fs syscall.Statfs_t
	if os.Getenv("TMPDIR") != "" || syscall.Statfs(folder, &fs) != nil || fs.Type != tmpfs ||
		fs.Flags&noexec != 0 || fs.Bavail*uint64(fs.Bsize) < minimum {
		return
	}
	os.Setenv("TMPDIR", folder)
}
