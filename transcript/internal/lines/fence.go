package lines

import "bytes"

// Fence is an open CommonMark code fence. The zero Fence is not open.
type Fence struct {
	Mark byte // '`' or '~'
	JSON bool // the info string is "json" or empty
	size int
}

// IsOpen reports whether f is a fence.
func (f Fence) IsOpen() bool { return f.size > 0 }

// fenceRun measures the run of fence characters at the start of line, after at most three spaces.
func fenceRun(line []byte) (mark byte, size int, rest []byte) {
	i := 0
	for i < len(line) && i < 3 && line[i] == ' ' {
		i++
	}
	if i == len(line) || line[i] != '`' && line[i] != '~' {
		return 0, 0, nil
	}
	end := i
	for end < len(line) && line[end] == line[i] {
		end++
	}
	return line[i], end - i, line[end:]
}

// OpenFence returns the fence that the line opens, or false.
func OpenFence(line []byte) (Fence, bool) {
	mark, size, rest := fenceRun(line)
	if size < 3 || mark == '`' && bytes.IndexByte(rest, '`') >= 0 {
		return Fence{}, false
	}
	info := bytes.TrimSpace(rest)
	return Fence{Mark: mark, JSON: len(info) == 0 || string(info) == "json", size: size}, true
}

// ClosedBy reports whether the line closes the fence, which must be open.
func (f Fence) ClosedBy(line []byte) bool {
	mark, size, rest := fenceRun(line)
	return mark == f.Mark && size >= f.size && Blank(rest)
}
