package importer

import (
	"maps"
	"slices"
	"strings"

	"signalbox/internal/text"
)

// vocabulary is what a broker's words mean, in the spelling that fold gives them.
type vocabulary map[string]meaning

func (v vocabulary) put(m meaning, words ...string) {
	for _, w := range words {
		v[w] = m
	}
}

// fold gives a word of a file one spelling.
func fold(s string) string { return strings.ToLower(strings.Join(strings.Fields(s), " ")) }

// hint suggests the word that is most like an unknown one, as a part of a message; it is empty if none is near.
func hint(word string, known []string) string {
	if near := nearest(fold(word), known); near != "" {
		return "; is it " + near + "?"
	}
	return ""
}

func (v vocabulary) hint(word string) string { return hint(word, slices.Sorted(maps.Keys(v))) }

// nearest is the known word with the fewest letters to change, if that is not another word.
func nearest(word string, known []string) string {
	const longest = 100 // a longer one is no word
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

// actionList are the actions of the own columns.
func actionList() []string {
	return []string{string(Buy), string(Sell), string(Reinvest), string(Split), string(Transfer), string(ReturnOfCapital), string(Expire),
		string(Assign), string(GiftIn), string(Inherit)}
}
