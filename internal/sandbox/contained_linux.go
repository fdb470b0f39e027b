package sandbox

import (
	"os"
	"strings"
)

// Contained reports whether this process is restricted, by a sandbox of this package or a similar
// one.
func Contained() bool {
	text, err := os.ReadFile("/proc/self/status")
	return err == nil && strings.Contains(string(text), "\nNoNewPrivs:\t1\n") &&
		strings.Contains(string(text), "\nSeccomp:\t2\n")
}
