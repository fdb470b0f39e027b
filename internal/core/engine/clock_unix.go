//go:build linux || darwin

package engine

import (
	"time"

	"golang.org/x/sys/unix"
)

// sinceBoot counts the time that a machine sleeps, which Go's own monotonic clock does not: waking up is no jump.
func sinceBoot() time.Duration {
	var ts unix.Timespec
	if err := unix.ClockGettime(bootClock, &ts); err != nil {
		return monotonic()
	}
	return time.Duration(ts.Nano())
}
