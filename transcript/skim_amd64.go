package transcript

// lineEndBits writes, for each of so many blocks from p on, a bit for each byte that is a line end.
//
//go:noescape
func lineEndBits(bits *uint64, p *byte, blocks int)

// findLineEnds writes to bits, for each block of p, a bit for each byte that is a line end. The length of p is a
// multiple of block.
func findLineEnds(bits *[window / block]uint64, p []byte) {
	if len(p) > 0 {
		lineEndBits(&bits[0], &p[0], min(len(p)/block, len(bits)))
	}
}
