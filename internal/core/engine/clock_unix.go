//go:build linux || darwin

package engine

import (
	"time"

	"golang.org/x/sys/unix"
)

// sinceBoot includes the time during which the machine sleeps, so that waking up is not a jump.
// Go's monotonic clock does not.
func sinceBoot() time.Duration {
	var ts unix.Timespec
	if err := unix.ClockGettime(bootClock, &ts); err != nil {
		return monotonic()
	}
	return time.Duration(ts.Nano())
}
