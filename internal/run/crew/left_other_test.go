//go:build !linux

package crew

// leftProcesses are the agents of a box that still run: here nobody knows.
func leftProcesses(string) []string { return nil }
