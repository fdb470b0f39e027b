package toolbox

import (
	"bytes"
	"math/bits"
	"strings"

	"signalbox/internal/oracle/toolbox/sections"
)

// searchWords returns the words that are searched if no line contains the whole query.
func searchWords(query string) []string {
	words := sections.Significant(sections.Words(query))
	return words[:min(len(words), sections.MaxWords)]
}

// wordScanner finds lines with most of the given words, in any order and also as
// parts of names, in files that contain most of them.
type wordScanner struct {
	words [][]byte // in lower case
	need  int      // how many of the words must occur
	limit int
}

func newWordScanner(words []string, limit int) *wordScanner {
	s := &wordScanner{need: len(words)/2 + 1, limit: limit}
	for _, word := range words {
		s.words = append(s.words, []byte(word))
	}
	return s
}

// in returns the set of words that a text in lower case contains.
func (s *wordScanner) in(folded []byte) (set uint) {
	for i, word := range s.words {
		if bytes.Contains(folded, word) {
			set |= 1 << i
		}
	}
	return set
}

// A word in the line scores lineScore, and one elsewhere in the file 1. Adjacent words, as in a
// name, score joinedScore extra.
const (
	lineScore   = 100
	joinedScore = 50
)

func (s *wordScanner) scan(path string, text, folded []byte) fileHits {
	found := fileHits{path: path}
	have := s.in(folded)
	inFile := bits.OnesCount(have | s.in([]byte(strings.ToLower(path))))
	if have == 0 || inFile < s.need {
		return found
	}
	var best hit
	number := 1
	for from := 0; from < len(text); number++ {
		to := len(text)
		if i := bytes.IndexByte(text[from:], '\n'); i >= 0 {
			to = from + i
		}
		if set := s.in(folded[from:to]); set != 0 {
			score := bits.OnesCount(set)*lineScore + inFile
			at := bytes.Index(folded[from:to], s.words[bits.TrailingZeros(set)])
			if joined := s.joined(folded[from:to]); joined >= 0 {
				score, at = score+joinedScore, joined
			}
			switch {
			case bits.OnesCount(set) >= s.need:
				found.add(newHit(text, line{number, from, to}, at), score, s.limit)
			case score > best.score:
				best = newHit(text, line{number, from, to}, at)
				best.score = score
			}
		}
		from = to + 1
	}
	if found.total == 0 && best.number > 0 {
		found.add(best, best.score, s.limit)
	}
	return found
}

// add adds a match, and drops the worst one if there are more than limit.
func (f *fileHits) add(h hit, score, limit int) {
	h.score = score
	f.total++
	f.score = max(f.score, score)
	if len(f.hits) < limit {
		f.hits = append(f.hits, h)
		return
	}
	worst := 0
	for i := range f.hits {
		if f.hits[i].score < f.hits[worst].score {
			worst = i
		}
	}
	if f.hits[worst].score < score {
		f.hits = append(append(f.hits[:worst:worst], f.hits[worst+1:]...), h)
	}
}

// joined returns the offset in a line where all words follow each other, with at most one character
// that is not a letter or digit between two of them, or -1.
func (s *wordScanner) joined(folded []byte) int {
	if len(s.words) < 2 {
		return -1
	}
	for from := 0; ; {
		at := bytes.Index(folded[from:], s.words[0])
		if at < 0 {
			return -1
		}
		at += from
		rest, all := folded[at+len(s.words[0]):], true
		for _, word := range s.words[1:] {
			if len(rest) > 0 && !isWordRune(rune(rest[0])) || len(rest) > 0 && rest[0] == '_' {
				rest = rest[1:]
			}
			if rest, all = bytes.CutPrefix(rest, word); !all {
				break
			}
		}
		if all {
			return at
		}
		from = at + 1
	}
}
