package signalbox

import (
	"slices"
	"strings"
)

// SameModel reports whether two names can mean the same model: they have the same words, one is the
// end of the other, or one without a version, such as opus, has only words of the other. It is not
// known if a name is empty, is that of something else, or leaves the choice to a program.
func SameModel(a, b string) (same, known bool) {
	one, other := modelWords(a), modelWords(b)
	if len(one) == 0 || len(other) == 0 {
		return false, false
	}
	part := func(a, b []string) bool {
		return !strings.ContainsAny(strings.Join(a, ""), digits) &&
			!slices.ContainsFunc(a, func(word string) bool { return !slices.Contains(b, word) })
	}
	end := func(a, b []string) bool { return len(a) <= len(b) && slices.Equal(a, b[len(b)-len(a):]) }
	return end(one, other) || end(other, one) || part(one, other) || part(other, one), true
}

// modelWords returns the words of the name of a model, none if it names none. It leaves out the
// provider, as in openai/gpt-5, openai:gpt-5 and us.anthropic.claude-opus-5, and which variant or
// snapshot of the model it is, as in qwen3:8b, claude-opus-5[1m] and gpt-5-2025-08-07.
func modelWords(model string) []string {
	name := strings.ToLower(strings.TrimSpace(model))
	if strings.HasPrefix(name, "arn:") { // of a profile
		return nil
	}
	name = name[strings.LastIndexByte(name, '/')+1:]
	if end := strings.IndexAny(name, "[@"); end >= 0 {
		name = name[:end]
	}
	for strings.Contains(name, ":") {
		before, after, _ := strings.Cut(name, ":")
		if name = after; isVariant(after) ||
			strings.ContainsAny(before, digits) && !strings.ContainsAny(after, digits) {
			name = before
		}
	}
	for i := len(name) - 2; i > 0; i-- { // a provider, and not a version such as 4.1
		if name[i] == '.' && name[i+1] >= 'a' && name[i+1] <= 'z' {
			name = name[i+1:]
			break
		}
	}
	words := strings.FieldsFunc(name, func(r rune) bool { return strings.ContainsRune("-_. ", r) })
	if len(words) > 0 && slices.Contains([]string{"auto", "default", "best", "opusplan"}, words[0]) {
		return nil
	}
	for i := 1; i < len(words); i++ {
		if isSnapshot(words[i:]) {
			return words[:i]
		}
	}
	for len(words) > 1 && isRelease(words[len(words)-1]) {
		words = words[:len(words)-1]
	}
	return words
}

const digits = "0123456789"

// isRelease reports whether the last word of a name says only which release of the model it is, as
// in claude-opus-4-6-v1, gpt-4-0613, gemini-2.0-flash-001 and claude-opus-4-0.
func isRelease(word string) bool {
	number := strings.TrimPrefix(word, "v")
	return strings.Trim(number, digits) == "" &&
		(number != word && number != "" || len(word) == 3 || len(word) == 4 || word == "0")
}

// isVariant reports whether what follows a colon is a variant of the model before it.
func isVariant(s string) bool {
	return s == "" || s[0] >= '0' && s[0] <= '9' ||
		slices.Contains([]string{"latest", "free", "thinking", "beta", "online", "extended"}, s)
}

// isSnapshot reports whether words begin with the date of a model, such as 20250805 or 2025-08-07,
// or a word that stands for one.
func isSnapshot(words []string) bool {
	number := func(i, length int) bool {
		return i < len(words) && len(words[i]) == length && strings.Trim(words[i], digits) == ""
	}
	return slices.Contains([]string{"latest", "preview", "exp"}, words[0]) ||
		strings.HasPrefix(words[0], "20") &&
			(number(0, 8) || number(0, 4) && number(1, 2) && number(2, 2))
}
