package prompt

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode"
)

// Class is the kind of a question.
type Class string

const (
	Code           Class = "code"
	Documentation  Class = "documentation"
	Research       Class = "research"
	Conversational Class = "conversational"
	Action         Class = "action"
)

// Classes returns all classes. Of two that score the same, the earlier one wins.
func Classes() []Class { return []Class{Code, Action, Documentation, Research, Conversational} }

// words is the table of words, by the first word of each entry; the longest entry first.
type words map[string][]entry

type entry struct {
	class  Class
	weight int
	words  []string
}

const maxWeight = 9

// parseWords reads the table: a class, a weight and words on each line, "#" before a remark.
func parseWords(text string) (words, error) {
	table := words{}
	for i, line := range strings.Split(text, "\n") {
		fields := strings.Fields(line)
		if len(fields) == 0 || strings.HasPrefix(fields[0], "#") {
			continue
		}
		e, err := parseEntry(fields)
		if err != nil {
			return nil, fmt.Errorf("words, line %d: %w", i+1, err)
		}
		same := func(other entry) bool { return slices.Equal(other.words, e.words) }
		if slices.ContainsFunc(table[e.words[0]], same) {
			return nil, fmt.Errorf("words, line %d: %q is there twice", i+1, strings.Join(e.words, " "))
		}
		table[e.words[0]] = append(table[e.words[0]], e)
	}
	for _, entries := range table {
		slices.SortStableFunc(entries, func(a, b entry) int { return len(b.words) - len(a.words) })
	}
	return table, nil
}

func parseEntry(fields []string) (entry, error) {
	if len(fields) < 3 {
		return entry{}, fmt.Errorf("write a class, a weight and a word")
	}
	e := entry{class: Class(fields[0]), words: splitWords(strings.Join(fields[2:], " "))}
	if !slices.Contains(Classes(), e.class) {
		return entry{}, fmt.Errorf("no such class as %q: the classes are %v", e.class, Classes())
	}
	var err error
	if e.weight, err = strconv.Atoi(fields[1]); err != nil || e.weight < 1 || e.weight > maxWeight {
		return entry{}, fmt.Errorf("the weight is a number from 1 to %d, not %q", maxWeight, fields[1])
	}
	if len(e.words) == 0 {
		return entry{}, fmt.Errorf("%q is no word", strings.Join(fields[2:], " "))
	}
	return e, nil
}

// splitWords returns the words of a text, folded. A word is a run of letters, digits, marks and underscores.
func splitWords(text string) []string {
	found := strings.FieldsFunc(text, func(c rune) bool {
		return !unicode.IsLetter(c) && !unicode.IsDigit(c) && !unicode.IsMark(c) && c != '_'
	})
	for i := range found {
		found[i] = strings.Map(fold, found[i])
	}
	return found
}

// fold returns the one rune that stands for all that differ from c by case only.
func fold(c rune) rune {
	least := c
	for other := unicode.SimpleFold(c); other != c; other = unicode.SimpleFold(other) {
		least = min(least, other)
	}
	return least
}

// classify weighs the words of a question, each entry once however often it comes. It is small talk only if nothing else
// is asked, and most of its words are; what nothing is known of is researched.
func (w words) classify(question string) Class {
	all := splitWords(question)
	scores := map[Class]int{}
	seen := map[*entry]bool{}
	talk := 0 // words of small talk
	for rest := all; len(rest) > 0; {
		e := w.match(rest)
		if e == nil {
			rest = rest[1:]
			continue
		}
		rest = rest[len(e.words):]
		if e.class == Conversational {
			talk += len(e.words)
		} else if !seen[e] {
			scores[e.class] += e.weight
		}
		seen[e] = true
	}
	best := Research
	for _, class := range Classes() {
		if scores[class] > scores[best] || scores[class] == scores[best] && scores[class] > 0 && before(class, best) {
			best = class
		}
	}
	if scores[best] == 0 && talk > 0 && 2*talk >= len(all) {
		return Conversational
	}
	return best
}

func before(a, b Class) bool { return slices.Index(Classes(), a) < slices.Index(Classes(), b) }

// match returns the longest entry with which the words begin, nil if there is none.
func (w words) match(all []string) *entry {
	entries := w[all[0]]
	for i := range entries {
		if n := len(entries[i].words); n <= len(all) && slices.Equal(entries[i].words, all[:n]) {
			return &entries[i]
		}
	}
	return nil
}
