//go:build unix

package cli

import (
	"os"

	"github.com/charmbracelet/x/term"
	"golang.org/x/sys/unix"
)

// hideInput changes the state of a terminal so that it does not show what is typed.
func hideInput(s *term.State) { s.Lflag &^= unix.ECHO }

// terminalSize returns the size of a terminal, 0 if it is unknown.
func terminalSize(f *os.File) (columns, rows int) {
	onHandle(f, func(fd int) {
		if size, err := unix.IoctlGetWinsize(fd, unix.TIOCGWINSZ); err == nil {
			columns, rows = int(size.Col), int(size.Row)
		}
	})
	return columns, rows
}

// isReadable reports whether a pipe has something to read. It does not block.
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
