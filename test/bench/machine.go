package main

import (
	"fmt"
	"os"
	"runtime"
	"strings"
)

func printMachine() {
	fmt.Printf("Machine: %s, %d cores, %s/%s, %s.\n", cpuModel(), runtime.NumCPU(), runtime.GOOS,
		runtime.GOARCH,
		runtime.Version())
}

func cpuModel() string {
	data, err := os.ReadFile("/proc/cpuinfo")
	if err != nil {
		return "unknown processor"
	}
	for line := range strings.Lines(string(data)) {
		if key, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(key) == "model name" {
			return strings.TrimSpace(value)
		}
	}
	return "unknown processor"
}
