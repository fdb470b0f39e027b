package engine

import (
	"errors"
	"fmt"
	"time"

	"signalbox"
)

// ErrClockSkew means that the clock jumped. An event written now could expire every lease, or none for a long time.
var ErrClockSkew = errors.New("clock_skew")

// maxSkew is how far the clock may move against the time that really passed.
const maxSkew = 5 * time.Second

// clock is a clock that notices jumps. It is not safe for concurrent use.
type clock struct {
	now     func() time.Time
	elapsed func() time.Duration // nil trusts the clock

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

// read returns the time, or an error while it is not to be believed. Small corrections, as time services make them, add
// up to nothing: each reading is compared with the last good one.
func (c *clock) read() (time.Time, error) {
	now := c.now().Round(0)
	if c.elapsed == nil {
		return now, nil
	}
	elapsed := c.elapsed()
	skew := now.Sub(c.lastNow) - (elapsed - c.lastElapsed)
	if skew.Abs() > maxSkew {
		return time.Time{}, &signalbox.Error{
			Code: signalbox.CodeFailed,
			Err:  fmt.Errorf("%w: the clock jumped by %s", ErrClockSkew, skew.Round(time.Millisecond)),
			Hint: "set the clock right; if it is right now, restart signalbox",
		}
	}
	c.lastNow, c.lastElapsed = now, elapsed
	return now, nil
}

var processStart = time.Now()

// monotonic is the time since the process started, whatever happens to the clock.
func monotonic() time.Duration { return time.Since(processStart) }
