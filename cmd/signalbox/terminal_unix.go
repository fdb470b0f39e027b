//go:build unix

package main

import (
	"os"

	"golang.org/x/sys/unix"
)

// terminalWidth is how many columns a terminal has, 0 if it does not say.
func terminalWidth(f *os.File) (columns int) {
	onHandle(f, func(fd int) {
		if size, err := unix.IoctlGetWinsize(fd, unix.TIOCGWINSZ); err == nil {
			columns = int(size.Col)
		}
	})
	return columns
}

// isReadable tells whether there is something in a pipe. It does not wait.
func isReadable(f *os.File) (readable bool) {
	onHandle(f, func(fd int) {
		wanted := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
		n, err := unix.Poll(wanted, 0)
		readable = err == nil && n == 1 && wanted[0].Revents&unix.POLLIN != 0
	})
	return readable
}

func onHandle(f *os.File, do func(fd int)) {
	if raw, err := f.SyscallConn(); err == nil {
		raw.Control(func(fd uintptr) { do(int(fd)) })
	}
}
