//go:build !amd64

package transcript

// findLineEnds writes to bits, for each block of p, a bit for each byte that is a line end. The length of p is a
// multiple of block.
func findLineEnds(bits *[window / block]uint64, p []byte) { findLineEndsGeneric(bits, p) }
