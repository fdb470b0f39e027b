package config

import (
	"path"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"signalbox/internal/testkit/property"
)

func TestProtects(t *testing.T) {
	c := mustParse(t, "protected: [.github/**, Makefile, 'ci/*.sh', '**/golden/*', 'a/**/b/**/c', '[xy]?']\n")
	for name, want := range map[string]bool{
		".github/workflows/ci.yml": true, ".github/x": true, ".github": true, "x/.github/x": false, ".githubs/x": false,
		"Makefile": true, "sub/Makefile": false, "Makefile/x": false,
		"ci/run.sh": true, "ci/deep/run.sh": false, "ci/run.go": false,
		"golden/x": true, "a/b/golden/x": true, "golden/x/y": false, "golden": false, "a/golden/golden/y": true,
		"a/b/c": true, "a/x/b/x/x/c": true, "a/b/b/c/c": true, "a/c/b": false, "a/b/c/d": false,
		"x1": true, "z1": false, "x12": false, "": false,
	} {
		if got := c.Protects(name); got != want {
			t.Errorf("%q: %t, want %t", name, got, want)
		}
	}
}

// TestMatchesDefinition compares matches with the definition, which takes exponential time.
func TestMatchesDefinition(t *testing.T) {
	var defined func(pattern, segments []string) bool
	defined = func(pattern, segments []string) bool {
		switch {
		case len(pattern) == 0:
			return len(segments) == 0
		case pattern[0] == "**":
			return defined(pattern[1:], segments) || len(segments) > 0 && defined(pattern, segments[1:])
		case len(segments) == 0:
			return false
		}
		ok, err := path.Match(pattern[0], segments[0])
		return err == nil && ok && defined(pattern[1:], segments[1:])
	}
	property.Check(t, func(t *rapid.T) {
		pattern := rapid.SliceOfN(rapid.SampledFrom([]string{"**", "a", "b", "*", "a*"}), 1, 4).Draw(t, "pattern")
		segments := rapid.SliceOfN(rapid.SampledFrom([]string{"a", "b", "ab"}), 1, 5).Draw(t, "segments")
		c := &Config{Protected: []string{strings.Join(pattern, "/")}}
		if got, want := c.Protects(strings.Join(segments, "/")), defined(pattern, segments); got != want {
			t.Errorf("%t, want %t", got, want)
		}
	})
}
