package main

import (
	"fmt"
	"slices"
	"strings"
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

// formatGoal formats a goal and whether it was met.
func formatGoal(goal string, met bool) string {
	if met {
		return goal + ": ok"
	}
	return goal + ": short"
}

func median(samples []float64) float64 {
	sorted := slices.Sorted(slices.Values(samples))
	n := len(sorted)
	return (sorted[(n-1)/2] + sorted[n/2]) / 2
}
