//go:build !linux

package memory

// UseForTempFiles does nothing: it is not known where this system keeps files in memory.
func UseForTempFiles() {}
