package signalbox_test

import (
	"os"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestArchitecturePackages checks that ARCHITECTURE.md names every package that is not only for
// tests.
func TestArchitecturePackages(t *testing.T) {
	page := markdownText(t, "ARCHITECTURE.md")
	var names []string
	for _, s := range moduleSources(t) {
		if !s.isTest() && !slices.Contains(names, s.pkg()) {
			names = append(names, s.pkg())
		}
	}
	for _, name := range names {
		// The tables name a package by its path below the folder of its group.
		parts := strings.Split(name, "/")
		named := false
		for i := range parts {
			named = named || strings.Contains(page, "`"+strings.Join(parts[i:], "/")+"`")
		}
		if name != "." && !named {
			t.Errorf("ARCHITECTURE.md does not name %s", name)
		}
	}
}

// TestJourneys checks that the files and functions on the journeys of ARCHITECTURE.md exist.
func TestJourneys(t *testing.T) {
	_, journeys, _ := strings.Cut(markdownText(t, "ARCHITECTURE.md"), "\n## Journeys\n")
	journeys, _, _ = strings.Cut(journeys, "\n## ")
	steps := regexp.MustCompile("(?m)^\\d+\\. `([^`]+)`, `(\\w+)`").FindAllStringSubmatch(journeys,
		-1)
	if lines := regexp.MustCompile(`(?m)^\d+\. `).FindAllString(journeys, -1); len(steps) < 30 ||
		len(steps) != len(lines) {
		t.Errorf("%d steps of %d start with a file and a function", len(steps), len(lines))
	}
	for _, step := range steps {
		source, err := os.ReadFile(step[1])
		if err != nil {
			t.Error(err)
			continue
		}
		defines := `\b` + step[2] + `\b`
		if path.Ext(step[1]) == ".go" {
			defines = `(?m)^func (\([^)]*\) )?` + step[2] + `[\[(]`
		}
		if !regexp.MustCompile(defines).Match(source) {
			t.Errorf("%s has no function %s", step[1], step[2])
		}
	}
}
