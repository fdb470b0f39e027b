//go:build unix

package durable

import "syscall"

// nonblock is the flag with which opening a pipe does not wait for a writer.
const nonblock = syscall.O_NONBLOCK
