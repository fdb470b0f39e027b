//go:build !windows

package sqlite

import "syscall"

var diskFullErrors = []syscall.Errno{syscall.ENOSPC, syscall.EDQUOT, syscall.EFBIG}
