package mutation

import (
	"bytes"
	"slices"
	"sort"
)

// Moved returns which line of a file is the given line of its old version, both from 1; 0 if it is
// not there.
func Moved(old, source []byte, line int) int {
	if bytes.Equal(old, source) {
		return line
	}
	return slices.Index(origins(bytes.SplitAfter(old, []byte("\n")),
		bytes.SplitAfter(source, []byte("\n"))), line-1) + 1
}

// origins returns which of the old lines each line is, from 0, and -1 for new lines. Lines that are
// once in both are compared first, and then those around them.
func origins(old, lines [][]byte) []int {
	origin := slices.Repeat([]int{-1}, len(lines))
	taken := make([]bool, len(old))
	// take compares lines, from two that face each other, in one direction.
	take := func(o, n, step int) {
		for o >= 0 && n >= 0 && o < len(old) && n < len(lines) && !taken[o] && origin[n] < 0 &&
			bytes.Equal(old[o], lines[n]) {
			taken[o], origin[n] = true, o
			o, n = o+step, n+step
		}
	}
	take(0, 0, 1)
	take(len(old)-1, len(lines)-1, -1)
	for _, at := range anchors(old, lines) {
		take(at.old, at.new, -1)
		take(at.old+1, at.new+1, 1)
	}
	return origin
}

// anchor is a line that is once in the old file and once in the new one.
type anchor struct{ old, new int }

// anchors returns the longest list of anchors that are in the same order in both files.
func anchors(old, lines [][]byte) []anchor {
	type place struct{ old, new, olds, news int }
	places := map[string]*place{}
	at := func(line []byte) *place {
		p := places[string(line)]
		if p == nil {
			p = &place{}
			places[string(line)] = p
		}
		return p
	}
	for i, line := range old {
		p := at(line)
		p.old, p.olds = i, p.olds+1
	}
	for i, line := range lines {
		p := at(line)
		p.new, p.news = i, p.news+1
	}
	var all []anchor // by their places in the new file
	for i, line := range lines {
		if p := at(line); p.olds == 1 && p.news == 1 {
			all = append(all, anchor{p.old, i})
		}
	}
	// ends[n] is the anchor with the smallest old line that ends a list of n+1 anchors.
	var ends []int
	before := make([]int, len(all))
	for i, a := range all {
		n := sort.Search(len(ends), func(n int) bool { return all[ends[n]].old >= a.old })
		before[i] = -1
		if n > 0 {
			before[i] = ends[n-1]
		}
		if n == len(ends) {
			ends = append(ends, i)
		} else {
			ends[n] = i
		}
	}
	var longest []anchor
	if len(ends) > 0 {
		for i := ends[len(ends)-1]; i >= 0; i = before[i] {
			longest = append(longest, all[i])
		}
	}
	slices.Reverse(longest)
	return longest
}
