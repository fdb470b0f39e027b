//go:build !linux

package fault

import "time"

// machineTime is a clock that all processes of the machine share. Do not set it while the tests run.
func machineTime() int64 { return time.Now().UnixNano() }
