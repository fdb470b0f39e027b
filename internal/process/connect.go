//go:build linux || darwin

package process

import (
	"errors"
	"fmt"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// direction is which way data flows between this process and a program.
type direction int

const (
	toProgram direction = iota
	fromProgram
)

// socketBuffer is the size of the buffer that a program writes to. The system may allow less, and
// counts some overhead for each write.
const socketBuffer = 1 << 20

// connect returns the two ends of a pipe, or of a pair of sockets that works in one direction like
// a pipe. A process that may look into another one can open its pipes through /proc/PID/fd, and
// write to them. Opening a socket there fails.
func connect(d direction, socket bool) (ours, theirs *os.File, err error) {
	switch {
	case socket:
		return connectSockets(d)
	case d == toProgram:
		theirs, ours, err = os.Pipe()
	default:
		ours, theirs, err = os.Pipe()
	}
	return ours, theirs, err
}

// connectSockets returns a pair of sockets that works in one direction.
func connectSockets(d direction) (ours, theirs *os.File, err error) {
	ours, theirs, err = connectBoth()
	if err != nil {
		return nil, nil, err
	}
	unused := unix.SHUT_WR
	if d == toProgram {
		unused = unix.SHUT_RD
	}
	conn, err := ours.SyscallConn()
	if err == nil {
		failed := conn.Control(func(fd uintptr) { err = unix.Shutdown(int(fd), unused) })
		err = errors.Join(failed, err)
	}
	if err != nil {
		closeAll([]*os.File{ours, theirs})
		return nil, nil, fmt.Errorf("create a pair of sockets: %w", err)
	}
	return ours, theirs, nil
}

// connectBoth returns a pair of sockets that works in both directions.
func connectBoth() (ours, theirs *os.File, err error) {
	syscall.ForkLock.RLock() // a program that is started at this moment must not inherit them
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM, 0)
	if err == nil {
		unix.CloseOnExec(fds[0])
		unix.CloseOnExec(fds[1])
	}
	syscall.ForkLock.RUnlock()
	if err != nil {
		return nil, nil, fmt.Errorf("create a pair of sockets: %w", err)
	}
	// Only our end must not block: then os.File gives it deadlines. Programs expect that theirs
	// does.
	if err := unix.SetNonblock(fds[0], true); err != nil {
		unix.Close(fds[0])
		unix.Close(fds[1])
		return nil, nil, fmt.Errorf("create a pair of sockets: %w", err)
	}
	// Some programs end without waiting until their output is written, so have room for as much as
	// a pipe. Less is not an error.
	_ = unix.SetsockoptInt(fds[1], unix.SOL_SOCKET, unix.SO_SNDBUF, socketBuffer)
	return os.NewFile(uintptr(fds[0]), "socket"), os.NewFile(uintptr(fds[1]), "socket"), nil
}
