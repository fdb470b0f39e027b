// Package lines has what the readers of an agent's text share: white space, code fences, delegation
// markers, and the conversion of bytes to text. Functions that take a line expect it without its
// line end; a CR before that is white space. White space is ASCII white space. No input is an
// error: bytes that are not UTF-8 become U+FFFD. Fencer and Runes take a text in pieces of any
// size; however it is cut, the result is the same.
package lines

import "unicode/utf8"

// The lines that start and end a delegation prompt. White space may follow.
const (
	DelegationStart = "---DELEGATION PROMPT START---"
	DelegationEnd   = "---DELEGATION PROMPT END---"
)

// Space is the set of white space characters.
const Space = " \t\r\n\v\f"

// IsSpace reports whether c is in Space.
func IsSpace(c byte) bool { return c == ' ' || '\t' <= c && c <= '\r' }

// TrimEnd returns b without trailing white space.
func TrimEnd(b []byte) []byte {
	n := len(b)
	for n > 0 && IsSpace(b[n-1]) {
		n--
	}
	return b[:n]
}

// Blank reports whether b is empty or only white space.
func Blank(b []byte) bool { return len(TrimEnd(b)) == 0 }

// Valid returns b as text, with U+FFFD for each byte that is not UTF-8.
func Valid(b []byte) string {
	if utf8.Valid(b) {
		return string(b)
	}
	return string([]rune(string(b)))
}

// Excerpt returns the start of b as text, to show input that is too long or broken.
func Excerpt(b []byte) string {
	const most = 256
	if len(b) <= most {
		return Valid(b)
	}
	return Valid(b[:RuneStart(b, most)]) + "…"
}

// RuneStart returns the index at which the rune of b that contains the index i starts.
func RuneStart(b []byte, i int) int {
	for back := i; back > max(0, i-4); back-- {
		if b[back]&0xC0 != 0x80 {
			return back
		}
	}
	return i
}
