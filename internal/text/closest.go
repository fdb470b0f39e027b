package text

import "strings"

// Closest returns the candidate that name is most likely a misspelling of, or "" if none is
// similar. Case is ignored, and a candidate that begins with name, or that name begins with, counts
// as similar. Ties go to the first candidate.
func Closest(name string, candidates []string) string {
	closest, least := "", min(2+len(name)/3, len(name)) // at this distance it is a different word
	lower := strings.ToLower(name)
	for _, candidate := range candidates {
		folded := strings.ToLower(candidate)
		d := EditDistance(lower, folded)
		if min(len(name), len(candidate)) > 1 &&
			(strings.HasPrefix(lower, folded) || strings.HasPrefix(folded, lower)) {
			d = min(d, 1)
		}
		if d < least {
			closest, least = candidate, d
		}
	}
	return closest
}
