//go:build !amd64

package transcript

// lineRoom is what findLines needs beside the masks: nothing here.
type lineRoom struct{}

// findLines makes the masks of so many whole blocks from the window's start on.
func findLines(s *skimmer, p []byte, blocks int) { findLinesGeneric(s, p, blocks) }
