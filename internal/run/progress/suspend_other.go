//go:build !unix

package progress

// canSuspend reports that programs cannot be suspended on this system.
func canSuspend() bool { return false }
