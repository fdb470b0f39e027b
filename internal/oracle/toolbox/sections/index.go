package sections

import (
	"cmp"
	"iter"
	"math"
	"math/bits"
	"slices"
	"strings"

	texts "signalbox/internal/text"
)

// Weights of a word by where it occurs, and the parameters of BM25: k limits the effect of repeated
// words, b favours short sections.
const (
	titleWeight = 4
	aboveWeight = 2
	pathWeight  = 2
	k, b        = 1.2, 0.75
)

// Note is a file with its sections.
type Note struct {
	Path     string
	Sections []Section
}

// Index finds sections by their words.
type Index struct {
	notes    int
	entries  []Entry
	postings map[string][]posting
	mean     float64 // number of words of a section
}

// Entry is one section.
type Entry struct {
	Path string
	Section
	length int // in words
}

// posting is the weight of a word in a section.
type posting struct {
	entry  int32
	weight float32
}

// Build returns an index of notes.
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

// Notes returns the number of notes.
func (ix *Index) Notes() int { return ix.notes }

// Titles returns the titles of the first notes, at most limit.
func (ix *Index) Titles(limit int) (titles []string) {
	last := ""
	for i := range ix.entries {
		e := &ix.entries[i]
		if len(titles) == limit {
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

// rarity returns the weight of a word, which is lower the more sections contain it.
func (ix *Index) rarity(word string) float64 {
	n := float64(len(ix.postings[word]))
	return math.Log(1 + (float64(len(ix.entries))-n+0.5)/(n+0.5))
}

// Rank returns the sections that contain any of the words, which come from QueryWords, best first.
// Equal ones are in the order of the notes.
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
	slices.SortFunc(ids,
		func(x, y int32) int { return cmp.Or(cmp.Compare(scores[y], scores[x]), cmp.Compare(x, y)) })
	ranked := make([]*Entry, len(ids))
	for i, id := range ids {
		ranked[i] = &ix.entries[id]
	}
	return ranked
}

// Excerpt returns the part of a section that contains most of the words, of about limit bytes, and
// its line number. If the part is the beginning of the section, that is the line of the heading.
func (s Section) Excerpt(words []string, limit int) (text string, line int) {
	if len(s.Text) <= limit {
		return s.Text, s.Line
	}
	lines := strings.Split(s.Text, "\n")
	sets := make([]uint64, len(lines)) // the set of words in each line, of at most MaxWords
	for i, line := range lines {
		for word := range folded(texts.Truncate(line, limit)) {
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
		if n := bits.OnesCount64(set); n > most { // of equal parts the first wins
			best, most = from, n
		}
	}
	body := strings.Join(lines[best:], "\n")
	if len(body) > limit {
		body = texts.Truncate(body, limit) + "…"
	}
	if best == 0 {
		return body, s.Line
	}
	return "…\n" + body, s.textLine + best
}

// QueryWords returns the words of a query as an index has them, at most MaxWords. Adjacent words
// are also joined, because the notes may have "backup" for "back up".
func QueryWords(query string) []string {
	words := Significant(folded(query))
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

// folded iterates over the words of a text in the form in which they are compared. The parts of a
// name such as GitHub are words too.
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

// accents removes the accents of letters that are common in European languages, and combining
// marks.
var accents = strings.NewReplacer(
	"à", "a", "á", "a", "â", "a", "ã", "a", "ä", "a", "å", "a", "ç", "c", "è", "e", "é", "e", "ê",
	"e", "ë", "e", "ì", "i", "í", "i",
	"î", "i", "ï", "i", "ñ", "n", "ò", "o", "ó", "o", "ô", "o", "õ", "o", "ö", "o", "ø", "o", "ù",
	"u", "ú", "u", "û", "u", "ü", "u",
	"ý", "y", "ÿ", "y", "ß", "ss", "æ", "ae", "œ", "oe", "ą", "a", "ć", "c", "č", "c", "ď", "d",
	"ě", "e", "ę", "e", "ł", "l", "ń", "n",
	"ň", "n", "ř", "r", "ś", "s", "š", "s", "ť", "t", "ů", "u", "ź", "z", "ż", "z", "ž", "z", "ğ",
	"g", "ı", "i", "ş", "s",
	"\u0300", "", "\u0301", "", "\u0302", "", "\u0303", "", "\u0308", "", "\u030a", "", "\u030c",
	"", "\u0327", "")

// fold returns a form that is the same for different spellings of a word: without accents and,
// roughly, in the singular. The form need not be a correct word.
func fold(word string) string {
	if strings.ContainsFunc(word, func(r rune) bool { return r >= 0x80 }) {
		word = accents.Replace(word)
	}
	switch {
	case len(word) > 4 && strings.HasSuffix(word, "ies"):
		return word[:len(word)-3] + "y"
	case len(word) > 3 && strings.HasSuffix(word, "s") && !strings.HasSuffix(word, "ss") &&
		!strings.HasSuffix(word, "us") && !strings.HasSuffix(word, "is"):
		word = word[:len(word)-1]
	}
	// boxes and caches have become boxe and cache; now they become box and cach, as cache does.
	if stem, found := strings.CutSuffix(word, "e"); found && len(stem) > 2 {
		for _, end := range []string{"s", "x", "z", "o", "ch", "sh"} {
			if strings.HasSuffix(stem, end) {
				return stem
			}
		}
	}
	return word
}
