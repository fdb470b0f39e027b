//go:build unix

package progress

import "golang.org/x/sys/unix"

// canSuspend reports whether a shell can continue the program after it was suspended. The system
// does not stop a program in the process group of the session's leader, as in a container or under
// ssh with a command, because no shell could continue it.
func canSuspend() bool {
	session, err := unix.Getsid(0)
	return err == nil && session != unix.Getpgrp()
}
