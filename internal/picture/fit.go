// Package picture has what the pictures of plans and behaviour trees share: the frame of an SVG
// document, its fonts and colours, and text that is cut to the room it has, in pixels or in columns
// of a terminal. It is pure.
package picture

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"signalbox/internal/text"
)

// Ruler returns the width of a character.
type Ruler func(rune) int

// maxMarks is how many combining marks may follow a character. More would pile up over the lines
// above, and are escaped.
const maxMarks = 2

// Ellipsis marks text that was cut.
const Ellipsis = "…"

// Fit makes text safe to show and cuts it to a width. It reads no more of the text than fits.
func Fit(s string, limit int, width Ruler) string { return fit(s, limit, width, Ellipsis, false) }

// FitASCII is like Fit, for columns of ASCII characters: all others are escaped.
func FitASCII(s string, limit int) string { return fit(s, limit, Columns, "...", true) }

func fit(s string, limit int, width Ruler, end string, ascii bool) string {
	if fitsAsIs(s, limit, width) {
		return s
	}
	var b strings.Builder
	endWidth := Measure(end, width)
	used, marks := 0, 0
	cut := 0 // how much of b leaves room for end
	for _, r := range s {
		piece := visible(r, ascii)
		if isMark(r) {
			if marks++; marks > maxMarks {
				piece = text.Escape(r)
			}
		} else {
			marks = 0
		}
		used += Measure(piece, width)
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

// fitsAsIs reports whether a text is plain ASCII that fits, as most texts are.
func fitsAsIs(s string, limit int, width Ruler) bool {
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

// FitTail makes text safe to show and keeps its end if it has limit columns or more.
func FitTail(s string, limit int) string {
	start, used := len(s), 0
	for start > 0 {
		r, size := utf8.DecodeLastRuneInString(s[:start])
		piece := visible(r, false)
		if isMark(r) {
			piece = text.Escape(r) // Fit may escape it
		}
		if used += Measure(piece, Columns); used >= limit {
			break
		}
		start -= size
	}
	tail := Fit(s[start:], limit, Columns)
	if start > 0 {
		return Ellipsis + tail
	}
	return tail
}

// Measure returns the width of a text.
func Measure(s string, width Ruler) int {
	sum := 0
	for _, r := range s {
		sum += width(r)
	}
	return sum
}

// FitPixels is like Fit, for text in a font of the given size.
func FitPixels(s string, pixels, size int,
	width Ruler) string {
	return Fit(s, pixels*100/size, width)
}

// Pixels returns the width of a text in a font of the given size, rounded up.
func Pixels(s string, size int, width Ruler) int { return (Measure(s, width)*size + 99) / 100 }

// visible returns a character as it may be shown. Characters that steer a terminal or change the
// direction of text are not printable, and are escaped.
func visible(r rune, ascii bool) string {
	if text.IsPrint(r) && (!ascii || r < utf8.RuneSelf) {
		return string(r)
	}
	return text.Escape(r)
}

func isMark(r rune) bool { return r >= 0x300 && unicode.In(r, unicode.Mn, unicode.Me) }

// Columns is a Ruler for terminals. It knows only roughly which characters take two columns: a
// mistake moves the rest of the line by a column.
func Columns(r rune) int {
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
	case r <= 0x115f, r >= 0x2e80 && r <= 0xa4cf && r != 0x303f, r >= 0xa960 && r <= 0xa97c,
		r >= 0xac00 && r <= 0xd7a3,
		r >= 0xf900 && r <= 0xfaff, r >= 0xfe30 && r <= 0xfe6f, r >= 0xff01 && r <= 0xff60,
		r >= 0xffe0 && r <= 0xffe6,
		r >= 0x1f300 && r <= 0x1faff, r >= 0x20000 && r <= 0x3fffd:
		return true
	}
	return false
}

// Advance is a Ruler for a sans-serif font, in hundredths of its size. It uses the widest of the
// fonts that a picture may be shown in, so that a label is too short rather than too long.
func Advance(r rune) int {
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

// AdvanceBold is Advance for a bold font.
func AdvanceBold(r rune) int { return Advance(r) * 112 / 100 }
