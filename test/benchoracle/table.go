package main

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// table is a Markdown table; the first row is its header.
type table [][]string

func (t *table) row(cells ...string) { *t = append(*t, cells) }

func (t table) print(title string) {
	fmt.Printf("\n### %s\n\n", title)
	for i, cells := range t {
		fmt.Printf("| %s |\n", strings.Join(cells, " | "))
		if i == 0 {
			fmt.Printf("|---|%s\n", strings.Repeat("---:|", len(cells)-2)+"---|")
		}
	}
}

// verdict shows a goal and whether it was met.
func verdict(goal string, met bool) string {
	if met {
		return goal + ": ok"
	}
	return goal + ": short"
}

// samples are times of the same thing.
type samples []time.Duration

// at is the time that so many of a hundred samples do not exceed.
func (s samples) at(percent int) time.Duration {
	if len(s) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(s))
	return sorted[min(len(sorted)-1, (len(sorted)*percent+99)/100-1)]
}

// percentiles adds a row. A goal of 0 is none.
func (t *table) percentiles(name string, s samples, goal time.Duration) {
	said := ""
	if goal > 0 {
		said = verdict(fmt.Sprintf("≤ %g ms", float64(goal)/1e6), len(s) > 0 && s.at(99) <= goal)
	}
	t.row(name, fmt.Sprint(len(s)), ms(s.at(50)), ms(s.at(90)), ms(s.at(99)), said)
}

// ms is a time in milliseconds, with as many digits as can mean something.
func ms(d time.Duration) string { return fmt.Sprintf("%.3f", float64(d)/1e6) }
