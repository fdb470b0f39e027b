package fault

import (
	"syscall"
	"time"
	"unsafe"
)

// machineTime is a clock that all processes of the machine share and that nobody sets.
func machineTime() int64 {
	const clockMonotonic = 1
	var ts syscall.Timespec
	if _, _, errno := syscall.Syscall(syscall.SYS_CLOCK_GETTIME, clockMonotonic, uintptr(unsafe.Pointer(&ts)), 0); errno != 0 {
		return time.Now().UnixNano()
	}
	return ts.Nano()
}
