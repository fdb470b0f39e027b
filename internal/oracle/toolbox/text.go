package toolbox

import (
	"bytes"
	"unicode/utf8"
)

// isBinary reports whether a file that begins with head is binary. Like git, it looks for a zero
// byte.
func isBinary(head []byte) bool { return bytes.IndexByte(head[:min(len(head), sniffed)], 0) >= 0 }

// lower copies src to dst, which must be as long, and changes the letters A to Z to lower case.
// Unlike bytes.ToLower it never changes the length, so that offsets stay valid.
func lower(dst, src []byte) {
	for i, c := range src {
		if 'A' <= c && c <= 'Z' {
			c += 'a' - 'A'
		}
		dst[i] = c
	}
}

// maxShownLine is how many bytes of a line are shown.
const maxShownLine = 240

// excerpt returns a line of a file as valid UTF-8, without its line ending. A long line is cut to
// the part around at.
func excerpt(line []byte, at int) string {
	line = bytes.TrimRight(line, "\r\n")
	if len(line) <= maxShownLine {
		return valid(string(line))
	}
	from := max(0, min(at-maxShownLine/3, len(line)-maxShownLine))
	to := from + maxShownLine
	for from > 0 && from < to && !utf8.RuneStart(line[from]) {
		from++
	}
	for to < len(line) && to > from && !utf8.RuneStart(line[to]) {
		to--
	}
	shown := valid(string(line[from:to]))
	if from > 0 {
		shown = "…" + shown
	}
	if to < len(line) {
		shown += "…"
	}
	return shown
}
