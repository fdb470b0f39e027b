package crew

import (
	"bytes"
	"os"
	"path/filepath"
	"time"
)

// runningProcesses returns the pids of a box's agents, and of what they started, that are still running.
func runningProcesses(dir string) (left []string) {
	deadline := time.Now().Add(time.Minute) // a killed process takes a moment to end
	for {
		left = nil
		names, _ := filepath.Glob("/proc/[0-9]*/environ")
		for _, name := range names {
			environ, err := os.ReadFile(name)
			if err == nil && bytes.Contains(environ, []byte("SIGNALBOX_BOX="+dir+"\x00")) {
				left = append(left, filepath.Base(filepath.Dir(name)))
			}
		}
		if left == nil || time.Now().After(deadline) {
			return left
		}
	}
}
