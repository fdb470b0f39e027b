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
		".github/workflows/ci.yml": true, ".github/x": true, ".github": true, "x/.github/x": false,
		".githubs/x": false,
		"Makefile":   true, "sub/Makefile": false, "Makefile/x": true, "makefile": true,
		"MAKEFILE/x": true, "Makefiles": false, "Ma\u212aefile": true,
		"ci/run.sh": true, "ci/deep/run.sh": false, "ci/run.go": false,
		"golden/x": true, "a/b/golden/x": true, "golden/x/y": true, "Golden/X": true,
		"golden": false, "a/golden/golden/y": true,
		"a/b/c": true, "a/x/b/x/x/c": true, "a/b/b/c/c": true, "a/c/b": false, "a/b/c/d": true,
		"x1": true, "X1": true, "z1": false, "x12": false, "": false,
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
			return defined(pattern[1:], segments) || len(segments) > 0 &&
				defined(pattern, segments[1:])
		case len(segments) == 0:
			return false
		}
		ok, err := path.Match(pattern[0], segments[0])
		return err == nil && ok && defined(pattern[1:], segments[1:])
	}
	property.Check(t, func(t *rapid.T) {
		pattern := rapid.SliceOfN(rapid.SampledFrom([]string{"**", "a", "b", "*", "a*"}), 1,
			4).Draw(t, "pattern")
		segments := rapid.SliceOfN(rapid.SampledFrom([]string{"a", "b", "ab"}), 1, 5).Draw(t,
			"segments")
		c := &Config{Protected: []string{strings.Join(pattern, "/")}}
		want := false
		for i := range segments {
			want = want || defined(pattern, segments[:i+1])
		}
		if got := c.Protects(strings.Join(segments, "/")); got != want {
			t.Errorf("%t, want %t", got, want)
		}
	})
}

func TestProtectsBelow(t *testing.T) {
	c := mustParse(t, "protected: [.github/workflows/**, Makefile, 'ci/*.sh']\n")
	for name, want := range map[string]bool{
		".github": true, ".GitHub": true, ".github/workflows": true, ".github/workflows/x": true,
		".github/other": false,
		"ci":            true, "ci/x": false, "ci/x.sh": true, "Makefile": true, "src": false,
		"src/ci": false,
	} {
		if got := c.ProtectsBelow(name); got != want {
			t.Errorf("%q: %t, want %t", name, got, want)
		}
	}
	if c := mustParse(t, "protected: ['**/*_test.go']\n"); !c.ProtectsBelow("src/lib") {
		t.Error("a folder anywhere can have tests")
	}
	// Whatever is protected is below each of its folders.
	property.Check(t, func(t *rapid.T) {
		pattern := rapid.SliceOfN(rapid.SampledFrom([]string{"**", "a", "b", "*", "a*"}), 1,
			4).Draw(t, "pattern")
		segments := rapid.SliceOfN(rapid.SampledFrom([]string{"a", "b", "ab"}), 2, 5).Draw(t,
			"segments")
		c := &Config{Protected: []string{strings.Join(pattern, "/")}}
		for i := 1; i < len(segments); i++ {
			if c.Protects(strings.Join(segments, "/")) &&
				!c.ProtectsBelow(strings.Join(segments[:i], "/")) {
				t.Errorf("not below %v", segments[:i])
			}
		}
	})
}
