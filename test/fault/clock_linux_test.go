package fault

import (
	"os"
	"os/signal"
	"sync/atomic"
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

// jumps returns by how much the clock of this process has jumped. Two signals make it jump by two
// hours, forwards and backwards, and then back.
func jumps() func() time.Duration {
	var jump atomic.Int64
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGUSR1, syscall.SIGUSR2)
	go func() {
		for s := range signals {
			by := 2 * time.Hour
			if s == syscall.SIGUSR2 {
				by = -by
			}
			if jump.Load() != 0 {
				by = 0
			}
			jump.Store(int64(by))
		}
	}()
	return func() time.Duration { return time.Duration(jump.Load()) }
}
