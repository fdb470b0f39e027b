package git

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

// FoldName returns one text for all names of a file, without slashes, that some system takes for
// the same: those that differ in case, in the form of Unicode, in characters that no one sees, or
// in spaces and dots at the end. macOS and Windows ignore case, macOS also Unicode forms and
// invisible characters, and Windows what is at the end.
func FoldName(name string) string {
	if isASCII(name) {
		return strings.TrimRight(strings.ToLower(name), " .")
	}
	visible := strings.Map(func(r rune) rune {
		if unicode.In(r, unicode.Cf, unicode.Variation_Selector,
			unicode.Other_Default_Ignorable_Code_Point) {
			return -1
		}
		return r
	}, name)
	// Some letters, such as the long s, have an upper case but are not the lower case of it.
	folded := strings.ToLower(strings.ToUpper(norm.NFKC.String(visible)))
	return strings.TrimRight(norm.NFKC.String(folded), " .")
}

// FoldPath is FoldName for each name in a path with slashes. A character that only looks like a
// slash does not become one.
func FoldPath(path string) string {
	if isASCII(path) && !strings.Contains(path, " ") && !strings.Contains(path, ".") {
		return strings.ToLower(path)
	}
	names := strings.Split(path, "/")
	for i, name := range names {
		names[i] = strings.ReplaceAll(FoldName(name), "/", "\uff0f")
	}
	return strings.Join(names, "/")
}

func isASCII(s string) bool {
	for i := range len(s) {
		if s[i] >= utf8.RuneSelf {
			return false
		}
	}
	return true
}
