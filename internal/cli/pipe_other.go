//go:build !windows

package cli

// isSystemClosedPipe returns false: EPIPE is the only such error here.
func isSystemClosedPipe(error) bool { return false }
