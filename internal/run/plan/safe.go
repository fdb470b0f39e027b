package plan

import (
	"strconv"
	"strings"
	"unicode"
)

// maxQuoted is how many letters of a plan's text an error repeats.
const maxQuoted = 60

// quote shows a plan's text in an error: safe, short, and in quotes.
func quote(s string) string {
	if letters := []rune(s); len(letters) > maxQuoted {
		s = string(letters[:maxQuoted]) + "…"
	}
	return strconv.Quote(s)
}

// printable escapes what steers a terminal or turns text around: controls, line ends, direction overrides.
func printable(s string) string {
	var b strings.Builder
	for _, r := range s {
		if strconv.IsPrint(r) && !unicode.Is(unicode.Bidi_Control, r) {
			b.WriteRune(r)
			continue
		}
		quoted := strconv.QuoteRune(r)
		b.WriteString(quoted[1 : len(quoted)-1])
	}
	return b.String()
}
