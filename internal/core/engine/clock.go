package engine

import (
	"time"

	"signalbox"
	"signalbox/internal/core/journal"
)

// clock detects jumps of the clock. It is not safe for concurrent use.
type clock struct {
	now     func() time.Time
	elapsed func() time.Duration // nil means that jumps are not detected

	lastNow     time.Time
	lastElapsed time.Duration
}

func newClock(opts *Options) *clock {
	c := &clock{now: opts.Now, elapsed: opts.Elapsed}
	if c.now == nil {
		c.now = time.Now
		if c.elapsed == nil {
			c.elapsed = sinceBoot
		}
	}
	c.lastNow = c.now().Round(0)
	if c.elapsed != nil {
		c.lastElapsed = c.elapsed()
	}
	return c
}

// read returns the time, or an error after a jump. Each reading is compared with the last good one,
// so that the small corrections of time services do not add up.
func (c *clock) read() (time.Time, error) {
	now := c.now().Round(0)
	if c.elapsed == nil {
		return now, nil
	}
	elapsed := c.elapsed()
	skew := now.Sub(c.lastNow) - (elapsed - c.lastElapsed)
	if skew.Abs() > journal.MaxAhead {
		return time.Time{}, signalbox.CodeFailed.Errorf(
			"correct the clock; if it is correct now, restart signalbox",
			"%w: the clock jumped by %s", journal.ErrClockSkew,
			skew.Round(time.Millisecond))
	}
	c.lastNow, c.lastElapsed = now, elapsed
	return now, nil
}

var processStart = time.Now()

// monotonic returns the time since the process started, unaffected by changes to the clock.
func monotonic() time.Duration { return time.Since(processStart) }
