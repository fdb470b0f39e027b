package progress

import (
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// discardTyped discards what was typed and not read yet.
func discardTyped(keys io.Reader) {
	const read = 1 // FREAD of <sys/fcntl.h>: the queue of what was typed
	f, ok := keys.(*os.File)
	if !ok {
		return
	}
	if raw, err := f.SyscallConn(); err == nil {
		// it fails if keys are not typed on a terminal
		raw.Control(func(fd uintptr) { unix.IoctlSetPointerInt(int(fd), unix.TIOCFLUSH, read) })
	}
}
