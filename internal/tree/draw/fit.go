package draw

import (
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// ruler says how much room a letter takes.
type ruler func(rune) int

// maxMarks is how many combining marks may follow a letter; more are a tower over the lines above, and are escaped.
const maxMarks = 2

// ellipsis ends what was cut.
const ellipsis = "…"

// fit makes text safe to show and cuts it to limit, by a ruler. It reads no more of the text than fits.
func fit(s string, limit int, width ruler) string { return fitWith(s, limit, width, ellipsis, false) }

func fitWith(s string, limit int, width ruler, end string, ascii bool) string {
	if isPlain(s, limit, width) {
		return s
	}
	var b strings.Builder
	endWidth := measure(end, width)
	used, marks := 0, 0
	cut := 0 // how much of b still leaves room for end
	for _, r := range s {
		piece := visible(r, ascii)
		if isMark(r) {
			if marks++; marks > maxMarks {
				piece = escaped(r)
			}
		} else {
			marks = 0
		}
		used += measure(piece, width)
		if used > limit {
			return strings.TrimRight(b.String()[:cut], " ") + end
		}
		b.WriteString(piece)
		if used+endWidth <= limit {
			cut = b.Len()
		}
	}
	return b.String()
}

// isPlain reports whether a text needs no change, which is most of them.
func isPlain(s string, limit int, width ruler) bool {
	used := 0
	for i := range len(s) {
		if s[i] < ' ' || s[i] > '~' {
			return false
		}
		if used += width(rune(s[i])); used > limit {
			return false
		}
	}
	return true
}

// fitTail keeps the end of a text that has limit columns or more.
func fitTail(s string, limit int) string {
	start, used := len(s), 0
	for start > 0 {
		r, size := utf8.DecodeLastRuneInString(s[:start])
		piece := visible(r, false)
		if isMark(r) {
			piece = escaped(r) // it may become that
		}
		if used += measure(piece, columns); used >= limit {
			break
		}
		start -= size
	}
	tail := fit(s[start:], limit, columns)
	if start > 0 {
		return ellipsis + tail
	}
	return tail
}

func measure(s string, width ruler) int {
	sum := 0
	for _, r := range s {
		sum += width(r)
	}
	return sum
}

// visible is a letter as it may be shown: what steers a terminal or turns text around is escaped. None of these count
// as printable.
func visible(r rune, ascii bool) string {
	if strconv.IsPrint(r) && (!ascii || r < utf8.RuneSelf) {
		return string(r)
	}
	return escaped(r)
}

func escaped(r rune) string {
	quoted := strconv.QuoteRuneToASCII(r)
	return quoted[1 : len(quoted)-1]
}

// fold puts prose on one line: line ends, tabs and runs of spaces become one space.
func fold(s string) string {
	// Prose that is longer is cut to less than this everywhere.
	if len(s) > 16<<10 {
		s = s[:16<<10]
	}
	return strings.Join(strings.Fields(s), " ")
}

func isMark(r rune) bool { return r >= 0x300 && unicode.In(r, unicode.Mn, unicode.Me) }

// columns is how many columns of a terminal a letter takes. It knows the scripts and the pictures that take two,
// roughly: a mistake moves what follows on the line by a column.
func columns(r rune) int {
	switch {
	case r < 0x300:
		return 1
	case isMark(r):
		return 0
	case isWide(r):
		return 2
	}
	return 1
}

func isWide(r rune) bool {
	switch {
	case r < 0x1100:
		return false
	case r <= 0x115f, r >= 0x2e80 && r <= 0xa4cf && r != 0x303f, r >= 0xa960 && r <= 0xa97c, r >= 0xac00 && r <= 0xd7a3,
		r >= 0xf900 && r <= 0xfaff, r >= 0xfe30 && r <= 0xfe6f, r >= 0xff01 && r <= 0xff60, r >= 0xffe0 && r <= 0xffe6,
		r >= 0x1f300 && r <= 0x1faff, r >= 0x20000 && r <= 0x3fffd:
		return true
	}
	return false
}

// advance is how wide a letter is in a sans-serif face, in hundredths of its size. It goes by the wider ones of the
// faces that the picture may be shown in, so that a label is rather too short than too long.
func advance(r rune) int {
	switch r {
	case '\'', '|', 'i', 'j', 'l':
		return 29
	case ' ', '!', ',', '.', ':', ';', 'I':
		return 34
	case '(', ')', '[', ']', '/', '\\', '"', '-', '`', 'f', 'r', 't':
		return 42
	case 'm', 'M', 'W', '@', '%':
		return 99
	case 'w', '#', '+', '<', '=', '>', '~', '^', '&':
		return 82
	}
	switch {
	case r >= 'A' && r <= 'Z':
		return 82
	case r < utf8.RuneSelf:
		return 62
	case r < 0x250:
		return 66
	case isMark(r):
		return 0
	case isWide(r):
		return 105
	}
	return 86
}

// advanceBold is advance for a heavier face.
func advanceBold(r rune) int { return advance(r) * 112 / 100 }
