package sections

import (
	"cmp"
	"iter"
	"math"
	"math/bits"
	"slices"
	"strings"
	"unicode/utf8"
)

// What a word weighs by where it stands, and how BM25 is set: k dampens a word that is repeated, b favours short sections.
const (
	titleWeight = 4
	aboveWeight = 2
	pathWeight  = 2
	k, b        = 1.2, 0.75
)

// Note is a file that was split.
type Note struct {
	Path     string
	Sections []Section
}

// Index finds sections by their words.
type Index struct {
	notes    int
	entries  []Entry
	postings map[string][]posting
	mean     float64 // words of a section
}

// Entry is one section.
type Entry struct {
	Path string
	Section
	length int // in words
}

// posting says how much of a word there is in a section.
type posting struct {
	entry  int32
	weight float32
}

// Build makes an index of notes.
func Build(notes []Note) *Index {
	ix := &Index{notes: len(notes), postings: make(map[string][]posting)}
	total := 0
	for _, note := range notes {
		for _, s := range note.Sections {
			total += ix.add(note.Path, s)
		}
	}
	ix.mean = math.Max(float64(total)/math.Max(float64(len(ix.entries)), 1), 1)
	return ix
}

func (ix *Index) add(path string, s Section) (length int) {
	weights := make(map[string]float32)
	put := func(text string, weight float32) (n int) {
		for word := range folded(text) {
			weights[word] += weight
			n++
		}
		return n
	}
	length = put(s.Text, 1)
	put(s.Title, titleWeight)
	put(strings.Join(s.Above, " "), aboveWeight)
	put(path, pathWeight)
	id := int32(len(ix.entries))
	ix.entries = append(ix.entries, Entry{path, s, length})
	for word, weight := range weights {
		ix.postings[word] = append(ix.postings[word], posting{id, weight})
	}
	return length
}

// Notes is how many notes there are.
func (ix *Index) Notes() int { return ix.notes }

// Titles are those of the first notes that have one.
func (ix *Index) Titles(most int) (titles []string) {
	last := ""
	for i := range ix.entries {
		e := &ix.entries[i]
		if len(titles) == most {
			break
		}
		if i > 0 && e.Path == last {
			continue
		}
		last = e.Path
		title, _, _ := strings.Cut(e.FullTitle(), separator)
		titles = append(titles, title)
	}
	return titles
}

// rarity is what a word weighs: less the more sections have it.
func (ix *Index) rarity(word string) float64 {
	n := float64(len(ix.postings[word]))
	return math.Log(1 + (float64(len(ix.entries))-n+0.5)/(n+0.5))
}

// Rank returns the sections that have any of the words, which are those of a query, best first; of equal ones in the order
// of notes.
func (ix *Index) Rank(words []string) []*Entry {
	scores := make(map[int32]float64)
	for _, word := range words {
		rarity := ix.rarity(word)
		for _, p := range ix.postings[word] {
			length := float64(ix.entries[p.entry].length) / ix.mean
			weight := float64(p.weight)
			scores[p.entry] += rarity * weight * (k + 1) / (weight + k*(1-b+b*length))
		}
	}
	ids := make([]int32, 0, len(scores))
	for id := range scores {
		ids = append(ids, id)
	}
	slices.SortFunc(ids, func(x, y int32) int { return cmp.Or(cmp.Compare(scores[y], scores[x]), cmp.Compare(x, y)) })
	ranked := make([]*Entry, len(ids))
	for i, id := range ids {
		ranked[i] = &ix.entries[id]
	}
	return ranked
}

