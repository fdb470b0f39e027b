package config

import (
	"fmt"
	"strings"

	"signalbox/internal/text"
)

// suggest returns the hint for an unknown name: the most similar known one, or what and all of
// them.
func suggest[T ~string](name string, known []T, what string) string {
	nearest, least := "", 1+len(name)/3 // more would be a different word
	for _, candidate := range known {
		if d := text.EditDistance(name, string(candidate)); d <= least && nearest == "" ||
			d < least {
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
