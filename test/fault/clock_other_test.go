//go:build !linux

package fault

import "time"

// machineTime returns the time of a clock that all processes of the machine share. Do not set the
// clock while tests run.
func machineTime() int64 { return time.Now().UnixNano() }

func jumps() func() time.Duration { return func() time.Duration { return 0 } }
