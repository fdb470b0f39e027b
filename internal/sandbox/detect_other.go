//go:build !linux && !darwin

package sandbox

// Detect returns what this system can enforce: nothing.
func Detect() Support { return unsupported("") }
