package toolbox

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"
	"strings"
	"sync"
	"unicode"

	"signalbox/internal/oracle/chunk"
)

// hit is a line that was found.
type hit struct {
	number int
	text   string
	score  int
	// before and after are the lines around it, if there are any.
	before, after       string
	hasBefore, hasAfter bool
}

func newHit(text []byte, l line, at int) hit {
	h := hit{number: l.number, text: excerpt(text[l.from:l.to], at)}
	if l.from > 0 {
		start := bytes.LastIndexByte(text[:l.from-1], '\n') + 1
		h.before, h.hasBefore = excerpt(text[start:l.from-1], 0), true
	}
	if l.to+1 < len(text) {
		rest := text[l.to+1:]
		if end := bytes.IndexByte(rest, '\n'); end >= 0 {
			rest = rest[:end]
		}
		h.after, h.hasAfter = excerpt(rest, 0), true
	}
	return h
}

// fileHits is what was found in a file. Of several files the one with the higher score comes first.
type fileHits struct {
	path  string
	score int
	hits  []hit // in the order of lines
	total int   // with those that are not kept
}

func better(a, b fileHits) int {
	return cmp.Or(cmp.Compare(b.score, a.score), cmp.Compare(a.path, b.path))
}

// findings are the best of what was found. It holds a bounded number of lines, however many are found, and what it holds
// does not depend on the order in which they are.
type findings struct {
	mu                          sync.Mutex // guards all, while there is more than one scanner
	best                        []fileHits // sorted, at most maxMatches
	files, total                int
	searched, large, unreadable int
}

func (a *findings) skip(large, unreadable bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if large {
		a.large++
	}
	if unreadable {
		a.unreadable++
	}
}

func (a *findings) add(f fileHits) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.searched++
	if f.total == 0 {
		return
	}
	a.files++
	a.total += f.total
	at, _ := slices.BinarySearchFunc(a.best, f, better)
	if at < maxMatches {
		a.best = slices.Insert(a.best, at, f)
		a.best = a.best[:min(len(a.best), maxMatches)]
	}
}

func (a *findings) summary() string {
	return count(a.total, "match", "matches") + " in " + count(a.files, "file", "files")
}

// share says how many lines of each file are shown: three of each, if that is possible, and then more of the first ones.
func (a *findings) share(limit int) []int {
	shares := make([]int, len(a.best))
	for round := 3; limit > 0; round++ {
		given := 0
		for i, f := range a.best {
			more := min(round-shares[i], len(f.hits)-shares[i], limit)
			if more > 0 {
				shares[i] += more
				limit -= more
				given += more
			}
		}
		if given == 0 {
			break
		}
	}
	return shares
}

// chosen are the best lines of a file, in the order of lines.
func (f fileHits) chosen(n int) []hit {
	hits := slices.Clone(f.hits)
	slices.SortStableFunc(hits, func(a, b hit) int { return cmp.Compare(b.score, a.score) })
	hits = hits[:n]
	slices.SortFunc(hits, func(a, b hit) int { return cmp.Compare(a.number, b.number) })
	return hits
}

// result shows the best.
func (a *findings) result(limit int, head string) Result {
	const forNotes = 1 << 10
	shares := a.share(limit)
	around := a.total <= min(fewMatches, limit)
	var text strings.Builder
	var r Result
	text.WriteString(valid(head) + "\n")
	shown, shownFiles := 0, 0
	var rest []fileHits
	full := false
	for i, f := range a.best {
		if shares[i] == 0 || full {
			rest = append(rest, f)
			continue
		}
		chosen := f.chosen(shares[i])
		group := f.show(chosen, around)
		for text.Len()+len(group) > maxSearchText-forNotes && len(chosen) > 1 {
			chosen = chosen[:len(chosen)-1]
			group = f.show(chosen, false)
		}
		if full = text.Len()+len(group) > maxSearchText-forNotes; full {
			rest = append(rest, f)
			continue
		}
		text.WriteString("\n" + group)
		if left := f.total - len(chosen); left > 0 {
			fmt.Fprintf(&text, "(%d more in this file)\n", left)
		}
		for _, h := range chosen {
			r.Sources = append(r.Sources, chunk.Source{Type: "code", Path: f.path, Line: h.number})
		}
		shown += len(chosen)
		shownFiles++
	}
	if shown < a.total {
		fmt.Fprintf(&text, "\n(%d of %s shown%s; give a longer query, or a path, to see others)\n", shown, a.summary(), a.alsoIn(rest, a.files-shownFiles))
	}
	if a.large > 0 {
		fmt.Fprintf(&text, "(not searched, for their size: %s)\n", count(a.large, "file", "files"))
	}
	r.Text = text.String()
	return r
}

// alsoIn names files of which nothing is shown, of which there are so many.
func (a *findings) alsoIn(rest []fileHits, files int) string {
	if files == 0 {
		return ""
	}
	const most, length = 8, 100
	var names []string
	for _, f := range rest[:min(len(rest), most)] {
		if len(f.path) <= length {
			names = append(names, fmt.Sprintf("%s (%d)", valid(f.path), f.total))
		}
	}
	if more := files - len(names); more > 0 {
		names = append(names, fmt.Sprintf("%s more", count(more, "file", "files")))
	}
	return ", also in " + strings.Join(names, ", ")
}

// show writes lines of a file, with those around them if need be. A match has a colon after its number, as grep has it.
func (f fileHits) show(hits []hit, around bool) string {
	var text strings.Builder
	name := valid(f.path)
	last := 0
	matched := make(map[int]bool, len(hits))
	for _, h := range hits {
		matched[h.number] = true
	}
	aside := func(number int, line string) {
		if number > last && !matched[number] {
			fmt.Fprintf(&text, "%s-%d- %s\n", name, number, line)
			last = number
		}
	}
	for _, h := range hits {
		if around && h.hasBefore && strings.TrimSpace(h.before) != "" {
			aside(h.number-1, h.before)
		}
		fmt.Fprintf(&text, "%s:%d: %s\n", name, h.number, h.text)
		last = h.number
		if around && h.hasAfter && strings.TrimSpace(h.after) != "" {
			aside(h.number+1, h.after)
		}
	}
	return text.String()
}

func isWordRune(r rune) bool { return r == '_' || unicode.IsLetter(r) || unicode.IsDigit(r) }
