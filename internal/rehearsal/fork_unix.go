//go:build !windows

package rehearsal

import (
	"io"
	"os/exec"
	"syscall"
)

// startSleeper starts a child that sleeps for an hour: long enough for a test, and harmless if it
// is forgotten.
func startSleeper(stdout io.Writer, dir string, detached bool) (pid int, err error) {
	cmd := exec.Command("sleep", "3600")
	cmd.Stdout, cmd.Dir = stdout, dir
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: detached}
	if err := cmd.Start(); err != nil {
		return 0, err
	}
	return cmd.Process.Pid, nil
}
