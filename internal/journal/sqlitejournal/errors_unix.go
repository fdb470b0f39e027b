//go:build !windows

package sqlitejournal

import "syscall"

var noRoom = []syscall.Errno{syscall.ENOSPC, syscall.EDQUOT, syscall.EFBIG}
