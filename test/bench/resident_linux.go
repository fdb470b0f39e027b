package main

import (
	"errors"
	"os"
	"strconv"
	"strings"
)

// peakResident reads the high-water mark of this process alone: what getrusage tells on Linux begins with the
// parent's.
func peakResident() (int64, error) {
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return 0, err
	}
	_, rest, found := strings.Cut(string(status), "VmHWM:")
	fields := strings.Fields(rest)
	if !found || len(fields) == 0 {
		return 0, errors.New("/proc/self/status has no VmHWM")
	}
	kib, err := strconv.ParseInt(fields[0], 10, 64)
	return kib << 10, err
}
