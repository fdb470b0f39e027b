//go:build !linux && !darwin

package sandbox

import "runtime"

// Detect returns what this system can enforce: nothing.
func Detect() Support { return Support{System: runtime.GOOS} }
