package main

import (
	"errors"
	"syscall"
)

// errorNoData is ERROR_NO_DATA, which the syscall package does not name: the pipe is being closed.
const errorNoData = syscall.Errno(232)

// isSystemClosedPipe knows the errors that Windows has for a pipe without a reader; EPIPE is none of them.
func isSystemClosedPipe(err error) bool {
	return errors.Is(err, errorNoData) || errors.Is(err, syscall.ERROR_BROKEN_PIPE)
}
