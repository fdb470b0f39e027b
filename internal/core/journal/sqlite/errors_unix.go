//go:build !windows

package sqlite

import "syscall"

var noRoom = []syscall.Errno{syscall.ENOSPC, syscall.EDQUOT, syscall.EFBIG}