// Excerpt is the part of a section with most of the words of a query, of about as many bytes as it may have, and the number
// of its line; the heading's if that is where the section begins.
func (s Section) Excerpt(words []string, limit int) (text string, line int) {
	if len(s.Text) <= limit {
		return s.Text, s.Line
	}
	lines := strings.Split(s.Text, "\n")
	sets := make([]uint64, len(lines)) // which words each has, of at most MaxWords
	for i, line := range lines {
		for word := range folded(cut(line, limit)) {
			if at := slices.Index(words, word); at >= 0 {
				sets[i] |= 1 << at
			}
		}
	}
	best, most := 0, -1
	for from := range lines {
		if from > 0 && sets[from] == 0 {
			continue
		}
		var set uint64
		for size, i := 0, from; i < len(lines) && size < limit; i++ {
			set |= sets[i]
			size += len(lines[i]) + 1
		}
		if n := bits.OnesCount64(set); n > most { // a later part has to be better, not as good
			best, most = from, n
		}
	}
	body := strings.Join(lines[best:], "\n")
	if len(body) > limit {
		body = cut(body, limit) + "…"
	}
	if best == 0 {
		return body, s.Line
	}
	return "…\n" + body, s.textLine + best
}

// QueryWords are the words of a query as an index has them, at most MaxWords. Two that follow each other may be one in the notes, as back up
// and backup.
func QueryWords(query string) []string {
	words := Telling(folded(query))
	before := ""
	for run := range runs(query) {
		run = strings.ToLower(run)
		if before != "" {
			words = appendNew(words, fold(before+run))
		}
		before = run
	}
	return words[:min(len(words), MaxWords)]
}

// folded goes through the words of a text in the form in which they are compared. Of names such as GitHub the parts
// are words too.
func folded(text string) iter.Seq[string] {
	return func(yield func(string) bool) {
		for run := range runs(text) {
			if !yield(fold(strings.ToLower(run))) {
				return
			}
			if several := parts(run); len(several) > 1 {
				for _, part := range several {
					if !yield(fold(part)) {
						return
					}
				}
			}
		}
	}
}

// accents are those of letters that are common in European languages, and marks that stand alone.
var accents = strings.NewReplacer(
	"à", "a", "á", "a", "â", "a", "ã", "a", "ä", "a", "å", "a", "ç", "c", "è", "e", "é", "e", "ê", "e", "ë", "e", "ì", "i", "í", "i",
	"î", "i", "ï", "i", "ñ", "n", "ò", "o", "ó", "o", "ô", "o", "õ", "o", "ö", "o", "ø", "o", "ù", "u", "ú", "u", "û", "u", "ü", "u",
	"ý", "y", "ÿ", "y", "ß", "ss", "æ", "ae", "œ", "oe", "ą", "a", "ć", "c", "č", "c", "ď", "d", "ě", "e", "ę", "e", "ł", "l", "ń", "n",
	"ň", "n", "ř", "r", "ś", "s", "š", "s", "ť", "t", "ů", "u", "ź", "z", "ż", "z", "ž", "z", "ğ", "g", "ı", "i", "ş", "s",
	"\u0300", "", "\u0301", "", "\u0302", "", "\u0303", "", "\u0308", "", "\u030a", "", "\u030c", "", "\u0327", "")

// fold makes words alike that are written in different ways: without accents, and in the singular, roughly. It need not be
// right, only the same for all.
func fold(word string) string {
	if strings.ContainsFunc(word, func(r rune) bool { return r >= 0x80 }) {
		word = accents.Replace(word)
	}
	switch {
	case len(word) > 4 && strings.HasSuffix(word, "ies"):
		return word[:len(word)-3] + "y"
	case len(word) > 3 && strings.HasSuffix(word, "s") && !strings.HasSuffix(word, "ss") && !strings.HasSuffix(word, "us") && !strings.HasSuffix(word, "is"):
		word = word[:len(word)-1]
	}
	// Boxes and caches leave boxe and cache, which become box and cach; so does cache.
	if stem, found := strings.CutSuffix(word, "e"); found && len(stem) > 2 {
		for _, end := range []string{"s", "x", "z", "o", "ch", "sh"} {
			if strings.HasSuffix(stem, end) {
				return stem
			}
		}
	}
	return word
}

// cut is the beginning of a text, of whole runes.
func cut(text string, limit int) string {
	if len(text) <= limit {
		return text
	}
	for limit > 0 && !utf8.RuneStart(text[limit]) {
		limit--
	}
	return text[:limit]
}
