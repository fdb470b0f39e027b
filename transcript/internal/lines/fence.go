package lines

import "bytes"

// Fence is a CommonMark code fence. The zero value is none.
type Fence struct {
	Mark byte // '`' or '~'
	JSON bool // what follows the marks is "json" or nothing
	size int
}

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

// OpenFence returns the fence that the line opens, false if it opens none.
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
