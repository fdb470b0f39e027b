package text

import (
	"strings"
	"testing"

	"pgregory.net/rapid"

	"signalbox/internal/testkit/property"
)

func TestDistance(t *testing.T) {
	for _, c := range []struct {
		a, b string
		want int
	}{
		{"", "", 0}, {"a", "", 1}, {"", "ab", 2}, {"kitten", "sitting", 3}, {"sequense", "sequence", 1}, {"ab", "ba", 2}, {"flaw", "lawn", 2},
		{strings.Repeat("x", 101), strings.Repeat("x", 101), 101},
	} {
		if got := EditDistance(c.a, c.b); got != c.want {
			t.Errorf("%q and %q: %d, want %d", c.a, c.b, got, c.want)
		}
	}
}

// It is a distance: nothing from a word to itself, the same both ways, and no way round is shorter.
func TestDistanceIsOne(t *testing.T) {
	word := rapid.StringMatching(`[abc]{0,8}`)
	property.Check(t, func(t *rapid.T) {
		a, b, c := word.Draw(t, "a"), word.Draw(t, "b"), word.Draw(t, "c")
		if EditDistance(a, a) != 0 || EditDistance(a, b) != EditDistance(b, a) || EditDistance(a, c) > EditDistance(a, b)+EditDistance(b, c) || (a != b) != (EditDistance(a, b) > 0) {
			t.Fatalf("%d, %d, %d, %d", EditDistance(a, a), EditDistance(a, b), EditDistance(b, c), EditDistance(a, c))
		}
	})
}
