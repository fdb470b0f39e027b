package prompt

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode"
)

// Class is the class of a question.
type Class string

const (
	Code           Class = "code"
	Documentation  Class = "documentation"
	Research       Class = "research"
	Conversational Class = "conversational"
	Action         Class = "action"
)

// Classes returns all classes. If two have the same score, the earlier one wins.
func Classes() []Class { return []Class{Code, Action, Documentation, Research, Conversational} }

// words is the table of words. The key is the first word of an entry; longer entries come first.
type words map[string][]entry

type entry struct {
	class  Class
	weight int
	words  []string
}

const maxWeight = 9

// parseWords parses the table. Each line has a class, a weight and words; "#" starts a comment
// line.
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
			return nil, fmt.Errorf("words, line %d: duplicate %q", i+1, strings.Join(e.words, " "))
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
		return entry{}, errors.New("write a class, a weight and a word")
	}
	e := entry{class: Class(fields[0]), words: splitWords(strings.Join(fields[2:], " "))}
	if !slices.Contains(Classes(), e.class) {
		return entry{}, fmt.Errorf("unknown class %q: the classes are %v", e.class, Classes())
	}
	var err error
	if e.weight, err = strconv.Atoi(fields[1]); err != nil || e.weight < 1 || e.weight > maxWeight {
		return entry{}, fmt.Errorf("weight %q is not a number from 1 to %d", fields[1], maxWeight)
	}
	if len(e.words) == 0 {
		return entry{}, fmt.Errorf("%q is not a word", strings.Join(fields[2:], " "))
	}
	return e, nil
}

// splitWords returns the words of a text, case-folded. A word is a run of letters, digits, marks
// and underscores.
func splitWords(text string) []string {
	found := strings.FieldsFunc(text, func(c rune) bool {
		return !unicode.IsLetter(c) && !unicode.IsDigit(c) && !unicode.IsMark(c) && c != '_'
	})
	for i := range found {
		found[i] = strings.Map(fold, found[i])
	}
	return found
}

// fold returns the smallest rune that differs from c only by case.
func fold(c rune) rune {
	least := c
	for other := unicode.SimpleFold(c); other != c; other = unicode.SimpleFold(other) {
		least = min(least, other)
	}
	return least
}

// classify adds the weights of the entries that occur in a question, each once. A question is
// conversational only if no other class scores and at least half of its words are small talk. The
// default is Research.
func (w words) classify(question string) Class {
	all := splitWords(question)
	scores := map[Class]int{}
	seen := map[*entry]bool{}
	smallTalk := 0 // number of words
	for rest := all; len(rest) > 0; {
		e := w.match(rest)
		if e == nil {
			rest = rest[1:]
			continue
		}
		rest = rest[len(e.words):]
		if e.class == Conversational {
			smallTalk += len(e.words)
		} else if !seen[e] {
			scores[e.class] += e.weight
		}
		seen[e] = true
	}
	best := Research
	for _, class := range Classes() {
		if scores[class] > scores[best] || scores[class] == scores[best] && scores[class] > 0 &&
			before(class, best) {
			best = class
		}
	}
	if scores[best] == 0 && smallTalk > 0 && 2*smallTalk >= len(all) {
		return Conversational
	}
	return best
}

func before(a, b Class) bool { return slices.Index(Classes(), a) < slices.Index(Classes(), b) }

// match returns the longest entry that is a prefix of the words, nil if there is none.
func (w words) match(all []string) *entry {
	entries := w[all[0]]
	for i := range entries {
		if n := len(entries[i].words); n <= len(all) && slices.Equal(entries[i].words, all[:n]) {
			return &entries[i]
		}
	}
	return nil
}
