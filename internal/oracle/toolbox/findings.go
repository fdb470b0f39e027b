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
	"signalbox/internal/text"
)

// hit is a matching line.
type hit struct {
	number int
	text   string
	score  int
	// before and after are the neighbouring lines, if they exist.
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

// fileHits are the matches in one file. Files with a higher score are shown first.
type fileHits struct {
	path  string
	score int
	hits  []hit // in line order
	total int   // including those that are not in hits
}

func better(a, b fileHits) int {
	return cmp.Or(cmp.Compare(b.score, a.score), cmp.Compare(a.path, b.path))
}

// findings collects the best matches. It keeps a bounded number of lines, and the result does not
// depend on the order in which files are added.
type findings struct {
	mu              sync.Mutex // guards the fields while scanners run
	best            []fileHits // sorted, at most maxMatches
	files, total    int
	searched, large int
}

// skip counts a file that is too large to be searched.
func (a *findings) skip() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.large++
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

// summary returns for instance "3 matches in 2 files".
func (a *findings) summary() string {
	return matches(a.total) + " in " + text.Count(a.files, "file")
}

func matches(n int) string {
	if n == 1 {
		return "1 match"
	}
	return fmt.Sprintf("%d matches", n)
}

// share returns how many lines of each file are shown: three of each if possible, then more of the
// best files.
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

// chosen returns the n best lines of a file, in line order.
func (f fileHits) chosen(n int) []hit {
	hits := slices.Clone(f.hits)
	slices.SortStableFunc(hits, func(a, b hit) int { return cmp.Compare(b.score, a.score) })
	hits = hits[:n]
	slices.SortFunc(hits, func(a, b hit) int { return cmp.Compare(a.number, b.number) })
	return hits
}

// result formats the best matches.
func (a *findings) result(limit int, head string) Result {
	const forNotes = 1 << 10
	shares := a.share(limit)
	around := a.total <= min(fewMatches, limit)
	var out strings.Builder
	var r Result
	out.WriteString(valid(head) + "\n")
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
		for out.Len()+len(group) > maxSearchText-forNotes && len(chosen) > 1 {
			chosen = chosen[:len(chosen)-1]
			group = f.show(chosen, false)
		}
		if full = out.Len()+len(group) > maxSearchText-forNotes; full {
			rest = append(rest, f)
			continue
		}
		out.WriteString("\n" + group)
		if left := f.total - len(chosen); left > 0 {
			fmt.Fprintf(&out, "(%d more in this file)\n", left)
		}
		for _, h := range chosen {
			r.Sources = append(r.Sources, chunk.Source{Type: "code", Path: f.path, Line: h.number})
		}
		shown += len(chosen)
		shownFiles++
	}
	if shown < a.total {
		fmt.Fprintf(&out, "\n(%d of %s shown%s; use a longer query or a path to see others)\n",
			shown, a.summary(), a.alsoIn(rest, a.files-shownFiles))
	}
	if a.large > 0 {
		fmt.Fprintf(&out, "(not searched because of their size: %s)\n", text.Count(a.large, "file"))
	}
	r.Text = out.String()
	return r
}

// alsoIn lists files with matches that are not shown. files is their number; rest may have fewer.
func (a *findings) alsoIn(rest []fileHits, files int) string {
	if files == 0 {
		return ""
	}
	const maxNames, maxLength = 8, 100
	var names []string
	for _, f := range rest[:min(len(rest), maxNames)] {
		if len(f.path) <= maxLength {
			names = append(names, fmt.Sprintf("%s (%d)", valid(f.path), f.total))
		}
	}
	if more := files - len(names); more > 0 {
		names = append(names, fmt.Sprintf("%s more", text.Count(more, "file")))
	}
	return ", also in " + strings.Join(names, ", ")
}

// show formats lines of a file like grep does: a match has colons around its line number, a context
// line has dashes.
func (f fileHits) show(hits []hit, around bool) string {
	var out strings.Builder
	name := valid(f.path)
	last := 0
	matched := make(map[int]bool, len(hits))
	for _, h := range hits {
		matched[h.number] = true
	}
	context := func(number int, line string) {
		if number > last && !matched[number] {
			fmt.Fprintf(&out, "%s-%d- %s\n", name, number, line)
			last = number
		}
	}
	for _, h := range hits {
		if around && h.hasBefore && strings.TrimSpace(h.before) != "" {
			context(h.number-1, h.before)
		}
		fmt.Fprintf(&out, "%s:%d: %s\n", name, h.number, h.text)
		last = h.number
		if around && h.hasAfter && strings.TrimSpace(h.after) != "" {
			context(h.number+1, h.after)
		}
	}
	return out.String()
}

func isWordRune(r rune) bool { return r == '_' || unicode.IsLetter(r) || unicode.IsDigit(r) }
