package crew

import (
	"bytes"
	"os"
	"path/filepath"
	"time"
)

// runningProcesses are the agents of a box, and what they started, that still run.
func runningProcesses(dir string) (left []string) {
	deadline := time.Now().Add(5 * time.Second) // one that was killed takes a moment
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
