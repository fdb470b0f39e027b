package fault

import (
	"syscall"
	"time"
	"unsafe"
)

// machineTime returns the time of the monotonic clock, which all processes of the machine share and
// which cannot be set.
func machineTime() int64 {
	const clockMonotonic = 1
	var ts syscall.Timespec
	if _, _, errno := syscall.Syscall(syscall.SYS_CLOCK_GETTIME, clockMonotonic,
		uintptr(unsafe.Pointer(&ts)), 0); errno != 0 {
		return time.Now().UnixNano()
	}
	return ts.Nano()
}
