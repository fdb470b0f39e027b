package importer

import (
	"maps"
	"slices"
	"strings"

	"signalbox/internal/text"
)

// vocabulary maps the words of a broker, as returned by normalize, to their meanings.
type vocabulary map[string]meaning

// put adds words, which are separated by commas.
func (v vocabulary) put(m meaning, words string) {
	for w := range strings.SplitSeq(words, ", ") {
		v[w] = m
	}
}

// normalize returns s in lower case, with single spaces.
func normalize(s string) string { return strings.ToLower(strings.Join(strings.Fields(s), " ")) }

// hint is a suggestion for an unknown word, as a part of a message. Finding it compares all known
// words, and a file can have a million unknown words. So only messages that are shown look for it.
type hint struct {
	word  string
	known func() []string
}

// String returns the suggestion, or "" if no known word is similar.
func (h hint) String() string {
	if near := nearest(normalize(h.word), h.known()); near != "" {
		return "; did you mean " + near + "?"
	}
	return ""
}

func (v vocabulary) hint(word string) hint {
	return hint{word, func() []string { return slices.Sorted(maps.Keys(v)) }}
}

// nearest returns the known word with the smallest edit distance, or "" if all are too different.
func nearest(word string, known []string) string {
	const longest = 100 // longer text is not a word
	best, least := "", max(1, len(word)/3)
	if len(word) > longest {
		return ""
	}
	for _, k := range known {
		if d := text.EditDistance(word, k); d < least || d == least && best == "" {
			best, least = k, d
		}
	}
	return best
}

// actionList returns the actions of signalbox CSV.
func actionList() []string {
	return []string{string(Buy), string(Sell), string(Reinvest), string(Split), string(Transfer),
		string(ReturnOfCapital), string(Expire),
		string(Assign), string(GiftIn), string(Inherit), string(SpinOff), string(Exchange),
		string(CashInLieu)}
}
