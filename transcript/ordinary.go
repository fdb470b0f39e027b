package transcript

import "bytes"

// skipOrdinaryLines skips the lines at the start of p that are not suspicious and hold no tag. It returns how many
// bytes and lines it skipped. A last line without a line end is not skipped.
func skipOrdinaryLines(p []byte) (skipped, count int) {
	for {
		n := bytes.IndexByte(p[skipped:], '\n')
		if n < 0 || suspicious(p[skipped:]) || hasTag(p[skipped:skipped+n]) {
			return skipped, count
		}
		skipped += n + 1
		count++
	}
}

// hasTag reports whether a tag such as <signal may start in the line.
func hasTag(line []byte) bool {
	for {
		_, after, found := bytes.Cut(line, []byte{'<'})
		if !found {
			return false
		}
		if len(after) >= 2 && after[0]|0x20 == 's' && after[1]|0x20 == 'i' {
			return true
		}
		line = after
	}
}
