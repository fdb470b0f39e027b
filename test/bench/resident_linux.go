package main

import (
	"errors"
	"os"
	"strconv"
	"strings"
)

// peakResident returns the peak memory of this process. It does not use getrusage, whose figure on
// Linux starts with the parent's peak.
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
