package text

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Printable escapes everything in s that is not a printable character: control characters, line ends, text direction
// overrides and invalid UTF-8. Text that an agent wrote goes through it before it reaches a terminal.
func Printable(s string) string {
	var b strings.Builder
	for i := 0; i < len(s); {
		r, size := utf8.DecodeRuneInString(s[i:])
		switch {
		case r == utf8.RuneError && size == 1:
			fmt.Fprintf(&b, `\x%02x`, s[i])
		case strconv.IsPrint(r):
			b.WriteRune(r)
		default:
			quoted := strconv.QuoteRune(r)
			b.WriteString(quoted[1 : len(quoted)-1])
		}
		i += size
	}
	return b.String()
}

// PrintableLines is like Printable, but keeps line ends and tabs.
func PrintableLines(s string) string {
	var b strings.Builder
	for {
		i := strings.IndexAny(s, "\n\t")
		if i < 0 {
			b.WriteString(Printable(s))
			return b.String()
		}
		b.WriteString(Printable(s[:i]))
		b.WriteByte(s[i])
		s = s[i+1:]
	}
}

// PrintableJSON escapes the controls that JSON allows in a string but a terminal may obey: DEL, the C1 set, and
// text direction overrides. The JSON value stays the same, and so do line ends and indentation.
func PrintableJSON(doc []byte) []byte {
	if bytes.IndexFunc(doc, isTerminalControl) < 0 {
		return doc
	}
	var b bytes.Buffer
	for _, r := range string(doc) {
		if isTerminalControl(r) {
			fmt.Fprintf(&b, `\u%04x`, r)
		} else {
			b.WriteRune(r)
		}
	}
	return b.Bytes()
}

// isTerminalControl reports whether a terminal may act on r instead of showing it.
func isTerminalControl(r rune) bool {
	return r != '\n' && unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r)
}
