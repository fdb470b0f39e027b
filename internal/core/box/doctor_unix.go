//go:build unix

package box

import (
	"os"
	"os/exec"
	"syscall"

	"golang.org/x/sys/unix"
)

// freeBytes returns how many bytes an ordinary user can still write to the file system of a folder.
func freeBytes(dir string) (uint64, error) {
	var stat unix.Statfs_t
	if err := unix.Statfs(dir, &stat); err != nil {
		return 0, os.NewSyscallError("statfs", err)
	}
	return uint64(stat.Bavail) * uint64(stat.Bsize), nil
}

// openFileLimit returns how many files a process can have open. Go raises its own limit to the hard
// one when it starts.
func openFileLimit() (uint64, error) {
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		return 0, os.NewSyscallError("getrlimit", err)
	}
	return uint64(limit.Cur), nil
}

// killGroup makes the cancellation of cmd kill its children too.
func killGroup(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return unix.Kill(-cmd.Process.Pid, unix.SIGKILL) }
}
