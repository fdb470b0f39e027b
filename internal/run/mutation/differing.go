package mutation

import (
	"bytes"
	"slices"
	"sort"
)

// differing reports of each line whether it is not one of the old lines. Lines that are once in
// both are compared first, and then those around them.
func differing(old, lines [][]byte) []bool {
	differs := slices.Repeat([]bool{true}, len(lines))
	taken := make([]bool, len(old))
	// take compares lines, from two that face each other, in one direction.
	take := func(o, n, step int) {
		for o >= 0 && n >= 0 && o < len(old) && n < len(lines) && !taken[o] && differs[n] &&
			bytes.Equal(old[o], lines[n]) {
			taken[o], differs[n] = true, false
			o, n = o+step, n+step
		}
	}
	take(0, 0, 1)
	take(len(old)-1, len(lines)-1, -1)
	for _, at := range anchors(old, lines) {
		take(at.old, at.new, -1)
		take(at.old+1, at.new+1, 1)
	}
	return differs
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
