// Package text holds the small text helpers that several packages share: shortening, escaping for
// terminals, plurals and spelling hints. It is pure and imports the standard library only.
package text

import (
	"fmt"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// Truncate returns the longest prefix of s that has at most limit bytes and does not cut a
// character.
func Truncate(s string, limit int) string {
	if len(s) <= limit {
		return s
	}
	limit = max(limit, 0)
	for limit > 0 && !utf8.RuneStart(s[limit]) {
		limit--
	}
	return s[:limit]
}

// Tail returns the longest suffix of s that has at most limit bytes and does not cut a character.
func Tail(s string, limit int) string {
	if len(s) <= limit {
		return s
	}
	from := len(s) - max(limit, 0)
	for from < len(s) && !utf8.RuneStart(s[from]) {
		from++
	}
	return s[from:]
}

// Shorten returns s if it has at most limit characters, and otherwise as many of its first
// characters as leave room for a closing "…".
func Shorten(s string, limit int) string {
	count, end := 0, 0
	for i := range s {
		if count == limit-1 {
			end = i
		}
		if count == limit {
			return s[:end] + "…"
		}
		count++
	}
	return s
}

// OneLine returns s on a single line that is safe to print: every run of white space and of what
// IsUnsafe reports becomes one space, and invalid UTF-8 becomes U+FFFD.
func OneLine(s string) string {
	return strings.Join(strings.FieldsFunc(strings.ToValidUTF8(s, "\ufffd"), func(r rune) bool {
		return unicode.IsSpace(r) || IsUnsafe(r)
	}), " ")
}

// Visible replaces what a person would not see in s, but a program or a model would read, by
// U+FFFD: control characters except line ends and tabs, text direction marks, invisible characters,
// and invalid UTF-8.
func Visible(s string) string {
	return strings.Map(func(r rune) rune {
		if IsUnsafe(r) {
			return utf8.RuneError
		}
		return r
	}, strings.ToValidUTF8(s, "\ufffd"))
}

// Count returns a number with its noun: "1 task", "2 tasks".
func Count(n int, noun string) string { return fmt.Sprintf("%d %s%s", n, noun, Plural(n)) }

// Plural returns the plural ending "s", or "" if n is 1.
func Plural(n int) string {
	if n == 1 {
		return ""
	}
	return "s"
}

// JoinSome lists at most so many names, and how many more there are.
func JoinSome(names []string, most int) string {
	if len(names) <= most {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(names[:most], ", "), len(names)-most)
}

// Ordinal returns "1st", "2nd", "3rd", "4th" and so on.
func Ordinal(n int) string {
	ending := "th"
	if n/10%10 != 1 {
		switch n % 10 {
		case 1:
			ending = "st"
		case 2:
			ending = "nd"
		case 3:
			ending = "rd"
		}
	}
	return fmt.Sprintf("%d%s", n, ending)
}

// WithArticle returns a noun with its article: a tree, an agent.
func WithArticle(noun string) string {
	if noun != "" && strings.IndexByte("aeiou", noun[0]) >= 0 {
		return "an " + noun
	}
	return "a " + noun
}

// Group inserts commas between the thousands of a decimal number: "-1234.5" becomes "-1,234.5".
func Group(number string) string {
	digits := strings.TrimLeft(number, "+-")
	sign := number[:len(number)-len(digits)]
	whole, fraction, hasFraction := strings.Cut(digits, ".")
	var out strings.Builder
	out.WriteString(sign)
	for i := range len(whole) {
		if i > 0 && (len(whole)-i)%3 == 0 {
			out.WriteByte(',')
		}
		out.WriteByte(whole[i])
	}
	if hasFraction {
		out.WriteString("." + fraction)
	}
	return out.String()
}

// Duration formats a duration: 1m38s, 2h05m.
func Duration(d time.Duration) string {
	d = max(d, 0).Truncate(time.Second)
	switch h, m, s := int(d.Hours()), int(d.Minutes())%60, int(d.Seconds())%60; {
	case h >= 48:
		return fmt.Sprintf("%dd%02dh", h/24, h%24)
	case h > 0:
		return fmt.Sprintf("%dh%02dm", h, m)
	case m > 0:
		return fmt.Sprintf("%dm%02ds", m, s)
	default:
		return fmt.Sprintf("%ds", s)
	}
}

// LastLine returns the last line that is not empty, without the spaces around it.
func LastLine(text string) string {
	text = strings.TrimRight(text, " \t\r\n")
	return strings.TrimSpace(text[strings.LastIndexByte(text, '\n')+1:])
}

// ShellWord returns a word for a command line that people copy into a shell: in quotes if the shell
// would take it for anything else, and never as a flag.
func ShellWord(s string) string {
	if strings.HasPrefix(s, "-") {
		s = "./" + s
	}
	special := func(r rune) bool {
		return !unicode.IsLetter(r) && !unicode.IsDigit(r) && !strings.ContainsRune("_-./+,:@%", r)
	}
	if s != "" && !strings.ContainsFunc(s, special) {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}
