package sections

import (
	"iter"
	"slices"
	"strings"
	"unicode"
)

// MaxWords is how many words of a query are used.
const MaxWords = 16

// Significant returns the distinct words without fillers such as "the", or all words if all are
// fillers.
func Significant(words iter.Seq[string]) []string {
	var all, some []string
	for word := range words {
		all = appendNew(all, word)
		if !isFiller(word) {
			some = appendNew(some, word)
		}
	}
	if len(some) > 0 {
		return some
	}
	return all
}

func appendNew(list []string, word string) []string {
	if slices.Contains(list, word) {
		return list
	}
	return append(list, word)
}

// isFiller reports whether a word is too common to help a search.
func isFiller(word string) bool {
	switch word {
	case "a", "an", "and", "are", "be", "by", "can", "did", "do", "does", "for", "from", "has",
		"have", "how", "i", "in", "is", "it",
		"its", "me", "my", "of", "on", "or", "our", "so", "that", "the", "their", "there", "this",
		"to", "was", "we", "what", "when", "where",
		"which", "who", "why", "will", "with", "you", "your":
		return true
	}
	return false
}

// runs iterates over the runs of letters and digits in a text. In scripts without spaces between
// words each character is a run.
func runs(text string) iter.Seq[string] {
	return func(yield func(string) bool) {
		start := -1
		end := func(at int) bool {
			from := start
			start = -1
			return from < 0 || yield(text[from:at])
		}
		for at, r := range text {
			switch {
			case r >= 0x1100 && unicode.In(r, unicode.Han, unicode.Hiragana, unicode.Katakana,
				unicode.Hangul):
				if !end(at) || !yield(string(r)) {
					return
				}
			case !unicode.IsLetter(r) && !unicode.IsDigit(r) && !unicode.IsMark(r):
				if !end(at) {
					return
				}
			case start < 0:
				start = at
			}
		}
		end(len(text))
	}
}

// parts splits a name such as parseTurnSignal or HTTPServer into words in lower case.
func parts(name string) []string {
	var all []string
	start, last, before := 0, 0, rune(0)
	for at, r := range name {
		switch {
		case at == 0:
		case unicode.IsUpper(r) && !unicode.IsUpper(before):
			all = append(all, strings.ToLower(name[start:at]))
			start = at
		case unicode.IsLower(r) && unicode.IsUpper(before) && last > start:
			// the last of several capitals begins the next part
			all = append(all, strings.ToLower(name[start:last]))
			start = last
		}
		last, before = at, r
	}
	return append(all, strings.ToLower(name[start:]))
}

// Words iterates over the words of a text in lower case, and splits names.
func Words(text string) iter.Seq[string] {
	return func(yield func(string) bool) {
		for run := range runs(text) {
			for _, part := range parts(run) {
				if !yield(part) {
					return
				}
			}
		}
	}
}
