//go:build !linux && !darwin && !dragonfly && !freebsd && !netbsd && !openbsd

package main

func peakResident() (int64, error) { return 0, nil }
