package tax

import (
	"cmp"
	"runtime"
	"slices"
	"sync"
)

// workers is how many goroutines are worth their start for n things.
func workers(n int) int { return max(1, min(runtime.GOMAXPROCS(0), n/enoughRows)) }

// inParts calls f for contiguous parts of 0 to n, at the same time.
func inParts(n, parts int, f func(part, from, to int)) {
	var wait sync.WaitGroup
	for p := range parts {
		wait.Go(func() { f(p, p*n/parts, (p+1)*n/parts) })
	}
	wait.Wait()
}

// place is where an element belongs, and where it is.
type place struct {
	key   uint64
	index int32
}

func placeOf(d Date, row int32) place { return place{key: uint64(d)<<32 | uint64(row)} }

func (a place) compare(b place) int {
	if a.key != b.key {
		return cmp.Compare(a.key, b.key)
	}
	return cmp.Compare(a.index, b.index)
}

// sortPlaces returns the list in order; it may sort in place. All places differ, so that the order is the same however many
// goroutines sort.
func sortPlaces(list []place) []place {
	if workers(len(list)) == 1 {
		slices.SortFunc(list, place.compare)
		return list
	}
	middle := len(list) / 2
	a, b := list[:middle], list[middle:]
	inParts(2, 2, func(part, _, _ int) {
		if part == 0 {
			slices.SortFunc(a, place.compare)
		} else {
			slices.SortFunc(b, place.compare)
		}
	})
	merged := make([]place, 0, len(list))
	for len(a) > 0 && len(b) > 0 {
		if a[0].compare(b[0]) < 0 {
			merged, a = append(merged, a[0]), a[1:]
		} else {
			merged, b = append(merged, b[0]), b[1:]
		}
	}
	return append(append(merged, a...), b...)
}
