//go:build !windows

package main

// isSystemClosedPipe has nothing to add to EPIPE here.
func isSystemClosedPipe(error) bool { return false }
