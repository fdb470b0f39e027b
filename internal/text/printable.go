package text

import (
	"bytes"
	"fmt"
	"io"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"
)

// Printable escapes everything in s that is not a printable character: control characters, line
// ends, text direction overrides, invisible characters and invalid UTF-8. Text that an agent wrote
// goes through it before it reaches a terminal.
func Printable(s string) string {
	start := 0
	for start < len(s) && s[start] >= ' ' && s[start] < 0x7f {
		start++
	}
	if start == len(s) {
		return s
	}
	var b strings.Builder
	b.WriteString(s[:start])
	for i := start; i < len(s); {
		r, size := utf8.DecodeRuneInString(s[i:])
		switch {
		case r == utf8.RuneError && size == 1:
			fmt.Fprintf(&b, `\x%02x`, s[i])
		case IsPrint(r):
			b.WriteRune(r)
		default:
			b.WriteString(Escape(r))
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

// PrintableJSON escapes what JSON allows in a string but a terminal may obey: DEL, the C1 set, text
// direction marks and invisible characters. The JSON value stays the same, and so do line ends and
// indentation. Invalid UTF-8, which every reader of JSON replaces, becomes U+FFFD.
func PrintableJSON(doc []byte) []byte {
	if i := indexUnsafe(doc); i < 0 {
		return doc
	}
	var b bytes.Buffer
	e := NewJSONEscaper(&b)
	e.Write(doc) // cannot fail: it writes to memory
	e.Close()
	return b.Bytes()
}

// Escaper is a writer that escapes everything a terminal may obey or hide instead of showing it:
// control characters except line ends and tabs, text direction marks, invisible characters and
// invalid UTF-8.
type Escaper struct {
	w       io.Writer
	json    bool
	partial []byte // the first bytes of a character whose rest was not written yet
}

// NewEscaper returns an Escaper for text, which writes "\x1b" for an escape character.
func NewEscaper(w io.Writer) *Escaper { return &Escaper{w: w} }

// NewJSONEscaper returns an Escaper for JSON, which writes "\u001b" for an escape character.
func NewJSONEscaper(w io.Writer) *Escaper { return &Escaper{w: w, json: true} }

// Write escapes text. It keeps back a character that is not complete.
func (e *Escaper) Write(b []byte) (int, error) {
	text := b
	if len(e.partial) > 0 {
		text = append(e.partial, b...)
		e.partial = nil
	}
	if n := incomplete(text); n > 0 {
		e.partial = bytes.Clone(text[len(text)-n:])
		text = text[:len(text)-n]
	}
	if err := e.write(text); err != nil {
		return 0, err
	}
	return len(b), nil
}

// Close writes the character that was kept back. It does not close the underlying writer.
func (e *Escaper) Close() error {
	rest := e.partial
	e.partial = nil
	return e.write(rest)
}

func (e *Escaper) write(text []byte) error {
	if len(text) == 0 {
		return nil
	}
	unsafe := indexUnsafe(text)
	if unsafe < 0 {
		_, err := e.w.Write(text)
		return err
	}
	out := append(make([]byte, 0, len(text)+16), text[:unsafe]...)
	for i := unsafe; i < len(text); {
		r, size := utf8.DecodeRune(text[i:])
		switch {
		case r == utf8.RuneError && size == 1 && e.json:
			out = utf8.AppendRune(out, utf8.RuneError)
		case r == utf8.RuneError && size == 1:
			out = fmt.Appendf(out, `\x%02x`, text[i])
		case !IsUnsafe(r):
			out = append(out, text[i:i+size]...)
		case !e.json:
			out = append(out, Escape(r)...)
		case r > 0xffff:
			high, low := utf16.EncodeRune(r)
			out = fmt.Appendf(out, `\u%04x\u%04x`, high, low)
		default:
			out = fmt.Appendf(out, `\u%04x`, r)
		}
		i += size
	}
	_, err := e.w.Write(out)
	return err
}

// indexUnsafe returns the index of the first character that must be escaped, -1 if there is none.
func indexUnsafe(text []byte) int {
	for i := 0; i < len(text); {
		if c := text[i]; c >= ' ' && c < 0x7f {
			i++
			continue
		}
		r, size := utf8.DecodeRune(text[i:])
		if r == utf8.RuneError && size == 1 || IsUnsafe(r) {
			return i
		}
		i += size
	}
	return -1
}

// incomplete returns the number of bytes at the end of text that are the beginning of a character.
func incomplete(text []byte) int {
	for n := 1; n < utf8.UTFMax && n <= len(text); n++ {
		if last := text[len(text)-n:]; utf8.RuneStart(last[0]) {
			if utf8.FullRune(last) {
				return 0
			}
			return n
		}
	}
	return 0
}

// IsPrint reports whether r is a character that is shown as something, or an ASCII space.
func IsPrint(r rune) bool { return strconv.IsPrint(r) && !IsUnsafe(r) }

// Escape returns r as Go writes it in a literal, with ASCII characters only.
func Escape(r rune) string {
	quoted := strconv.QuoteRuneToASCII(r)
	return quoted[1 : len(quoted)-1]
}

// IsUnsafe reports whether a terminal or a browser may act on r, or show nothing for it: control
// characters other than line ends and tabs, text direction marks, what Unicode calls
// default-ignorable, and other characters without a shape. That includes the parts of emoji that
// only select a shape, which can hide a text as well: no one sees how many there are.
func IsUnsafe(r rune) bool {
	switch {
	case r >= ' ' && r < 0x7f, r == '\n', r == '\t':
		return false
	case r > lastFiller && r < 0xd800: // most letters of Asia, for speed
		return false
	}
	return unicode.In(r, unicode.Cc, unicode.Cf, unicode.Zl, unicode.Zp,
		unicode.Other_Default_Ignorable_Code_Point, unicode.Variation_Selector) ||
		isBlank(r)
}

const lastFiller = '\u3164' // Hangul; the next invisible character comes after the syllables

// isBlank reports whether r is a character without a shape that is not default-ignorable.
func isBlank(r rune) bool {
	switch r {
	case '\u2800', // a Braille pattern of no dots
		'\u2d7f',     // a joiner of Tifinagh letters
		'\U0001107f', // a joiner of Brahmi numbers
		'\U00016fe4', // a filler of Khitan letters
		'\U0001d159': // a note without a head
		return true
	}
	return false
}
