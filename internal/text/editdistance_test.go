package text

import (
	"strings"
	"testing"

	"pgregory.net/rapid"

	"signalbox/internal/testkit/property"
)

func TestEditDistance(t *testing.T) {
	for _, c := range []struct {
		a, b string
		want int
	}{
		{"", "", 0}, {"a", "", 1}, {"", "ab", 2}, {"kitten", "sitting", 3},
		{"sequense", "sequence", 1}, {"ab", "ba", 1}, {"reveiwer", "reviewer", 1},
		{"flaw", "lawn", 2},
		{strings.Repeat("x", 101), strings.Repeat("x", 101), 101},
	} {
		if got := EditDistance(c.a, c.b); got != c.want {
			t.Errorf("%q and %q: %d, want %d", c.a, c.b, got, c.want)
		}
	}
}

// TestEditDistanceProperties checks that only equal words have distance 0, and that the distance is
// symmetric.
func TestEditDistanceProperties(t *testing.T) {
	word := rapid.StringMatching(`[abc]{0,8}`)
	property.Check(t, func(t *rapid.T) {
		a, b := word.Draw(t, "a"), word.Draw(t, "b")
		if got, back := EditDistance(a, b), EditDistance(b, a); got != back ||
			(got == 0) != (a == b) || got > max(len(a), len(b)) {
			t.Fatalf("%q and %q: %d, back %d", a, b, got, back)
		}
	})
}
