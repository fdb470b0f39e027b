package toolbox

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"unicode/utf8"
)

// isBinary tells from the beginning of a file whether it is no text, as git does.
func isBinary(head []byte) bool { return bytes.IndexByte(head[:min(len(head), sniffed)], 0) >= 0 }

// withoutMark is a text without the mark that some editors begin files with.
func withoutMark(text []byte) []byte { return bytes.TrimPrefix(text, []byte("\uFEFF")) }

// lower writes src into dst with the letters A to Z small. dst must be as long. Eight bytes at a time are several times
// as fast as one.
func lower(dst, src []byte) {
	const ones, highs = 0x0101010101010101, 0x8080808080808080
	for len(src) >= 8 {
		x := binary.LittleEndian.Uint64(src)
		low := x &^ highs
		fromA, beyondZ := low+(0x80-'A')*ones, low+(0x7f-'Z')*ones
		capital := (fromA ^ beyondZ) &^ x & highs
		binary.LittleEndian.PutUint64(dst, x|capital>>2)
		src, dst = src[8:], dst[8:]
	}
	for i, c := range src {
		if 'A' <= c && c <= 'Z' {
			c += 'a' - 'A'
		}
		dst[i] = c
	}
}

// shownLine is how many bytes of a line are shown.
const shownLine = 240

// excerpt is a line of a file, in UTF-8 and without its end, cut to what stands around a place in it if it is long.
func excerpt(line []byte, at int) string {
	line = bytes.TrimRight(line, "\r\n")
	if len(line) <= shownLine {
		return valid(string(line))
	}
	from := max(0, min(at-shownLine/3, len(line)-shownLine))
	to := from + shownLine
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

// count is a number of things in words.
func count(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}
