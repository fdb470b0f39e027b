// Package lines is what the readers of an agent's text share about text laid out in lines: white space, code fences,
// delegation markers, and how bytes are shown as text. A line is given without its line end; a CR before that is white
// space. White space is ASCII's, and no input is an error: bytes that are not UTF-8 are shown as U+FFFD. Only
// Fencer and Runes have state: they take a text in pieces of any size, and what comes of it does not depend on the cuts.
package lines

import "unicode/utf8"

// The lines that begin and end a delegation prompt, white space after them aside.
const (
	DelegationStart = "---DELEGATION PROMPT START---"
	DelegationEnd   = "---DELEGATION PROMPT END---"
)

// Space is the white space of which IsSpace tells.
const Space = " \t\r\n\v\f"

func IsSpace(c byte) bool { return c == ' ' || '\t' <= c && c <= '\r' }

// TrimEnd cuts trailing white space, CR included.
func TrimEnd(b []byte) []byte {
	n := len(b)
	for n > 0 && IsSpace(b[n-1]) {
		n--
	}
	return b[:n]
}

// Blank reports whether there is nothing but white space.
func Blank(b []byte) bool { return len(TrimEnd(b)) == 0 }

// Valid shows bytes as text, each one that is not UTF-8 as U+FFFD.
func Valid(b []byte) string {
	if utf8.Valid(b) {
		return string(b)
	}
	return string([]rune(string(b)))
}

// Excerpt shows the start of what is too long or broken.
func Excerpt(b []byte) string {
	const most = 256
	if len(b) <= most {
		return Valid(b)
	}
	return Valid(b[:RuneStart(b, most)]) + "…"
}

// RuneStart moves i back to where a rune of b begins, if one is cut there.
func RuneStart(b []byte, i int) int {
	for back := i; back > max(0, i-4); back-- {
		if b[back]&0xC0 != 0x80 {
			return back
		}
	}
	return i
}
