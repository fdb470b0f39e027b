package chunk

import "bytes"

// fence is a CommonMark code fence, by transcript's rules; a test holds the two together. The zero value is none.
type fence struct {
	mark byte // '`' or '~'
	size int
}

// mayBeFence reports whether a line that begins so may be a fence.
func mayBeFence(line []byte) bool {
	rest := unindented(line)
	if len(rest) == 0 {
		return true
	}
	head := rest[:min(3, len(rest))]
	return bytes.Count(head, []byte{'`'}) == len(head) || bytes.Count(head, []byte{'~'}) == len(head)
}

// unindented is a line without up to three spaces.
func unindented(line []byte) []byte {
	i := 0
	for i < len(line) && i < 3 && line[i] == ' ' {
		i++
	}
	return line[i:]
}

// fenceRun measures the run of fence characters at the start of a line.
func fenceRun(line []byte) (f fence, rest []byte) {
	rest = unindented(line)
	if len(rest) == 0 || rest[0] != '`' && rest[0] != '~' {
		return fence{}, nil
	}
	f.mark = rest[0]
	for f.size < len(rest) && rest[f.size] == f.mark {
		f.size++
	}
	return f, rest[f.size:]
}

// openFence returns the fence that the line opens, false if it opens none.
func openFence(line []byte) (fence, bool) {
	f, rest := fenceRun(line)
	if f.size < 3 || f.mark == '`' && bytes.IndexByte(rest, '`') >= 0 {
		return fence{}, false
	}
	return f, true
}

// closedBy reports whether the line closes the fence, which must be open.
func (f fence) closedBy(line []byte) bool {
	run, rest := fenceRun(line)
	for _, c := range rest {
		if !isSpace(c) {
			return false
		}
	}
	return run.mark == f.mark && run.size >= f.size
}
