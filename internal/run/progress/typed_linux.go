package progress

import (
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// discardTyped discards what was typed and not read yet.
func discardTyped(keys io.Reader) {
	f, ok := keys.(*os.File)
	if !ok {
		return
	}
	if raw, err := f.SyscallConn(); err == nil {
		// it fails if keys are not typed on a terminal
		raw.Control(func(fd uintptr) { unix.IoctlSetInt(int(fd), unix.TCFLSH, unix.TCIFLUSH) })
	}
}
