package main

import (
	"os"
	"strconv"
	"strings"
)

// resident reads a figure of this process's memory: VmRSS is what it has, VmHWM the most that it had. 0: it is not told.
func resident(name string) int64 {
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return 0
	}
	_, rest, _ := strings.Cut(string(status), name+":")
	fields := strings.Fields(rest)
	if len(fields) == 0 {
		return 0
	}
	kib, _ := strconv.ParseInt(fields[0], 10, 64)
	return kib << 10
}

// openFiles counts the files, pipes and connections that this process has open.
func openFiles() int {
	all, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return 0
	}
	return len(all) - 1 // one is the folder that is read
}
