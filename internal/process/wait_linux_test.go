package process

import (
	"errors"
	"testing"

	"golang.org/x/sys/unix"

	"signalbox/internal/testkit/must"
)

// waitUntilGone waits until a process has ended. It need not be a child.
func waitUntilGone(t *testing.T, id ID) {
	t.Helper()
	fd, err := unix.PidfdOpen(id.PID, 0)
	if errors.Is(err, unix.ESRCH) {
		return
	}
	must.Succeed(t, err)
	defer unix.Close(fd)
	if !id.Alive() {
		return
	}
	for {
		_, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, -1)
		if !errors.Is(err, unix.EINTR) {
			return
		}
	}
}
