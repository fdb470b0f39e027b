//go:build darwin || dragonfly || freebsd || netbsd || openbsd

package main

import (
	"runtime"
	"syscall"
)

func peakResident() (int64, error) {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		return 0, err
	}
	if runtime.GOOS == "darwin" {
		return int64(usage.Maxrss), nil
	}
	return int64(usage.Maxrss) << 10, nil
}
