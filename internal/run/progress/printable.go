package progress

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Printable escapes what a terminal does not print: control characters, line ends, text direction overrides,
// and bytes that are no UTF-8.
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

// PrintableJSON escapes the controls that JSON allows in a string but a terminal may obey: DEL, the C1 set, and
// text direction overrides. The value is the same; line ends and indentation are left alone.
func PrintableJSON(doc []byte) []byte {
	if bytes.IndexFunc(doc, steersTerminal) < 0 {
		return doc
	}
	var b bytes.Buffer
	for _, r := range string(doc) {
		if steersTerminal(r) {
			fmt.Fprintf(&b, `\u%04x`, r)
		} else {
			b.WriteRune(r)
		}
	}
	return b.Bytes()
}

func steersTerminal(r rune) bool {
	return r != '\n' && unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r)
}
