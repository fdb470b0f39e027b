//go:build unix

package main

import (
	"os/exec"
	"runtime"
	"syscall"
)

// peakMemory is the most memory that an ended process had, in MB.
func peakMemory(c *exec.Cmd) float64 {
	usage, ok := c.ProcessState.SysUsage().(*syscall.Rusage)
	if !ok {
		return 0
	}
	if runtime.GOOS == "darwin" { // which counts bytes
		return float64(usage.Maxrss) / 1e6
	}
	return float64(usage.Maxrss) * 1024 / 1e6
}
