package config

import (
	"fmt"
	"strings"
)

// suggest is the hint for a name that is not among those there are: the nearest, or all of them after what is said
// of them.
func suggest[T ~string](name string, known []T, what string) string {
	nearest, least := "", 1+len(name)/3 // further away it is another word
	for _, candidate := range known {
		if d := distance(name, string(candidate)); d <= least && nearest == "" || d < least {
			nearest, least = string(candidate), d
		}
	}
	if nearest != "" {
		return fmt.Sprintf("did you mean %s?", nearest)
	}
	return fmt.Sprintf("%s %s", what, list(known))
}

func list[T ~string](names []T) string {
	texts := make([]string, len(names))
	for i, name := range names {
		texts[i] = string(name)
	}
	return strings.Join(texts, ", ")
}

// distance is how many letters to add, drop or change to make one word of the other.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			change := diagonal
			if a[i] != b[j] {
				change++
			}
			diagonal = row[j+1]
			row[j+1] = min(change, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}
