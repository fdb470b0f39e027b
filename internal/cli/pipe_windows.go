package cli

import (
	"errors"
	"syscall"
)

// errorNoData is ERROR_NO_DATA, which package syscall does not define: the pipe is being closed.
const errorNoData = syscall.Errno(232)

// isSystemClosedPipe reports whether err is one of the errors of Windows for a pipe without a
// reader. EPIPE is not one of them.
func isSystemClosedPipe(err error) bool {
	return errors.Is(err, errorNoData) || errors.Is(err, syscall.ERROR_BROKEN_PIPE)
}
